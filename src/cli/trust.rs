//! `--trust`: asks the user before settings of a directory may run programs or open paths.
//!
//! A run directory, a checkpoint or a sweep is data, and may come from anyone. Its settings can name an interpreter to
//! run, a module of the current directory to import, and paths to open. These are used only if the user agrees, by
//! `--trust` or by an answer at the terminal. The user's own environment variables (`PAVLOV_PYTHON`) need no consent.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::{Component, Path};

use clap::Args;
use serde_json::{Map, Value};

use super::exit::usage;
use super::output::say;
use crate::tune::{Config, storage};

/// Option with which the user trusts the settings of a directory.
#[derive(Args, Debug)]
pub(super) struct TrustArgs {
    /// Allow the settings of the directory to run an interpreter or a module of the current directory, and to open paths
    #[arg(long)]
    trust: bool,
}

impl TrustArgs {
    /// Asks the user to allow the actions `named` by the settings in `place`; fails if the user does not.
    pub(super) fn check(&self, place: &Path, named: &BTreeSet<String>) -> anyhow::Result<()> {
        if self.trust || named.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let would = format!("the settings in {} would {}", place.display(), named.join("; "));
        if io::stdin().is_terminal() && io::stderr().is_terminal() {
            say(&format!("{would}.\nA directory from someone else can do harm by this. Go on? [y/N]"));
            let mut answer = String::new();
            io::stdin().read_line(&mut answer)?;
            if matches!(answer.trim(), "y" | "Y" | "yes") {
                return Ok(());
            }
        }
        Err(usage(format!("{would}; if you know who made the directory, add --trust to allow it")))
    }
}

/// Returns the option that a command needs to continue a run with these settings: ` --trust`, or an empty text.
pub(super) fn flag(settings: &Config) -> &'static str {
    if named(settings).is_empty() { "" } else { " --trust" }
}

/// Lists the actions that settings, or a whole sweep file, would cause outside of their directory. Each action completes a
/// sentence after "would", e.g. "open ...".
pub(super) fn named(settings: &Map<String, Value>) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    settings.iter().for_each(|(name, value)| collect_entry(name, name, value, &mut named));
    named
}

/// Collects the actions that one entry of an object would cause. `key` is the path of `value`, joined by dots, and `name`
/// its last part. Any part of the path counts, which covers search spaces and a scheduler's mutations.
fn collect_entry(key: &str, name: &str, value: &Value, named: &mut BTreeSet<String>) {
    // An environment may open a path that is a key, too.
    if has_part(key, "env_config") && name.split('.').any(is_outside) {
        named.insert(format!("open {name:?} (the name of `{key}`)"));
    }
    collect(key, value, named);
}

