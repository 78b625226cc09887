//! Acting with the policies of an algorithm: single actions, sessions, whole episodes, export.

use crate::base::PolicyId;
use crate::export::PolicyFormat;
use crate::run::algorithm::Algorithm;
use crate::run::trainer::Trainer;
use crate::sample::{
    Action, Evaluation, EvaluationTask, Inference, Loaded, RunningStat, Session, WorkerSpec, play, rows,
};
use pavlov_envs::Element;
use pavlov_learn::base::{Device, Error, Result, Stream, Weights};
use std::path::{Path, PathBuf};

/// A run's policy as it was at one moment. Making one copies the weights and builds nothing.
#[derive(Debug)]
pub struct Snapshot {
    id: PolicyId,
    spec: WorkerSpec,
    weights: Weights,
    filter: Option<RunningStat>,
    timestep: u64,
}

impl Snapshot {
    /// Returns the number of environment steps that the run had sampled when the snapshot was taken.
    pub fn timestep(&self) -> u64 {
        self.timestep
    }

    /// Builds the policy, for threads to share.
    ///
    /// # Errors
    /// Fails if the policy cannot be built, and whenever [`Session::into_loaded`] does.
    pub fn load(&self) -> Result<Loaded> {
        self.session(vec![Stream::new(0, "inference", 0)])?.into_loaded()
    }

    fn session(&self, rngs: Vec<Stream>) -> Result<Session> {
        let mut policies = self.spec.policies(0, Device::Cpu)?;
        policies.set_weights(&self.weights)?;
        Session::new(&self.id, &self.spec, policies, rngs, self.filter.as_ref(), self.timestep)
    }
}

impl<T: Trainer> Algorithm<T> {
    /// Plays `episodes` whole episodes, without exploring unless `explore` is set. The result has at most `frames`
    /// pictures of the first episode.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, or an episode does not end. Returns [`Error::State`] if the
    /// algorithm is not set up.
    pub fn play(&mut self, episodes: u64, seed: u64, explore: bool, frames: usize) -> Result<Evaluation> {
        let run = self.run()?;
        let task = EvaluationTask {
            episodes: (0..episodes).collect(),
            seed,
            explore,
            timestep: run.workers().counters().num_env_steps_sampled,
            frames,
        };
        let filters = run.workers().filters();
        let spec = run.spec();
        run.workers().learners.lend(|policies, _| play(spec, 0, &task, policies, &filters, &mut None))
    }

    /// The action for one observation, within the bounds of the action space. `obs` is one row, as the environment
    /// writes it; the row is preprocessed and filtered as in training.
    ///
    /// Every call begins a new episode: a recurrent policy starts without memory. Use [`session`](Self::session) for
    /// whole episodes.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `obs` is not one row, and fails whenever
    /// [`compute_actions`](Self::compute_actions) does.
    pub fn compute_single_action<O: Element>(&mut self, obs: &[O], explore: bool) -> Result<Action> {
        let mut actions = self.compute_actions(obs, explore)?;
        match actions.len() {
            1 => Ok(actions.remove(0)),
            n => Err(Error::state("an observation", format!("{n} rows were given where one is needed"))),
        }
    }

    /// The actions for several observations, one row after the other, each as in
    /// [`compute_single_action`](Self::compute_single_action).
    ///
    /// # Errors
    /// Returns [`Error::State`] if `obs` does not consist of rows of the observation space in its scalar type, the
    /// run has several policies, or the algorithm is not set up. Fails if the policy does.
    pub fn compute_actions<O: Element>(&mut self, obs: &[O], explore: bool) -> Result<Vec<Action>> {
        let id = self.run()?.spec().policies.sole()?.to_owned();
        self.compute_actions_of(&id, obs, explore)
    }

