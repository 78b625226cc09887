//! The untyped core of [`PyVec`](super::PyVec): workers and shared memory, with rows as bytes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    episode::{CopyPosition, Episode},
    slabs::{Memory, Offsets, RowLayout},
    talk::{Failure, draw, draw_ansi, info_value, remarks, rewards_of},
    turns::Turns,
    worker::{Answer, Worker},
};
use crate::{Error, Frame, ResetOptions, Result, Space, StepOut, contract::vector::number_of};

mod replay;
mod spec;
mod start;

pub(super) use spec::spec;

/// Copies of a Python environment in worker processes; rows are bytes.
#[derive(Debug)]
pub(super) struct Bridge {
    /// Id with its prefix, such as `py:CartPole-v1`.
    name: String,
    observation_space: Space,
    action_space: Space,
    hosted: bool,
    /// Frames per second in the environment's metadata.
    render_fps: Option<f64>,
    /// Number of steps after which episodes are truncated, if there is a limit.
    limit: Option<usize>,
    workers: Vec<Worker>,
    memory: Memory,
    rows: RowLayout,
    offsets: Offsets,
    episodes: Vec<Episode>,
    /// Turns on one core with the last worker, which gets its command last and is waited for first. `None` for a hosted
    /// vector environment, which has threads for all cores.
    turns: Option<Turns>,
    info_keys: Vec<String>,
    /// Values of `info`, `[num_infos, num_envs]`.
    infos: Vec<f64>,
    /// Buffer for rewards, which Python gives as `f64`.
    rewards: Vec<f64>,
    /// Whether the last command came with seeds.
    resets_are_seeded: bool,
    /// Options of later resets; `None` if there are none.
    options: Option<Arc<ResetOptions>>,
    failure: Option<Failure>,
}

impl Bridge {
    fn first_row(&self, worker: usize) -> usize {
        worker * self.rows.num_envs / self.rows.num_workers
    }

    fn worker_of(&self, row: usize) -> usize {
        (0..self.rows.num_workers).rfind(|&worker| self.first_row(worker) <= row).unwrap_or(0)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn num_envs(&self) -> usize {
        self.rows.num_envs
    }

    pub(super) fn num_workers(&self) -> usize {
        self.rows.num_workers
    }

    pub(super) fn worker_pids(&self) -> Vec<u32> {
        self.workers.iter().map(Worker::pid).collect()
    }

    pub(super) fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    pub(super) fn action_space(&self) -> &Space {
        &self.action_space
    }

    /// Truncates episodes after `steps` steps; returns false for a hosted vector environment, which cannot do so.
    pub(super) fn limit_episodes(&mut self, steps: usize) -> bool {
        if self.hosted {
            return false;
        }
        // A fault is kept, and every later call returns it.
        let _ = self.order("limit", &json!({"do": "limit", "steps": steps}));
        self.limit = Some(self.limit.map_or(steps, |limit| limit.min(steps)));
        true
    }

    pub(super) fn max_episode_steps(&self) -> Option<usize> {
        self.limit
    }

    pub(super) fn set_task(&mut self, task: &Value) -> Result<()> {
        self.order("set the task", &json!({"do": "task", "task": task}))
    }

    pub(super) fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        if self.hosted {
            if options.is_empty() {
                return Ok(());
            }
            let way_out = "leave them out, or use vectorization \"loop\"";
            return Err(Error::unsupported(&self.name, "options of `reset` as a hosted vector", way_out));
        }
        self.order("set the options", &json!({"do": "reset_options", "options": options}))?;
        self.options = (!options.is_empty()).then(|| Arc::new(options.clone()));
        Ok(())
    }

