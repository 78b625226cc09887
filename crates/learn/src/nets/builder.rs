//! The specification of a policy, and the builder that lays out its network.

use crate::base::{Array, Device, Error, Kind, Result, Spaces, Stream, image, interned};
use crate::layers::{Activation, Filter};
#[cfg(feature = "torch")]
use crate::loss::OnLibtorch;
use crate::loss::{Cell, Input, Layer, Net, Value};
use crate::nets::init::Init;
use crate::nets::layers::{Conv2d, Dense, Free, LayerNorm, Recurrent};
use crate::params::{Encoding, Group, GroupRange, ParamsBuilder, Rule};
use std::fmt::Debug;
use std::sync::Arc;

/// The specification that a policy is built from.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    /// The spaces of the rows that the policy gets, as [`Spaces::stored`] returns them.
    pub spaces: Spaces,
    /// Number of leading scalars of an observation that the actor sees; the others are the environment's state, for
    /// critics only. `None`: the actor sees the whole observation.
    pub own_obs: Option<usize>,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Device on which the policy computes.
    pub device: Device,
    /// The setting `model.fused`: whether the fused engine runs the network if it can.
    pub fused: bool,
    /// The user's own network, which replaces that of the `model` settings.
    pub custom_model: Option<CustomModel>,
    /// Index of the worker: 0 in the trainer, from 1 on in rollout workers.
    pub worker_index: usize,
    /// Number of rollout workers of the run.
    pub num_workers: usize,
}

impl PolicySpec {
    /// Height, width and channels of the observations, which must be images.
    ///
    /// # Errors
    /// Returns [`Error::Space`] if the observations are no Box of three dimensions, or if the filter flattened them.
    pub fn image(&self) -> Result<[usize; 3]> {
        let space = &self.spaces.observation_space;
        image(space).ok_or_else(|| Error::Space {
            who: "the network".into(),
            needs: "images, a Box of three dimensions, and no filter before it".into(),
            space: space.to_string(),
        })
    }
}

/// A constructor of a custom torso, which replaces that of the `model` settings, and its name.
///
/// A checkpoint names it. A program that restores the checkpoint, or loads its policy, must give a model of the same name
/// that lays out the same network.
#[derive(Clone)]
pub struct CustomModel {
    name: &'static str,
    make: Arc<MakeTorso>,
}

type MakeTorso = dyn Fn(&mut NetBuilder<'_>, &str) -> Result<Box<dyn Torso>> + Send + Sync;

impl Debug for CustomModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CustomModel {
    /// Makes a model from a constructor, which gets the builder and a prefix for the names of parameters. Its name is
    /// `custom`; with several models, give each a name by [`named`](Self::named).
    pub fn new<T: Torso + 'static>(
        make: impl Fn(&mut NetBuilder<'_>, &str) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self::named("custom", make)
    }

    /// Makes a model with a name, as [`new`](Self::new) does.
    pub fn named<T: Torso + 'static>(
        name: &'static str,
        make: impl Fn(&mut NetBuilder<'_>, &str) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: Arc::new(move |net, prefix| Ok(Box::new(make(net, prefix)?))) }
    }

    /// The name of the model.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn make(&self, net: &mut NetBuilder<'_>, prefix: &str) -> Result<Box<dyn Torso>> {
        (self.make)(net, prefix)
    }
}

/// Builds a network: lays out its parameters in the order of the calls, and records which engine its layers need.
#[derive(Debug)]
pub struct NetBuilder<'a> {
    spec: &'a PolicySpec,
    pub(crate) params: ParamsBuilder,
    pub(crate) groups: Vec<GroupRange>,
    pub(crate) has_target: bool,
    pub(crate) target_in_workers: bool,
    /// Whether the fused engine can run the network: it can run every layer so far, and none uses tensors.
    pub(crate) needs_torch: Option<NeedsTorch>,
    pub(crate) is_noisy: bool,
    /// Number of scalars of the recurrent state per copy.
    pub(crate) memory_width: usize,
    /// Number of equal parts of that state: 2 if it is that of one long short-term memory, else 1.
    pub(crate) memory_parts: usize,
    /// Number of rows per sequence that recurrent layers learn from, at most.
    pub(crate) max_seq_len: usize,
    /// Whether an actor was laid out that does not see the environment's state.
    pub(crate) has_actor: bool,
}

