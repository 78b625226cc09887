//! The layers of the workspace: no circles between the files of a crate, and no crate that depends on one above it.
//!
//! A file's edges are what it names by `crate::` and `super::`, outside comments and unit tests. A name that another
//! file re-exports counts for the file it comes from. A `mod` line is no edge: every folder names its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path from the crate root.
pub(crate) type Module = Vec<String>;
/// The code of each file.
pub(crate) type Sources = BTreeMap<Module, String>;
/// What the names that `use` lines bring stand for.
pub(crate) type Names = BTreeMap<Module, Module>;
/// What each file names.
pub(crate) type Edges = BTreeMap<Module, BTreeSet<Module>>;

/// Source folders of the workspace.
const CRATES: &[&str] = &[
    "crates/processes/src",
    "crates/tune/src",
    "crates/data/src",
    "crates/train/src",
    "envs/src",
    "crates/learn/src",
    "crates/storage/src",
    "crates/trainer/src",
    "algorithms/src",
    "crates/report/src",
    "crates/serve/src",
    "src",
    "python/src",
    "xtask/src",
];

/// Edges that may point upwards, each with the reason: folder, from, to, why.
const ALLOWED: &[(&str, &str, &str, &str)] = &[
    (
        "envs/src",
        "contract::error",
        "contract::space",
        "an invalid action is reported with the space that it is not in",
    ),
    ("envs/src", "registry::ids", "native", "the registry starts with the built-in environments"),
    ("envs/src", "wrappers::named", "wrappers::built_in", "the names start with the built-in wrappers"),
];

#[test]
fn no_file_imports_what_stands_on_it() {
    for folder in CRATES {
        let mut edges = edges(&sources(folder));
        for (_, from, to, why) in ALLOWED.iter().filter(|(of, ..)| of == folder) {
            let found = edges.get_mut(&module(from)).is_some_and(|targets| targets.remove(&module(to)));
            assert!(found, "{folder}: {from} does not name {to} any more ({why}); take it off the list");
        }
        assert_eq!(
            circle(&edges),
            None,
            "{folder}: these files import each other; move what they share below"
        );
    }
}

/// Crates whose folders are rooms, low to high: a file imports only its own room and those before it.
const ROOMS: &[(&str, &[&str])] = &[
    ("crates/tune/src", TUNE_ROOMS),
    ("crates/learn/src", LEARN_ROOMS),
    ("crates/trainer/src", TRAINER_ROOMS),
];

const TUNE_ROOMS: &[&str] = &[
    "base",
    "checkpoint",
    "storage",
    "trainable",
    "loggers",
    "run",
    "functions",
    "stoppers",
    "search",
    "schedulers",
    "executor",
    "tuner",
    "ray1",
];

const LEARN_ROOMS: &[&str] = &[
    "base",
    "layers",
    "experience",
    "kernels",
    "params",
    "loss",
    "distributions",
    "engines",
    "nets",
    "learner",
    "build",
    "learner_state",
    "recording",
    "outline",
    "shared_net",
    "values",
    "export",
];

const TRAINER_ROOMS: &[&str] = &[
    "base",
    "settings",
    "experience",
    "replay",
    "policy",
    "agents",
    "sample",
    "export",
    "workers",
    "plan",
    "run",
    "prelude",
];

#[test]
fn no_room_imports_one_above_it() {
    let mut upward = Vec::new();
    for (folder, rooms) in ROOMS {
        for (from, targets) in edges(&sources(folder)) {
            let Some(own) = room_of(&from, rooms) else { continue };
            for to in targets {
                if room_of(&to, rooms).is_some_and(|room| room > own) {
                    upward.push(format!("{folder}: {} imports {}", from.join("::"), to.join("::")));
                }
            }
        }
    }
    assert!(upward.is_empty(), "move what is shared to a lower room: {upward:#?}");
}

#[test]
fn every_file_lies_in_a_room() {
    for (folder, rooms) in ROOMS {
        for module in sources(folder).keys().filter(|module| !module.is_empty()) {
            assert!(room_of(module, rooms).is_some(), "{folder}: {} lies in no room", module.join("::"));
        }
    }
}

/// The place in `rooms` of the room that a file lies in; the crate's root lies in none, since it hands out all of them.
fn room_of(file: &[String], rooms: &[&str]) -> Option<usize> {
    let lies_in = |room: &&&str| file.starts_with(&module(room));
    let longest = rooms.iter().filter(lies_in).max_by_key(|room| room.len())?;
    rooms.iter().position(|room| room == longest)
}

