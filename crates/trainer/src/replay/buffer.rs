//! The replay buffer: a ring of rows, drawn uniformly, by priority, or with other goals.

use crate::base::notice_once;
use crate::replay::frames::{Frames, Rows, Saved};
use crate::replay::goals::Goals;
use crate::replay::hindsight::{EPISODE_COLUMNS, Hindsight};
use crate::replay::kept::Kept;
use crate::replay::sum_tree::SumTree;
use crate::settings::{ReplayBufferConfig, ReplayKind};
use pavlov_learn::base::{Array, Error, Result, State, Stream, StreamState};
use pavlov_learn::experience::{Column, SampleBatch};

/// Name of the flag in a state of a buffer with hindsight that its running episodes will not go on.
const END_EPISODES: &str = "end_episodes";

/// The newest `capacity` rows of experience.
///
/// Storage is allocated once, when the first batch shows the columns; adding and drawing copy rows on the CPU. Long
/// rows (256 bytes and more) are stored as frames, each distinct frame once: an observation shares memory with the
/// `new_obs` of the row before, and stacks of frames share their frames.
#[derive(Debug)]
pub struct ReplayBuffer {
    config: ReplayBufferConfig,
    columns: Vec<(Column, Kept)>,
    /// Stores of frames, one for each length of frame.
    frames: Vec<Frames>,
    len: usize,
    next: usize,
    added: u64,
    priorities: Option<SumTree>,
    max_priority: f64,
    /// Episodes and goals; only of a buffer with hindsight.
    hindsight: Option<Hindsight>,
    rng: Stream,
}

impl ReplayBuffer {
    /// Makes an empty buffer that draws rows with `rng`.
    pub fn new(config: ReplayBufferConfig, rng: Stream) -> Self {
        let prioritized = config.kind == ReplayKind::PrioritizedReplayBuffer;
        Self {
            priorities: prioritized.then(|| SumTree::new(config.capacity)),
            config,
            columns: Vec::new(),
            frames: Vec::new(),
            len: 0,
            next: 0,
            added: 0,
            max_priority: 1.0,
            hindsight: None,
            rng,
        }
    }

    /// Gives the buffer the goals that hindsight experience replay needs, and the random stream that chooses them.
    #[must_use]
    pub fn with_goals(mut self, goals: Goals, rng: Stream) -> Self {
        self.hindsight = Some(Hindsight::new(&self.config, goals, rng));
        self
    }

    /// Number of rows in the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of rows that were ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Number of rows that must be added before any is drawn.
    pub fn learning_starts(&self) -> usize {
        self.config.learning_starts
    }

    /// Whether enough rows were added to draw from: at least one, and `learning_starts`. With hindsight an episode must
    /// have ended too.
    pub fn ready(&self) -> bool {
        let has_rows = self.hindsight.as_ref().map_or(self.len > 0, |all| !all.valid().is_empty());
        has_rows && self.added >= self.config.learning_starts as u64
    }

