//! The network of a recording, in operators of ONNX.

use crate::export::onnx::model::{Attribute, ElemType, Model};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::engines::NORM_EPSILON;
use pavlov_learn::layers::Activation;
use pavlov_learn::loss::{Cell, Layer, MASKED, Op};
use pavlov_learn::{Parameter, RecordedOp, Recording};

/// The network in a model: names of the values of its steps, and what memory becomes.
pub(super) struct Network {
    /// Name of the value of each step.
    pub(super) values: Vec<String>,
    /// For each recurrent state: its name as an input, the name of its next value, and its number of units.
    pub(super) memory: Vec<(String, String, usize)>,
}

/// Adds the steps of a recording to the model. `obs` and `mask` are the names of the encoded observations and of the
/// flags of legal actions.
///
/// # Errors
/// Returns [`Error::State`] if the network uses an operation that ONNX does not have.
pub(super) fn network(
    model: &mut Model,
    recording: &Recording,
    obs: &str,
    mask: Option<&str>,
) -> Result<Network> {
    let mut network = Network { values: Vec::new(), memory: Vec::new() };
    for (step, &columns) in recording.steps.iter().zip(&recording.columns) {
        let value = match step {
            RecordedOp::Obs => obs.to_owned(),
            RecordedOp::Mask => model.cast(mask.unwrap_or(obs), ElemType::F32),
            RecordedOp::Number(number) => model.number(*number),
            RecordedOp::Apply(Op::Expectation(low, high), operands) => {
                let x = network.values[operands[0]].clone();
                expectation(model, &x, recording.columns[operands[0]], [*low, *high])
            }
            RecordedOp::Apply(op, operands) => {
                let operands: Vec<&str> = operands.iter().map(|&at| network.values[at].as_str()).collect();
                apply(model, *op, &operands)?
            }
            RecordedOp::Layer(layer, operands, weights) => {
                let x = operands.first().map_or(obs, |&at| network.values[at].as_str()).to_owned();
                network.layer(model, *layer, &x, weights, columns, obs)
            }
        };
        network.values.push(value);
    }
    Ok(network)
}

fn apply(model: &mut Model, op: Op, operands: &[&str]) -> Result<String> {
    let x = operands[0];
    let rows = [("axis", Attribute::Int(1))];
    let by_attribute = [("axes", Attribute::Ints(vec![1])), ("keepdims", Attribute::Int(1))];
    let operator = match op {
        Op::Exp => "Exp",
        Op::Log => "Log",
        Op::Sqrt => "Sqrt",
        Op::Abs => "Abs",
        Op::Sign => "Sign",
        Op::Tanh => "Tanh",
        Op::Sigmoid => "Sigmoid",
        Op::Softplus => "Softplus",
        Op::Relu => "Relu",
        Op::Detach => "Identity",
        Op::Add => "Add",
        Op::Sub => "Sub",
        Op::Mul => "Mul",
        Op::Div => "Div",
        Op::Minimum => "Min",
        Op::Maximum => "Max",
        Op::Square => return Ok(model.op("Mul", &[x, x])),
        Op::Clamp(low, high) => {
            let mut x = x.to_owned();
            for (bound, operator) in [(low, "Max"), (high, "Min")] {
                if bound.is_finite() {
                    let bound = model.number(bound as f32);
                    x = model.op(operator, &[&x, &bound]);
                }
            }
            return Ok(x);
        }
        Op::Scale(scale, shift) => {
            let scale = model.number(scale as f32);
            let shift = model.number(shift as f32);
            let x = model.op("Mul", &[x, &scale]);
            return Ok(model.op("Add", &[&x, &shift]));
        }
        Op::LogSoftmax => return Ok(model.op_with("LogSoftmax", &[x], &rows)),
        Op::LogSumExp => return Ok(model.op_with("ReduceLogSumExp", &[x], &by_attribute)),
        Op::MeanColumns => return Ok(model.op_with("ReduceMean", &[x], &by_attribute)),
        Op::SumColumns => {
            let axes = model.integers(&[1]);
            return Ok(model.op_with("ReduceSum", &[x, &axes], &by_attribute[1..]));
        }
        Op::Argmax => {
            let index = model.argmax(x);
            return Ok(model.cast(&index, ElemType::F32));
        }
        Op::Narrow(start, len) => return Ok(model.columns(x, start, len)),
        Op::Gather(1) => {
            let index = model.cast(operands[1], ElemType::I64);
            return Ok(model.op_with("GatherElements", &[x, &index], &rows));
        }
        Op::Cat => return Ok(model.op_with("Concat", operands, &rows)),
        Op::Mask => {
            let legal = model.cast(operands[1], ElemType::Bool);
            return Ok(masked(model, x, &legal));
        }
        Op::Gather(_)
        | Op::Expectation(..)
        | Op::SortColumns
        | Op::QuantileHuber
        | Op::Project(..)
        | Op::Mean => {
            let reason =
                format!("it uses {op:?}, which exports do not have; act with `pavlov::load` instead");
            return Err(Error::state("the policy's network", reason));
        }
    };
    Ok(model.op(operator, operands))
}

