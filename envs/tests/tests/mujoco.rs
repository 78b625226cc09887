//! MuJoCo's environments beside Gymnasium's, in vectors and threads, saved and broken.
//!
//! The library is that of PAVLOV_TEST_PYTHON, a Python with gymnasium and mujoco; tests that need it are ignored.

use std::{path::Path, process::Command};

use pavlov_envs::{EnvConfig, NpRandom, TypedVectorEnv, VectorEnv, check_vector_env, make_vec, spec};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, bits, differ, f32s, f64s},
    py::{python, skipped},
    rows::Rows,
};

/// The ids of all MuJoCo environments.
fn ids() -> Vec<String> {
    let is_mujoco = |id: &String| spec(id).is_ok_and(|spec| spec.summary.ends_with("(MuJoCo)"));
    let ids: Vec<String> = pavlov_envs::ids().into_iter().filter(is_mujoco).collect();
    assert!(ids.len() >= 11, "{ids:?}");
    ids
}

pub(crate) type Copies = TypedVectorEnv<f64, f32>;

fn settings(of: Value) -> EnvConfig {
    serde_json::from_value(of).unwrap()
}

fn make(id: &str, mut config: EnvConfig, python: &str, num_envs: usize) -> Copies {
    config.insert("python".into(), python.into());
    TypedVectorEnv::new(make_vec(id, &config, num_envs).unwrap()).unwrap()
}

/// PAVLOV_LIVE_STEPS asks for more steps than these.
#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn all_environments_with_all_settings_equal_gymnasium_bit_for_bit() {
    let python = python();
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

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn recorded_episodes_come_out_again() {
    let python = python();
    if !recorded_with_this_version(&python) {
        return;
    }
    let fixture = Fixture::open("mujoco.jsonl");
    for run in &fixture.rows {
        let problem = replay(run, &python, fixture.is_exact());
        assert_eq!(problem, None, "{} seed {}", run["env"], run["seed"]);
    }
}

/// The comparison sees a constant that is off by one ulp.
#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_setting_that_is_off_by_one_ulp_is_seen() {
    let python = python();
    if !recorded_with_this_version(&python) {
        return;
    }
    for (id, key, value) in [
        ("HalfCheetah-v5", "forward_reward_weight", 1.0_f64),
        ("HalfCheetah-v5", "reset_noise_scale", 0.1),
        ("Walker2d-v5", "healthy_reward", 1.0),
        ("Ant-v5", "contact_cost_weight", 5e-4),
        ("Humanoid-v5", "ctrl_cost_weight", 0.1),
        ("HumanoidStandup-v5", "impact_cost_weight", 5e-7),
        ("InvertedDoublePendulum-v5", "healthy_reward", 10.0),
    ] {
        let runs = Fixture::open("mujoco.jsonl").rows;
        let mut run = runs.into_iter().find(|run| run["env"] == id).unwrap();
        run["config"][key] = value.into();
        let exact = Fixture::open("mujoco.jsonl").is_exact();
        assert_eq!(replay(&run, &python, exact), None, "{id} with its own {key}");
        run["config"][key] = value.next_up().into();
        assert!(replay(&run, &python, true).is_some(), "{id} with another {key} is the same");
    }
}