#[test]
fn no_crate_depends_on_one_above_it() {
    for (folder, refused) in [
        (
            "crates/processes",
            "tch torch-sys pavlov-data pavlov-envs pavlov-storage pavlov-train pavlov-tune pavlov-learn pavlov-trainer \
             pavlov-algorithms pavlov",
        ),
        (
            "crates/tune",
            "tch torch-sys pavlov-data pavlov-envs pavlov-storage pavlov-train pavlov-learn pavlov-trainer \
             pavlov-algorithms pavlov",
        ),
        (
            "envs",
            "tch torch-sys pavlov-data pavlov-storage pavlov-train pavlov-tune pavlov-learn pavlov-trainer \
             pavlov-algorithms pavlov",
        ),
        (
            "crates/data",
            "tch torch-sys pavlov-envs pavlov-storage pavlov-train pavlov-learn pavlov-trainer pavlov-algorithms pavlov",
        ),
        (
            "crates/train",
            "tch torch-sys pavlov-envs pavlov-storage pavlov-learn pavlov-trainer pavlov-algorithms pavlov",
        ),
        (
            "crates/storage",
            "tch torch-sys pavlov-data pavlov-envs pavlov-train pavlov-learn pavlov-trainer pavlov-algorithms pavlov",
        ),
        (
            "crates/learn",
            "pavlov-data pavlov-train pavlov-storage pavlov-trainer pavlov-report pavlov-serve \
             pavlov-algorithms pavlov",
        ),
        (
            "crates/trainer",
            "pavlov-data pavlov-train pavlov-storage pavlov-report pavlov-serve pavlov-algorithms pavlov",
        ),
        ("algorithms", "pavlov-storage pavlov-report pavlov-serve pavlov"),
        (
            "crates/report",
            "tch torch-sys pavlov-data pavlov-train pavlov-storage pavlov-algorithms pavlov-serve pavlov",
        ),
        (
            "crates/serve",
            "tch torch-sys pavlov-data pavlov-train pavlov-storage pavlov-algorithms pavlov-report pavlov",
        ),
        (
            "xtask",
            "tch torch-sys pavlov-learn pavlov-trainer pavlov-algorithms pavlov-report pavlov-serve pavlov",
        ),
    ] {
        let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(toml::Value::Table(dependencies)) = manifest.get(section) else { continue };
            let found = dependencies.keys().find(|name| refused.split(' ').any(|refused| refused == *name));
            assert_eq!(found, None, "{folder}/Cargo.toml: [{section}]");
        }
    }
}

/// The files that may name libtorch, besides those in `crates/learn/src/engines/torch` and `src/torch_train`: a build
/// without the feature `torch` compiles none of them, or only their names.
const NAME_LIBTORCH: [&str; 14] = [
    "src/cli/doctor/torch.rs",
    "src/lib.rs",
    "crates/learn/src/base/libtorch.rs",
    "crates/learn/src/base/torch.rs",
    "crates/learn/src/base/unread.rs",
    "crates/learn/src/export.rs",
    "crates/learn/src/loss/on_libtorch.rs",
    "crates/learn/src/nets/tch_module.rs",
    "crates/learn/src/params/device.rs",
    "crates/learn/src/params/encode.rs",
    "crates/learn/src/params/modules.rs",
    "crates/learn/src/params/tensors.rs",
    "crates/trainer/src/lib.rs",
    "src/torch_train/mod.rs",
];

#[test]
fn libtorch_is_named_only_where_a_build_without_it_does_not_look() {
    let mut files = Vec::new();
    let mut waiting: Vec<PathBuf> = [
        "crates/learn/src",
        "crates/trainer/src",
        "algorithms/src",
        "crates/report/src",
        "crates/serve/src",
        "src",
    ]
    .map(|f| root().join(f))
    .into();
    while let Some(directory) = waiting.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { waiting.push(path) } else { files.push(path) }
        }
    }
    let mut features = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        features += text.matches("feature = \"torch\"").count();
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let may = NAME_LIBTORCH.contains(&name.as_str())
            || name.starts_with("crates/learn/src/engines/torch/")
            || name.starts_with("crates/trainer/src/export/torchscript/")
            || name.starts_with("src/torch_train/");
        // A method of a trait that is there only with the feature says its types in full.
        let code = code(&text).replace("tch::Tensor", "");
        let is_word = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let named = code.match_indices("tch::").any(|(at, _)| is_word(at));
        assert!(may || !named, "{name} names libtorch");
    }
    assert!(features <= 60, "{features} conditions on the feature `torch`: move code behind one of them");
}

