//! [`PolicyClient`]: the side of the program that plays an environment, in Rust.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Error as IoError, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Asks a run for actions, and reports what came of them (Ray's name). It keeps one connection open.
#[derive(Debug)]
pub struct PolicyClient {
    address: String,
    token: Option<String>,
    name: String,
    stream: Option<BufReader<TcpStream>>,
    /// What was said, and is to be said next, of each running episode.
    episodes: HashMap<String, Spoken>,
}

/// The messages of a running episode.
#[derive(Clone, Debug, Default)]
struct Spoken {
    /// Number of actions.
    seq: u64,
    /// Sum of the rewards since the last action.
    reward: f64,
    /// Legal actions at the observation of the next message.
    mask: Option<Vec<bool>>,
}

/// How an episode ended.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Ended {
    /// Sum of all rewards.
    pub episode_reward: f64,
    /// Number of actions.
    pub episode_len: u64,
}

/// Why a message was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The run could not be reached.
    Connection(IoError),
    /// The run refused the message: a code for programs, and a sentence.
    Refused {
        /// The reason as one word: `unknown_episode` says that the episode is to be started anew.
        code: String,
        /// The reason as a sentence.
        message: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "the run cannot be reached: {error}"),
            Self::Refused { code, message } => write!(f, "{message} ({code})"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<IoError> for ClientError {
    fn from(error: IoError) -> Self {
        Self::Connection(error)
    }
}

impl PolicyClient {
    /// A client of the run that listens on `address`. `name` tells this program from others: a program that comes back
    /// under its name within two seconds keeps its episodes.
    pub fn new(address: impl Into<String>, name: impl Into<String>) -> Self {
        let episodes = HashMap::new();
        Self { address: address.into(), token: None, name: name.into(), stream: None, episodes }
    }

    /// Sends a token with every message.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Begins an episode, and returns its name.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the run cannot be reached, or has no place for another episode.
    pub fn start_episode(&mut self) -> Result<String, ClientError> {
        let answer = self.ask("start_episode", json!({}))?;
        let episode = answer["episode"].as_str().unwrap_or_default().to_owned();
        self.episodes.insert(episode.clone(), Spoken::default());
        Ok(episode)
    }

    /// Asks for the action on an observation, a flat list of numbers. A discrete action is one number.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the run cannot be reached, or refuses the message.
    pub fn get_action(&mut self, episode: &str, obs: &[f32]) -> Result<Vec<f64>, ClientError> {
        let answer = self.turn("get_action", episode, json!({"obs": obs}))?;
        Ok(match &answer["action"] {
            Value::Array(all) => all.iter().filter_map(Value::as_f64).collect(),
            one => one.as_f64().into_iter().collect(),
        })
    }

    /// Reports an action that this program chose itself, with the logarithm of its probability where the algorithm needs it.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the run cannot be reached, or refuses the message.
    pub fn log_action(
        &mut self,
        episode: &str,
        obs: &[f32],
        action: &[f64],
        logp: Option<f32>,
    ) -> Result<(), ClientError> {
        let mut message = json!({"obs": obs, "action": action});
        if let Some(logp) = logp {
            message["logp"] = logp.into();
        }
        self.turn("log_action", episode, message).map(drop)
    }

    /// Adds a reward; it is sent with the next message of the episode.
    pub fn log_returns(&mut self, episode: &str, reward: f64) {
        if let Some(spoken) = self.episodes.get_mut(episode) {
            spoken.reward += reward;
        }
    }

    /// Says which actions are legal at the observation of the episode's next message, for a run with `mask_actions`. The
    /// message that ends the episode takes a mask, too: if the episode was truncated, its last observation has a value.
    pub fn set_mask(&mut self, episode: &str, mask: &[bool]) {
        if let Some(spoken) = self.episodes.get_mut(episode) {
            spoken.mask = Some(mask.to_vec());
        }
    }

    /// Ends an episode with its last observation. `truncated` says that it was cut by a limit and could have gone on.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the run cannot be reached, or refuses the message.
    pub fn end_episode(&mut self, episode: &str, obs: &[f32], truncated: bool) -> Result<Ended, ClientError> {
        let Spoken { reward, mask, .. } = self.episodes.remove(episode).unwrap_or_default();
        let mut message = json!({"episode": episode, "obs": obs, "reward": reward, "truncated": truncated});
        if let Some(mask) = mask {
            message["mask"] = mask.into();
        }
        let answer = self.ask("end_episode", message)?;
        serde_json::from_value(answer).map_err(|error| IoError::new(ErrorKind::InvalidData, error).into())
    }

    fn turn(&mut self, kind: &str, episode: &str, mut message: Value) -> Result<Value, ClientError> {
        let Spoken { seq, reward, mask } = self.episodes.get(episode).cloned().unwrap_or_default();
        message["episode"] = episode.into();
        message["seq"] = seq.into();
        message["reward"] = reward.into();
        if let Some(mask) = mask {
            message["mask"] = mask.into();
        }
        let answer = self.ask(kind, message)?;
        self.episodes.insert(episode.to_owned(), Spoken { seq: seq + 1, ..Spoken::default() });
        Ok(answer)
    }

    /// Sends a message; once more if the connection broke.
    fn ask(&mut self, kind: &str, mut message: Value) -> Result<Value, ClientError> {
        message["client"] = self.name.as_str().into();
        let body = message.to_string();
        match self.exchange(kind, &body) {
            Err(ClientError::Connection(_)) => {
                self.stream = None;
                self.exchange(kind, &body)
            }
            answered => answered,
        }
    }

    fn exchange(&mut self, kind: &str, body: &str) -> Result<Value, ClientError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                none.insert(BufReader::new(stream))
            }
        };
        let token =
            self.token.as_ref().map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "POST /v1/external/{kind} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(IoError::from(ErrorKind::UnexpectedEof).into());
            }
            let header = line.trim_end().split_once(':');
            match header {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(|_| IoError::from(ErrorKind::InvalidData))?;
                }
                _ if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        let answer: Value =
            serde_json::from_slice(&answer).map_err(|error| IoError::new(ErrorKind::InvalidData, error))?;
        let text = |key: &str| answer["error"][key].as_str().unwrap_or_default().to_owned();
        if answer.get("error").is_some() {
            return Err(ClientError::Refused { code: text("code"), message: text("message") });
        }
        Ok(answer)
    }
}
