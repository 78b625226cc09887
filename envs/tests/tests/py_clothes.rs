//! Python environments with rewards, agents, ids and constructors in the forms that real packages have.
//!
//! The environments are in `tests/py/clothes.py`, `tests/py/registering.py` and `tests/py/turns.py`.

use pavlov_envs::{
    AnyMultiAgentEnv, AnyVectorEnv, EnvConfig, EnvCreator, MultiAgentRows, Result, Space, StepOut,
    WrapperSpec, check_any_multi_agent_env, check_vector_env, make_multi_agent, make_vec,
};
use serde_json::{Value, json};

use crate::py::{config, python};
use crate::rows::Rows;

fn named(name: &str) -> String {
    format!("py:tests.py.clothes:{name}")
}

fn made(name: &str, more: Value, copies: usize) -> Result<Box<dyn AnyVectorEnv>> {
    make_vec(&named(name), &config(&python(), more), copies)
}

fn team(kwargs: Value) -> Result<Box<dyn AnyMultiAgentEnv>> {
    make_multi_agent("ma:tests.py.clothes:Team", &config(&python(), json!({"kwargs": kwargs})))
}

/// Steps all agents.
fn step(env: &mut dyn AnyMultiAgentEnv, rows: &mut MultiAgentRows<f32>, actions: &[i64]) {
    let out = rows.out();
    env.step(bytemuck::cast_slice(actions), crate::pettingzoo::bytes(out)).unwrap();
}

