//! LunarLander and BipedalWalker beside Gymnasium's, body by body: what `record_box2d.py` recorded, and live.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use pavlov_envs::{
    Element, Env, NpRandom, Space, SpaceSampler,
    native::{BipedalWalker, BodyState, LunarLander, LunarLanderAction},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, f32s, f64s},
    frames::block_means,
    py::{python, skipped},
};

/// Pixels on a side of the blocks of recorded pictures.
const BLOCK: usize = 40;

/// Bodies in the order in which Box2D made them; those that move come last.
trait Bodies: Env<Obs = f32> {
    fn states(&self) -> Vec<BodyState>;
}

impl<A: LunarLanderAction> Bodies for LunarLander<A> {
    fn states(&self) -> Vec<BodyState> {
        self.bodies().collect()
    }
}

impl Bodies for BipedalWalker {
    fn states(&self) -> Vec<BodyState> {
        self.bodies().collect()
    }
}

/// Takes the recorded actions and compares what came of them to the bit.
trait Player {
    /// What differs in this row; frames and spaces have tolerances of their own.
    fn play(&mut self, row: &Value) -> Result<(), String>;
}

struct Beside<E: Bodies> {
    env: E,
    limit: usize,
    steps: usize,
    obs: Vec<f32>,
}

impl<E: Bodies> Player for Beside<E> {
    fn play(&mut self, row: &Value) -> Result<(), String> {
        let obs = &mut self.obs;
        if row[0] == "env" {
            let Space::Box { low, high, .. } = self.env.observation_space() else { panic!("no box") };
            let [low, high] = [low, high].map(|bounds| bounds.iter().map(|&x| x as f32).collect::<Vec<_>>());
            equal("lowest observations", &low, &f32s(&row[3]))?;
            return equal("highest observations", &high, &f32s(&row[4]));
        }
        if row[0] == "frame" {
            self.env.reset(row[1].as_u64(), obs).unwrap();
            let frame = self.env.render().unwrap().unwrap();
            let expected = row[2].as_array().unwrap().iter().filter_map(Value::as_f64);
            let differences =
                block_means(&frame, BLOCK).into_iter().zip(expected).map(|(a, b)| (a - b).abs());
            let worst = differences.fold(0.0, f64::max);
            // An edge half a pixel aside changes a block by at most 255 / 80; in a few, several edges meet.
            let most = 5.0 * 255.0 / (2.0 * BLOCK as f64);
            return if worst <= most {
                Ok(())
            } else {
                Err(format!("a block of the picture differs by {worst}"))
            };
        }
        let (expected_obs, expected_bodies) = if row[0] == "reset" {
            self.steps = 0;
            self.env.reset(row[1].as_u64(), obs).unwrap();
            (&row[2], &row[3])
        } else {
            let action: Vec<E::Act> = match &row[1] {
                Value::String(_) => f32s(&row[1]).into_iter().map(|x| E::Act::from_f64(x.into())).collect(),
                action => vec![E::Act::from_f64(action.as_f64().unwrap())],
            };
            let step = self.env.step(&action, obs).unwrap();
            self.steps += 1;
            let found = (step.reward.to_bits(), step.terminated, self.steps >= self.limit);
            let expected_reward = f64s(&row[3])[0];
            let expected = (expected_reward.to_bits(), row[4].as_bool().unwrap(), row[5].as_bool().unwrap());
            if found != expected {
                return Err(format!("{step:?} against {expected_reward}, {} and {}", row[4], row[5]));
            }
            (&row[2], &row[6])
        };
        equal("observations", obs, &f32s(expected_obs))?;
        let expected = f32s(expected_bodies);
        let states = self.env.states();
        let found: Vec<f32> = states[states.len() - expected.len() / 6..]
            .iter()
            .flat_map(|body| {
                let [x, y] = body.position;
                let [vx, vy] = body.linear_velocity;
                [x, y, body.angle, vx, vy, body.angular_velocity]
            })
            .collect();
        equal("bodies", &found, &expected)
    }
}

fn equal(what: &str, found: &[f32], expected: &[f32]) -> Result<(), String> {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    if bits(found) == bits(expected) { Ok(()) } else { Err(format!("{what} {found:?} against {expected:?}")) }
}

