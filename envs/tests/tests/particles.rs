//! mpe2's particle environments, as `record_pettingzoo.py` recorded them, and what they refuse.

use pavlov_envs::{
    EnvConfig, Error, MultiAgentEnv, MultiAgentRows, TypedMultiAgentEnv, check_any_multi_agent_env,
    make_multi_agent, multi_agent_ids, multi_agent_spec,
    native::{ParticleAction, SimpleTag, SimpleTagConfig},
};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, bits, f32s, f64s},
    states::{Particles, edited},
};

/// The ids of all particle environments.
fn ids() -> Vec<String> {
    let ids: Vec<String> = multi_agent_ids().into_iter().filter(|id| id.starts_with("simple_")).collect();
    assert!(ids.len() >= 9, "{ids:?}");
    ids
}

fn config(settings: &Value) -> EnvConfig {
    settings.as_object().unwrap().clone()
}

fn make<A: ParticleAction>(id: &str, settings: &Value) -> TypedMultiAgentEnv<f32, A> {
    TypedMultiAgentEnv::new(make_multi_agent(id, &config(settings)).unwrap()).unwrap()
}

fn numbers(actions: &Value) -> Vec<i64> {
    actions.as_array().unwrap().iter().filter_map(Value::as_i64).collect()
}

#[test]
fn recorded_episodes_of_mpe2_are_played_again() {
    let fixture = Fixture::open("particles.jsonl");
    let exact = fixture.is_exact();
    let mut terminated = 0;
    for episode in &fixture.rows {
        let id = episode["id"].as_str().unwrap();
        let settings = &episode["config"];
        terminated += usize::from(episode["terminated"] == true);
        match (episode["stage"].as_u64(), settings["continuous_actions"] == true) {
            (Some(stage), _) => {
                let settings: SimpleTagConfig = serde_json::from_value(settings.clone()).unwrap();
                let mut env = SimpleTag::new(settings).unwrap();
                env.set_curriculum_stage(stage as usize);
                assert_eq!((env.curriculum_stage() as u64, id), (stage, "simple_tag_v3"));
                replay(&mut env, episode, numbers, exact);
            }
            (None, false) => replay(&mut make::<i64>(id, settings), episode, numbers, exact),
            (None, true) => replay(&mut make::<f32>(id, settings), episode, f32s, exact),
        }
    }
    assert_eq!(terminated, 1);
}

fn replay<E: MultiAgentEnv<Obs = f32>>(
    env: &mut E,
    episode: &Value,
    actions: impl Fn(&Value) -> Vec<E::Act>,
    exact: bool,
) {
    let mut rows = MultiAgentRows::new(env);
    env.reset(episode["seed"].as_u64(), rows.out()).unwrap();
    let steps = episode["actions"].as_array().unwrap();
    for t in 0..=steps.len() {
        let place = format!("{} {}, stage {}, step {t}", episode["id"], episode["config"], episode["stage"]);
        if t > 0 {
            env.step(&actions(&steps[t - 1]), rows.out()).unwrap();
            assert_equal(&rows.rewards, &f64s(&episode["rewards"][t - 1]), exact, &place);
        }
        let doubles = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        assert_equal(&doubles(&rows.obs), &doubles(&f32s(&episode["obs"][t])), exact, &place);
        let ended = [rows.terminated.contains(&true), rows.truncated.contains(&true)];
        let done = episode["terminated"] == true;
        assert_eq!(ended, [done, !done].map(|flag| flag && t == steps.len()), "{place}");
    }
    assert!(rows.is_over());
}

fn assert_equal(found: &[f64], expected: &[f64], exact: bool, place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    if exact {
        assert_eq!(bits(found), bits(expected), "{place}: {found:?} against {expected:?}");
    } else {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6;
        assert!(found.iter().zip(expected).all(near), "{place}: {found:?} against {expected:?}");
    }
}

#[test]
fn particle_environments_keep_the_contract_with_either_kind_of_action() {
    for id in &ids() {
        for continuous in [false, true] {
            let settings = json!({"continuous_actions": continuous, "max_cycles": 10});
            let env = make_multi_agent(id, &config(&settings)).unwrap();
            check_any_multi_agent_env(env).unwrap_or_else(|error| panic!("{id} {settings}: {error}"));
        }
        assert_eq!(multi_agent_spec(id).unwrap().max_episode_steps, Some(25));
    }
}

