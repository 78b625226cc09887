//! Python environments: equal to native ones, spaces, masks, numbers in `info`, replay, hosted vectors.
//!
//! The environments are in `tests/py/envs.py`. The tests are ignored: they need PAVLOV_TEST_PYTHON, an interpreter with the
//! packages of `.ci/requirements.txt`.

use std::io::Write;

use pavlov_envs::{
    AnyVectorEnv, DType, Env, EnvConfig, EnvCreator, EnvSpec, Error, NpRandom, Result, Space, StepOut,
    VectorEnv, WrapperSpec, check_vector_env, make_vec, native::CartPole, python::PyVec, register,
};
use serde_json::{Value, json};

pub(crate) use crate::rows::Rows;

/// Returns the interpreter with which the ignored tests run.
pub(crate) fn python() -> String {
    std::env::var("PAVLOV_TEST_PYTHON")
        .expect("PAVLOV_TEST_PYTHON names a Python with `.ci/requirements.txt`")
}

/// Says past the test harness, which hides what passing tests print, that a test did not run.
pub(crate) fn skipped(why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}

/// An `env_config` with the tests' interpreter.
pub(crate) fn config(python: &str, more: Value) -> EnvConfig {
    let mut config = EnvConfig::from_iter([("python".to_owned(), json!(python))]);
    config.extend(more.as_object().cloned().unwrap_or_default());
    config
}

/// The id of an environment in `tests/py/envs.py`; the tests run in the crate's folder, where Python looks for modules.
pub(crate) fn test_env(name: &str) -> String {
    format!("py:tests.py.envs:{name}-v0")
}

