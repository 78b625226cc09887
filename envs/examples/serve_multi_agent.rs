//! Serves a multi-agent environment over stdin and stdout, one JSON value per line; `tests/live_pettingzoo.py` is a
//! client.
//!
//!     cargo run -p pavlov-envs --example serve_multi_agent -- simple_spread_v3 '{"N": 5}'
//!
//! The first line out holds the agents and their spaces. `{"reset": 7}` (or `null`, to continue the random stream) and
//! `{"step": [1, 0, 4]}` (the actions of all agents, one after the other) answer with observations as hex digits of
//! their bytes, one string per agent, rewards, flags and masks; or with `{"error": "..."}`.

use std::{
    env,
    io::{self, BufRead, Write},
};

use pavlov_envs::{AnyMultiAgentEnv, DType, EnvConfig, Error, MultiAgentRows, Result, make_multi_agent};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let id = arguments.next().ok_or_else(|| Error::other("usage: serve_multi_agent ID [SETTINGS]"))?;
    let config: EnvConfig = match arguments.next() {
        Some(settings) => serde_json::from_str(&settings).map_err(Error::other)?,
        None => EnvConfig::new(),
    };
    let mut env = make_multi_agent(&id, &config)?;
    let mut out = io::stdout().lock();
    let spaces: Vec<_> =
        (0..env.agents().len()).map(|i| json!([env.observation_space(i), env.action_space(i)])).collect();
    say(&mut out, &json!({"agents": env.agents(), "spaces": spaces}))?;

    let widths: Vec<usize> = (0..env.agents().len()).map(|i| env.observation_space(i).width()).collect();
    let size = env.obs_dtype().size();
    // Aligned for every scalar.
    let mut words = vec![0_u64; (widths.iter().sum::<usize>() * size).div_ceil(8)];
    let mut rows = MultiAgentRows::<u8>::with_widths(widths.iter().map(|width| width * size));
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.map_err(Error::other)?).map_err(Error::other)?;
        let answer = match serve(&mut *env, &request, &mut words, &mut rows) {
            Ok(()) => json!({
                "obs": (0..widths.len()).map(|i| hex(rows.obs(i))).collect::<Vec<_>>(),
                "rewards": rows.rewards,
                "terminated": rows.terminated,
                "truncated": rows.truncated,
                "alive": rows.alive,
                "acting": rows.acting,
            }),
            Err(error) => json!({"error": error.to_string()}),
        };
        say(&mut out, &answer)?;
    }
    Ok(())
}

fn serve(
    env: &mut dyn AnyMultiAgentEnv,
    request: &Value,
    words: &mut [u64],
    rows: &mut MultiAgentRows<u8>,
) -> Result<()> {
    let len = rows.obs.len();
    let mut out = rows.out();
    out.obs = &mut bytemuck::cast_slice_mut(words)[..len];
    match (request.get("reset"), request.get("step").and_then(Value::as_array)) {
        (Some(seed), _) => env.reset(seed.as_u64(), out)?,
        (_, Some(actions)) => {
            let numbers: Option<Vec<f64>> = actions.iter().map(Value::as_f64).collect();
            let numbers = numbers.ok_or_else(|| Error::other("`step` holds something that is no number"))?;
            match env.act_dtype() {
                DType::I64 => {
                    let actions: Vec<i64> = numbers.iter().map(|&x| x as i64).collect();
                    env.step(bytemuck::cast_slice(&actions), out)?;
                }
                DType::F32 => {
                    let actions: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
                    env.step(bytemuck::cast_slice(&actions), out)?;
                }
                other => return Err(Error::other(format!("actions of {other} are not served"))),
            }
        }
        _ => return Err(Error::other(format!("{request} is neither a reset nor a step"))),
    }
    rows.obs.copy_from_slice(&bytemuck::cast_slice(words)[..len]);
    Ok(())
}

fn say(out: &mut impl Write, answer: &Value) -> Result<()> {
    writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(Error::other)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
