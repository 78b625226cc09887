//! The methods of an algorithm that was chosen by its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pavlov_trainer::state::{State, Weights};
use pavlov_trainer::{Algorithm, Common, Evaluation, PolicyFormat, Result, Session, Snapshot, Trainer};
use pavlov_tune::{Metrics, Trainable};

/// An [`Algorithm`] whose type is erased, because it was chosen by name.
pub trait AnyAlgorithm: Trainable {
    /// Returns the current values of the settings that all algorithms share.
    fn common(&self) -> &Common;

    /// Returns true if training ended because workers failed; what was learned can still be saved.
    fn has_lost_workers(&self) -> bool;

    /// Evaluates the policy: see [`Algorithm::evaluate`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::evaluate`] does.
    fn evaluate(&mut self) -> Result<Metrics>;

    /// Returns the weights of all policies, nested by policy id: see [`Algorithm::get_weights`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::get_weights`] does.
    fn get_weights(&self) -> Result<Weights>;

    /// Replaces weights of policies: see [`Algorithm::set_weights`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::set_weights`] does.
    fn set_weights(&mut self, weights: &Weights) -> Result<()>;

    /// Returns what is needed to act by the policy as it is now: see [`Algorithm::snapshot`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::snapshot`] does.
    fn snapshot(&self) -> Result<Snapshot>;

    /// Returns the states of all policies: see [`Algorithm::get_policy_states`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::get_policy_states`] does.
    fn get_policy_states(&self) -> Result<State>;

    /// Restores the states of all policies: see [`Algorithm::set_policy_states`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::set_policy_states`] does.
    fn set_policy_states(&mut self, states: &State) -> Result<()>;

    /// Returns the replay buffers by policy id: see [`Algorithm::get_replay_buffers`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::get_replay_buffers`] does.
    fn get_replay_buffers(&self) -> Result<BTreeMap<String, State>>;

    /// Replaces replay buffers: see [`Algorithm::set_replay_buffers`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::set_replay_buffers`] does.
    fn set_replay_buffers(&mut self, buffers: &BTreeMap<String, State>) -> Result<()>;

    /// Makes a session that acts in `copies` episodes of your own: see [`Algorithm::session`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::session`] does.
    fn session(&mut self, copies: usize) -> Result<Session>;

    /// Plays whole episodes: see [`Algorithm::play`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::play`] does.
    fn play(&mut self, episodes: u64, seed: u64, explore: bool, frames: usize) -> Result<Evaluation>;

    /// Restores the policies of a checkpoint, weights and filters: see [`Algorithm::restore_policies`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::restore_policies`] does.
    fn restore_policies(&mut self, checkpoint: &Path) -> Result<()>;

    /// Writes the run's only policy for other programs: see [`Algorithm::export_policy_model`].
    ///
    /// # Errors
    /// Fails whenever [`Algorithm::export_policy_model`] does.
    fn export_policy_model(&self, dir: &Path, format: PolicyFormat) -> Result<PathBuf>;
}

impl<T: Trainer> AnyAlgorithm for Algorithm<T> {
    fn common(&self) -> &Common {
        self.settings().common()
    }

    fn has_lost_workers(&self) -> bool {
        self.workers().is_ok_and(|workers| workers.are_broken())
    }

    fn evaluate(&mut self) -> Result<Metrics> {
        Algorithm::evaluate(self)
    }

    fn get_weights(&self) -> Result<Weights> {
        Algorithm::get_weights(self)
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        Algorithm::set_weights(self, weights)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Algorithm::snapshot(self)
    }

    fn get_policy_states(&self) -> Result<State> {
        Algorithm::get_policy_states(self)
    }

    fn set_policy_states(&mut self, states: &State) -> Result<()> {
        Algorithm::set_policy_states(self, states)
    }

    fn get_replay_buffers(&self) -> Result<BTreeMap<String, State>> {
        Algorithm::get_replay_buffers(self)
    }

    fn set_replay_buffers(&mut self, buffers: &BTreeMap<String, State>) -> Result<()> {
        Algorithm::set_replay_buffers(self, buffers)
    }

    fn session(&mut self, copies: usize) -> Result<Session> {
        Algorithm::session(self, copies)
    }

    fn play(&mut self, episodes: u64, seed: u64, explore: bool, frames: usize) -> Result<Evaluation> {
        Algorithm::play(self, episodes, seed, explore, frames)
    }

    fn restore_policies(&mut self, checkpoint: &Path) -> Result<()> {
        Algorithm::restore_policies(self, checkpoint)
    }

    fn export_policy_model(&self, dir: &Path, format: PolicyFormat) -> Result<PathBuf> {
        Algorithm::export_policy_model(self, dir, format)
    }
}
