//! Gymnasium's toy-text episodes, as recorded from the real ones.

use pavlov_envs::{
    Env, EnvConfig, Error, make_vec,
    native::{Blackjack, CliffWalking, FrozenLake, FrozenLakeConfig, Taxi, TaxiConfig},
};
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Plays what was recorded; everything must be equal.
fn check<E: Env<Obs = i64, Act = i64>>(mut env: E, row: &Value) {
    let limit = row["limit"].as_u64();
    let mut obs = vec![0; env.observation_space().width()];
    let mut mask = vec![false; env.action_space().flat_width()];
    for (i, episode) in row["episodes"].as_array().unwrap().iter().enumerate() {
        env.reset((i == 0).then(|| row["seed"].as_u64().unwrap()), &mut obs).unwrap();
        let actions = episode["actions"].as_array().unwrap();
        for t in 0..=actions.len() {
            let place = format!("{} {}, episode {i}, step {t}", row["env"], row["config"]);
            if t > 0 {
                let step = env.step(&[actions[t - 1].as_i64().unwrap()], &mut obs).unwrap();
                assert_eq!(step.reward, episode["rewards"][t - 1].as_f64().unwrap(), "{place}");
                let last = t == actions.len();
                assert_eq!(step.terminated, last && episode["terminated"].as_bool().unwrap(), "{place}");
                let cut = limit == Some(t as u64) && !step.terminated;
                assert_eq!(cut, last && episode["truncated"].as_bool().unwrap(), "{place}");
                assert_eq!(env.info("prob"), episode["probs"].get(t - 1).and_then(Value::as_f64), "{place}");
            }
            assert_eq!(json!(obs), episode["obs"][t], "{place}");
            let masked = env
                .action_mask(&mut mask)
                .then(|| mask.iter().map(|&legal| if legal { '1' } else { '0' }).collect::<String>());
            assert_eq!(masked.as_deref(), episode["masks"].get(t).and_then(Value::as_str), "{place}");
        }
    }
}

fn config<C: serde::de::DeserializeOwned>(row: &Value) -> C {
    serde_json::from_value(row["config"].clone()).unwrap()
}

