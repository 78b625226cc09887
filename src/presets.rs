//! Presets, which are settings by name: the tuned ones of `examples/tuned`, most for one environment each, and the
//! defaults of other libraries in `examples/bases`. Their files are compiled into this crate.

use pavlov_tune::Config;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::registry::Error;

/// A preset: an algorithm, an optional environment, settings and stop criteria.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The file name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// Name of the algorithm.
    pub algorithm: String,
    /// Id of the environment; `None` if the preset is for any environment.
    pub env: Option<String>,
    /// Settings that override the algorithm's defaults.
    #[serde(default)]
    pub config: Config,
    /// Result keys and the values at which training stops.
    #[serde(default)]
    pub stop: Config,
    /// The pass mark of the preset, which `cargo xtask learn` reads.
    #[serde(default, rename = "pass")]
    _pass: Option<IgnoredAny>,
}

impl Preset {
    /// Reads the text of a preset file; `name` is for errors.
    ///
    /// # Errors
    /// Returns [`Error::Preset`] if the text is not TOML, has an unknown field or a value of the wrong kind, or lacks
    /// `algorithm`.
    pub fn parse(name: &str, text: &str) -> Result<Preset, Error> {
        let preset: Preset = toml::from_str(text)
            .map_err(|error| Error::Preset { name: name.into(), reason: error.to_string() })?;
        Ok(Preset { name: name.into(), ..preset })
    }
}

const FILES: &[(&str, &str)] = &[
    ("ddpg-halfcheetah", include_str!("../examples/tuned/ddpg-halfcheetah.toml")),
    ("ddpg-pendulum", include_str!("../examples/tuned/ddpg-pendulum.toml")),
    ("ddpg-sb3", include_str!("../examples/bases/ddpg-sb3.toml")),
    ("dqn-cartpole", include_str!("../examples/tuned/dqn-cartpole.toml")),
    ("dqn-cartpole-ray", include_str!("../examples/tuned/dqn-cartpole-ray.toml")),
    ("dqn-frozenlake", include_str!("../examples/tuned/dqn-frozenlake.toml")),
    ("dqn-sb3", include_str!("../examples/bases/dqn-sb3.toml")),
    ("dqn-taxi", include_str!("../examples/tuned/dqn-taxi.toml")),
    ("impala-cartpole", include_str!("../examples/tuned/impala-cartpole.toml")),
    ("mappo-simple-spread", include_str!("../examples/tuned/mappo-simple-spread.toml")),
    ("ppo-acrobot", include_str!("../examples/tuned/ppo-acrobot.toml")),
    ("ppo-bipedalwalker", include_str!("../examples/tuned/ppo-bipedalwalker.toml")),
    ("ppo-cartpole", include_str!("../examples/tuned/ppo-cartpole.toml")),
    ("ppo-cartpole-ray", include_str!("../examples/tuned/ppo-cartpole-ray.toml")),
    ("ppo-cleanrl", include_str!("../examples/bases/ppo-cleanrl.toml")),
    ("ppo-halfcheetah", include_str!("../examples/tuned/ppo-halfcheetah.toml")),
    ("ppo-hopper", include_str!("../examples/tuned/ppo-hopper.toml")),
    ("ppo-lunarlander", include_str!("../examples/tuned/ppo-lunarlander.toml")),
    ("ppo-minigrid-doorkey", include_str!("../examples/tuned/ppo-minigrid-doorkey.toml")),
    ("ppo-pendulum", include_str!("../examples/tuned/ppo-pendulum.toml")),
    ("ppo-pixel-breakout", include_str!("../examples/tuned/ppo-pixel-breakout.toml")),
    ("ppo-pixel-tmaze", include_str!("../examples/tuned/ppo-pixel-tmaze.toml")),
    ("ppo-sb3", include_str!("../examples/bases/ppo-sb3.toml")),
    ("ppo-simple-spread", include_str!("../examples/tuned/ppo-simple-spread.toml")),
    ("ppo-stateless-cartpole", include_str!("../examples/tuned/ppo-stateless-cartpole.toml")),
    ("qmix-simple-spread", include_str!("../examples/tuned/qmix-simple-spread.toml")),
    ("sac-cartpole", include_str!("../examples/tuned/sac-cartpole.toml")),
    ("sac-halfcheetah", include_str!("../examples/tuned/sac-halfcheetah.toml")),
    ("sac-lunarlander-continuous", include_str!("../examples/tuned/sac-lunarlander-continuous.toml")),
    ("sac-mountaincar-continuous", include_str!("../examples/tuned/sac-mountaincar-continuous.toml")),
    ("sac-pendulum", include_str!("../examples/tuned/sac-pendulum.toml")),
    ("sac-sb3", include_str!("../examples/bases/sac-sb3.toml")),
    ("td3-halfcheetah", include_str!("../examples/tuned/td3-halfcheetah.toml")),
    ("td3-lunarlander-continuous", include_str!("../examples/tuned/td3-lunarlander-continuous.toml")),
    ("td3-pendulum", include_str!("../examples/tuned/td3-pendulum.toml")),
    ("td3-sb3", include_str!("../examples/bases/td3-sb3.toml")),
    ("vdn-simple-spread", include_str!("../examples/tuned/vdn-simple-spread.toml")),
];

/// Returns the preset `name`.
///
/// # Errors
/// Returns [`Error::Unknown`], with the nearest name and all names, if no preset has this name.
pub fn preset(name: &str) -> Result<Preset, Error> {
    match FILES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Preset::parse(name, text),
        None => Err(Error::unknown("preset", name, names())),
    }
}

/// Returns the names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FILES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn every_file_of_examples_tuned_and_bases_is_a_preset_with_settings_that_exist() {
        let folders =
            ["tuned", "bases"].map(|name| format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR")));
        let mut files: Vec<String> = folders
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort();
        assert_eq!(files, names().collect::<Vec<_>>());
        for name in names() {
            let preset = preset(name).unwrap();
            let entry = registry::algorithm(&preset.algorithm).unwrap();
            let layer = pavlov_tune::config::Layer { origin: name.into(), values: preset.config };
            let resolved = entry.resolve(vec![layer]).unwrap();
            let continuous = ["SAC", "TD3", "DDPG"].contains(&preset.algorithm.as_str());
            let any = if continuous { "Pendulum-v1" } else { "CartPole-v1" };
            let env = match preset.env.as_deref() {
                // These environments need MuJoCo's library; their settings fit any environment with continuous actions.
                Some("HalfCheetah-v5" | "Hopper-v5") => "Pendulum-v1",
                env => env.unwrap_or(any),
            };
            // `py:` environments need a Python that has them.
            if !env.starts_with("py:") {
                entry.effective(&resolved, &env.into()).unwrap();
            }
        }
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_nearest_and_the_list() {
        let message = preset("ppo-cartpol").unwrap_err().to_string();
        assert!(
            message.starts_with(r#"no preset "ppo-cartpol"; nearest: ppo-cartpole; there is "#),
            "{message}"
        );
    }

    #[test]
    fn a_misspelt_table_is_refused_by_name() {
        let text = "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\n[confg]\nlr = 1\n";
        let message = Preset::parse("mine", text).unwrap_err().to_string();
        assert!(message.contains("unknown field `confg`"), "{message}");
    }
}
