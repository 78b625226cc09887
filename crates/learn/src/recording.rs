//! [`Recording`]: a network's computation as data, which exports write down in other languages.

use crate::Learner;
use crate::base::{Error, Result};
use crate::distributions::ActionDist;
use crate::experience::{Column, SampleBatch};
#[cfg(feature = "torch")]
use crate::loss::WithModule;
use crate::loss::{Graph, Input, Layer, Net, Op, ParamSet, Value, refusals};
use crate::params::{Encoding, Params};
use std::cell::RefCell;

/// One step of a recorded computation. Its result is a matrix `[rows, columns]`; operands are indices of earlier steps.
#[derive(Clone, Debug)]
pub enum RecordedOp {
    /// The encoded observations.
    Obs,
    /// 1 where an action is legal, else 0.
    Mask,
    /// One number for all rows and columns.
    Number(f32),
    /// An operation on one or two values.
    Apply(Op, Vec<usize>),
    /// A layer, with its parameters in the order of its definition.
    Layer(Layer, Vec<usize>, Vec<Parameter>),
}

/// A parameter of a layer.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name that the network's builder gave it.
    pub name: String,
    /// Dimensions, as in [`Layer`].
    pub shape: Vec<usize>,
    /// The numbers, the last dimension first.
    pub numbers: Vec<f32>,
}

/// The computation of a policy's network as data, from encoded observations to the outputs that actions are chosen by.
/// Exports write it down in other languages.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The steps in order; the first is [`RecordedOp::Obs`].
    pub steps: Vec<RecordedOp>,
    /// Number of columns of each step's result; 0 for one number.
    pub columns: Vec<usize>,
    /// Index of the step whose result are the outputs.
    pub head: usize,
    /// Index of the step that gives the best continuous actions, if they are computed from the outputs.
    pub best: Option<usize>,
    /// The encoding of observations for the network.
    pub encoding: Encoding,
}

impl Learner {
    /// Records the computation of `head`, and of `best`, the best actions in [-1, 1] by the outputs of `head`. `options`
    /// is the number of flags of legal actions per row, if the head reads them.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the network does what a recording cannot hold: operations on tensors, or on columns
    /// of a batch. Returns [`Error::State`] if a layer gets another number of columns than it takes.
    pub fn record<H, B>(&self, options: Option<usize>, head: H, best: B) -> Result<Recording>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t>,
        B: for<'t> Fn(Value<'t>) -> Option<Value<'t>>,
    {
        let recorder = Recorder { sets: &self.sets, steps: RefCell::default(), refused: RefCell::default() };
        let obs = recorder.push(RecordedOp::Obs, self.encoding.width());
        let mask = options.map(|options| recorder.push(RecordedOp::Mask, options));
        let value = |id| Value::new(&recorder, id);
        let written = refusals(|| {
            let outputs =
                head(Net::new(&recorder, ParamSet::Frozen), Input::new(value(obs), mask.map(value)));
            Ok((outputs.id(), best(outputs).map(Value::id)))
        });
        if let Some(what) = recorder.refused.borrow().as_ref() {
            let reason =
                format!("it uses {what}, which no exported file can hold; act with `pavlov::load` instead");
            return Err(Error::state("the policy's network", reason));
        }
        let (head, best) = written?;
        let (steps, columns) = recorder.steps.into_inner().into_iter().unzip();
        let encoding = Encoding::clone(&self.encoding);
        Ok(Recording { steps, columns, head, best, encoding })
    }
}

/// The most likely continuous actions by the parameters `inputs` of their distribution; `None` for discrete choices.
pub fn most_likely<'t>(dist: &ActionDist, inputs: Value<'t>) -> Option<Value<'t>> {
    match dist {
        ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => None,
        ActionDist::DiagGaussian { dim } => Some(inputs.narrow(0, *dim)),
        ActionDist::SquashedGaussian { dim, .. } => Some(inputs.narrow(0, *dim).tanh()),
    }
}

/// A graph that computes nothing and writes down what it is asked for.
struct Recorder<'a> {
    sets: &'a [Params],
    /// The steps so far, each with the number of its columns.
    steps: RefCell<Vec<(RecordedOp, usize)>>,
    /// The first thing that a recording cannot hold.
    refused: RefCell<Option<&'static str>>,
}

impl std::fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("steps", &self.steps.borrow().len()).finish_non_exhaustive()
    }
}

