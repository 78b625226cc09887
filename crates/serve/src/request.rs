//! What a request for actions asks, as either body says it: JSON ([`super::json`]) or binary rows ([`super::rows`]).

use super::limits::Limits;
use super::numbers::Numbers;
use super::refusal::Refusal;
use pavlov_trainer::Loaded;

/// A request for actions.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) obs: Numbers,
    pub(super) rows: usize,
    /// Whether the observation came as one row, not as a list of rows; the answer has the same form.
    pub(super) is_single: bool,
    /// Flags of legal actions of all rows.
    pub(super) mask: Option<Vec<bool>>,
    /// The name of each row's session; empty if the rows have none.
    pub(super) sessions: Vec<String>,
    /// Whether each row begins an episode; empty if none does.
    pub(super) begins: Vec<bool>,
    /// Whether actions are drawn.
    pub(super) explores: bool,
    /// The version of the policy that is to answer; `None` for any.
    pub(super) version: Option<u64>,
}

impl Request {
    /// Checks the request against what the policy takes and what the server takes.
    pub(super) fn check(&self, policy: &Loaded, limits: &Limits) -> Result<(), Refusal> {
        let Self { rows, .. } = *self;
        if rows == 0 || rows > limits.max_rows {
            let most = limits.max_rows;
            let message =
                format!("the request has {rows} rows, but one request has 1 to {most} (`--max-rows`)");
            return Err(Refusal::bad("rows", message));
        }
        let width = policy.observation_width();
        if self.obs.len() != rows * width {
            return Err(wrong_width(policy, self.obs.len() / rows));
        }
        self.obs.check_finite(width)?;
        self.check_mask(policy)?;
        if !self.sessions.is_empty() && self.sessions.len() != rows {
            let message =
                format!("{} sessions are named for {rows} rows: name one for each row", self.sessions.len());
            return Err(Refusal::bad("session", message));
        }
        if !self.begins.is_empty() && self.begins.len() != rows {
            let message =
                format!("`begin` has {} flags for {rows} rows: give one for each row", self.begins.len());
            return Err(Refusal::bad("session", message));
        }
        if self.sessions.is_empty() && self.begins.contains(&true) {
            let message = "`begin` starts the episode of a session: name it with `session`";
            return Err(Refusal::bad("session", message));
        }
        if self.sessions.is_empty() && policy.memory_width() > 0 {
            let message = "this policy remembers what it saw in the episode: name a session with `session`, and begin it with \
                           `begin` in the first request of the episode";
            return Err(Refusal::bad("session", message));
        }
        Ok(())
    }

    fn check_mask(&self, policy: &Loaded) -> Result<(), Refusal> {
        let Some(mask) = &self.mask else { return Ok(()) };
        let Some(options) = policy.mask_width() else {
            let message = "this policy was trained without masks of legal actions: leave `mask` out";
            return Err(Refusal::bad("mask", message));
        };
        if mask.len() != self.rows * options {
            let message = format!(
                "`mask` has {} flags, but {} rows have {options} each, {} in all",
                mask.len(),
                self.rows,
                self.rows * options
            );
            return Err(Refusal::bad("width", message));
        }
        if let Some((row, choice)) = policy.row_without_action(mask) {
            let message = format!("the mask of row {row} allows no action of choice {choice}: allow one");
            return Err(Refusal::bad("mask_without_action", message));
        }
        Ok(())
    }
}

/// The refusal of a row of `found` numbers.
pub(super) fn wrong_width(policy: &Loaded, found: usize) -> Refusal {
    let message = format!(
        "a row has {found} numbers, but an observation has {} ({}), flat",
        policy.observation_width(),
        policy.observation_space()
    );
    Refusal::bad("width", message)
}
