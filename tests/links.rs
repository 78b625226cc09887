//! Every link of every page holds, and every command that a page shows exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages of the checkout.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines of a page that are not in a block of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    page.split("```").step_by(2).flat_map(str::lines)
}

/// The names that links may have behind `#`: headings in small letters, without punctuation, with `-` for spaces.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let names = headings.map(|line| {
        let kept = line.trim_start_matches('#').trim().chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        });
        let name: String = kept.collect();
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times == 1 { name } else { format!("{name}-{}", *times - 1) }
    });
    names.collect()
}

/// The targets of the links of a page.
fn links(page: &str) -> Vec<String> {
    let outside_code: String =
        prose(page).flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect();
    // A link's own text may be code, so its target is looked for behind what is left of it.
    let targets = outside_code.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_is_there() {
    let mut broken = Vec::new();
    let mut count = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        for link in
            links(&page).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let is_there = match fs::read_to_string(&target) {
                Ok(page) if target.extension().is_some_and(|end| end == "md") => {
                    anchor.is_empty() || anchors(&page).contains(anchor)
                }
                _ => target.exists(),
            };
            if !is_there {
                broken.push(format!("{}: {link}", path.strip_prefix(root()).unwrap_or(&path).display()));
            }
        }
    }
    assert!(count > 250, "only {count} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_of_docs_stands_in_the_table_of_the_book() {
    let table = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the table");
    let listed: BTreeSet<String> = links(&table).into_iter().collect();
    let all = fs::read_dir(root().join("docs")).expect("docs");
    let names = all.map(|entry| entry.expect("a page").file_name().to_string_lossy().into_owned());
    let missing: Vec<String> = names
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md" && !listed.contains(name))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

#[cfg(feature = "cli")]
#[test]
fn every_command_of_a_page_exists_with_its_options_and_presets() {
    use crate::cli::{command, run};

    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let key = words.join(" ");
        let made = || run(&mut command(words.iter().copied().chain(["--help"]))).ok().stdout;
        helps.entry(key).or_insert_with(made).clone()
    };
    let presets: BTreeSet<&str> = pavlov::presets::names().collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        for block in page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            for line in block.replace("\\\n", " ").lines() {
                let line = line.split(" #").next().unwrap_or_default();
                let Some((_, typed)) = line.split_once("pavlov ").filter(|(before, _)| {
                    before.split(' ').all(|word| word.is_empty() || word.contains('='))
                }) else {
                    continue;
                };
                let words: Vec<&str> =
                    typed.split_whitespace().take_while(|word| *word != "<<" && *word != ">").collect();
                count += 1;
                let depth = if matches!(words[0], "config" | "env") { 2 } else { 1 };
                let said = help(&words[..depth.min(words.len())]);
                for (at, word) in words.iter().enumerate() {
                    let option = word.split('=').next().unwrap_or_default();
                    let is_known = !word.starts_with("--") || said.contains(option);
                    let is_preset = at == 0
                        || words[at - 1] != "--preset"
                        || *word == "auto"
                        || word.ends_with(".toml")
                        || presets.contains(word);
                    if !is_known || !is_preset {
                        wrong.push(format!("{}: {word} in `pavlov {typed}`", path.display()));
                    }
                }
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
