//! Resolves the command line to complete settings: defaults < preset or translated file < `--config` < `--set` < flags.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::choice::{Choice, environment};
use super::exit::usage;
use super::lines::Lines;
use super::output::program;
use super::suggest;
use super::translate::{from_rllib, from_sb3};
use crate::envs::EnvCreator;
use crate::presets::{self, Preset};
use crate::registry::AlgorithmEntry;
use crate::tune::config::{Layer, Resolved, assign, parse_assignment, parse_toml, read_settings};
use crate::tune::{Config, Error};
use pavlov_trainer::settings::translate_input;

/// Arguments of `train` and `config show` for settings.
#[derive(Args, Debug)]
pub(super) struct SettingsArgs {
    /// Name of the algorithm; `pavlov list algorithms` shows all
    algorithm: String,
    /// Id of the environment; `pavlov list envs` shows all
    #[arg(long, value_name = "ID")]
    env: Option<String>,
    /// Name of tuned settings; `pavlov list presets` shows all, and auto takes those for the environment or its kind
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// TOML or JSON file with settings: settings only, or laid out like a preset
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// YAML file of RL Baselines3 Zoo; its settings for the environment are translated, and a report is printed
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    from_sb3: Option<PathBuf>,
    /// JSON file with settings of RLlib; they are translated, and a report is printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "from_sb3"])]
    from_rllib: Option<PathBuf>,
    #[arg(
        long,
        value_name = "KEY=VALUE",
        help = "One setting, e.g. lr=3e-4 or 'model.fcnet_hiddens=[64, 64]'; several are allowed"
    )]
    set: Vec<String>,
    /// Seed of all random numbers; the same as --set seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of threads that sample; 0: the trainer's thread samples; the same as --set num_workers=N
    #[arg(long, value_name = "N")]
    num_workers: Option<usize>,
    /// Kind and number of workers that sample: threads:N; procs:N, processes that may crash without harm; ray:N, processes
    /// on a Ray cluster; the same as --set workers=...
    #[arg(long, value_name = "KIND:N", conflicts_with = "num_workers")]
    workers: Option<String>,
    /// Kind and number of learners: procs:N, the trainer and N - 1 processes that share its work; ray:N, with those on a Ray
    /// cluster; the same as --set learners=...
    #[arg(long, value_name = "KIND:N")]
    learners: Option<String>,
}

/// Resolved settings of a command.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) entry: AlgorithmEntry,
    pub(super) env: EnvCreator,
    pub(super) resolved: Resolved,
    /// Stop criteria of the preset and of the files.
    pub(super) stop: Config,
    /// Line numbers of the settings in the `--config` file.
    pub(super) lines: Lines,
    /// Report of the translation of another library's settings; `None` without such a file.
    pub(super) translation: Option<String>,
    /// A line about the preset that the run has, or could have; `None` if there is nothing to say.
    pub(super) hint: Option<String>,
}

