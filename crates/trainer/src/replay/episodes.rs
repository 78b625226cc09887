//! The episodes of the rows in a replay buffer.

use pavlov_learn::base::{Array, Error, Result, State};
use std::collections::BTreeMap;

/// Marks a row of no episode, or a row that cannot be drawn.
const NONE: u32 = u32::MAX;

/// Rows of one episode in their order, as slots of the ring.
#[derive(Debug, Default)]
struct Episode {
    slots: Vec<u32>,
    is_finished: bool,
}

/// Which rows of a ring belong to which episode. Only rows of finished episodes are drawn, and an episode that loses a row
/// to a newer one is given up as a whole, as in Stable-Baselines3.
#[derive(Debug)]
pub(super) struct Episodes {
    /// Episode of each slot.
    of: Vec<u32>,
    /// Number of rows of the episode before each slot's.
    step: Vec<u32>,
    table: Vec<Episode>,
    /// Entries of `table` that no episode has.
    free: Vec<u32>,
    /// The running episode of each environment copy, if it is whole so far.
    running: BTreeMap<i64, u32>,
    /// Slots of finished episodes, in no order.
    valid: Vec<u32>,
    /// Place of each slot in `valid`.
    place: Vec<u32>,
}

impl Episodes {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            of: vec![NONE; capacity],
            step: vec![0; capacity],
            table: Vec::new(),
            free: Vec::new(),
            running: BTreeMap::new(),
            valid: Vec::new(),
            place: vec![NONE; capacity],
        }
    }

    /// Slots of finished episodes.
    pub(super) fn valid(&self) -> &[u32] {
        &self.valid
    }

    /// Number of bytes of memory that the tables take.
    pub(super) fn bytes(&self) -> usize {
        let slots: usize = self.table.iter().map(|episode| episode.slots.capacity()).sum();
        size_of::<u32>() * (3 * self.of.len() + self.valid.capacity() + slots)
    }

    /// The rows of the episode of a slot in order, and the place of the slot among them.
    ///
    /// # Panics
    /// Panics if the slot has no episode.
    pub(super) fn around(&self, slot: usize) -> (&[u32], usize) {
        (&self.table[self.of[slot] as usize].slots, self.step[slot] as usize)
    }

    /// Adds a row in place of the one that `slot` has: step `t` of the running episode of the copy `env_id`.
    pub(super) fn add(&mut self, slot: usize, env_id: i64, t: i64, ended: bool) {
        self.give_up(self.of[slot]);
        if t == 0 {
            let before = self.running.remove(&env_id);
            before.into_iter().for_each(|episode| self.give_up(episode));
            let episode = self.free.pop().unwrap_or_else(|| {
                self.table.push(Episode::default());
                self.table.len() as u32 - 1
            });
            self.running.insert(env_id, episode);
        }
        // An episode whose beginning is gone has no goals to choose from.
        let Some(&episode) = self.running.get(&env_id) else { return };
        let slots = &mut self.table[episode as usize].slots;
        if slots.len() as i64 != t {
            return self.give_up(episode);
        }
        self.of[slot] = episode;
        self.step[slot] = slots.len() as u32;
        slots.push(slot as u32);
        if ended {
            self.running.remove(&env_id);
            self.finish(episode);
        }
    }

    /// Makes the rows of an episode drawable.
    fn finish(&mut self, episode: u32) {
        let episode = &mut self.table[episode as usize];
        episode.is_finished = true;
        for &slot in &episode.slots {
            self.place[slot as usize] = self.valid.len() as u32;
            self.valid.push(slot);
        }
    }

    /// Makes the rows of all running episodes drawable, as if these had been truncated.
    pub(super) fn end_running(&mut self) {
        let running = std::mem::take(&mut self.running);
        running.into_values().for_each(|episode| self.finish(episode));
    }

    /// Forgets an episode, finished or running.
    fn give_up(&mut self, episode: u32) {
        if episode == NONE {
            return;
        }
        let Episode { mut slots, is_finished } = std::mem::take(&mut self.table[episode as usize]);
        for &slot in &slots {
            self.of[slot as usize] = NONE;
            if is_finished {
                let place = std::mem::replace(&mut self.place[slot as usize], NONE) as usize;
                self.valid.swap_remove(place);
                if let Some(&moved) = self.valid.get(place) {
                    self.place[moved as usize] = place as u32;
                }
            }
        }
        if !is_finished {
            self.running.retain(|_, running| *running != episode);
        }
        slots.clear();
        self.table[episode as usize].slots = slots;
        self.free.push(episode);
    }

    /// The episodes and the order of the slots, for a checkpoint.
    pub(super) fn save(&self, state: &mut State) -> Result<()> {
        let integers = |slots: &[u32]| slots.iter().map(|&slot| i64::from(slot)).collect::<Vec<_>>();
        let held = |(_, episode): &(i64, &Episode)| !episode.slots.is_empty();
        let finished = self.table.iter().filter(|episode| episode.is_finished).map(|episode| (-1, episode));
        let running = self.running.iter().map(|(&env_id, &episode)| (env_id, &self.table[episode as usize]));
        let mut all: Vec<_> = finished.chain(running).filter(held).collect();
        // A restored table has another order; what is saved must not tell.
        all.sort_unstable_by_key(|(_, episode)| episode.slots[0]);
        state.set_array("episode_envs", all.iter().map(|(env_id, _)| *env_id).collect::<Vec<_>>());
        let lengths = all.iter().map(|(_, episode)| episode.slots.len() as i64).collect::<Vec<_>>();
        state.set_array("episode_lengths", lengths);
        state
            .set_array("episode_slots", all.iter().flat_map(|(_, e)| integers(&e.slots)).collect::<Vec<_>>());
        state.set_array("valid_slots", integers(&self.valid));
        Ok(())
    }

    /// Restores what [`save`](Self::save) wrote, for a ring of `capacity` rows.
    pub(super) fn restored(state: &State, capacity: usize) -> Result<Self> {
        let damaged =
            || Error::state("the episodes of the replay buffer", "they name rows that are not there");
        let mut all = Self::new(capacity);
        let [envs, lengths, slots, valid] =
            ["episode_envs", "episode_lengths", "episode_slots", "valid_slots"].map(|name| state.array(name));
        let mut slots = integers(slots?).into_iter();
        for (env_id, length) in integers(envs?).into_iter().zip(integers(lengths?)) {
            let number = all.table.len() as u32;
            let mut episode = Episode { slots: Vec::new(), is_finished: env_id < 0 };
            for slot in slots.by_ref().take(length as usize) {
                let index = usize::try_from(slot).ok().filter(|slot| *slot < capacity).ok_or_else(damaged)?;
                all.of[index] = number;
                all.step[index] = episode.slots.len() as u32;
                episode.slots.push(index as u32);
            }
            if !episode.is_finished {
                all.running.insert(env_id, number);
            }
            all.table.push(episode);
        }
        for slot in integers(valid?) {
            let index = usize::try_from(slot).ok().filter(|slot| *slot < capacity).ok_or_else(damaged)?;
            let finished = all.table.get(all.of[index] as usize).is_some_and(|episode| episode.is_finished);
            if !finished || all.place[index] != NONE {
                return Err(damaged());
            }
            all.place[index] = all.valid.len() as u32;
            all.valid.push(index as u32);
        }
        Ok(all)
    }
}

/// The numbers of a saved list.
fn integers(array: &Array) -> Vec<i64> {
    array.read::<i64>().to_vec()
}
