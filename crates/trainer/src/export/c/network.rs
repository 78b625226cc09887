//! The network of a recording as lines of a source file.

use crate::export::c::small::quantised;
use crate::export::c::syntax::{Kind, Syntax};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::engines::NORM_EPSILON;
use pavlov_learn::layers::Activation;
use pavlov_learn::loss::{Cell, Layer, Op};
use pavlov_learn::{Parameter, RecordedOp, Recording};
use std::fmt::Write;

/// Lines of a source file in the making.
#[derive(Debug, Default)]
pub(super) struct FunctionBody {
    pub(super) syntax: Syntax,
    /// Arrays of weights, before all functions.
    pub(super) constants: String,
    /// Variables of the function.
    pub(super) variables: String,
    /// What the function does.
    pub(super) body: String,
    /// Number of scalars of all variables.
    pub(super) scalars: usize,
    /// Whether weights are written in 8 bits.
    pub(super) in_8_bits: bool,
    arrays: usize,
    names: usize,
    /// Number of scalars of recurrent state so far.
    memory: usize,
}

impl FunctionBody {
    /// Makes the text of a function without statements.
    pub(super) fn new(syntax: Syntax, in_8_bits: bool) -> Self {
        Self { syntax, in_8_bits, ..Self::default() }
    }

    /// Number of scalars of recurrent state.
    pub(super) fn memory_units(&self) -> usize {
        self.memory
    }

