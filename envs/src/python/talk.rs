//! The protocol between a Python environment and its worker: requests, answers and faults.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::{
    config::PyConfig,
    episode::CopyPosition,
    slabs::{Memory, Offsets, RowLayout},
    worker::{Answer, Worker},
};
use crate::{Error, Frame, Result, Space};

/// The fault that ended the workers.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) position: Option<CopyPosition>,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn error(&self, env: &str) -> Error {
        let error = Error::Python { env: env.into(), message: self.message.clone() };
        match self.position {
            Some(CopyPosition { row, seed, step }) => {
                Error::Env { env: row, seed, step, source: Box::new(error) }
            }
            None => error,
        }
    }
}

pub(super) enum Drawn<T> {
    Picture(T),
    /// The environment has no such render mode.
    Nothing,
    /// The environment has the render mode, but was made with another one; the text is a hint what to set.
    NotAsked(&'static str),
}

impl<T> Drawn<T> {
    pub(super) fn picture(self, env: &str) -> Result<Option<T>> {
        match self {
            Self::Picture(picture) => Ok(Some(picture)),
            Self::Nothing => Ok(None),
            Self::NotAsked(way_out) => Err(Error::unsupported(env, "picture to draw", way_out)),
        }
    }

    /// Explains a missing picture by the render modes that the worker listed.
    fn none(modes: &Value, mode: &str, way_out: &'static str) -> Self {
        let can = modes.as_array().is_some_and(|modes| modes.contains(&json!(mode)));
        if can { Self::NotAsked(way_out) } else { Self::Nothing }
    }
}

/// Largest size of a picture, in bytes.
const LARGEST_PICTURE: usize = 1 << 30;

const MAKE_FRAMES: &str = "give it `render_mode` = \"rgb_array\" in the `kwargs` of its env_config";
const MAKE_TEXT: &str = "give it `render_mode` = \"ansi\" in the `kwargs` of its env_config";

pub(super) fn draw(worker: &mut Worker, row: usize) -> Answer<Drawn<Frame>> {
    worker.request(&json!({"do": "render", "row": row}))?;
    let answer = worker.line("render")?;
    let size = |i: usize| answer["frame"][i].as_u64().map(|size| size as usize);
    let (Some(height), Some(width)) = (size(0), size(1)) else {
        return Ok(Drawn::none(&answer["modes"], "rgb_array", MAKE_FRAMES));
    };
    let bytes = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(3));
    let Some(bytes) = bytes.filter(|bytes| *bytes <= LARGEST_PICTURE) else {
        worker.kill();
        return Err(format!(
            "its picture of {height} x {width} pixels is too large: it must have at most {LARGEST_PICTURE} bytes"
        ));
    };
    let mut rgb = vec![0; bytes];
    worker.read_exact(&mut rgb, "render")?;
    Ok(Drawn::Picture(Frame { width, height, rgb }))
}

pub(super) fn draw_ansi(worker: &mut Worker, row: usize) -> Answer<Drawn<String>> {
    worker.request(&json!({"do": "render_ansi", "row": row}))?;
    let answer = worker.line("render")?;
    Ok(match answer["text"].as_str() {
        Some(text) => Drawn::Picture(text.into()),
        None => Drawn::none(&answer["modes"], "ansi", MAKE_TEXT),
    })
}

/// Asks for a value of any kind in the last `info` of a row.
pub(super) fn info_value(worker: &mut Worker, row: usize, key: &str) -> Answer<Option<Value>> {
    worker.request(&json!({"do": "info", "row": row, "key": key}))?;
    let mut answer = worker.line("info")?;
    Ok(Some(answer["value"].take()).filter(|value| !value.is_null()))
}

/// Asks for the rewards of rows of goals, achieved and desired; returns false if the environment does not compute any.
pub(super) fn rewards_of(worker: &mut Worker, goals: [&[f64]; 2], rewards: &mut [f64]) -> Answer<bool> {
    let size = goals.iter().map(|goals| size_of_val(*goals)).sum::<usize>();
    worker.request(&json!({"do": "compute_rewards", "rows": rewards.len(), "size": size}))?;
    for goals in goals {
        worker.write(bytemuck::cast_slice(goals))?;
    }
    let has_goals = worker.line("compute_rewards")?["has_goals"] == true;
    if has_goals {
        worker.read_exact(bytemuck::cast_slice_mut(rewards), "compute_rewards")?;
    }
    Ok(has_goals)
}

/// Asks what was said of observations, rewards and flags so far.
pub(super) fn remarks(worker: &mut Worker) -> Answer<Vec<String>> {
    worker.request(&json!({"do": "remarks"}))?;
    let mut answer = worker.line("remarks")?;
    serde_json::from_value(answer["remarks"].take()).map_err(|error| format!("its remarks: {error}"))
}

pub(super) fn first_message(id: &str, config: &PyConfig) -> Map<String, Value> {
    let first_message = [
        ("id", json!(id)),
        ("kwargs", json!(config.kwargs)),
        ("info_keys", json!(config.info_keys)),
        ("reward_weights", json!(config.reward_weights)),
        ("wrappers", json!(config.wrappers)),
        ("vectorization", json!(config.vectorization)),
    ];
    first_message.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Makes the request to worker `worker` to create its part of the environment: rows `own`, one per copy or agent.
pub(super) fn start_request(
    memory: &Memory,
    offsets: &Offsets,
    rows: &RowLayout,
    worker: usize,
    own: Range<usize>,
) -> Value {
    let RowLayout { num_envs, obs_width, obs_dtype, act_width, act_dtype, num_masked, .. } = *rows;
    json!({"do": "start", "slabs": {
        "memory": memory.fd(), "size": memory.size(), "offsets": offsets, "worker": worker,
        "first": own.start, "rows": own.len(), "num_envs": num_envs,
        "obs_width": obs_width, "obs_dtype": obs_dtype,
        "act_width": act_width, "act_dtype": act_dtype, "num_masked": num_masked,
    }})
}

/// Decodes and checks a space that the worker described; `which` names it in error messages.
pub(super) fn space(env: &str, which: &str, told: &Value) -> Result<Space> {
    let refuse =
        |problem: String| Error::Python { env: env.into(), message: format!("its {which} space: {problem}") };
    if let Some(unsupported) = find_unsupported(told) {
        return Err(refuse(format!(
            "it has the space {unsupported}. An environment here has Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or \
             Tuple of them"
        )));
    }
    let space: Space = serde_json::from_value(told.clone()).map_err(|error| refuse(error.to_string()))?;
    space.validate().map_err(|error| refuse(error.to_string()))?;
    if space.width() == 0 {
        return Err(refuse(format!("{space} has no scalars")));
    }
    Ok(space)
}

fn find_unsupported(told: &Value) -> Option<&str> {
    match told {
        Value::Object(fields) => match fields.get("unsupported") {
            Some(name) => name.as_str(),
            None => ["dict", "tuple"].iter().filter_map(|key| fields.get(*key)).find_map(find_unsupported),
        },
        Value::Array(parts) => parts.iter().find_map(find_unsupported),
        _ => None,
    }
}
