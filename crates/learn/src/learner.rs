//! The learner: a network with parameters, gradients and optimizers, with which most policies learn.
//!
//! Heads and losses are closures over [`Value`]s. Which of the two engines runs them is decided where the network is laid
//! out: fully connected and recurrent networks on the CPU run in plain memory, everything else by libtorch. The results of
//! the two engines are equal up to the order of sums. The first gives the same bits on every processor; libtorch's last
//! digits depend on the kind of processor.

use crate::base::{ArrayRef, Error, Result, Stream, StreamState};
pub use crate::engines::Report;
use crate::engines::{Backend, Together};
use crate::experience::{BatchValues, SampleBatch};
use crate::loss::{Input, MinibatchInfo, Net, refusals};
pub use crate::loss::{Loss, Observed, Remembered, Rows, Value, min};
use crate::params::{Buffer, Encoding, GroupRange, LearningGroups, Params, clip_grad_norm};
pub use crate::params::{Group, Optimizer, OptimizerConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A network with its parameters, those of its target copy, and the optimizers.
///
/// ```
/// use pavlov_learn::Learner;
/// use pavlov_learn::base::Result;
/// use pavlov_learn::experience::{Column, SampleBatch};
/// use pavlov_learn::layers::Activation;
/// use pavlov_learn::loss::{Loss, Rows};
/// use pavlov_learn::nets::{Init, NetBuilder, PolicySpec};
/// use pavlov_learn::params::Rule;
///
/// /// One layer that learns the value targets of `batch`.
/// fn fit(spec: &PolicySpec, batch: &SampleBatch) -> Result<Learner> {
///     let mut net = NetBuilder::new(spec);
///     let inputs = net.obs_width();
///     let (_, layer) = net.group("value", Rule::adam(1e-3, 1e-8), |net| {
///         Ok(net.dense("out", inputs, 1, Activation::Linear, Init::Normc(1.0)))
///     })?;
///     let mut learner = net.finish()?;
///     for _ in 0..100 {
///         let report = learner.gradient(batch, |rows: &Rows<'_>| {
///             let error = layer.on(rows.online(), rows.obs()?.obs()) - rows.get(Column::VALUE_TARGETS)?;
///             Ok(Loss::new(error.square().mean()))
///         })?;
///         learner.step(&report);
///     }
///     Ok(learner)
/// }
/// ```
#[derive(Debug)]
pub struct Learner {
    /// Parameters of the network, then of its target copy.
    pub(crate) sets: Vec<Params>,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) groups: Vec<GroupRange>,
    pub(crate) all: Vec<Group>,
    /// One optimizer per parameter group.
    pub(crate) optimizers: Vec<Optimizer>,
    pub(crate) gradient: Buffer,
    pub(crate) backend: Box<dyn Backend>,
    /// Random stream of noisy layers while learning.
    pub(crate) noise: Option<Stream>,
    pub(crate) rng: Stream,
    pub(crate) steps: u64,
    pub(crate) timestep: u64,
    pub(crate) target_in_workers: bool,
    pub(crate) memory_width: usize,
    pub(crate) memory_parts: usize,
    pub(crate) max_seq_len: usize,
    /// Scratch memory for the results of [`evaluate`](Self::evaluate).
    pub(crate) out: Vec<f32>,
    /// The connection to other learners, which share the work of a gradient; `None` if this learner computes alone.
    pub(crate) together: Option<Together>,
}

/// Environment steps of the run, and positions of a learner's random streams.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Moment {
    timestep: u64,
    rng: StreamState,
    noise: Option<StreamState>,
}

