//! The connection between an environment and a policy, used by the sampler, evaluations and sessions.

mod choosing;
mod exporting;
mod gathering;
mod lending;
mod making;
mod saving;

use crate::policy::{Policy, StepColumns};
use crate::sample::connector::choosing::Choices;
use crate::sample::filter::MeanStdFilter;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::state_noise::StateNoise;
use crate::sample::transforms::{EnvToPolicy, PolicyToEnv};
use pavlov_envs::StepOut;
use pavlov_learn::base::{Result, Spaces, Stream};
use pavlov_learn::experience::Column;
use pavlov_learn::params::Encoding;

/// Everything that acting needs besides a policy: storing and filtering of observations, recurrent state and random
/// stream of every copy, random actions in the first steps, and conversion of actions for the environment.
///
/// # Contract
///
/// * The actions of copy `i` depend on its own observations, recurrent state and random stream only.
/// * Nothing is allocated per step.
#[derive(Debug)]
pub(crate) struct Connector {
    /// Spaces of the environment.
    spaces: Spaces,
    copies: usize,
    /// Index of the worker, and the number of workers.
    worker: (usize, usize),
    /// Whether the environment's action masks are read.
    masked: bool,
    gamma: f64,
    /// Number of environment steps at the start of a run in which actions are drawn at random.
    random_timesteps: u64,
    /// Conversion of raw observations to stored ones.
    preprocess: EnvToPolicy,
    /// Conversion of stored observations to the model's input.
    encoding: Encoding,
    pub(crate) filter: Option<MeanStdFilter>,
    /// Conversion of the policy's actions to the environment's form.
    to_env: PolicyToEnv,
    /// Columns that the policy adds, with the number of values per row.
    columns: Vec<(Column, usize)>,
    names: Vec<Column>,
    /// Recurrent state, `[copies, width]`.
    memory: Vec<f32>,
    memory_width: usize,
    /// Number of steps from one stored recurrent state to the next.
    max_seq_len: usize,
    /// For each copy, whether its next step is the first of an episode.
    resets: Vec<bool>,
    /// Random stream of each copy.
    rngs: Vec<Stream>,
    /// Correlated exploration noise, `[copies, components]`; empty for discrete actions.
    noise: Vec<f32>,
    noise_width: usize,
    /// State-dependent noise of all copies; `None` if the policy has none.
    state_noise: Option<StateNoise>,
    /// Raw observations of one step; empty if the environment writes the stored form itself. The words of eight bytes
    /// are aligned for every scalar type.
    raw: Vec<u64>,
    /// Raw last observations of the episodes that end in one step.
    raw_final: Vec<u64>,
    /// Buffer for one stored observation.
    final_row: Vec<u64>,
    /// Buffer for one observation as the model's input.
    model_row: Vec<f32>,
}

impl Connector {
    /// Starts an episode of one copy: zeroes its recurrent state and noise, and replaces its random stream by `stream`,
    /// if given. State-dependent noise goes on, unless the stream is a new one.
    pub(crate) fn begin(&mut self, copy: usize, stream: Option<Stream>) {
        self.memory[copy * self.memory_width..][..self.memory_width].fill(0.0);
        self.noise[copy * self.noise_width..][..self.noise_width].fill(0.0);
        self.resets[copy] = true;
        if let Some(stream) = stream {
            self.rngs[copy] = stream;
            self.renew_noise(copy);
        }
    }

    /// Draws the state-dependent noise of one copy anew before its next action.
    pub(crate) fn renew_noise(&mut self, copy: usize) {
        self.state_noise.iter_mut().for_each(|noise| noise.ages[copy] = 0);
    }

    /// Starts a fragment: state-dependent noise is drawn anew before the next action, so none of it is carried over from the
    /// fragment before, nor saved.
    pub(crate) fn begin_fragment(&mut self) {
        self.state_noise.iter_mut().for_each(|noise| noise.ages.fill(0));
    }

    /// Buffer for the first raw observations of all copies; [`observe`](Self::observe) then stores them in row 0.
    pub(crate) fn first<'a>(&'a mut self, steps: &'a mut RolloutBuffer) -> &'a mut [u8] {
        let Self { preprocess, raw, copies, .. } = self;
        if preprocess.direct {
            steps.obs.bytes_mut(0)
        } else {
            &mut bytemuck::cast_slice_mut(raw)[..*copies * preprocess.raw_bytes]
        }
    }

