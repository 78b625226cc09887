//! Operations of a loss, recorded on the tape of the fused engine.

use crate::base::{Result, Stream};
use crate::engines::conv_place::ConvPlace;
use crate::engines::load::{encoded, fill};
use crate::engines::places::{LayerPlace, NormPlace};
use crate::engines::recurrence::ScanPlace;
use crate::engines::tape::Tape;
use crate::experience::{Column, SampleBatch};
use crate::kernels::{exp, ln};
use crate::layers::Activation;
#[cfg(feature = "torch")]
use crate::loss::WithModule;
use crate::loss::{Graph, Layer, MASKED, Op, ParamSet};
use crate::params::{Encoding, Layout, LearningGroups, Raw, readable};
use std::cell::RefCell;

/// The fused engine's graph of a loss: a tape, and the parameters that its layers read.
#[derive(Debug)]
pub(crate) struct FusedGraph<'t> {
    pub(crate) tape: &'t Tape,
    pub(crate) layout: &'t Layout,
    pub(crate) encoding: &'t Encoding,
    /// Parameters of the network, then of the target copy.
    pub(crate) flats: &'t [&'t [f32]],
    pub(crate) live: LearningGroups<'t>,
    /// The random stream of noisy layers; without one they have no noise.
    pub(crate) noise: Option<RefCell<Stream>>,
}

