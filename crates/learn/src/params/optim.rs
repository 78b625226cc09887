//! Optimizers over one flat parameter buffer, with state that can be saved.
//!
//! tch's own optimizers hide their moments (nothing in tch's C interface reads or writes them), so a run could not be
//! continued exactly. On the CPU a step is one or two passes over plain memory, with the same bits on every processor. On
//! a GPU it is a few operations of libtorch on the whole buffer, whatever the number of layers.

use crate::base::{Array, Error, Result, State, Stats};
use crate::kernels;
use crate::kernels::{Averages, MomentumStep};
use crate::params::buffer::Buffer;
use crate::params::optimizer_config::OptimizerConfig;
use std::ops::Range;

/// An optimizer of one flat buffer, with its moments.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    first: Buffer,
    second: Buffer,
    /// Means of the gradient, for centred RMSprop only.
    mean: Option<Buffer>,
    /// Scratch memory of RMSprop on the CPU: the gradient divided by its root mean square.
    scaled: Vec<f32>,
    steps: u64,
}

impl Optimizer {
    /// Makes an optimizer with moments of zeros for `params` parameters.
    pub fn new(config: OptimizerConfig, params: usize) -> Self {
        Self::beside(config, &Buffer::zeros(0), params)
    }

    /// Makes an optimizer for `count` of the parameters in `params`, with moments of zeros where these are.
    pub(crate) fn beside(config: OptimizerConfig, params: &Buffer, count: usize) -> Self {
        let zeros = || params.zeros_beside(count);
        let mean = config.is_centered().then(zeros);
        Self { config, first: zeros(), second: zeros(), mean, scaled: Vec::new(), steps: 0 }
    }

    /// Steps as [`step`](Self::step) does, but only for the range `part` of parameters and gradient.
    pub(crate) fn step_part(&mut self, params: &mut Buffer, grad: &Buffer, part: Range<usize>, lr: f64) {
        match params.write() {
            Ok(params) => self.step(&mut params[part.clone()], &grad.read()[part], lr),
            Err(params) => {
                self.steps += 1;
                let rule = (self.config, self.config.adam_step(self.steps, lr));
                let first = self.first.there_mut();
                let second = self.second.there_mut();
                let mean = self.mean.as_mut().map(Buffer::there_mut);
                params.step(grad.there(), &part, (first, second, mean), rule, lr);
            }
        }
    }

    /// Moves the parameters one step by the gradient `grad`, at learning rate `lr`, with the same bits on every processor.
    ///
    /// # Panics
    /// Panics if parameters or gradient are not as many as the optimizer was made for.
    pub fn step(&mut self, params: &mut [f32], grad: &[f32], lr: f64) {
        self.steps += 1;
        let here = "moments are where the parameters are";
        let first = self.first.write().expect(here);
        let second = self.second.write().expect(here);
        if let Some(step) = self.config.adam_step(self.steps, lr) {
            return step.step(params, first, second, grad);
        }
        match self.config {
            OptimizerConfig::Rmsprop { alpha, eps, momentum, .. } => {
                let mean = self.mean.as_mut().map(|mean| mean.write().expect(here));
                let averages =
                    Averages { square: second, mean, share: (1.0 - alpha) as f32, eps: eps as f32 };
                self.scaled.resize(grad.len(), 0.0);
                averages.scale(grad, &mut self.scaled);
                MomentumStep { lr: lr as f32, momentum: momentum as f32 }.step(params, first, &self.scaled);
            }
            OptimizerConfig::Sgd { momentum } => {
                MomentumStep { lr: lr as f32, momentum: momentum as f32 }.step(params, first, grad);
            }
            OptimizerConfig::Adam { .. } | OptimizerConfig::AdamW { .. } | OptimizerConfig::RAdam { .. } => {}
        }
    }

    /// The moments and the number of steps, for checkpoints.
    ///
    /// # Errors
    /// Never fails today: every part of the state can be written.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("config", &self.config)?;
        state.set("steps", &self.steps)?;
        state.set_array("first", self.first.read());
        state.set_array("second", self.second.read());
        if let Some(mean) = &self.mean {
            state.set_array("mean", mean.read());
        }
        Ok(state)
    }

    /// Continues from a state that [`state`](Self::state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`] if an optimizer of another kind or of other parameters saved the state.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        let saved: OptimizerConfig = state.get("config")?;
        let kind = |config: OptimizerConfig| (std::mem::discriminant(&config), config.is_centered());
        if kind(saved) != kind(self.config) {
            let reason = format!("it was saved by {saved:?}, but this run uses {:?}", self.config);
            return Err(Error::state("optimizer", reason));
        }
        restore(state, "first", &mut self.first)?;
        restore(state, "second", &mut self.second)?;
        if let Some(mean) = &mut self.mean {
            restore(state, "mean", mean)?;
        }
        self.steps = state.get("steps")?;
        Ok(())
    }
}

/// Replaces moments by saved ones.
fn restore(state: &State, key: &str, to: &mut Buffer) -> Result<()> {
    let mut numbers = Array::from_slice(to.read());
    state.copy_into(key, &mut numbers)?;
    to.set(numbers.read());
    Ok(())
}

/// Scales the range `part` of `grad` so that its norm is at most `max_norm`. The norm before clipping is added to
/// `stats` as `name`; on a GPU it stays there until the statistics are read.
pub(crate) fn clip_grad_norm(
    grad: &mut Buffer,
    part: Range<usize>,
    max_norm: f64,
    name: &'static str,
    stats: &mut Stats,
) {
    match grad.write() {
        Ok(grad) => {
            let grad = &mut grad[part];
            let norm = kernels::norm(grad);
            let scale = (max_norm / (norm + 1e-6)) as f32;
            if scale < 1.0 {
                grad.iter_mut().for_each(|g| *g *= scale);
            }
            stats.push(name, norm);
        }
        Err(grad) => grad.clip(&part, max_norm, name, stats),
    }
}
