//! `pavlov tune-shim` and `pavlov trainable`: let Ray Tune drive an algorithm.
//!
//! `tune-shim` prints a Ray `Trainable` in Python, which starts `pavlov trainable` for each trial. Requests are lines of
//! JSON on standard input; each is answered by a line on standard output. The process ends when both streams are closed,
//! even during an iteration, so it never outlives the actor that started it.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, anyhow};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Deserialize;
use serde_json::{Value, json};

use super::choice::{Choice, environment};
use super::exit::usage;
use super::output::print;
use crate::envs::EnvCreator;
use crate::registry::{AlgorithmEntry, AnyAlgorithm};
use crate::tune::config::Layer;
use crate::tune::{Config, Driver, LoggerChoice, Resume, RunOptions, checkpoint, in_words};

const SHIM: &str = include_str!("shim.py");

/// Print a Python module with which Ray Tune drives pavlov's algorithms
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov tune-shim > pavlov_tune.py\n\n\
                        In Python, with ray[tune] installed and `pavlov` on the PATH (or named by PAVLOV):\n  \
                        from ray import tune\n  from pavlov_tune import Pavlov\n  \
                        space = {\"algorithm\": \"PPO\", \"env\": \"CartPole-v1\", \"lr\": tune.loguniform(1e-4, 1e-2)}\n  \
                        tune.Tuner(Pavlov, param_space=space).fit()")]
pub(super) struct TuneShimArgs {}

/// Serve one trial of Ray Tune by lines of JSON; the module of `pavlov tune-shim` starts it
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov trainable << END\n  \
                        {\"request\": \"setup\", \"config\": {\"algorithm\": \"PPO\", \"env\": \"CartPole-v1\"}}\n  \
                        {\"request\": \"step\"}\n  {\"request\": \"save_checkpoint\", \"dir\": \"/tmp/saved\"}\n  END\n\n\
                        The other requests: reset_config and resources (with a config), and load_checkpoint (with a dir).")]
pub(super) struct TrainableArgs {}

pub(super) fn tune_shim() -> anyhow::Result<()> {
    print(SHIM.trim_end()).map(drop)
}

/// Request of the Python side, named after the methods of Ray's `Trainable`.
#[derive(Debug, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Setup { config: Config },
    Step,
    SaveCheckpoint { dir: PathBuf },
    LoadCheckpoint { dir: PathBuf },
    ResetConfig { config: Config },
    Resources { config: Config },
}

pub(super) fn trainable() -> anyhow::Result<()> {
    let mut answers = take_stdout().context("cannot move standard output")?;
    let mut trial = Trial(None);
    for line in requests(answers.try_clone().context("cannot share standard output")?)? {
        let request = serde_json::from_str(&line).with_context(|| format!("`{line}` is no request"));
        let answer = request.and_then(|request| trial.answer(request));
        let answer = answer.unwrap_or_else(|error| json!({"error": in_words(error.as_ref())}));
        if writeln!(answers, "{answer}").is_err() {
            break;
        }
    }
    trial.0.map_or(Ok(()), |mut made| made.driver.stop()).map_err(Into::into)
}

/// Returns the lines of standard input. The process exits once the input has ended and `answers` has no reader any more,
/// because the actor that sent the requests has ended then.
fn requests(answers: File) -> anyhow::Result<Receiver<String>> {
    let (sender, requests) = sync_channel(0);
    let listen = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        drop(sender);
        // No events are requested: `poll` then returns only when nothing can be written any more.
        let mut reader = [PollFd::new(&answers, PollFlags::empty())];
        while poll(&mut reader, None).is_err() {}
        std::process::exit(0);
    };
    std::thread::Builder::new().name("requests".into()).spawn(listen).context("no thread for requests")?;
    Ok(requests)
}

/// Returns standard output for the answers, and redirects everything else that is printed to standard error.
fn take_stdout() -> std::io::Result<File> {
    let answers = std::io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(File::from(answers))
}

/// State of the trial; `None` before the request `setup`.
struct Trial(Option<Made>);

