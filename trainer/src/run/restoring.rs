//! What a checkpoint says of an [`Algorithm`], and how one continues from it.

use crate::base::{Error, Result, State, Stream};
use crate::run::algorithm::Algorithm;
use crate::run::resolve::to_config;
use crate::run::trainer::Trainer;
use crate::sample::saved_filters;
use pavlov_tune::Config;
use pavlov_tune::config::decode;
use serde_json::Value;
use std::path::Path;

/// The file in a checkpoint that says what was trained.
pub(crate) const SETTINGS: &str = "settings";

/// In it: the agents with their spaces, and the scalar types of observations and actions. They are what acting needs to
/// know of an environment.
pub(crate) const SPACES: &str = "spaces";
pub(crate) const DTYPES: &str = "dtypes";

/// In it, if policies were added or removed while the run trained: its `multiagent` settings are those of the checkpoint.
const POLICIES_CHANGED: &str = "policies_changed";

/// Settings that say which parts a saved run has: a run with others has no place for them.
const FIXED_SETTINGS: [&str; 5] =
    ["num_workers", "num_envs_per_worker", "create_env_on_driver", "batch_mode", "observation_filter"];

impl<T: Trainer> Algorithm<T> {
    /// Reads the weights and the filters of a checkpoint, and nothing else of it: for acting, in whatever number of
    /// workers.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if the checkpoint is damaged or of another algorithm, and [`Error::State`] if it is of
    /// another network or the algorithm is not set up.
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

    /// Writes what a checkpoint says of the run besides its state.
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
        about.set(DTYPES, &self.run()?.dtypes())?;
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

    /// Refuses a saved run whose parts have no place in this one.
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

    /// Makes a run that continues the saved one. This one goes on unchanged if that fails, unless it has actors of a Ray
    /// cluster, which may not have room for both.
    pub(super) fn load(&mut self, dir: &Path) -> Result<()> {
        let saved = State::read(dir, SETTINGS)?;
        self.check_fits(&saved)?;
        let (mut settings, config) = (self.settings.clone(), saved.get::<Config>("config")?);
        // Everything random follows from it, what is still to come included.
        settings.common_mut().seed = config.get("seed").and_then(Value::as_u64);
        let changed = saved.has(POLICIES_CHANGED);
        if changed || self.policies_changed {
            let multiagent = config.get("multiagent").and_then(Value::as_object).cloned().unwrap_or_default();
            settings.common_mut().multiagent = decode(&multiagent)?;
        }
        let probe = self.run()?.probe();
        if self.settings.common().has_actors() {
            self.run = None;
        }
        let mut run = self.make_run(&settings, &self.env, probe)?;
        run.on_trainer_init()?;
        run.set_state(|part| State::read(dir, part))?;
        run.workers().learners.tell_of_empty_buffers();
        self.inference_rng = Stream::from_state(saved.get("inference_rng")?);
        (self.settings, self.run, self.policies_changed) = (settings, Some(run), changed);
        Ok(())
    }
}
