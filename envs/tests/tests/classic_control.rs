//! Gymnasium's classic-control episodes, as recorded from the real ones.
//!
//! States must have the recorded bits where this machine's C library is the recording one's, or where `PAVLOV_STRICT`
//! is set; elsewhere they may differ by what other sines make of one step, or of an episode.

use pavlov_envs::{
    Env, EnvConfig, StepOut, VectorEnv,
    native::{
        Acrobot, AcrobotConfig, AcrobotVector, CartPole, CartPoleConfig, CartPoleVector, MountainCar,
        MountainCarConfig, MountainCarContinuous, MountainCarContinuousConfig, MountainCarContinuousVector,
        MountainCarVector, Pendulum, PendulumConfig, PendulumReset, PendulumVector, ResetBounds,
    },
    wrappers::TimeLimit,
};
use serde_json::Value;

use crate::fixture::{Fixture, differ, f32s, f64s};

const ONE_STEP: f64 = 1e-12;
const WHOLE_EPISODE: f64 = 1e-6;

/// A classic-control environment with the state that was recorded.
pub(crate) trait Recorded: Env<Obs = f32> {
    type Config: serde::de::DeserializeOwned;
    type Vector: VectorEnv<Obs = f32, Act = Self::Act>;

    fn new(config: Self::Config) -> Self;
    fn vector(num_envs: usize, limit: usize, config: Self::Config) -> Self::Vector;
    fn state(&self) -> Vec<f64>;
    /// `first`: no step was made yet.
    fn set_state(&mut self, state: &[f64], first: bool);
    fn action(recorded: &Value) -> Self::Act;
}

/// `|state, first|` gives the whole state from what was recorded, which is its beginning.
macro_rules! recorded {
    ($env:ident, $config:ident, $vector:ident, $width:literal, $action:expr, $state:expr) => {
        impl Recorded for $env {
            type Config = $config;
            type Vector = $vector;

            fn new(config: $config) -> Self {
                $env::new(config)
            }

            fn vector(num_envs: usize, limit: usize, config: $config) -> $vector {
                $vector::new(num_envs, limit, config)
            }

            fn state(&self) -> Vec<f64> {
                $env::state(self)[..$width].to_vec()
            }

            fn set_state(&mut self, state: &[f64], first: bool) {
                let of: fn(&[f64], bool) -> _ = $state;
                $env::set_state(self, of(state, first));
            }

            fn action(recorded: &Value) -> Self::Act {
                let of: fn(&Value) -> Self::Act = $action;
                of(recorded)
            }
        }
    };
}

fn discrete(recorded: &Value) -> i64 {
    recorded.as_i64().unwrap()
}

fn continuous(recorded: &Value) -> f32 {
    f32s(recorded)[0]
}

recorded!(CartPole, CartPoleConfig, CartPoleVector, 4, discrete, |state, _| state.try_into().unwrap());
recorded!(MountainCar, MountainCarConfig, MountainCarVector, 2, discrete, |state, _| state
    .try_into()
    .unwrap());
recorded!(
    MountainCarContinuous,
    MountainCarContinuousConfig,
    MountainCarContinuousVector,
    2,
    continuous,
    |state, first| [state[0], state[1], if first { 0.0 } else { 1.0 }]
);
recorded!(Pendulum, PendulumConfig, PendulumVector, 2, continuous, |state, _| [state[0], state[1], 0.0]);
recorded!(Acrobot, AcrobotConfig, AcrobotVector, 4, discrete, |state, _| state.try_into().unwrap());

/// Every step from the state that was recorded before it.
fn check_each_step<E: Recorded>(env: &mut E, episode: &Value, exact: bool) -> Result<(), String> {
    let seed = episode["seed"].as_u64().unwrap();
    let states = column(episode, "states");
    let rewards = column(episode, "rewards");
    let mut obs = vec![0.0; env.observation_space().width()];
    env.reset(Some(seed), &mut obs).unwrap();
    let start = f64s(&episode["start"]);
    differ(&env.state(), &start, true, 0.0)
        .map_or(Ok(()), |what| Err(format!("seed {seed}, start: {what}")))?;
    check_obs(&obs, &episode["obs"][0], exact, format!("seed {seed}, start"))?;
    let mut before = start;
    for (t, action) in array(episode, "actions").iter().enumerate() {
        let place = format!("seed {seed}, step {t}");
        env.set_state(&before, t == 0);
        let step = env.step(&[E::action(action)], &mut obs).unwrap();
        let found = [&env.state()[..], &[step.reward]].concat();
        let expected = [&states[t][..], &rewards[t]].concat();
        if let Some(what) = differ(&found, &expected, exact, ONE_STEP) {
            return Err(format!("{place}: {what}"));
        }
        if let Some(recorded) = episode["obs"].get(t + 1) {
            check_obs(&obs, recorded, exact, place)?;
        }
        before.clone_from(&states[t]);
    }
    Ok(())
}

