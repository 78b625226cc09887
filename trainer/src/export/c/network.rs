//! The network of a recording as lines of C.

use crate::base::{Error, Result};
use crate::learn::engines::NORM_EPSILON;
use crate::learn::loss::{Cell, Layer, Op};
use crate::learn::{Parameter, RecordedOp, Recording};
use crate::settings::Activation;
use std::fmt::Write;

/// The text of a number, the shortest that reads back equal.
///
/// # Errors
/// Returns [`Error::State`] if the number is not finite.
pub(super) fn number(x: f32) -> Result<String> {
    if x.is_finite() {
        return Ok(format!("{x:?}f"));
    }
    let reason = format!("a weight is {x}, which C cannot write; train again with a smaller learning rate");
    Err(Error::state("the policy's network", reason))
}

/// Lines of a C file in the making.
#[derive(Debug, Default)]
pub(super) struct FunctionBody {
    /// Arrays of weights, before all functions.
    pub(super) constants: String,
    /// Variables of the function.
    pub(super) variables: String,
    /// What the function does.
    pub(super) body: String,
    /// Number of scalars of all variables.
    pub(super) scalars: usize,
    arrays: usize,
    names: usize,
    /// Number of scalars of recurrent state so far.
    memory: usize,
}

impl FunctionBody {
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
        let _ = writeln!(self.variables, "    float {name}[{}];", scalars.max(1));
        name
    }

    /// Adds an array of constants and returns its name.
    pub(super) fn array(&mut self, numbers: &[f32]) -> Result<String> {
        let name = format!("c{}", self.arrays);
        self.arrays += 1;
        let _ = write!(self.constants, "static const float {name}[{}] = {{", numbers.len());
        for (i, &x) in numbers.iter().enumerate() {
            self.constants.push_str(if i % 8 == 0 { "\n    " } else { " " });
            self.constants.push_str(&number(x)?);
            self.constants.push(',');
        }
        self.constants.push_str("\n};\n\n");
        Ok(name)
    }

    /// Writes `value` to each scalar of a variable; `value` may use its index `i`.
    pub(super) fn for_each(&mut self, to: &str, count: usize, value: &str) {
        self.line(&format!("for (i = 0; i < {count}; i++) {to}[i] = {value};"));
    }

    /// Writes all steps of a recording; returns the variable of each.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the network has a layer or an operation that the C file does not.
    pub(super) fn steps(&mut self, recording: &Recording, obs: &str) -> Result<Vec<String>> {
        let mut values: Vec<(String, usize)> = Vec::new();
        for (step, &columns) in recording.steps.iter().zip(&recording.columns) {
            let value = match step {
                RecordedOp::Obs => obs.to_owned(),
                RecordedOp::Mask => {
                    let to = self.variable(columns);
                    self.for_each(&to, columns, "mask[i] ? 1.0f : 0.0f");
                    to
                }
                RecordedOp::Number(x) => {
                    let to = self.variable(1);
                    self.line(&format!("{to}[0] = {};", number(*x)?));
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
        // An operand of one column, or one number, is repeated.
        let at = |i: usize| {
            let (name, columns) = operands[i];
            if columns > 1 { format!("{name}[i]") } else { format!("{name}[0]") }
        };
        let value = match op {
            Op::Exp => format!("policy_exp({})", at(0)),
            Op::Sqrt => format!("policy_sqrt({})", at(0)),
            Op::Square => format!("{0} * {0}", at(0)),
            Op::Abs => format!("{0} < 0.0f ? -{0} : {0}", at(0)),
            Op::Tanh => format!("policy_tanh({})", at(0)),
            Op::Sigmoid => format!("policy_sigmoid({})", at(0)),
            Op::Relu => format!("{0} > 0.0f ? {0} : 0.0f", at(0)),
            Op::Clamp(low, high) => {
                let mut value = at(0);
                if low.is_finite() {
                    value = format!("({value} < {0} ? {0} : {value})", number(low as f32)?);
                }
                if high.is_finite() {
                    value = format!("({value} > {0} ? {0} : {value})", number(high as f32)?);
                }
                value
            }
            Op::Scale(scale, shift) => {
                format!("{} * {} + {}", at(0), number(scale as f32)?, number(shift as f32)?)
            }
            Op::Detach => at(0),
            Op::Narrow(start, _) => format!("{x}[{start} + i]"),
            Op::Add => format!("{} + {}", at(0), at(1)),
            Op::Sub => format!("{} - {}", at(0), at(1)),
            Op::Mul => format!("{} * {}", at(0), at(1)),
            Op::Div => format!("{} / {}", at(0), at(1)),
            Op::Minimum => format!("{0} < {1} ? {0} : {1}", at(0), at(1)),
            Op::Maximum => format!("{0} > {1} ? {0} : {1}", at(0), at(1)),
            Op::Mask => format!("{} != 0.0f ? {} : -1e9f", at(1), at(0)),
            Op::Cat => {
                let (other, _) = operands[1];
                format!("i < {width} ? {x}[i < {width} ? i : 0] : {other}[i < {width} ? 0 : i - {width}]")
            }
            Op::Argmax => format!("(float)policy_argmax({x}, {width})"),
            Op::Gather(width) => format!("{x}[(int){}[0] * {width} + i]", operands[1].0),
            Op::Expectation(low, high) => {
                let step = (high - low) / (width.max(2) - 1) as f64;
                let to = self.variable(1);
                let place = format!("({} + {} * (float)i)", number(low as f32)?, number(step as f32)?);
                self.line(&format!("{to}[0] = 0.0f;"));
                self.line(&format!("for (i = 0; i < {width}; i++) {to}[0] = {to}[0] + {x}[i] * {place};"));
                return Ok(to);
            }
            Op::SumColumns | Op::MeanColumns => {
                let to = self.variable(1);
                self.line(&format!("{to}[0] = 0.0f;"));
                self.line(&format!("for (i = 0; i < {width}; i++) {to}[0] = {to}[0] + {x}[i];"));
                if matches!(op, Op::MeanColumns) {
                    self.line(&format!("{to}[0] = {to}[0] / {}.0f;", width.max(1)));
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
            Layer::Conv2d { .. } => Err(absent("convolutions")),
            Layer::Norm { width, .. } => {
                let [scale, shift] = [self.array(&weights[0].numbers)?, self.array(&weights[1].numbers)?];
                let sums = self.variable(2);
                let y = self.variable(width);
                let epsilon = number(NORM_EPSILON as f32)?;
                self.line(&format!("{sums}[0] = {sums}[1] = 0.0f;"));
                self.line(&format!("for (i = 0; i < {width}; i++) {sums}[0] = {sums}[0] + {x}[i];"));
                self.line(&format!("{sums}[0] = {sums}[0] / {width}.0f;"));
                self.for_each(&y, width, &format!("{x}[i] - {sums}[0]"));
                self.line(&format!("for (i = 0; i < {width}; i++) {sums}[1] = {sums}[1] + {y}[i] * {y}[i];"));
                self.line(&format!("{sums}[1] = policy_sqrt({sums}[1] / {width}.0f + {epsilon});"));
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
        let turned: Vec<f32> =
            (0..inputs).flat_map(|i| (0..out).map(move |o| weight.numbers[o * inputs + i])).collect();
        let [weight, bias] = [self.array(&turned)?, self.array(&bias.numbers)?];
        let y = self.variable(out);
        self.for_each(&y, out, &format!("{bias}[i]"));
        self.line(&format!("for (j = 0; j < {inputs}; j++) for (i = 0; i < {out}; i++)"));
        self.line(&format!("    {y}[i] = {y}[i] + {weight}[j * {out} + i] * {x}[j];"));
        Ok(y)
    }

    fn activate(&mut self, activation: Activation, y: &str, columns: usize) {
        let value = match activation {
            Activation::Linear => return,
            Activation::Tanh => format!("policy_tanh({y}[i])"),
            Activation::Relu => format!("{y}[i] > 0.0f ? {y}[i] : 0.0f"),
            Activation::Elu => format!("{y}[i] > 0.0f ? {y}[i] : policy_exp({y}[i]) - 1.0f"),
            Activation::Swish => format!("{y}[i] * policy_sigmoid({y}[i])"),
        };
        self.for_each(y, columns, &value);
    }

    fn recurrent(&mut self, x: &str, weights: &[Parameter], cell: Cell, units: usize) -> Result<String> {
        let first = self.memory;
        self.memory += cell.memory(units);
        let h = format!("(state->memory + {first})");
        let a = self.linear(x, &weights[0], &weights[1])?;
        let b = self.linear(&h, &weights[2], &weights[3])?;
        let gate = |name: &str, i: usize| format!("{name}[{} + i]", i * units);
        let sigmoid = |i: usize| format!("policy_sigmoid({} + {})", gate(&a, i), gate(&b, i));
        let y = self.variable(units);
        self.line(&format!("for (i = 0; i < {units}; i++) {{"));
        match cell {
            Cell::Gru => {
                self.line(&format!("    float r = {}, z = {}, n;", sigmoid(0), sigmoid(1)));
                self.line(&format!("    n = policy_tanh({} + r * {});", gate(&a, 2), gate(&b, 2)));
                self.line(&format!("    {y}[i] = n + z * ({h}[i] - n);"));
            }
            Cell::Lstm => {
                self.line(&format!(
                    "    float in = {}, f = {}, o = {}, n, c;",
                    sigmoid(0),
                    sigmoid(1),
                    sigmoid(3)
                ));
                self.line(&format!("    n = policy_tanh({} + {});", gate(&a, 2), gate(&b, 2)));
                self.line(&format!("    c = f * {h}[{units} + i] + in * n;"));
                self.line(&format!("    {h}[{units} + i] = c;"));
                self.line(&format!("    {y}[i] = o * policy_tanh(c);"));
            }
        }
        self.line("}");
        self.line(&format!("for (i = 0; i < {units}; i++) {h}[i] = {y}[i];"));
        Ok(y)
    }
}

fn absent(what: &str) -> Error {
    let reason = format!("it has {what}, which the C file does not; export it as ONNX");
    Error::state("the policy's network", reason)
}
