//! Packed models with their cards, and pages of `pavlov report`: what was made of a run, compared with what the run makes now.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::exit::usage;
use crate::cli::output::say;
use crate::cli::pack::{self, PackSettings};
use crate::cli::report;
use crate::cli::state_difference::{short, walk};
use crate::trainer::Pack;
use crate::tune::{Error, checkpoint, read_file};

/// Characters around a number that say which one it is.
const CONTEXT: usize = 400;
/// Words of them.
const WORDS: usize = 6;

fn has_ending(file: &Path, endings: &[&str]) -> bool {
    endings.iter().any(|ending| file.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending)))
}

/// Refuses a file that is neither a packed model nor a page, or is not there.
pub(super) fn refuse_unknown(file: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    if !file.is_file() {
        return Err(usage(format!("{shown}: there is no such file")));
    }
    if has_ending(file, &["pavlov", "html", "htm"]) {
        return Ok(());
    }
    Err(usage(format!(
        "{shown}: only packed models (.pavlov), which have the card, and pages of `pavlov report` (.html) are compared with \
         their run"
    )))
}

/// Describes where a file differs from what the run in `run_dir` makes now.
pub(super) fn differences(file: &Path, run_dir: &Path) -> anyhow::Result<Vec<String>> {
    if has_ending(file, &["pavlov"]) { of_pack(file, run_dir) } else { of_page(file, run_dir) }
}

fn of_pack(file: &Path, run_dir: &Path) -> anyhow::Result<Vec<String>> {
    let shown = file.display();
    let pack = Pack::read(file)?;
    let facts = pack.facts();
    let of_run = |key: &str| facts.results.get("run").and_then(|run| run.get(key)?.as_str());
    let (Some(run), Some(state)) = (of_run("experiment_id"), of_run("state")) else {
        return Err(usage(format!(
            "{shown}: it does not name its run, as files of earlier versions; pack the policy again with `pavlov pack`"
        )));
    };
    let Some(path) = checkpoint_of(run_dir, state)? else {
        return Ok(vec![format!(
            "{shown}: it was made of a checkpoint with the state {state}, and {} has none",
            run_dir.display()
        )]);
    };
    let mut found = Vec::new();
    let own = checkpoint::metadata(&path)?.experiment_id;
    if own != run {
        found.push(format!("{shown}: results.run.experiment_id is {run:?}, but that of the run is {own:?}"));
    }
    let episodes = facts.results.get("evaluation").and_then(|played| played.get("episodes")?.as_u64());
    let again = |allow_own_names: bool| {
        let settings = PackSettings {
            policy: of_run("policy").map(str::to_owned),
            licence: facts.licence.clone(),
            own_card: None,
            allow_own_names,
            episodes: episodes.unwrap_or(0),
        };
        pack::make(&path, settings).map(|made| made.pack)
    };
    // What was allowed is not written down, so both are tried: names are kept, or not.
    let again = match again(false) {
        Ok(made) if made.facts().settings == facts.settings => made,
        without => match (again(true), without) {
            (Ok(with), _) if with.facts().settings == facts.settings => with,
            (_, Ok(without)) => without,
            (with, Err(_)) => with?,
        },
    };
    for (part, here, there) in [
        ("settings", &facts.settings, &again.facts().settings),
        ("results", &facts.results, &again.facts().results),
    ] {
        let (here, there) = (Value::from(here.clone()), Value::from(there.clone()));
        walk(part, &here, &there, &mut |key, here, there| {
            found.push(format!("{shown}: {key} is {}, made again {}", short(here), short(there)));
        });
    }
    if pack.version() != again.version() {
        say(&format!(
            "{shown}: packed by pavlov {}, which is another version, so weights and card were not compared",
            pack.version()
        ));
        return Ok(found);
    }
    if !facts.card.contains(pack::MADE) {
        say(&format!("{shown}: its author wrote the card, whose numbers were not compared"));
    } else if facts.card != again.facts().card {
        let what = format!("{shown}, the card");
        found.push(
            first_number(&what, &facts.card, &again.facts().card)
                .unwrap_or_else(|| format!("{what} has other words than the card that the run makes")),
        );
    }
    let bytes = fs::read(file).map_err(Error::io("read", file))?;
    if again.with_facts(facts.clone()).to_bytes()? != bytes {
        found.push(format!("{shown}: its weights, spaces or filter are not those of {}", path.display()));
    }
    Ok(found)
}

