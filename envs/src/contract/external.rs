//! Environments that run elsewhere: other programs play the episodes, and ask for the actions.
//!
//! Whoever carries the messages (an HTTP server, a channel of the same program) hands each as a [`Call`] to the trainer,
//! which answers it. One program may play several episodes, and several programs may play at once.

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::Duration,
};

use crate::{Result, Space};

/// An environment that other programs play: its spaces, and the way to their messages.
pub struct ExternalEnv {
    observation_space: Space,
    action_space: Space,
    masked: bool,
    episode_timeout: Duration,
    open: Box<dyn FnOnce() -> Result<Calls> + Send>,
}

impl fmt::Debug for ExternalEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalEnv").field("action_space", &self.action_space).finish_non_exhaustive()
    }
}

impl ExternalEnv {
    /// Describes an environment whose episodes are played elsewhere. `open` begins to take messages; it is called when a
    /// run is made. An episode that is silent for longer than `episode_timeout` is cut.
    pub fn new(
        observation_space: Space,
        action_space: Space,
        episode_timeout: Duration,
        open: impl FnOnce() -> Result<Calls> + Send + 'static,
    ) -> Self {
        Self { observation_space, action_space, masked: false, episode_timeout, open: Box::new(open) }
    }

    /// Says whether messages may come with masks of legal actions.
    #[must_use]
    pub fn with_masks(mut self, masked: bool) -> Self {
        self.masked = masked;
        self
    }

    /// The space of observations.
    pub fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    /// The space of actions.
    pub fn action_space(&self) -> &Space {
        &self.action_space
    }

    /// Whether messages may come with masks of legal actions.
    pub fn has_masks(&self) -> bool {
        self.masked
    }

    /// Time after which an episode that is silent is cut.
    pub fn episode_timeout(&self) -> Duration {
        self.episode_timeout
    }

    /// Begins to take messages.
    ///
    /// # Errors
    /// Fails if the messages cannot be had, for instance because an address is in use.
    pub fn open(self) -> Result<Calls> {
        (self.open)()
    }
}

/// The messages of an environment that runs elsewhere, in the order in which they came.
#[derive(Debug)]
pub struct Calls {
    calls: Receiver<Call>,
    /// Whatever must live as long as messages are taken.
    _server: Box<dyn fmt::Debug + Send>,
}

impl Calls {
    /// Takes messages from a channel; `server` is dropped when no more are taken.
    pub fn new(calls: Receiver<Call>, server: impl fmt::Debug + Send + 'static) -> Self {
        Self { calls, _server: Box::new(server) }
    }

    /// The next message; waits at most `wait`. `None` if none came in this time.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`](crate::Error::Unsupported) if no more messages can come: the other end is gone.
    pub fn next(&self, wait: Duration) -> Result<Option<Call>> {
        let gone = || {
            let way_out = "the other end of the channel is gone; keep it until the run has ended";
            crate::Error::unsupported("ExternalEnv", "further episodes", way_out)
        };
        if wait.is_zero() {
            return match self.calls.try_recv() {
                Ok(call) => Ok(Some(call)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(gone()),
            };
        }
        match self.calls.recv_timeout(wait) {
            Ok(call) => Ok(Some(call)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

/// A message of a program that plays episodes.
#[derive(Debug)]
pub struct Call {
    /// Number of the program, by which it is told from others.
    pub client: u64,
    /// What the program asks or reports.
    pub ask: Ask,
    /// The way back to the program.
    pub reply: Reply,
}

/// What a program that plays episodes asks or reports. Observations and actions are the bytes of rows of their spaces, in
/// the spaces' scalar types.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// An episode begins; without a name the trainer makes one.
    StartEpisode {
        /// Name of the episode.
        episode: Option<String>,
    },
    /// The policy is to choose an action.
    GetAction(Turn),
    /// The program chose an action itself.
    LogAction {
        /// What the program saw.
        turn: Turn,
        /// The action that it chose.
        action: Vec<u8>,
        /// Logarithm of the probability with which it chose it; algorithms that learn from their own actions only need it.
        logp: Option<f32>,
        /// The version of the policy whose copy chose it, from [`Answer::Policy`].
        version: Option<u64>,
    },
    /// The program reports that its episode has ended.
    EndEpisode {
        /// Name of the episode.
        episode: String,
        /// The last observation.
        obs: Vec<u8>,
        /// Sum of the rewards since the last action.
        reward: f64,
        /// Whether the episode was cut by a limit, and could have gone on.
        truncated: bool,
        /// Which actions are legal at the last observation, for its value if the episode was cut.
        mask: Option<Vec<bool>>,
    },
    /// The program wants a copy of the policy, as ONNX, to choose actions itself.
    GetPolicy {
        /// The version that it has already.
        than: Option<u64>,
    },
    /// The program is gone: all of its episodes are cut. No answer is needed.
    Gone,
}

/// What a program saw before an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Name of the episode.
    pub episode: String,
    /// Number of actions in the episode before this one. A message that comes twice counts once; without a number every
    /// message counts.
    pub seq: Option<u64>,
    /// The observation.
    pub obs: Vec<u8>,
    /// Flags of legal actions.
    pub mask: Option<Vec<bool>>,
    /// Sum of the rewards since the last action; 0 before the first.
    pub reward: f64,
}

/// The trainer's answer to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The episode began under this name.
    Started {
        /// Name of the episode.
        episode: String,
    },
    /// The action that the policy chose.
    Action {
        /// Bytes of the action, as a row of the action space.
        action: Vec<u8>,
        /// Number of the fragment that the action belongs to; the policy's weights only change between fragments.
        version: u64,
    },
    /// A copy of the policy.
    Policy {
        /// The version of the policy: the number of the fragment that is being sampled.
        version: u64,
        /// The policy as ONNX, with actions that are drawn if it has a distribution; `None` if the program has this version.
        onnx: Option<Arc<[u8]>>,
    },
    /// The action that was logged will be learned from.
    Logged {
        /// Number of the fragment that the action belongs to.
        version: u64,
    },
    /// The episode has ended.
    Ended {
        /// Sum of all rewards of the episode.
        episode_reward: f64,
        /// Number of actions of the episode.
        episode_len: u64,
    },
}

/// Why the trainer refuses a [`Call`]. The run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason as one word, for programs.
    pub code: &'static str,
    /// The reason as a sentence with the way out, for people.
    pub message: String,
}

/// Takes the trainer's answer to the program that asked.
pub struct Reply(Box<dyn FnOnce(std::result::Result<Answer, Refused>) + Send>);

impl Reply {
    /// Makes a way back that hands the answer to `send`, on the trainer's thread: it must not wait.
    pub fn new(send: impl FnOnce(std::result::Result<Answer, Refused>) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Answers.
    pub fn send(self, answer: std::result::Result<Answer, Refused>) {
        (self.0)(answer);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