/// All that random play gives, as text of bits, and the number of episodes.
fn play(env: &mut dyn AnyVectorEnv, seeded: bool) -> Result<(Vec<String>, usize)> {
    let n = env.num_envs();
    let mut random = NpRandom::new(7);
    let mut rows = Rows::<f32>::new(n, 4);
    let seeds: Vec<u64> = (0..n as u64).map(|i| 1000 + i).collect();
    env.reset(Some(&seeds), bytemuck::cast_slice_mut(&mut rows.obs))?;
    let mut moments = vec![format!("{:?}", rows.obs)];
    let mut episodes = 0;
    for _ in 0..400 {
        let actions: Vec<i64> = (0..n).map(|_| random.integers(0, 2)).collect();
        let next: Vec<u64> = (0..n).map(|_| random.next_u64()).collect();
        rows.final_obs.fill(0.0);
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut rows.obs),
            final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
            rewards: &mut rows.rewards,
            terminated: &mut rows.terminated,
            truncated: &mut rows.truncated,
        };
        env.step(bytemuck::cast_slice(&actions), seeded.then_some(&next), out)?;
        episodes += rows.terminated.iter().zip(&rows.truncated).filter(|(a, b)| **a || **b).count();
        moments.push(format!(
            "{:?} {:?} {:?} {:?} {:?}",
            rows.obs, rows.final_obs, rows.rewards, rows.terminated, rows.truncated
        ));
    }
    Ok((moments, episodes))
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn cartpole_in_python_and_native_cartpole_are_equal_to_the_bit_however_copies_are_spread() {
    let python = python();
    for (n, workers) in [(1, 1), (5, 1), (5, 2), (4, 4)] {
        for seeded in [true, false] {
            let config = config(&python, json!({"num_workers": workers}));
            let mut bridged = make_vec("py:CartPole-v1", &config, n).unwrap();
            let mut native = make_vec("CartPole-v1", &EnvConfig::new(), n).unwrap();
            let (expected, episodes) = play(&mut *native, seeded).unwrap();
            assert!(episodes > 10 * n, "only {episodes} episodes");
            let (found, _) = play(&mut *bridged, seeded).unwrap();
            for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found, expected, "{n} copies, {workers} workers, seeded {seeded}, step {step}");
            }
            if seeded {
                break;
            }
        }
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn the_bridge_keeps_the_contract_of_vector_environments() {
    let python = python();
    let mut env = make_vec("py:CartPole-v1", &config(&python, json!({"num_workers": 2})), 3).unwrap();
    check_vector_env(&mut *env).unwrap();
    // Continuous actions, and an episode limit that is Gymnasium's.
    let short = json!({"kwargs": {"max_episode_steps": 6}});
    let mut env = make_vec("py:Pendulum-v1", &config(&python, short), 2).unwrap();
    check_vector_env(&mut *env).unwrap();
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_id_with_py_is_an_environment_everywhere() {
    let python = python();
    let env = EnvCreator::from("py:CartPole-v1").make_vec(&config(&python, json!({})), 2).unwrap();
    assert_eq!((env.obs_dtype(), env.act_dtype()), (DType::F32, DType::I64));
    let native = make_vec("CartPole-v1", &EnvConfig::new(), 1).unwrap();
    assert_eq!(env.observation_space(), native.observation_space());
    assert_eq!(env.action_space(), native.action_space());
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_type_that_is_not_the_environments_is_refused() {
    let python = python();
    let error = PyVec::<f64, i64>::new("py:CartPole-v1", &config(&python, json!({})), 1).unwrap_err();
    assert!(error.to_string().contains("observations is f64, but it must be f32"), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn composite_spaces_are_rows_in_the_order_of_names() {
    let python = python();
    let config = config(&python, json!({"num_workers": 1}));
    let mut env = PyVec::<f32, f32>::new(&test_env("Parts"), &config, 2).unwrap();
    let arm = Space::boxed(-1.0, 1.0, &[2, 2]);
    let gears = Space::Tuple(vec![Space::Discrete { n: 4, start: -2 }, Space::multi_binary(&[3])]);
    let turn = Space::MultiDiscrete { nvec: vec![3, 4], start: vec![1, -1] };
    let space = Space::dict([("turn", turn), ("gears", gears), ("arm", arm)]);
    assert_eq!(VectorEnv::observation_space(&env), &space);
    let width = space.width();
    let mut rows = Rows::<f32>::new(2, width);
    VectorEnv::reset(&mut env, Some(&[1, 2]), &mut rows.obs).unwrap();
    // arm, gear, (bits), turn.
    assert_eq!(rows.obs[..5], [0.0, 0.25, 0.5, 0.75, -2.0]);
    assert_eq!(rows.obs[8..10], [3.0, 2.0]);
    let actions = [
        [0.5, -0.5, 1.0, -1.0, 1.0, 1.0, 0.0, 1.0, 3.0, -1.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    ];
    let actions = actions.concat();
    VectorEnv::step(&mut env, &actions, None, rows.out()).unwrap();
    assert_eq!(rows.obs, actions);
    assert_eq!(rows.rewards, [0.5, 0.5]);
    let outside = vec![2.0; 2 * width];
    let error = VectorEnv::step(&mut env, &outside, None, rows.out()).unwrap_err();
    assert!(matches!(error, Error::InvalidAction { .. }), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_episode_that_ends_in_the_step_of_its_time_limit_has_both_flags_in_python_too() {
    let python = python();
    // A pole that is pushed to one side falls after so many steps.
    let mut pole = CartPole::new(Default::default());
    let mut obs = [0.0; 4];
    pole.reset(Some(3), &mut obs).unwrap();
    let falls_after = (1..).find(|_| pole.step(&[1], &mut obs).unwrap().terminated).unwrap();
    for (id, vectorization) in
        [("py:CartPole-v1".to_owned(), "loop"), (test_env("Vector"), "vector_entry_point")]
    {
        let asked = json!({"kwargs": {"max_episode_steps": falls_after}, "vectorization": vectorization});
        let mut env = PyVec::<f32, i64>::new(&id, &config(&python, asked), 1).unwrap();
        let mut rows = Rows::<f32>::new(1, 4);
        VectorEnv::reset(&mut env, Some(&[3]), &mut rows.obs).unwrap();
        for _ in 0..falls_after {
            assert_eq!((rows.terminated[0], rows.truncated[0]), (false, false), "{vectorization}");
            VectorEnv::step(&mut env, &[1], None, rows.out()).unwrap();
        }
        assert_eq!((rows.terminated[0], rows.truncated[0]), (true, true), "{vectorization}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn action_masks_and_numbers_come_from_info() {
    let python = python();
    let asked = json!({"info_keys": ["count", "deep/start"], "num_workers": 2});
    let mut env = PyVec::<i64, i64>::new(&test_env("Masked"), &config(&python, asked), 2).unwrap();
    let mut rows = Rows::<i64>::new(2, 1);
    let mut masks = [false; 6];
    VectorEnv::reset(&mut env, Some(&[0, 1]), &mut rows.obs).unwrap();
    assert!(VectorEnv::action_masks(&env, &mut masks));
    assert_eq!(masks, [false, true, true, true, false, true]);
    assert!(VectorEnv::info(&env, "count").unwrap().iter().all(|count| count.is_nan()));
    assert_eq!(VectorEnv::info(&env, "steps"), None);
    VectorEnv::step(&mut env, &[1, 0], Some(&[5, 6]), rows.out()).unwrap();
    assert_eq!(VectorEnv::info(&env, "count"), Some(&[1.0, 1.0][..]));
    assert_eq!(VectorEnv::info(&env, "deep/start"), Some(&[0.0, 1.0][..]));
    VectorEnv::step(&mut env, &[0, 0], Some(&[5, 6]), rows.out()).unwrap();
    assert_eq!((rows.truncated, rows.obs, rows.final_obs), (vec![true; 2], vec![5, 5], vec![7, 7]));
    // Numbers of the episode that ended, masks of the one that begins.
    assert_eq!(VectorEnv::info(&env, "count"), Some(&[2.0, 2.0][..]));
    assert!(VectorEnv::action_masks(&env, &mut masks));
    assert_eq!(masks, [true, true, false, false, true, true]);
    // Texts and arrays are those of the state that is observed.
    let mut value = |copy, key| VectorEnv::info_value(&mut env, copy, key).map_err(|error| error.to_string());
    assert_eq!(value(0, "word"), Ok(Some(json!("begin"))));
    assert_eq!(value(1, "action_mask"), Ok(Some(json!([0, 1, 1]))));
    assert_eq!(value(0, "bad"), Ok(Some(json!({"nan": null, "class": "<class 'int'>"}))));
    assert_eq!(value(0, "count"), Ok(Some(json!(2.0))));
    assert_eq!((value(0, "words"), value(0, "word/deep")), (Ok(None), Ok(None)));
    assert!(value(2, "word").unwrap_err().contains("2"));
    let mut env = make_vec("py:CartPole-v1", &config(&python, json!({})), 1).unwrap();
    env.reset(None, &mut [0; 16]).unwrap();
    assert!(!env.action_masks(&mut [false; 2]) && !env.final_action_masks(&mut [false; 2]));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn masks_of_the_last_states_are_told_however_copies_are_stepped() {
    let python = python();
    let looped = (test_env("Masked"), json!({"num_workers": 2}));
    let hosted = |mode: &str| {
        let kwargs = json!({"autoreset_mode": mode});
        (test_env("MaskedVector"), json!({"vectorization": "vector_entry_point", "kwargs": kwargs}))
    };
    for (id, more) in [looped, hosted("Disabled"), hosted("SameStep")] {
        let mut env = PyVec::<i64, i64>::new(&id, &config(&python, more.clone()), 2).unwrap();
        let mut rows = Rows::<i64>::new(2, 1);
        let mut masks = [false; 6];
        VectorEnv::reset(&mut env, Some(&[0, 100]), &mut rows.obs).unwrap();
        VectorEnv::step(&mut env, &[1, 0], Some(&[6, 6]), rows.out()).unwrap();
        VectorEnv::step(&mut env, &[0, 0], Some(&[6, 6]), rows.out()).unwrap();
        assert_eq!(rows.truncated, [true, false], "{more}");
        // The illegal action is the sum of seed and steps modulo 3; the first copy's next episode has begun.
        assert!(VectorEnv::final_action_masks(&env, &mut masks), "{more}");
        assert_eq!(masks[..3], [true, true, false], "{more}");
        assert!(VectorEnv::action_masks(&env, &mut masks), "{more}");
        assert_eq!(masks, [false, true, true, false, true, true], "{more}");
    }
}

/// The class is not in Gymnasium's registry.
#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_plain_class_is_an_environment_and_its_method_action_masks_tells_the_masks_of_its_choices() {
    let config = config(&python(), json!({"num_workers": 1}));
    let id = "py:tests.py.envs:Sb3Masked";
    let mut env = make_vec(id, &config, 1).unwrap();
    check_vector_env(&mut *env).unwrap();
    let mut env = PyVec::<f32, i64>::new(id, &config, 1).unwrap();
    let mut rows = Rows::<f32>::new(1, 1);
    let mut masks = [false; 5];
    let (first, later) = ([false, true, false, true, true], [true, false, true, true, false]);
    VectorEnv::reset(&mut env, Some(&[0]), &mut rows.obs).unwrap();
    assert!(VectorEnv::action_masks(&env, &mut masks));
    assert_eq!(masks, first);
    VectorEnv::step(&mut env, &[1, 1], Some(&[1]), rows.out()).unwrap();
    assert!(VectorEnv::action_masks(&env, &mut masks));
    assert_eq!(masks, later);
    VectorEnv::step(&mut env, &[0, 0], Some(&[1]), rows.out()).unwrap();
    assert!(VectorEnv::action_masks(&env, &mut masks));
    assert_eq!(masks, first);
    assert!(VectorEnv::final_action_masks(&env, &mut masks));
    assert_eq!(masks, later);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_environment_that_refuses_illegal_actions_is_timed_with_legal_ones() {
    let python = python();
    // Two copies without `num_workers`: a few steps are timed, and an illegal action would be an error.
    PyVec::<i64, i64>::new(&test_env("Strict"), &config(&python, json!({})), 2).unwrap();
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_cannot_be_replayed_is_told() {
    let python = python();
    let mut env = PyVec::<f32, i64>::new(&test_env("Forgetful"), &config(&python, json!({})), 1).unwrap();
    let mut rows = Rows::<f32>::new(1, 1);
    VectorEnv::reset(&mut env, None, &mut rows.obs).unwrap();
    let error = VectorEnv::save_state(&env).unwrap_err().to_string();
    assert!(error.contains("started without a seed"), "{error}");
    VectorEnv::reset(&mut env, Some(&[0]), &mut rows.obs).unwrap();
    for _ in 0..2 {
        VectorEnv::step(&mut env, &[0], Some(&[1]), rows.out()).unwrap();
    }
    let state = VectorEnv::save_state(&env).unwrap().unwrap();
    let error = VectorEnv::load_state(&mut env, &state[..state.len() - 1]).unwrap_err().to_string();
    assert!(error.contains("ends too early"), "{error}");
    let mut other = PyVec::<f32, i64>::new("py:CartPole-v1", &config(&python, json!({})), 1).unwrap();
    let error = VectorEnv::load_state(&mut other, &state).unwrap_err().to_string();
    assert!(error.contains("it was saved by \"py:tests.py.envs:Forgetful-v0"), "{error}");
    let error = VectorEnv::load_state(&mut env, &state).unwrap_err().to_string();
    assert!(error.contains("the replayed episode ended at step 2 of 2"), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_hosted_vector_environment_gives_what_single_copies_give() {
    let python = python();
    let hosted = json!({"vectorization": "vector_entry_point", "num_workers": 2});
    let mut hosted = make_vec(&test_env("Vector"), &config(&python, hosted), 3).unwrap();
    let looped = json!({"kwargs": {"max_episode_steps": 30}});
    let mut looped = make_vec("py:CartPole-v1", &config(&python, looped), 3).unwrap();
    assert_eq!(play(&mut *hosted, true).unwrap(), play(&mut *looped, true).unwrap());
    assert_eq!(hosted.save_state().unwrap(), None);
    // Same-step autoreset continues the copies' own streams, whatever seeds are given.
    let same_step = json!({"vectorization": "vector_entry_point", "kwargs": {"autoreset_mode": "SameStep"}});
    let mut same_step = make_vec(&test_env("Vector"), &config(&python, same_step), 3).unwrap();
    assert_eq!(play(&mut *same_step, true).unwrap(), play(&mut *looped, false).unwrap());
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_task_reaches_every_copy_in_python_through_wrappers_too() {
    let python = python();
    let tasked = config(&python, json!({"num_workers": 2}));
    let mut env = make_vec(&test_env("Tasked"), &tasked, 3).unwrap();
    env.set_task(&json!({"reward": 2.5})).unwrap();
    let wrappers = [WrapperSpec::try_from(json!("TimeLimit(9)")).unwrap()];
    let single = config(&python, json!({}));
    let mut wrapped = EnvCreator::from(test_env("Tasked")).wrapped(&wrappers).make_vec(&single, 2).unwrap();
    wrapped.set_task(&json!({"reward": 2.5})).unwrap();
    for (env, copies) in [(&mut env, 3), (&mut wrapped, 2)] {
        let mut rows = Rows::<f32>::new(copies, 1);
        env.reset(None, bytemuck::cast_slice_mut(&mut rows.obs)).unwrap();
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut rows.obs),
            final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
            rewards: &mut rows.rewards,
            terminated: &mut rows.terminated,
            truncated: &mut rows.truncated,
        };
        env.step(bytemuck::cast_slice(&vec![0_i64; copies]), None, out).unwrap();
        assert_eq!(rows.rewards, vec![2.5; copies]);
    }
    let mut env = make_vec("py:CartPole-v1", &single, 1).unwrap();
    let error = env.set_task(&json!(1)).unwrap_err().to_string();
    assert!(error.contains("has no `set_task(task)`, so it has one task only"), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn the_limit_of_a_registered_environment_truncates_in_python_as_gymnasiums_own_does() {
    let python = python();
    let short = config(&python, json!({"kwargs": {"max_episode_steps": 12}}));
    let expected = play(&mut *make_vec("py:CartPole-v1", &short, 3).unwrap(), true).unwrap();
    let hosted = config(&python, json!({"vectorization": "vector_entry_point"}));
    for (id, limit, env, config) in [
        ("Looped-v0", 12, "py:CartPole-v1".to_owned(), config(&python, json!({}))),
        ("Shorter-v0", 30, "py:CartPole-v1".to_owned(), short),
        ("Hosted-v0", 12, test_env("Vector"), hosted),
    ] {
        let summary = "for a test".to_owned();
        let spec = EnvSpec { id: id.into(), summary, max_episode_steps: Some(limit), reward_threshold: None };
        register(spec, EnvCreator::new(id, move |_, copies| make_vec(&env, &config, copies))).unwrap();
        let mut env = make_vec(id, &EnvConfig::new(), 3).unwrap();
        assert_eq!(play(&mut *env, true).unwrap(), expected, "{id}");
    }
    // Restored in the middle of an episode, it has as many steps left as before.
    let mut rows = Rows::<f32>::new(1, 4);
    let mut steps = |env: &mut dyn AnyVectorEnv, count: usize| {
        let mut step = |number: usize| {
            let out = StepOut {
                obs: bytemuck::cast_slice_mut(&mut rows.obs),
                final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
                rewards: &mut rows.rewards,
                terminated: &mut rows.terminated,
                truncated: &mut rows.truncated,
            };
            env.step(bytemuck::cast_slice(&[number as i64 % 2]), None, out).unwrap();
            rows.truncated[0]
        };
        (0..count).map(&mut step).collect::<Vec<bool>>()
    };
    let mut first = make_vec("Looped-v0", &EnvConfig::new(), 1).unwrap();
    first.reset(Some(&[1]), bytemuck::cast_slice_mut(&mut [0.0_f32; 4])).unwrap();
    assert_eq!(steps(&mut *first, 5), [false; 5]);
    let mut second = make_vec("Looped-v0", &EnvConfig::new(), 1).unwrap();
    second.load_state(&first.save_state().unwrap().unwrap()).unwrap();
    assert_eq!(steps(&mut *second, 7), [false, false, false, false, false, false, true]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_vector_environment_that_cannot_reset_single_rows_is_refused() {
    let python = python();
    // Gymnasium's own CartPole vector resets all its rows at once.
    let hosted = json!({"vectorization": "vector_entry_point"});
    let mut env = make_vec("py:CartPole-v1", &config(&python, hosted), 3).unwrap();
    let mut rows = Rows::<f32>::new(3, 4);
    env.reset(None, bytemuck::cast_slice_mut(&mut rows.obs)).unwrap();
    let actions = [0_i64, 1, 1];
    let error = (0..40).find_map(|_| {
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut rows.obs),
            final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
            rewards: &mut rows.rewards,
            terminated: &mut rows.terminated,
            truncated: &mut rows.truncated,
        };
        env.step(bytemuck::cast_slice(&actions), None, out).err()
    });
    let error = error.unwrap().to_string();
    assert!(error.contains("does not heed options['reset_mask']"), "{error}");
}