fn player(id: &str, config: &Value) -> Box<dyn Player> {
    fn beside<E: Bodies>(env: E, limit: usize) -> Box<dyn Player> {
        let obs = vec![0.0; env.observation_space().width()];
        Box::new(Beside { env, limit, steps: 0, obs })
    }
    match id {
        "LunarLander-v3" if config["continuous"] == true => {
            beside(LunarLander::<f32>::new(decode(config)).unwrap(), 1000)
        }
        "LunarLander-v3" => beside(LunarLander::<i64>::new(decode(config)).unwrap(), 1000),
        "BipedalWalker-v3" => beside(BipedalWalker::new(decode(config)), 1600),
        "BipedalWalkerHardcore-v3" => beside(BipedalWalker::new(decode(&json!({"hardcore": true}))), 2000),
        other => panic!("{other}"),
    }
}

fn decode<C: DeserializeOwned>(config: &Value) -> C {
    serde_json::from_value(config.clone()).unwrap()
}

#[test]
fn bodies_observations_and_rewards_equal_recorded_ones() {
    let fixture = Fixture::open("box2d.jsonl");
    if !fixture.is_exact() {
        return skipped(
            "the sines of this machine's C library differ from those of the recording in the last bit",
        );
    }
    let mut problems = vec![];
    for rows in fixture.rows.chunk_by(|_, next| next[0] != "env") {
        let mut player = player(rows[0][1].as_str().unwrap(), &rows[0][2]);
        let first =
            rows.iter().enumerate().find_map(|(i, row)| player.play(row).err().map(|problem| (i, problem)));
        problems
            .extend(first.map(|(i, problem)| format!("{} {}, row {i}: {problem}", rows[0][1], rows[0][2])));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Steps of random play, with an episode after the other: every observation and reward.
fn play<E: Bodies>(env: &mut E, actions: &[Vec<E::Act>]) -> Vec<u64> {
    let mut obs = vec![0.0; env.observation_space().width()];
    let mut bits = vec![];
    for action in actions {
        let step = env.step(action, &mut obs).unwrap();
        if step.terminated {
            env.reset(None, &mut obs).unwrap();
        }
        bits.push(step.reward.to_bits());
        bits.extend(obs.iter().map(|x| u64::from(x.to_bits())));
    }
    bits
}

fn random_actions<E: Bodies>(env: &E, seed: u64, n: usize) -> Vec<Vec<E::Act>> {
    let space = env.action_space();
    let mut sampler = SpaceSampler::new(&space, seed);
    let sample = |_| {
        let mut action = vec![E::Act::default(); space.width()];
        sampler.sample(&mut action);
        action
    };
    (0..n).map(sample).collect()
}

fn check_states<E: Bodies>(mut env: E, mut other: E) {
    let mut obs = vec![0.0; env.observation_space().width()];
    env.reset(Some(3), &mut obs).unwrap();
    other.reset(Some(8), &mut obs).unwrap();
    for round in 0..4 {
        let actions = random_actions(&env, round, 67);
        play(&mut env, &actions);
        let state = env.save_state().unwrap();
        other.load_state(&state).unwrap();
        assert_eq!(other.save_state().unwrap(), state);
        let actions = random_actions(&env, 100 + round, 250);
        assert!(play(&mut env, &actions) == play(&mut other, &actions), "round {round}");
    }
    // Damage is refused, or leaves a state from which no step panics or hangs.
    let state = env.save_state().unwrap();
    for len in (0..state.len()).step_by(101) {
        assert!(other.load_state(&state[..len]).is_err(), "{len} of {} bytes", state.len());
    }
    let mut random = NpRandom::new(5);
    for _ in 0..200 {
        let mut damaged = state.clone();
        let at = random.integers(0, damaged.len() as i64) as usize;
        damaged[at] ^= 1 << random.integers(0, 8);
        if other.load_state(&damaged).is_ok() {
            let _ = other.render().unwrap();
            for action in random_actions(&other, 1, 3) {
                let _ = other.step(&action, &mut obs);
            }
            other.reset(None, &mut obs).unwrap();
        }
    }
}

#[test]
fn worlds_saved_in_the_middle_of_an_episode_go_on_with_the_same_bits() {
    let lander = || LunarLander::<i64>::new(decode(&json!({"enable_wind": true}))).unwrap();
    check_states(lander(), lander());
    let walker = || BipedalWalker::new(decode(&json!({"hardcore": true})));
    check_states(walker(), walker());
}

#[test]
fn an_episode_of_a_walker_is_a_function_of_its_seed_whatever_was_before() {
    let mut obs = vec![0.0; 24];
    let mut used = BipedalWalker::new(decode(&json!({})));
    let mut fresh = BipedalWalker::new(decode(&json!({})));
    used.reset(Some(1), &mut obs).unwrap();
    let actions = random_actions(&used, 1, 500);
    play(&mut used, &actions);
    used.reset(Some(7), &mut obs).unwrap();
    fresh.reset(Some(7), &mut obs).unwrap();
    assert!(play(&mut used, &actions) == play(&mut fresh, &actions));
}

#[test]
fn settings_of_a_lander_are_refused_with_the_rule() {
    let refused = |config: &str| {
        let config = serde_json::from_str(config).unwrap();
        pavlov_envs::make_vec("LunarLander-v3", &config, 1).unwrap_err().to_string()
    };
    let text = refused(r#"{"gravity": -12.0}"#);
    assert!(text.contains("`gravity` is -12, but it must be between -12 and 0"), "{text}");
    let text = refused(r#"{"wind": true}"#);
    assert!(text.contains("no setting `wind`"), "{text}");
    let text = refused(r#"{"continuos": true}"#);
    assert!(text.contains("no setting `continuos`; nearest: `continuous`"), "{text}");
}

#[test]
fn the_continuous_lander_has_an_id_and_a_setting() {
    for (id, config, width) in [
        ("LunarLander-v3", "{}", 1),
        ("LunarLander-v3", r#"{"continuous": true}"#, 2),
        ("LunarLanderContinuous-v3", "{}", 2),
    ] {
        let env = pavlov_envs::make_vec(id, &serde_json::from_str(config).unwrap(), 1).unwrap();
        assert_eq!(env.action_space().width(), width, "{id} {config}");
    }
}

/// Rows, episodes.
fn play_live(python: &str, id: &str, config: &Value, seed: u64, steps: usize) -> (usize, usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record_box2d.py");
    let mut command = Command::new(python);
    command.arg(script).args(["rows", id, &config.to_string(), &seed.to_string(), &steps.to_string()]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut player = player(id, config);
    let mut rows = 0;
    let mut episodes = 0;
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        episodes += usize::from(row[0] == "reset");
        player.play(&row).unwrap_or_else(|problem| {
            panic!("{id} {config}, seed {seed}, row {rows}, episode {episodes}: {problem}")
        });
        rows += 1;
    }
    assert!(process.wait().unwrap().success());
    assert_eq!(rows, steps + episodes, "{id}");
    (rows, episodes)
}

const CONFIGS: [(&str, &str); 6] = [
    ("LunarLander-v3", "{}"),
    ("LunarLander-v3", r#"{"enable_wind": true}"#),
    ("LunarLander-v3", r#"{"continuous": true, "gravity": -4.0}"#),
    (
        "LunarLander-v3",
        r#"{"continuous": true, "enable_wind": true, "wind_power": 20.0, "turbulence_power": 2.0}"#,
    ),
    ("BipedalWalker-v3", "{}"),
    ("BipedalWalkerHardcore-v3", "{}"),
];

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn every_body_stays_equal_to_gymnasium_over_episodes_that_continue() {
    let python = python();
    for (id, config) in CONFIGS {
        play_live(&python, id, &serde_json::from_str(config).unwrap(), 2_u64.pow(33) + 5, 2500);
    }
}

#[test]
#[ignore = "some minutes: run it with `-- --ignored` after a change to Box2D or its environments"]
fn long_every_body_stays_equal_to_gymnasium_over_many_seeds() {
    let python = python();
    for (id, config) in CONFIGS {
        let mut rows = 0;
        let mut episodes = 0;
        for seed in 0..10 {
            let played = play_live(&python, id, &serde_json::from_str(config).unwrap(), seed, 6000);
            rows += played.0;
            episodes += played.1;
        }
        println!("{id} {config}: {rows} rows, {episodes} episodes, all equal");
    }
}
