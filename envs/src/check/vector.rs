//! Checks of the contract of vector environments, written for [`AnyVectorEnv`].

use std::time::{Duration, Instant};

use super::{
    STEPS, broken, check_space,
    findings::{Examination, Finding},
    inputs::{AlignedRows, Inputs, action_masks, invalid_action, legal, read, write},
};
use crate::{AnyVectorEnv, BoxBounds, Result, StepOut};

/// Plays a vector environment with random actions and tests the contract of
/// [`VectorEnv`](crate::VectorEnv).
///
/// The rules of [`check_env`](crate::check_env) apply, and these:
///
/// | rule | what breaks it |
/// |---|---|
/// | `independent_copies` | a copy whose rows change when other copies get other seeds and actions |
/// | `autoreset` | an ended copy whose `obs` is not the first observation of an episode with its reset seed |
/// | `final_obs` | an ended copy whose last observation is missing or outside the space, or a row that is written although its copy did not end |
/// | `refuses_invalid_actions` | an invalid action that is accepted, or rejected only after copies moved |
/// | `form` | an observation in another form than its space says, such as a list; environments in Python only |
/// | `refuses_wrong_lengths` | a slice that has too few rows and is accepted |
///
/// # Errors
/// Returns [`Error::Contract`](crate::Error::Contract) with the first rule that is broken, the copy and the step, and after it
/// all others. Errors of the environment are passed on unchanged.
pub fn check_vector_env(env: &mut dyn AnyVectorEnv) -> Result<()> {
    check_vector_env_within(env, Duration::MAX).map(drop)
}

/// Checks a vector environment as [`check_vector_env`] does, for about this time: a slow one is played for fewer steps, and
/// what has not begun by then is left out. Returns the number of steps of each run, 300 if there was time.
///
/// # Errors
/// Fails whenever [`check_vector_env`] does.
pub fn check_vector_env_within(env: &mut dyn AnyVectorEnv, at_most: Duration) -> Result<usize> {
    let found = examine_vector_env(env, at_most)?;
    found.strict().map(|()| found.steps)
}

/// Plays a vector environment as [`check_vector_env_within`] does, and lists every rule that it breaks. An environment that is
/// not repeatable under a seed is not asked for what follows from that: independent copies, seeds of resets, saved states.
///
/// # Errors
/// Errors of the environment are passed on unchanged; a broken rule is none.
pub fn examine_vector_env(env: &mut dyn AnyVectorEnv, at_most: Duration) -> Result<Examination> {
    let mut found = Examination::default();
    if found.take(check_spaces(env))? {
        examine(env, at_most, &mut found)?;
        for remark in env.remarks()? {
            found.findings.push(Finding { rule: "form", message: remark, is_refused: false });
        }
    }
    Ok(found)
}

fn examine(env: &mut dyn AnyVectorEnv, at_most: Duration, found: &mut Examination) -> Result<()> {
    let started = Instant::now();
    let inputs = Inputs::draw(env);
    let mut player = Player::new(env);
    let first = player.play_within(&inputs, at_most / RUNS)?;
    player.steps = first.len() - 1;
    found.steps = player.steps;
    let is_late = || started.elapsed() > at_most;
    if is_late() {
        return player.check_rows(&first, found);
    }
    let again = player.play(&inputs)?;
    let is_repeatable =
        found.take(compare("deterministic", &first, &again, 0, "when it was played again"))?;
    if is_late() {
        return player.check_rows(&first, found);
    }
    if is_repeatable {
        player.poison = 0xaa;
        let other = player.play(&inputs)?;
        found.take(check_written(&first, &other))?;
        player.poison = 0x55;
    }
    player.check_rows(&first, found)?;
    if is_late() {
        return Ok(());
    }
    if is_repeatable {
        let turned = player.play(&inputs.turned())?;
        let when = "after every copy's seeds and actions went to the next copy";
        // In copies that depend on each other an episode does not depend on its seed alone.
        if found.take(compare("independent_copies", &first, &turned, 1, when))? {
            found.take(player.check_autoreset(&inputs, &first))?;
        }
        if is_late() {
            return Ok(());
        }
        found.take(player.check_state(&inputs, &first))?;
        found.take(player.check_invalid_actions(&inputs, &first))?;
    }
    found.take(player.check_lengths(&inputs))?;
    Ok(())
}

