//! What a stranger reads to understand an algorithm: so many files and lines, and so many boxes that are taken by name.
//!
//! A list cannot be kept short by leaving things out: whatever a listed file names must be on the list or in a box, and every
//! box has its reason. Names that come through the prelude count for the files they come from. `algorithms/README.md` walks
//! through PPO's list.

use std::collections::BTreeSet;
use std::fs;

use crate::layers::{
    Module, Names, Sources, code, edges, ends_of, file_of, module, names, paths, root, sources,
};

/// Files and folders of the trainer that a listed file may name without their being read, each with the reason.
const BOXES: &[(&str, &str)] = &[
    ("base::batch", "columns by name"),
    ("base::train_batch", "the columns of every policy"),
    ("base::state", "what a checkpoint holds"),
    ("base::rng", "streams of random numbers"),
    ("base::schedule", "a number that changes with the steps of the run"),
    ("base", "errors, rules of settings, tensors as plain memory, clocks"),
    ("learn::learner", "gradient, clip, step, target copy"),
    ("learn::rows", "what a loss sees"),
    ("learn::loss", "what a loss says"),
    ("learn::value", "numbers per row and their operations"),
    ("learn::groups", "which parameters learn by which rule"),
    ("learn::nets", "layers, and what the `model` settings make of them"),
    ("learn::engines", "how numbers are computed"),
    ("learn::returns", "advantages"),
    ("learn::draw", "how an action is drawn from a distribution"),
    ("learn::exploration", "the `exploration_config` setting"),
    ("replay", "the store of experience"),
    ("policy::net_policy", "what an algorithm's author writes"),
    ("policy", "the same as the trainer sees it"),
    ("plan", "one function per step of a plan"),
    ("workers", "who samples and who learns"),
    ("run::common", "settings that all algorithms share"),
    ("run::memory", "the sum of what a run needs in memory"),
    ("run::trainer", "what an algorithm says of itself"),
    ("sample::callbacks", "a user's hooks"),
    ("sample::transforms", "what stands between an environment's rows and a model's"),
    ("sample", "rows of a fragment, filters, masks, memory, counting of episodes"),
];

struct List {
    algorithm: &'static str,
    /// Files of the trainer that are read.
    files: &'static [&'static str],
    most_lines: usize,
    most_boxes: usize,
    /// Public functions of the files in boxes that the listed files name.
    most_signatures: usize,
}

const LISTS: &[List] = &[
    List {
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
        most_signatures: 255,
    },
    List {
        algorithm: "dqn",
        files: &[
            "plan::rollouts",
            "plan::replay",
            "plan::train",
            "plan::target",
            "replay::buffer",
            "sample::sampler",
            "sample::pilot",
            "sample::fragment",
            "sample::nstep",
        ],
        most_lines: 1680,
        most_boxes: 25,
        most_signatures: 260,
    },
    List {
        algorithm: "sac",
        files: &[
            "plan::rollouts",
            "plan::replay",
            "plan::train",
            "plan::target",
            "sample::sampler",
            "sample::pilot",
            "sample::nstep",
            "learn::dist",
            "learn::nets::critics",
        ],
        most_lines: 1250,
        most_boxes: 25,
        most_signatures: 260,
    },
    // TD3 is the same with other defaults.
    List {
        algorithm: "ddpg",
        files: &[
            "plan::rollouts",
            "plan::replay",
            "plan::train",
            "plan::target",
            "sample::sampler",
            "sample::pilot",
            "sample::nstep",
            "learn::nets::critics",
        ],
        most_lines: 1150,
        most_boxes: 25,
        most_signatures: 260,
    },
];

#[test]
fn an_algorithm_is_understood_from_a_short_list_of_files() {
    let trainer = sources("trainer/src");
    let (names, edges) = (names(&trainer), edges(&trainer));
    let mut faults = Vec::new();
    for list in LISTS {
        let path = format!("algorithms/src/{}.rs", list.algorithm);
        let text = fs::read_to_string(root().join(&path)).expect("the algorithm");
        let mut lines = text.lines().count();
        let mut named = named_by(&text, &trainer, &names);
        for file in list.files {
            let module = module(file);
            lines += text_of(&module).lines().count();
            named.extend(edges[&module].iter().cloned());
        }
        named.retain(|module| !list.files.contains(&module.join("::").as_str()));
        let (mut boxes, mut signatures) = (BTreeSet::new(), 0);
        for module in named.iter().filter(|module| !module.is_empty()) {
            match (0..module.len()).rev().find_map(|n| of_box(&module[..=n])) {
                Some(name) => boxes.insert(name),
                None => panic!("{path} leads to {}, which is neither read nor a box", module.join("::")),
            };
            signatures += ends_of(&text_of(module), "pub fn ").count();
        }
        let found = [lines, boxes.len(), signatures];
        let most = [list.most_lines, list.most_boxes, list.most_signatures];
        if found.iter().zip(&most).any(|(found, most)| found > most) {
            let files = list.files.len() + 1;
            faults.push(format!(
                "{path}: {files} files; lines, boxes and their public functions are {found:?}, but at most {most:?}"
            ));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_page_that_walks_through_ppo_names_the_files_of_its_list() {
    let page = fs::read_to_string(root().join("algorithms/README.md")).expect("the page");
    for file in LISTS[0].files {
        let path = source_of(&module(file));
        let link = format!("(../{})", path.strip_prefix(root()).expect("a file of the checkout").display());
        assert!(page.contains(&link), "the page does not link to {link}");
    }
}

fn of_box(module: &[String]) -> Option<&'static str> {
    let name = module.join("::");
    BOXES.iter().map(|(of, _)| *of).find(|of| *of == name)
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

fn source_of(module: &[String]) -> std::path::PathBuf {
    let path = root().join("trainer/src").join(module.join("/"));
    let file = [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.exists());
    file.unwrap_or_else(|| panic!("{} is no file; take it off the list", module.join("::")))
}

fn text_of(module: &[String]) -> String {
    fs::read_to_string(source_of(module)).expect("a source")
}
