//! [`OutOfBounds`]: how many observations are beyond the bounds of their space, as a share of each episode.

use crate::agents::say_out_of_bounds;
use crate::sample::running_episodes::RunningEpisodes;
use pavlov_envs::{BoxBounds, Space};
use pavlov_learn::base::{Error, Result, State};

/// Name of the share among the custom metrics of an episode.
const SHARE: &str = "obs_out_of_bounds";

/// Counts the observations beyond the bounds of their space in one step of every fragment.
#[derive(Debug)]
pub(crate) struct OutOfBounds {
    /// The bounds of each agent's observations.
    bounds: Vec<BoxBounds>,
    /// Whether such an observation is an error.
    is_strict: bool,
    /// Numbers of observations that were looked at in the running episode of each copy, and of those beyond the bounds.
    counts: Vec<(u64, u64)>,
    /// Whether an observation of each copy was ever beyond the bounds. From then on every episode of the copy has a share,
    /// which so does not depend on the other copies of a worker.
    met: Vec<bool>,
}

impl OutOfBounds {
    /// Makes a counter for the observations of `copies` copies; `spaces` has one space for each agent.
    pub(crate) fn new<'a>(
        spaces: impl Iterator<Item = &'a Space>,
        copies: usize,
        strict_env_checking: bool,
    ) -> Self {
        Self {
            bounds: spaces.map(BoxBounds::of).collect(),
            is_strict: strict_env_checking,
            counts: vec![(0, 0); copies],
            met: vec![false; copies],
        }
    }

    /// Whether step `t` of a fragment is the one that is looked at. `sampled` is the number of steps of each copy in the
    /// fragments before, and `steps` that in a fragment.
    pub(crate) fn looks_at(&self, t: usize, sampled: u64, steps: usize) -> bool {
        // A prime, so that all steps of a fragment have their turn.
        const STRIDE: u64 = 7919;
        let steps = steps as u64;
        t as u64 == (sampled / steps).wrapping_mul(STRIDE) % steps
            && !self.bounds.iter().all(BoxBounds::is_empty)
    }

    /// Looks at an observation of one agent of a copy, as bytes.
    pub(crate) fn look(&mut self, copy: usize, agent: usize, obs: &[u8]) -> Result<()> {
        let bounds = &self.bounds[agent];
        let (looked, beyond) = &mut self.counts[copy];
        *looked += 1;
        if bounds.count(obs) > 0 {
            *beyond += 1;
            if !std::mem::replace(&mut self.met[copy], true) || self.is_strict {
                let what = format!("copy {copy}: {}", bounds.first(obs).unwrap_or_default());
                if self.is_strict {
                    let way_out =
                        "mend the environment, or leave `strict_env_checking` out to train on it as it is";
                    let message = format!("{what}; {way_out}");
                    return Err(Error::Env(pavlov_envs::Error::Contract {
                        check: "observation_in_space",
                        message,
                    }));
                }
                say_out_of_bounds(&what);
            }
        }
        Ok(())
    }

    /// Gives the running episode of a copy its share, because it is about to end.
    pub(crate) fn end(&mut self, copy: usize, episodes: &mut RunningEpisodes) {
        let (looked, beyond) = std::mem::take(&mut self.counts[copy]);
        if self.met[copy] && looked > 0 {
            episodes.add_metric(copy, SHARE, beyond as f64 / looked as f64);
        }
    }

    /// Saves the counts, if there is anything to count.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        if self.met.contains(&true) { state.set(SHARE, &(&self.counts, &self.met)) } else { Ok(()) }
    }

    /// Restores the counts that [`save`](Self::save) saved.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        let copies = self.counts.len();
        let saved = if state.has(SHARE) { Some(state.get::<(Vec<_>, Vec<_>)>(SHARE)?) } else { None };
        let saved = saved.filter(|(counts, met)| counts.len() == copies && met.len() == copies);
        (self.counts, self.met) = saved.unwrap_or_else(|| (vec![(0, 0); copies], vec![false; copies]));
        Ok(())
    }
}
