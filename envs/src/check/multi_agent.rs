//! Checks of the contract of multi-agent environments.

use std::time::{Duration, Instant};

use super::{
    STEPS, broken, check_space,
    findings::Examination,
    vector::{FEWEST, RUNS},
};
use crate::{
    AnyMultiAgentEnv, BoxBounds, Element, Error, MultiAgentEnv, MultiAgentRows, NpRandom, Result, Space,
    TypedMultiAgentEnv, contract::element::with_scalar,
};

/// Plays a multi-agent environment with random legal actions and tests the contract of [`MultiAgentEnv`].
///
/// | rule | what breaks it |
/// |---|---|
/// | `agents` | no agents, a name that is empty or given twice, or names that change |
/// | `spaces` | a space with contradictory bounds or the wrong scalar type, or a space that changes |
/// | `deterministic` | different observations, rewards, flags or masks for equal seeds and actions |
/// | `writes_every_element` | an element of `out` that `reset` or `step` does not write |
/// | `reads_acting_agents_only` | results that depend on the action of an agent that is not acting |
/// | `observation_in_space` | an observation outside the agent's space |
/// | `absent_agents` | a nonzero observation or reward of an agent before it joins or after it ends |
/// | `finite_reward` | an infinite or NaN reward |
/// | `ends_once` | an agent that ends without being alive, is alive after its end, or disappears without an end |
/// | `turn` | an acting agent that is not alive, or no acting agent while one is alive |
/// | `action_mask` | an acting agent without a legal action, or a legal action of an agent that is neither acting nor at its end |
/// | `refuses_invalid_actions` | a discrete action outside the space that is accepted |
/// | `state` | a step after `load_state` that differs from the same step after `save_state` |
///
/// # Errors
/// Returns [`Error::Contract`] with the rule, the agent and the step if a rule is broken. Errors of the environment are
/// passed on unchanged.
pub fn check_multi_agent_env<E: MultiAgentEnv>(env: &mut E) -> Result<()> {
    let mut found = Examination::default();
    examine_within(env, Duration::MAX, &mut found)?;
    found.strict()
}

/// Checks a multi-agent environment for about this time: a slow one is played for fewer steps, and what has not begun by then
/// is left out.
fn examine_within<E: MultiAgentEnv>(env: &mut E, at_most: Duration, found: &mut Examination) -> Result<()> {
    let started = Instant::now();
    let names = env.agents();
    let spaces = spaces(env);
    if !found.take(check_agents::<E>(&names, &spaces))? {
        return Ok(());
    }
    let mut player = Player { names: &names, spaces: &spaces, poison: 0x55, waiting: 0, steps: STEPS };
    let first = player.play_within(env, at_most / RUNS)?;
    player.steps = first.len();
    found.steps = first.len();
    let is_late = || started.elapsed() > at_most;
    if is_late() {
        return player.check_rows(&first, found);
    }
    let again = player.play(env)?;
    let is_repeatable =
        found.take(player.compare("deterministic", &first, &again, "when it was played again"))?;
    if is_late() {
        return player.check_rows(&first, found);
    }
    if is_repeatable {
        player.poison = 0xaa;
        let stale = "when `out` held other values before";
        found.take(player.compare("writes_every_element", &first, &player.play(env)?, stale))?;
        if is_late() {
            return player.check_rows(&first, found);
        }
        player.waiting = 1;
        let waiting = "when agents that were not acting had other actions";
        found.take(player.compare("reads_acting_agents_only", &first, &player.play(env)?, waiting))?;
    }
    player.check_rows(&first, found)?;
    if is_late() {
        return Ok(());
    }
    found.take(player.check_invalid_actions(env))?;
    if is_repeatable {
        found.take(player.check_state(env))?;
    }
    if env.agents() != names {
        found.take(broken("agents", format!("{names:?} became {:?}", env.agents())))?;
    }
    if self::spaces(env) != spaces {
        found.take(broken("spaces", "a space changed while it was played".into()))?;
    }
    Ok(())
}