impl Learner {
    /// Number of columns that `head` computes.
    pub fn columns_of<H>(&mut self, head: H) -> Result<usize>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        refusals(|| self.backend.columns(&self.sets, self.memory_width, &head))
    }

    /// Computes `head` for observations `[rows, ...]`, without gradients; returns `[rows, columns]` in row-major order.
    /// Noisy layers draw their noise from `noise`; if it is `None`, they have no noise.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the observations are not as wide as the space's.
    ///
    /// # Panics
    /// Panics if `head` has another number of columns than `columns`.
    pub fn evaluate<'a, H>(
        &mut self,
        seen: impl Into<Observed<'a>>,
        noise: Option<Stream>,
        columns: usize,
        head: H,
    ) -> Result<&[f32]>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let seen = seen.into();
        let rows = seen.obs.len();
        self.out.resize(rows * columns, 0.0);
        if rows > 0 {
            self.check_obs(seen.obs)?;
            refusals(|| self.backend.evaluate(&self.sets, seen, noise, columns, &head, &mut self.out))?;
        }
        Ok(&self.out)
    }

    /// Computes `f`, one number per row of `batch`, without gradients and without the noise of noisy layers.
    ///
    /// # Errors
    /// Fails if `f` does, or the sequences of `batch` lack `state_in` or `resets` ([`Error::MissingColumn`]).
    pub fn per_row<F>(&mut self, batch: &SampleBatch, f: F) -> Result<&[f32]>
    where
        F: for<'t> Fn(&Rows<'t>) -> Result<Value<'t>> + Sync,
    {
        self.out.resize(batch.rows(), 0.0);
        if batch.rows() > 0 {
            let live = LearningGroups { groups: &self.groups, learning: &[] };
            let about = MinibatchInfo {
                rows: batch.rows(),
                mean_rows: batch.mean_rows(),
                timestep: self.timestep,
                has_target: self.sets.len() > 1,
                live,
            };
            refusals(|| self.backend.per_row(&self.sets, batch, about, &f, &mut self.out))?;
        }
        Ok(&self.out)
    }

    /// Computes a head of one column at every row of `batch`, and at the observation after every trajectory that was cut.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the batch does not know its trajectories or its observations are of another width,
    /// and [`Error::MissingColumn`] if it has no `obs`.
    pub fn values<H>(&mut self, batch: &SampleBatch, head: H) -> Result<BatchValues>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let behind = self.per_row(batch.behind()?, |rows| Ok(head(rows.frozen(), rows.obs()?)))?.to_vec();
        let rows = self.per_row(batch, |rows| Ok(head(rows.frozen(), rows.obs()?)))?.to_vec();
        Ok(BatchValues { rows, behind })
    }

    /// Computes the gradient of `loss`, a mean over the rows of `batch`, for the parameters of all groups.
    ///
    /// `loss` gets a piece of the rows and returns means over them. It must not depend on other rows: facts about
    /// the whole batch belong in columns (of a policy in pavlov's trainer: `NetPolicy::prepare`).
    ///
    /// # Errors
    /// Fails if `loss` does. Returns [`Error::State`] if `batch` has no rows, or the loss or a mean that it reports is
    /// not one number; [`Error::MissingColumn`] if the sequences of `batch` lack `state_in` or `resets`.
    pub fn gradient<L>(&mut self, batch: &SampleBatch, loss: L) -> Result<Report>
    where
        L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
    {
        let all = std::mem::take(&mut self.all);
        let report = self.gradient_of(&all, batch, loss);
        self.all = all;
        report
    }

    /// Computes the [`gradient`](Self::gradient) for some parameter groups; those of other groups count as frozen.
    ///
    /// # Errors
    /// Fails whenever [`gradient`](Self::gradient) does.
    pub fn gradient_of<L>(&mut self, groups: &[Group], batch: &SampleBatch, loss: L) -> Result<Report>
    where
        L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
    {
        if batch.rows() == 0 {
            return Err(Error::state("a batch", "it has no rows to learn from"));
        }
        let about = MinibatchInfo {
            rows: batch.rows(),
            mean_rows: batch.mean_rows(),
            timestep: self.timestep,
            has_target: self.sets.len() > 1,
            live: LearningGroups { groups: &self.groups, learning: groups },
        };
        let sets = &self.sets;
        let gradient = &mut self.gradient;
        if let Some(together) = self.together.as_ref().filter(|together| together.lost().is_none()) {
            let beside = (self.noise.as_mut(), Some(together));
            let taken = refusals(|| self.backend.gradient(sets, batch, about, beside, &loss, gradient));
            // This learner computes the lost learners' pieces, so the gradient stays the same.
            if taken.is_ok() || together.lost().is_none() || !together.leads() {
                return taken;
            }
        }
        refusals(|| self.backend.gradient(sets, batch, about, (self.noise.as_mut(), None), &loss, gradient))
    }

    /// Sets the other learners that share the work of gradients from now on; with `None` this learner computes alone.
    pub fn learn_with(&mut self, together: Option<Together>) {
        self.together = together;
    }

    /// The number of environment steps and the positions of random streams, on which the next gradient depends.
    pub fn moment(&self) -> Moment {
        Moment {
            timestep: self.timestep,
            rng: self.rng.state(),
            noise: self.noise.as_ref().map(Stream::state),
        }
    }

    /// Continues from another learner's [`moment`](Self::moment).
    pub fn set_moment(&mut self, moment: &Moment) {
        self.timestep = moment.timestep;
        self.rng = Stream::from_state(moment.rng);
        self.noise = moment.noise.map(Stream::from_state);
    }

    /// The engine that computes: `fused`, whose numbers have the same bits on every processor, or `torch`.
    pub fn engine(&self) -> &'static str {
        self.backend.name()
    }

    /// Sets the vector instructions of the fused engine, for tests; the default is the best that the processor has.
    #[doc(hidden)]
    pub fn set_arch(&mut self, arch: pulp::Arch) {
        self.backend.set_arch(arch);
    }

    /// The gradient that [`gradient`](Self::gradient) computed last, `[total]`.
    #[inline]
    pub fn last_gradient(&self) -> &[f32] {
        self.gradient.read()
    }

    /// The range of a group's parameters in the flat buffer.
    #[inline]
    pub fn range(&self, group: Group) -> std::ops::Range<usize> {
        self.groups[group.0].range.clone()
    }

    /// All parameter groups except `resting`.
    pub fn groups_but(&self, resting: Option<Group>) -> Vec<Group> {
        self.all.iter().copied().filter(|&group| Some(group) != resting).collect()
    }

    /// Adds the gradient of `l2 / 2` times the sum of squared weights, for every group in `report`. It draws weights
    /// towards 0; biases are left out. Call it before [`clip`](Self::clip).
    pub fn add_l2(&mut self, l2: f64, report: &Report) {
        if l2 == 0.0 {
            return;
        }
        let set = &self.sets[0];
        for range in set.weight_ranges() {
            if report.groups.iter().any(|group| self.groups[group.0].range.contains(&range.start)) {
                match self.gradient.write() {
                    Ok(gradient) => {
                        let weights = &set.flat()[range.clone()];
                        gradient[range].iter_mut().zip(weights).for_each(|(g, w)| *g += w * l2 as f32);
                    }
                    Err(gradient) => gradient.add_scaled(&range, set.buffer().there(), l2),
                }
            }
        }
    }

    /// Scales down the gradient of each group in `report` to its largest allowed norm, if its rule has one. The norms
    /// before that are added to the report: as `grad_gnorm` if there is one group, else as `<group>_grad_gnorm`.
    pub fn clip(&mut self, report: &mut Report) {
        for &Group(i) in &report.groups {
            let group = &self.groups[i];
            if let Some(max_norm) = group.rule.grad_clip {
                let name = if self.groups.len() == 1 { "grad_gnorm" } else { group.norm_name };
                clip_grad_norm(&mut self.gradient, group.range.clone(), max_norm, name, &mut report.stats);
            }
        }
    }

    /// Steps the optimizer of every group in `report`, at the current learning rate of its schedule. Optimizers of other
    /// groups keep their state.
    pub fn step(&mut self, report: &Report) {
        self.steps += 1;
        self.step_part(report);
    }

    /// Steps as [`step`](Self::step) does, as the first part of a learning step: [`steps`](Self::steps) counts the last
    /// part only.
    pub fn step_part(&mut self, report: &Report) {
        let flat = self.sets[0].buffer_mut();
        for &Group(i) in &report.groups {
            let group = &self.groups[i];
            let lr = group.rule.lr.at(self.timestep);
            self.optimizers[i].step_part(flat, &self.gradient, group.range.clone(), lr);
        }
    }

    /// Number of calls of [`step`](Self::step) so far; saved with the optimizers.
    #[inline]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Moves the target copy towards the network: `target += tau * (online - target)`. With `tau` 1 it becomes equal.
    /// Does nothing without a target copy.
    pub fn update_target(&mut self, tau: f64) {
        if let [online, target] = self.sets.as_mut_slice() {
            target.soft_update(online, tau);
        }
    }

    /// The learner's own random stream, for noise that a loss needs. `NetPolicy::prepare` draws it for all rows.
    #[inline]
    pub fn rng(&mut self) -> &mut Stream {
        &mut self.rng
    }

    /// Number of environment steps of the whole run, for schedules.
    #[inline]
    pub fn timestep(&self) -> u64 {
        self.timestep
    }

    /// Sets the number of environment steps of the run, for schedules.
    #[inline]
    pub fn set_timestep(&mut self, timestep: u64) {
        self.timestep = timestep;
    }

    /// Number of rows of a sequence; 1 without recurrent layers.
    #[inline]
    pub fn max_seq_len(&self) -> usize {
        self.max_seq_len
    }

    /// Number of scalars of the recurrent state of one environment copy; 0 without recurrent layers.
    #[inline]
    pub fn memory_width(&self) -> usize {
        self.memory_width
    }

    /// Whether any layer is noisy.
    #[inline]
    pub fn is_noisy(&self) -> bool {
        self.noise.is_some()
    }

    /// The current learning rates by name: `cur_lr`, or `<group>_lr` for each group if there are several.
    pub fn rates(&self) -> BTreeMap<String, f64> {
        let rate = |group: &GroupRange| {
            let name = if self.groups.len() == 1 { "cur_lr".into() } else { format!("{}_lr", group.name) };
            (name, group.rule.lr.at(self.timestep))
        };
        self.groups.iter().map(rate).collect()
    }

    /// Refuses observations whose rows do not fit the space.
    fn check_obs(&self, obs: ArrayRef<'_>) -> Result<()> {
        self.encoding.check(obs.width())
    }

    /// The parameters of the network.
    #[inline]
    pub fn params(&self) -> &Params {
        &self.sets[0]
    }
}
