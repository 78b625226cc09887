//! The ring of rows.

use super::{ReplayBufferConfig, ReplayKind, SumTree};
use crate::base::{
    batch::{Column, SampleBatch},
    error::{Error, Result},
    host,
    rng::{Stream, StreamState},
    state::State,
};
use tch::{Device, Kind, Tensor};

/// Rows of experience, the newest `capacity` of them.
///
/// Storage is allocated once, when the first batch shows the columns; adding and drawing copy rows on the host.
#[derive(Debug)]
pub struct ReplayBuffer {
    config: ReplayBufferConfig,
    columns: Vec<(Column, Tensor)>,
    len: usize,
    next: usize,
    added: u64,
    priorities: Option<SumTree>,
    max_priority: f64,
    rng: Stream,
}

impl ReplayBuffer {
    /// An empty buffer that draws from `rng`.
    pub fn new(config: ReplayBufferConfig, rng: Stream) -> Self {
        let prioritized = config.kind == ReplayKind::PrioritizedReplayBuffer;
        Self {
            priorities: prioritized.then(|| SumTree::new(config.capacity)),
            config,
            columns: Vec::new(),
            len: 0,
            next: 0,
            added: 0,
            max_priority: 1.0,
            rng,
        }
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Rows that must have been added before any is drawn.
    pub fn learning_starts(&self) -> usize {
        self.config.learning_starts
    }

    /// Whether rows may be drawn yet.
    pub fn ready(&self) -> bool {
        self.len > 0 && self.added >= self.config.learning_starts as u64
    }

    /// Copies every row; the oldest make room. A `weights` column holds the rows' first priorities; without it they
    /// get the highest priority so far.
    pub fn add(&mut self, batch: &SampleBatch) -> Result<()> {
        if self.columns.is_empty() {
            for (column, data) in batch.columns().filter(|(c, _)| *c != Column::WEIGHTS) {
                let shape: Vec<i64> = std::iter::once(self.config.capacity as i64)
                    .chain(data.size()[1..].iter().copied())
                    .collect();
                self.columns.push((column, Tensor::zeros(&shape, (data.kind(), Device::Cpu))));
            }
        }
        let rows = batch.rows();
        for (column, storage) in &mut self.columns {
            let data = batch.get(*column)?.contiguous();
            if data.kind() != storage.kind() || data.size()[1..] != storage.size()[1..] {
                let reason = format!("its rows changed from {:?} to {:?}", storage.size(), data.size());
                return Err(Error::state(format!("replay column `{}`", column.name()), reason));
            }
            let from = host::bytes(&data);
            let width = from.len() / rows.max(1);
            let to = host::bytes_mut(storage);
            for (i, row) in from.chunks_exact(width.max(1)).enumerate().take(rows) {
                let slot = (self.next + i) % self.config.capacity;
                to[slot * width..][..width].copy_from_slice(row);
            }
        }
        if let Some(tree) = &mut self.priorities {
            let given = batch.get(Column::WEIGHTS).ok().map(Tensor::contiguous);
            for i in 0..rows {
                let priority = match &given {
                    Some(weights) => f64::from(host::read::<f32>(weights)[i]),
                    None => self.max_priority,
                };
                self.max_priority = self.max_priority.max(priority);
                tree.set(
                    (self.next + i) % self.config.capacity,
                    priority.powf(self.config.prioritized_replay_alpha),
                );
            }
        }
        self.next = (self.next + rows) % self.config.capacity;
        self.len = (self.len + rows).min(self.config.capacity);
        self.added += rows as u64;
        Ok(())
    }

    /// Draws `rows` rows with replacement; nothing before `learning_starts`.
    ///
    /// A prioritised buffer adds `weights`, `(p_min / p)^beta` (each row's `(p N)^-beta` over the largest), and
    /// `batch_indexes` for [`update_priorities`](Self::update_priorities).
    pub fn sample(&mut self, rows: usize) -> Result<Option<SampleBatch>> {
        if !self.ready() {
            return Ok(None);
        }
        let len = self.len as u64;
        let index: Vec<usize> = match &self.priorities {
            None => (0..rows).map(|_| self.rng.below(len) as usize).collect(),
            Some(tree) => (0..rows)
                .map(|_| tree.find(self.rng.uniform_f64() * tree.total()).min(self.len - 1))
                .collect(),
        };
        let mut batch = SampleBatch::default();
        for (column, storage) in &self.columns {
            let mut shape = storage.size();
            shape[0] = rows as i64;
            let mut drawn = Tensor::empty(&shape, (storage.kind(), Device::Cpu));
            let from = host::bytes(storage);
            copy_rows(from, from.len() / self.config.capacity, &index, host::bytes_mut(&mut drawn));
            batch.set(*column, drawn);
        }
        if let Some(tree) = &self.priorities {
            let beta = self.config.prioritized_replay_beta;
            let min = tree.min();
            let weights: Vec<f32> = index.iter().map(|&i| (min / tree.get(i)).powf(beta) as f32).collect();
            let index: Vec<i64> = index.into_iter().map(|i| i as i64).collect();
            batch.set(Column::WEIGHTS, Tensor::from_slice(&weights));
            batch.set(Column::BATCH_INDEXES, Tensor::from_slice(&index));
        }
        Ok(Some(batch))
    }

    /// `|td error| + eps` becomes the priority of each drawn row; a uniform buffer does nothing.
    pub fn update_priorities(&mut self, batch: &SampleBatch, td_errors: &Tensor) -> Result<()> {
        let Some(tree) = &mut self.priorities else { return Ok(()) };
        let index = batch.get(Column::BATCH_INDEXES)?;
        let errors = td_errors.detach().to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
        for (&i, &error) in host::read::<i64>(index).iter().zip(host::read::<f32>(&errors)) {
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
            tree.set(i as usize, priority.powf(self.config.prioritized_replay_alpha));
        }
        Ok(())
    }

    /// All rows, priorities and the random stream.
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
        for (column, data) in &self.columns {
            state.set_tensor(column.name(), &data.narrow(0, 0, self.len as i64));
        }
        if let Some(tree) = &self.priorities {
            let priorities: Vec<f64> = (0..self.len).map(|i| tree.get(i)).collect();
            state.set_tensor("priorities", &Tensor::from_slice(&priorities));
        }
        Ok(state)
    }