#[test]
fn toy_text_equals_gymnasium() {
    for row in &Fixture::open("toy_text.jsonl").rows {
        match row["env"].as_str().unwrap() {
            "FrozenLake-v1" => check(FrozenLake::new(config(row)).unwrap(), row),
            "FrozenLake8x8-v1" => check(FrozenLake::new(eight_by_eight()).unwrap(), row),
            "Taxi-v4" => check(Taxi::new(config(row)).unwrap(), row),
            "CliffWalking-v1" => check(CliffWalking::new(config(row)), row),
            "CliffWalkingSlippery-v1" => {
                check(CliffWalking::new(pavlov_envs::native::CliffWalkingConfig { is_slippery: true }), row);
            }
            "Blackjack-v1" => check(Blackjack::new(config(row)), row),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_texts_of_toy_text_are_gymnasiums() {
    fn check<E: Env<Obs = i64, Act = i64>>(mut env: E, row: &Value) {
        let place = format!("{} {}", row["env"], row["config"]);
        assert_eq!(env.render_ansi().unwrap(), None, "{place} before the first reset");
        env.reset(row["seed"].as_u64(), &mut [0]).unwrap();
        let actions = row["actions"].as_array().unwrap();
        for t in 0..=actions.len() {
            if t > 0 {
                env.step(&[actions[t - 1].as_i64().unwrap()], &mut [0]).unwrap();
            }
            assert_eq!(json!(env.render_ansi().unwrap()), row["texts"][t], "{place}, step {t}");
        }
    }
    for row in &Fixture::open("ansi.jsonl").rows {
        match row["env"].as_str().unwrap() {
            "FrozenLake-v1" => check(FrozenLake::new(config(row)).unwrap(), row),
            "Taxi-v4" => check(Taxi::new(config(row)).unwrap(), row),
            "CliffWalking-v1" => check(CliffWalking::new(config(row)), row),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn vectors_write_one_copy_as_text_and_others_have_none() {
    let text = |id, copy| {
        let mut env = make_vec(id, &EnvConfig::new(), 2).unwrap();
        let mut obs = vec![0_u64; 2 * env.observation_space().width()];
        let bytes = 2 * env.observation_space().width() * env.obs_dtype().size();
        let obs = &mut bytemuck::cast_slice_mut(&mut obs)[..bytes];
        env.reset(Some(&[0, 1]), obs).unwrap();
        env.render_ansi(copy)
    };
    assert_ne!(text("Taxi-v4", 0).unwrap(), text("Taxi-v4", 1).unwrap());
    assert!(matches!(text("Taxi-v4", 2), Err(Error::Shape { .. })));
    assert_eq!(text("Blackjack-v1", 0).unwrap(), None);
    assert_eq!(text("CartPole-v1", 0).unwrap(), None);
}

fn eight_by_eight() -> FrozenLakeConfig {
    FrozenLakeConfig { map_name: "8x8".into(), ..Default::default() }
}

#[test]
fn random_maps_equal_gymnasium() {
    for row in &Fixture::open("maps.jsonl").rows {
        let size = row["size"].as_u64().unwrap() as usize;
        let seed = row["seed"].as_u64().unwrap();
        let map = FrozenLake::random_map(size, row["p"].as_f64().unwrap(), seed).unwrap();
        assert_eq!(json!(map), row["map"], "seed {seed}");
    }
}

#[test]
fn ids_have_their_own_presets() {
    let space = |id, settings: Value| {
        make_vec(id, settings.as_object().unwrap(), 1).unwrap().observation_space().to_string()
    };
    assert_eq!(space("FrozenLake-v1", json!({})), "Discrete(16)");
    assert_eq!(space("FrozenLake8x8-v1", json!({})), "Discrete(64)");
    assert_eq!(space("FrozenLake8x8-v1", json!({"map_name": "4x4"})), "Discrete(16)");
    assert_eq!(space("FrozenLake-v1", json!({"desc": ["SF", "FG"]})), "Discrete(4)");
    assert_eq!(space("Taxi-v4", json!({})), "Discrete(500)");
    assert_eq!(space("CliffWalking-v1", json!({})), "Discrete(48)");
    assert_eq!(space("Blackjack-v1", json!({})), "Tuple(Discrete(32), Discrete(11), Discrete(2))");
}

#[test]
fn maps_and_probabilities_that_make_no_sense_are_refused_with_the_way_out() {
    let message =
        |id: &str, settings: Value| make_vec(id, settings.as_object().unwrap(), 1).unwrap_err().to_string();
    let lake = |settings| message("FrozenLake-v1", settings);
    assert_eq!(
        lake(json!({"map_name": "5x5"})),
        "env_config of FrozenLake: `map_name` is \"5x5\", but it must be \"4x4\" or \"8x8\"; a map of your own goes into `desc`"
    );
    assert!(lake(json!({"desc": ["SF", "G"]})).contains("rows of one length"));
    assert!(lake(json!({"desc": []})).contains("at least one letter each"));
    assert!(lake(json!({"desc": ["SX"]})).contains("`desc` has a 'X'"));
    assert!(lake(json!({"desc": ["FG"]})).contains("must have an S"));
    assert!(lake(json!({"success_rate": 1.5})).contains("`success_rate` is 1.5, but it must be in 0..=1"));
    assert!(message("Taxi-v4", json!({"rainy_probability": -1.0})).contains("`rainy_probability` is -1"));
    assert!(message("Taxi-v4", json!({"is_rany": true})).contains("nearest: `is_rainy`"));
    assert!(FrozenLake::random_map(1, 0.8, 0).unwrap_err().to_string().contains("at least 2"));
    assert!(FrozenLake::random_map(4, 0.0, 0).unwrap_err().to_string().contains("above 0"));
}

#[test]
fn a_step_before_the_first_reset_says_to_reset() {
    let message = |result: pavlov_envs::Result<pavlov_envs::Step>| result.unwrap_err().to_string();
    let mut taxi = Taxi::new(TaxiConfig::default()).unwrap();
    assert!(message(taxi.step(&[0], &mut [0])).contains("call `reset` first"));
    let mut blackjack = Blackjack::new(Default::default());
    assert!(message(blackjack.step(&[0], &mut [0; 3])).contains("call `reset` first"));
    // Who asks learns that there are masks; which actions are illegal is not known yet.
    let mut mask = [false; 6];
    assert!(taxi.action_mask(&mut mask) && mask == [true; 6]);
}

#[test]
fn a_state_of_another_lake_is_refused() {
    let mut large = FrozenLake::new(eight_by_eight()).unwrap();
    let mut obs = [0];
    large.reset(Some(0), &mut obs).unwrap();
    for t in 0.. {
        if obs[0] >= 16 {
            break;
        }
        assert!(t < 1000, "never left the first rows");
        if large.step(&[1], &mut obs).unwrap().terminated {
            large.reset(None, &mut obs).unwrap();
        }
    }
    let state = large.save_state().unwrap();
    let mut small = FrozenLake::new(FrozenLakeConfig::default()).unwrap();
    let message = small.load_state(&state).unwrap_err().to_string();
    assert!(message.contains("there are 16 here; load it with the same settings"), "{message}");
}

#[test]
fn copies_of_taxi_go_their_own_ways() {
    let mut env = make_vec("Taxi-v4", &EnvConfig::new(), 8).unwrap();
    let mut obs = [0_i64; 8];
    env.reset(Some(&[0, 1, 2, 3, 4, 5, 6, 7]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    let mut distinct = obs.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 4, "{obs:?}");
}