    /// The actions of the policy `id` for several observations, as in [`compute_actions`](Self::compute_actions).
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] for an id that no policy has, and [`Error::State`] if `obs` does not consist
    /// of rows of the observation space in its scalar type, or the algorithm is not set up. Fails if the policy does.
    pub fn compute_actions_of<O: Element>(
        &mut self,
        id: &str,
        obs: &[O],
        explore: bool,
    ) -> Result<Vec<Action>> {
        let run = self.run()?;
        let copies = rows(obs, &run.spaces(id)?.observation_space, run.spec().names.env_info.obs_dtype)?;
        if copies == 0 {
            return Ok(Vec::new());
        }
        let rngs = self.inference_rngs(copies);
        let run = self.run()?;
        let filters = self.run()?.workers().filters();
        let timestep = run.workers().counters().num_env_steps_sampled;
        run.workers().learners.lend_policy(id, |policy| {
            let mut desk = Inference::new(run.spec(), (id, &*policy), rngs, filters.get(id))?;
            desk.actions(policy, obs, explore, timestep)
        })?
    }

    /// Returns a session that acts in `copies` episodes of your own, with a copy of the run's only policy in its
    /// current state.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the run has several policies, `copies` is 0, or the algorithm is not set up.
    pub fn session(&mut self, copies: usize) -> Result<Session> {
        let id = self.run()?.spec().policies.sole()?.to_owned();
        self.session_of(&id, copies)
    }

    /// Returns a session that acts for one agent in each of `copies` episodes of your own, with a copy of the policy
    /// `id`.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if there is no policy of that id, and [`Error::State`] if `copies` is 0 or
    /// the algorithm is not set up.
    pub fn session_of(&mut self, id: &str, copies: usize) -> Result<Session> {
        if copies == 0 {
            return Err(Error::state("a session", "it was asked for 0 copies, but it needs at least 1"));
        }
        self.run()?;
        let rngs = self.inference_rngs(copies);
        self.replica(id, rngs)
    }

    /// Returns what is needed to act by the run's only policy as it is now. Another thread can act by it while the run goes
    /// on.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the run has several policies or the algorithm is not set up.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_of(self.run()?.spec().policies.sole()?)
    }

    fn snapshot_of(&self, id: &str) -> Result<Snapshot> {
        let run = self.run()?;
        Ok(Snapshot {
            id: id.to_owned(),
            spec: run.spec().clone(),
            weights: run.workers().get_weights(),
            filter: run.workers().filters().remove(id),
            timestep: run.workers().counters().num_env_steps_sampled,
        })
    }

    /// Makes a session with a copy of the policy `id`, which acts in one episode per random stream.
    fn replica(&self, id: &str, rngs: Vec<Stream>) -> Result<Session> {
        self.snapshot_of(id)?.session(rngs)
    }

    fn inference_rngs(&mut self, copies: usize) -> Vec<Stream> {
        (0..copies).map(|_| Stream::new(self.inference_rng.below(u64::MAX), "inference", 0)).collect()
    }

    /// Writes the run's only policy for other programs, in `dir`: as `model.onnx`, `model.c` or `model.pt`; see [`Session::export`].
    ///
    /// # Errors
    /// Fails whenever [`Session::export`] does. Returns [`Error::State`] if the run has several policies, `dir`
    /// cannot be made, or the algorithm is not set up.
    pub fn export_policy_model(&self, dir: impl AsRef<Path>, format: PolicyFormat) -> Result<PathBuf> {
        self.export_policy_model_of(self.run()?.spec().policies.sole()?, dir, format)
    }

    /// Writes the policy `id` for other programs, in `dir`: as `model.onnx`, `model.c` or `model.pt`; see [`Session::export`].
    ///
    /// # Errors
    /// Fails whenever [`Session::export`] does. Returns [`Error::UnknownPolicy`] for an id that no policy has, and
    /// [`Error::State`] if `dir` cannot be made or the algorithm is not set up.
    pub fn export_policy_model_of(
        &self,
        id: &str,
        dir: impl AsRef<Path>,
        format: PolicyFormat,
    ) -> Result<PathBuf> {
        let dir = dir.as_ref();
        let path = dir.join(match format {
            PolicyFormat::Onnx => "model.onnx",
            PolicyFormat::C => "model.c",
            PolicyFormat::Rust => "model.rs",
            PolicyFormat::TorchScript => "model.pt",
        });
        std::fs::create_dir_all(dir).map_err(pavlov_tune::Error::io("create", dir))?;
        self.replica(id, vec![Stream::new(0, "export", 0)])?.export(&path)?;
        Ok(path)
    }
}