/// A whole episode from its seed, its end, and the starts of the next two in the same stream.
fn check_freely<E: Recorded>(env: E, episode: &Value, exact: bool) -> Result<(), String> {
    let seed = episode["seed"].as_u64().unwrap();
    let states = column(episode, "states");
    let mut obs = vec![0.0; env.observation_space().width()];
    let mut env = TimeLimit::new(env, episode["limit"].as_u64().unwrap() as usize);
    env.reset(Some(seed), &mut obs).unwrap();
    for (t, action) in array(episode, "actions").iter().enumerate() {
        let place = format!("seed {seed}, step {t}");
        let step = env.step(&[E::action(action)], &mut obs).unwrap();
        if let Some(what) = differ(&env.inner().state(), &states[t], exact, WHOLE_EPISODE) {
            return Err(format!("{place}: {what}"));
        }
        let last = t + 1 == states.len();
        let flag = |name: &str| last && episode[name].as_bool().unwrap();
        if (step.terminated, step.truncated) != (flag("terminated"), flag("truncated")) {
            return Err(format!("{place}: {step:?}"));
        }
    }
    for next in array(episode, "continued") {
        env.reset(None, &mut obs).unwrap();
        if let Some(what) = differ(&env.inner().state(), &f64s(&next[0]), true, 0.0) {
            return Err(format!("the stream after seed {seed}: {what}"));
        }
        check_obs(&obs, &next[1], exact, format!("the stream after seed {seed}"))?;
    }
    Ok(())
}

/// Observations are rounded, so that other last digits of the state mostly do not show.
fn check_obs(found: &[f32], recorded: &Value, exact: bool, place: String) -> Result<(), String> {
    let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let what = differ(&wide(found), &wide(&f32s(recorded)), exact, 1e-6);
    what.map_or(Ok(()), |what| Err(format!("{place}: observation {what}")))
}

fn check_fixture<E: Recorded>(name: &str) {
    let fixture = Fixture::open(name);
    let exact = fixture.is_exact();
    for episode in &fixture.rows {
        let make = || E::new(serde_json::from_value(episode["config"].clone()).unwrap());
        check_each_step(&mut make(), episode, exact).unwrap();
        check_freely(make(), episode, exact).unwrap();
    }
}

#[test]
fn cartpole_equals_gymnasium_step_by_step_and_freely() {
    check_fixture::<CartPole>("cartpole.jsonl");
}

#[test]
fn mountain_car_equals_gymnasium_step_by_step_and_freely() {
    check_fixture::<MountainCar>("mountain_car.jsonl");
}

#[test]
fn mountain_car_continuous_equals_gymnasium_step_by_step_and_freely() {
    check_fixture::<MountainCarContinuous>("mountain_car_continuous.jsonl");
}

#[test]
fn pendulum_equals_gymnasium_step_by_step_and_freely() {
    check_fixture::<Pendulum>("pendulum.jsonl");
}

#[test]
fn acrobot_equals_gymnasium_step_by_step_and_freely() {
    check_fixture::<Acrobot>("acrobot.jsonl");
}

/// The first states and observations of many seeds; `reset` gets a copy and a seed.
fn check_starts<E: Recorded>(mut env: E, row: &Value, reset: fn(&mut E, u64, &Value, &mut [f32])) {
    let mut obs = vec![0.0; env.observation_space().width()];
    for (seed, start) in array(row, "starts").iter().enumerate() {
        reset(&mut env, seed as u64, &row["options"], &mut obs);
        let place = format!("{}, seed {seed}", row["env"]);
        assert_eq!(differ(&env.state(), &f64s(&start[0]), true, 0.0), None, "{place}");
        check_obs(&obs, &start[1], true, place).unwrap();
    }
}

