//! PettingZoo environments in Python: equal to the native one, agents that come and go, masks, faults.
//!
//! Those of `tests/py/parallel.py` need Gymnasium only, simple spread needs mpe2.

use std::path::PathBuf;

use pavlov_envs::{
    Element, EnvConfig, Error, MultiAgentEnv, MultiAgentOut, MultiAgentRows, NpRandom, Result, Space,
    check_multi_agent_env, make_multi_agent, multi_agent_spec, python::PyMultiAgentEnv,
};
use serde_json::{Value, json};

use crate::py::{config, python};

const SIMPLE_SPREAD: &str = "pz:mpe2.simple_spread_v3";
const PARTY: &str = "pz:tests.py.parallel";

type Party = PyMultiAgentEnv<f32, i64>;

fn party(python: &str, kwargs: Value) -> Party {
    let more = json!({"kwargs": kwargs, "info_keys": ["deep/count"], "timeout_s": 60.0});
    Party::new(PARTY, &config(python, more)).unwrap()
}

/// All that random play gives, as text of bits. Every other episode goes on with the environment's random stream.
fn play<A: Element>(env: &mut dyn pavlov_envs::AnyMultiAgentEnv) -> Result<Vec<String>> {
    let agents = env.agents().len();
    let spaces: Vec<Space> = (0..agents).map(|agent| env.action_space(agent)).collect();
    let widths = (0..agents).map(|agent| env.observation_space(agent).width());
    let mut rows = MultiAgentRows::<f32>::with_widths(widths);
    let mut random = NpRandom::new(7);
    let mut moments = vec![];
    for episode in 0..6 {
        env.reset((episode % 2 == 0).then_some(1000 + episode), bytes(rows.out()))?;
        moments.push(format!("{rows:?}"));
        while !rows.is_over() {
            let mut actions = vec![];
            for space in &spaces {
                let mut action = vec![A::default(); space.width()];
                space.sample(&mut random, &mut action);
                actions.extend(action);
            }
            env.step(bytemuck::cast_slice(&actions), bytes(rows.out()))?;
            moments.push(format!("{rows:?}"));
        }
    }
    Ok(moments)
}

