//! The computation of a packed policy as text: steps that name their weights.

use crate::export::pack::file::{Tensor, Tensors};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::layers::Activation;
use pavlov_learn::loss::{Cell, Layer, Op};
use pavlov_learn::{Parameter, RecordedOp, Recording};
use serde::{Deserialize, Serialize};

/// The computation of a policy's network from encoded observations, and the rule by which its outputs become actions.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The steps in order; operands are indices of earlier steps.
    pub(super) steps: Vec<Step>,
    /// Index of the step that gives the outputs.
    pub(super) head: usize,
    pub(super) choice: Choice,
}

/// How the outputs of a network become actions.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Choice {
    /// They are parameters of the distribution that fits the action space.
    Distribution,
    /// They are means and logarithms of deviations, of which the second are at least -5; tanh squashes what is drawn.
    SquashedDistribution,
    /// They are the same with this number in place of -5.
    SquashedFrom(f32),
    /// They are values of actions, of which the highest is taken.
    Values,
    /// They are the action in [-1, 1].
    Exact,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    /// The encoded observations.
    Obs,
    /// Which actions are legal.
    Mask,
    /// An operation of the name `name` on the steps `of`. In `with`, null is minus or plus infinity.
    Apply {
        name: String,
        of: Vec<usize>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with: Vec<Option<f64>>,
    },
    /// A linear layer.
    Dense { of: usize, activation: Activation, weights: [String; 2] },
    /// A convolution; `padding` is left, right, top, bottom.
    Conv2d {
        of: usize,
        input: [usize; 3],
        stride: [usize; 2],
        padding: [usize; 4],
        activation: Activation,
        weights: [String; 2],
    },
    /// A layer normalisation.
    Norm { of: usize, weights: [String; 2] },
    /// A gated recurrent unit.
    Gru { of: usize, weights: [String; 4] },
    /// A long short-term memory.
    Lstm { of: usize, weights: [String; 4] },
    /// Numbers that depend on no input.
    Free { weights: [String; 1] },
}

/// The operations that a network may use, by name.
const NAMED: &[(&str, Op)] = &[
    ("exp", Op::Exp),
    ("log", Op::Log),
    ("sqrt", Op::Sqrt),
    ("square", Op::Square),
    ("abs", Op::Abs),
    ("sign", Op::Sign),
    ("tanh", Op::Tanh),
    ("sigmoid", Op::Sigmoid),
    ("softplus", Op::Softplus),
    ("relu", Op::Relu),
    ("log_softmax", Op::LogSoftmax),
    ("log_sum_exp", Op::LogSumExp),
    ("argmax", Op::Argmax),
    ("sort_columns", Op::SortColumns),
    ("sum_columns", Op::SumColumns),
    ("mean_columns", Op::MeanColumns),
    ("detach", Op::Detach),
    ("add", Op::Add),
    ("sub", Op::Sub),
    ("mul", Op::Mul),
    ("div", Op::Div),
    ("minimum", Op::Minimum),
    ("maximum", Op::Maximum),
    ("cat", Op::Cat),
    ("mask", Op::Mask),
];

/// The name and the numbers of an operation; `None` for one that a pack cannot hold.
fn named(op: Op) -> Option<(&'static str, Vec<Option<f64>>)> {
    let bound = |x: f64| x.is_finite().then_some(x);
    Some(match op {
        Op::Clamp(low, high) => ("clamp", vec![bound(low), bound(high)]),
        Op::Scale(scale, shift) => ("scale", vec![Some(scale), Some(shift)]),
        Op::Narrow(start, len) => ("narrow", vec![Some(start as f64), Some(len as f64)]),
        Op::Gather(width) => ("gather", vec![Some(width as f64)]),
        Op::Expectation(low, high) => ("expectation", vec![Some(low), Some(high)]),
        other => {
            let is_same = |of: &Op| std::mem::discriminant(of) == std::mem::discriminant(&other);
            (NAMED.iter().find(|(_, of)| is_same(of))?.0, Vec::new())
        }
    })
}

