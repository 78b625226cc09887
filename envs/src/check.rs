//! Functions for tests that check the contract of an [`Env`] or a [`VectorEnv`](crate::VectorEnv).

use crate::{BoxBounds, DType, Element, Env, Error, NpRandom, Result, Space, Step};

mod findings;
pub(crate) mod inputs;
pub(crate) mod multi_agent;
pub(crate) mod speed;
mod vector;

pub use findings::{Examination, Finding};
pub use multi_agent::{
    check_any_multi_agent_env, check_any_multi_agent_env_within, check_multi_agent_env,
    examine_multi_agent_env,
};
pub use vector::{check_vector_env, check_vector_env_within, examine_vector_env, seems_endless};

/// Number of steps of each check: several episodes of most environments under random actions.
const STEPS: usize = 300;

/// Plays an environment with random actions (legal ones if it has an action mask) and tests the contract of [`Env`].
///
/// | rule | what breaks it |
/// |---|---|
/// | `spaces` | a space with contradictory bounds or the wrong scalar type, or a space that changes |
/// | `deterministic` | different observations, rewards or flags for equal seeds and actions |
/// | `writes_every_element` | an element of `obs` that `reset` or `step` does not write |
/// | `observation_in_space` | an observation outside the space |
/// | `finite_reward` | an infinite or NaN reward |
/// | `state` | a step after `load_state` that differs from the same step after `save_state` |
///
/// A number beyond the bounds of its box by less than a millionth of the bound is rounded, and breaks no rule.
///
/// # Errors
/// Returns [`Error::Contract`] with the first rule that is broken and the step, and after it all others. Errors of the
/// environment are passed on unchanged.
pub fn check_env<E: Env>(env: &mut E) -> Result<()> {
    let observation_space = env.observation_space();
    let action_space = env.action_space();
    check_space("observation", &observation_space, E::Obs::DTYPE)?;
    check_space("action", &action_space, E::Act::DTYPE)?;

    let mut found = Examination::default();
    let mut player =
        Player { width: observation_space.width(), action_space: action_space.clone(), poison: 0x55 };
    let first = player.play(env)?;
    let again = player.play(env)?;
    let is_repeatable = found.take(compare("deterministic", &first, &again, "when it was played again"))?;
    if is_repeatable {
        player.poison = 0xaa;
        let when = "when `obs` held other values before";
        found.take(compare("writes_every_element", &first, &player.play(env)?, when))?;
    }
    let bounds = BoxBounds::of(&observation_space);
    for moment in &first {
        found.take(moment.check(&observation_space, &bounds))?;
    }
    if is_repeatable {
        found.take(player.check_state(env))?;
    }
    if env.observation_space() != observation_space || env.action_space() != action_space {
        let now = format!("{} to {}", env.observation_space(), env.action_space());
        found.take(broken("spaces", format!("{observation_space} to {action_space} became {now}")))?;
    }
    found.strict()
}

struct Player {
    width: usize,
    action_space: Space,
    poison: u8,
}

/// Result of one `reset` or `step`.
#[derive(Debug)]
struct Moment<O> {
    episode: u64,
    /// Step of the episode, from 1; 0 is the reset.
    step: usize,
    obs: Vec<O>,
    end: Step,
}

impl Player {
    fn play<E: Env>(&self, env: &mut E) -> Result<Vec<Moment<E::Obs>>> {
        let mut random = NpRandom::new(0);
        let mut moments = vec![self.reset(env, 0)?];
        while moments.len() < STEPS {
            let next = self.next(env, &moments[moments.len() - 1], &mut random)?;
            moments.push(next);
        }
        Ok(moments)
    }

    fn reset<E: Env>(&self, env: &mut E, episode: u64) -> Result<Moment<E::Obs>> {
        let mut obs = self.row();
        env.reset(Some(episode), &mut obs)?;
        Ok(Moment { episode, step: 0, obs, end: Step::default() })
    }

