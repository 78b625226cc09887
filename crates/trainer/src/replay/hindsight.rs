//! Hindsight experience replay (Andrychowicz et al. 2017): drawn rows get goals that their episodes achieved.

use crate::replay::episodes::Episodes;
use crate::replay::goals::{Goals, append_numbers};
use crate::settings::{GoalSelectionStrategy, ReplayBufferConfig};
use pavlov_learn::base::{Array, Error, Result, State, Stream, StreamState};
use pavlov_learn::experience::{Column, SampleBatch};
use std::ops::Range;

/// The columns that tell to which episodes rows belong; they are not stored as columns.
pub(super) const EPISODE_COLUMNS: [Column; 3] = [Column::ENV_ID, Column::T, Column::ENDED];

/// What a buffer with hindsight has beside its rows.
#[derive(Debug)]
pub(super) struct Hindsight {
    goals: Goals,
    strategy: GoalSelectionStrategy,
    /// Share of the rows of a batch that get another goal.
    share: f64,
    episodes: Episodes,
    /// Random stream that chooses goals.
    rng: Stream,
    /// Whether the environment has been asked for rewards.
    is_checked: bool,
    /// Scratch memory: for each row with another goal the slot of the row that achieved it.
    chosen: Vec<usize>,
    /// Scratch memory: goals and rewards of these rows.
    achieved: Vec<f64>,
    desired: Vec<f64>,
    rewards: Vec<f64>,
}

impl Hindsight {
    pub(super) fn new(config: &ReplayBufferConfig, goals: Goals, rng: Stream) -> Self {
        Self {
            goals,
            strategy: config.goal_selection_strategy,
            share: 1.0 - 1.0 / (config.n_sampled_goal as f64 + 1.0),
            episodes: Episodes::new(config.capacity),
            rng,
            is_checked: false,
            chosen: Vec::new(),
            achieved: Vec::new(),
            desired: Vec::new(),
            rewards: Vec::new(),
        }
    }

    /// Slots of rows that may be drawn.
    pub(super) fn valid(&self) -> &[u32] {
        self.episodes.valid()
    }

    /// Number of bytes of memory that the episodes take.
    pub(super) fn bytes(&self) -> usize {
        self.episodes.bytes()
    }

    /// Checks new rows before any of them is stored.
    pub(super) fn check(&mut self, batch: &SampleBatch) -> Result<()> {
        for column in EPISODE_COLUMNS.into_iter().chain([Column::OBS, Column::NEW_OBS, Column::REWARDS]) {
            batch.get(column)?;
        }
        if !std::mem::replace(&mut self.is_checked, true) {
            (self.goals.reward)(&[], &[], &mut [])?;
        }
        let obs = batch.get(Column::OBS)?;
        let width = obs.shape()[1..].iter().product::<i64>() as usize;
        let most = self.goals.columns.achieved.end.max(self.goals.columns.desired.end);
        if width < most {
            let reason = format!("its observations have {width} scalars, but goals end at {most}");
            return Err(Error::state("the replay buffer", reason));
        }
        Ok(())
    }

    /// Adds the rows of `batch` from the slot `first` on to their episodes.
    pub(super) fn add(&mut self, batch: &SampleBatch, first: usize, capacity: usize) -> Result<()> {
        let env_ids = batch.get(Column::ENV_ID)?.read::<i64>();
        let steps = batch.get(Column::T)?.read::<i64>();
        let ended = batch.get(Column::ENDED)?.read::<f32>();
        for (i, ((&env_id, &t), &ended)) in env_ids.iter().zip(steps).zip(ended).enumerate() {
            self.episodes.add((first + i) % capacity, env_id, t, ended > 0.0);
        }
        Ok(())
    }

    /// Chooses goals for the last of the drawn rows `index`: for each the slot of a row whose `new_obs` achieved it.
    pub(super) fn choose(&mut self, index: &[usize]) -> &[usize] {
        let others = (self.share * index.len() as f64) as usize;
        self.chosen.clear();
        for &slot in &index[index.len() - others..] {
            let (slots, step) = self.episodes.around(slot);
            let length = slots.len();
            let mut from = |first: usize| first + self.rng.below((length - first) as u64) as usize;
            let chosen = match self.strategy {
                GoalSelectionStrategy::Final => length - 1,
                GoalSelectionStrategy::Future => from(step),
                GoalSelectionStrategy::Episode => from(0),
            };
            self.chosen.push(slots[chosen] as usize);
        }
        &self.chosen
    }

    /// Writes the goals that the rows `sources` achieved into the last rows of a drawn batch, and computes the rewards of
    /// these rows.
    pub(super) fn relabel(&mut self, sources: &Array, drawn: &mut [(Column, Array)]) -> Result<()> {
        let others = sources.len();
        let Self { goals, achieved, desired, rewards, .. } = self;
        if others == 0 {
            return Ok(());
        }
        let size = sources.kind().size();
        let width = sources.bytes().len() / others;
        let bytes = |range: &Range<usize>| range.start * size..range.end * size;
        let (reached, wanted) = (bytes(&goals.columns.achieved), bytes(&goals.columns.desired));
        achieved.clear();
        desired.clear();
        for (column, array) in drawn.iter_mut() {
            if *column != Column::OBS && *column != Column::NEW_OBS {
                continue;
            }
            let first = (array.len() - others) * width;
            let rows = array.bytes_mut()[first..].chunks_exact_mut(width);
            for (row, source) in rows.zip(sources.bytes().chunks_exact(width)) {
                row[wanted.clone()].copy_from_slice(&source[reached.clone()]);
                if *column == Column::NEW_OBS {
                    append_numbers(sources.kind(), &row[reached.clone()], achieved);
                    append_numbers(sources.kind(), &row[wanted.clone()], desired);
                }
            }
        }
        rewards.clear();
        rewards.resize(others, 0.0);
        (goals.reward)(achieved, desired, rewards)?;
        if let Some(&value) = rewards.iter().find(|reward| !reward.is_finite()) {
            let hint = "look at what the environment's `compute_reward` gives".into();
            return Err(Error::NotFinite { what: "a reward of another goal".into(), value, step: 0, hint });
        }
        let (_, column) = drawn.iter_mut().find(|(column, _)| *column == Column::REWARDS).expect("checked");
        let first = column.len() - others;
        let to = column.bytes_mut()[first * size_of::<f32>()..].chunks_exact_mut(size_of::<f32>());
        to.zip(rewards).for_each(|(to, reward)| to.copy_from_slice(&(*reward as f32).to_ne_bytes()));
        Ok(())
    }

    /// The episodes and the random stream, for a checkpoint.
    pub(super) fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("rng", &self.rng.state())?;
        self.episodes.save(&mut state)?;
        Ok(state)
    }

    /// Restores what [`state`](Self::state) saved; `ends` makes the running episodes drawable.
    pub(super) fn set_state(&mut self, state: &State, capacity: usize, ends: bool) -> Result<()> {
        self.episodes = Episodes::restored(state, capacity)?;
        if ends {
            self.episodes.end_running();
        }
        self.rng = Stream::from_state(state.get::<StreamState>("rng")?);
        Ok(())
    }
}
