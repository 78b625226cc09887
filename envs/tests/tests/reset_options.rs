//! Options of `reset`, set through the traits and by settings.

use pavlov_envs::{
    Env, EnvConfig, EnvCopies, EnvCreator, EnvSpec, MultiAgentEnv, MultiAgentOut, MultiAgentRows,
    ResetOptions, Result, Space, Step, StepOut, SyncVectorEnv, VectorEnv, WrapperSpec, make_multi_agent,
    make_vec,
    native::{BoardGame, CartPole, Pendulum, PendulumReset, ResetBounds},
    python::PyVec,
    register_multi_agent,
};
use serde_json::{Value, json};

use crate::{
    py::{config, python, test_env},
    rows::Rows,
};

fn options(value: Value) -> ResetOptions {
    value.as_object().expect("a table").clone()
}

fn settings(reset_options: Value) -> EnvConfig {
    EnvConfig::from_iter([("reset_options".to_owned(), reset_options)])
}

#[test]
fn options_by_name_start_as_typed_options_do() {
    let mut by_name = CartPole::new(Default::default());
    let mut typed = by_name.clone();
    let [mut found, mut expected] = [[0.0; 4]; 2];
    by_name.set_reset_options(&options(json!({ "low": -0.2, "high": 1 }))).unwrap();
    by_name.reset(Some(3), &mut found).unwrap();
    typed.reset_with(Some(3), ResetBounds { low: -0.2, high: 1.0 }, &mut expected).unwrap();
    assert_eq!(found, expected);
    // They hold until others are set.
    by_name.reset(Some(3), &mut found).unwrap();
    assert_eq!(found, expected);
    by_name.set_reset_options(&ResetOptions::new()).unwrap();
    by_name.reset(Some(3), &mut found).unwrap();
    typed.reset(Some(3), &mut expected).unwrap();
    assert_eq!(found, expected);
    // One of two options keeps the default of the other.
    let mut by_name = Pendulum::new(Default::default());
    let mut typed = by_name.clone();
    let [mut found, mut expected] = [[0.0; 3]; 2];
    by_name.set_reset_options(&options(json!({ "x_init": 0.5 }))).unwrap();
    by_name.reset(Some(3), &mut found).unwrap();
    typed.reset_with(Some(3), PendulumReset { x_init: 0.5, y_init: 1.0 }, &mut expected).unwrap();
    assert_eq!(found, expected);
}

/// First observations of two copies of CartPole: those of the reset, and those after the first step of episodes of one step.
fn starts(env: &mut dyn pavlov_envs::AnyVectorEnv) -> Vec<f32> {
    let mut rows = Rows::filled(2, env.observation_space().width(), 0.0_f32);
    env.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut rows.obs)).unwrap();
    let mut starts = rows.obs.clone();
    let out = StepOut {
        obs: bytemuck::cast_slice_mut(&mut rows.obs),
        final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
        rewards: &mut rows.rewards,
        terminated: &mut rows.terminated,
        truncated: &mut rows.truncated,
    };
    env.step(bytemuck::cast_slice(&[0_i64, 1]), Some(&[3, 4]), out).unwrap();
    assert_eq!(rows.truncated, [true; 2]);
    starts.extend(&rows.obs);
    starts
}

#[test]
fn options_in_settings_hold_for_every_episode_in_wrappers_too() {
    let wrappers: Vec<WrapperSpec> = serde_json::from_value(json!(["TimeLimit(1)"])).unwrap();
    let around: Vec<WrapperSpec> =
        serde_json::from_value(json!(["FlattenObservation", "MaxAndSkipObservation(2)", "TimeLimit(1)"]))
            .unwrap();
    let made = || CartPole::new(Default::default());
    for creator in [EnvCreator::from("CartPole-v1"), EnvCreator::from("StatelessCartPole-v1")] {
        for wrappers in [&wrappers, &around] {
            let creator = creator.wrapped(wrappers);
            let mut env = creator.make_vec(&settings(json!({ "low": 0.25, "high": 0.25 })), 2).unwrap();
            assert!(starts(&mut *env).iter().all(|&x| x == 0.25), "{}", creator.name());
        }
    }
    let limited = EnvCreator::new("Made", move |config, num_envs| {
        assert!(config.is_empty());
        Ok(Box::new(SyncVectorEnv::new(num_envs, || Ok(made()))?))
    });
    let mut env =
        limited.wrapped(&wrappers).make_vec(&settings(json!({ "low": 0.25, "high": 0.25 })), 2).unwrap();
    assert!(starts(&mut *env).iter().all(|&x| x == 0.25));
}

