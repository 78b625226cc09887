//! Serves a native environment over stdin and stdout, one JSON value per line; `tests/live_gymnasium.py` is a client.
//!
//!     cargo run -p pavlov-envs --example serve -- FrozenLake-v1 '{"is_slippery": false}'
//!
//! The first line out holds the spaces, and the texts of the missions of `MiniGrid-*`. `{"reset": 7}` (or `null`, to
//! continue the random stream) and `{"step": [1]}` answer with the observation as hex digits of its bytes, the reward as
//! those of its 64 bits, flags, `prob`, the action mask and the state as text where there are any; or with
//! `{"error": "..."}`.

use std::{
    env,
    io::{self, BufRead, Write},
};

use pavlov_envs::{
    Element, Env, EnvConfig, Error, Result, Step, make_vec,
    native::{
        Acrobot, Blackjack, CartPole, CliffWalking, FrozenLake, MiniGrid, MiniGridObs, MountainCar,
        MountainCarContinuous, Pendulum, Taxi,
    },
    spec,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let id = arguments.next().ok_or_else(|| Error::other("usage: serve ID [SETTINGS]"))?;
    let settings = arguments.next().unwrap_or_else(|| "{}".into());
    let mut given: EnvConfig = decode(&settings)?;
    // Refuses unknown ids and settings.
    make_vec(&id, &given, 1)?;
    if id.starts_with("MiniGrid-") {
        let image_only = given
            .get("wrappers")
            .and_then(Value::as_array)
            .is_some_and(|wrappers| wrappers.last().is_some_and(|last| last == "ImgObsWrapper"));
        return if image_only {
            serve_minigrid::<u8>(&id, &given)
        } else {
            serve_minigrid::<i64>(&id, &given)
        };
    }
    // What these ids have instead of the default; a given setting goes before.
    let preset = match id.as_str() {
        "FrozenLake8x8-v1" => Some(("map_name", "8x8".into())),
        "CliffWalkingSlippery-v1" => Some(("is_slippery", true.into())),
        _ => None,
    };
    if let Some((key, value)) = preset {
        given.entry(key).or_insert(value);
    }
    let settings = Value::Object(given).to_string();
    let limit = spec(&id)?.max_episode_steps;
    match id.as_str() {
        "CartPole-v0" | "CartPole-v1" => serve(CartPole::new(decode(&settings)?), limit),
        "MountainCar-v0" => serve(MountainCar::new(decode(&settings)?), limit),
        "MountainCarContinuous-v0" => serve(MountainCarContinuous::new(decode(&settings)?), limit),
        "Pendulum-v1" => serve(Pendulum::new(decode(&settings)?), limit),
        "Acrobot-v1" => serve(Acrobot::new(decode(&settings)?), limit),
        "FrozenLake-v1" | "FrozenLake8x8-v1" => serve(FrozenLake::new(decode(&settings)?)?, limit),
        "Taxi-v4" => serve(Taxi::new(decode(&settings)?)?, limit),
        "CliffWalking-v1" | "CliffWalkingSlippery-v1" => serve(CliffWalking::new(decode(&settings)?), limit),
        "Blackjack-v1" => serve(Blackjack::new(decode(&settings)?), limit),
        _ => Err(Error::other(format!("{id} is not a native environment"))),
    }
}

fn decode<C: DeserializeOwned>(settings: &str) -> Result<C> {
    serde_json::from_str(settings).map_err(Error::other)
}

fn serve<E: Env>(env: E, limit: Option<usize>) -> Result<()> {
    serve_with(env, limit, json!([]))
}

fn serve_minigrid<O: MiniGridObs>(id: &str, settings: &EnvConfig) -> Result<()> {
    let env = MiniGrid::<O>::new(id, settings)?;
    let missions = (0..env.num_missions()).map(|index| env.mission_text(index)).collect();
    // It truncates itself.
    serve_with(env, None, missions)
}

fn serve_with<E: Env>(mut env: E, limit: Option<usize>, missions: Value) -> Result<()> {
    let mut out = io::stdout().lock();
    let observation_space = env.observation_space();
    let action_space = env.action_space();
    say(
        &mut out,
        &json!({"observation_space": observation_space, "action_space": action_space, "missions": missions}),
    )?;
    let mut obs = vec![E::Obs::default(); observation_space.width()];
    let mut mask = vec![false; action_space.flat_width()];
    let mut steps = 0;
    for line in io::stdin().lock().lines() {
        let request: Value = decode(&line.map_err(Error::other)?)?;
        let answer = match answer(&mut env, &request, &mut obs) {
            Ok(step) => {
                steps = if step.is_some() { steps + 1 } else { 0 };
                let step = step.unwrap_or_default();
                json!({
                    "obs": hex(bytemuck::cast_slice(&obs)),
                    "reward": hex(&step.reward.to_ne_bytes()),
                    "terminated": step.terminated,
                    "truncated": step.truncated || limit.is_some_and(|limit| steps >= limit),
                    "prob": env.info("prob"),
                    "mask": env.action_mask(&mut mask).then_some(&mask),
                    "ansi": env.render_ansi()?,
                })
            }
            Err(error) => json!({"error": error.to_string()}),
        };
        say(&mut out, &answer)?;
    }
    Ok(())
}

/// `None` for a reset.
fn answer<E: Env>(env: &mut E, request: &Value, obs: &mut [E::Obs]) -> Result<Option<Step>> {
    if let Some(seed) = request.get("reset") {
        return env.reset(seed.as_u64(), obs).map(|()| None);
    }
    let Some(action) = request["step"].as_array() else {
        return Err(Error::other(format!("{request} is neither a reset nor a step")));
    };
    let action: Vec<E::Act> =
        action.iter().map(|value| E::Act::from_f64(value.as_f64().unwrap_or(f64::NAN))).collect();
    env.step(&action, obs).map(Some)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn say(out: &mut impl Write, answer: &Value) -> Result<()> {
    writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(Error::other)
}
