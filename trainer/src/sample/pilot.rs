//! Acting: everything between an environment and a policy but the policy itself. The sampler, evaluation and users'
//! calls share it.

use crate::{
    base::{
        batch::Column,
        error::{Error, Result},
        host,
        rng::{Stream, StreamState},
        state::State,
    },
    learn::nets::Encoding,
    policy::{
        Policy, Spaces,
        act::{Act, Seen, StepColumns},
    },
    run::common::Common,
    sample::{
        filter::{MeanStdFilter, RunningStat},
        gather::Gathered,
        memory::Memories,
        steps::Steps,
        transforms::{Preprocess, ToEnv},
    },
};
use pavlov_envs::DType;
use tch::Tensor;

/// What acting needs besides a policy: how observations are stored and filtered, the memory of every copy, random
/// streams, random first steps, and the way of actions to the environment.
///
/// # Contract
///
/// * What copy `i` does depends on its own observations, memory and stream only.
/// * Nothing is allocated per step.
#[derive(Debug)]
pub(crate) struct Pilot {
    spaces: Spaces,
    copies: usize,
    worker: (usize, usize),
    masked: bool,
    /// Steps of the run in which actions are drawn at random.
    random_timesteps: u64,
    preprocess: Preprocess,
    /// How stored rows become the model's numbers.
    encoding: Encoding,
    pub(crate) filter: Option<MeanStdFilter>,
    to_env: ToEnv,
    columns: Vec<(Column, usize)>,
    names: Vec<Column>,
    /// `[copies, width]`.
    memory: Vec<f32>,
    memory_width: usize,
    /// Steps from one stored memory to the next.
    max_seq_len: usize,
    resets: Vec<bool>,
    rngs: Vec<Stream>,
    /// Raw observations of one step, when they are not the model's own form. Eight-byte scalars, so that the bytes are
    /// aligned for whatever the environment writes.
    raw: Vec<u64>,
    raw_final: Vec<u64>,
    /// One stored row, and one as the model takes it.
    final_row: Vec<u64>,
    model_row: Vec<f32>,
}

/// What those copies that act have at hand, and where their choices go.
struct Chosen<'a> {
    mask: Option<&'a [bool]>,
    memory: &'a mut [f32],
    resets: &'a [bool],
    rngs: &'a mut [Stream],
    actions: &'a mut [u8],
    columns: StepColumns<'a>,
}

/// How they choose.
struct How<'a> {
    to_env: &'a ToEnv,
    worker: (usize, usize),
    /// Actions are drawn at random.
    first_steps: bool,
    explore: bool,
    timestep: u64,
}

impl How<'_> {
    fn act(self, policy: &mut dyn Policy, obs: &Tensor, chosen: Chosen<'_>) -> Result<()> {
        let Self { to_env, worker, first_steps, explore, timestep } = self;
        let Chosen { mask, memory, resets, rngs, actions, columns } = chosen;
        let seen = Seen { obs, mask, memory, resets, explore, timestep };
        let act = Act {
            rngs: &mut *rngs,
            actions: to_env.rows(&mut *actions),
            mask,
            explore,
            timestep,
            worker,
            columns,
        };
        policy.compute_actions(seen, act)?;
        if first_steps {
            // What the policy remembers and stores goes on as ever.
            to_env.draw(actions, mask, rngs);
        }
        Ok(())
    }
}

/// A step of the environments: what they are given, and where they write.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) actions: &'a [u8],
    pub(crate) obs: &'a mut [u8],
    pub(crate) final_obs: &'a mut [u8],
}

/// Bytes of one stored row.
fn row_bytes(encoding: &Encoding) -> usize {
    encoding.shape().iter().product::<i64>() as usize * encoding.kind().elt_size_in_bytes()
}