impl Graph for FusedGraph<'_> {
    fn apply(&self, op: Op, operands: &[usize]) -> usize {
        let tape = self.tape;
        tape.settle(self.flats);
        let a = operands[0];
        let unary = |f: fn(f32) -> f32| tape.unary(op, a, f);
        match op {
            Op::Exp => tape.unary(op, a, exp),
            Op::Log => tape.unary(op, a, ln),
            Op::Sqrt => unary(f32::sqrt),
            Op::Square => tape.unary(op, a, |x| x * x),
            Op::Abs => tape.unary(op, a, f32::abs),
            Op::Sign => unary(|x| if x == 0.0 { 0.0 } else { x.signum() }),
            Op::Tanh => tape.tanh(a),
            Op::Sigmoid => tape.unary(op, a, |x| 1.0 / (1.0 + exp(-x))),
            Op::Softplus => tape.unary(op, a, |x| {
                let size = x.abs();
                (x + size) * 0.5 + ln(1.0 + exp(-size))
            }),
            // A comparison, not `f32::max`: NaN must stay NaN.
            Op::Relu => tape.unary(op, a, |x| if x < 0.0 { 0.0 } else { x }),
            Op::Clamp(low, high) => {
                let low = low as f32;
                let high = high as f32;
                // Comparisons, not `f32::clamp`: NaN must stay NaN.
                tape.unary(op, a, move |x| {
                    if x < low {
                        low
                    } else if x > high {
                        high
                    } else {
                        x
                    }
                })
            }
            Op::Scale(scale, shift) => {
                let scale = scale as f32;
                let shift = shift as f32;
                tape.unary(op, a, move |x| x * scale + shift)
            }
            Op::LogSoftmax => tape.log_softmax(a),
            Op::LogSumExp => tape.logsumexp(a),
            Op::SortColumns => tape.sort_columns(a),
            Op::Argmax => tape.argmax(a),
            Op::SumColumns => tape.sum_cols(a),
            Op::MeanColumns => {
                let share = 1.0 / tape.cols(a) as f64;
                self.apply(Op::Scale(share, 0.0), &[tape.sum_cols(a)])
            }
            Op::Mean => tape.mean(a),
            Op::Detach => tape.detach(a),
            Op::Narrow(start, len) => tape.narrow(a, start, len),
            Op::Gather(width) => tape.pick(a, operands[1], width),
            Op::Expectation(low, high) => tape.expectation(a, (low, high)),
            Op::Project(low, high) => tape.project(a, operands[1], (low, high)),
            Op::Cat => tape.cat(a, operands[1]),
            Op::QuantileHuber => tape.quantile_huber(a, operands[1]),
            Op::Add => self.binary(op, operands, |a, b| a + b),
            Op::Sub => self.binary(op, operands, |a, b| a - b),
            Op::Mul => self.binary(op, operands, |a, b| a * b),
            Op::Div => self.binary(op, operands, |a, b| a / b),
            Op::Minimum => self.binary(op, operands, |a, b| if b < a || b.is_nan() { b } else { a }),
            Op::Maximum => self.binary(op, operands, |a, b| if b > a || b.is_nan() { b } else { a }),
            Op::Mask => self.binary(op, operands, |x, mask| if mask == 0.0 { MASKED } else { x }),
        }
    }

    fn layer(&self, layer: Layer, which: ParamSet, operands: &[usize]) -> usize {
        let set = usize::from(which == ParamSet::Target);
        let flat = self.flats[set];
        let learns = |start| which == ParamSet::Online && self.live.at(start);
        match layer {
            Layer::Dense { weight, inputs, out, activation }
            | Layer::Noisy { weight, inputs, out, activation } => {
                let weight = self.layout.range(weight).start;
                let from = operands[0];
                let learns = learns(weight);
                let place = LayerPlace { from, set, learns, weight, inputs, out, activation };
                let of = match (&self.noise, layer) {
                    (Some(noise), Layer::Noisy { .. }) => {
                        self.tape.settle(self.flats);
                        self.tape.noisy(place, &mut noise.borrow_mut(), flat)
                    }
                    _ => self.tape.layer(place, flat),
                };
                self.swish_of(activation, of)
            }
            Layer::Conv2d { weight, input, stride, padding, activation } => {
                self.tape.settle(self.flats);
                let place = ConvPlace::new(&self.layout.shapes[weight].1, input, stride, padding, activation);
                let from = operands[0];
                let weight = self.layout.range(weight).start;
                let learns = learns(weight);
                let of = self.tape.convolution(ConvPlace { from, set, learns, weight, ..place }, flat);
                self.swish_of(activation, of)
            }
            Layer::Norm { weight, width } => {
                self.tape.settle(self.flats);
                let weight = self.layout.range(weight).start;
                let from = operands[0];
                let learns = learns(weight);
                self.tape.norm(NormPlace { from, set, learns, weight, width, moments: 0 }, flat)
            }
            Layer::Recurrent { weight, units, cell, memory } => {
                let weight = self.layout.range(weight).start;
                let inputs = self.tape.cols(operands[0]);
                let learns = learns(weight);
                let out = cell.gates() * units;
                let activation = Activation::Linear;
                let of_input = LayerPlace { from: operands[0], set, learns, weight, inputs, out, activation };
                let from = self.tape.layer(of_input, flat);
                self.tape.settle(self.flats);
                let weight = of_input.biases().end;
                let place = ScanPlace { from, set, learns, weight, units, cell, memory, trace: 0 };
                self.tape.scan(place, flat)
            }
            Layer::Free { parameter } => {
                let range = self.layout.range(parameter);
                self.tape.param(range.start, &flat[range.clone()], learns(range.start))
            }
        }
    }

    fn column(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        let source = batch.source(column)?;
        let cols = source.cols;
        let rows = source.rows;
        Ok(match Raw::of(readable(source.base.lend(), &mut None)) {
            Raw::F32(from) => fill(self.tape, from, cols, rows, |x| x),
            Raw::I64(from) => fill(self.tape, from, cols, rows, |x| x as f32),
            Raw::U8(from) => fill(self.tape, from, cols, rows, f32::from),
        })
    }

    fn observation(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        let source = batch.source(column)?;
        self.encoding.check(source.cols)?;
        Ok(encoded(self.tape, self.encoding, Raw::of(readable(source.base.lend(), &mut None)), source.rows))
    }

    fn number(&self, number: f32) -> usize {
        self.tape.constant(number)
    }

    fn columns(&self, id: usize) -> usize {
        self.tape.cols(id)
    }

    #[cfg(feature = "torch")]
    fn tensor(&self, _: usize) -> tch::Tensor {
        unreachable!("who has an `OnLibtorch` is on libtorch")
    }

    #[cfg(feature = "torch")]
    fn insert(&self, _: tch::Tensor) -> usize {
        unreachable!("who has an `OnLibtorch` is on libtorch")
    }

    #[cfg(feature = "torch")]
    fn module(&self, _: usize, _: ParamSet, _: usize, _: &WithModule<'_>) -> usize {
        unreachable!("who has an `OnLibtorch` is on libtorch")
    }
}

impl FusedGraph<'_> {
    /// Swish of a layer's result, `x / (1 + e^-x)`, if that is the layer's activation: its slope does not follow from its
    /// result, as that of others does, so it is a node of its own.
    fn swish_of(&self, activation: Activation, of: usize) -> usize {
        if activation != Activation::Swish {
            return of;
        }
        let gate = self.apply(Op::Sigmoid, &[of]);
        self.apply(Op::Mul, &[of, gate])
    }

    fn binary(&self, op: Op, operands: &[usize], f: impl Fn(f32, f32) -> f32) -> usize {
        let (a, b) = self.tape.pair(operands[0], operands[1]);
        self.tape.binary(op, a, b, f)
    }
}