    /// Asks the first worker for the rewards of goals; returns false if the environment has no `compute_reward`.
    pub(super) fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        self.healthy()?;
        let answer = rewards_of(&mut self.workers[0], [achieved_goals, desired_goals], rewards);
        self.check(0, answer)
    }

    /// Sends a request to every worker, and waits until all are done.
    fn order(&mut self, doing: &str, request: &Value) -> Result<()> {
        self.healthy()?;
        for index in 0..self.workers.len() {
            let told = self.workers[index].request(request);
            self.check(index, told)?;
        }
        self.wait(doing)
    }

    pub(super) fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [u8]) -> Result<()> {
        self.healthy()?;
        for (row, episode) in self.episodes.iter_mut().enumerate() {
            episode.begin(seeds.map(|seeds| seeds[row]), &self.options);
        }
        self.send_command(if seeds.is_some() { b"r" } else { b"R" }, seeds)?;
        self.wait("reset")?;
        self.memory.read(self.offsets.obs, obs);
        self.read_infos();
        Ok(())
    }

    pub(super) fn step(
        &mut self,
        actions: &[u8],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, u8>,
    ) -> Result<()> {
        self.healthy()?;
        // An error from here on ends all workers, so `turns.end` may be skipped.
        let step = match (&mut self.turns, self.workers.last()) {
            (Some(turns), Some(last)) => Some(turns.begin(last, &self.memory)),
            _ => None,
        };
        self.send(actions, reset_seeds)?;
        self.receive(out)?;
        if let (Some(turns), Some(step)) = (&mut self.turns, step) {
            turns.end(step, &self.memory);
        }
        Ok(())
    }

    /// Writes the actions to the shared memory and tells the workers to step.
    fn send(&mut self, actions: &[u8], reset_seeds: Option<&[u64]>) -> Result<()> {
        for (episode, action) in self.episodes.iter_mut().zip(actions.chunks_exact(self.rows.act_bytes())) {
            // A hosted environment cannot be replayed, so its actions need not be kept.
            episode.act(if self.hosted { &[] } else { action });
        }
        self.memory.write(self.offsets.actions, actions);
        self.send_command(if reset_seeds.is_some() { b"s" } else { b"S" }, reset_seeds)?;
        Ok(())
    }

    /// Waits for the workers and copies the results of the step to `out`.
    fn receive(&mut self, out: StepOut<'_, u8>) -> Result<()> {
        self.wait("step")?;
        self.memory.read(self.offsets.obs, out.obs);
        self.memory.read(self.offsets.rewards, bytemuck::cast_slice_mut(&mut self.rewards));
        out.rewards.iter_mut().zip(&self.rewards).for_each(|(out, reward)| *out = *reward as f32);
        self.memory.read_flags(self.offsets.terminated, out.terminated);
        self.memory.read_flags(self.offsets.truncated, out.truncated);
        self.read_infos();
        let obs_bytes = self.rows.obs_bytes();
        for row in 0..self.rows.num_envs {
            if out.terminated[row] || out.truncated[row] {
                let at = row * obs_bytes;
                self.memory.read(self.offsets.final_obs + at, &mut out.final_obs[at..][..obs_bytes]);
                let seed = self.sent_seed(row);
                self.episodes[row].begin(seed, &self.options);
            }
        }
        Ok(())
    }

    fn read_infos(&mut self) {
        self.memory.read(self.offsets.infos, bytemuck::cast_slice_mut(&mut self.infos));
    }

    /// Seed of the copy's next episode if that starts in the current step; `None` without seeds.
    fn sent_seed(&self, row: usize) -> Option<u64> {
        let mut seed = 0;
        self.memory.read(self.offsets.seeds + row * 8, bytemuck::bytes_of_mut(&mut seed));
        self.resets_are_seeded.then_some(seed)
    }

    /// Writes a command, and the seeds if given, to every worker.
    fn send_command(&mut self, command: &[u8], seeds: Option<&[u64]>) -> Result<()> {
        if let Some(seeds) = seeds {
            self.memory.write(self.offsets.seeds, bytemuck::cast_slice(seeds));
        }
        self.resets_are_seeded = seeds.is_some();
        for index in 0..self.workers.len() {
            let written = self.workers[index].write(command);
            self.check(index, written)?;
        }
        Ok(())
    }

    fn wait(&mut self, doing: &str) -> Result<()> {
        // The worker that got its command last is mostly the last to finish: after it the caller seldom sleeps for the
        // others.
        for index in (0..self.workers.len()).rev() {
            let answer = self.workers[index].read_done(doing);
            self.check(index, answer)?;
        }
        Ok(())
    }

    fn healthy(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error(&self.name)))
    }

    /// Turns a fault of worker `index` into the error that this call and every later one returns.
    fn check<T>(&mut self, index: usize, answer: Answer<T>) -> Result<T> {
        let message = match answer {
            Ok(value) => return Ok(value),
            Err(message) => message,
        };
        let failure = Failure { position: self.position(index), message };
        self.workers.iter_mut().for_each(Worker::kill);
        let error = failure.error(&self.name);
        self.failure = Some(failure);
        Err(error)
    }

    /// The copy that a worker works on, with its seed and step; `None` if it works on no copy.
    fn position(&self, worker: usize) -> Option<CopyPosition> {
        let mut at = [0_i64; 2];
        self.memory.read(self.offsets.at + worker * 16, bytemuck::bytes_of_mut(&mut at));
        let row = self.first_row(worker) + usize::try_from(at[0]).ok()?;
        let episode = self.episodes.get(row)?;
        let resetting = at[1] != 0;
        Some(CopyPosition {
            row,
            seed: if resetting { self.sent_seed(row) } else { episode.seed() },
            step: if resetting { 0 } else { episode.step() },
        })
    }

    pub(super) fn action_masks(&self, masks: &mut [bool]) -> bool {
        self.read_masks(self.offsets.masks, masks)
    }

    pub(super) fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        self.read_masks(self.offsets.final_masks, masks)
    }

    fn read_masks(&self, at: usize, masks: &mut [bool]) -> bool {
        let num_masked = self.rows.num_masked;
        if num_masked == 0 || masks.len() != self.rows.num_envs * num_masked {
            return false;
        }
        self.memory.read_flags(at, masks);
        true
    }

    pub(super) fn info(&self, key: &str) -> Option<&[f64]> {
        let i = self.info_keys.iter().position(|known| known == key)?;
        self.infos.chunks_exact(self.rows.num_envs).nth(i)
    }

    pub(super) fn info_value(&mut self, row: usize, key: &str) -> Result<Option<Value>> {
        let (index, local) = self.place(row)?;
        if let Some(number) = number_of(self.info(key), row) {
            return Ok(Some(number));
        }
        let told = info_value(&mut self.workers[index], local, key);
        self.check(index, told)
    }

    pub(super) fn remarks(&mut self) -> Result<Vec<String>> {
        self.healthy()?;
        let mut all = vec![];
        for index in 0..self.workers.len() {
            let told = remarks(&mut self.workers[index]);
            for remark in self.check(index, told)? {
                if !all.contains(&remark) {
                    all.push(remark);
                }
            }
        }
        Ok(all)
    }

    pub(super) fn render(&mut self, row: usize) -> Result<Option<Frame>> {
        let (index, local) = self.place(row)?;
        let drawn = draw(&mut self.workers[index], local);
        self.check(index, drawn)?.picture(&self.name)
    }

    pub(super) fn render_fps(&self) -> Option<f64> {
        self.render_fps
    }

    pub(super) fn render_ansi(&mut self, row: usize) -> Result<Option<String>> {
        let (index, local) = self.place(row)?;
        let drawn = draw_ansi(&mut self.workers[index], local);
        self.check(index, drawn)?.picture(&self.name)
    }

    /// Checks that there is such a row and that the workers live; returns the index of its worker, and its own index within that worker.
    fn place(&self, row: usize) -> Result<(usize, usize)> {
        self.healthy()?;
        if row >= self.rows.num_envs {
            return Err(Error::no_copy(row, self.rows.num_envs));
        }
        let index = self.worker_of(row);
        Ok((index, row - self.first_row(index)))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // All workers are told to end first, so that they end at the same time; dropping then waits for each.
        self.workers.iter_mut().for_each(Worker::dismiss);
    }
}