fn check_agents<E: MultiAgentEnv>(names: &[String], spaces: &[(Space, Space)]) -> Result<()> {
    let repeated = (1..names.len()).find(|&i| names[..i].contains(&names[i]));
    match (names.iter().position(String::is_empty), repeated) {
        _ if names.is_empty() => return broken("agents", "there are none".into()),
        (Some(i), _) => return broken("agents", format!("the name of agent {i} is empty")),
        (_, Some(i)) => return broken("agents", format!("two are named {:?}", names[i])),
        _ => {}
    }
    for (name, (observation_space, action_space)) in names.iter().zip(spaces) {
        check_space(&format!("observation of {name}:"), observation_space, E::Obs::DTYPE)?;
        check_space(&format!("action of {name}:"), action_space, E::Act::DTYPE)?;
    }
    Ok(())
}

/// Plays a multi-agent environment of any scalar types as [`check_multi_agent_env`] does.
///
/// # Errors
/// Returns [`Error::Contract`] with the rule, the agent and the step if a rule is broken. Errors of the environment are
/// passed on unchanged.
pub fn check_any_multi_agent_env(env: Box<dyn AnyMultiAgentEnv>) -> Result<()> {
    check_any_multi_agent_env_within(env, Duration::MAX)
}

/// Checks a multi-agent environment as [`check_any_multi_agent_env`] does, for about this time: a slow one is played for fewer
/// steps, and what has not begun by then is left out.
///
/// # Errors
/// Fails whenever [`check_any_multi_agent_env`] does.
pub fn check_any_multi_agent_env_within(env: Box<dyn AnyMultiAgentEnv>, at_most: Duration) -> Result<()> {
    examine_multi_agent_env(env, at_most)?.strict()
}

/// Plays a multi-agent environment as [`check_any_multi_agent_env_within`] does, and lists every rule that it breaks. One that
/// is not repeatable under a seed is not asked for what follows from that, such as saved states.
///
/// # Errors
/// Errors of the environment are passed on unchanged; a broken rule is none.
pub fn examine_multi_agent_env(env: Box<dyn AnyMultiAgentEnv>, at_most: Duration) -> Result<Examination> {
    let mut found = Examination::default();
    with_scalar!(env.obs_dtype(), O => with_scalar!(env.act_dtype(), A => {
        examine_within(&mut TypedMultiAgentEnv::<O, A>::new(env)?, at_most, &mut found)
    }))?;
    Ok(found)
}

fn spaces<E: MultiAgentEnv>(env: &E) -> Vec<(Space, Space)> {
    (0..env.agents().len()).map(|agent| (env.observation_space(agent), env.action_space(agent))).collect()
}

struct Player<'a> {
    names: &'a [String],
    /// Observation space and action space of each agent.
    spaces: &'a [(Space, Space)],
    /// Byte that fills `out` before each call.
    poison: u8,
    /// Byte that fills the actions of agents that are not acting, which the environment must not read.
    waiting: u8,
    /// Number of resets and steps of a run.
    steps: usize,
}

/// Result of one `reset` or `step`.
#[derive(Clone, Debug)]
struct Moment<O> {
    episode: u64,
    /// Step of the episode, from 1; 0 is the reset.
    step: usize,
    rows: MultiAgentRows<O>,
    /// Action mask of each agent; empty without masks.
    masks: Vec<Vec<bool>>,
}

impl<O: Element> Moment<O> {
    fn place(&self) -> String {
        format!("seed {}, step {}", self.episode, self.step)
    }
}

