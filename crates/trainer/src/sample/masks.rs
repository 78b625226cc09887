//! Masks of legal discrete actions, which are read from the environment at every observation and checked.

use crate::base::notice_once;
use pavlov_envs::{AnyVectorEnv, Space};
use pavlov_learn::base::{Error, HostRows, Kind, Result};

/// What an environment without masks must do for `mask_actions`.
const NO_MASK: &str = "this environment does not say which actions are legal: leave the setting out; or implement \
                       `action_mask`, in Python `action_masks()` or `info[\"action_mask\"]`";

/// Said once if a truncated episode ends without a mask.
const NO_LAST_MASK: &str = "an episode was truncated, and the environment does not say which actions are legal at its last \
                            observation: all count as legal in the value of that observation. Give the last observation a mask, \
                            too; PPO and IMPALA do not read it";

/// Masks of legal actions for each row, `[rows, copies, options]`; all actions are legal until an environment masks
/// some.
#[derive(Debug)]
pub(crate) struct Masks {
    /// The masks, `[rows, copies, options]`.
    pub(crate) rows: HostRows,
    /// Number of actions of each choice: one entry for Discrete, several for MultiDiscrete. The flags of choice 0 come
    /// first in a mask.
    choices: Vec<usize>,
    /// Number of flags per copy: the sum of `choices`.
    options: usize,
    /// Legal actions at the last observations of the episodes that ended in the latest step, `[copies, options]`.
    ended: Vec<bool>,
}

impl Masks {
    pub(crate) fn new(space: &Space, rows: usize, copies: usize) -> Result<Self> {
        let choices = match space {
            Space::Discrete { n, .. } => vec![*n as usize],
            Space::MultiDiscrete { nvec, .. } => nvec.iter().map(|&n| n as usize).collect(),
            other => {
                let rule = format!("it needs a Discrete or MultiDiscrete action space, not {other}");
                return Err(Error::config("mask_actions", true, rule));
            }
        };
        let options = choices.iter().sum();
        let mut rows = HostRows::zeros(rows, &[copies as i64, options as i64], Kind::Bool);
        (0..rows.len()).for_each(|i| rows.bools_mut(i).fill(true));
        Ok(Self { rows, choices, options, ended: vec![true; copies * options] })
    }

    /// Number of flags per copy: the sum over all choices of their numbers of actions.
    pub(crate) fn options(&self) -> usize {
        self.options
    }

    /// The masks of all copies in row `i`, `[copies, options]`.
    pub(crate) fn row(&mut self, i: usize) -> &mut [bool] {
        self.rows.bools_mut(i)
    }

    /// Reads from the environment which actions are legal now, stores the masks in row `i`, and checks them.
    pub(crate) fn read(&mut self, env: &dyn AnyVectorEnv, i: usize) -> Result<()> {
        if !env.action_masks(self.rows.bools_mut(i)) {
            return Err(Error::config("mask_actions", true, NO_MASK));
        }
        self.check(i)
    }

    /// Lets `read` write which actions of one agent are legal now, and stores the mask in row `i` at place `slot`. `read`
    /// returns `false` if the environment does not say so.
    pub(crate) fn read_agent(
        &mut self,
        read: impl FnOnce(&mut [bool]) -> bool,
        agent: usize,
        i: usize,
        slot: usize,
    ) -> Result<()> {
        let options = self.options;
        let mask = &mut self.rows.bools_mut(i)[slot * options..][..options];
        if !read(mask) {
            return Err(Error::config("mask_actions", true, NO_MASK));
        }
        let Some(choice) = choice_without_action(&self.choices, mask) else { return Ok(()) };
        let reason = format!(
            "agent {agent} may take none of the {} actions of choice {choice}, but it is to act; allow one, or end its episode",
            self.choices[choice]
        );
        Err(Error::state("the action mask", reason))
    }

    /// Returns an error if a mask in row `i` leaves its copy without a legal action.
    pub(crate) fn check(&mut self, i: usize) -> Result<()> {
        let choices = &self.choices;
        let options = self.options;
        for (copy, mask) in self.rows.bools_mut(i).chunks_exact(options).enumerate() {
            if let Some(choice) = choice_without_action(choices, mask) {
                let reason = format!(
                    "copy {copy} may take none of the {} actions of choice {choice}, but its episode goes on; allow one, or end the episode",
                    choices[choice]
                );
                return Err(Error::state("the action mask", reason));
            }
        }
        Ok(())
    }

    /// Reads from the environment which actions were legal at the last observations of the episodes that ended in this
    /// step; if it cannot tell, none is known to be legal.
    pub(crate) fn read_ended(&mut self, env: &dyn AnyVectorEnv) {
        if !env.final_action_masks(&mut self.ended) {
            self.ended.fill(false);
        }
    }

    /// Lets `read` write which actions of one agent are legal at the last observation of its episode, and stores the mask at
    /// place `slot`. `read` returns `false` if the environment does not say so.
    pub(crate) fn read_end(&mut self, read: impl FnOnce(&mut [bool]) -> bool, slot: usize) {
        let mask = &mut self.ended[slot * self.options..][..self.options];
        if !read(mask) {
            mask.fill(false);
        }
    }

    /// Legal actions at the last observation of one copy's finished episode. If a choice has no legal action there, all
    /// actions count as legal; of a `truncated` episode, whose last observation has a value, this is said once.
    pub(crate) fn ended(&mut self, copy: usize, truncated: bool) -> &[bool] {
        let mask = &mut self.ended[copy * self.options..][..self.options];
        if choice_without_action(&self.choices, mask).is_some() {
            if truncated {
                notice_once(NO_LAST_MASK);
            }
            mask.fill(true);
        }
        mask
    }
}

/// Index of the first choice for which the mask allows no action.
pub(super) fn choice_without_action(choices: &[usize], mask: &[bool]) -> Option<usize> {
    let mut start = 0;
    choices.iter().position(|&n| {
        start += n;
        !mask[start - n..start].contains(&true)
    })
}
