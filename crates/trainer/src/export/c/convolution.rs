//! Convolutions in a source file.

use crate::export::c::network::FunctionBody;
use crate::export::c::syntax::Syntax;
use pavlov_learn::Parameter;
use pavlov_learn::base::Result;

impl FunctionBody {
    /// Writes a convolution of an image whose channels stand first, with a result of `columns` columns; returns its variable.
    /// `around` is the padding: left, right, top, bottom.
    pub(super) fn convolution(
        &mut self,
        x: &str,
        (weight, bias): (&Parameter, &Parameter),
        [_, height, width]: [usize; 3],
        (stride, around): ([usize; 2], [usize; 4]),
        columns: usize,
    ) -> Result<String> {
        let [left, right, top, bottom] = around;
        let kernel = &weight.shape;
        let [out, channels, tall, wide] = [kernel[0], kernel[1], kernel[2], kernel[3]];
        let rows = (height + top + bottom - tall) / stride[0] + 1;
        let places = (width + left + right - wide) / stride[1] + 1;
        let syntax = self.syntax;
        let (weights, scales) = self.matrix(&weight.numbers, channels * tall * wide, out)?;
        let bias = self.array(&bias.numbers)?;
        let y = self.variable(columns);
        let at = format!("{weights}[((o * {channels} + k) * {tall} + m) * {wide} + n]");
        let weight = if scales.is_some() { syntax.float(&at) } else { at };
        let result = match scales {
            Some(scales) => format!("sum * {scales}[o] + {bias}[o]"),
            None => format!("sum + {bias}[o]"),
        };
        let Walk { begin, from, to, end } = walk(syntax, [out, channels, tall, wide], [rows, places]);
        begin.iter().for_each(|line| self.line(line));
        let [row, column] = [format!("p * {} + m", stride[0]), format!("q * {} + n", stride[1])];
        let inside = format!(
            "{row} >= {top} && {row} < {} && {column} >= {left} && {column} < {}",
            height + top,
            width + left
        );
        let inside =
            if top == 0 && left == 0 { format!("{row} < {height} && {column} < {width}") } else { inside };
        let pixel = format!("{x}[(k * {height} + {row} - {top}) * {width} + {column} - {left}]");
        self.line(&format!(
            "{from}if {} {{ sum = sum + {weight} * {pixel}; }}{to}",
            match syntax {
                Syntax::C => format!("({inside})"),
                Syntax::Rust => inside,
            }
        ));
        self.line(&format!("        {y}[(o * {rows} + p) * {places} + q] = {result};"));
        end.iter().for_each(|line| self.line(line));
        Ok(y)
    }
}

/// The loops around the innermost line of a convolution.
struct Walk {
    begin: Vec<String>,
    from: String,
    to: &'static str,
    end: Vec<&'static str>,
}

fn walk(syntax: Syntax, [out, channels, tall, wide]: [usize; 4], [rows, places]: [usize; 2]) -> Walk {
    match syntax {
        Syntax::C => Walk {
            begin: vec![
                "{".into(),
                "    long o, p, q, k, m, n;".into(),
                format!(
                    "    for (o = 0; o < {out}; o++) for (p = 0; p < {rows}; p++) for (q = 0; q < {places}; q++) {{"
                ),
                "        float sum = 0.0f;".into(),
            ],
            from: format!(
                "        for (k = 0; k < {channels}; k++) for (m = 0; m < {tall}; m++) for (n = 0; n < {wide}; n++) "
            ),
            to: "",
            end: vec!["    }", "}"],
        },
        Syntax::Rust => Walk {
            begin: vec![
                format!(
                    "for o in 0..{out}_usize {{ for p in 0..{rows}_usize {{ for q in 0..{places}_usize {{"
                ),
                "        let mut sum = 0.0_f32;".into(),
            ],
            from: format!(
                "        for k in 0..{channels}_usize {{ for m in 0..{tall}_usize {{ for n in 0..{wide}_usize {{ "
            ),
            to: " }}}",
            end: vec!["}}}"],
        },
    }
}
