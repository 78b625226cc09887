//! All parameters of a policy in one flat buffer.
//!
//! An optimizer step, a gradient norm, a copy to a target network or to a worker is then a handful of operations
//! whatever the number of layers.

mod buffer;
#[cfg_attr(not(feature = "torch"), path = "no_device.rs")]
mod device;
#[cfg(feature = "torch")]
mod encode;
mod encoding;
mod groups;
mod initial;
mod layout;
#[cfg_attr(not(feature = "torch"), path = "no_modules.rs")]
mod modules;
mod optim;
mod optimizer_config;
#[cfg(feature = "torch")]
mod tensors;

pub(crate) use buffer::Buffer;
pub use encoding::Encoding;
pub use encoding::Part;
pub(crate) use encoding::{Raw, readable};
pub use groups::{Group, Rule};
pub(crate) use groups::{GroupRange, LearningGroups};
pub(crate) use layout::Layout;
pub(crate) use modules::ModulePlace;
#[cfg(feature = "torch")]
pub(crate) use modules::{MadeModule, ModuleMaker};
pub use optim::Optimizer;
pub(crate) use optim::clip_grad_norm;
pub use optimizer_config::OptimizerConfig;

use crate::base::{Array, Device, Error, Result, State, Stream};
use std::sync::Arc;

/// Collects the parameters of a network and their initial values.
#[derive(Debug)]
pub struct ParamsBuilder {
    rng: Stream,
    named: Vec<(String, Array)>,
    /// The modules in tch whose variables are among the parameters.
    pub(crate) modules: Vec<ModulePlace>,
}

impl ParamsBuilder {
    /// Makes a builder that draws initial values from `rng`.
    pub fn new(rng: Stream) -> Self {
        Self { rng, named: Vec::new(), modules: Vec::new() }
    }

    /// Adds a parameter of f32 numbers; returns its index.
    pub fn add(&mut self, name: impl Into<String>, init: impl Into<Array>) -> usize {
        self.named.push((name.into(), init.into()));
        self.named.len() - 1
    }

    /// Draws normal numbers `[out, in]` with every row scaled to norm `std` (Ray's `normc_initializer`).
    pub fn normc(&mut self, out: i64, inputs: i64, std: f64) -> Array {
        let mut w = self.normal(out * inputs);
        w.chunks_exact_mut(inputs.max(1) as usize).for_each(|row| initial::normalise(row, std));
        Array::from_vec(w, &[out, inputs])
    }

    /// Draws a matrix `[out, in]` with orthonormal rows or columns, times `gain`.
    ///
    /// The matrix is the Q of a QR decomposition of normal numbers whose R has a positive diagonal (Mezzadri 2007,
    /// How to generate random matrices from the classical compact groups).
    pub fn orthogonal(&mut self, out: i64, inputs: i64, gain: f64) -> Array {
        let drawn = self.normal(out * inputs);
        let matrix = initial::orthogonal(&drawn, out as usize, inputs as usize, gain);
        Array::from_vec(matrix, &[out, inputs])
    }

    /// Draws numbers uniformly from `low..high`.
    pub fn uniform(&mut self, shape: &[i64], low: f64, high: f64) -> Array {
        let n = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..n).map(|_| (low + (high - low) * self.rng.uniform_f64()) as f32).collect();
        Array::from_vec(values, shape)
    }

    fn normal(&mut self, count: i64) -> Vec<f32> {
        (0..count).map(|_| self.rng.normal()).collect()
    }

    /// Number of scalars of all parameters that were added so far.
    pub(crate) fn total(&self) -> usize {
        self.named.iter().map(|(_, init)| init.numel()).sum()
    }

    /// The name of the parameter that begins at index `start` of the flat buffer; empty if none does.
    pub(crate) fn name_at(&self, start: usize) -> &str {
        let mut at = 0;
        let found = self.named.iter().find(|(_, init)| {
            let here = at == start;
            at += init.numel();
            here
        });
        found.map_or("", |(name, _)| name)
    }

    /// Moves the parameters to one flat buffer; with `on_libtorch` libtorch allocates it, on that device.
    pub(crate) fn finish(self, on_libtorch: Option<Device>) -> Params {
        let mut flat = Vec::with_capacity(self.total());
        self.named.iter().for_each(|(_, init)| flat.extend_from_slice(&init.to_f32()));
        let shapes = self.named.into_iter().map(|(name, init)| (name, init.size())).collect();
        let layout = Layout { modules: self.modules, ..Layout::new(shapes) };
        Params { flat: Buffer::new(&flat, on_libtorch), layout: Arc::new(layout) }
    }
}

/// Named parameters over one flat f32 buffer.
#[derive(Debug)]
pub struct Params {
    flat: Buffer,
    layout: Arc<Layout>,
}

impl Params {
    /// Copies the parameters into a buffer of their own, for a target network or a worker's replica.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self { flat: self.flat.duplicate(), layout: Arc::clone(&self.layout) }
    }

    /// The same parameters for another engine: in plain memory the same numbers, in libtorch's a copy.
    pub(crate) fn shared(&self) -> Self {
        Self { flat: self.flat.shared(), layout: Arc::clone(&self.layout) }
    }

    /// The names, shapes and places of the parameters in the flat buffer.
    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Ranges of the weights in the flat buffer, without the biases.
    pub(crate) fn weight_ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let named = self.layout.shapes.iter().enumerate();
        named.filter(|(_, (name, _))| name.ends_with("weight")).map(|(i, _)| self.layout.range(i))
    }

    /// The names, shapes and numbers of the parameters, in the order of the flat buffer.
    pub fn named(&self) -> impl Iterator<Item = (&str, &[i64], &[f32])> {
        let flat = self.flat();
        let shapes = self.layout.shapes.iter().enumerate();
        shapes.map(move |(i, (name, shape))| (name.as_str(), shape.as_slice(), &flat[self.layout.range(i)]))
    }

    /// All parameters, `[total]`.
    pub fn flat(&self) -> &[f32] {
        self.flat.read()
    }

    /// The buffer of all parameters.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.flat
    }

    /// The buffer of all parameters, for changes by an optimizer.
    pub(crate) fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.flat
    }

    /// The values of all parameters, by name.
    pub fn weights(&self) -> State {
        let mut state = State::default();
        for (name, shape, numbers) in self.named() {
            state.set_array(name, Array::from_vec(numbers, shape));
        }
        state
    }

    /// Replaces every parameter by the one of the same name in `weights`. After an error nothing has changed.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a parameter is missing or has another shape.
    pub fn set_weights(&mut self, weights: &State) -> Result<()> {
        let flat = self.flat_of(weights)?;
        self.set_flat(&flat);
        Ok(())
    }

    /// Joins the parameters in `weights` to one list, in the order of the flat buffer.
    pub(crate) fn flat_of(&self, weights: &State) -> Result<Vec<f32>> {
        let mut flat = Vec::with_capacity(self.layout.size());
        for (name, shape) in &self.layout.shapes {
            let array = weights.array(name)?;
            if array.shape() != shape {
                let reason = format!("its shape is {:?}, but the model's is {shape:?}", array.shape());
                return Err(Error::state(name, reason));
            }
            flat.extend_from_slice(&array.to_f32());
        }
        Ok(flat)
    }

    pub(crate) fn set_flat(&mut self, flat: &[f32]) {
        self.flat.set(flat);
    }

    /// Moves the parameters towards those of `source`: `self += tau * (source - self)`. With `tau` 1 they are copied.
    pub fn soft_update(&mut self, source: &Params, tau: f64) {
        self.flat.approach(&source.flat, tau);
    }
}