/// Duration of the whole check, in durations of one run.
pub(super) const RUNS: u32 = 6;
/// Least number of steps of a run, however slow they are.
pub(super) const FEWEST: usize = 2;

/// Whether episodes may never end: the environment names no limit, and none of 300 steps with random actions ended one.
/// Training then has no returns, and an evaluation does not end.
///
/// # Errors
/// Errors of the environment are passed on unchanged.
pub fn seems_endless(env: &mut dyn AnyVectorEnv) -> Result<bool> {
    if env.max_episode_steps().is_some() {
        return Ok(false);
    }
    let inputs = Inputs::draw(env);
    let played = Player::new(env).play(&inputs)?;
    Ok(!played.iter().flatten().any(|moment| moment.terminated || moment.truncated))
}

fn check_spaces(env: &dyn AnyVectorEnv) -> Result<()> {
    if env.num_envs() == 0 {
        return broken("spaces", "there are no copies".into());
    }
    check_space("observation", env.observation_space(), env.obs_dtype())?;
    check_space("action", env.action_space(), env.act_dtype())
}

/// Result of one step of one copy; step 0 is the reset.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    obs: Vec<u8>,
    /// Final observation of the episode if it ended in this step; otherwise the row as it was before the call.
    final_obs: Vec<u8>,
    reward: f32,
    terminated: bool,
    truncated: bool,
}

struct Player<'e> {
    env: &'e mut dyn AnyVectorEnv,
    n: usize,
    obs_row: usize,
    poison: u8,
    /// Number of steps of a run.
    steps: usize,
}

impl<'e> Player<'e> {
    fn new(env: &'e mut dyn AnyVectorEnv) -> Self {
        let obs_row = env.observation_space().width() * env.obs_dtype().size();
        Self { n: env.num_envs(), obs_row, poison: 0x55, steps: STEPS, env }
    }

    /// Plays the whole run and returns its results by step and copy.
    fn play(&mut self, inputs: &Inputs) -> Result<Vec<Vec<Moment>>> {
        self.play_within(inputs, Duration::MAX)
    }

    /// Plays a run, and ends it early when `at_most` has passed.
    fn play_within(&mut self, inputs: &Inputs, at_most: Duration) -> Result<Vec<Vec<Moment>>> {
        let started = Instant::now();
        let mut moments = vec![self.reset(&inputs.seeds)?];
        for step in 0..self.steps {
            if step >= FEWEST && started.elapsed() > at_most {
                break;
            }
            moments.push(self.step(inputs.actions[step].bytes(), &inputs.reset_seeds[step])?);
        }
        Ok(moments)
    }

    fn reset(&mut self, seeds: &[u64]) -> Result<Vec<Moment>> {
        let mut obs = self.rows();
        self.env.reset(Some(seeds), obs.bytes_mut())?;
        let moment = |row: &[u8]| Moment {
            obs: row.to_vec(),
            final_obs: vec![],
            reward: 0.0,
            terminated: false,
            truncated: false,
        };
        Ok(obs.bytes().chunks_exact(self.obs_row).map(moment).collect())
    }

    fn step(&mut self, actions: &[u8], reset_seeds: &[u64]) -> Result<Vec<Moment>> {
        let legal = legal(self.env, actions);
        let actions = legal.as_ref().map_or(actions, AlignedRows::bytes);
        self.collect(|env, out| env.step(actions, Some(reset_seeds), out))
    }