impl SettingsArgs {
    pub(super) fn resolve(self) -> anyhow::Result<Settings> {
        let file = self.config.as_deref().map(File::read).transpose()?;
        let env = self.env.or_else(|| file.as_ref()?.env.clone());
        let mut choice = Choice::of(&self.algorithm, None, env)?;
        match self.preset.as_deref() {
            Some(suggest::AUTO) => {
                let env = choice.env.as_ref();
                let env = env.ok_or_else(|| usage("--preset is auto, so give an environment with --env"))?;
                let preset = suggest::auto(choice.entry.name(), env)?;
                choice = choice.with(preset)?;
            }
            Some(name) => choice = choice.with(presets::preset(name)?)?,
            None => {}
        }
        if let Some((file, algorithm)) = file.as_ref().and_then(|file| Some((file, file.algorithm.as_ref()?)))
        {
            choice.check(&file.origin, algorithm)?;
        }
        let Choice { entry, preset, mut env } = choice;

        let mut layers = Vec::new();
        let mut stop = Config::new();
        let mut lines = Lines::default();
        let no_env = format!(
            "no environment; give one with --env, e.g. --env CartPole-v1 (`{} list envs` shows all)",
            program()
        );
        let translated = match (&self.from_sb3, &self.from_rllib) {
            (Some(path), _) => {
                let env = env.as_deref().ok_or_else(|| usage(&no_env))?;
                Some((path, "Stable-Baselines3", from_sb3(path, &entry, env)?))
            }
            (_, Some(path)) => Some((path, "RLlib", from_rllib(path, &entry)?)),
            _ => None,
        };
        let hint = match (&preset, &env) {
            (Some(preset), Some(env)) if self.preset.as_deref() == Some(suggest::AUTO) => {
                Some(suggest::other_env(preset, env).unwrap_or_else(|| format!("preset {}", preset.name)))
            }
            (Some(preset), Some(env)) => suggest::other_env(preset, env),
            (None, Some(env)) if translated.is_none() && file.is_none() => suggest::hint(entry.name(), env),
            _ => None,
        };
        let mut translation = None;
        if let Some((path, library, translated)) = translated {
            let origin = format!("{} ({library})", path.display());
            translation = Some(translated.report(&origin));
            env = env.or(translated.env);
            stop.extend(translated.stop);
            layers.push(Layer { origin, values: translated.config });
        }
        if let Some(preset) = preset {
            stop.extend(preset.stop);
            layers.push(Layer { origin: format!("preset {}", preset.name), values: preset.config });
        }
        if let Some(file) = file {
            stop.extend(file.stop);
            lines = file.lines;
            layers.push(Layer { origin: file.origin, values: file.config });
        }
        for text in &self.set {
            lines.forget(text.split('=').next().unwrap_or_default().trim());
        }
        layers.push(Layer { origin: "--set".into(), values: assignments(&self.set)? });
        let flags = [
            ("seed", "--seed", self.seed.map(Value::from)),
            ("num_workers", "--num-workers", self.num_workers.map(Value::from)),
            ("workers", "--workers", self.workers.map(Value::from)),
            ("learners", "--learners", self.learners.map(Value::from)),
        ];
        for (key, flag, value) in flags {
            if let Some(value) = value {
                lines.forget(key);
                layers.push(Layer { origin: flag.into(), values: Config::from_iter([(key.into(), value)]) });
            }
        }

        let Some(env) = env else {
            return Err(usage(no_env));
        };
        let env = environment(&env)?;
        let resolved = entry.resolve_in(layers, &env).map_err(|error| lines.place(error))?;
        Ok(Settings { resolved, env, stop, lines, translation, hint, entry })
    }
}

/// Parses `key=value` texts as settings; of several values for a key the last one wins.
pub(super) fn assignments(texts: &[String]) -> Result<Config, Error> {
    let mut values = Config::new();
    for text in texts {
        let (path, value) = parse_assignment(text)?;
        assign(&mut values, &path, value);
    }
    Ok(values)
}

/// Content of the `--config` file: bare settings, a file like those of `examples/tuned`, or a run's `params.json`.
#[derive(Debug)]
struct File {
    origin: String,
    algorithm: Option<String>,
    env: Option<String>,
    config: Config,
    stop: Config,
    lines: Lines,
}

impl File {
    fn read(path: &Path) -> anyhow::Result<File> {
        let origin = path.display().to_string();
        let is =
            |extension: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        let wrong = |error: &dyn std::fmt::Display| usage(format!("{origin}: {error}"));
        if !is("toml") && !is("json") {
            return Err(usage(format!("{origin} must be named .toml or .json, so that its format is known")));
        }
        let text = read_settings(path).map_err(|error| usage(error.to_string()))?;
        let lines = Lines::of(&origin, if is("toml") { &text } else { "" });
        let mut config: Config = if is("toml") {
            parse_toml(&text, &origin).map_err(|error| lines.place(error))?
        } else {
            serde_json::from_str(&text).map_err(|error| wrong(&error))?
        };
        // A file with an algorithm is laid out like a preset, even if its table of settings is misspelt.
        if config.contains_key("config") || config.contains_key("algorithm") {
            // The text is parsed once more, because these errors have the line.
            let preset: Preset = if is("toml") {
                toml::from_str(&text).map_err(|error| wrong(&error))?
            } else {
                serde_json::from_str(&text).map_err(|error| wrong(&error))?
            };
            let algorithm = Some(preset.algorithm);
            let Preset { mut config, mut env, stop, .. } = preset;
            if config.contains_key("input") && !config.contains_key("env") {
                config.insert("env".into(), env.into());
                translate_input(&mut config).map_err(|error| lines.place(error))?;
                env = config.shift_remove("env").and_then(|env| Some(env.as_str()?.to_owned()));
            }
            return Ok(File { origin, algorithm, env, config, stop, lines });
        }
        translate_input(&mut config).map_err(|error| lines.place(error))?;
        let env = match config.shift_remove("env") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(other) => {
                return Err(wrong(&format!("`env` is {other}, but it must be the id of an environment")));
            }
        };
        Ok(File { origin, algorithm: None, env, config, stop: Config::new(), lines })
    }
}