#[test]
fn a_reset_with_options_starts_where_gymnasiums_does() {
    macro_rules! within_bounds {
        ($env:ident, $row:expr) => {
            check_starts($env::new(Default::default()), $row, |env, seed, options, obs| {
                let [low, high] = ["low", "high"].map(|key| options[key].as_f64().unwrap());
                env.reset_with(Some(seed), ResetBounds { low, high }, obs).unwrap();
            })
        };
    }
    let fixture = Fixture::open("reset_options.jsonl");
    within_bounds!(CartPole, &fixture.rows[0]);
    within_bounds!(MountainCar, &fixture.rows[1]);
    within_bounds!(MountainCarContinuous, &fixture.rows[2]);
    // Angles of several turns: their sines are numpy's in single precision.
    within_bounds!(Acrobot, &fixture.rows[3]);
    check_starts(Pendulum::new(Default::default()), &fixture.rows[4], |env, seed, options, obs| {
        let [x_init, y_init] = ["x_init", "y_init"].map(|key| options[key].as_f64().unwrap());
        env.reset_with(Some(seed), PendulumReset { x_init, y_init }, obs).unwrap();
    });
}

#[test]
fn a_reset_refuses_bounds_in_the_wrong_order_and_leaves_the_episode_as_it_was() {
    let mut env = CartPole::new(Default::default());
    let mut obs = [0.0; 4];
    env.reset(Some(1), &mut obs).unwrap();
    let before = env.state();
    for (low, high) in [(0.3, 0.1), (f64::NAN, 0.1), (0.0, f64::INFINITY)] {
        let error = env.reset_with(Some(2), ResetBounds { low, high }, &mut obs).unwrap_err().to_string();
        assert!(
            error.contains("`low` and `high`") && error.contains(&format!("{low} and {high}")),
            "{error}"
        );
    }
    let options = PendulumReset { x_init: -1.0, y_init: 1.0 };
    let error = Pendulum::new(Default::default()).reset_with(None, options, &mut obs[..3]).unwrap_err();
    assert!(error.to_string().contains("`x_init`"), "{error}");
    assert_eq!(env.state(), before);
    env.step(&[0], &mut obs).unwrap();
}

#[test]
fn a_constant_off_by_one_ulp_is_caught_by_its_bits_and_a_wrong_one_by_its_size() {
    let fixture = Fixture::open("pendulum.jsonl");
    let episode = &fixture.rows[0];
    let with = |g: f64| Pendulum::new(PendulumConfig { g });
    let error = check_each_step(&mut with(10.0_f64.next_up()), episode, true).unwrap_err();
    assert!(error.starts_with("seed "), "{error}");
    check_freely(with(10.0_f64.next_up()), episode, true).unwrap_err();
    check_each_step(&mut with(10.0_f64.next_up()), episode, false).unwrap();
    check_each_step(&mut with(10.0 + 1e-9), episode, false).unwrap_err();
    check_freely(with(10.0 + 1e-4), episode, false).unwrap_err();
}

#[test]
fn a_wrong_start_reward_or_end_is_caught() {
    let fixture = Fixture::open("mountain_car.jsonl");
    let mut episode = fixture.rows[0].clone();
    let make = || MountainCar::new(Default::default());
    check_freely(make(), &episode, false).unwrap();
    episode["terminated"] = false.into();
    check_freely(make(), &episode, false).unwrap_err();
    let mut episode = fixture.rows[0].clone();
    episode["rewards"][3] = "0000000000000000".into();
    check_each_step(&mut make(), &episode, false).unwrap_err();
    let mut episode = fixture.rows[0].clone();
    episode["seed"] = 77.into();
    check_each_step(&mut make(), &episode, false).unwrap_err();
}

#[test]
fn registered_cartpole_v0_ends_after_200_steps() {
    let episode = &Fixture::open("cartpole.jsonl").rows[4];
    let mut env = pavlov_envs::make_vec("CartPole-v0", &EnvConfig::new(), 1).unwrap();
    let mut obs = [0.0_f32; 4];
    let mut final_obs = [0.0_f32; 4];
    let mut rewards = [0.0];
    let mut terminated = [false];
    let mut truncated = [false];
    env.reset(Some(&[5]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    for (t, action) in array(episode, "actions").iter().map(discrete).take(200).enumerate() {
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut obs),
            final_obs: bytemuck::cast_slice_mut(&mut final_obs),
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(bytemuck::bytes_of(&action), Some(&[0]), out).unwrap();
        assert_eq!((terminated, truncated), ([false], [t == 199]), "step {t}");
    }
}

fn array<'a>(episode: &'a Value, key: &str) -> &'a [Value] {
    episode[key].as_array().unwrap()
}

fn column(episode: &Value, key: &str) -> Vec<Vec<f64>> {
    array(episode, key).iter().map(f64s).collect()
}
