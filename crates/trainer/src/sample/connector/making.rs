//! Making a connector, and access to its parts.

use crate::policy::Policy;
use crate::sample::connector::Connector;
use crate::sample::filter::{MeanStdFilter, RunningStat};
use crate::sample::memory::Memories;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::state_noise::StateNoise;
use crate::sample::transforms::{EnvToPolicy, PolicyToEnv};
use crate::settings::{Common, ObservationFilter};
use pavlov_envs::{DType, Space};
use pavlov_learn::base::{Result, Spaces, Stream};
use pavlov_learn::params::Encoding;

/// The parts of a connector that do not belong to episodes.
#[derive(Debug)]
pub(crate) struct ConnectorParts {
    pub(crate) spaces: Spaces,
    pub(crate) preprocess: EnvToPolicy,
    pub(crate) encoding: Encoding,
    pub(crate) filter: Option<MeanStdFilter>,
    pub(crate) to_env: PolicyToEnv,
    /// Number of options of each choice; `None` without masks of legal actions.
    pub(crate) choices: Option<Vec<usize>>,
    pub(crate) worker: (usize, usize),
}

/// Number of bytes of one stored observation.
fn row_bytes(encoding: &Encoding) -> usize {
    encoding.shape().iter().product::<i64>() as usize * encoding.kind().size()
}

impl Connector {
    /// Makes a connector with one copy per random stream in `rngs`, and with an empty filter if the settings ask for
    /// one; `act_dtype` is the scalar type of the actions.
    pub(crate) fn new(
        spaces: &Spaces,
        act_dtype: DType,
        common: &Common,
        policy: &dyn Policy,
        worker: usize,
        rngs: Vec<Stream>,
    ) -> Result<Self> {
        let copies = rngs.len();
        let stored = common.policy_spaces(spaces);
        let preprocess = EnvToPolicy::new(&spaces.observation_space, &stored.observation_space);
        let encoding = Encoding::of(&stored.observation_space);
        let columns = policy.step_columns();
        let memory_width = policy.memory_width();
        let noise_width = match &spaces.action_space {
            Space::Box { .. } => spaces.action_space.width(),
            _ => 0,
        };
        Ok(Self {
            to_env: PolicyToEnv::new(&spaces.action_space, act_dtype, copies, common)?,
            spaces: spaces.clone(),
            copies,
            worker: (worker, common.num_workers),
            masked: common.mask_actions,
            gamma: common.gamma,
            random_timesteps: common.exploration_config.random_timesteps(),
            filter: (common.observation_filter == ObservationFilter::MeanStdFilter)
                .then(|| MeanStdFilter::new(encoding.width())),
            names: columns.iter().map(|(name, _)| *name).collect(),
            columns,
            memory: vec![0.0; copies * memory_width],
            memory_width,
            max_seq_len: policy.max_seq_len(),
            resets: vec![true; copies],
            rngs,
            noise: vec![0.0; copies * noise_width],
            noise_width,
            state_noise: policy.sde().map(|shape| StateNoise::new(shape, copies)),
            raw: preprocess.buffer(copies),
            raw_final: vec![0; (copies * preprocess.raw_bytes).div_ceil(8)],
            final_row: vec![0; row_bytes(&encoding).div_ceil(8)],
            model_row: vec![0.0; encoding.width()],
            preprocess,
            encoding,
        })
    }

    /// Replaces the filter by one with the statistics `running`; with `None` observations are not filtered.
    pub(crate) fn filtered_by(mut self, running: Option<&RunningStat>) -> Result<Self> {
        self.filter = running.map(|_| self.new_filter());
        if let (Some(filter), Some(running)) = (&mut self.filter, running) {
            filter.set_running(running)?;
        }
        Ok(self)
    }

    /// Makes a filter without any statistics yet.
    pub(crate) fn new_filter(&self) -> MeanStdFilter {
        MeanStdFilter::new(self.encoding.width())
    }

    /// Allocates a rollout buffer for `steps` steps of all copies.
    pub(crate) fn steps(&self, steps: usize) -> Result<RolloutBuffer> {
        let widths = self.columns.iter().map(|(_, width)| *width);
        let space = &self.spaces.action_space;
        let obs = (self.encoding.shape(), self.encoding.kind());
        let mut storage = RolloutBuffer::new(steps, self.copies, obs, space, widths, self.masked)?;
        storage.memories = (self.memory_width > 0)
            .then(|| Memories::new(steps, self.copies, self.memory_width, self.max_seq_len));
        Ok(storage)
    }

    /// What a policy that threads share needs of the connector; what belongs to running episodes is dropped.
    pub(crate) fn into_parts(self) -> ConnectorParts {
        let choices = self.masked.then(|| self.choices().to_vec());
        let Self { spaces, preprocess, encoding, filter, to_env, worker, .. } = self;
        ConnectorParts { spaces, preprocess, encoding, filter, to_env, choices, worker }
    }

    /// Recurrent state of one copy, `[width]`.
    pub(crate) fn memory(&self, copy: usize) -> &[f32] {
        &self.memory[copy * self.memory_width..][..self.memory_width]
    }

    /// Recurrent state of all copies, `[copies, width]`.
    pub(crate) fn memories(&self) -> &[f32] {
        &self.memory
    }

    /// Whether actions are discrete choices; otherwise they are real numbers.
    pub(crate) fn is_discrete(&self) -> bool {
        matches!(self.to_env, PolicyToEnv::Int { .. })
    }

    /// The environment's action space.
    pub(crate) fn action_space(&self) -> &Space {
        &self.spaces.action_space
    }

    /// Shape and scalar type of a stored observation, and its conversion to the model's input.
    pub(crate) fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Number of bytes of one stored observation.
    pub(crate) fn row_bytes(&self) -> usize {
        row_bytes(&self.encoding)
    }

    /// For each copy, whether its next step is the first of an episode.
    pub(crate) fn resets(&self) -> &[bool] {
        &self.resets
    }

    /// Converts a stored observation to the model's input. `at` is its row and its copy; with `None` it is the
    /// observation that [`last_seen`](Self::last_seen) converted last.
    pub(crate) fn model_row(&mut self, steps: &mut RolloutBuffer, at: Option<(usize, usize)>) -> &[f32] {
        let bytes = self.row_bytes();
        let row = match at {
            Some((t, copy)) => &steps.obs.bytes_mut(t)[copy * bytes..][..bytes],
            None => &bytemuck::cast_slice(&self.final_row)[..bytes],
        };
        self.encoding.row(row, &mut self.model_row);
        &self.model_row
    }
}