pub(crate) fn bytes(out: MultiAgentOut<'_, f32>) -> MultiAgentOut<'_, u8> {
    MultiAgentOut {
        obs: bytemuck::cast_slice_mut(out.obs),
        rewards: out.rewards,
        terminated: out.terminated,
        truncated: out.truncated,
        alive: out.alive,
        acting: out.acting,
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn simple_spread_in_python_and_native_simple_spread_are_equal_to_the_bit() {
    let python = python();
    for kwargs in [json!({"N": 3}), json!({"N": 4, "continuous_actions": true, "max_cycles": 40})] {
        let native_config: EnvConfig = serde_json::from_value(kwargs.clone()).unwrap();
        let mut native = make_multi_agent("simple_spread_v3", &native_config).unwrap();
        let mut bridged =
            make_multi_agent(SIMPLE_SPREAD, &config(&python, json!({"kwargs": kwargs}))).unwrap();
        assert_eq!(bridged.agents(), native.agents());
        for agent in 0..native.agents().len() {
            assert_eq!(bridged.observation_space(agent), native.observation_space(agent));
            assert_eq!(bridged.action_space(agent), native.action_space(agent));
        }
        let play = if kwargs["N"] == 3 { play::<i64> } else { play::<f32> };
        let found = play(&mut *bridged).unwrap();
        let expected = play(&mut *native).unwrap();
        assert_eq!(found.len(), expected.len());
        for (moment, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{kwargs}, moment {moment}");
        }
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn the_bridge_keeps_the_contract_of_multi_agent_environments() {
    let python = python();
    // In simple tag the prey sees less than its hunters.
    for id in [SIMPLE_SPREAD, "pz:mpe2.simple_tag_v3"] {
        let mut env = PyMultiAgentEnv::<f32, i64>::new(id, &config(&python, json!({}))).unwrap();
        check_multi_agent_env(&mut env).unwrap();
    }
    // Agents that come and go, masks, and the state, which is a replay.
    let mut env = party(&python, json!({}));
    check_multi_agent_env(&mut env).unwrap();
    assert!(env.save_state().is_some());
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn agents_with_different_spaces_come_and_go_in_their_own_rows() {
    let python = python();
    let mut env = party(&python, json!({}));
    assert_eq!(env.agents(), ["ann", "bob", "cy"]);
    assert_eq!([0, 1, 2].map(|agent| env.observation_space(agent).width()), [4, 1, 2]);
    assert_eq!(env.action_space(1), Space::Discrete { n: 3, start: 1 });
    assert_eq!(env.info(0, "deep/count"), None);
    let mut rows = MultiAgentRows::new(&env);
    let mask = |env: &Party, agent: usize, actions: usize| {
        let mut mask = vec![false; actions];
        assert!(env.action_mask(agent, &mut mask));
        mask
    };

    // The illegal actions have the numbers (seed + step) modulo 2 and 3. Ann's row begins with her mask.
    env.reset(Some(5), rows.out()).unwrap();
    assert_eq!(rows.obs, [1.0, 0.0, 0.0, 5.0, 0.5, 0.0, 0.0]);
    assert_eq!((rows.alive.as_slice(), rows.rewards.as_slice()), (&[true, true, false][..], &[0.0; 3][..]));
    assert_eq!((mask(&env, 0, 2), mask(&env, 1, 3)), (vec![true, false], vec![true, true, false]));
    assert!(!env.action_mask(2, &mut [false; 6]), "its actions are no choice of one");
    assert_eq!((env.info(0, "deep/count"), env.info(1, "deep/count")), (Some(0.0), None));

    // Cy's action is not read, and he joins.
    env.step(&[1, 3, -7, -7], rows.out()).unwrap();
    assert_eq!(rows.obs, [0.0, 1.0, 1.0, 5.0, 1.5, 1.0, 0.5]);
    assert_eq!((rows.alive.as_slice(), rows.rewards.as_slice()), (&[true; 3][..], &[1.0, 30.0, 0.0][..]));
    assert_eq!(env.info(0, "deep/count"), Some(1.0));

    env.step(&[0, 2, 1, 3], rows.out()).unwrap();
    assert_eq!(rows.obs, [1.0, 0.0, 2.0, 5.0, 2.5, 2.0, 1.0]);
    assert_eq!(rows.rewards, [0.0, 20.0, 3100.0]);
    assert_eq!(
        (rows.terminated.as_slice(), rows.truncated.as_slice()),
        (&[false, true, false][..], &[false; 3][..])
    );
    assert_eq!((&rows.alive, &rows.acting), (&vec![true, false, true], &vec![true, false, true]));
    // Bob's last mask: values behind a cut are those of legal actions.
    assert_eq!(mask(&env, 1, 3), [true, false, true]);

    // Bob is gone, whatever Python says of him.
    env.step(&[0, 99, 0, 0], rows.out()).unwrap();
    assert_eq!(mask(&env, 1, 3), [false; 3]);
    assert_eq!(rows.obs, [0.0, 1.0, 3.0, 5.0, 0.0, 3.0, 1.5]);
    assert_eq!((rows.rewards.as_slice(), rows.terminated.as_slice()), (&[0.0; 3][..], &[false; 3][..]));

    // Ann has both flags.
    env.step(&[1, 0, 0, 0], rows.out()).unwrap();
    assert_eq!(
        (rows.terminated.as_slice(), rows.truncated.as_slice()),
        (&[true, false, false][..], &[true, false, true][..])
    );
    assert!(rows.is_over());
    let error = env.step(&[1, 1, 0, 0], rows.out()).unwrap_err();
    assert_eq!(error.to_string(), format!("{PARTY} has no running episode; call `reset`"));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn faults_are_told_with_seed_step_and_traceback_and_leave_nothing_behind() {
    let python = python();
    for (fault, at, expected) in [
        ("raise", json!(3), &["Traceback", "KeyError: 'no such key'", "tests/py/parallel.py"][..]),
        ("raise", json!("reset"), &["Traceback", "in reset"]),
        ("kill", json!(3), &["was killed by signal 9"]),
    ] {
        let mut env = party(&python, json!({"fault": fault, "at": at, "seed": 12}));
        let process = PathBuf::from(format!("/proc/{}", env.worker_pid()));
        assert!(process.exists());
        let mut rows = MultiAgentRows::new(&env);
        env.reset(Some(11), rows.out()).unwrap();
        let mut play = || {
            env.reset(Some(12), rows.out())?;
            (0..4).try_for_each(|_| env.step(&[1, 1, 0, 0], rows.out()))
        };
        let error = play().unwrap_err();
        let step = at.as_u64().unwrap_or(0) as usize;
        assert!(
            matches!(error, Error::Env { env: 0, seed: Some(12), step: found, .. } if found == step),
            "{error:?}"
        );
        assert_contains(&error, expected);
        assert_eq!(env.reset(Some(1), rows.out()).unwrap_err().to_string(), error.to_string(), "poisoned");
        assert!(!process.exists());
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn agents_that_leave_without_an_end_or_see_nothing_are_faults() {
    let python = python();
    for (kind, step, expected) in [
        ("Leaving", 2, "bob left `agents`, but neither its termination nor its truncation was set"),
        ("Silent", 1, "there is no observation of bob"),
    ] {
        let mut env = party(&python, json!({"kind": kind}));
        let mut rows = MultiAgentRows::new(&env);
        env.reset(Some(3), rows.out()).unwrap();
        let error = (0..3).find_map(|_| env.step(&[1, 1, 0, 0], rows.out()).err()).unwrap();
        assert!(matches!(error, Error::Env { seed: Some(3), step: found, .. } if found == step), "{error:?}");
        assert_contains(&error, &[expected]);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn actions_outside_the_space_of_an_acting_agent_are_refused_before_python_sees_them() {
    let python = python();
    let mut env = party(&python, json!({}));
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let error = env.step(&[1, 0, 0, 0], rows.out()).unwrap_err();
    assert!(matches!(error, Error::InvalidAction { .. }), "{error:?}");
    assert!(matches!(env.step(&[1, 1, 0], rows.out()), Err(Error::Shape { .. })));
    env.step(&[1, 1, 0, 0], rows.out()).unwrap();
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn environments_that_have_no_fixed_rows_are_refused_with_the_way_out() {
    let python = python();
    let make = |id: &str, more: Value| make_multi_agent(id, &config(&python, more)).unwrap_err();
    let mixed = make(PARTY, json!({"kwargs": {"kind": "Mixed"}}));
    let expected = ["observations of ann are f32, but those of bob are u8", "cast them by a wrapper"];
    assert_contains(&mixed, &expected);
    assert_contains(&make(PARTY, json!({"kwargs": {"kind": "Nameless"}})), &["has no possible_agents"]);
    assert_contains(
        &make("pz:json", json!({})),
        &["'json' has no function parallel_env() or env()", "after `pz:`"],
    );
    assert_contains(&make("pz:no_such_package.env_v0", json!({})), &["-m pip install no_such_package"]);
    let hosted = make(PARTY, json!({"vectorization": "envpool"}));
    assert!(matches!(hosted, Error::Config { .. }), "{hosted:?}");
    let error = PyMultiAgentEnv::<f64, i64>::new(PARTY, &config(&python, json!({}))).unwrap_err();
    assert_contains(&error, &["observations is f64, but it must be f32"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn pictures_come_from_python_where_they_were_asked_for() {
    let python = python();
    let mut env = party(&python, json!({"render_mode": "rgb_array"}));
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    env.step(&[1, 1, 0, 0], rows.out()).unwrap();
    let frame = env.render().unwrap().unwrap();
    assert_eq!((frame.width, frame.height, frame.rgb), (3, 2, vec![1; 18]));
    let error = party(&python, json!({})).render().unwrap_err();
    assert_contains(&error, &["`render_mode` = \"rgb_array\" in the `kwargs`"]);
}

#[test]
fn nothing_is_known_of_a_pettingzoo_id_before_it_is_made() {
    let spec = multi_agent_spec(SIMPLE_SPREAD).unwrap();
    assert_eq!((spec.id.as_str(), spec.max_episode_steps), (SIMPLE_SPREAD, None));
}

fn assert_contains(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