impl Pilot {
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
        let preprocess = Preprocess::new(&spaces.observation_space, &stored.observation_space);
        let encoding = Encoding::of(&stored.observation_space);
        let (columns, memory_width) = (policy.step_columns(), policy.memory_width());
        Ok(Self {
            to_env: ToEnv::new(&spaces.action_space, act_dtype, copies, common)?,
            spaces: spaces.clone(),
            copies,
            worker: (worker, common.num_workers),
            masked: common.mask_actions,
            random_timesteps: common.exploration_config.random_timesteps(),
            filter: None,
            names: columns.iter().map(|(name, _)| *name).collect(),
            columns,
            memory: vec![0.0; copies * memory_width],
            memory_width,
            max_seq_len: policy.max_seq_len(),
            resets: vec![true; copies],
            rngs,
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
    pub(crate) fn steps(&self, steps: usize) -> Result<Steps> {
        let widths = self.columns.iter().map(|(_, width)| *width);
        let space = &self.spaces.action_space;
        let obs = (self.encoding.shape(), self.encoding.kind());
        let mut storage = Steps::new(steps, self.copies, obs, space, widths, self.masked)?;
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
        matches!(self.to_env, ToEnv::Int { .. })
    }

    /// What stored rows are.
    pub(crate) fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Bytes of one stored row.
    pub(crate) fn row_bytes(&self) -> usize {
        row_bytes(&self.encoding)
    }

    /// Copy `i` begins an episode: it remembers nothing. A stream replaces its own.
    pub(crate) fn begin(&mut self, copy: usize, stream: Option<Stream>) {
        self.memory[copy * self.memory_width..][..self.memory_width].fill(0.0);
        self.resets[copy] = true;
        if let Some(stream) = stream {
            self.rngs[copy] = stream;
        }
    }

    /// Whether each copy's next step is the first of its episode.
    pub(crate) fn resets(&self) -> &[bool] {
        &self.resets
    }

    /// Adds what [`set_state`](Self::set_state) reads.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("filter", &self.filter)?;
        state.set("rngs", &self.rngs.iter().map(Stream::state).collect::<Vec<_>>())?;
        if !self.memory.is_empty() {
            state.set_tensor("memory", &Tensor::from_slice(&self.memory));
        }
        Ok(())
    }

    /// Continues in the middle of episodes; `resets` says which copies begin one.
    pub(crate) fn set_state(&mut self, state: &State, resets: impl Iterator<Item = bool>) -> Result<()> {
        let rngs: Vec<StreamState> = state.get("rngs")?;
        if rngs.len() != self.copies {
            let reason = format!("there are {}, but {} are needed", rngs.len(), self.copies);
            return Err(Error::state("a worker's random streams", reason));
        }
        if !self.memory.is_empty() {
            let memory = state.tensor("memory")?;
            if memory.numel() != self.memory.len() {
                let reason =
                    format!("it is {} numbers, but {} are needed", memory.numel(), self.memory.len());
                return Err(Error::state("the policy's memory", reason));
            }
            self.memory.copy_from_slice(host::read(&memory));
        }
        self.filter = state.get("filter")?;
        self.rngs = rngs.into_iter().map(Stream::from_state).collect();
        self.resets.iter_mut().zip(resets).for_each(|(to, reset)| *to = reset);
        Ok(())
    }

    /// Where first observations are written: row 0, or what [`observe`](Self::observe) makes it of.
    pub(crate) fn first<'a>(&'a mut self, steps: &'a mut Steps) -> &'a mut [u8] {
        let Self { preprocess, raw, copies, .. } = self;
        match preprocess.direct {
            true => steps.obs.bytes_mut(0),
            false => &mut bytemuck::cast_slice_mut(raw)[..*copies * preprocess.raw_bytes],
        }
    }

    /// What was just written becomes row `t`. With `learn` the filter counts it.
    pub(crate) fn observe(&mut self, steps: &mut Steps, t: usize, learn: bool) -> Result<()> {
        if !self.preprocess.direct {
            let bytes = self.copies * self.preprocess.raw_bytes;
            self.preprocess.apply(&bytemuck::cast_slice(&self.raw)[..bytes], steps.obs.bytes_mut(t))?;
        }
        if let Some(filter) = &mut self.filter {
            filter.apply(steps.obs.slice_mut(t), learn);
        }
        Ok(())
    }

    /// The last observation of the episode of copy `i` that has just ended, as it is stored.
    pub(crate) fn final_obs(&mut self, copy: usize) -> Result<&[u8]> {
        let (raw_bytes, row_bytes) = (self.preprocess.raw_bytes, self.row_bytes());
        let raw = &bytemuck::cast_slice(&self.raw_final)[copy * raw_bytes..][..raw_bytes];
        let row = &mut bytemuck::cast_slice_mut(&mut self.final_row)[..row_bytes];
        self.preprocess.apply(raw, row)?;
        if let Some(filter) = &mut self.filter {
            filter.apply(bytemuck::cast_slice_mut(row), false);
        }
        Ok(row)
    }

    /// A stored row as the model takes it: that of copy `i` in row `t`, or what [`final_obs`](Self::final_obs) made last.
    pub(crate) fn model_row(&mut self, steps: &mut Steps, at: Option<(usize, usize)>) -> &[f32] {
        let bytes = self.row_bytes();
        let row = match at {
            Some((t, copy)) => &steps.obs.bytes_mut(t)[copy * bytes..][..bytes],
            None => &bytemuck::cast_slice(&self.final_row)[..bytes],
        };
        self.encoding.row(row, &mut self.model_row);
        &self.model_row
    }

    /// Chooses one action per copy by row `t`, and stores it there with the policy's columns.
    pub(crate) fn act(
        &mut self,
        policy: &mut dyn Policy,
        steps: &mut Steps,
        t: usize,
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let Steps { obs, masks, actions, columns, memories, .. } = steps;
        if let Some(memories) = memories {
            memories.store(t, &self.memory, &self.resets);
        }
        let chosen = Chosen {
            mask: masks.as_mut().map(|masks| &*masks.row(t)),
            memory: &mut self.memory,
            resets: &self.resets,
            rngs: &mut self.rngs,
            actions: actions.bytes_mut(t),
            columns: StepColumns {
                names: &self.names,
                rows: columns,
                step: t,
                acting: (self.copies, self.copies),
            },
        };
        // Not `self.how(..)`: streams and memory are lent.
        let first_steps = explore && timestep < self.random_timesteps;
        let how = How { to_env: &self.to_env, worker: self.worker, first_steps, explore, timestep };
        how.act(policy, obs.row(t), chosen)?;
        self.resets.fill(false);
        Ok(())
    }

    /// As [`act`](Self::act), but only the copies that `gathered` names act, each by its row `at`; the others wait.
    pub(crate) fn act_some(
        &mut self,
        policy: &mut dyn Policy,
        steps: &mut Steps,
        gathered: &mut Gathered,
        at: &[usize],
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let width = self.memory_width;
        for i in 0..gathered.slots.len() {
            let copy = gathered.slots[i];
            std::mem::swap(&mut gathered.rngs[i], &mut self.rngs[copy]);
            gathered.memory[i * width..][..width].copy_from_slice(&self.memory[copy * width..][..width]);
            gathered.resets[i] = std::mem::take(&mut self.resets[copy]);
            steps.lend_seen((at[copy], copy), &mut gathered.rows, i);
            if let Some(memories) = &mut steps.memories {
                let memory = &self.memory[copy * width..][..width];
                memories.store_one(at[copy], (copy, self.copies), memory, gathered.resets[i]);
            }
        }
        let acting = gathered.slots.len();
        let (rows, obs, rngs, memory, resets) = gathered.acting();
        let Steps { masks, actions, columns, .. } = rows;
        let actions = actions.bytes_mut(0);
        let bytes = actions.len() / self.copies * acting;
        let chosen = Chosen {
            mask: masks.as_mut().map(|masks| {
                let flags = masks.options() * acting;
                &masks.row(0)[..flags]
            }),
            memory,
            resets,
            rngs,
            actions: &mut actions[..bytes],
            columns: StepColumns {
                names: &self.names,
                rows: columns,
                step: 0,
                acting: (acting, self.copies),
            },
        };
        let chose = self.how(explore, timestep).act(policy, obs, chosen);
        for i in 0..acting {
            let copy = gathered.slots[i];
            std::mem::swap(&mut gathered.rngs[i], &mut self.rngs[copy]);
            self.memory[copy * width..][..width].copy_from_slice(&gathered.memory[i * width..][..width]);
            steps.take_choice((at[copy], copy), &mut gathered.rows, i);
        }
        chose
    }

    fn how(&self, explore: bool, timestep: u64) -> How<'_> {
        let first_steps = explore && timestep < self.random_timesteps;
        How { to_env: &self.to_env, worker: self.worker, first_steps, explore, timestep }
    }

