//! `pavlov show`: prints the model card of a packed model.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::usage;
use super::output::{is_unsafe, print, visible};
use crate::trainer::Pack;

/// Print the card of a packed model: what it is, its scores and its licence
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov show pole.pavlov\n\nThe file is checked as before it acts. Nothing in it is run."
)]
pub(super) struct ShowArgs {
    /// A packed model, which `pavlov pack` wrote
    #[arg(value_name = "FILE.pavlov")]
    file: PathBuf,
    /// Print one JSON object instead: settings, results, licence, card, spaces, version and number of weights
    #[arg(long)]
    json: bool,
}

pub(super) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    if !args.file.is_file() {
        return Err(usage(format!(
            "{}: there is no such file; `pavlov pack` makes one from a run",
            args.file.display()
        )));
    }
    let pack = Pack::read(&args.file)?;
    let facts = pack.facts();
    if args.json {
        let text = serde_json::to_string(&json!({
            "settings": facts.settings,
            "results": facts.results,
            "licence": facts.licence,
            "card": facts.card,
            "observation_space": pack.observation_space().to_string(),
            "action_space": pack.action_space().to_string(),
            "pavlov": pack.version(),
            "weights": pack.weights(),
        }))?;
        // JSON has an escape of its own for these characters, which only stand in texts.
        let escaped = |c: char| if is_unsafe(c) { format!("\\u{:04x}", c as u32) } else { c.into() };
        return print(&text.chars().map(escaped).collect::<String>()).map(drop);
    }
    let head = format!(
        "{}: {} weights, packed by pavlov {}; licence: {}",
        args.file.display(),
        pack.weights(),
        pack.version(),
        facts.licence
    );
    print(&visible(&format!("{head}\n\n{}", facts.card.trim_end()))).map(drop)
}
