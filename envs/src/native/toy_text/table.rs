//! Tabular environments: a table gives the random outcomes of each action in each state.

use std::sync::Arc;

use crate::{Error, NpRandom, Result, Space, Step};

/// One outcome that a step can have, with its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) probability: f64,
    pub(super) state: usize,
    pub(super) reward: f64,
    pub(super) terminated: bool,
}

/// A tabular environment's dynamics: Gymnasium's `P` and `initial_state_distrib`.
#[derive(Debug)]
pub(super) struct Table {
    num_actions: usize,
    /// Cumulative distribution of the first state: the probability of starting in this state or one with a lower index.
    starts: Vec<f64>,
    outcomes: Vec<Outcome>,
    /// Index of the first outcome of each pair of state and action, and the number of outcomes at the end.
    begins: Vec<usize>,
}

impl Table {
    /// Makes a table of the outcomes `outcomes(state, action)`; an episode starts in any state of `starts` with equal
    /// probability.
    pub(super) fn new<I: IntoIterator<Item = Outcome>>(
        num_actions: usize,
        starts: &[bool],
        outcomes: impl Fn(usize, usize) -> I,
    ) -> Self {
        let count = starts.iter().filter(|&&start| start).count() as f64;
        let mut sum = 0.0;
        let running_sum = |&start: &bool| {
            sum += if start { 1.0 / count } else { 0.0 };
            sum
        };
        let mut table = Self {
            num_actions,
            starts: starts.iter().map(running_sum).collect(),
            outcomes: vec![],
            begins: vec![0],
        };
        for pair in 0..starts.len() * num_actions {
            table.outcomes.extend(outcomes(pair / num_actions, pair % num_actions));
            table.begins.push(table.outcomes.len());
        }
        table
    }

    fn start(&self, random: &mut NpRandom) -> usize {
        let draw = random.random();
        let state = self.starts.partition_point(|&sum| sum <= draw);
        // numpy's `argmax` gives 0 when rounding leaves the last sum below the draw.
        if state == self.starts.len() { 0 } else { state }
    }

    fn step(&self, random: &mut NpRandom, state: usize, action: usize) -> &Outcome {
        let pair = state * self.num_actions + action;
        let outcomes = &self.outcomes[self.begins[pair]..self.begins[pair + 1]];
        let draw = random.random();
        let mut sum = 0.0;
        let drawn = outcomes.iter().find(|outcome| {
            sum += outcome.probability;
            sum > draw
        });
        drawn.unwrap_or(&outcomes[0])
    }
}

/// State of an episode in a table. Clones share the table.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    table: Arc<Table>,
    /// Current state; `None` before the first reset.
    pub(super) state: Option<usize>,
    pub(super) last_action: Option<usize>,
    /// Probability of the last step's outcome.
    probability: f64,
}

/// State, last action and probability of a [`Walk`], as a saved state holds them.
pub(super) type SavedWalk = (Option<usize>, Option<usize>, f64);

impl Walk {
    /// Starts without a state.
    pub(super) fn new(table: Table) -> Self {
        Self { table: Arc::new(table), state: None, last_action: None, probability: 1.0 }
    }

    pub(super) fn observation_space(&self) -> Space {
        Space::discrete(self.table.starts.len() as i64)
    }

    pub(super) fn action_space(&self) -> Space {
        Space::discrete(self.table.num_actions as i64)
    }

    pub(super) fn takes(&self, action: &[i64]) -> bool {
        matches!(*action, [taken] if (0..self.table.num_actions as i64).contains(&taken))
    }

    pub(super) fn start(&mut self, random: &mut NpRandom, obs: &mut [i64]) {
        let state = self.table.start(random);
        self.state = Some(state);
        self.last_action = None;
        self.probability = 1.0;
        obs[0] = state as i64;
    }

    pub(super) fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [i64]) -> Step {
        let taken = action[0] as usize;
        let outcome = self.table.step(random, self.state.expect("an episode runs"), taken);
        self.state = Some(outcome.state);
        self.last_action = Some(taken);
        self.probability = outcome.probability;
        obs[0] = outcome.state as i64;
        Step { reward: outcome.reward, terminated: outcome.terminated, truncated: false }
    }

    /// Value of Gymnasium's `info` for `key`: `prob` is the probability of the last step's outcome; other keys give `None`.
    pub(super) fn info(&self, key: &str) -> Option<f64> {
        (key == "prob").then_some(self.probability)
    }

    pub(super) fn save(&self) -> SavedWalk {
        (self.state, self.last_action, self.probability)
    }

    pub(super) fn load(&mut self, (state, last_action, probability): SavedWalk, running: bool) -> Result<()> {
        check_index("state", self.table.starts.len(), state)?;
        check_index("action", self.table.num_actions, last_action)?;
        if running && state.is_none() {
            return Err(Error::state("an episode runs that has no state; it is damaged"));
        }
        (self.state, self.last_action, self.probability) = (state, last_action, probability);
        Ok(())
    }
}

fn check_index(what: &str, len: usize, value: Option<usize>) -> Result<()> {
    match value {
        Some(value) if value >= len => Err(Error::state(format!(
            "it is about {what} {value}, but there are {len} here; load it with the same settings"
        ))),
        _ => Ok(()),
    }
}
