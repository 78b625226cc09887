//! All parameters of a policy in one flat buffer.
//!
//! An optimizer step, a gradient norm, a copy to a target network or to a worker is then a handful of operations
//! whatever the number of layers. Each parameter is an autograd leaf that aliases its part of the buffer;
//! [`Params::alias`] makes another set of leaves over the same memory, so that several threads can take gradients of
//! the same weights at once.

mod encoding;
mod groups;
mod initial;
mod layout;
mod optim;

pub use encoding::Encoding;
pub(crate) use encoding::{Raw, readable};
pub use groups::{Group, Rule};
pub(crate) use groups::{GroupRange, LearningGroups};
pub(crate) use layout::Layout;
pub(crate) use optim::clip_grad_norm;
pub use optim::{Optimizer, OptimizerConfig};

use crate::base::{Result, State, Stream, host};
use crate::learn::kernels;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Collects the parameters of a network and their initial values.
#[derive(Debug)]
pub struct ParamsBuilder {
    rng: Stream,
    named: Vec<(String, Vec<i64>, Tensor)>,
}

impl ParamsBuilder {
    /// Makes a builder that draws initial values from `rng`.
    pub fn new(rng: Stream) -> Self {
        Self { rng, named: Vec::new() }
    }

    /// Adds a parameter and returns its index for [`Params::leaf`].
    pub fn add(&mut self, name: impl Into<String>, init: Tensor) -> usize {
        self.named.push((name.into(), init.size(), init));
        self.named.len() - 1
    }

    /// Draws normal numbers `[out, in]` with every row scaled to norm `std` (Ray's `normc_initializer`).
    pub fn normc(&mut self, out: i64, inputs: i64, std: f64) -> Tensor {
        let mut w = self.normal(out * inputs);
        w.chunks_exact_mut(inputs.max(1) as usize).for_each(|row| initial::normalise(row, std));
        Tensor::from_slice(&w).view([out, inputs])
    }

    /// Draws a matrix `[out, in]` with orthonormal rows or columns, times `gain`.
    ///
    /// The matrix is the Q of a QR decomposition of normal numbers whose R has a positive diagonal (Mezzadri 2007,
    /// How to generate random matrices from the classical compact groups).
    pub fn orthogonal(&mut self, out: i64, inputs: i64, gain: f64) -> Tensor {
        let drawn = self.normal(out * inputs);
        let matrix = initial::orthogonal(&drawn, out as usize, inputs as usize, gain);
        Tensor::from_slice(&matrix).view([out, inputs])
    }

    /// Draws numbers uniformly from `low..high`.
    pub fn uniform(&mut self, shape: &[i64], low: f64, high: f64) -> Tensor {
        let n = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..n).map(|_| (low + (high - low) * self.rng.uniform_f64()) as f32).collect();
        Tensor::from_slice(&values).view(shape)
    }

    fn normal(&mut self, count: i64) -> Vec<f32> {
        (0..count).map(|_| self.rng.normal()).collect()
    }

    /// Number of scalars of all parameters that were added so far.
    pub(crate) fn total(&self) -> usize {
        self.named.iter().map(|(_, _, init)| init.numel()).sum()
    }

    /// The name of the parameter that begins at index `start` of the flat buffer; empty if none does.
    pub(crate) fn name_at(&self, start: usize) -> &str {
        let mut at = 0;
        let found = self.named.iter().find(|(_, _, init)| {
            let here = at == start;
            at += init.numel();
            here
        });
        found.map_or("", |(name, ..)| name)
    }

    /// Moves the parameters to one flat buffer on `device`.
    pub fn finish(self, device: Device) -> Params {
        // A network may have no parameters at all.
        let mut all = vec![Tensor::zeros([0], (Kind::Float, Device::Cpu))];
        all.extend(self.named.iter().map(|(_, _, t)| t.reshape([-1])));
        let flat = Tensor::cat(&all, 0);
        let shapes = self.named.into_iter().map(|(name, shape, _)| (name, shape)).collect();
        Params::over(flat.to_kind(Kind::Float).to_device(device), Arc::new(Layout::new(shapes)), true)
    }
}

/// Named parameters over one flat f32 buffer.
#[derive(Debug)]
pub struct Params {
    flat: Tensor,
    layout: Arc<Layout>,
    leaves: Vec<Tensor>,
}

