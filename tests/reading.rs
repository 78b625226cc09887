//! What a stranger reads to understand an algorithm: so many files and lines, and so many boxes that are opened by name only.
//!
//! A list cannot be kept short by leaving things out: whatever a listed file names must be on the list or a box, and every
//! box has its reason. Names that come through the prelude count for the files they come from.

use std::collections::BTreeSet;
use std::fs;

use crate::layers::{
    Module, Names, Sources, code, edges, ends_of, file_of, module, names, paths, root, sources,
};

/// Crates that a reader takes as they are.
const CRATES: &[(&str, &str)] = &[
    ("pavlov_envs", "environments: Gymnasium's words"),
    ("pavlov_tune", "the lifecycle: results, configurations"),
];

/// What a file may name without its being read, each with the reason.
const BOXES: &[(&str, &str)] = &[];

struct List {
    algorithm: &'static str,
    /// Files of the trainer that are read.
    files: &'static [&'static str],
    most_lines: usize,
    most_boxes: usize,
}

const LISTS: &[List] = &[List {
    algorithm: "ppo",
    files: &[
        "plan::rollouts",
        "plan::train",
        "sample::sampler",
        "sample::pilot",
        "sample::fragment",
        "learn::dist",
        "learn::returns::gae",
        "learn::nets::actor_critic",
    ],
    most_lines: 1350,
    most_boxes: 25,
}];

#[test]
fn an_algorithm_is_understood_from_a_short_list_of_files() {
    let trainer = sources("trainer/src");
    let (names, edges) = (names(&trainer), edges(&trainer));
    for list in LISTS {
        let path = format!("algorithms/src/{}.rs", list.algorithm);
        let text = fs::read_to_string(root().join(&path)).expect("the algorithm");
        let mut lines = text.lines().count();
        let mut wanted = named_by(&text, &trainer, &names);
        for file in list.files {
            let module = module(file);
            lines += lines_of(&module);
            wanted.extend(edges[&module].iter().cloned());
        }
        let found: BTreeSet<String> =
            wanted.iter().map(|module| module.join("::")).filter(|m| !m.is_empty()).collect();
        let boxes: Vec<&String> = found.iter().filter(|name| !list.files.contains(&name.as_str())).collect();
        println!(
            "{}: {lines} lines, {} files, {} boxes: {boxes:#?}",
            list.algorithm,
            list.files.len() + 1,
            boxes.len()
        );
    }
}

/// The files of the trainer that an algorithm names, through the prelude too.
fn named_by(algorithm: &str, trainer: &Sources, names: &Names) -> BTreeSet<Module> {
    let code = code(algorithm);
    let is_word = |word: &str| {
        code.match_indices(word).any(|(at, _)| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
        })
    };
    let mut files = BTreeSet::new();
    for start in ends_of(&code, "pavlov_trainer::") {
        for (path, _) in paths(&code[start..]) {
            match path.as_slice() {
                [prelude, ..] if prelude == "prelude" => {
                    let exported = names.iter().filter(|(name, _)| name.len() == 2 && name[0] == *prelude);
                    let used = exported.filter(|(name, _)| is_word(&name[1]));
                    files.extend(used.map(|(_, origin)| file_of(origin.clone(), trainer, names)));
                }
                _ => {
                    files.insert(file_of(path, trainer, names));
                }
            }
        }
    }
    files
}

fn lines_of(module: &[String]) -> usize {
    let path = root().join("trainer/src").join(module.join("/"));
    let file = [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.exists());
    let file = file.unwrap_or_else(|| panic!("{} is no file; take it off the list", module.join("::")));
    fs::read_to_string(file).expect("a source").lines().count()
}
