//! Messages as JSON.

use super::Answer;
use crate::json::Flags;
use crate::numbers::Numbers;
use crate::refusal::Refusal;
use hyper::StatusCode;
use pavlov_envs::external::{Ask, Refused, Turn};
use pavlov_envs::{DType, Space};
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::fmt;

/// The kinds of messages.
pub(super) const KINDS: [&str; 4] = ["start_episode", "get_action", "log_action", "end_episode"];

/// The spaces that observations and actions of messages belong to.
#[derive(Debug)]
pub(super) struct Spaces {
    pub(super) observation_space: Space,
    pub(super) action_space: Space,
}

/// A message: the body of a request, or an entry of its `rows`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// Name of the program; without one each connection is a program of its own.
    #[serde(default)]
    pub(super) client: Option<String>,
    /// The messages of a request that has several.
    #[serde(default)]
    pub(super) rows: Option<Vec<Message>>,
    /// The kind of the message, in `rows`; the path of the request says it where there is one message.
    #[serde(default, rename = "message")]
    kind: Option<String>,
    #[serde(default)]
    episode: Option<String>,
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default)]
    obs: Option<Flat>,
    #[serde(default)]
    mask: Option<Flags>,
    #[serde(default)]
    reward: f64,
    #[serde(default)]
    action: Option<Flat>,
    #[serde(default)]
    logp: Option<f32>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    truncated: bool,
}

impl Message {
    /// Reads the body of a request.
    pub(super) fn read(body: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!(
                "the body is no message: {error}; it is like {{\"client\": \"a\", \"episode\": \"0\", \"obs\": [0.1, 0.2]}}"
            );
            Refusal::bad("json", message)
        })
    }

    /// What an entry of `rows` asks.
    pub(super) fn ask_of_row(mut self, spaces: &Spaces) -> Result<Ask, Refusal> {
        if self.client.is_some() || self.rows.is_some() {
            let message = "an entry of `rows` has no `client` and no `rows`: `client` stands beside the list";
            return Err(Refusal::bad("message", message));
        }
        let missing =
            || Refusal::bad("missing", "an entry of `rows` needs `message`, the name of the message");
        let kind = self.kind.take().ok_or_else(missing)?;
        self.ask(&kind, spaces)
    }

    /// What the message asks, if it is one of this kind.
    pub(super) fn ask(self, kind: &str, spaces: &Spaces) -> Result<Ask, Refusal> {
        let Self { kind: named, episode, seq, obs, mask, reward, action, logp, version, truncated, .. } =
            self;
        let missing = |key: &str| Refusal::bad("missing", format!("the message {kind} needs `{key}`"));
        let given = [
            ("message", named.is_some()),
            ("seq", seq.is_some()),
            ("obs", obs.is_some()),
            ("mask", mask.is_some()),
            ("reward", reward != 0.0),
            ("action", action.is_some()),
            ("logp", logp.is_some()),
            ("version", version.is_some()),
            ("truncated", truncated),
        ];
        let taken: &[&str] = match kind {
            "start_episode" => &[],
            "get_action" => &["seq", "obs", "mask", "reward"],
            "log_action" => &["seq", "obs", "mask", "reward", "action", "logp", "version"],
            "end_episode" => &["obs", "mask", "reward", "truncated"],
            other => {
                let message = format!("there is no message {other:?}, but {}", KINDS.join(", "));
                return Err(Refusal::bad("message", message));
            }
        };
        if let Some((key, _)) = given.iter().find(|(key, is_given)| *is_given && !taken.contains(key)) {
            return Err(Refusal::bad(
                "message",
                format!("the message {kind} takes no `{key}`: leave it out"),
            ));
        }
        if kind == "start_episode" {
            let is_name =
                |name: &String| (1..=64).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_graphic());
            if let Some(name) = episode.as_ref().filter(|name| !is_name(name)) {
                let message = format!(
                    "the name {name:?} of the episode is not 1 to 64 visible ASCII characters without spaces"
                );
                return Err(Refusal::bad("episode", message));
            }
            return Ok(Ask::StartEpisode { episode });
        }
        let episode = episode.ok_or_else(|| missing("episode"))?;
        let obs = obs.ok_or_else(|| missing("obs"))?.bytes(spaces.observation_space.dtype())?;
        if kind == "end_episode" {
            return Ok(Ask::EndEpisode { episode, obs, reward, truncated, mask: mask.map(|mask| mask.0) });
        }
        let turn = Turn { episode, seq, obs, mask: mask.map(|mask| mask.0), reward };
        if kind == "get_action" {
            return Ok(Ask::GetAction(turn));
        }
        let action = action.ok_or_else(|| missing("action"))?.bytes(spaces.action_space.dtype())?;
        Ok(Ask::LogAction { turn, action, logp, version })
    }
}

/// Numbers of an observation or an action: one number, or lists of numbers, which are read row by row.
struct Flat(Vec<f64>);

impl Flat {
    fn bytes(self, dtype: DType) -> Result<Vec<u8>, Refusal> {
        let mut numbers = Numbers::empty(dtype);
        self.0.into_iter().try_for_each(|number| numbers.push(number))?;
        Ok(numbers.bytes().to_vec())
    }
}

impl<'de> Deserialize<'de> for Flat {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        AddTo(&mut all).deserialize(source)?;
        Ok(Self(all))
    }
}

/// Adds a number, or all numbers of a list, to those before.
struct AddTo<'a>(&'a mut Vec<f64>);

impl AddTo<'_> {
    fn add<E>(self, number: f64) -> Result<(), E> {
        self.0.push(number);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for AddTo<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AddTo<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list of numbers")
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.add(number)
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.add(number as f64)
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.add(number as f64)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.add(f64::from(u8::from(flag)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(AddTo(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// The trainer's answer as JSON.
pub(super) fn answer(answer: &Answer, spaces: &Spaces) -> Value {
    match answer {
        Answer::Started { episode } => json!({"episode": episode}),
        Answer::Action { action, version } => {
            json!({"action": numbers(action, &spaces.action_space), "version": version})
        }
        // A policy's own bytes are the body of the answer.
        Answer::Logged { version } | Answer::Policy { version, .. } => json!({"version": version}),
        Answer::Ended { episode_reward, episode_len } => {
            json!({"episode_reward": episode_reward, "episode_len": episode_len})
        }
    }
}

/// An action as a number, or as a flat list.
fn numbers(action: &[u8], space: &Space) -> Value {
    let mut all: Vec<Value> = match space.dtype() {
        DType::U8 => action.iter().map(|&x| x.into()).collect(),
        DType::I64 => action.chunks_exact(8).map(|x| bytemuck::pod_read_unaligned::<i64>(x).into()).collect(),
        DType::F32 => action.chunks_exact(4).map(|x| shortest(bytemuck::pod_read_unaligned(x))).collect(),
        DType::F64 => action.chunks_exact(8).map(|x| bytemuck::pod_read_unaligned::<f64>(x).into()).collect(),
    };
    if matches!(space, Space::Discrete { .. }) { all.swap_remove(0) } else { Value::Array(all) }
}

/// A number with the fewest digits that read back equal.
fn shortest(x: f32) -> Value {
    x.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The trainer's refusal as one of HTTP.
pub(super) fn refusal(refused: Refused) -> Refusal {
    let Refused { code, message } = refused;
    let status = match code {
        "unknown_episode" => StatusCode::NOT_FOUND,
        "episode_taken" | "out_of_order" | "stale" => StatusCode::CONFLICT,
        "no_place" => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, code, message)
}