/// Largest whole number that a plan may name.
const MOST: f64 = 1e9;

/// The operation of a name; `None` if no operation has it, with these numbers.
pub(super) fn op(name: &str, with: &[Option<f64>]) -> Option<Op> {
    let whole = |x: f64| ((0.0..=MOST).contains(&x) && x.fract() == 0.0).then_some(x as usize);
    match (name, with) {
        ("clamp", &[low, high]) => {
            Some(Op::Clamp(low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)))
        }
        ("scale", &[Some(scale), Some(shift)]) => Some(Op::Scale(scale, shift)),
        ("narrow", &[Some(start), Some(len)]) => Some(Op::Narrow(whole(start)?, whole(len)?)),
        ("gather", &[Some(width)]) => Some(Op::Gather(whole(width)?)),
        ("expectation", &[Some(low), Some(high)]) => Some(Op::Expectation(low, high)),
        (name, []) => NAMED.iter().find(|(of, _)| *of == name).map(|(_, op)| *op),
        _ => None,
    }
}

impl Plan {
    /// Writes a recording as a plan, with its weights.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the network does what a plan cannot hold.
    pub(super) fn of(recording: &Recording, choice: Choice) -> Result<(Self, Tensors)> {
        let mut tensors = Tensors::new();
        // What comes behind the outputs turns them into actions, which the choice does.
        let steps = recording.steps.iter().take(recording.head + 1);
        let steps = steps.map(|step| write(step, &mut tensors)).collect::<Result<_>>()?;
        Ok((Self { steps, head: recording.head, choice }, tensors))
    }
}

fn write(step: &RecordedOp, tensors: &mut Tensors) -> Result<Step> {
    Ok(match step {
        RecordedOp::Obs => Step::Obs,
        RecordedOp::Mask => Step::Mask,
        RecordedOp::Number(_) => return Err(absent("a number of its own")),
        RecordedOp::Apply(op, of) => {
            let (name, with) = named(*op).ok_or_else(|| absent(&format!("the operation {op:?}")))?;
            Step::Apply { name: name.to_owned(), of: of.clone(), with }
        }
        RecordedOp::Layer(layer, operands, parameters) => {
            let of = operands.first().copied().unwrap_or_default();
            match *layer {
                // Without noise, a noisy layer is a linear one.
                Layer::Dense { activation, .. } | Layer::Noisy { activation, .. } => {
                    Step::Dense { of, activation, weights: add(parameters, tensors)? }
                }
                Layer::Conv2d { input, stride, padding, activation, .. } => {
                    let weights = add(parameters, tensors)?;
                    Step::Conv2d { of, input, stride, padding, activation, weights }
                }
                Layer::Norm { .. } => Step::Norm { of, weights: add(parameters, tensors)? },
                Layer::Recurrent { cell: Cell::Gru, .. } => {
                    Step::Gru { of, weights: add(parameters, tensors)? }
                }
                Layer::Recurrent { cell: Cell::Lstm, .. } => {
                    Step::Lstm { of, weights: add(parameters, tensors)? }
                }
                Layer::Free { .. } => Step::Free { weights: add(parameters, tensors)? },
            }
        }
    })
}

/// Adds the parameters of a layer to the weights; returns their names.
fn add<const N: usize>(parameters: &[Parameter], tensors: &mut Tensors) -> Result<[String; N]> {
    let names: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
    for Parameter { name, shape, numbers } in parameters {
        let tensor = Tensor { shape: shape.clone(), numbers: numbers.clone() };
        if name == "__metadata__" || tensors.get(name).is_some_and(|other| *other != tensor) {
            return Err(absent(&format!("two arrays of the name {name:?}, or a name that the format keeps")));
        }
        tensors.insert(name.clone(), tensor);
    }
    names.try_into().map_err(|_| absent("a layer with another number of arrays"))
}

fn absent(what: &str) -> Error {
    let reason = format!("it has {what}, which a packed model cannot hold; share the checkpoint instead");
    Error::state("the policy's network", reason)
}
