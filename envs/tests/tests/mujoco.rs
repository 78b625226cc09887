//! MuJoCo's environments beside Gymnasium's, in vectors and threads, saved and broken.
//!
//! The library is that of PAVLOV_TEST_PYTHON, a Python with gymnasium and mujoco; without it tests are skipped.

use std::{io::Write, path::Path, process::Command};

use pavlov_envs::{EnvConfig, NpRandom, TypedVectorEnv, VectorEnv, check_vector_env, make_vec};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, bits, differ, f32s, f64s},
    py::python,
    rows::Rows,
};

const IDS: [&str; 11] = [
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Swimmer-v5",
    "Ant-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
    "Reacher-v5",
    "Pusher-v5",
];

type Copies = TypedVectorEnv<f64, f32>;

fn settings(of: Value) -> EnvConfig {
    serde_json::from_value(of).unwrap()
}

fn make(id: &str, mut config: EnvConfig, python: &str, num_envs: usize) -> Copies {
    config.insert("python".into(), python.into());
    TypedVectorEnv::new(make_vec(id, &config, num_envs).unwrap()).unwrap()
}

/// PAVLOV_LIVE_STEPS asks for more steps than these.
#[test]
fn all_environments_with_all_settings_equal_gymnasium_bit_for_bit() {
    let Some(python) = python() else { return };
    let steps = std::env::var("PAVLOV_LIVE_STEPS").unwrap_or_else(|_| "110".into());
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record_mujoco.py");
    let recorded = Command::new(&python)
        .arg(script)
        .args(["recorded.jsonl", &steps, "3", "variants"])
        // MuJoCo's warnings go to a file there.
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let mut rows = 0;
    for run in &Fixture::read(&folder.path().join("recorded.jsonl")).rows {
        let problem = replay(run, &python, true);
        assert_eq!(problem, None, "{} {} seed {}", run["env"], run["config"], run["seed"]);
        rows += run["steps"].as_array().unwrap().len();
    }
    println!("{rows} steps are equal");
}

/// Without Gymnasium; libmujoco alone is needed.
#[test]
fn recorded_episodes_come_out_again() {
    let Some(python) = python() else { return };
    let fixture = Fixture::open("mujoco.jsonl");
    for run in &fixture.rows {
        let problem = replay(run, &python, fixture.is_exact());
        assert_eq!(problem, None, "{} seed {}", run["env"], run["seed"]);
    }
}

/// Plays what was recorded; says where it differs.
fn replay(run: &Value, python: &str, exact: bool) -> Option<String> {
    let config = settings(run["config"].clone());
    let mut env = make(run["env"].as_str().unwrap(), config, python, 1);
    let mut rows = Rows::filled(1, env.observation_space().width(), f64::NAN);
    let close = |what: String, found: &[f64], expected: &[f64]| {
        differ(found, expected, exact, 1e-6).map(|problem| format!("{what}: {problem}"))
    };
    let check_info = |env: &Copies, what: &str, expected: &Value| {
        expected.as_object().unwrap().iter().find_map(|(key, value)| {
            let found = env.info(key).unwrap_or(&[f64::NAN]);
            close(format!("{key} of {what}"), found, &f64s(value))
        })
    };
    env.reset(Some(&[run["seed"].as_u64().unwrap()]), &mut rows.obs).unwrap();
    let first = close("first observation".into(), &rows.obs, &f64s(&run["first"]));
    if let Some(problem) = first.or_else(|| check_info(&env, "the reset", &run["first_info"])) {
        return Some(problem);
    }
    for (i, step) in run["steps"].as_array().unwrap().iter().enumerate() {
        let [action, obs, reward, terminated, truncated, info, next] = step.as_array().unwrap().as_slice()
        else {
            panic!("{step}")
        };
        env.step(&f32s(action), None, rows.out()).unwrap();
        let ended = [rows.terminated[0], rows.truncated[0]];
        if [terminated, truncated].map(|flag| flag.as_bool().unwrap()) != ended {
            return Some(format!("flags of step {i}: {ended:?}"));
        }
        let last = if ended == [false, false] { &rows.obs } else { &rows.final_obs };
        // Vectors have single-precision rewards; the numbers of `info` are their parts.
        let expected_reward = f64::from(f64s(reward)[0] as f32);
        let problem = close(format!("observation of step {i}"), last, &f64s(obs))
            .or_else(|| close(format!("reward of step {i}"), &[rows.rewards[0].into()], &[expected_reward]))
            .or_else(|| check_info(&env, &format!("step {i}"), info))
            .or_else(|| {
                let next = next.is_string().then(|| f64s(next))?;
                close(format!("observation after step {i}"), &rows.obs, &next)
            });
        if problem.is_some() {
            return problem;
        }
    }
    None
}

/// Everything that a vector gives in some steps of random play, as bits.
fn play(env: &mut Copies, seeds: &[u64], steps: u64) -> Vec<Vec<u64>> {
    let (n, width) = (seeds.len(), env.observation_space().width());
    let mut rows = Rows::filled(n, width, 0.0);
    env.reset(Some(seeds), &mut rows.obs).unwrap();
    let mut played = vec![bits(&rows.obs)];
    for step in 0..steps {
        advance(env, &mut rows, seeds, step);
        played.push(row_bits(&rows));
    }
    played
}

/// One step whose actions and reset seeds depend on the copies' seeds and the step only.
fn advance(env: &mut Copies, rows: &mut Rows<f64>, seeds: &[u64], step: u64) {
    let space = env.action_space().clone();
    let width = space.width();
    let mut actions = vec![0.0_f32; seeds.len() * width];
    for (seed, action) in seeds.iter().zip(actions.chunks_exact_mut(width)) {
        space.sample(&mut NpRandom::new(1000 * seed + step), action);
    }
    let next: Vec<u64> = seeds.iter().map(|seed| seed + 100 + step).collect();
    env.step(&actions, Some(&next), rows.out()).unwrap();
}