/// The mean of distributions on so many equally spaced atoms between two bounds.
fn expectation(model: &mut Model, probabilities: &str, atoms: usize, [low, high]: [f64; 2]) -> String {
    let step = (high - low) / (atoms.max(2) - 1) as f64;
    let places = (0..atoms).map(|i| (low + step * i as f64) as f32).collect();
    let places = model.numbers(&[1, atoms], places);
    let parts = model.op("Mul", &[probabilities, &places]);
    let axes = model.integers(&[1]);
    model.op_with("ReduceSum", &[&parts, &axes], &[("keepdims", Attribute::Int(1))])
}

/// Replaces logits of illegal actions by -1e9.
pub(super) fn masked(model: &mut Model, logits: &str, legal: &str) -> String {
    let illegal = model.number(MASKED);
    model.op("Where", &[legal, logits, &illegal])
}

fn activate(model: &mut Model, activation: Activation, x: String) -> String {
    match activation {
        Activation::Linear => x,
        Activation::Tanh => model.op("Tanh", &[&x]),
        Activation::Relu => model.op("Relu", &[&x]),
        Activation::Elu => model.op("Elu", &[&x]),
        Activation::Swish => {
            let gate = model.op("Sigmoid", &[&x]);
            model.op("Mul", &[&x, &gate])
        }
    }
}

/// Adds `x w^T + b`.
fn linear(model: &mut Model, x: &str, weight: &Parameter, bias: &Parameter) -> String {
    let [weight, bias] = [weight, bias].map(|of| model.numbers(&of.shape, of.numbers.clone()));
    model.op_with("Gemm", &[x, &weight, &bias], &[("transB", Attribute::Int(1))])
}

impl Network {
    fn layer(
        &mut self,
        model: &mut Model,
        layer: Layer,
        x: &str,
        weights: &[Parameter],
        columns: usize,
        obs: &str,
    ) -> String {
        match layer {
            Layer::Dense { activation, .. } | Layer::Noisy { activation, .. } => {
                let y = linear(model, x, &weights[0], &weights[1]);
                activate(model, activation, y)
            }
            Layer::Conv2d { input, stride, padding, activation, .. } => {
                let x = model.reshape(x, &input);
                let [left, right, top, bottom] = padding;
                let ints = |numbers: &[usize]| Attribute::Ints(numbers.iter().map(|&n| n as i64).collect());
                let settings = [("strides", ints(&stride)), ("pads", ints(&[top, left, bottom, right]))];
                let [weight, bias] =
                    [0, 1].map(|i| model.numbers(&weights[i].shape, weights[i].numbers.clone()));
                let y = model.op_with("Conv", &[&x, &weight, &bias], &settings);
                let y = activate(model, activation, y);
                model.reshape(&y, &[columns])
            }
            Layer::Norm { width, .. } => norm(model, x, weights, width),
            Layer::Recurrent { units, cell, .. } => self.recurrent(model, x, weights, cell, units),
            Layer::Free { .. } => {
                // Repeated for every row: the shape is that of the observations with other columns.
                let shape = model.op("Shape", &[obs]);
                let [from, to] = [0, 1].map(|at| model.integers(&[at]));
                let rows = model.op("Slice", &[&shape, &from, &to]);
                let width = model.integers(&[columns as i64]);
                let shape = model.op_with("Concat", &[&rows, &width], &[("axis", Attribute::Int(0))]);
                let numbers = model.numbers(&[1, columns], weights[0].numbers.clone());
                model.op("Expand", &[&numbers, &shape])
            }
        }
    }