impl Recorder<'_> {
    fn push(&self, step: RecordedOp, columns: usize) -> usize {
        let mut steps = self.steps.borrow_mut();
        steps.push((step, columns));
        steps.len() - 1
    }

    /// Notes that the network uses `what`, and gives one number in its place.
    fn refuse(&self, what: &'static str) -> usize {
        self.refused.borrow_mut().get_or_insert(what);
        self.push(RecordedOp::Number(0.0), 0)
    }

    fn params(&self, which: ParamSet) -> &Params {
        let target = self.sets.get(1).filter(|_| which == ParamSet::Target);
        target.unwrap_or(&self.sets[0])
    }

    /// The parameters `first..first + count`.
    fn weights(&self, which: ParamSet, first: usize, count: usize) -> Vec<Parameter> {
        let params = self.params(which).named().skip(first).take(count);
        let copied = params.map(|(name, shape, numbers)| Parameter {
            name: name.to_owned(),
            shape: shape.iter().map(|&n| n as usize).collect(),
            numbers: numbers.to_vec(),
        });
        copied.collect()
    }
}

impl Graph for Recorder<'_> {
    fn apply(&self, op: Op, operands: &[usize]) -> usize {
        let columns = |at: usize| self.columns(operands[at]);
        let count = match op {
            Op::Argmax | Op::SumColumns | Op::MeanColumns | Op::LogSumExp | Op::Expectation(..) => 1,
            Op::Gather(width) => width,
            Op::Mean => return self.refuse("a mean over the rows of a batch"),
            Op::QuantileHuber | Op::Project(..) => return self.refuse("a loss"),
            Op::Narrow(_, len) => len,
            Op::Cat => columns(0) + columns(1),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Minimum | Op::Maximum => columns(0).max(columns(1)),
            _ => columns(0),
        };
        self.push(RecordedOp::Apply(op, operands.to_vec()), count)
    }

    fn layer(&self, layer: Layer, which: ParamSet, operands: &[usize]) -> usize {
        let (first, count) = match layer {
            // Without noise, a noisy layer is a linear one.
            Layer::Dense { weight, .. } | Layer::Noisy { weight, .. } => (weight, 2),
            Layer::Conv2d { weight, .. } | Layer::Norm { weight, .. } => (weight, 2),
            Layer::Recurrent { weight, .. } => (weight, 4),
            Layer::Free { parameter } => (parameter, 1),
        };
        let weights = self.weights(which, first, count);
        let columns = match layer {
            Layer::Dense { out, .. } | Layer::Noisy { out, .. } => out,
            Layer::Conv2d { input: [_, height, width], stride, padding, .. } => {
                let kernel = &weights[0].shape;
                let along = |size: usize, pad: usize, kernel: usize, stride: usize| {
                    (size + pad - kernel) / stride + 1
                };
                let [left, right, top, bottom] = padding;
                kernel[0]
                    * along(height, top + bottom, kernel[2], stride[0])
                    * along(width, left + right, kernel[3], stride[1])
            }
            Layer::Norm { width, .. } => width,
            Layer::Recurrent { units, .. } => units,
            Layer::Free { .. } => weights[0].numbers.len(),
        };
        self.push(RecordedOp::Layer(layer, operands.to_vec(), weights), columns)
    }

    fn column(&self, _: &SampleBatch, _: Column) -> Result<usize> {
        Ok(self.refuse("a column of a batch"))
    }

    fn observation(&self, _: &SampleBatch, _: Column) -> Result<usize> {
        Ok(self.refuse("a column of a batch"))
    }

    fn number(&self, number: f32) -> usize {
        self.push(RecordedOp::Number(number), 0)
    }

    fn columns(&self, id: usize) -> usize {
        self.steps.borrow()[id].1
    }

    #[cfg(feature = "torch")]
    fn tensor(&self, id: usize) -> tch::Tensor {
        self.refuse("operations on tensors (`OnLibtorch`)");
        tch::Tensor::from_slice(&vec![0.0_f32; self.columns(id).max(1)]).unsqueeze(0)
    }

    #[cfg(feature = "torch")]
    fn insert(&self, tensor: tch::Tensor) -> usize {
        self.refuse("operations on tensors (`OnLibtorch`)");
        let columns = tensor.size().get(1).copied().unwrap_or(0) as usize;
        self.push(RecordedOp::Number(0.0), columns)
    }

    #[cfg(feature = "torch")]
    fn module(&self, _: usize, _: ParamSet, _: usize, _: &WithModule<'_>) -> usize {
        self.refuse("a module in tch (`tch_module`)")
    }
}