fn row_bits(rows: &Rows<f64>) -> Vec<u64> {
    let ends = rows.terminated.iter().chain(&rows.truncated).map(|&flag| u64::from(flag));
    let rewards = rows.rewards.iter().map(|reward| u64::from(reward.to_bits()));
    bits(&rows.obs).into_iter().chain(rewards).chain(ends).collect()
}

/// Rows of one copy in those of many.
fn rows_of(copy: usize, width: usize, many: usize, row: &[u64]) -> Vec<u64> {
    let mut own = row[copy * width..][..width].to_vec();
    own.extend(row[many * width..].iter().skip(copy).step_by(many));
    own
}

#[test]
fn copies_in_one_and_several_threads_equal_single_ones_bit_for_bit() {
    const N: usize = 64;
    let Some(python) = python() else { return };
    // Hopper's episodes are short; Humanoid and Ant read what the state does not hold.
    for (id, steps) in [("Hopper-v5", 40), ("HalfCheetah-v5", 10), ("Ant-v5", 10), ("Humanoid-v5", 25)] {
        let seeds: Vec<u64> = (0..N as u64).collect();
        let [one, two, seven] = [1, 2, 7].map(|threads| {
            let config = settings(json!({"num_threads": threads}));
            play(&mut make(id, config, &python, N), &seeds, steps)
        });
        assert!(two == one, "{id} in 2 threads differs");
        assert!(seven == one, "{id} in 7 threads differs");
        let mut single = make(id, EnvConfig::new(), &python, 1);
        let width = single.observation_space().width();
        for copy in 0..N {
            let own = play(&mut single, &seeds[copy..=copy], steps);
            let in_many = one.iter().map(|row| rows_of(copy, width, N, row));
            assert!(own.into_iter().eq(in_many), "copy {copy} of {id} differs");
        }
    }
}

#[test]
fn vectors_keep_the_contract() {
    let Some(python) = python() else { return };
    for id in IDS {
        check_vector_env(&mut make(id, EnvConfig::new(), &python, 3)).unwrap_or_else(|e| panic!("{id}: {e}"));
        let threads = settings(json!({"num_threads": 2}));
        check_vector_env(&mut make(id, threads, &python, 3)).unwrap_or_else(|e| panic!("{id}: {e}"));
    }
}

#[test]
fn an_episode_goes_on_from_a_saved_state_with_the_same_bits() {
    let Some(python) = python() else { return };
    for id in IDS {
        let seeds = [3, 4, 5];
        let mut env = make(id, EnvConfig::new(), &python, 3);
        let width = env.observation_space().width();
        let mut rows = Rows::filled(3, width, 0.0);
        env.reset(Some(&seeds), &mut rows.obs).unwrap();
        (0..13).for_each(|step| advance(&mut env, &mut rows, &seeds, step));
        let saved = env.save_state().unwrap().unwrap();
        // Another vector, whose simulations are elsewhere.
        let mut other = make(id, EnvConfig::new(), &python, 3);
        play(&mut other, &[7, 8, 9], 5);
        other.load_state(&saved).unwrap();
        let mut other_rows = Rows::filled(3, width, 0.0);
        for step in 13..60 {
            advance(&mut env, &mut rows, &seeds, step);
            advance(&mut other, &mut other_rows, &seeds, step);
            assert!(row_bits(&rows) == row_bits(&other_rows), "{id} differs at step {step}");
            for key in ["x_velocity", "reward_ctrl"] {
                assert_eq!(env.info(key).map(bits), other.info(key).map(bits), "{id} {key} at step {step}");
            }
        }
        assert_eq!(env.save_state().unwrap(), other.save_state().unwrap(), "{id}");
    }
}

#[test]
fn the_bridge_and_the_native_environment_give_the_same_run() {
    let Some(python) = python() else { return };
    for id in ["HalfCheetah-v5", "Hopper-v5", "Ant-v5"] {
        let bridge = settings(json!({"python": python, "num_workers": 1, "info_keys": ["x_velocity"]}));
        let bridge = make_vec(&format!("py:{id}"), &bridge, 4).unwrap();
        let mut bridge: Copies = TypedVectorEnv::new(bridge).unwrap();
        let mut native = make(id, EnvConfig::new(), &python, 4);
        assert_eq!(bridge.observation_space(), native.observation_space());
        assert_eq!(bridge.action_space(), native.action_space());
        let width = native.observation_space().width();
        let (mut a, mut b) = (Rows::filled(4, width, 0.0), Rows::filled(4, width, 0.0));
        let seeds = [1, 2, 3, 4];
        bridge.reset(Some(&seeds), &mut a.obs).unwrap();
        native.reset(Some(&seeds), &mut b.obs).unwrap();
        assert_eq!(bits(&a.obs), bits(&b.obs), "{id}");
        let mut ended = 0;
        for step in 0..120 {
            advance(&mut bridge, &mut a, &seeds, step);
            advance(&mut native, &mut b, &seeds, step);
            assert!(row_bits(&a) == row_bits(&b), "{id} differs at step {step}");
            assert_eq!(bits(&a.final_obs), bits(&b.final_obs), "{id} at step {step}");
            let velocities = [&bridge, &native].map(|env| bits(env.info("x_velocity").unwrap()));
            assert_eq!(velocities[0], velocities[1], "{id} at step {step}");
            ended += a.terminated.iter().filter(|ended| **ended).count();
        }
        assert!(ended > 5 || id != "Hopper-v5", "only {ended} episodes ended");
    }
}