    /// Continues from [`state`](Self::state).
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        let (kind, capacity): (ReplayKind, usize) = (state.get("kind")?, state.get("capacity")?);
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
        for name in &names {
            let rows = state.tensor(name)?;
            let mut shape = rows.size();
            shape[0] = capacity as i64;
            let storage = Tensor::zeros(&shape, (rows.kind(), Device::Cpu));
            storage.narrow(0, 0, self.len as i64).copy_(&rows);
            self.columns.push((Column::named(name), storage));
        }
        if self.priorities.is_some() {
            let mut tree = SumTree::new(capacity);
            let priorities = state.tensor("priorities")?;
            host::read::<f64>(&priorities).iter().enumerate().for_each(|(i, &p)| tree.set(i, p));
            self.priorities = Some(tree);
        }
        Ok(())
    }
}

/// Rows of `width` bytes at `index`, one after the other. Short rows are moved in registers.
fn copy_rows(from: &[u8], width: usize, index: &[usize], to: &mut [u8]) {
    fn short<const W: usize>(from: &[u8], index: &[usize], to: &mut [u8]) {
        let (from, _) = from.as_chunks::<W>();
        let (to, _) = to.as_chunks_mut::<W>();
        to.iter_mut().zip(index).for_each(|(to, &i)| *to = from[i]);
    }
    match width {
        0 => {}
        4 => short::<4>(from, index, to),
        8 => short::<8>(from, index, to),
        16 => short::<16>(from, index, to),
        _ => {
            for (to, &i) in to.chunks_exact_mut(width).zip(index) {
                to.copy_from_slice(&from[i * width..][..width]);
            }
        }
    }
}