/// Resets all agents with a seed.
fn reset(env: &mut dyn AnyMultiAgentEnv, seed: u64) -> MultiAgentRows<f32> {
    let agents = env.agents().len();
    let mut rows = MultiAgentRows::with_widths((0..agents).map(|agent| env.observation_space(agent).width()));
    env.reset(Some(seed), crate::pettingzoo::bytes(rows.out())).unwrap();
    rows
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn tuples_of_spaces_and_lists_of_rewards_are_agents() {
    for kind in ["shared", "masks", "leaves", "keyed"] {
        let kwargs = json!({kind: true});
        check_any_multi_agent_env(team(kwargs.clone()).unwrap())
            .unwrap_or_else(|error| panic!("{kwargs}: {error}"));
    }
    let mut env = team(json!({})).unwrap();
    assert_eq!(env.agents(), ["agent_0", "agent_1"]);
    assert_eq!(env.action_space(1), Space::Discrete { n: 3, start: 1 });
    assert_eq!(env.render_fps(), Some(7.0));
    let mut rows = reset(&mut *env, 5);
    step(&mut *env, &mut rows, &[1, 3]);
    assert_eq!(rows.rewards, [1.0, 30.0]);
    // A reward of all is each agent's.
    let mut env = team(json!({"shared": true})).unwrap();
    let mut rows = reset(&mut *env, 5);
    step(&mut *env, &mut rows, &[1, 3]);
    assert_eq!(rows.rewards, [31.0, 31.0]);
    // A dict is read by its keys, in whatever order.
    let mut env = team(json!({"keyed": true})).unwrap();
    let mut rows = reset(&mut *env, 5);
    for _ in 0..3 {
        step(&mut *env, &mut rows, &[1, 3]);
        assert_eq!((&rows.rewards, &rows.alive), (&vec![1.0, 30.0], &vec![true, true]));
    }
    // Agents whose own flag is set leave, and the others play on.
    let mut env = team(json!({"leaves": true})).unwrap();
    let mut rows = reset(&mut *env, 5);
    let mut alive = vec![];
    for _ in 0..4 {
        step(&mut *env, &mut rows, &[1, 3]);
        alive.push((rows.alive.clone(), rows.rewards.clone()));
    }
    let first_only = (vec![true, false], vec![1.0, 0.0]);
    assert_eq!(alive[1], (vec![true, false], vec![1.0, 30.0]));
    assert_eq!(alive[2], first_only);
    assert_eq!(alive[3], (vec![false, false], vec![1.0, 0.0]));
    // Masks of `info` have a row for each agent.
    for keyed in [false, true] {
        let mut env = team(json!({"masks": true, "keyed": keyed})).unwrap();
        reset(&mut *env, 5);
        let mut mask = [false; 3];
        assert!(env.action_mask(1, &mut mask));
        assert_eq!(mask, [false, true, true]);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_agent_that_has_ended_earns_rewards_until_it_is_removed() {
    let mut env = make_multi_agent("pz:tests.py.late", &config(&python(), json!({}))).unwrap();
    let mut rows = reset(&mut *env, 5);
    step(&mut *env, &mut rows, &[0, 0]);
    assert_eq!((&rows.acting, &rows.rewards), (&vec![false, true], &vec![0.0, 0.0]));
    step(&mut *env, &mut rows, &[0, 0]);
    assert!(rows.is_over());
    assert_eq!((rows.rewards, rows.terminated), (vec![7.0, 7.0], vec![true, true]));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn gymnasium_under_the_old_name_and_its_own_function_for_registering_harm_nothing() {
    let mut env = make_vec("py:tests.py.aliased:Plain", &config(&python(), json!({})), 1).unwrap();
    assert_eq!(reward(&mut *env).unwrap(), 2.0);
    let error = make_vec("py:tests.py.aliased:Plian-v0", &config(&python(), json!({})), 1);
    assert_contains(&error.map(drop).unwrap_err().to_string(), &["NameNotFound", "Plian"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_is_no_environment_and_no_wrapper_is_not_called() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("made");
    let command = format!("touch {}", file.display());
    let kwargs = json!({"kwargs": {"command": command}});
    let error = make_vec("py:os:system", &config(&python(), kwargs), 1).map(drop).unwrap_err().to_string();
    assert_contains(&error, &["makes no environment", "part of Python itself"]);
    let wrapped = |wrapper: &str| {
        made("Objectives", json!({"wrappers": [wrapper]}), 1).map(drop).unwrap_err().to_string()
    };
    let error = wrapped(&format!("pydoc:pipepager({command:?})"));
    assert_contains(&error, &["pipepager", "no subclass of gymnasium.Wrapper"]);
    assert!(!file.exists());
    assert_contains(&wrapped("NormalizeObservation"), &["not be in checkpoints", "`observation_filter`"]);
    assert_contains(&wrapped("TimeLimit"), &["the wrapper 'TimeLimit'", "missing 1 required"]);
    assert_contains(&wrapped("TimeLimitt(3)"), &["neither Gymnasium nor MiniGrid has it"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn the_seed_of_an_episode_reaches_an_environment_of_tuples() {
    let mut env = team(json!({})).unwrap();
    let first = reset(&mut *env, 5);
    assert_ne!(reset(&mut *env, 6).obs(0), first.obs(0));
    assert_eq!(reset(&mut *env, 5).obs(0), first.obs(0));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn spaces_that_are_not_those_of_agents_are_refused_by_what_they_are() {
    let refused = |name: &str| {
        let made = make_multi_agent(&format!("ma:tests.py.clothes:{name}"), &config(&python(), json!({})));
        made.map(drop).unwrap_err().to_string()
    };
    assert_contains(&refused("Uneven"), &["observations of 2 agents and actions of 3"]);
    assert_contains(&refused("Labelled"), &["is Dict(", "a Tuple with one space for each agent", "is `py:`"]);
}

/// The reward of the first step after the action 2.
fn reward(env: &mut dyn AnyVectorEnv) -> Result<f32> {
    let mut rows = Rows::<f32>::new(1, env.observation_space().width());
    env.reset(Some(&[1]), bytemuck::cast_slice_mut(&mut rows.obs))?;
    let out = StepOut {
        obs: bytemuck::cast_slice_mut(&mut rows.obs),
        final_obs: bytemuck::cast_slice_mut(&mut rows.final_obs),
        rewards: &mut rows.rewards,
        terminated: &mut rows.terminated,
        truncated: &mut rows.truncated,
    };
    env.step(bytemuck::cast_slice(&[2_i64]), None, out)?;
    Ok(rows.rewards[0])
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn weights_make_one_reward_of_several_objectives() {
    let weighted = |weights: Value| {
        made("Objectives", json!({"reward_weights": weights}), 1).and_then(|mut env| reward(&mut *env))
    };
    // The action 2 gives 2 and -4.
    assert_eq!(weighted(json!([1.0, 0.25])).unwrap(), 1.0);
    assert_eq!(weighted(json!([0, 1])).unwrap(), -4.0);
    let error =
        made("Objectives", json!({}), 1).and_then(|mut env| reward(&mut *env)).unwrap_err().to_string();
    assert_contains(
        &error,
        &["the reward is array([ 2., -4.]", "2 numbers", "`reward_weights` in the env_config"],
    );
    let error = weighted(json!([1, 2, 3])).unwrap_err().to_string();
    assert_contains(&error, &["which is 2 numbers, but `reward_weights` has 3", "one weight for each"]);
    // Weights of a reward that is one number would have no effect.
    let one = made("Alone", json!({"reward_weights": [0.5, 0.5]}), 1).and_then(|mut env| reward(&mut *env));
    assert_contains(&one.unwrap_err().to_string(), &["the reward is 2.0, which is 1 number", "has 2"]);
    assert_contains(&weighted(json!([])).unwrap_err().to_string(), &["`reward_weights` is []"]);
    // A list of rewards of an environment with Tuples may be one of agents.
    let error = made("Team", json!({}), 1).and_then(|mut env| check_vector_env(&mut *env));
    assert_contains(
        &error.unwrap_err().to_string(),
        &["`reward_weights`", "`ma:tests.py.clothes:Team` has 2 agents"],
    );
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_module_that_registers_in_a_function_prints_and_changes_the_directory_is_used_as_others() {
    let mut config = config(&python(), json!({}));
    let mut env = make_vec("py:tests.py.registering:Told-v0", &config, 1).unwrap();
    assert_eq!(env.max_episode_steps(), Some(17));
    assert_eq!(reward(&mut *env).unwrap(), 2.0);
    // Every further process finds the module, too.
    config.insert("num_workers".into(), json!(3));
    let mut three = make_vec("py:tests.py.registering:Told-v0", &config, 3).unwrap();
    check_vector_env(&mut *three).unwrap();
    assert!(std::env::current_dir().unwrap().ends_with("envs"));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn arguments_that_a_constructor_requires_are_named_with_the_way_to_give_them() {
    let error = made("Demanding", json!({}), 1).map(drop).unwrap_err().to_string();
    assert_contains(&error, &["missing 1 required positional argument: 'grid'", "kwargs = { grid = .. }"]);
    let error = made("Demanding", json!({"kwargs": {"grid": [1, 2]}}), 1).map(drop).unwrap_err().to_string();
    assert_contains(
        &error,
        &["missing 1 required keyword-only argument: 'speed'", "kwargs = { speed = .. }"],
    );
    made("Demanding", json!({"kwargs": {"grid": [1, 2], "speed": 0.5}}), 1).unwrap();
    let error = made("Objectives", json!({"kwargs": {"size": 3}}), 1).map(drop).unwrap_err().to_string();
    assert_contains(&error, &["`kwargs` in the env_config are the keyword arguments of its constructor"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn wrappers_choose_the_parts_of_a_dict_that_can_be_observed() {
    let wrapped = |names: &[&str], more: Value| {
        let wrappers: Vec<WrapperSpec> =
            names.iter().map(|name| serde_json::from_value(json!(name)).unwrap()).collect();
        EnvCreator::from(named("Labelled")).wrapped(&wrappers).make_vec(&config(&python(), more), 2)
    };
    // A package's own space is told by what it is.
    let error = wrapped(&[], json!({})).map(drop).unwrap_err().to_string();
    assert_contains(&error, &["it has the space Text, whose members are texts"]);
    let env = wrapped(&[r#"FilterObservation(["image", "speed"])"#], json!({})).unwrap();
    assert!(
        matches!(env.observation_space(), Space::Dict(parts) if parts.len() == 2),
        "{}",
        env.observation_space()
    );
    check_vector_env(
        &mut *wrapped(&[r#"FilterObservation(["image", "speed"])"#, "FlattenObservation"], json!({}))
            .unwrap(),
    )
    .unwrap();
    // Any wrapper of a module in Python.
    for (wrapper, space) in [
        ("tests.py.clothes:Image", "Box(0, 255, [2], u8)"),
        (r#"tests.py.clothes:Image(key="speed")"#, "Box(-1, 1, [1], f32)"),
    ] {
        let env = wrapped(&[], json!({"wrappers": [wrapper]})).unwrap();
        assert_eq!(env.observation_space().to_string(), space);
    }
    let error =
        wrapped(&[r#"FilterObservation(["image"])"#], json!({"wrappers": ["tests.py.clothes:Image"]}));
    assert_contains(&error.map(drop).unwrap_err().to_string(), &["keep one of the two"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn copies_live_in_processes_of_their_own_where_there_are_more_workers_than_copies() {
    check_vector_env(&mut *made("Alone", json!({"num_workers": 1000}), 3).unwrap()).unwrap();
    check_vector_env(&mut *made("Alone", json!({"num_workers": 1000}), 1).unwrap()).unwrap();
    // In one process there would be two.
    assert!(made("Alone", json!({"num_workers": 1}), 2).is_err());
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn turn_based_games_are_played_by_the_rules_of_several_agents() {
    let game =
        |kwargs: Value| make_multi_agent("pz:tests.py.turns", &config(&python(), json!({"kwargs": kwargs})));
    for kwargs in [json!({}), json!({"masked": false})] {
        check_any_multi_agent_env(game(kwargs.clone()).unwrap())
            .unwrap_or_else(|error| panic!("{kwargs}: {error}"));
    }
    let mut env = game(json!({"masked": false})).unwrap();
    let mut rows = reset(&mut *env, 5);
    let mut told = vec![];
    while !rows.is_over() {
        told.push((rows.acting.iter().position(|acting| *acting).unwrap(), rows.alive.clone()));
        assert_eq!(rows.acting.iter().filter(|acting| **acting).count(), 1);
        // Waiting agents' actions are not read.
        step(&mut *env, &mut rows, &[2, 2, 2]);
        told.last_mut().unwrap().1 = rows.alive.clone();
        let ended: f64 = rows.rewards.iter().sum();
        // One agent leaves with -1, and both others get 0.5 in the same step; of the last two one gets 1.
        assert_eq!(ended, 0.0, "{rows:?}");
    }
    assert!(told.iter().any(|(_, alive)| alive.iter().filter(|alive| **alive).count() == 2), "{told:?}");
    let fault = make_multi_agent("pz:json", &config(&python(), json!({}))).map(drop).unwrap_err().to_string();
    assert_contains(
        &fault,
        &["'json' has no function parallel_env() or env()", "a module of PettingZoo's form"],
    );
}

/// Everything that an environment of bytes or integers gives in random play, as numbers.
fn played(env: &mut dyn AnyMultiAgentEnv) -> Vec<String> {
    use pavlov_envs::{DType, NpRandom};
    let size = env.obs_dtype().size();
    let widths: Vec<usize> =
        (0..env.agents().len()).map(|agent| env.observation_space(agent).width()).collect();
    let actions = env.action_space(0).flat_width();
    let mut random = NpRandom::new(3);
    let mut rows = MultiAgentRows::<u8>::with_widths(widths.iter().map(|width| width * size));
    let mut moments = vec![];
    for seed in 0..5 {
        env.reset(Some(seed), rows.out()).unwrap();
        while !rows.is_over() {
            let mover = rows.acting.iter().position(|acting| *acting).unwrap();
            let mut mask = vec![false; actions];
            assert!(env.action_mask(mover, &mut mask));
            let legal: Vec<i64> = (0..actions as i64).filter(|&action| mask[action as usize]).collect();
            let mut chosen = vec![0_i64; widths.len()];
            chosen[mover] = legal[random.integers(0, legal.len() as i64) as usize];
            env.step(bytemuck::cast_slice(&chosen), rows.out()).unwrap();
            let obs: Vec<u8> = match env.obs_dtype() {
                DType::I64 => rows.obs.chunks_exact(8).map(|number| number[0]).collect(),
                _ => rows.obs.clone(),
            };
            let MultiAgentRows { rewards, terminated, truncated, alive, acting, .. } = &rows;
            moments.push(format!(
                "{obs:?} {rewards:?} {terminated:?} {truncated:?} {alive:?} {acting:?} {legal:?}"
            ));
        }
    }
    moments
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn pettingzoos_games_and_the_native_ones_are_played_alike() {
    for game in ["connect_four_v3", "tictactoe_v3"] {
        let mut native = make_multi_agent(game, &EnvConfig::new()).unwrap();
        let bridged = format!("pz:pettingzoo.classic.{game}");
        let mut bridged = make_multi_agent(&bridged, &config(&python(), json!({}))).unwrap();
        assert_eq!(bridged.agents(), native.agents());
        let (found, expected) = (played(&mut *bridged), played(&mut *native));
        assert!(expected.len() > 30, "{game}: {} moments", expected.len());
        for (moment, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{game}, moment {moment}");
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_environment_of_one_copy_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let kwargs = json!({"kwargs": {"lock": lock}});
    for num_workers in [1, 5] {
        let mut more = kwargs.clone();
        more["num_workers"] = json!(num_workers);
        check_vector_env(&mut *made("Locked", more, 1).unwrap()).unwrap();
        assert!(!lock.exists(), "it was closed");
    }
}
