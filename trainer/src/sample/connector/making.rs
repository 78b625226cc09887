//! How a pilot is made, and what it is asked for.

use crate::base::{Result, Spaces, Stream};
use crate::experience::Column;
use crate::learn::params::Encoding;
use crate::policy::Policy;
use crate::sample::connector::Connector;
use crate::sample::filter::{MeanStdFilter, RunningStat};
use crate::sample::memory::Memories;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::transforms::{EnvToPolicy, PolicyToEnv};
use crate::settings::Common;
use pavlov_envs::{DType, Space};

/// Bytes of one stored row.
fn row_bytes(encoding: &Encoding) -> usize {
    encoding.shape().iter().product::<i64>() as usize * encoding.kind().elt_size_in_bytes()
}

impl Connector {
    /// For as many copies as there are streams; `act_dtype` is that of actions.
    pub(crate) fn new(
        spaces: &Spaces,
        act_dtype: DType,
        common: &Common,
        policy: &dyn Policy,
        worker: usize,
        rngs: Vec<Stream>,
    ) -> Result<Self> {
        let copies = rngs.len();
        let stored = common.stored(spaces);
        let preprocess = EnvToPolicy::new(&spaces.observation_space, &stored.observation_space);
        let encoding = Encoding::of(&stored.observation_space);
        let (columns, memory_width) = (policy.step_columns(), policy.memory_width());
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
            filter: None,
            names: columns.iter().map(|(name, _)| *name).collect(),
            columns,
            memory: vec![0.0; copies * memory_width],
            memory_width,
            max_seq_len: policy.max_seq_len(),
            resets: vec![true; copies],
            rngs,
            noise: vec![0.0; copies * noise_width],
            noise_width,
            raw: preprocess.buffer(copies),
            raw_final: vec![0; (copies * preprocess.raw_bytes).div_ceil(8)],
            final_row: vec![0; row_bytes(&encoding).div_ceil(8)],
            model_row: vec![0.0; encoding.width()],
            preprocess,
            encoding,
        })
    }

    /// Observations are normalised by these statistics, if there are any.
    pub(crate) fn filtered_by(mut self, running: Option<&RunningStat>) -> Result<Self> {
        self.filter = match running {
            None => None,
            Some(running) => {
                let mut filter = MeanStdFilter::new(self.encoding.width());
                filter.set_running(running)?;
                Some(filter)
            }
        };
        Ok(self)
    }

    /// Storage of so many steps.
    pub(crate) fn steps(&self, steps: usize) -> Result<RolloutBuffer> {
        let widths = self.columns.iter().map(|(_, width)| *width);
        let space = &self.spaces.action_space;
        let obs = (self.encoding.shape(), self.encoding.kind());
        let mut storage = RolloutBuffer::new(steps, self.copies, obs, space, widths, self.masked)?;
        storage.memories = (self.memory_width > 0)
            .then(|| Memories::new(steps, self.copies, self.memory_width, self.max_seq_len));
        Ok(storage)
    }

    /// What copy `i` remembers.
    pub(crate) fn memory(&self, copy: usize) -> &[f32] {
        &self.memory[copy * self.memory_width..][..self.memory_width]
    }

    /// What all copies remember, `[copies, width]`.
    pub(crate) fn memories(&self) -> &[f32] {
        &self.memory
    }

    /// The policy's own columns.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.names
    }

    /// Whether actions are choices; otherwise they are numbers.
    pub(crate) fn is_discrete(&self) -> bool {
        matches!(self.to_env, PolicyToEnv::Int { .. })
    }

    /// What the environment takes.
    pub(crate) fn action_space(&self) -> &Space {
        &self.spaces.action_space
    }

    /// What stored rows are.
    pub(crate) fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Bytes of one stored row.
    pub(crate) fn row_bytes(&self) -> usize {
        row_bytes(&self.encoding)
    }

    /// Whether each copy's next step is the first of its episode.
    pub(crate) fn resets(&self) -> &[bool] {
        &self.resets
    }

    /// A stored row as the model takes it: that of copy `i` in row `t`, or what [`final_obs`](Self::final_obs) made last.
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
