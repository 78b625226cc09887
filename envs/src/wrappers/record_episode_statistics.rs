//! The wrapper that records return, length and time of every episode.

use std::{collections::VecDeque, time::Instant};

use super::{load, save};
use crate::{Env, Result, Step};

const TAG: &str = "record_episode_statistics";

/// Counts episodes: [`Env::info`] gives the last one's return (`"episode/r"`), length (`"episode/l"`) and seconds
/// (`"episode/t"`) from its end until the first step of the next one.
///
/// An episode ends by its flags, or by a reset at [`Env::max_episode_steps`], where vector environments truncate it.
#[derive(Clone, Debug)]
pub struct RecordEpisodeStatistics<E> {
    env: E,
    episode_count: u64,
    episode_return: f64,
    episode_length: u64,
    episode_start: Instant,
    seconds: f64,
    ended: bool,
    return_queue: VecDeque<f64>,
    length_queue: VecDeque<u64>,
    buffer_length: usize,
}

impl<E: Env> RecordEpisodeStatistics<E> {
    /// Wraps `env`; the queues hold the last `buffer_length` episodes (100 by default in Gymnasium).
    pub fn new(env: E, buffer_length: usize) -> Self {
        Self {
            env,
            episode_count: 0,
            episode_return: 0.0,
            episode_length: 0,
            episode_start: Instant::now(),
            seconds: 0.0,
            ended: false,
            return_queue: VecDeque::with_capacity(buffer_length),
            length_queue: VecDeque::with_capacity(buffer_length),
            buffer_length,
        }
    }

    /// Returns the inner environment.
    pub fn inner(&self) -> &E {
        &self.env
    }

    /// Number of episodes that ended.
    pub fn episode_count(&self) -> u64 {
        self.episode_count
    }

    /// Returns of the last episodes, oldest first.
    pub fn return_queue(&self) -> &VecDeque<f64> {
        &self.return_queue
    }

    /// Lengths of the last episodes, oldest first.
    pub fn length_queue(&self) -> &VecDeque<u64> {
        &self.length_queue
    }

    fn end(&mut self) {
        self.ended = true;
        self.episode_count += 1;
        self.seconds = self.episode_start.elapsed().as_secs_f64();
        if self.return_queue.len() == self.buffer_length {
            self.return_queue.pop_front();
            self.length_queue.pop_front();
        }
        if self.buffer_length > 0 {
            self.return_queue.push_back(self.episode_return);
            self.length_queue.push_back(self.episode_length);
        }
    }

    fn start(&mut self) {
        self.episode_return = 0.0;
        self.episode_length = 0;
        self.ended = false;
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for RecordEpisodeStatistics<E> {
    forward!(
        Obs,
        Act,
        observation_space,
        action_space,
        max_episode_steps,
        action_mask,
        set_task,
        goals,
        render
    );

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        let limit = self.env.max_episode_steps().map_or(u64::MAX, |limit| limit as u64);
        if !self.ended && self.episode_length >= limit {
            self.end();
        }
        self.env.reset(seed, obs)?;
        if !self.ended {
            self.start();
        }
        self.episode_start = Instant::now();
        Ok(())
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        if self.ended {
            self.start();
        }
        let step = self.env.step(action, obs)?;
        self.episode_return += step.reward;
        self.episode_length += 1;
        if step.terminated || step.truncated {
            self.end();
        }
        Ok(step)
    }

    fn info(&self, key: &str) -> Option<f64> {
        match key {
            "episode/r" => self.ended.then_some(self.episode_return),
            "episode/l" => self.ended.then_some(self.episode_length as f64),
            "episode/t" => self.ended.then_some(self.seconds),
            _ => self.env.info(key),
        }
    }

    fn info_value(&mut self, key: &str) -> Result<Option<serde_json::Value>> {
        match self.info(key) {
            Some(number) => Ok(Some(number.into())),
            None => self.env.info_value(key),
        }
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let episode = (self.episode_return, self.episode_length, self.seconds, self.ended);
        save(TAG, &self.env, &(self.episode_count, episode, &self.return_queue, &self.length_queue))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (count, episode, returns, lengths): (_, _, VecDeque<f64>, VecDeque<u64>) =
            load(TAG, &mut self.env, state, |_| Ok(()))?;
        self.episode_count = count;
        (self.episode_return, self.episode_length, self.seconds, self.ended) = episode;
        let surplus = returns.len().saturating_sub(self.buffer_length);
        self.return_queue.clear();
        self.return_queue.extend(returns.into_iter().skip(surplus));
        self.length_queue.clear();
        self.length_queue.extend(lengths.into_iter().skip(surplus));
        self.episode_start = Instant::now();
        Ok(())
    }
}
