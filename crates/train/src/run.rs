//! [`TrainingFunction`]: the function that a trial of a training runs.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use pavlov_data::Dataset;
use pavlov_tune::config::{Layer, decode, overlay};
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Config, Error, Function, Metrics, Resources, Result, TrialContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BaseTrainer, ScalingConfig, TrainContext};

/// Key of the training's scaling among the settings of a trial; the trainer cannot have a setting with this name.
const SCALING_CONFIG: &str = "scaling_config";

/// Function of a training's trials; each trial calls it with its own settings.
pub(super) struct TrainingFunction<T> {
    /// Settings of the trainer as a JSON object; null for a trainer without fields.
    pub(super) settings: Value,
    pub(super) scaling_config: ScalingConfig,
    pub(super) datasets: BTreeMap<String, Dataset>,
    pub(super) metadata: Config,
    pub(super) resume_from_checkpoint: Option<Checkpoint>,
    pub(super) trainer: PhantomData<fn() -> T>,
}

/// Serializes the settings of `trainer` as JSON.
pub(super) fn settings<T: BaseTrainer>(trainer: &T) -> Result<Value> {
    match serde_json::to_value(trainer).map_err(Error::other)? {
        Value::Object(fields) if fields.contains_key(SCALING_CONFIG) => {
            let rule = format!("`{}` must not have a setting of that name: it is the training's", T::name());
            Err(Error::config(SCALING_CONFIG, &fields[SCALING_CONFIG], rule))
        }
        settings @ (Value::Object(_) | Value::Null) => Ok(settings),
        other => Err(Error::config(T::name(), other, "settings must be a struct with named fields")),
    }
}

/// Deserializes a trainer from its settings.
pub(super) fn trainer<T: BaseTrainer>(settings: &Value) -> Result<T> {
    match settings {
        Value::Object(settings) => decode(settings),
        other => T::deserialize(other).map_err(|error| Error::config(T::name(), other, error.to_string())),
    }
}

impl<T: BaseTrainer> TrainingFunction<T> {
    /// Returns complete settings: those of the training, overridden by `config`.
    pub(super) fn overlay(&self, config: &Config) -> Result<Config> {
        let mut defaults = self.settings.as_object().cloned().unwrap_or_default();
        defaults.insert(SCALING_CONFIG.into(), self.scaling_config.as_config()?.into());
        let bundles = ["scaling_config.trainer_resources", "scaling_config.resources_per_worker"];
        let open: Vec<&str> = bundles.iter().chain(T::OPEN_KEYS).copied().collect();
        let layer = Layer { origin: "the settings of the trial".into(), values: config.clone() };
        Ok(overlay(&defaults, vec![layer], &open)?.config)
    }

    /// Decodes and checks complete settings; returns the trainer and its scaling.
    pub(super) fn decode(&self, config: &Config) -> Result<(T, ScalingConfig)> {
        #[derive(Serialize, Deserialize)]
        struct Scaled {
            scaling_config: ScalingConfig,
        }
        let Scaled { scaling_config } = decode(config)?;
        check::<T>(&scaling_config)?;
        let mut settings = config.clone();
        settings.shift_remove(SCALING_CONFIG);
        let is_unit = self.settings.is_null();
        let trainer = trainer(&if is_unit { Value::Null } else { settings.into() })?;
        Ok((trainer, scaling_config))
    }

    /// Returns the resources that a trial with the settings `config` needs.
    pub(super) fn resources(&self, config: &Config) -> Result<Resources> {
        self.decode(&self.overlay(config)?)?.1.as_placement_group_factory()
    }
}

/// Checks that `T` can use the scaling and that its values are valid.
fn check<T: BaseTrainer>(scaling_config: &ScalingConfig) -> Result<()> {
    scaling_config.refuse_others(T::SCALING_CONFIG_ALLOWED_KEYS, T::name())?;
    scaling_config.validate()
}

impl<T: BaseTrainer> Function for TrainingFunction<T> {
    fn kind(&self) -> String {
        T::name()
    }

    fn complete(&self, config: &Config, trial: &TrialContext) -> Result<Config> {
        let mut config = self.overlay(config)?;
        let (_, mut scaling_config) = self.decode(&config)?;
        let asked = scaling_config.as_placement_group_factory()?;
        if let Some(given) = trial.trial_resources.as_ref().filter(|given| **given != asked) {
            scaling_config = scaling_config.given(given)?;
            check::<T>(&scaling_config)?;
            config.insert(SCALING_CONFIG.into(), scaling_config.as_config()?.into());
        }
        Ok(config)
    }

    fn resource_help(&self) -> String {
        "`scaling_config` says what it needs".into()
    }

    fn run(&self, config: &Config) -> Result<Option<Metrics>> {
        let (mut trainer, scaling_config) = self.decode(config)?;
        session::begin(self.metadata.clone(), self.resume_from_checkpoint.clone());
        let mut context = TrainContext {
            datasets: self.datasets.clone(),
            metadata: self.metadata.clone(),
            checkpoint: session::get_checkpoint(),
            scaling_config,
        };
        trainer.setup(&context)?;
        trainer.preprocess_datasets(&mut context)?;
        trainer.training_loop(&context)?;
        Ok(None)
    }
}