#[test]
fn options_that_do_not_fit_are_refused_with_a_reason() {
    let refused = |id: &str, reset_options: Value, part: &str| {
        let error = EnvCreator::from(id).make(&settings(reset_options), 2).map(drop).unwrap_err().to_string();
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    };
    let way_out = "has no options of `reset`; leave them out, or implement `set_reset_options` for it";
    refused("Taxi-v4", json!({ "low": 1 }), way_out);
    refused("tictactoe_v3", json!({ "low": 1 }), way_out);
    refused("CartPole-v1", json!({ "lo": 1 }), "\"lo\", but it must be one of CartPole: low, high");
    refused("CartPole-v1", json!({ "low": "x" }), "\"x\" for \"low\", but it must be a number");
    refused("CartPole-v1", json!({ "low": 1 }), "`low` not above `high`");
    refused("CartPole-v1", json!(3), "`reset_options` is 3, but it must be a table");
    assert!(make_vec("Taxi-v4", &settings(json!({})), 1).is_ok());
}

/// Shows the option `at`, and the number of its steps.
#[derive(Default)]
struct Told {
    next: i64,
    row: [i64; 2],
}

impl Told {
    fn set(&mut self, options: &ResetOptions) -> Result<()> {
        self.next = options.get("at").and_then(Value::as_i64).unwrap_or(0);
        Ok(())
    }
}

impl Env for Told {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::multi_discrete(&[100, 100])
    }

    fn action_space(&self) -> Space {
        Space::discrete(1)
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        self.row = [self.next, 0];
        obs.copy_from_slice(&self.row);
        Ok(())
    }

    fn step(&mut self, _action: &[i64], obs: &mut [i64]) -> Result<Step> {
        self.row[1] += 1;
        obs.copy_from_slice(&self.row);
        Ok(Step { reward: 0.0, terminated: self.row[1] == 3, truncated: false })
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.set(options)
    }
}

#[test]
fn an_episode_is_replayed_with_the_options_of_its_reset() {
    let vector = || SyncVectorEnv::new(1, || Ok(Told::default())).unwrap();
    let mut env = vector();
    let mut rows = Rows::filled(1, 2, -1_i64);
    env.set_reset_options(&options(json!({ "at": 7 }))).unwrap();
    env.reset(Some(&[0]), &mut rows.obs).unwrap();
    env.set_reset_options(&options(json!({ "at": 8 }))).unwrap();
    env.step(&[0], Some(&[1]), rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1]);
    let state = env.save_state().unwrap().unwrap();
    for own in [None, Some(5)] {
        let mut other = vector();
        if let Some(at) = own {
            other.set_reset_options(&options(json!({ "at": at }))).unwrap();
        }
        other.load_state(&state).unwrap();
        other.step(&[0], Some(&[1]), rows.out()).unwrap();
        assert_eq!(rows.obs, [7, 2]);
        // The next episode begins with the options of this vector.
        other.step(&[0], Some(&[1]), rows.out()).unwrap();
        assert_eq!(rows.obs, [own.unwrap_or(0), 0]);
    }
}

struct TwoTold(Told);

impl MultiAgentEnv for TwoTold {
    type Obs = i64;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["left".into(), "right".into()]
    }

    fn observation_space(&self, _agent: usize) -> Space {
        Space::discrete(100)
    }

    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(1)
    }

    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, i64>) -> Result<()> {
        let next = self.0.next;
        out.obs.fill(next);
        out.rewards.fill(0.0);
        out.terminated.fill(false);
        out.truncated.fill(false);
        out.alive.fill(true);
        out.acting.fill(true);
        Ok(())
    }

    fn step(&mut self, _actions: &[i64], mut out: MultiAgentOut<'_, i64>) -> Result<()> {
        self.reset(None, out.reborrow())
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.0.set(options)
    }
}