    /// Runs `take`, which makes one step, and returns the result of each copy.
    fn collect(
        &mut self,
        take: impl FnOnce(&mut dyn AnyVectorEnv, StepOut<'_, u8>) -> Result<()>,
    ) -> Result<Vec<Moment>> {
        let mut obs = self.rows();
        let mut final_obs = self.rows();
        let mut rewards = vec![f32::NAN; self.n];
        // Flags must be written whatever they were before.
        let stale = self.poison != 0x55;
        let mut terminated = vec![stale; self.n];
        let mut truncated = vec![stale; self.n];
        let out = StepOut {
            obs: obs.bytes_mut(),
            final_obs: final_obs.bytes_mut(),
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        take(self.env, out)?;
        let row = |rows: &AlignedRows, i: usize| rows.bytes()[i * self.obs_row..][..self.obs_row].to_vec();
        let moment = |i| Moment {
            obs: row(&obs, i),
            final_obs: row(&final_obs, i),
            reward: rewards[i],
            terminated: terminated[i],
            truncated: truncated[i],
        };
        Ok((0..self.n).map(moment).collect())
    }

    fn rows(&self) -> AlignedRows {
        let mut rows = AlignedRows::new(self.n * self.obs_row);
        rows.bytes_mut().fill(self.poison);
        rows
    }

    /// Checks each row of a run: spaces, finite rewards, and the rows of `final_obs`.
    fn check_rows(&self, moments: &[Vec<Moment>], found: &mut Examination) -> Result<()> {
        let space = self.env.observation_space();
        let bounds = BoxBounds::of(space);
        let dtype = self.env.obs_dtype();
        for (step, copies) in moments.iter().enumerate() {
            for (i, moment) in copies.iter().enumerate() {
                let place = format!("copy {i}, step {step}");
                let mut check_obs = |rule, row: &[u8]| {
                    if let Some(why) = space.meaningless(&read(dtype, row)) {
                        found.add(rule, format!("{place}: {why}"), true);
                    } else if let Some(why) = bounds.first(row) {
                        found.add(rule, format!("{place}: {why}"), false);
                    }
                };
                check_obs("observation_in_space", &moment.obs);
                if moment.ended() {
                    check_obs("final_obs", &moment.final_obs);
                }
                if !moment.reward.is_finite() {
                    found.add("finite_reward", format!("{place}: the reward is {}", moment.reward), true);
                }
                if !moment.ended() && moment.final_obs.iter().any(|&byte| byte != self.poison) {
                    found.add(
                        "final_obs",
                        format!("{place}: no episode ended, but the row was written"),
                        true,
                    );
                }
            }
        }
        Ok(())
    }

    /// Compares the first observation after each autoreset with that of a `reset` with the same seed.
    fn check_autoreset(&mut self, inputs: &Inputs, moments: &[Vec<Moment>]) -> Result<()> {
        for i in 0..self.n {
            let Some(step) = moments.iter().position(|copies| copies[i].ended()) else { continue };
            let shown = &moments[step][i].obs;
            let expected = &self.reset(&inputs.reset_seeds[step - 1])?[i].obs;
            if shown != expected {
                let dtype = self.env.obs_dtype();
                let seed = inputs.reset_seeds[step - 1][i];
                return broken(
                    "autoreset",
                    format!(
                        "copy {i}, step {step}: the next episode has seed {seed} and starts with {:?}, but `obs` is {:?}",
                        read(dtype, expected),
                        read(dtype, shown)
                    ),
                );
            }
        }
        Ok(())
    }

    /// Saves the state in mid-run, plays something else, loads the state, and compares the rest of the run.
    fn check_state(&mut self, inputs: &Inputs, moments: &[Vec<Moment>]) -> Result<()> {
        let middle = 7.min(self.steps / 2);
        self.reset(&inputs.seeds)?;
        for step in 0..middle {
            self.step(inputs.actions[step].bytes(), &inputs.reset_seeds[step])?;
        }
        let Some(state) = self.env.save_state()? else { return Ok(()) };
        self.reset(&inputs.reset_seeds[0])?;
        self.step(inputs.actions[0].bytes(), &inputs.reset_seeds[1])?;
        self.env.load_state(&state)?;
        for step in middle..self.steps {
            let again = self.step(inputs.actions[step].bytes(), &inputs.reset_seeds[step])?;
            let when = "after `load_state`";
            compare_step("state", step + 1, &moments[step + 1], &again, 0, when)?;
        }
        Ok(())
    }

    /// Tries an invalid action in the last copy; the run must continue as if it had not been tried.
    fn check_invalid_actions(&mut self, inputs: &Inputs, moments: &[Vec<Moment>]) -> Result<()> {
        let Some(invalid) = invalid_action(self.env.action_space()) else { return Ok(()) };
        let mut actions = inputs.actions[0].clone();
        let last = (self.n - 1) * inputs.act_row;
        write(self.env.act_dtype(), &invalid, &mut actions.bytes_mut()[last..]);
        self.reset(&inputs.seeds)?;
        if self.step(actions.bytes(), &inputs.reset_seeds[0]).is_ok() {
            let copy = self.n - 1;
            let space = self.env.action_space();
            return broken(
                "refuses_invalid_actions",
                format!("copy {copy}: action {invalid:?} of {space} was taken"),
            );
        }
        let after = self.step(inputs.actions[0].bytes(), &inputs.reset_seeds[0])?;
        compare_step(
            "refuses_invalid_actions",
            1,
            &moments[1],
            &after,
            0,
            "after another copy's action was refused",
        )
    }

    fn check_lengths(&mut self, inputs: &Inputs) -> Result<()> {
        self.reset(&inputs.seeds)?;
        let actions = inputs.actions[0].bytes();
        let taken =
            |what: &str| broken("refuses_wrong_lengths", format!("{what} for one copy too few were taken"));
        if self.step(&actions[inputs.act_row..], &inputs.reset_seeds[0]).is_ok() {
            return taken("actions");
        }
        if self.step(actions, &inputs.reset_seeds[0][1..]).is_ok() {
            return taken("reset seeds");
        }
        if self.reset(&inputs.seeds[1..]).is_ok() {
            return taken("seeds");
        }
        let mut obs = AlignedRows::new((self.n - 1) * self.obs_row);
        if self.env.reset(Some(&inputs.seeds), obs.bytes_mut()).is_ok() {
            return taken("observation rows");
        }
        self.reset(&inputs.seeds)?;
        if action_masks(self.env, self.n - 1).is_some() {
            return taken("action masks");
        }
        Ok(())
    }
}

impl Moment {
    fn ended(&self) -> bool {
        self.terminated || self.truncated
    }

    fn without_final_obs(&self) -> (&[u8], u32, bool, bool) {
        (&self.obs, self.reward.to_bits(), self.terminated, self.truncated)
    }

    /// Compares two results; `final_obs` counts only if the episode ended.
    fn equals(&self, other: &Self) -> bool {
        self.without_final_obs() == other.without_final_obs()
            && (!self.ended() || self.final_obs == other.final_obs)
    }
}

/// Compares two runs whose output rows held different values before each call.
fn check_written(a: &[Vec<Moment>], b: &[Vec<Moment>]) -> Result<()> {
    for (step, (a, b)) in a.iter().zip(b).enumerate() {
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let place = format!("copy {i}, step {step}");
            if a.without_final_obs() != b.without_final_obs() {
                let message = format!("{place}: its row, reward or flags depend on what was there before");
                return broken("writes_every_element", message);
            }
            if a.ended() && a.final_obs != b.final_obs {
                return broken(
                    "final_obs",
                    format!("{place}: the episode ended, but its row was not written"),
                );
            }
        }
    }
    Ok(())
}

/// Compares copy `i` of run `a` with copy `i + turned` of run `b`.
fn compare(
    rule: &'static str,
    a: &[Vec<Moment>],
    b: &[Vec<Moment>],
    turned: usize,
    when: &str,
) -> Result<()> {
    a.iter().zip(b).enumerate().try_for_each(|(step, (a, b))| compare_step(rule, step, a, b, turned, when))
}

fn compare_step(
    rule: &'static str,
    step: usize,
    a: &[Moment],
    b: &[Moment],
    turned: usize,
    when: &str,
) -> Result<()> {
    match (0..a.len()).find(|&i| !a[i].equals(&b[(i + turned) % b.len()])) {
        None => Ok(()),
        Some(i) => broken(rule, format!("copy {i}, step {step}: its rows, reward or flags differ {when}")),
    }
}
