//! `pavlov show`: prints the model card of a packed model.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::usage;
use super::output::{print, print_json};
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
        return print_json(&json!({
            "settings": facts.settings,
            "results": facts.results,
            "licence": facts.licence,
            "card": facts.card,
            "observation_space": pack.observation_space().to_string(),
            "action_space": pack.action_space().to_string(),
            "pavlov": pack.version(),
            "weights": pack.weights(),
        }))
        .map(drop);
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

/// The text without what a terminal takes for commands: the card may come from a stranger.
fn visible(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn a_card_cannot_command_the_terminal() {
        assert_eq!(visible("a\u{1b}[31mred\u{9b}2J\n\tb"), "a\u{fffd}[31mred\u{fffd}2J\n\tb");
    }
}
