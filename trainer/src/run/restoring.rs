//! Checkpoints of an [`Algorithm`]: the descriptive file in them, and how a run continues from them.

use crate::base::{Error, Result, State, Stream};
use crate::run::algorithm::Algorithm;
use crate::run::resolve::to_config;
use crate::run::trainer::Trainer;
use crate::sample::saved_filters;
use pavlov_tune::Config;
use pavlov_tune::config::decode;
use serde_json::Value;
use std::path::Path;

/// Name of the checkpoint's file that describes the run: algorithm, settings, spaces.
pub(crate) const SETTINGS: &str = "settings";

/// Key in that file of the agents with their spaces, and of the scalar types of observations and actions: everything
/// that acting needs to know of an environment.
pub(crate) const SPACES: &str = "spaces";
pub(crate) const DTYPES: &str = "dtypes";

/// Key in that file, present if policies were added or removed during training: a restore then takes the checkpoint's
/// `multiagent` settings.
const POLICIES_CHANGED: &str = "policies_changed";

/// Settings that determine the parts of a saved run; a run with other values cannot restore them.
const FIXED_SETTINGS: [&str; 5] =
    ["num_workers", "num_envs_per_worker", "create_env_on_driver", "batch_mode", "observation_filter"];

impl<T: Trainer> Algorithm<T> {
    /// Reads only the weights and the observation filters of a checkpoint, to act with them; the number of workers
    /// may differ.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if the checkpoint is damaged or of another algorithm, and [`Error::State`] if its
    /// network differs or the algorithm is not set up.
    pub fn restore_policies(&mut self, checkpoint: &Path) -> Result<()> {
        pavlov_tune::checkpoint::verify(checkpoint, Some(T::NAME))?;
        let run = self.run()?;
        let policies = State::read(checkpoint, "policies")?;
        run.workers().learners.with_policies(|map| map.set_state(&policies))?;
        let filters =
            saved_filters(&State::read(checkpoint, "run")?, run.spec().policies.classes().map(|(id, _)| id))?;
        let stats = filters.into_iter().map(|(id, filter)| (id, filter.running().clone())).collect();
        run.workers().set_filters(&stats)?;
        run.workers().sync_weights()
    }

    /// Writes the descriptive file of a checkpoint: algorithm, settings, spaces.
    pub(super) fn write_about(&self, dir: &Path) -> Result<()> {
        self.about()?.write(dir, SETTINGS)
    }

    fn about(&self) -> Result<State> {
        let (first, others) = self
            .run()?
            .agents()
            .split_first()
            .expect("an environment without agents is refused when it is made");
        let mut about = State::default();
        about.set("algorithm", &T::NAME)?;
        about.set("env", &self.env.name())?;
        about.set("observation_space", &first.spaces.observation_space.to_string())?;
        about.set("action_space", &first.spaces.action_space.to_string())?;
        about.set(SPACES, &self.run()?.agents())?;
        let info = &self.run()?.spec().names.env_info;
        about.set(DTYPES, &(info.obs_dtype, info.act_dtype))?;
        if !others.is_empty() {
            let policies = &self.run()?.spec().policies;
            let agents = self.run()?.agents().iter().map(|agent| (&agent.name, policies.of(&agent.name)));
            about.set("agents", &agents.collect::<Vec<_>>())?;
        }
        about.set("config", &to_config(&self.settings)?)?;
        about.set("inference_rng", &self.inference_rng.state())?;
        if self.policies_changed {
            about.set(POLICIES_CHANGED, &true)?;
        }
        Ok(about)
    }

    /// Returns an error if the saved run has parts that this run cannot restore.
    fn check_fits(&self, saved: &State) -> Result<()> {
        let own = self.about()?;
        for space in ["observation_space", "action_space"] {
            let (saved, own): (String, String) = (saved.get(space)?, own.get(space)?);
            if saved != own {
                let env = self.env.name();
                return Err(Error::state(
                    space,
                    format!("it was {saved} in the saved run, but {env} has {own}"),
                ));
            }
        }
        let agents = |of: &State| -> Result<Vec<(String, String)>> {
            if of.has("agents") { of.get("agents") } else { Ok(Vec::new()) }
        };
        let (was, is) = (agents(saved)?, agents(&own)?);
        if was != is && !self.policies_changed && !saved.has(POLICIES_CHANGED) {
            let list = |agents: &[(String, String)]| match agents.is_empty() {
                true => "one".to_owned(),
                false => agents.iter().map(|(a, id)| format!("{a} by {id}")).collect::<Vec<_>>().join(", "),
            };
            let reason = format!("the saved run had {}, but there is {} here", list(&was), list(&is));
            return Err(Error::state("agents and their policies", reason));
        }
        let (saved, own): (Config, Config) = (saved.get("config")?, own.get("config")?);
        let [was, is] = [&saved, &own].map(|config| {
            let rotates = config.get("multiagent").and_then(|multi| multi.get("rotate_policies"));
            rotates.and_then(Value::as_bool).unwrap_or_default()
        });
        if was != is {
            let rule = format!("it was {was} in the saved run; set it to that");
            return Err(Error::config("multiagent.rotate_policies", is, rule));
        }
        for key in FIXED_SETTINGS {
            let [was, is] = [&saved, &own].map(|config| config.get(key).unwrap_or(&Value::Null));
            if was != is {
                let rule = format!(
                    "it was {was} in the saved run; set it to that, or read the policies alone (`restore_policies`)"
                );
                return Err(Error::config(key, is, rule));
            }
        }
        Ok(())
    }

    /// Makes a run that continues the saved one. If that fails, this run goes on unchanged, unless it has actors on a
    /// Ray cluster, which may lack room for both runs.
    pub(super) fn load(&mut self, dir: &Path) -> Result<()> {
        let saved = State::read(dir, SETTINGS)?;
        self.check_fits(&saved)?;
        let (mut settings, config) = (self.settings.clone(), saved.get::<Config>("config")?);
        // All random numbers follow from the seed, also those of later iterations.
        settings.common_mut().seed = config.get("seed").and_then(Value::as_u64);
        let changed = saved.has(POLICIES_CHANGED);
        if changed || self.policies_changed {
            let multiagent = config.get("multiagent").and_then(Value::as_object).cloned().unwrap_or_default();
            settings.common_mut().multiagent = decode(&multiagent)?;
        }
        let env_info = self.run()?.spec().names.env_info.clone();
        if self.settings.common().has_actors() {
            self.run = None;
        }
        let mut run = self.make_run(&settings, &self.env, env_info)?;
        run.on_trainer_init()?;
        run.set_state(|part| State::read(dir, part))?;
        run.workers().learners.tell_of_empty_buffers();
        self.inference_rng = Stream::from_state(saved.get("inference_rng")?);
        (self.settings, self.run, self.policies_changed) = (settings, Some(run), changed);
        Ok(())
    }
}