    /// Stores the raw observations that the environment has just written in row `t`; with `learn` the filter counts
    /// them, too.
    pub(crate) fn observe(&mut self, steps: &mut RolloutBuffer, t: usize, learn: bool) -> Result<()> {
        if !self.preprocess.direct {
            let bytes = self.copies * self.preprocess.raw_bytes;
            self.preprocess.apply(&bytemuck::cast_slice(&self.raw)[..bytes], steps.obs.bytes_mut(t))?;
        }
        if let Some(filter) = &mut self.filter {
            filter.apply(steps.obs.slice_mut(t), learn);
        }
        Ok(())
    }

    /// The raw observations of all copies that the environment has just written for row `t`, before
    /// [`observe`](Self::observe) stores them.
    pub(crate) fn raw<'a>(&'a self, steps: &'a mut RolloutBuffer, t: usize) -> &'a [u8] {
        if self.preprocess.direct {
            return steps.obs.bytes_mut(t);
        }
        &bytemuck::cast_slice(&self.raw)[..self.copies * self.preprocess.raw_bytes]
    }

    /// Returns the last observation of one copy's finished episode, in the stored form, and the recurrent state after
    /// its last step. The observation is `raw` if given, otherwise the one that the environment wrote in its last step.
    pub(crate) fn last_seen(&mut self, copy: usize, raw: Option<&[u8]>) -> Result<(&[u8], &[f32])> {
        let row_bytes = self.row_bytes();
        let raw_bytes = self.preprocess.raw_bytes;
        let written = &bytemuck::cast_slice(&self.raw_final);
        let row = &mut bytemuck::cast_slice_mut(&mut self.final_row)[..row_bytes];
        self.preprocess.apply(raw.unwrap_or_else(|| &written[copy * raw_bytes..][..raw_bytes]), row)?;
        if let Some(filter) = &mut self.filter {
            filter.apply(bytemuck::cast_slice_mut(row), false);
        }
        Ok((row, &self.memory[copy * self.memory_width..][..self.memory_width]))
    }

    /// Chooses one action per copy by the observations of row `t`; stores the actions and the policy's columns in that
    /// row.
    pub(crate) fn act(
        &mut self,
        policy: &mut dyn Policy,
        steps: &mut RolloutBuffer,
        t: usize,
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let RolloutBuffer { obs, masks, actions, columns, memories, .. } = steps;
        if let Some(memories) = memories {
            memories.store(t, &self.memory, &self.resets);
        }
        let choices = Choices {
            mask: masks.as_mut().map(|masks| &*masks.row(t)),
            memory: &mut self.memory,
            resets: &self.resets,
            rngs: &mut self.rngs,
            noise: &mut self.noise,
            matrices: self.state_noise.as_mut().map(StateNoise::all),
            actions: actions.bytes_mut(t),
            columns: StepColumns {
                names: &self.names,
                rows: columns,
                step: t,
                acting: (self.copies, self.copies),
            },
            to_env: &self.to_env,
            worker: self.worker,
            explore,
            timestep,
            random_timesteps: self.random_timesteps,
        };
        choices.act(policy, obs.row(t))?;
        self.resets.fill(false);
        Ok(())
    }

    /// Returns the actions of step `t` in the environment's form, and the buffers that the environment's step writes
    /// to.
    pub(crate) fn exchange<'a>(
        &'a mut self,
        steps: &'a mut RolloutBuffer,
        t: usize,
    ) -> (&'a [u8], StepOut<'a, u8>) {
        let Self { preprocess, raw, raw_final, to_env, copies, .. } = self;
        let bytes = *copies * preprocess.raw_bytes;
        let RolloutBuffer { obs, actions, rewards, terminated, truncated, .. } = steps;
        let rows = t * *copies..(t + 1) * *copies;
        let out = StepOut {
            obs: if preprocess.direct {
                obs.bytes_mut(t + 1)
            } else {
                &mut bytemuck::cast_slice_mut(raw)[..bytes]
            },
            final_obs: &mut bytemuck::cast_slice_mut(raw_final)[..bytes],
            rewards: &mut rewards[rows.clone()],
            terminated: &mut terminated[rows.clone()],
            truncated: &mut truncated[rows],
        };
        (to_env.apply(actions.bytes_mut(t)), out)
    }
}
