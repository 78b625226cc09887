//! Bit flipping against Stable-Baselines3's `BitFlippingEnv`, and the rewards of goals.

use pavlov_envs::{AnyVectorEnv, EnvConfig, EnvCreator, StepOut, make_vec, wrappers::WrapperSpec};
use serde_json::{Value, json};

use super::fixture::Fixture;

const ID: &str = "BitFlippingEnv-v0";

fn config(value: &Value) -> EnvConfig {
    value.as_object().unwrap().clone()
}

fn bits(value: &Value) -> Vec<u8> {
    value.as_array().unwrap().iter().map(|bit| bit.as_u64().unwrap() as u8).collect()
}

/// Steps one copy without autoreset; returns observation, reward and flags.
fn step(env: &mut dyn AnyVectorEnv, action: &Value, continuous: bool) -> (Vec<u8>, f32, bool, bool) {
    let width = env.observation_space().width();
    let (mut obs, mut final_obs) = (vec![0; width], vec![0; width]);
    let (mut rewards, mut terminated, mut truncated) = ([0.0], [false], [false]);
    let out = StepOut {
        obs: &mut obs,
        final_obs: &mut final_obs,
        rewards: &mut rewards,
        terminated: &mut terminated,
        truncated: &mut truncated,
    };
    let numbers = action.as_array().unwrap().iter();
    if continuous {
        let action: Vec<f32> = numbers.map(|number| number.as_f64().unwrap() as f32).collect();
        env.step(bytemuck::cast_slice(&action), None, out).unwrap();
    } else {
        let action: Vec<i64> = numbers.map(|number| number.as_i64().unwrap()).collect();
        env.step(bytemuck::cast_slice(&action), None, out).unwrap();
    }
    (obs, rewards[0], terminated[0], truncated[0])
}

#[test]
fn bit_flipping_equals_stable_baselines3() {
    for row in &Fixture::open("bit_flipping.jsonl").rows {
        let continuous = row["config"]["continuous"] == true;
        let mut env = make_vec(ID, &config(&row["config"]), 1).unwrap();
        assert!(env.set_autoreset(false));
        let mut seed = row["seed"].as_u64();
        for episode in row["episodes"].as_array().unwrap() {
            let mut obs = vec![0; env.observation_space().width()];
            let seeds = seed.take().map(|seed| [seed]);
            env.reset(seeds.as_ref().map(<[u64; 1]>::as_slice), &mut obs).unwrap();
            assert_eq!(obs, bits(&episode["obs"]), "{}", row["config"]);
            for told in episode["steps"].as_array().unwrap() {
                let (obs, reward, terminated, truncated) = step(&mut *env, &told["action"], continuous);
                assert_eq!(obs, bits(&told["obs"]), "{}", row["config"]);
                assert_eq!(f64::from(reward), told["reward"].as_f64().unwrap());
                assert_eq!(
                    [json!(terminated), json!(truncated)],
                    [told["terminated"].clone(), told["truncated"].clone()]
                );
                let success = f64::from(u8::from(told["is_success"] == true));
                assert_eq!(env.info("is_success"), Some(&[success][..]));
            }
        }
    }
}

#[test]
fn rewards_of_goals_are_computed_for_whole_batches_through_wrappers_that_keep_them() {
    let limit = WrapperSpec::try_from(json!("TimeLimit(9)")).unwrap();
    let settings = config(&json!({"n_bits": 2, "num_threads": 2}));
    for creator in [EnvCreator::from(ID), EnvCreator::from(ID).wrapped(&[limit])] {
        let mut env = creator.make_vec(&settings, 2).unwrap();
        let mut rewards = [9.0; 3];
        let achieved = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0];
        let desired = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        assert!(env.compute_rewards(&achieved, &desired, &mut rewards).unwrap());
        assert_eq!(rewards, [0.0, -1.0, 0.0]);
    }
}

#[test]
fn what_changes_rewards_hides_goals_and_other_environments_have_none() {
    let clip = WrapperSpec::try_from(json!("ClipReward(-0.5, 0.5)")).unwrap();
    let mut clipped = EnvCreator::from(ID).wrapped(&[clip]).make_vec(&EnvConfig::new(), 1).unwrap();
    let mut plain = make_vec("CartPole-v1", &EnvConfig::new(), 1).unwrap();
    for env in [&mut clipped, &mut plain] {
        let mut rewards = [9.0];
        assert!(!env.compute_rewards(&[0.0; 10], &[0.0; 10], &mut rewards).unwrap());
        assert_eq!(rewards, [9.0]);
    }
}

#[test]
fn settings_of_bit_flipping_that_allow_no_episode_are_refused() {
    for (settings, wanted) in [
        (json!({"n_bits": 0}), "`n_bits` is 0, but it must be in 1..=65536"),
        (json!({"n_bits": 100_000}), "`n_bits` is 100000"),
        (json!({"max_steps": 0}), "`max_steps` is 0, but it must be at least 1, or null"),
        (json!({"discrete_obs_space": true}), "discrete_obs_space"),
    ] {
        let error = make_vec(ID, &config(&settings), 1).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