    /// Number of bytes of memory that the rows take.
    pub fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|(_, kept)| match kept {
            Kept::Plain(storage) => storage.bytes().len(),
            Kept::Frames(rows) => rows.held(),
        });
        let episodes = self.hindsight.as_ref().map_or(0, Hindsight::bytes);
        episodes + columns.sum::<usize>() + self.frames.iter().map(Frames::held).sum::<usize>()
    }

    /// The way of drawing rows: uniformly or by priority.
    pub fn kind(&self) -> ReplayKind {
        self.config.kind
    }

    /// Copies every row of `batch` into the buffer, over the oldest rows if it is full. A column `priorities` holds
    /// the rows' first priorities and is not stored. Without this column, new rows get the highest priority so far.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if a column of earlier rows is missing, [`Error::State`] if a column's rows
    /// have another shape, [`Error::NotFinite`] if a first priority is not finite.
    pub fn add(&mut self, batch: &SampleBatch) -> Result<()> {
        let capacity = self.config.capacity;
        self.check_goals(batch)?;
        if self.columns.is_empty() {
            let is_stored = |c: Column| c != Column::PRIORITIES && !EPISODE_COLUMNS.contains(&c);
            for (column, data) in batch.columns().filter(|(c, _)| is_stored(*c)) {
                self.columns.push((column, Kept::new(data, capacity, &mut self.frames)));
            }
        }
        let rows = batch.rows();
        // All columns are checked before anything is written.
        for (column, kept) in &self.columns {
            let data = batch.get(*column)?;
            let found = (data.size(), data.kind());
            let wanted = kept.of(rows);
            if found != wanted {
                let reason = format!("its rows changed from {wanted:?} to {found:?}");
                return Err(Error::state(format!("replay column `{}`", column.name()), reason));
            }
        }
        let given = match (&self.priorities, batch.get(Column::PRIORITIES)) {
            (Some(_), Ok(priorities)) => Some(priorities.to_f32()),
            _ => None,
        };
        let given = given.as_deref();
        if let Some(&value) = given.into_iter().flatten().find(|priority| !priority.is_finite()) {
            let hint = "give rows a finite first priority, or leave the `priorities` column out".into();
            let what = "a first priority".into();
            return Err(Error::NotFinite { what, value: value.into(), step: self.added, hint });
        }
        // The old rows are released first, so that their frames make room for the new ones.
        for (_, kept) in &mut self.columns {
            if let Kept::Frames(kept) = kept {
                let slots = (0..rows.min(capacity)).map(|i| (self.next + i) % capacity);
                slots.for_each(|slot| kept.clear(slot, &mut self.frames));
            }
        }
        for (column, kept) in &mut self.columns {
            kept.write(batch.get(*column)?, self.next, capacity, &mut self.frames);
        }
        if let Some(tree) = &mut self.priorities {
            for i in 0..rows {
                let priority = given.map_or(self.max_priority, |given| f64::from(given[i]));
                self.max_priority = self.max_priority.max(priority);
                tree.set(
                    (self.next + i) % self.config.capacity,
                    libm::pow(priority, self.config.prioritized_replay_alpha),
                );
            }
        }
        if let Some(hindsight) = &mut self.hindsight {
            hindsight.add(batch, self.next, capacity)?;
        }
        self.next = (self.next + rows) % self.config.capacity;
        self.len = (self.len + rows).min(self.config.capacity);
        self.added += rows as u64;
        self.check_episodes()
    }

    /// Draws `rows` rows with replacement; `None` before `learning_starts` rows were added.
    ///
    /// A prioritised buffer adds two columns. `weights` has each row's importance weight `(p_min / p)^beta`, where
    /// `p` is the probability of the row and `p_min` the smallest in the buffer. `batch_indexes` is for
    /// [`update_priorities`](Self::update_priorities).
    ///
    /// A buffer with hindsight draws rows of episodes that have ended, and gives the last rows of the batch goals that
    /// their episodes achieved, with the rewards of these goals.
    ///
    /// # Errors
    /// Returns the environment's error if it cannot compute the rewards of other goals.
    pub fn sample(&mut self, rows: usize) -> Result<Option<SampleBatch>> {
        if !self.ready() {
            return Ok(None);
        }
        let len = self.len as u64;
        let index: Vec<usize> = match (&self.priorities, &self.hindsight) {
            (_, Some(hindsight)) => {
                let valid = hindsight.valid();
                (0..rows).map(|_| valid[self.rng.below(valid.len() as u64) as usize] as usize).collect()
            }
            (None, None) => (0..rows).map(|_| self.rng.below(len) as usize).collect(),
            (Some(tree), None) => (0..rows)
                .map(|_| tree.find(self.rng.uniform_f64() * tree.total()).min(self.len - 1))
                .collect(),
        };
        let read = |(column, kept): &(Column, Kept)| (*column, kept.read(&index, &self.frames));
        let mut drawn: Vec<(Column, Array)> = self.columns.iter().map(read).collect();
        if let Some(hindsight) = &mut self.hindsight {
            let (_, kept) = self.columns.iter().find(|(c, _)| *c == Column::NEW_OBS).expect("checked");
            let sources = kept.read(hindsight.choose(&index), &self.frames);
            hindsight.relabel(&sources, &mut drawn)?;
        }
        let mut batch = SampleBatch::default();
        drawn.into_iter().for_each(|(column, rows)| batch.set(column, rows));
        if let Some(tree) = &self.priorities {
            let beta = self.config.prioritized_replay_beta;
            let min = tree.min();
            let weights: Vec<f32> =
                index.iter().map(|&i| libm::pow(min / tree.get(i), beta) as f32).collect();
            let index: Vec<i64> = index.into_iter().map(|i| i as i64).collect();
            batch.set(Column::WEIGHTS, weights);
            batch.set(Column::BATCH_INDEXES, index);
        }
        Ok(Some(batch))
    }

    /// Checks that rows have what hindsight needs, if the settings ask for it.
    fn check_goals(&mut self, batch: &SampleBatch) -> Result<()> {
        match &mut self.hindsight {
            Some(hindsight) => hindsight.check(batch),
            None if self.config.kind == ReplayKind::HerReplayBuffer => {
                let reason = "it has no goals; make it with `with_goals`, or by `WorkerSet::replay_buffer`";
                Err(Error::state("the HerReplayBuffer", reason))
            }
            None => Ok(()),
        }
    }

    /// Returns an error if no episode fits into the buffer, and says once that learning waits for the end of the first.
    fn check_episodes(&self) -> Result<()> {
        let waits = self.hindsight.as_ref().is_some_and(|hindsight| hindsight.valid().is_empty());
        if waits && self.len == self.config.capacity {
            let rule = "the buffer is full, and it holds no whole episode to learn from: it must hold one of every \
                        environment copy, better many";
            return Err(Error::config("replay_buffer_config.capacity", self.config.capacity, rule));
        }
        if waits && self.added >= self.config.learning_starts as u64 {
            notice_once(
                "hindsight experience replay learns from episodes that have ended: learning waits for the first",
            );
        }
        Ok(())
    }

    /// Makes `|td error| + eps` the priority of each drawn row; a uniform buffer does nothing.
    ///
    /// # Errors
    /// Returns [`Error::NotFinite`] if a TD error is not finite, [`Error::MissingColumn`] without `batch_indexes`.
    pub fn update_priorities(&mut self, batch: &SampleBatch, td_errors: impl Into<Array>) -> Result<()> {
        let Some(tree) = &mut self.priorities else { return Ok(()) };
        let index = batch.get(Column::BATCH_INDEXES)?;
        let errors = td_errors.into();
        for (&i, &error) in index.read::<i64>().iter().zip(errors.to_f32().iter()) {
            let priority = f64::from(error.abs()) + self.config.prioritized_replay_eps;
            if !priority.is_finite() {
                let hint = "lower `lr`, set `grad_clip`, or scale rewards".into();
                return Err(Error::NotFinite {
                    what: "a TD error".into(),
                    value: priority,
                    step: self.added,
                    hint,
                });
            }
            self.max_priority = self.max_priority.max(priority);
            tree.set(i as usize, libm::pow(priority, self.config.prioritized_replay_alpha));
        }
        Ok(())
    }

    /// The rows, priorities and random stream, for a checkpoint.
    ///
    /// # Errors
    /// Never fails today: every part of the buffer can be written.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        let names: Vec<&str> = self.columns.iter().map(|(c, _)| c.name()).collect();
        state.set("columns", &names)?;
        state.set("kind", &self.config.kind)?;
        state.set("capacity", &self.config.capacity)?;
        state.set("len", &self.len)?;
        state.set("next", &self.next)?;
        state.set("added", &self.added)?;
        state.set("max_priority", &self.max_priority)?;
        state.set("rng", &self.rng.state())?;
        if let Some(hindsight) = &self.hindsight {
            state.nest("hindsight", hindsight.state()?);
        }
        for (column, kept) in &self.columns {
            match kept {
                Kept::Plain(data) => state.set_array(column.name(), data.lend().rows(0..self.len)),
                // The first row's shape is that of all rows.
                Kept::Frames(_) if self.len > 0 => {
                    let one = kept.read(&[0], &self.frames);
                    state.set_array(column.name(), one);
                }
                Kept::Frames(_) => {}
            }
        }
        for (i, frames) in self.frames.iter().enumerate() {
            let of_store = self.columns.iter().filter_map(|(column, kept)| match kept {
                Kept::Frames(rows) if rows.store() == i => Some((column, rows)),
                _ => None,
            });
            let (columns, rows): (Vec<&Column>, Vec<&Rows>) = of_store.unzip();
            let saved = Saved::new(frames, &rows, self.len);
            for (column, ids) in columns.into_iter().zip(saved.ids) {
                state.set_array(&format!("{}_frames", column.name()), ids);
            }
            state.set_array(&format!("frames{i}"), saved.frames);
        }
        if let Some(tree) = &self.priorities {
            let priorities: Vec<f64> = (0..self.len).map(|i| tree.get(i)).collect();
            state.set_array("priorities", priorities);
        }
        Ok(state)
    }

    /// Continues from a state that [`state`](Self::state) saved. If the value `end_episodes` was added to the state as true, a
    /// buffer with hindsight draws rows of the episodes that were running, which will not go on.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the state is of a buffer of another type or capacity, or is incomplete.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        let kind: ReplayKind = state.get("kind")?;
        let capacity: usize = state.get("capacity")?;
        if kind != self.config.kind || capacity != self.config.capacity {
            let reason = format!(
                "it is a {kind:?} of {capacity} rows, but `replay_buffer_config` says {:?} of {}",
                self.config.kind, self.config.capacity
            );
            return Err(Error::state("the replay buffer", reason));
        }
        let names: Vec<String> = state.get("columns")?;
        self.len = state.get("len")?;
        self.next = state.get("next")?;
        self.added = state.get("added")?;
        self.max_priority = state.get("max_priority")?;
        self.rng = Stream::from_state(state.get::<StreamState>("rng")?);
        self.columns.clear();
        self.frames.clear();
        for name in names.iter().filter(|_| self.len > 0) {
            let rows = state.array(name)?;
            let mut kept = Kept::new(rows, capacity, &mut self.frames);
            let ids = format!("{name}_frames");
            match &mut kept {
                Kept::Frames(kept) if state.array_names().any(|name| name == ids) => {
                    let frames = state.array(&format!("frames{}", kept.store()))?;
                    kept.restore(state.array(&ids)?, frames, &mut self.frames)?;
                }
                // Long rows of older checkpoints were saved as plain rows: they become frames here.
                _ => kept.write(rows, 0, capacity, &mut self.frames),
            }
            self.columns.push((Column::named(name), kept));
        }
        if let Some(hindsight) = &mut self.hindsight {
            let ends = state.has(END_EPISODES) && state.get(END_EPISODES)?;
            hindsight.set_state(&state.nested("hindsight")?, capacity, ends)?;
        }
        if self.priorities.is_some() {
            let mut tree = SumTree::new(capacity);
            let priorities = state.array("priorities")?;
            priorities.read::<f64>().iter().enumerate().for_each(|(i, &p)| tree.set(i, p));
            self.priorities = Some(tree);
        }
        Ok(())
    }
}