    fn next<E: Env>(
        &self,
        env: &mut E,
        last: &Moment<E::Obs>,
        random: &mut NpRandom,
    ) -> Result<Moment<E::Obs>> {
        if last.end.terminated || last.end.truncated {
            return self.reset(env, last.episode + 1);
        }
        let mut action = vec![E::Act::default(); self.action_space.width()];
        let legal = mask(env, &self.action_space);
        self.action_space.sample_legal(&legal, random, &mut action);
        let mut obs = self.row();
        let end = env.step(&action, &mut obs)?;
        Ok(Moment { episode: last.episode, step: last.step + 1, obs, end })
    }

    /// Returns an observation row filled with a byte pattern that no environment writes by intention.
    fn row<O: Element>(&self) -> Vec<O> {
        let mut row = vec![O::default(); self.width];
        bytemuck::cast_slice_mut::<O, u8>(&mut row).fill(self.poison);
        row
    }

    /// Continues twice from one saved state, the second time from another episode, and compares the two.
    fn check_state<E: Env>(&self, env: &mut E) -> Result<()> {
        const AHEAD: usize = 20;
        let mut random = NpRandom::new(1);
        let mut last = self.reset(env, 3)?;
        for _ in 0..5 {
            last = self.next(env, &last, &mut random)?;
        }
        let Some(state) = env.save_state() else { return Ok(()) };
        let ahead = |env: &mut E| {
            let mut random = NpRandom::new(2);
            let mut moments: Vec<Moment<E::Obs>> = vec![];
            for _ in 0..AHEAD {
                let next = self.next(env, moments.last().unwrap_or(&last), &mut random)?;
                moments.push(next);
            }
            Ok::<_, Error>(moments)
        };
        let went = ahead(env)?;
        self.reset(env, 4)?;
        env.load_state(&state)?;
        compare("state", &went, &ahead(env)?, "when it went on from the saved state")
    }
}

/// Returns the current action mask of a discrete space; empty without a mask or with more than 2^20 actions.
fn mask<E: Env>(env: &E, space: &Space) -> Vec<bool> {
    const MAX_FLAGS: i64 = 1 << 20;
    let Space::Discrete { n: n @ ..=MAX_FLAGS, .. } = space else { return Vec::new() };
    let mut mask = vec![false; *n as usize];
    if env.action_mask(&mut mask) { mask } else { Vec::new() }
}

impl<O: Element> Moment<O> {
    fn check(&self, space: &Space, bounds: &BoxBounds) -> Result<()> {
        let Self { episode, step, end, .. } = self;
        if let Some(violation) = space.meaningless(&self.obs).or_else(|| bounds.beyond(&self.obs)) {
            return broken("observation_in_space", format!("seed {episode}, step {step}: {violation}"));
        }
        if !end.reward.is_finite() {
            return broken(
                "finite_reward",
                format!("seed {episode}, step {step}: the reward is {}", end.reward),
            );
        }
        Ok(())
    }
}

fn compare<O: Element>(rule: &'static str, a: &[Moment<O>], b: &[Moment<O>], when: &str) -> Result<()> {
    for (a, b) in a.iter().zip(b) {
        let place = format!("seed {}, step {}", a.episode, a.step);
        let bits = bytemuck::bytes_of::<O>;
        if let Some(i) = (0..a.obs.len()).find(|&i| bits(&a.obs[i]) != bits(&b.obs[i])) {
            let was = a.obs[i];
            let is = b.obs[i];
            return broken(
                rule,
                format!("{place}: element {i} of the observation was {was:?}, {when} {is:?}"),
            );
        }
        let end = |end: &Step| (end.reward.to_bits(), end.terminated, end.truncated);
        if end(&a.end) != end(&b.end) {
            return broken(rule, format!("{place}: the result was {:?}, {when} {:?}", a.end, b.end));
        }
    }
    Ok(())
}

fn check_space(which: &str, space: &Space, dtype: DType) -> Result<()> {
    if let Err(error) = space.validate() {
        return broken("spaces", format!("the {which} space: {error}"));
    }
    if space.width() == 0 || space.dtype() != dtype {
        let rows = format!("{} scalars of {}", space.width(), space.dtype());
        return broken(
            "spaces",
            format!("the {which} space {space} has rows of {rows}, the type says {dtype}"),
        );
    }
    Ok(())
}

fn broken(check: &'static str, message: String) -> Result<()> {
    Err(Error::Contract { check, message })
}