impl Params {
    fn over(flat: Tensor, layout: Arc<Layout>, requires_grad: bool) -> Self {
        let leaves = layout
            .shapes
            .iter()
            .enumerate()
            .map(|(i, (_, shape))| {
                let range = layout.range(i);
                let leaf = flat.narrow(0, range.start as i64, range.len() as i64);
                let leaf = leaf.view(shape.as_slice()).detach();
                if requires_grad { leaf.set_requires_grad(true) } else { leaf }
            })
            .collect();
        Self { flat, layout, leaves }
    }

    /// Makes another set of leaves over the same memory, so that another thread can take a gradient.
    #[must_use]
    pub fn alias(&self) -> Self {
        Self::over(self.flat.shallow_clone(), Arc::clone(&self.layout), true)
    }

    /// Makes a set of leaves over the same memory that need no gradients: libtorch cannot trace a module whose
    /// tensors need them.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self::over(self.flat.shallow_clone(), Arc::clone(&self.layout), false)
    }

    /// Copies the parameters into a buffer of their own, for a target network or a worker's replica.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self::over(self.flat.copy(), Arc::clone(&self.layout), true)
    }

    /// The parameter that [`ParamsBuilder::add`] numbered `i`.
    pub fn leaf(&self, i: usize) -> &Tensor {
        &self.leaves[i]
    }

    /// The names, shapes and places of the parameters in the flat buffer.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Ranges of the weights in the flat buffer, without the biases.
    pub(crate) fn weight_ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let named = self.layout.shapes.iter().enumerate();
        named.filter(|(_, (name, _))| name.ends_with("weight")).map(|(i, _)| self.layout.range(i))
    }

    /// The flat buffer of all parameters, `[total]`; writing into it changes the network.
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// The flat buffer of all parameters, `[total]`, for changes by an optimizer.
    pub fn flat_mut(&mut self) -> &mut Tensor {
        &mut self.flat
    }

    /// The gradient of `loss` with respect to all parameters, `[total]`; zero for parameters that the loss does not
    /// depend on.
    pub fn gradient(&self, loss: &Tensor) -> Tensor {
        // libtorch would refuse a backward pass without gradients, and tch does not survive that.
        if !loss.requires_grad() {
            return self.flat.zeros_like();
        }
        let grads = Tensor::run_backward(&[loss], &self.leaves, false, false);
        let parts: Vec<Tensor> = grads
            .into_iter()
            .zip(&self.leaves)
            .map(
                |(grad, leaf)| {
                    if grad.defined() { grad.reshape([-1]) } else { leaf.zeros_like().reshape([-1]) }
                },
            )
            .collect();
        Tensor::cat(&parts, 0)
    }

    /// The values of all parameters, by name.
    pub fn weights(&self) -> State {
        let mut state = State::default();
        for ((name, _), leaf) in self.layout.shapes.iter().zip(&self.leaves) {
            state.set_tensor(name, leaf);
        }
        state
    }

    /// Replaces every parameter by the one of the same name in `weights`. After an error nothing has changed.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) if a parameter is missing or has another shape.
    pub fn set_weights(&mut self, weights: &State) -> Result<()> {
        let flat = self.flat_of(weights)?;
        self.set_flat(&flat);
        Ok(())
    }

    /// Joins the parameters in `weights` to one tensor `[total]`, in the order of the flat buffer.
    pub(crate) fn flat_of(&self, weights: &State) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(self.layout.shapes.len());
        for (name, shape) in &self.layout.shapes {
            let array = weights.array(name)?;
            if array.shape() != shape {
                let reason = format!("its shape is {:?}, but the model's is {shape:?}", array.shape());
                return Err(crate::base::Error::state(name, reason));
            }
            parts.push(array.to_tensor().reshape([-1]));
        }
        Ok(Tensor::cat(&parts, 0))
    }

    pub(crate) fn set_flat(&mut self, flat: &Tensor) {
        tch::no_grad(|| self.flat.copy_(flat));
    }

    /// Moves the parameters towards those of `source`: `self += tau * (source - self)`. With `tau` 1 they are copied.
    pub fn soft_update(&mut self, source: &Params, tau: f64) {
        if tau == 1.0 {
            return self.set_flat(&source.flat);
        }
        if self.flat.device() == Device::Cpu {
            return kernels::approach(host::write(&mut self.flat), host::read(&source.flat), tau as f32);
        }
        tch::no_grad(|| {
            let _ = self.flat.lerp_(&source.flat, tau);
        });
    }
}