    /// Room for the copies that act while others wait.
    pub(crate) fn gathered(&self) -> Result<Gathered> {
        Ok(Gathered::new(self.steps(1)?, self.copies, self.memory_width))
    }

    /// The observation of one copy as its environment writes it becomes its part of row `t`; returns that. With `learn`
    /// the filter counts it.
    pub(crate) fn observe_one<'a>(
        &mut self,
        steps: &'a mut Steps,
        (t, copy): (usize, usize),
        raw: &[u8],
        learn: bool,
    ) -> Result<&'a [u8]> {
        let row = steps.obs.part_mut(t, copy, self.copies);
        self.preprocess.apply(raw, row)?;
        if let Some(filter) = &mut self.filter {
            filter.apply(bytemuck::cast_slice_mut(row), learn);
        }
        Ok(row)
    }

    /// An episode's last observation as its environment writes it, as it is stored.
    pub(crate) fn last_obs(&mut self, raw: &[u8]) -> Result<&[u8]> {
        let bytes = self.row_bytes();
        let row = &mut bytemuck::cast_slice_mut(&mut self.final_row)[..bytes];
        self.preprocess.apply(raw, row)?;
        if let Some(filter) = &mut self.filter {
            filter.apply(bytemuck::cast_slice_mut(row), false);
        }
        Ok(row)
    }

    /// The actions of row `t` as the environment takes them.
    pub(crate) fn to_env<'a>(&'a mut self, steps: &'a mut Steps, t: usize) -> &'a [u8] {
        self.to_env.apply(steps.actions.bytes_mut(t))
    }

    /// The actions of step `t` as the environment takes them, and where it writes what they lead to.
    pub(crate) fn exchange<'a>(&'a mut self, steps: &'a mut Steps, t: usize) -> Exchange<'a> {
        let Self { preprocess, raw, raw_final, to_env, copies, .. } = self;
        let bytes = *copies * preprocess.raw_bytes;
        Exchange {
            actions: to_env.apply(steps.actions.bytes_mut(t)),
            obs: match preprocess.direct {
                true => steps.obs.bytes_mut(t + 1),
                false => &mut bytemuck::cast_slice_mut(raw)[..bytes],
            },
            final_obs: &mut bytemuck::cast_slice_mut(raw_final)[..bytes],
        }
    }
}
