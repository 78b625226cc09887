//! How a run continues from a checkpoint of an [`Algorithm`].

use crate::agents::Agent;
use crate::run::algorithm::Algorithm;
use crate::run::checkpoint_settings::CheckpointSettings;
use crate::run::resolve::to_config;
use crate::run::saved_code::SavedCode;
use crate::run::trainer::Trainer;
use crate::sample::saved_filters;
use pavlov_learn::base::{Error, Result, State, Stream};
use pavlov_tune::config::decode;
use serde_json::Value;
use std::path::Path;

/// Settings that determine the parts of a saved run; a run with other values cannot restore them.
const FIXED_SETTINGS: [&str; 5] =
    ["num_workers", "num_envs_per_worker", "create_env_on_driver", "batch_mode", "observation_filter"];

impl<T: Trainer> Algorithm<T> {
    /// Restores only the policies and the observation filters of a checkpoint, to act with them. The number of
    /// workers may differ from that of the saved run.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if the checkpoint is damaged or of another algorithm, and [`Error::State`] if its
    /// network differs or the algorithm is not set up.
    pub fn restore_policies(&mut self, checkpoint: impl AsRef<Path>) -> Result<()> {
        let checkpoint = checkpoint.as_ref();
        pavlov_tune::checkpoint::verify(checkpoint, Some(T::NAME))?;
        CheckpointSettings::read(checkpoint)?.code.check(&self.saved_code()?)?;
        let run = self.run()?;
        let policies = State::read(checkpoint, "policies")?;
        run.workers().learners.with_policies(|map| map.set_state(&policies))?;
        let filters =
            saved_filters(&State::read(checkpoint, "run")?, run.spec().policies.classes().map(|(id, _)| id))?;
        let stats = filters.into_iter().map(|(id, filter)| (id, filter.running().clone())).collect();
        run.workers().set_filters(&stats)?;
        run.workers().sync_weights()
    }

    /// The code that this run's policies need.
    fn saved_code(&self) -> Result<SavedCode> {
        let run = self.run()?;
        let spec = run.spec();
        Ok(run.workers().learners.lend(|policies, _| SavedCode::of(&spec.code, &spec.policies, policies)))
    }

    /// The description of this run that a checkpoint stores.
    pub(super) fn checkpoint_settings(&self) -> Result<CheckpointSettings> {
        let spec = self.run()?.spec();
        let info = &spec.names.env_info;
        let first =
            &info.agents.first().expect("an environment without agents is refused when it is made").spaces;
        let several = if info.agents.len() > 1 { &info.agents[..] } else { &[] };
        let policy_of = |agent: &Agent| (agent.name.clone(), spec.policies.of(&agent.name));
        Ok(CheckpointSettings {
            algorithm: T::NAME.to_owned(),
            env: self.env.name().to_owned(),
            observation_space: first.observation_space.to_string(),
            action_space: first.action_space.to_string(),
            spaces: Some(info.agents.clone()),
            dtypes: Some((info.obs_dtype, info.act_dtype)),
            agents: several.iter().map(policy_of).collect(),
            code: self.saved_code()?,
            config: to_config(&self.settings)?,
            inference_rng: self.inference_rng.state(),
            policies_changed: self.policies_changed,
        })
    }

    /// Returns an error if the saved run has parts that this run cannot restore.
    fn check_fits(&self, saved: &CheckpointSettings) -> Result<()> {
        let own = self.checkpoint_settings()?;
        for (space, saved, own) in [
            ("observation_space", &saved.observation_space, &own.observation_space),
            ("action_space", &saved.action_space, &own.action_space),
        ] {
            if saved != own {
                let env = self.env.name();
                return Err(Error::state(
                    space,
                    format!("it was {saved} in the saved run, but {env} has {own}"),
                ));
            }
        }
        if saved.agents != own.agents && !self.policies_changed && !saved.policies_changed {
            let list = |agents: &[(String, String)]| {
                if agents.is_empty() {
                    "one".to_owned()
                } else {
                    agents.iter().map(|(a, id)| format!("{a} by {id}")).collect::<Vec<_>>().join(", ")
                }
            };
            let reason =
                format!("the saved run had {}, but there is {} here", list(&saved.agents), list(&own.agents));
            return Err(Error::state("agents and their policies", reason));
        }
        let [was, is] = [&saved.config, &own.config].map(|config| {
            let rotates = config.get("multiagent").and_then(|multi| multi.get("rotate_policies"));
            rotates.and_then(Value::as_bool).unwrap_or_default()
        });
        if was != is {
            let rule = format!("it was {was} in the saved run; set it to that");
            return Err(Error::config("multiagent.rotate_policies", is, rule));
        }
        for key in FIXED_SETTINGS {
            let [was, is] =
                [&saved.config, &own.config].map(|config| config.get(key).unwrap_or(&Value::Null));
            if was != is {
                let rule = format!(
                    "it was {was} in the saved run; set it to that, or read the policies alone (`restore_policies`)"
                );
                return Err(Error::config(key, is, rule));
            }
        }
        saved.code.check(&own.code)
    }

    /// Makes a run that continues the saved one. If that fails, this run goes on unchanged, unless it has actors on a
    /// Ray cluster, which may lack room for both runs.
    pub(super) fn load(&mut self, dir: &Path) -> Result<()> {
        let saved = CheckpointSettings::read(dir)?;
        self.check_fits(&saved)?;
        let mut settings = self.settings.clone();
        // All random numbers follow from the seed, also those of later iterations.
        settings.common_mut().seed = saved.config.get("seed").and_then(Value::as_u64);
        if saved.policies_changed || self.policies_changed {
            let multiagent =
                saved.config.get("multiagent").and_then(Value::as_object).cloned().unwrap_or_default();
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
        self.inference_rng = Stream::from_state(saved.inference_rng);
        self.settings = settings;
        self.run = Some(run);
        self.policies_changed = saved.policies_changed;
        Ok(())
    }
}
