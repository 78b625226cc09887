//! LunarLander and BipedalWalker beside Gymnasium's, body by body: what `record_box2d.py` recorded, and live.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use pavlov_envs::{BipedalWalker, BodyState, Element, Env, LunarLander, LunarLanderAction};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{Fixture, f32s, f64s};

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
    /// What differs in this row.
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
                let ([x, y], [vx, vy]) = (body.position, body.linear_velocity);
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
        return;
    }
    let mut playing: Option<(String, Box<dyn Player>)> = None;
    for (i, row) in fixture.rows.iter().enumerate() {
        if row[0] == "env" {
            playing = Some((format!("{} {}", row[1], row[2]), player(row[1].as_str().unwrap(), &row[2])));
            continue;
        }
        let (name, player) = playing.as_mut().unwrap();
        player.play(row).unwrap_or_else(|problem| panic!("{name}, row {i}: {problem}"));
    }
}

/// Rows, episodes.
fn play_live(python: &Path, id: &str, config: &Value, seed: u64, steps: usize) -> (usize, usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record_box2d.py");
    let mut command = Command::new(python);
    command.arg(script).args(["rows", id, &config.to_string(), &seed.to_string(), &steps.to_string()]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut player = player(id, config);
    let (mut rows, mut episodes) = (0, 0);
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        episodes += usize::from(row[0] == "reset");
        player
            .play(&row)
            .unwrap_or_else(|problem| panic!("{id} {config}, seed {seed}, row {rows}, episode {episodes}: {problem}"));
        rows += 1;
    }
    assert!(process.wait().unwrap().success());
    assert_eq!(rows, steps + episodes, "{id}");
    (rows, episodes)
}

fn python() -> Option<std::path::PathBuf> {
    let python = std::env::var_os("PAVLOV_TEST_PYTHON");
    if python.is_none() {
        // Not `eprintln!`: the test harness would swallow it.
        let note = b"skipped: set PAVLOV_TEST_PYTHON to a Python that has gymnasium and box2d\n";
        std::io::stderr().write_all(note).unwrap();
    }
    python.map(Into::into)
}

const CONFIGS: [(&str, &str); 6] = [
    ("LunarLander-v3", "{}"),
    ("LunarLander-v3", r#"{"enable_wind": true}"#),
    ("LunarLander-v3", r#"{"continuous": true, "gravity": -4.0}"#),
    ("LunarLander-v3", r#"{"continuous": true, "enable_wind": true, "wind_power": 20.0, "turbulence_power": 2.0}"#),
    ("BipedalWalker-v3", "{}"),
    ("BipedalWalkerHardcore-v3", "{}"),
];

#[test]
fn every_body_stays_equal_to_gymnasium_over_episodes_that_continue() {
    let Some(python) = python() else { return };
    for (id, config) in CONFIGS {
        play_live(&python, id, &serde_json::from_str(config).unwrap(), 2_u64.pow(33) + 5, 2500);
    }
}

#[test]
#[ignore = "some minutes"]
fn every_body_stays_equal_to_gymnasium_over_many_seeds() {
    let Some(python) = python() else { return };
    for (id, config) in CONFIGS {
        let (mut rows, mut episodes) = (0, 0);
        for seed in 0..10 {
            let played = play_live(&python, id, &serde_json::from_str(config).unwrap(), seed, 6000);
            (rows, episodes) = (rows + played.0, episodes + played.1);
        }
        println!("{id} {config}: {rows} rows, {episodes} episodes, all equal");
    }
}
