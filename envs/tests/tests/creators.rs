//! Environments by id, by closure and by settings.

use pavlov_envs::{
    DType, EnvConfig, EnvCreator, EnvSpec, IntoEnvCreator, Space, StepOut, SyncVectorEnv, VectorEnv,
    WrapperSpec, make_multi_agent, make_vec,
    native::{BoardGame, CartPole, CartPoleConfig, CartPoleVector},
    register, register_multi_agent, spec,
    wrappers::ClipReward,
};
use serde_json::json;

use crate::counter::{Counter, GO, counters};

fn config(value: serde_json::Value) -> EnvConfig {
    value.as_object().unwrap().clone()
}

fn message<T>(result: pavlov_envs::Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn an_unknown_id_names_the_nearest_and_how_to_list_them() {
    assert_eq!(
        message(make_vec("CartPol-v1", &EnvConfig::new(), 1)),
        "no environment \"CartPol-v1\"; nearest: CartPole-v1; `pavlov list envs` shows all; those in Python begin with `py:`, `ma:` (Gymnasium) or `pz:` (PettingZoo)"
    );
    assert_eq!(
        message(spec("Chess")),
        "no environment \"Chess\"; `pavlov list envs` shows all; those in Python begin with `py:`, `ma:` (Gymnasium) or `pz:` (PettingZoo)"
    );
    let creator = EnvCreator::from("CartPol-v1");
    assert!(message(creator.make_vec(&EnvConfig::new(), 1)).contains("nearest: CartPole-v1"));
}

#[test]
fn env_config_reaches_the_environment_and_unknown_keys_are_refused() {
    let made = |value| make_vec("CartPole-v1", &config(value), 1);
    assert!(made(json!({"sutton_barto_reward": true})).is_ok());
    assert_eq!(
        message(made(json!({"sutton_reward": true}))),
        "env_config of CartPole-v1: no setting `sutton_reward`; nearest: `sutton_barto_reward`"
    );
    assert!(message(made(json!({"sutton_barto_reward": 3}))).contains("expected a boolean"));
    assert!(
        message(make_vec("Pendulum-v1", &config(json!({"gravity": 9.81})), 1))
            .contains("no setting `gravity`; it has g")
    );
}

#[test]
fn a_closure_an_id_and_a_creator_stand_for_an_environment() {
    let env = || CartPole::new(CartPoleConfig::default());
    assert_eq!(env.into_env_creator().name(), "CartPole");
    assert_eq!("CartPole-v1".into_env_creator().name(), "CartPole-v1");
    assert_eq!(String::from("CartPole-v1").into_env_creator().name(), "CartPole-v1");
    let vector = EnvCreator::vector(|n| CartPoleVector::new(n, 20, CartPoleConfig::default()));
    assert_eq!((&vector).into_env_creator().name(), "ClassicVector");
    let made = vector.make_vec(&EnvConfig::new(), 5).unwrap();
    assert_eq!((made.num_envs(), made.obs_dtype(), made.act_dtype()), (5, DType::F32, DType::I64));
    let refused = |creator: EnvCreator| message(creator.make_vec(&config(json!({"a": 1})), 1));
    let text = "`a` is given, but this environment is made by a closure without settings; use";
    let copies = refused(env.into_env_creator());
    assert_eq!(copies, format!("env_config of CartPole: {text} `EnvCreator::configured`"));
    // `configured` makes single copies.
    assert_eq!(refused(vector.clone()), format!("env_config of ClassicVector: {text} `EnvCreator::new`"));
    assert_eq!(message(vector.make_vec(&EnvConfig::new(), 0)), "`num_envs` is 0, but it must be at least 1");
}

#[test]
fn a_registered_environment_is_found_and_its_id_cannot_be_taken_twice() {
    let entry = || EnvSpec {
        id: "Registered-v0".into(),
        summary: "for a test".into(),
        max_episode_steps: None,
        reward_threshold: None,
    };
    let make = || CartPole::new(CartPoleConfig::default());
    register(entry(), make).unwrap();
    assert_eq!(spec("Registered-v0").unwrap(), entry());
    assert_eq!(make_vec("Registered-v0", &EnvConfig::new(), 2).unwrap().num_envs(), 2);
    assert!(message(register(entry(), make)).contains("\"Registered-v0\" is registered already"));
    assert_eq!(
        message(register(EnvSpec { id: "py:Mine-v0".into(), ..entry() }, make)),
        "the id is \"py:Mine-v0\", but it must be one without `py:`, which stands for environments in Python"
    );
}

#[test]
fn an_id_names_one_environment_whether_it_has_one_agent_or_several() {
    let entry = |id: &str| EnvSpec {
        id: id.into(),
        summary: "for a test".into(),
        max_episode_steps: None,
        reward_threshold: None,
    };
    let one = |id: &str| register(entry(id), || CartPole::new(CartPoleConfig::default()));
    let several = |id: &str| register_multi_agent(entry(id), |_| Ok(Box::new(BoardGame::tictactoe())));
    for id in ["py:Mine-v0", "pz:mine_v0"] {
        let text = format!("{:?}, but it must be one without `{}`", id, &id[..3]);
        assert!(message(one(id)).contains(&text), "{id}");
        assert!(message(several(id)).contains(&text), "{id}");
    }
    for id in ["CartPole-v1", "simple_spread_v3"] {
        assert!(message(one(id)).contains("is registered already"), "{id}");
        assert!(message(several(id)).contains("is registered already"), "{id}");
    }
    // A name of the other kind is still unknown to those that make one kind.
    assert!(message(spec("simple_spread_v3")).contains("no environment"));
    assert!(message(make_multi_agent("CartPole-v1", &EnvConfig::new())).contains("no environment"));
}

#[test]
fn a_registered_environment_is_truncated_at_the_limit_of_its_spec() {
    let entry = |id: &str, limit| EnvSpec {
        id: id.into(),
        summary: "for a test".into(),
        max_episode_steps: limit,
        reward_threshold: None,
    };
    let truncated_at = |id: &str| {
        let mut env = make_vec(id, &EnvConfig::new(), 1).unwrap();
        let mut obs = [0_i64; 2];
        let mut final_obs = [0_i64; 2];
        let mut rewards = [0.0];
        let mut terminated = [false];
        let mut truncated = [false];
        env.reset(Some(&[1]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
        (1..=9).find(|_| {
            let out = StepOut {
                obs: bytemuck::cast_slice_mut(&mut obs),
                final_obs: bytemuck::cast_slice_mut(&mut final_obs),
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(bytemuck::cast_slice(&[GO]), None, out).unwrap();
            truncated[0]
        })
    };
    for (id, limit, at) in [("Free-v0", None, 4), ("Short-v0", Some(3), 3), ("Long-v0", Some(9), 4)] {
        register(entry(id, limit), Counter::default).unwrap();
        assert_eq!(truncated_at(id), Some(at), "{id}");
    }
    let wrapped = EnvCreator::vector(|copies| ClipReward::new(counters(copies), -1.0, 1.0).unwrap());
    register(entry("Wrapped-v0", Some(2)), wrapped).unwrap();
    assert_eq!(truncated_at("Wrapped-v0"), Some(2));
    register(entry("Plain-v0", Some(2)), EnvCreator::vector(|copies| Plain(counters(copies)))).unwrap();
    assert_eq!(truncated_at("Plain-v0"), Some(2));
    let none = register(entry("None-v0", Some(0)), Counter::default);
    assert!(message(none).contains("`max_episode_steps` is 0, but it must be at least 1"));
}

/// Knows nothing of limits.
struct Plain(SyncVectorEnv<Counter>);

impl VectorEnv for Plain {
    type Obs = i64;
    type Act = i64;

    fn num_envs(&self) -> usize {
        self.0.num_envs()
    }

    fn observation_space(&self) -> &Space {
        self.0.observation_space()
    }

    fn action_space(&self) -> &Space {
        self.0.action_space()
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [i64]) -> pavlov_envs::Result<()> {
        self.0.reset(seeds, obs)
    }

    fn step(
        &mut self,
        actions: &[i64],
        seeds: Option<&[u64]>,
        out: StepOut<'_, i64>,
    ) -> pavlov_envs::Result<()> {
        self.0.step(actions, seeds, out)
    }
}

#[test]
fn specs_hold_gymnasiums_limits_and_thresholds() {
    let numbers = |id| spec(id).map(|spec| (spec.max_episode_steps, spec.reward_threshold)).unwrap();
    assert_eq!(numbers("CartPole-v0"), (Some(200), Some(195.0)));
    assert_eq!(numbers("CartPole-v1"), (Some(500), Some(475.0)));
    assert_eq!(numbers("MountainCar-v0"), (Some(200), Some(-110.0)));
    assert_eq!(numbers("MountainCarContinuous-v0"), (Some(999), Some(90.0)));
    assert_eq!(numbers("Pendulum-v1"), (Some(200), None));
    assert_eq!(numbers("Acrobot-v1"), (Some(500), Some(-100.0)));
    assert_eq!(numbers("FrozenLake-v1"), (Some(100), Some(0.7)));
    assert_eq!(numbers("FrozenLake8x8-v1"), (Some(200), Some(0.85)));
    assert_eq!(numbers("Taxi-v4"), (Some(200), Some(8.0)));
    assert_eq!(numbers("CliffWalking-v1"), (None, None));
    assert_eq!(numbers("CliffWalkingSlippery-v1"), (None, None));
    assert_eq!(numbers("Blackjack-v1"), (None, None));
}

#[test]
fn native_environments_have_gymnasiums_frame_rates_through_wrappers_too() {
    let rate = |creator: EnvCreator| creator.make_vec(&EnvConfig::new(), 2).unwrap().render_fps();
    for (id, expected) in [
        ("CartPole-v1", 50.0),
        ("MountainCar-v0", 30.0),
        ("MountainCarContinuous-v0", 30.0),
        ("Pendulum-v1", 30.0),
        ("Acrobot-v1", 15.0),
        ("FrozenLake-v1", 4.0),
        ("Taxi-v4", 4.0),
        ("CliffWalking-v1", 4.0),
        ("Blackjack-v1", 4.0),
    ] {
        assert_eq!(rate(id.into()), Some(expected), "{id}");
        let wrapper = WrapperSpec::try_from(json!("TimeLimit(9)")).unwrap();
        assert_eq!(rate(EnvCreator::from(id).wrapped(&[wrapper])), Some(expected), "{id} in a wrapper");
    }
    assert_eq!(rate(EnvCreator::vector(counters)), None);
}

#[test]
fn misaligned_bytes_are_an_error() {
    let mut env = make_vec("CartPole-v1", &EnvConfig::new(), 1).unwrap();
    let mut words = [0_u64; 4];
    let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[1..17];
    assert!(message(env.reset(Some(&[0]), bytes)).contains("whole f32 scalars aligned to 4 bytes"));
}