fn collect(key: &str, value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Object(inner) => {
            inner.iter().for_each(|(name, value)| {
                collect_entry(&format!("{key}.{name}"), name, value, named);
            });
        }
        Value::Array(values) => values.iter().for_each(|value| collect(key, value, named)),
        Value::String(text) => named.extend(judge(key, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn has_part(key: &str, part: &str) -> bool {
    key.split('.').any(|other| other == part)
}

fn judge(key: &str, text: &str) -> Option<String> {
    let has = |part: &str| has_part(key, part);
    if has("env_config") && has("python") {
        return (!is_own_interpreter(text)).then(|| format!("run the program {text:?} (`{key}`)"));
    }
    if has("env_config")
        && has("wrappers")
        && let Some(module) = wrapper_module(text)
    {
        return Some(format!("run the wrapper {text:?} of the module `{module}` (`{key}`)"));
    }
    if has("env_config") || has("policy_file") {
        return is_outside(text).then(|| format!("open {text:?} (`{key}`)"));
    }
    if has("policy_map_cache") {
        return is_outside(text).then(|| format!("keep files in {text:?} (`{key}`)"));
    }
    let module = has("env").then(|| module(text)).flatten()?;
    let here = std::env::current_dir().ok()?;
    is_in(&here, module).then(|| format!("run the module `{module}` in {} (`{key}`)", here.display()))
}

/// Returns true if `python` is the interpreter that Python environments use by default.
fn is_own_interpreter(python: &str) -> bool {
    let own = std::env::var("PAVLOV_PYTHON").ok().filter(|own| !own.is_empty());
    python == own.as_deref().unwrap_or("python3")
}

/// Returns true if the text or a part of it could be a path outside of the directory. Parts are checked too because a
/// program may trim spaces, expand environment variables, or parse an option such as `--file=/etc/passwd`.
fn is_outside(text: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || "\"'`=,;:|&()[]{}<>".contains(c);
    let leads_out = |part: &str| {
        let path = Path::new(part);
        path.is_absolute()
            || path.components().any(|part| part == Component::ParentDir)
            || part.starts_with('~')
    };
    text.contains('$')
        || text.split(separates).any(leads_out)
        || storage::scheme(Path::new(text.trim())).is_some()
}

/// Returns the Python module that the environment `env` imports first.
fn module(env: &str) -> Option<&str> {
    if let Some(module) = env.strip_prefix("pz:") {
        return Some(module);
    }
    let id = env.strip_prefix("py:").or_else(|| env.strip_prefix("ma:"))?;
    id.rsplit_once(':').map(|(module, _)| module)
}

/// Returns the module of a wrapper `module:Wrapper(..)` that is neither Gymnasium's nor MiniGrid's.
fn wrapper_module(text: &str) -> Option<&str> {
    let (module, _) = text.split('(').next()?.rsplit_once(':')?;
    (!["gymnasium.wrappers", "minigrid.wrappers"].contains(&module.trim())).then_some(module)
}

/// Returns true if `dir` has a file or folder that Python could import as `module`.
fn is_in(dir: &Path, module: &str) -> bool {
    let top = module.split('.').next().unwrap_or_default();
    let could_be = |name: &str| name.split('.').next() == Some(top);
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_str().is_some_and(could_be))
}

/// Returns true if `run_dir` is the local work directory of the run at `url`, whose path is made from the URL.
pub(super) fn is_work_dir(run_dir: &Path, url: &str) -> bool {
    let work_dir = storage::work_dir(url).ok().and_then(|dir| dir.canonicalize().ok());
    work_dir.is_some() && work_dir == run_dir.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named_in(settings: Value) -> Vec<String> {
        named(settings.as_object().expect("settings")).into_iter().collect()
    }

    #[test]
    fn interpreters_and_paths_are_found_wherever_settings_and_sweeps_can_name_them() {
        let settings = json!({
            "env": "py:CartPole-v1",
            "env_config": {"python": "/a/python", "kwargs": {"file": "../b", "name": "inside/ok"}},
            "evaluation_config": {"env_config": {"python": "c"}},
            "space": {"env_config.python": {"grid_search": ["d", "python3"]}},
            "scheduler": {"policy_file": "/e", "hyperparam_mutations": {"env_config": {"python": ["f"]}}},
        });
        assert_eq!(
            named_in(settings),
            [
                r#"open "../b" (`env_config.kwargs.file`)"#,
                r#"open "/e" (`scheduler.policy_file`)"#,
                r#"run the program "/a/python" (`env_config.python`)"#,
                r#"run the program "c" (`evaluation_config.env_config.python`)"#,
                r#"run the program "d" (`space.env_config.python.grid_search`)"#,
                r#"run the program "f" (`scheduler.hyperparam_mutations.env_config.python`)"#,
            ]
        );
    }

    #[test]
    fn a_path_is_found_behind_spaces_variables_options_and_as_a_key() {
        let inside = json!({"env_config": {
            "id": "ALE/Pong-v5", "inside/file.txt": 1, "frame..skip": "a:b=c", "kwargs": {"map": "maps/4x4.txt", "of": ["FROZEN"]},
        }, "multiagent": {"policy_map_cache": "cache", "policies": {"/etc": {}}}});
        assert_eq!(named_in(inside), [""; 0]);
        for text in [
            " /etc/passwd",
            "\t~/x",
            "$HOME/x",
            "${HOME}/x",
            "--file=/etc/passwd",
            "maps:/etc/passwd",
            "'/etc/passwd'",
            "inside/../../x",
            " s3://bucket/x",
        ] {
            let found = named_in(json!({"env_config": {"kwargs": {"file": [text]}}}));
            assert_eq!(found, [format!("open {text:?} (`env_config.kwargs.file`)")]);
        }
        for name in ["/etc/passwd", "/etc/cron.d", " ../x", "~/x", "$HOME"] {
            let found = named_in(json!({"env_config": {"files": {name: true}}}));
            assert_eq!(found, [format!("open {name:?} (the name of `env_config.files.{name}`)")]);
        }
        let space = named_in(json!({"space": {"env_config./etc/passwd": {"grid_search": [1]}}}));
        let expected = r#"open "env_config./etc/passwd" (the name of `space.env_config./etc/passwd`)"#;
        assert_eq!(space, [expected]);
    }

    #[test]
    fn a_folder_for_policies_elsewhere_is_named() {
        for cache in ["/var/x", "../x", "~/x"] {
            let found =
                named_in(json!({"multiagent": {"policy_map_capacity": 1, "policy_map_cache": cache}}));
            assert_eq!(found, [format!("keep files in {cache:?} (`multiagent.policy_map_cache`)")]);
        }
    }

    #[test]
    fn a_wrapper_of_a_module_of_ones_own_is_named() {
        let wrappers = ["TimeLimit(3)", "gymnasium.wrappers:TimeLimit(3)", "mine:Wrapper(3)"];
        let found = named_in(json!({"env": "py:CartPole-v1", "env_config": {"wrappers": wrappers}}));
        assert_eq!(
            found,
            [r#"run the wrapper "mine:Wrapper(3)" of the module `mine` (`env_config.wrappers`)"#]
        );
    }

    #[test]
    fn a_module_is_named_only_if_the_current_directory_has_it() {
        // Tests run in the folder of this package, which has `tests` and `build.rs`.
        let found = named_in(json!({
            "env": "py:tests.py.envs:Fault-v0",
            "evaluation_config": {"env": "pz:build"},
            "space": {"env": {"grid_search": ["py:ale_py:ALE/Pong-v5", "py:CartPole-v1", "CartPole-v1", "ma:benches:Two-v0"]}},
        }));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("run the module `benches` in /"), "{found:?}");
        assert!(found[1].starts_with("run the module `build` in /"), "{found:?}");
        assert!(found[2].starts_with("run the module `tests.py.envs` in /"), "{found:?}");
    }
}