    /// Whether the body, or a function that it uses, calls the function `name`.
    pub(super) fn uses(&self, name: &str) -> bool {
        let calls = |name: &str| self.body.contains(&format!("{name}("));
        match name {
            "policy_exp" => calls(name) || calls("policy_tanh") || calls("policy_sigmoid"),
            _ => calls(name),
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.body.push_str("    ");
        self.body.push_str(line);
        self.body.push('\n');
    }

    /// Adds a variable of some scalars and returns its name.
    pub(super) fn variable(&mut self, scalars: usize) -> String {
        let name = format!("v{}", self.names);
        self.names += 1;
        self.scalars += scalars;
        let _ = writeln!(self.variables, "    {}", self.syntax.variable(&name, scalars.max(1)));
        name
    }

    /// Adds an array of constants and returns its name.
    pub(super) fn array(&mut self, numbers: &[f32]) -> Result<String> {
        let texts = numbers.iter().map(|&x| self.syntax.number(x)).collect::<Result<Vec<_>>>()?;
        Ok(self.list(Kind::Float, &texts, 8))
    }

    /// Adds an array of constants of a type, so many to a line, and returns its name.
    fn list(&mut self, kind: Kind, texts: &[String], per_line: usize) -> String {
        let (name, begin, end) = self.syntax.array(self.arrays, kind, texts.len());
        self.arrays += 1;
        self.constants.push_str(&begin);
        for (i, text) in texts.iter().enumerate() {
            self.constants.push_str(if i % per_line == 0 { "\n    " } else { " " });
            self.constants.push_str(text);
            self.constants.push(',');
        }
        let _ = write!(self.constants, "\n{end}\n\n");
        name
    }

    /// Writes `value` to each scalar of a variable; `value` may use its index `i`.
    pub(super) fn for_each(&mut self, to: &str, count: usize, value: &str) {
        self.line(&self.syntax.each('i', count, &format!("{to}[i] = {value};")));
    }

    /// Writes all steps of a recording; returns the variable of each.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the network has a layer or an operation that a source file does not.
    pub(super) fn steps(&mut self, recording: &Recording, obs: &str) -> Result<Vec<String>> {
        let mut values: Vec<(String, usize)> = Vec::new();
        for (step, &columns) in recording.steps.iter().zip(&recording.columns) {
            let value = match step {
                RecordedOp::Obs => obs.to_owned(),
                RecordedOp::Mask => {
                    let to = self.variable(columns);
                    let [one, zero] = ["1.0", "0.0"].map(|digits| self.syntax.literal(digits));
                    self.for_each(&to, columns, &self.syntax.pick("mask[i]", &one, &zero));
                    to
                }
                RecordedOp::Number(x) => {
                    let to = self.variable(1);
                    self.line(&format!("{to}[0] = {};", self.syntax.number(*x)?));
                    to
                }
                RecordedOp::Apply(op, operands) => {
                    let operands: Vec<(&str, usize)> =
                        operands.iter().map(|&at| (values[at].0.as_str(), values[at].1)).collect();
                    self.apply(*op, &operands, columns)?
                }
                RecordedOp::Layer(layer, operands, weights) => {
                    let x = operands.first().map_or(obs, |&at| values[at].0.as_str()).to_owned();
                    self.layer(*layer, &x, weights, columns)?
                }
            };
            values.push((value, columns));
        }
        Ok(values.into_iter().map(|(name, _)| name).collect())
    }

    fn apply(&mut self, op: Op, operands: &[(&str, usize)], columns: usize) -> Result<String> {
        let (x, width) = operands[0];
        let syntax = self.syntax;
        let zero = syntax.literal("0.0");
        // An operand of one column, or one number, is repeated.
        let at = |i: usize| {
            let (name, columns) = operands[i];
            if columns > 1 { format!("{name}[i]") } else { format!("{name}[0]") }
        };
        let smaller = |a: &str, b: &str| syntax.pick(&format!("{a} < {b}"), a, b);
        let larger = |a: &str, b: &str| syntax.pick(&format!("{a} > {b}"), a, b);
        let value = match op {
            Op::Exp => format!("policy_exp({})", at(0)),
            Op::Sqrt => format!("policy_sqrt({})", at(0)),
            Op::Square => format!("{0} * {0}", at(0)),
            Op::Abs => syntax.pick(&format!("{} < {zero}", at(0)), &format!("-{}", at(0)), &at(0)),
            Op::Tanh => format!("policy_tanh({})", at(0)),
            Op::Sigmoid => format!("policy_sigmoid({})", at(0)),
            Op::Relu => larger(&at(0), &zero),
            Op::Clamp(low, high) => {
                let mut value = at(0);
                if low.is_finite() {
                    let low = syntax.number(low as f32)?;
                    value = syntax.pick(&format!("{value} < {low}"), &low, &value);
                }
                if high.is_finite() {
                    let high = syntax.number(high as f32)?;
                    value = syntax.pick(&format!("{value} > {high}"), &high, &value);
                }
                value
            }
            Op::Scale(scale, shift) => {
                format!("{} * {} + {}", at(0), syntax.number(scale as f32)?, syntax.number(shift as f32)?)
            }
            Op::Detach => at(0),
            Op::Narrow(start, _) => format!("{x}[{start} + i]"),
            Op::Add => format!("{} + {}", at(0), at(1)),
            Op::Sub => format!("{} - {}", at(0), at(1)),
            Op::Mul => format!("{} * {}", at(0), at(1)),
            Op::Div => format!("{} / {}", at(0), at(1)),
            Op::Minimum => smaller(&at(0), &at(1)),
            Op::Maximum => larger(&at(0), &at(1)),
            Op::Mask => syntax.pick(&format!("{} != {zero}", at(1)), &at(0), &syntax.literal("-1e9")),
            Op::Cat => {
                let (other, _) = operands[1];
                let of_first = format!("i < {width}");
                // Both values are in range, whichever is taken: compilers warn of others.
                let [first, second] = match syntax {
                    Syntax::C => [format!("i < {width} ? i : 0"), format!("i < {width} ? 0 : i - {width}")],
                    Syntax::Rust => ["i".to_owned(), format!("i - {width}")],
                };
                syntax.pick(&of_first, &format!("{x}[{first}]"), &format!("{other}[{second}]"))
            }
            Op::Argmax => syntax.float(&syntax.argmax(x, 0, width)),
            Op::Gather(width) => {
                format!("{x}[{} * {width} + i]", syntax.index(&format!("{}[0]", operands[1].0)))
            }
            Op::Expectation(low, high) => {
                let step = (high - low) / (width.max(2) - 1) as f64;
                let [low, step] = [syntax.number(low as f32)?, syntax.number(step as f32)?];
                let to = self.variable(1);
                self.line(&format!("{to}[0] = {zero};"));
                let place = format!("({low} + {step} * {})", syntax.float("i"));
                let sum = format!("{to}[0] = {to}[0] + {x}[i] * {place};");
                self.line(&syntax.each('i', width, &sum));
                return Ok(to);
            }
            Op::SumColumns | Op::MeanColumns => {
                let to = self.variable(1);
                self.line(&format!("{to}[0] = {zero};"));
                self.line(&syntax.each('i', width, &format!("{to}[0] = {to}[0] + {x}[i];")));
                if matches!(op, Op::MeanColumns) {
                    let count = syntax.number(width.max(1) as f32)?;
                    self.line(&format!("{to}[0] = {to}[0] / {count};"));
                }
                return Ok(to);
            }
            _ => return Err(absent(&format!("the operation {op:?}"))),
        };
        let to = self.variable(columns);
        self.for_each(&to, columns.max(1), &value);
        Ok(to)
    }

    fn layer(&mut self, layer: Layer, x: &str, weights: &[Parameter], columns: usize) -> Result<String> {
        match layer {
            Layer::Dense { activation, .. } | Layer::Noisy { activation, .. } => {
                let y = self.linear(x, &weights[0], &weights[1])?;
                self.activate(activation, &y, columns);
                Ok(y)
            }
            Layer::Conv2d { input, stride, padding, activation, .. } => {
                let y = self.convolution(x, (&weights[0], &weights[1]), input, (stride, padding), columns)?;
                self.activate(activation, &y, columns);
                Ok(y)
            }
            Layer::Norm { width, .. } => {
                let syntax = self.syntax;
                let [scale, shift] = [self.array(&weights[0].numbers)?, self.array(&weights[1].numbers)?];
                let sums = self.variable(2);
                let y = self.variable(width);
                let [epsilon, count] = [syntax.number(NORM_EPSILON as f32)?, syntax.number(width as f32)?];
                let zero = syntax.literal("0.0");
                self.line(&format!("{sums}[0] = {zero};"));
                self.line(&format!("{sums}[1] = {zero};"));
                self.line(&syntax.each('i', width, &format!("{sums}[0] = {sums}[0] + {x}[i];")));
                self.line(&format!("{sums}[0] = {sums}[0] / {count};"));
                self.for_each(&y, width, &format!("{x}[i] - {sums}[0]"));
                self.line(&syntax.each('i', width, &format!("{sums}[1] = {sums}[1] + {y}[i] * {y}[i];")));
                self.line(&format!("{sums}[1] = policy_sqrt({sums}[1] / {count} + {epsilon});"));
                self.for_each(&y, width, &format!("{y}[i] / {sums}[1] * {scale}[i] + {shift}[i]"));
                Ok(y)
            }
            Layer::Recurrent { units, cell, .. } => self.recurrent(x, weights, cell, units),
            Layer::Free { .. } => self.array(&weights[0].numbers),
        }
    }

    /// Writes `w x + b`, with the weights of one input side by side.
    fn linear(&mut self, x: &str, weight: &Parameter, bias: &Parameter) -> Result<String> {
        let &[out, inputs] = weight.shape.as_slice() else { return Err(absent("weights of that shape")) };
        let syntax = self.syntax;
        let turned: Vec<usize> = (0..inputs).flat_map(|i| (0..out).map(move |o| o * inputs + i)).collect();
        let (weights, scales) = self.turned(&weight.numbers, inputs, out, &turned)?;
        let bias = self.array(&bias.numbers)?;
        let y = self.variable(out);
        let first = if scales.is_some() { syntax.literal("0.0") } else { format!("{bias}[i]") };
        self.for_each(&y, out, &first);
        let at = format!("{weights}[j * {out} + i]");
        let at = if scales.is_some() { syntax.float(&at) } else { at };
        let inner = syntax.each('i', out, &format!("{y}[i] = {y}[i] + {at} * {x}[j];"));
        self.line(&syntax.each('j', inputs, &inner));
        if let Some(scales) = scales {
            self.for_each(&y, out, &format!("{y}[i] * {scales}[i] + {bias}[i]"));
        }
        Ok(y)
    }

    /// Adds the weights of `out` outputs, each with `width` inputs; see [`turned`](Self::turned).
    pub(super) fn matrix(
        &mut self,
        numbers: &[f32],
        width: usize,
        out: usize,
    ) -> Result<(String, Option<String>)> {
        let order: Vec<usize> = (0..numbers.len()).collect();
        self.turned(numbers, width, out, &order)
    }

    /// Adds the weights of `out` outputs, each with `width` inputs, in the order `order`. Returns the array, and that of the
    /// scales of the outputs if the weights are written in 8 bits.
    fn turned(
        &mut self,
        numbers: &[f32],
        width: usize,
        out: usize,
        order: &[usize],
    ) -> Result<(String, Option<String>)> {
        if !self.in_8_bits {
            let numbers: Vec<f32> = order.iter().map(|&at| numbers[at]).collect();
            return Ok((self.array(&numbers)?, None));
        }
        // A number that is not finite is refused before it is rounded away.
        numbers.iter().try_for_each(|&x| self.syntax.number(x).map(drop))?;
        let mut scales = Vec::with_capacity(out);
        let mut whole = Vec::with_capacity(numbers.len());
        for row in numbers.chunks_exact(width.max(1)) {
            let (scale, row) = quantised(row);
            scales.push(scale);
            whole.extend(row);
        }
        let texts: Vec<String> = order.iter().map(|&at| whole[at].to_string()).collect();
        let weights = self.list(Kind::Byte, &texts, 16);
        Ok((weights, Some(self.array(&scales)?)))
    }

    fn activate(&mut self, activation: Activation, y: &str, columns: usize) {
        let syntax = self.syntax;
        let [zero, one] = ["0.0", "1.0"].map(|digits| syntax.literal(digits));
        let above = format!("{y}[i] > {zero}");
        let x = format!("{y}[i]");
        let value = match activation {
            Activation::Linear => return,
            Activation::Tanh => format!("policy_tanh({x})"),
            Activation::Relu => syntax.pick(&above, &x, &zero),
            Activation::Elu => syntax.pick(&above, &x, &format!("policy_exp({x}) - {one}")),
            Activation::Swish => format!("{x} * policy_sigmoid({x})"),
        };
        self.for_each(y, columns, &value);
    }

    fn recurrent(&mut self, x: &str, weights: &[Parameter], cell: Cell, units: usize) -> Result<String> {
        let syntax = self.syntax;
        let first = self.memory;
        self.memory += cell.memory(units);
        let output = syntax.memory(&format!("{first} + i"));
        let h = self.variable(units);
        self.for_each(&h, units, &output);
        let a = self.linear(x, &weights[0], &weights[1])?;
        let b = self.linear(&h, &weights[2], &weights[3])?;
        let gate = |name: &str, i: usize| format!("{name}[{} + i]", i * units);
        let sigmoid = |i: usize| format!("policy_sigmoid({} + {})", gate(&a, i), gate(&b, i));
        let y = self.variable(units);
        let mut lines = Vec::new();
        match cell {
            Cell::Gru => {
                lines.push(syntax.local("r", &sigmoid(0)));
                lines.push(syntax.local("z", &sigmoid(1)));
                let new = format!("policy_tanh({} + r * {})", gate(&a, 2), gate(&b, 2));
                lines.push(syntax.local("n", &new));
                lines.push(format!("{y}[i] = n + z * ({h}[i] - n);"));
            }
            Cell::Lstm => {
                let kept = syntax.memory(&format!("{} + i", first + units));
                lines.push(syntax.local("u", &sigmoid(0)));
                lines.push(syntax.local("f", &sigmoid(1)));
                lines.push(syntax.local("o", &sigmoid(3)));
                lines.push(syntax.local("n", &format!("policy_tanh({} + {})", gate(&a, 2), gate(&b, 2))));
                lines.push(syntax.local("c", &format!("f * {kept} + u * n")));
                lines.push(format!("{kept} = c;"));
                lines.push(format!("{y}[i] = o * policy_tanh(c);"));
            }
        }
        self.line(&syntax.block('i', units));
        lines.iter().for_each(|line| self.line(&format!("    {line}")));
        self.line("}");
        self.line(&syntax.each('i', units, &format!("{output} = {y}[i];")));
        Ok(y)
    }
}

fn absent(what: &str) -> Error {
    let reason = format!("it has {what}, which a source file does not; export it as ONNX");
    Error::state("the policy's network", reason)
}