impl Player<'_> {
    fn play<E: MultiAgentEnv>(&self, env: &mut E) -> Result<Vec<Moment<E::Obs>>> {
        self.play_within(env, Duration::MAX)
    }

    /// Plays a run, and ends it early when `at_most` has passed.
    fn play_within<E: MultiAgentEnv>(&self, env: &mut E, at_most: Duration) -> Result<Vec<Moment<E::Obs>>> {
        let started = Instant::now();
        let mut random = NpRandom::new(0);
        let mut moments = vec![self.reset(env, 0)?];
        while moments.len() < self.steps && (moments.len() <= FEWEST || started.elapsed() <= at_most) {
            let next = self.next(env, &moments[moments.len() - 1], &mut random)?;
            moments.push(next);
        }
        Ok(moments)
    }

    fn reset<E: MultiAgentEnv>(&self, env: &mut E, episode: u64) -> Result<Moment<E::Obs>> {
        let mut rows = self.rows();
        env.reset(Some(episode), rows.out())?;
        Ok(Moment { episode, step: 0, rows, masks: self.masks(env) })
    }

    fn next<E: MultiAgentEnv>(
        &self,
        env: &mut E,
        last: &Moment<E::Obs>,
        random: &mut NpRandom,
    ) -> Result<Moment<E::Obs>> {
        if last.rows.is_over() {
            return self.reset(env, last.episode + 1);
        }
        if !last.rows.acting.contains(&true) {
            return Err(Error::Contract {
                check: "turn",
                message: format!("{}: agents are alive, but none acts", last.place()),
            });
        }
        let mut actions = vec![];
        for (agent, (_, space)) in self.spaces.iter().enumerate() {
            let mut action = vec![E::Act::default(); space.width()];
            if last.rows.acting[agent] {
                space.sample_legal(&last.masks[agent], random, &mut action);
            } else {
                bytemuck::cast_slice_mut::<E::Act, u8>(&mut action).fill(self.waiting);
            }
            actions.extend(action);
        }
        let mut rows = self.rows();
        env.step(&actions, rows.out())?;
        Ok(Moment { episode: last.episode, step: last.step + 1, rows, masks: self.masks(env) })
    }

    /// Returns rows filled with a byte pattern that no environment writes by intention.
    fn rows<O: Element>(&self) -> MultiAgentRows<O> {
        let mut rows = MultiAgentRows::with_widths(self.spaces.iter().map(|(space, _)| space.width()));
        bytemuck::cast_slice_mut::<O, u8>(&mut rows.obs).fill(self.poison);
        bytemuck::cast_slice_mut::<f64, u8>(&mut rows.rewards).fill(self.poison);
        let flag = self.poison == 0xaa;
        for flags in [&mut rows.terminated, &mut rows.truncated, &mut rows.alive, &mut rows.acting] {
            flags.fill(flag);
        }
        rows
    }

    fn masks<E: MultiAgentEnv>(&self, env: &E) -> Vec<Vec<bool>> {
        let mask = |(agent, (_, space)): (usize, &(Space, Space))| {
            let Space::Discrete { n, .. } = space else { return vec![] };
            let mut mask = vec![false; *n as usize];
            if env.action_mask(agent, &mut mask) { mask } else { vec![] }
        };
        self.spaces.iter().enumerate().map(mask).collect()
    }

    fn compare<O: Element>(
        &self,
        rule: &'static str,
        a: &[Moment<O>],
        b: &[Moment<O>],
        when: &str,
    ) -> Result<()> {
        for (a, b) in a.iter().zip(b) {
            for (agent, name) in self.names.iter().enumerate() {
                let parts = |moment: &Moment<O>| {
                    let rows = &moment.rows;
                    [
                        ("observation", format!("{:?}", rows.obs(agent))),
                        ("reward", format!("{:?}", rows.rewards[agent])),
                        ("`terminated`", rows.terminated[agent].to_string()),
                        ("`truncated`", rows.truncated[agent].to_string()),
                        ("`alive`", rows.alive[agent].to_string()),
                        ("`acting`", rows.acting[agent].to_string()),
                        ("action mask", format!("{:?}", moment.masks[agent])),
                    ]
                };
                for ((what, was), (_, is)) in parts(a).into_iter().zip(parts(b)) {
                    if was != is {
                        let place = a.place();
                        return broken(rule, format!("{place}: {what} of {name} was {was}, {when} {is}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_rows<O: Element>(&self, moments: &[Moment<O>], found: &mut Examination) -> Result<()> {
        let bounds: Vec<BoxBounds> = self.spaces.iter().map(|(space, _)| BoxBounds::of(space)).collect();
        let mut ended = vec![false; self.names.len()];
        for (t, moment) in moments.iter().enumerate() {
            let rows = &moment.rows;
            let before = if moment.step == 0 { None } else { moments[..t].last().map(|last| &last.rows) };
            if before.is_none() {
                ended.fill(false);
            }
            for (agent, name) in self.names.iter().enumerate() {
                let mut fault =
                    |rule, text: &str| found.add(rule, format!("{}: {name} {text}", moment.place()), true);
                let terminated = rows.terminated[agent];
                let truncated = rows.truncated[agent];
                let alive = rows.alive[agent];
                let ends = terminated || truncated;
                let was_alive = before.is_some_and(|before| before.alive[agent]);
                if ends && !was_alive {
                    fault("ends_once", "ends, but it was not alive before");
                }
                if alive && (ends || ended[agent]) {
                    fault("ends_once", "is alive after its end");
                }
                if was_alive && !alive && !ends {
                    fault("ends_once", "is gone, but neither `terminated` nor `truncated` was set");
                }
                ended[agent] |= ends;
                if !rows.rewards[agent].is_finite() {
                    fault("finite_reward", &format!("has a reward of {}", rows.rewards[agent]));
                }
                if rows.acting[agent] && !alive {
                    fault("turn", "is acting, but not alive");
                }
                let mask = &moment.masks[agent];
                if !mask.is_empty() && !ends && mask.contains(&true) != rows.acting[agent] {
                    let text = if rows.acting[agent] {
                        "is acting, but its action mask leaves nothing"
                    } else {
                        "has legal actions, but is not acting"
                    };
                    fault("action_mask", text);
                }
                let obs = rows.obs(agent);
                if !alive && !ends {
                    if rows.rewards[agent] != 0.0 || obs.iter().any(|x| x.to_f64() != 0.0) {
                        fault("absent_agents", "is not there, but its row or reward is not 0");
                    }
                } else if let Some(why) = self.spaces[agent].0.meaningless(obs) {
                    fault("observation_in_space", &format!("sees what it cannot: {why}"));
                } else if let Some(why) = bounds[agent].beyond(obs) {
                    let text = format!("{}: {name} sees what it cannot: {why}", moment.place());
                    found.add("observation_in_space", text, false);
                }
            }
        }
        Ok(())
    }

    /// Tries actions just outside the discrete space of each agent that acts first; the environment must reject them.
    fn check_invalid_actions<E: MultiAgentEnv>(&self, env: &mut E) -> Result<()> {
        let first = self.reset(env, 0)?;
        let mut at = 0;
        for (agent, (_, space)) in self.spaces.iter().enumerate() {
            let place = at;
            at += space.width();
            let Space::Discrete { n, start } = space else { continue };
            if !first.rows.acting[agent] {
                continue;
            }
            for outside in [start - 1, start + n] {
                self.reset(env, 0)?;
                let mut random = NpRandom::new(0);
                let mut actions = vec![];
                for (agent, (_, space)) in self.spaces.iter().enumerate() {
                    let mut action = vec![E::Act::default(); space.width()];
                    space.sample_legal(&first.masks[agent], &mut random, &mut action);
                    actions.extend(action);
                }
                actions[place] = E::Act::from_f64(outside as f64);
                if env.step(&actions, self.rows().out()).is_ok() {
                    let name = &self.names[agent];
                    return broken(
                        "refuses_invalid_actions",
                        format!("{outside} of {space} was taken from {name}"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Continues twice from one saved state, the second time from another episode, and compares the two.
    fn check_state<E: MultiAgentEnv>(&self, env: &mut E) -> Result<()> {
        const AHEAD: usize = 20;
        let mut random = NpRandom::new(1);
        let mut last = self.reset(env, 3)?;
        for _ in 0..4 {
            last = self.next(env, &last, &mut random)?;
        }
        let Some(state) = env.save_state() else { return Ok(()) };
        let ahead = |env: &mut E| {
            let mut random = NpRandom::new(2);
            let mut moments = vec![last.clone()];
            for _ in 0..AHEAD.min(self.steps) {
                let next = self.next(env, &moments[moments.len() - 1], &mut random)?;
                moments.push(next);
            }
            Ok::<_, Error>(moments)
        };
        let went = ahead(env)?;
        self.reset(env, 4)?;
        env.load_state(&state)?;
        self.compare("state", &went, &ahead(env)?, "when it went on from the saved state")
    }
}