struct Made {
    what: What,
    driver: Driver<Box<dyn AnyAlgorithm>>,
}

/// Algorithm and environment of a trial, which `reset_config` cannot change.
#[derive(Clone, Debug, PartialEq)]
struct What {
    algorithm: &'static str,
    env: String,
}

impl Trial {
    fn answer(&mut self, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Setup { config } => {
                let settings = Settings::of(config)?;
                let options = RunOptions {
                    logdir: Some(std::env::current_dir().context("there is no current directory")?),
                    // Ray's own files lie there.
                    resume: Resume::ByCaller,
                    loggers: LoggerChoice::None,
                    ..RunOptions::default()
                };
                let what = settings.what();
                let driver = settings.entry.build(settings.env, settings.config, options)?;
                self.0 = Some(Made { what, driver });
                Ok(json!({}))
            }
            Request::Step => {
                let mut result = self.driver()?.train()?;
                // Ray has the settings already.
                result.shift_remove("config");
                Ok(json!({"result": result}))
            }
            Request::SaveCheckpoint { dir } => {
                self.driver()?.save_to(&dir)?;
                Ok(json!({}))
            }
            Request::LoadCheckpoint { dir } => {
                self.driver()?.restore(&newest(&dir)?)?;
                Ok(json!({}))
            }
            Request::ResetConfig { config } => {
                let settings = Settings::of(config)?;
                let what = settings.what();
                let made = self.0.as_mut().filter(|made| made.what == what);
                let done = made.map_or(Ok(false), |made| made.driver.reset(settings.config, None))?;
                Ok(json!({"done": done}))
            }
            Request::Resources { config } => {
                let settings = Settings::of(config)?;
                let trainable = settings.entry.as_trainable(settings.env, Config::new());
                // Workers are threads or processes of the trial, so all resources must be on one machine.
                Ok(json!({"resources": trainable.resources(&settings.config)?.required()}))
            }
        }
    }

    fn driver(&mut self) -> anyhow::Result<&mut Driver<Box<dyn AnyAlgorithm>>> {
        self.0.as_mut().map(|made| &mut made.driver).ok_or_else(|| anyhow!("ask for `setup` first"))
    }
}

fn newest(dir: &Path) -> anyhow::Result<PathBuf> {
    let found = checkpoint::latest(dir)?;
    found.ok_or_else(|| anyhow!("{}: there is no whole checkpoint of pavlov's in it", dir.display()))
}

/// Algorithm, environment and complete settings of a trial.
struct Settings {
    entry: AlgorithmEntry,
    env: EnvCreator,
    config: Config,
}

impl Settings {
    /// Resolves `config`, which has the settings of the algorithm and the keys `algorithm`, `env` and, optionally, `preset`.
    fn of(mut config: Config) -> anyhow::Result<Self> {
        let algorithm = take(&mut config, "algorithm")?.ok_or_else(|| {
            usage("the settings of the trial have no `algorithm`; add e.g. \"algorithm\": \"PPO\"")
        })?;
        let env = take(&mut config, "env")?;
        let preset = take(&mut config, "preset")?;
        let Choice { entry, preset, env } = Choice::of(&algorithm, preset.as_deref(), env)?;
        let base = preset.map(|preset| preset.config).unwrap_or_default();
        let env = env.ok_or_else(|| {
            usage("the settings of the trial have no `env`; add e.g. \"env\": \"CartPole-v1\"")
        })?;
        let env = environment(&env)?;
        let layers = vec![
            Layer { origin: "preset".into(), values: base },
            Layer { origin: "the trial".into(), values: config },
        ];
        let config = entry.resolve_in(layers, &env)?.config;
        Ok(Self { entry, env, config })
    }

    fn what(&self) -> What {
        What { algorithm: self.entry.name(), env: self.env.name().into() }
    }
}

/// Removes and returns the text at `key`, which is no setting of the algorithm; `None` if it is missing or null.
fn take(config: &mut Config, key: &str) -> anyhow::Result<Option<String>> {
    match config.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(usage(format!("`{key}` is {other}, but it must be a name in quotation marks"))),
    }
}
