//! `pavlov pack`: a policy in one file for other people.

mod card;
mod facts;

pub(super) use card::MADE;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::usage;
use super::output::{print, say};
use super::returns::Summary;
use super::run_dir::find_checkpoint;
use crate::envs::{EnvCreator, python::is_python_id};
use crate::load_policy;
use crate::trainer::Pack;
use crate::tune::{Error, checkpoint};

/// Largest model card that is taken, in bytes.
const MAX_CARD: usize = 1 << 20;

/// Pack a saved policy as one file to share
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov pack runs/first pole.pavlov --licence CC-BY-4.0\n\n\
                        The file holds the network that acts, the observation filter, the spaces and a model card. Paths, \
                        texts of the environment's settings, hosts and users are left out. `pavlov evaluate`, `serve`, \
                        `export` and `show` take it, and `pavlov::load`. docs/share.md says what is in it.")]
pub(super) struct PackArgs {
    /// A checkpoint or a run directory (its newest checkpoint), or the URL of one
    #[arg(value_name = "DIR|URL")]
    checkpoint: PathBuf,
    /// The file to write, whose name ends in .pavlov; an existing file is replaced
    #[arg(value_name = "FILE.pavlov")]
    out: PathBuf,
    /// Id of the policy, if the run has several
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// Licence of the weights, by its SPDX name such as CC-BY-4.0; without it the file says that none was given
    #[arg(long, value_name = "SPDX")]
    licence: Option<String>,
    /// A model card of your own, in Markdown, in place of the one that is made
    #[arg(long, value_name = "FILE.md")]
    card: Option<PathBuf>,
    /// Keep names that are your own: the id of a Python environment with its module, and texts of wrappers
    #[arg(long)]
    allow_env_name: bool,
    /// Number of episodes that the packed policy plays for its card, in an environment that is not Python's; 0 plays none
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    episodes: u64,
}

pub(super) fn pack(args: &PackArgs) -> anyhow::Result<()> {
    let shown = args.out.display();
    if args.out.extension().is_none_or(|end| end != "pavlov") {
        return Err(usage(format!("the file is {shown}, but its name must end in .pavlov")));
    }
    if args.out.is_dir() {
        return Err(usage(format!("the file is {shown}, but that is a directory")));
    }
    match args.out.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            return Err(usage(format!("the file is {shown}, but there is no directory {}", dir.display())));
        }
        _ => {}
    }
    let licence = args.licence.clone().unwrap_or_else(|| "none given".into());
    if licence.is_empty() || licence.len() > 100 || licence.chars().any(char::is_control) {
        return Err(usage("--licence must be the SPDX name of a licence, of 1 to 100 characters"));
    }
    let own_card = args.card.as_deref().map(|file| {
        let text = crate::tune::read_file(file).map_err(Error::io("read", file))?;
        match String::from_utf8(text) {
            Ok(text) if text.len() <= MAX_CARD => Ok(text),
            _ => {
                Err(usage(format!("--card {}: it must be text of at most {MAX_CARD} bytes", file.display())))
            }
        }
    });
    let own_card = own_card.transpose()?;
    let path = find_checkpoint(&args.checkpoint)?;
    let settings = PackSettings {
        policy: args.policy.clone(),
        licence,
        own_card,
        allow_own_names: args.allow_env_name,
        episodes: args.episodes,
    };
    let Made { pack, left_out } = make(&path, settings)?;
    pack.write(&args.out)?;
    let bytes = std::fs::metadata(&args.out).map_err(Error::io("read", &args.out))?.len();
    let mut lines = vec![format!("{shown}: the policy of {} ({bytes} bytes)", path.display())];
    lines.extend(left_out.iter().map(|what| format!("left out:  {what}")));
    lines.push(format!("licence:   {}", pack.facts().licence));
    print(&lines.join("\n")).map(drop)
}

/// How a policy is packed.
pub(super) struct PackSettings {
    /// Id of the policy; `None` for the only one.
    pub(super) policy: Option<String>,
    pub(super) licence: String,
    /// A card in place of the one that is made.
    pub(super) own_card: Option<String>,
    pub(super) allow_own_names: bool,
    /// Number of episodes that are played for the card.
    pub(super) episodes: u64,
}

/// A packed model, and in words what is not in it.
pub(super) struct Made {
    pub(super) pack: Pack,
    pub(super) left_out: Vec<String>,
}

/// Packs a policy of the checkpoint at `path`.
pub(super) fn make(path: &Path, settings: PackSettings) -> anyhow::Result<Made> {
    let metadata = checkpoint::metadata(path)?;
    let manifest = checkpoint::verify(path, None)?;
    let facts::Kept { mut facts, left_out } =
        facts::keep(&manifest.kind, &metadata, path.parent(), settings.allow_own_names)?;
    facts.licence = settings.licence;
    // `pavlov verify` finds the checkpoint by it.
    let run = json!({
        "experiment_id": metadata.experiment_id,
        "state": manifest.hash.map(|hash| hash.state),
        "policy": settings.policy,
    });
    facts.results.insert("run".into(), run);
    let mut session = load_policy(path, settings.policy.as_deref(), 1)?;
    let pack = session.pack(facts.clone())?;
    if settings.episodes > 0 {
        match scores(&pack, settings.episodes) {
            Ok(scores) => facts.results.extend(scores.map(|scores| ("evaluation".to_owned(), scores))),
            Err(error) => say(&format!("no episodes were played for the card: {error}")),
        }
    }
    facts.card = match settings.own_card {
        Some(card) => card,
        None => card::card(&pack, &facts),
    };
    Ok(Made { pack: pack.with_facts(facts), left_out })
}

/// Returns of episodes that the packed policy plays; `None` in an environment that is not named, or is Python's.
fn scores(pack: &Pack, episodes: u64) -> anyhow::Result<Option<Value>> {
    let settings = &pack.facts().settings;
    let env = settings.get("env").and_then(Value::as_str).filter(|env| !is_python_id(env));
    let Some(env) = env else { return Ok(None) };
    let played = pack.play(&EnvCreator::from(env), settings, (episodes, 0), false, 0)?;
    let returns: Vec<f64> = played.episodes.iter().map(|episode| episode.total_reward).collect();
    let Summary { mean, std, min, max } = Summary::of(&returns);
    Ok(Some(json!({
        "episodes": episodes,
        "seed": 0,
        "episode_reward_mean": mean,
        "episode_reward_std": std,
        "episode_reward_min": min,
        "episode_reward_max": max,
    })))
}