    /// Adds a step of a recurrent layer, written in parts, in PyTorch's order of gates.
    fn recurrent(
        &mut self,
        model: &mut Model,
        x: &str,
        weights: &[Parameter],
        cell: Cell,
        units: usize,
    ) -> String {
        let number = self.memory.iter().filter(|(name, ..)| name.starts_with('h')).count() + 1;
        let suffix = if number == 1 { String::new() } else { number.to_string() };
        let state = |model: &mut Model, name: &str| {
            model.input(
                &format!("{name}{suffix}"),
                ElemType::F32,
                &[units],
                "recurrent state; zeros where an episode begins",
            )
        };
        let h = state(model, "h");
        let from_input = linear(model, x, &weights[0], &weights[1]);
        let from_state = linear(model, &h, &weights[2], &weights[3]);
        let gate = |model: &mut Model, of: &str, i: usize| model.columns(of, i * units, units);
        let sum = |model: &mut Model, i: usize| {
            let [a, b] = [&from_input, &from_state].map(|of| gate(model, of, i));
            model.op("Add", &[&a, &b])
        };
        match cell {
            Cell::Gru => {
                let [r, z] = [0, 1].map(|i| {
                    let sum = sum(model, i);
                    model.op("Sigmoid", &[&sum])
                });
                let [new_x, new_h] = [&from_input, &from_state].map(|of| gate(model, of, 2));
                let reset = model.op("Mul", &[&r, &new_h]);
                let new = model.op("Add", &[&new_x, &reset]);
                let new = model.op("Tanh", &[&new]);
                let change = model.op("Sub", &[&h, &new]);
                let kept = model.op("Mul", &[&z, &change]);
                let next = model.op("Add", &[&new, &kept]);
                self.memory.push((h, next.clone(), units));
                next
            }
            Cell::Lstm => {
                let c = state(model, "c");
                let [i, f, o] = [0, 1, 3].map(|gate| {
                    let sum = sum(model, gate);
                    model.op("Sigmoid", &[&sum])
                });
                let new = sum(model, 2);
                let new = model.op("Tanh", &[&new]);
                let kept = model.op("Mul", &[&f, &c]);
                let added = model.op("Mul", &[&i, &new]);
                let next_c = model.op("Add", &[&kept, &added]);
                let shown = model.op("Tanh", &[&next_c]);
                let next = model.op("Mul", &[&o, &shown]);
                self.memory.push((h, next.clone(), units));
                self.memory.push((c, next_c, units));
                next
            }
        }
    }
}

/// Adds a layer normalisation, in parts: the operator came with a later version.
fn norm(model: &mut Model, x: &str, weights: &[Parameter], width: usize) -> String {
    let by_row = [("axes", Attribute::Ints(vec![1])), ("keepdims", Attribute::Int(1))];
    let mean = model.op_with("ReduceMean", &[x], &by_row);
    let centred = model.op("Sub", &[x, &mean]);
    let square = model.op("Mul", &[&centred, &centred]);
    let variance = model.op_with("ReduceMean", &[&square], &by_row);
    let epsilon = model.number(NORM_EPSILON as f32);
    let variance = model.op("Add", &[&variance, &epsilon]);
    let deviation = model.op("Sqrt", &[&variance]);
    let x = model.op("Div", &[&centred, &deviation]);
    let [scale, shift] = [0, 1].map(|i| model.numbers(&[1, width], weights[i].numbers.clone()));
    let x = model.op("Mul", &[&x, &scale]);
    model.op("Add", &[&x, &shift])
}
