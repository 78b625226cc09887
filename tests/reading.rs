//! What a stranger reads to understand an algorithm. The test prints three numbers for each:
//!
//! 1. the guided tour: from the user's `train()` to the optimizer's step, the files that say what happens;
//! 2. the tour, and with it every file that one of its files names;
//! 3. the whole rule: every file that runs for the algorithm's default networks, from sampling to the optimizer's step. What of it
//!    lies in the engine, the crate `pavlov-learn`, is counted apart: that crate has a page of its own.
//!
//! Files count as a whole. The numbers of the whole rule may only fall. Its list cannot be kept short by leaving things out: whatever one of
//! its files names must be on it or among the boxes, with the reason; [`lists`] has all of them. `algorithms/README.md` walks through PPO's tour. What no
//! splitting of files can lower, the lines that are executed, is counted by `cargo xtask executed`.

mod lists;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::layers::{Module, Names, Sources, ends_of, module, names, paths, root, sources};
use crate::pages::is_written;
use lists::{BOXES, READINGS, RULE, Reading, TO_THE_PLAN};

/// The crate of arrays, networks and losses, which has a page of its own. What of it runs is counted apart.
const ENGINE: &str = "pavlov_learn";

/// The crates whose files name each other.
const CRATES: [(&str, &str); 5] = [
    ("pavlov_trainer", "crates/trainer/src"),
    (ENGINE, "crates/learn/src"),
    ("pavlov_algorithms", "algorithms/src"),
    ("pavlov_tune", "crates/tune/src"),
    ("pavlov_envs", "envs/src"),
];