#[test]
fn circles_are_found_through_groups_supers_and_re_exports() {
    let sources = |texts: &[(&str, &str)]| -> Sources {
        texts.iter().map(|(name, text)| (module(name), code(text))).collect()
    };
    let lib = ("", "mod a;\npub use a::{deep::Thing as Other, Name};");
    let direct = sources(&[lib, ("a", "use crate::{x, b::{self, C}};"), ("b", "let _ = super::a::f();")]);
    assert_eq!(circle(&edges(&direct)), Some(vec!["a".to_owned(), "b".to_owned()]));
    let re_exported = sources(&[lib, ("a", "use crate::b::C;"), ("b", "use crate::Name;")]);
    assert_eq!(circle(&edges(&re_exported)), Some(vec!["a".to_owned(), "b".to_owned()]));
    let inner = sources(&[
        ("a", "use crate::a::deep::Thing;"),
        ("a::deep", "use crate::{\n    a::{\n        other::Name,\n    },\n};"),
        ("a::other", ""),
    ]);
    assert_eq!(circle(&edges(&inner)), None);
    let harmless = "// use crate::a;\n#[cfg(test)]\nmod tests { use crate::a; }";
    assert_eq!(circle(&edges(&sources(&[lib, ("a", "use crate::b::C;"), ("b", harmless)]))), None);
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn module(name: &str) -> Module {
    name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The code of every file of a crate by module.
pub(crate) fn sources(folder: &str) -> Sources {
    let top = root().join(folder);
    let mut sources = BTreeMap::new();
    let mut waiting = vec![top.clone()];
    while let Some(directory) = waiting.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.insert(module_of(&top, &path), code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

fn module_of(top: &Path, file: &Path) -> Module {
    let relative: PathBuf = file.strip_prefix(top).unwrap().with_extension("");
    let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if ["lib", "main", "mod"].contains(&module[module.len() - 1].as_str()) {
        module.pop();
    }
    module
}

/// The text without comments and without unit tests, which stand at the end of a file.
pub(crate) fn code(text: &str) -> String {
    let tested = text.find("#[cfg(test)]\nmod ").map_or(text, |end| &text[..end]);
    tested.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn names(sources: &Sources) -> Names {
    let mut named = Names::new();
    for (module, code) in sources {
        for start in ends_of(code, "use ") {
            for (path, name) in paths(&code[start..]) {
                let absolute = path.first().is_some_and(|first| first == "crate");
                let origin = if absolute { path[1..].to_vec() } else { [module.as_slice(), &path].concat() };
                named.insert([module.as_slice(), &[name]].concat(), origin);
            }
        }
    }
    named
}

pub(crate) fn edges(sources: &Sources) -> Edges {
    let named = names(sources);
    let mut edges = Edges::new();
    for (module, code) in sources {
        let targets = edges.entry(module.clone()).or_default();
        let from_root = ends_of(code, "crate::").map(|start| (start, 0));
        let from_parent = ends_of(code, "super::").map(|start| (start, module.len().saturating_sub(1)));
        for (start, depth) in from_root.chain(from_parent) {
            for (path, _) in paths(&code[start..]) {
                let target = file_of([&module[..depth], &path].concat(), sources, &named);
                if target != *module {
                    targets.insert(target);
                }
            }
        }
    }
    edges
}

/// The places behind each `word`.
pub(crate) fn ends_of<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(start, word)| start + word.len())
}

/// The paths of a use tree or of a plain path, and the name that each brings.
pub(crate) fn paths(tree: &str) -> Vec<(Module, String)> {
    let tree = tree.trim_start();
    if let Some(group) = tree.strip_prefix('{') {
        return items(group).into_iter().flat_map(paths).collect();
    }
    let end = tree.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tree.len());
    let first = tree[..end].to_owned();
    let rest = tree[end..].trim_start();
    if let Some(rest) = rest.strip_prefix("::") {
        let below = paths(rest).into_iter();
        return below.map(|(path, name)| ([vec![first.clone()], path].concat(), name)).collect();
    }
    let renamed = rest.strip_prefix("as ").map(|name| name.split([',', ';', '}']).next().unwrap_or(""));
    let path = if ["", "self"].contains(&first.as_str()) { vec![] } else { vec![first.clone()] };
    vec![(path, renamed.map_or(first, |name| name.trim().to_owned()))]
}

/// What stands between the commas of a group whose opening brace is cut off.
fn items(group: &str) -> Vec<&str> {
    let mut items = vec![];
    let mut start = 0;
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                // A comma stands behind the last one too.
                items.extend(Some(group[start..at].trim()).filter(|item| !item.is_empty()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items
}

/// The file that a path leads to, through the `use` lines on the way: `named` says what their names stand for.
pub(crate) fn file_of(path: Module, sources: &Sources, named: &Names) -> Module {
    let known = (0..=path.len()).rev().find(|&n| sources.contains_key(&path[..n])).unwrap_or(0);
    match path.get(..known + 1).and_then(|name| named.get(name)) {
        Some(origin) if origin.as_slice() != &path[..known + 1] => {
            file_of([origin, &path[known + 1..]].concat(), sources, named)
        }
        _ => path[..known].to_vec(),
    }
}

/// The files that lie on circles.
fn circle(edges: &Edges) -> Option<Vec<String>> {
    let mut left = edges.clone();
    // Take away files that name nothing that is left, until only circles and what stands on them are left.
    loop {
        let is_free = |file: &&Module| left[*file].iter().all(|to| !left.contains_key(to));
        let free: Vec<Module> = left.keys().filter(is_free).cloned().collect();
        if free.is_empty() {
            break;
        }
        left.retain(|file, _| !free.contains(file));
    }
    let on_circle = |file: &&Module| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![*file];
        while let Some(at) = waiting.pop() {
            let next = left.get(at).into_iter().flatten().filter(|to| seen.insert(*to));
            waiting.extend(next.collect::<Vec<_>>());
        }
        seen.contains(file)
    };
    let files: Vec<String> = left.keys().filter(on_circle).map(|file| file.join("::")).collect();
    (!files.is_empty()).then_some(files)
}