/// What in a network only libtorch computes, for the error of a build without it.
#[derive(Debug)]
pub(crate) struct NeedsTorch {
    /// What was asked for, as the user writes it.
    pub(crate) what: String,
    /// The way out without libtorch.
    pub(crate) instead: &'static str,
}

impl<'a> NetBuilder<'a> {
    /// Notes that libtorch must compute the network.
    fn leave_to_torch(&mut self, why: impl FnOnce() -> NeedsTorch) {
        self.needs_torch.get_or_insert_with(why);
    }

    /// Makes a builder of a network without layers. Initial weights depend on the spec's seed alone.
    pub fn new(spec: &'a PolicySpec) -> Self {
        let rng = Stream::new(spec.seed, "initial weights", 0);
        Self {
            spec,
            params: ParamsBuilder::new(rng),
            groups: Vec::new(),
            has_target: false,
            target_in_workers: false,
            needs_torch: None,
            is_noisy: false,
            memory_width: 0,
            memory_parts: 1,
            max_seq_len: 1,
            has_actor: false,
        }
    }

    /// The specification of the policy.
    pub fn spec(&self) -> &'a PolicySpec {
        self.spec
    }

    /// Returns an error if the user gives a network of their own, for policies that cannot use one.
    ///
    /// # Errors
    /// Returns [`Error::State`] if [`PolicySpec::custom_model`] is set.
    pub fn refuse_custom_model(&self) -> Result<()> {
        if self.spec.custom_model.is_none() {
            return Ok(());
        }
        let reason = "this algorithm lays out its own networks; leave it out, or write them as a `NetPolicy`";
        Err(Error::state("`custom_model`", reason))
    }

    /// The encoding of observations as numbers for the network.
    pub fn encoding(&self) -> Encoding {
        Encoding::of(&self.spec.spaces.observation_space)
    }

    /// Number of columns of [`Input::obs`], the encoded observations.
    pub fn obs_width(&self) -> usize {
        self.spec.spaces.obs_width()
    }

    /// Makes a group of the parameters that `lay_out` adds; the group learns by `rule`. Every parameter belongs to
    /// one group.
    ///
    /// # Errors
    /// Fails if `lay_out` does. Returns [`Error::State`] if a group is opened inside another.
    pub fn group<T>(
        &mut self,
        name: &str,
        rule: Rule,
        lay_out: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(Group, T)> {
        let start = self.params.total();
        let before = self.groups.len();
        let laid_out = lay_out(self)?;
        if self.groups.len() > before {
            let reason = format!(
                "group `{}` was opened inside it; lay them out one after the other",
                self.groups[before].name
            );
            return Err(Error::state(format!("the parameter group `{name}`"), reason));
        }
        let norm_name = interned(&format!("{name}_grad_gnorm"));
        let range = start..self.params.total();
        self.groups.push(GroupRange { name: name.to_owned(), norm_name, range, rule });
        Ok((Group(before), laid_out))
    }

    /// Adds a target network, a copy of all parameters that
    /// [`Learner::update_target`](crate::Learner::update_target) moves.
    pub fn target(&mut self) {
        self.has_target = true;
    }

    /// Adds a target network as [`target`](Self::target) does, and sends it to workers with the weights: for policies
    /// whose postprocessing reads it.
    pub fn target_in_workers(&mut self) {
        self.has_target = true;
        self.target_in_workers = true;
    }

    #[cfg(feature = "torch")]
    /// Makes libtorch run this network, for losses and layers that use tensors.
    pub fn on_libtorch(&mut self) -> OnLibtorch {
        self.leave_to_torch(|| NeedsTorch {
            what: "the network computes with tensors".into(),
            instead: "Write it with the operations of `Value`",
        });
        OnLibtorch(())
    }

    /// Adds a linear layer with an activation and the parameters `name.weight` `[out, inputs]` and `name.bias`
    /// `[out]`.
    pub fn dense(
        &mut self,
        name: &str,
        inputs: usize,
        out: usize,
        activation: Activation,
        init: Init,
    ) -> Dense {
        let o = out as i64;
        let i = inputs as i64;
        let zero = || Array::zeros(Kind::F32, &[o]);
        let (weight, bias) = match init {
            Init::Normc(norm) => (self.params.normc(o, i, norm), zero()),
            Init::Orthogonal(gain) => (self.params.orthogonal(o, i, gain), zero()),
            Init::Uniform => {
                let bound = 1.0 / (i as f64).sqrt();
                (self.params.uniform(&[o, i], -bound, bound), self.params.uniform(&[o], -bound, bound))
            }
        };
        let weight = self.params.add(format!("{name}.weight"), weight);
        self.params.add(format!("{name}.bias"), bias);
        Dense { layer: Layer::Dense { weight, inputs, out, activation }, name: interned(name), inputs, out }
    }

    /// Adds a linear layer with learned noise (Fortunato et al. 2018). The means `name.weight` and `name.bias` start
    /// uniform in plus and minus `1 / sqrt(inputs)`, the deviations `name.sigma_weight` and `name.sigma_bias` at
    /// `sigma0 / sqrt(inputs)`.
    pub fn noisy(
        &mut self,
        name: &str,
        inputs: usize,
        out: usize,
        activation: Activation,
        sigma0: f64,
    ) -> Dense {
        let o = out as i64;
        let i = inputs as i64;
        let bound = 1.0 / (inputs as f64).sqrt();
        let weight = self.params.uniform(&[o, i], -bound, bound);
        let bias = self.params.uniform(&[o], -bound, bound);
        let sigma = |shape: &[i64]| {
            let numbers = shape.iter().product::<i64>() as usize;
            Array::from_vec(vec![(sigma0 * bound) as f32; numbers], shape)
        };
        let weight = self.params.add(format!("{name}.weight"), weight);
        self.params.add(format!("{name}.bias"), bias);
        self.params.add(format!("{name}.sigma_weight"), sigma(&[o, i]));
        self.params.add(format!("{name}.sigma_bias"), sigma(&[o]));
        self.is_noisy = true;
        Dense { layer: Layer::Noisy { weight, inputs, out, activation }, name: interned(name), inputs, out }
    }

    /// Adds a convolution of images of the size `input`, `[channels, height, width]`, with the parameters
    /// `name.weight` `[out, in, kernel height, kernel width]` and `name.bias` `[out]`. Weights start orthogonal times
    /// `sqrt(2)`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a size is 0, or the kernel does not fit the image.
    pub fn conv2d(
        &mut self,
        name: &str,
        input: [usize; 3],
        filter: Filter,
        activation: Activation,
    ) -> Result<Conv2d> {
        let [channels, height, width] = input;
        let Filter { channels: out, kernel, stride, .. } = filter;
        let refuse = || {
            let rule = format!(
                "a kernel of {kernel:?} moved by {stride:?} does not fit an image of {height} x {width}; set others in `model.conv_filters`"
            );
            Err(Error::config("model.conv_filters", format!("{filter:?}"), rule))
        };
        let fitting = filter.on([height, width]).filter(|_| channels > 0 && out > 0);
        let Some((around, sides)) = fitting else { return refuse() };
        let fan_in = channels * kernel[0] * kernel[1];
        let weight = self.params.orthogonal(out as i64, fan_in as i64, std::f64::consts::SQRT_2);
        let shape = [out, channels, kernel[0], kernel[1]].map(|n| n as i64);
        let weight = self.params.add(format!("{name}.weight"), weight.reshape(&shape));
        self.params.add(format!("{name}.bias"), Array::zeros(Kind::F32, &[out as i64]));
        let layer = Layer::Conv2d { weight, input, stride, padding: around, activation };
        let inputs = input.iter().product();
        Ok(Conv2d { layer, name: interned(name), inputs, out: [out, sides[0], sides[1]] })
    }

    /// Adds a layer normalisation with the parameters `name.weight` and `name.bias`, `[width]` each.
    pub fn layer_norm(&mut self, name: &str, width: usize) -> LayerNorm {
        let full = |x: f32| vec![x; width];
        let weight = self.params.add(format!("{name}.weight"), full(1.0));
        self.params.add(format!("{name}.bias"), full(0.0));
        LayerNorm { layer: Layer::Norm { weight, width }, name: interned(name), inputs: width, out: width }
    }

    /// Adds a gated recurrent unit with PyTorch's formulas and names. Its recurrent state is kept for each acting
    /// copy and stored in batches. Weights start orthogonal, biases at 0.
    pub fn gru(&mut self, name: &str, inputs: usize, units: usize) -> Recurrent {
        self.recurrent(name, inputs, units, Cell::Gru)
    }

    /// Adds a long short-term memory with PyTorch's formulas and names. Its recurrent state is kept and its weights
    /// start as those of a [`gru`](Self::gru).
    pub fn lstm(&mut self, name: &str, inputs: usize, units: usize) -> Recurrent {
        self.recurrent(name, inputs, units, Cell::Lstm)
    }

    fn recurrent(&mut self, name: &str, inputs: usize, units: usize, cell: Cell) -> Recurrent {
        let rows = (cell.gates() * units) as i64;
        let mut first = None;
        for (of, columns) in [("ih", inputs), ("hh", units)] {
            let weight = self.params.orthogonal(rows, columns as i64, 1.0);
            first.get_or_insert(self.params.add(format!("{name}.weight_{of}"), weight));
            let bias = Array::zeros(Kind::F32, &[rows]);
            self.params.add(format!("{name}.bias_{of}"), bias);
        }
        let memory = self.memory_width;
        self.memory_width += cell.memory(units);
        self.memory_parts = if memory == 0 { cell.parts() } else { 1 };
        let weight = first.unwrap_or_default();
        let layer = Layer::Recurrent { weight, units, cell, memory };
        Recurrent { layer, name: interned(name), inputs, out: units }
    }

    /// Adds a parameter with its initial numbers, for layers that are applied by [`Net::layer`]. Parameters are numbered in
    /// the order in which they are added; returns the number of this one.
    pub fn parameter(&mut self, name: &str, init: impl Into<Array>) -> usize {
        self.params.add(name, init)
    }

    /// Adds `width` scalars to the recurrent state of each row, for recurrent layers that are applied by [`Net::layer`].
    /// `parts` is the number of equal parts of the whole state: 2 if it is that of one long short-term memory, else 1.
    pub fn remember(&mut self, width: usize, parts: usize) {
        self.memory_width += width;
        self.memory_parts = parts;
    }

    /// Whether an actor was laid out that does not see the environment's state; see
    /// [`actor_torso`](Self::actor_torso).
    pub fn has_actor(&self) -> bool {
        self.has_actor
    }

    /// Adds a vector of parameters that learns and depends on no input, such as log standard deviations.
    pub fn free(&mut self, name: &str, init: &[f32]) -> Free {
        Free { layer: Layer::Free { parameter: self.params.add(name, init) } }
    }
}

/// The layers from the observation to the heads. Implement it to use a network of your own with any algorithm.
pub trait Torso: Debug + Send + Sync {
    /// Number of features per row.
    fn width(&self) -> usize;

    /// Computes the features, `[rows, width]`.
    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t>;
}