/// A file by its crate and its module.
type File = (&'static str, Module);

/// Files, their lines, and the functions that other files can call.
struct Count {
    files: usize,
    lines: usize,
    functions: usize,
}

#[test]
fn the_whole_rule_of_an_algorithm_only_gets_shorter() {
    let tree = Tree::read();
    let mut faults = Vec::new();
    for reading in READINGS {
        let tour = tree.tour(reading);
        let named = tour.iter().flat_map(|file| tree.named_by(file)).map(|(file, _)| file);
        let beside: BTreeSet<File> = named.filter(|file| !tour.contains(file)).collect();
        let rule = tree.rule(reading);
        let (engine, rule) = rule.into_iter().partition::<BTreeSet<File>, _>(|(krate, _)| *krate == ENGINE);
        let [tour, beside, whole, engine] = [&tour, &beside, &rule, &engine].map(|files| tree.count(files));
        let text = format!(
            "{}: the guided tour {} files and {} lines; with the files that it names {} and {} ({} functions); \
             the whole rule {} and {}, and {} and {} of the engine",
            reading.algorithm,
            tour.files,
            tour.lines,
            tour.files + beside.files,
            tour.lines + beside.lines,
            beside.functions,
            whole.files,
            whole.lines,
            engine.files,
            engine.lines,
        );
        println!("{text}");
        let most = [reading.most_lines, reading.most_lines_of_engine];
        if whole.lines > most[0] || engine.lines > most[1] {
            faults.push(format!("{text}, but at most {} and {}", most[0], most[1]));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_the_rule_names_is_in_it_or_has_a_reason() {
    let tree = Tree::read();
    let mut faults = BTreeSet::new();
    let mut stale: BTreeSet<&str> = BOXES.iter().map(|(name, _)| *name).collect();
    for reading in READINGS {
        let rule = tree.rule(reading);
        for file in &rule {
            for ((krate, module), item) in tree.named_by(file) {
                let of_crate = if krate == CRATES[0].0 { String::new() } else { format!("{krate}::") };
                let name = format!("{of_crate}{}", module.join("::"));
                let one = format!("{name}::{item}");
                stale.remove(name.as_str());
                stale.remove(one.as_str());
                let is_box = BOXES.iter().any(|(of, _)| *of == name || *of == one);
                if [CRATES[0].0, ENGINE].contains(&krate) && !is_box && !rule.contains(&(krate, module)) {
                    faults.insert(format!("{} names {one}", file.1.join("::")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "neither in the rule nor a box: {faults:#?}");
    assert!(stale.is_empty(), "no rule names these boxes; take them off the list: {stale:?}");
}

#[test]
fn the_page_has_the_numbers_that_this_test_counts() {
    let tree = Tree::read();
    let counts = READINGS.iter().map(|reading| {
        let tour = tree.tour(reading);
        let named = tour.iter().flat_map(|file| tree.named_by(file)).map(|(file, _)| file);
        let both: BTreeSet<File> = named.chain(tour.iter().cloned()).collect();
        let rule = tree.rule(reading).into_iter();
        let (engine, rule) = rule.partition::<BTreeSet<File>, _>(|(krate, _)| *krate == ENGINE);
        [tree.count(&tour), tree.count(&both), tree.count(&rule), tree.count(&engine)]
    });
    let counts: Vec<[Count; 4]> = counts.collect();
    let rows = [
        "the guided tour",
        "the tour and the files that it names",
        "the whole rule, beside the engine",
        "what runs of the engine",
    ];
    let page = fs::read_to_string(root().join("algorithms/README.md")).expect("the page");
    let lines = page.lines().map(|line| {
        let Some(at) = rows.iter().position(|row| line.starts_with(&format!("| {row} |"))) else {
            return line.to_owned();
        };
        let cells = counts.iter().map(|of| {
            let Count { files, lines, .. } = &of[at];
            format!("{},{:03} lines, {files} files", lines / 1000, lines % 1000)
        });
        let cells: Vec<String> = cells.collect();
        format!("| {} | {} | `cargo test --test tests -- reading` |", rows[at], cells.join(" | "))
    });
    let wanted = lines.collect::<Vec<_>>().join("\n") + "\n";
    is_written("algorithms/README.md", &wanted);
}

#[test]
fn the_page_walks_through_the_tour_of_ppo() {
    let page = fs::read_to_string(root().join("algorithms/README.md")).expect("the page");
    let tree = Tree::read();
    let links = tree.tour(&READINGS[0]);
    let links = links.iter().map(|file| {
        let path = tree.path(file);
        let path = path.strip_prefix(root()).expect("a file of the checkout").display().to_string();
        path.strip_prefix("algorithms/").map_or_else(|| format!("(../{path})"), |own| format!("({own})"))
    });
    let missing: Vec<String> = links.filter(|link| !page.contains(link)).collect();
    assert!(missing.is_empty(), "algorithms/README.md does not link to {missing:?}");
}

/// All files of [`CRATES`].
struct Tree(Vec<(&'static str, &'static str, Sources, Names)>);

impl Tree {
    fn read() -> Self {
        Self(
            CRATES
                .map(|(name, folder)| {
                    let sources = sources(folder);
                    let names = names(&sources);
                    (name, folder, sources, names)
                })
                .into(),
        )
    }

    /// The guided tour.
    fn tour(&self, reading: &Reading) -> BTreeSet<File> {
        self.files([TO_THE_PLAN, reading.tour].concat(), reading.algorithm)
    }

    /// The whole rule.
    fn rule(&self, reading: &Reading) -> BTreeSet<File> {
        self.files([RULE, reading.rule].concat(), reading.algorithm)
    }

    /// The files of a list, and the algorithm's own.
    fn files(&self, list: Vec<&'static str>, algorithm: &str) -> BTreeSet<File> {
        let all = list.iter().map(|name| {
            let other = CRATES
                .iter()
                .find_map(|(krate, _)| Some((*krate, name.strip_prefix(krate)?.strip_prefix("::")?)));
            other.map_or_else(|| (CRATES[0].0, module(name)), |(krate, name)| (krate, module(name)))
        });
        let files: BTreeSet<File> = all.chain([("pavlov_algorithms", module(algorithm))]).collect();
        let is_file = |(krate, module): &&File| {
            self.0.iter().any(|(name, _, sources, _)| name == krate && sources.contains_key(module))
        };
        let missing: Vec<String> = files
            .iter()
            .filter(|file| !is_file(file))
            .map(|(krate, module)| format!("{krate}::{}", module.join("::")))
            .collect();
        assert!(missing.is_empty(), "no files any more; mend the lists of tests/reading.rs: {missing:?}");
        assert_eq!(files.len(), list.len() + 1, "a file stands twice on a list");
        files
    }

    fn of_crate(&self, krate: &str) -> (&str, &Sources, &Names) {
        let found = self.0.iter().find(|(name, ..)| *name == krate);
        let (_, folder, sources, names) = found.expect("a crate of the list");
        (folder, sources, names)
    }

    fn path(&self, (krate, module): &File) -> PathBuf {
        let path = root().join(self.of_crate(krate).0).join(module.join("/"));
        let file = [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.exists());
        file.expect("a source")
    }

    fn count(&self, files: &BTreeSet<File>) -> Count {
        let mut count = Count { files: files.len(), lines: 0, functions: 0 };
        for file in files {
            count.lines += fs::read_to_string(self.path(file)).expect("a source").lines().count();
            let lines = self.of_crate(file.0).1[&file.1].lines().map(str::trim_start);
            count.functions += lines.filter(|line| line.starts_with("pub") && line.contains(" fn ")).count();
        }
        count
    }

    /// The file that a path leads to, through the `use` lines on the way, in whichever crate it lies.
    fn file_of(&self, krate: &'static str, path: Module) -> File {
        // The name of another crate stands behind the module that hands out its names.
        let behind = |other: &&str| path.iter().position(|part| part == *other);
        if let Some((other, at)) = CRATES.iter().find_map(|(other, _)| Some((*other, behind(other)?))) {
            return self.file_of(other, path[at + 1..].to_vec());
        }
        let (_, sources, named) = self.of_crate(krate);
        let known = (0..=path.len()).rev().find(|&n| sources.contains_key(&path[..n])).unwrap_or(0);
        match path.get(..known + 1).and_then(|name| named.get(name)) {
            Some(origin) if origin.as_slice() != &path[..known + 1] => {
                self.file_of(krate, [origin, &path[known + 1..]].concat())
            }
            _ => (krate, path[..known].to_vec()),
        }
    }

    /// The files that a file names, each with what it names of it; nothing stands for the whole file.
    fn named_by(&self, file: &File) -> BTreeSet<(File, String)> {
        let (krate, at) = file;
        let code = &self.of_crate(krate).1[at];
        let mut named = BTreeSet::new();
        let mut add = |krate: &'static str, path: Module| {
            let item = path.last().cloned().unwrap_or_default();
            let (krate, found) = match self.file_of(krate, path) {
                // A module that stands in the root's file, for nothing but `use` lines.
                (krate, root) if root.is_empty() => self.file_of(krate, vec![item.clone()]),
                found => found,
            };
            let item = if found.last() == Some(&item) { String::new() } else { item };
            if !found.is_empty() && (krate, &found) != (file.0, at) {
                named.insert(((krate, found), item));
            }
        };
        for (word, depth) in [("crate::", 0), ("super::", at.len().saturating_sub(1))] {
            for start in ends_of(code, word) {
                for (path, _) in paths(&code[start..]) {
                    add(krate, [&at[..depth], &path].concat());
                }
            }
        }
        // Files of the folder that this is the file of. What it only hands out, it does not name.
        let modules = self.of_crate(krate).1.keys().filter(|module| module.len() == at.len() + 1);
        for child in modules.filter(|module| module.starts_with(at)).map(|module| &module[at.len()]) {
            for (start, _) in code.match_indices(&format!("{child}::")) {
                let line = code[..start].lines().next_back().unwrap_or_default();
                if line.starts_with("pub") || code[..start].ends_with(|c: char| is_part(c) || c == ':') {
                    continue;
                }
                paths(&code[start..]).into_iter().for_each(|(path, _)| add(krate, [at, &path[..]].concat()));
            }
        }
        for (other, _) in CRATES {
            for start in ends_of(code, &format!("{other}::")) {
                for (path, _) in paths(&code[start..]) {
                    if path.first().is_some_and(|first| first == "prelude") {
                        let names = self.of_crate(other).2;
                        let exported =
                            names.iter().filter(|(name, _)| name.len() == 2 && name[0] == "prelude");
                        let used = exported.filter(|(name, _)| has_word(code, &name[1]));
                        used.for_each(|(_, origin)| add(other, origin.clone()));
                    } else {
                        add(other, path);
                    }
                }
            }
        }
        named
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part))
}