/// Whether mujoco.jsonl holds episodes of the library that is found: the last digits differ from version to version.
fn recorded_with_this_version(python: &str) -> bool {
    make(&ids()[0], EnvConfig::new(), python, 1);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let recorded = maps.contains("/libmujoco.so.3.17.0");
    if !recorded {
        skipped("the episodes were recorded with MuJoCo 3.17.0, and the library is another");
    }
    recorded
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
    let n = seeds.len();
    let width = env.observation_space().width();
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
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn copies_in_one_and_several_threads_equal_single_ones_bit_for_bit() {
    const N: usize = 64;
    let python = python();
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
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn vectors_keep_the_contract() {
    let python = python();
    for (i, id) in ids().iter().enumerate() {
        let config = settings(json!({"num_threads": 1 + i % 2}));
        check_vector_env(&mut make(id, config, &python, 2)).unwrap_or_else(|e| panic!("{id}: {e}"));
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_episode_goes_on_from_a_saved_state_with_the_same_bits() {
    let python = python();
    for id in &ids() {
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
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn the_bridge_and_the_native_environment_give_the_same_run() {
    let python = python();
    for id in ["HalfCheetah-v5", "Hopper-v5", "Ant-v5"] {
        let bridge = settings(json!({"python": python, "num_workers": 1, "info_keys": ["x_velocity"]}));
        let bridge = make_vec(&format!("py:{id}"), &bridge, 4).unwrap();
        let mut bridge: Copies = TypedVectorEnv::new(bridge).unwrap();
        let mut native = make(id, EnvConfig::new(), &python, 4);
        assert_eq!(bridge.observation_space(), native.observation_space());
        assert_eq!(bridge.action_space(), native.action_space());
        let width = native.observation_space().width();
        let mut a = Rows::filled(4, width, 0.0);
        let mut b = Rows::filled(4, width, 0.0);
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

/// numpy refuses to draw between 0.1 and -0.1, so Gymnasium's environments do.
#[test]
fn negative_noise_at_the_start_is_refused() {
    for id in &ids() {
        let config = settings(json!({"reset_noise_scale": -0.1}));
        let error = make_vec(id, &config, 1).expect_err("refused").to_string();
        // Reacher and Pusher have no such setting.
        let expected = match id.as_str() {
            "Reacher-v5" | "Pusher-v5" => "no setting `reset_noise_scale`",
            _ => "`reset_noise_scale` is -0.1, but it must be 0 or more",
        };
        assert!(error.contains(expected), "{id}: {error}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn settings_that_do_not_fit_are_refused() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let half_cheetah = include_str!("../../src/native/mujoco/assets/half_cheetah.xml");
    let broken = file("broken.xml", "<mujoco><worldbody>");
    let joint = r#"<body><joint/><geom size="1"/></body>"#;
    let small = file("small.xml", &format!("<mujoco><worldbody>{joint}</worldbody></mujoco>"));
    // The engine itself fails in a step.
    let little = file("little.xml", &half_cheetah.replace("nstack=\"300000\"", "memory=\"1K\""));
    assert!(half_cheetah.contains("nstack=\"300000\""), "nothing was replaced");
    for (id, config, expected) in [
        ("HalfCheetah-v5", json!({"frame_skip": 0}), "`frame_skip` is 0"),
        ("HalfCheetah-v5", json!({"num_threads": 3}), "`num_threads` is 3, but it must be in 1..=2"),
        ("HalfCheetah-v5", json!({"width": 0}), "`width` is 0"),
        ("HalfCheetah-v5", json!({"default_camera_config": {"fov": 3}}), "unknown field `fov`"),
        (
            "HalfCheetah-v5",
            json!({"ctrl_cost_weigh": 1}),
            "no setting `ctrl_cost_weigh`; nearest: `ctrl_cost_weight`",
        ),
        ("HalfCheetah-v5", json!({"xml_file": "./nowhere.xml"}), "`xml_file` is \"./nowhere.xml\": "),
        ("HalfCheetah-v5", json!({"xml_file": broken}), "XML"),
        ("Hopper-v5", json!({"xml_file": small}), "1 degrees of freedom, but it must have at least 3"),
        ("HalfCheetah-v5", json!({"xml_file": small}), "the model has no actuators"),
        ("Ant-v5", json!({"main_body": 99}), "`main_body` is 99, but it must be below 14"),
        ("Ant-v5", json!({"main_body": "wing"}), "the model has no body \"wing\""),
    ] {
        let mut config = settings(config);
        config.insert("python".into(), python.as_str().into());
        let error = make_vec(id, &config, 2).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = make_vec("Ant-v5", &settings(json!({"python": "no-python"})), 1).unwrap_err().to_string();
    assert!(error.contains("`python` is \"no-python\": it cannot be run"), "{error}");
    let mut env = make("HalfCheetah-v5", settings(json!({"xml_file": little})), &python, 2);
    let mut rows = Rows::filled(2, 17, 0.0);
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    let failed = (0..300).find_map(|_| env.step(&[1.0; 12], None, rows.out()).err());
    let error = failed.expect("the engine fails for want of memory").to_string();
    assert!(
        error.contains(" with seed ") && error.contains("MuJoCo: mj_stackAlloc: out of memory"),
        "{error}"
    );
    // The process lives, and another model is no trouble after the engine's error.
    let other = file("other.xml", half_cheetah);
    let config = settings(json!({"xml_file": other}));
    let seeds = [1, 2];
    assert!(
        play(&mut make("HalfCheetah-v5", config, &python, 2), &seeds, 5)
            == play(&mut make("HalfCheetah-v5", EnvConfig::new(), &python, 2), &seeds, 5)
    );
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn pictures_show_the_body_on_the_floor() {
    let python = python();
    for id in &ids() {
        let config = settings(json!({"width": 96, "height": 64}));
        let mut env = make(id, config, &python, 2);
        let mut rows = Rows::filled(2, env.observation_space().width(), 0.0);
        env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
        let before = env.save_state().unwrap();
        let frame = env.render(1).unwrap().unwrap();
        assert_eq!((frame.width, frame.height, frame.rgb.len()), (96, 64, 3 * 96 * 64));
        let colors: std::collections::BTreeSet<_> = frame.rgb.chunks_exact(3).collect();
        assert!(colors.len() > 20, "{id} has {} colors", colors.len());
        assert_eq!(env.save_state().unwrap(), before, "{id}: a picture changes nothing");
        assert!(env.render(2).is_err());
        let camera = json!({"distance": 9.0, "azimuth": 30.0, "elevation": -60.0, "lookat": [1.0, 0.0, 0.5]});
        let config = settings(json!({"width": 96, "height": 64, "default_camera_config": camera}));
        let mut other = make(id, config, &python, 2);
        other.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
        assert_ne!(other.render(1).unwrap().unwrap(), frame, "{id} from another place");
        if let Some(folder) = std::env::var_os("PAVLOV_PICTURES") {
            let text = format!("P6 {} {} 255\n", frame.width, frame.height);
            let file = Path::new(&folder).join(format!("{id}.ppm"));
            std::fs::write(file, [text.as_bytes(), &frame.rgb].concat()).unwrap();
        }
    }
}