/// The checkpoint of the run that has this state.
fn checkpoint_of(run_dir: &Path, state: &str) -> anyhow::Result<Option<PathBuf>> {
    for (_, path) in checkpoint::list(run_dir)? {
        if checkpoint::state_hash(&path)? == state {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn of_page(file: &Path, run_dir: &Path) -> anyhow::Result<Vec<String>> {
    let shown = file.display().to_string();
    let text = read_file(file).map_err(Error::io("read", file))?;
    let Ok(text) = String::from_utf8(text) else { return Ok(vec![format!("{shown} is no text")]) };
    let again = report::page(&[run_dir.to_path_buf()])?;
    if text == again {
        return Ok(Vec::new());
    }
    // The directory may have had another name then, which is no number of the run.
    let now = run_dir.display().to_string();
    let text = match directory_of(&text) {
        Some(then) if then != now => text.replace(&then, &now),
        _ => text,
    };
    Ok(first_number(&shown, &text, &again).into_iter().collect())
}

/// The directory that a page names as its run's.
fn directory_of(page: &str) -> Option<String> {
    let (_, after) = page.split_once("directory</dt><dd>")?;
    after.split_once("</dd>").map(|(directory, _)| directory.to_owned())
}

/// Describes the first number at which two texts differ; `None` if all numbers are equal.
fn first_number(what: &str, text: &str, again: &str) -> Option<String> {
    let here = numbers(text);
    let there = numbers(again);
    let differs = here.iter().zip(&there).find(|((_, here), (_, there))| here != there);
    if let Some(((at, here), (_, there))) = differs {
        let before = words_before(text, *at);
        return Some(format!("{what}: {here} stands behind {before:?}, where the run has {there}"));
    }
    (here.len() != there.len())
        .then(|| format!("{what}: it has {} numbers, and what the run makes has {}", here.len(), there.len()))
}

/// The numbers in a text with their places.
fn numbers(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut from = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        let belongs = c.is_ascii_digit() || (from.is_some() && c == '.');
        match (from, belongs) {
            (None, true) => from = Some(at),
            (Some(start), false) => {
                found.push((start, text[start..at].trim_end_matches('.')));
                from = None;
            }
            _ => {}
        }
    }
    found
}

/// The last words before a place of a page, without tags.
fn words_before(text: &str, at: usize) -> String {
    let start = (at.saturating_sub(CONTEXT)..=at).find(|start| text.is_char_boundary(*start)).unwrap_or(at);
    let before = &text[start..at];
    let mut plain = String::new();
    let mut is_tag = false;
    for c in before.chars() {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                plain.push(' ');
            }
            _ if !is_tag => plain.push(c),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    words[words.len().saturating_sub(WORDS)..].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_differs_is_told_with_the_words_before_it() {
        let page = "<dt>mean return</dt><dd>499.00</dd> at 5.";
        let again = "<dt>mean return</dt><dd>23.10</dd> at 5.";
        let said = first_number("r.html", page, again).expect("a difference");
        assert_eq!(said, r#"r.html: 499.00 stands behind "mean return", where the run has 23.10"#);
        assert_eq!(first_number("r.html", page, page), None);
        assert_eq!(
            first_number("r.html", "1 2", "1").as_deref(),
            Some("r.html: it has 2 numbers, and what the run makes has 1")
        );
    }
}