/// Steps from a loaded state equal those that went on, in the middle of an episode and into the next.
#[test]
fn a_loaded_state_continues_goals_words_and_speeds() {
    for id in &ids() {
        let settings = json!({"max_cycles": 8});
        let mut first = make::<i64>(id, &settings);
        let mut second = make::<i64>(id, &settings);
        let mut rows = MultiAgentRows::new(&first);
        let actions = |t: usize| -> Vec<i64> {
            let spaces = (0..first_agents(id)).map(|agent| make::<i64>(id, &json!({})).action_space(agent));
            spaces
                .enumerate()
                .map(|(agent, space)| ((3 * t + agent + 1) % space.flat_width()) as i64)
                .collect()
        };
        first.reset(Some(11), rows.out()).unwrap();
        (0..5).for_each(|t| first.step(&actions(t), rows.out()).unwrap());
        let state = first.save_state().unwrap();
        let mut other = MultiAgentRows::new(&second);
        second.reset(Some(4), other.out()).unwrap();
        second.load_state(&state).unwrap();
        for t in 5..14 {
            if rows.is_over() {
                first.reset(None, rows.out()).unwrap();
                second.reset(None, other.out()).unwrap();
            }
            first.step(&actions(t), rows.out()).unwrap();
            second.step(&actions(t), other.out()).unwrap();
            assert_eq!(rows, other, "{id}, step {t}");
        }
        for len in [0, 20, state.len() - 1] {
            assert!(second.load_state(&state[..len]).is_err(), "{id}: {len} bytes");
        }
    }
    // The speed of the prey is that of the stage at the last reset.
    let settings = SimpleTagConfig { curriculum: true, num_adversaries: 0, ..SimpleTagConfig::default() };
    let mut slow = SimpleTag::<i64>::new(settings).unwrap();
    let mut loaded = SimpleTag::new(settings).unwrap();
    let mut rows = MultiAgentRows::new(&slow);
    slow.reset(Some(0), rows.out()).unwrap();
    slow.set_curriculum_stage(7);
    assert_eq!(slow.curriculum_stage(), 2);
    loaded.load_state(&slow.save_state().unwrap()).unwrap();
    slow.step(&[2], rows.out()).unwrap();
    // Half of 4 in 0.1.
    assert_eq!(rows.obs(0)[0], 0.2);
    loaded.step(&[2], rows.out()).unwrap();
    assert_eq!(rows.obs(0)[0], 0.2);
    loaded.reset(Some(0), rows.out()).unwrap();
    loaded.step(&[2], rows.out()).unwrap();
    assert_eq!(rows.obs(0)[0], 0.4);
}

fn first_agents(id: &str) -> usize {
    make_multi_agent(id, &EnvConfig::new()).unwrap().agents().len()
}

#[test]
fn a_goal_that_is_no_landmark_is_a_damaged_state() {
    let mut env = make::<i64>("simple_push_v3", &json!({}));
    let state = env.save_state().unwrap();
    let damaged = edited(&state, |(_, goals, ..): &mut Particles| goals[0] = 2);
    let error = env.load_state(&damaged).unwrap_err();
    assert!(matches!(error, Error::State { .. }) && error.to_string().contains("landmark 2"), "{error}");
}

#[test]
fn settings_without_which_there_is_no_episode_are_refused() {
    let message =
        |id: &str, settings: Value| make_multi_agent(id, &config(&settings)).unwrap_err().to_string();
    for (id, name) in [
        ("simple_v3", "max_cycles"),
        ("simple_adversary_v3", "N"),
        ("simple_adversary_v3", "num_landmark_neighbors"),
        ("simple_tag_v3", "num_agent_neighbors"),
        ("simple_world_comm_v3", "num_good"),
        ("simple_world_comm_v3", "num_food"),
    ] {
        let expected = format!("env_config of {id}: `{name}` is 0, but it must be at least 1");
        assert_eq!(message(id, json!({name: 0})), expected);
    }
    assert_eq!(
        message("simple_tag_v3", json!({"num_good": 0, "num_adversaries": 0})),
        "env_config of simple_tag_v3: `num_good` and `num_adversaries` are 0, but there must be an agent"
    );
    assert_eq!(
        message("simple_reference_v3", json!({"local_ratio": -0.5})),
        "env_config of simple_reference_v3: `local_ratio` is -0.5, but it must be in 0..=1"
    );

    let mut env = make::<i64>("simple_reference_v3", &json!({}));
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let error = env.step(&[49, 50], rows.out()).unwrap_err().to_string();
    assert_eq!(error, "action 50 is not in Discrete(50) of simple_reference_v3");
    let error = env.step(&[0; 3], rows.out()).unwrap_err().to_string();
    assert_eq!(error, "`actions` is 3 long, but it must be 2 long (the agents' actions)");
}

#[test]
fn pictures_show_forests_around_the_landmarks_of_simple_world_comm() {
    let mut env = make::<i64>("simple_world_comm_v3", &json!({"dynamic_rescaling": false}));
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let frame = env.render().unwrap().unwrap();
    assert_eq!((frame.width, frame.height), (700, 700));
    let forest = frame.rgb.chunks_exact(3).filter(|pixel| *pixel == [120, 180, 120]).count();
    // Two discs with a radius of 0.3 x 350 pixels, which may overlap or stand out of the picture.
    assert!((20_000..70_000).contains(&forest), "{forest} pixels");
}