#[test]
fn options_reach_environments_of_several_agents() {
    let id = "two_told_v0";
    let summary = "shows an option".into();
    let spec = EnvSpec { id: id.into(), summary, max_episode_steps: Some(9), reward_threshold: None };
    register_multi_agent(spec, |_| Ok(Box::new(TwoTold(Told::default())))).unwrap();
    let config = settings(json!({ "at": 7 }));
    let first = |mut env: Box<dyn pavlov_envs::AnyMultiAgentEnv>| {
        let agents = env.agents().len();
        let widths: Vec<usize> = (0..agents).map(|agent| env.observation_space(agent).width()).collect();
        let mut rows = MultiAgentRows::<i64>::with_widths(widths);
        let MultiAgentOut { obs, rewards, terminated, truncated, alive, acting } = rows.out();
        let obs = bytemuck::cast_slice_mut(obs);
        env.reset(Some(0), MultiAgentOut { obs, rewards, terminated, truncated, alive, acting }).unwrap();
        rows.out().obs.to_vec()
    };
    assert_eq!(first(make_multi_agent(id, &config).unwrap()), [7, 7]);
    let creator = EnvCreator::from(id);
    for (creator, numbers) in
        [(creator.with_global_state(), 6), (creator.with_agent_groups(|_| Some("both".into())), 2)]
    {
        let EnvCopies::MultiAgent(copies) = creator.make(&config, 1).unwrap() else { panic!("one agent") };
        assert_eq!(first(copies.into_envs().remove(0)), vec![7; numbers]);
    }
    let mut board = BoardGame::tictactoe();
    assert!(MultiAgentEnv::set_reset_options(&mut board, &options(json!({ "at": 7 }))).is_err());
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn options_reach_environments_in_python() {
    let python = python();
    let mut more = config(&python, json!({ "reset_options": { "low": -0.5, "high": 0.5 } }));
    let mut env = make_vec("py:CartPole-v1", &more, 2).unwrap();
    let mut native = make_vec("CartPole-v1", &settings(json!({ "low": -0.5, "high": 0.5 })), 2).unwrap();
    let [mut found, mut expected] = [[0.0_f32; 8]; 2];
    env.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut found)).unwrap();
    native.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut expected)).unwrap();
    assert_eq!(found, expected);

    // A replayed episode begins with the options of its reset.
    more.remove("reset_options");
    let vector = || PyVec::<f32, i64>::new(&test_env("Optioned"), &more, 1).unwrap();
    let mut env = vector();
    let mut rows = Rows::filled(1, 1, -1.0_f32);
    env.set_reset_options(&options(json!({ "at": 7 }))).unwrap();
    env.reset(Some(&[0]), &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [7.0]);
    env.step(&[0], Some(&[1]), rows.out()).unwrap();
    let state = env.save_state().unwrap().unwrap();
    let mut other = vector();
    other.load_state(&state).unwrap();
    other.step(&[0], Some(&[1]), rows.out()).unwrap();
    assert_eq!(rows.obs, [9.0]);
    other.reset(Some(&[0]), &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [0.0]);

    let agents = config(&python, json!({ "reset_options": { "at": 7 }, "info_keys": ["at"] }));
    let env = make_multi_agent("pz:tests.py.parallel", &agents).unwrap();
    let mut env = pavlov_envs::TypedMultiAgentEnv::<f32, i64>::new(env).unwrap();
    let mut rows = MultiAgentRows::<f32>::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    assert_eq!(MultiAgentEnv::info(&env, 0, "at"), Some(7.0));
    let state = MultiAgentEnv::save_state(&env).unwrap();
    env.set_reset_options(&ResetOptions::new()).unwrap();
    env.reset(Some(0), rows.out()).unwrap();
    assert_eq!(MultiAgentEnv::info(&env, 0, "at"), None);
    MultiAgentEnv::load_state(&mut env, &state).unwrap();
    assert_eq!(MultiAgentEnv::info(&env, 0, "at"), Some(7.0));
}
