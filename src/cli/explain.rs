//! `pavlov config explain`: what each setting means, from the doc lines of the sources.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::Args;
use serde_json::{Value, json};

use super::exit::usage;
use super::leaves::leaves;
use super::output::{print, print_json, print_table};
use crate::registry::{self, AlgorithmEntry};
use crate::trainer::settings::{names_elsewhere, synonym};
use crate::tune::config::near;

/// Meaning of every setting: by dotted key, then by the algorithm or the shared settings that have it. A test makes this file
/// from the doc lines of the sources.
static MEANINGS: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("settings.json")).expect("a file of this crate, which a test reads")
});

/// Arguments of `config explain`.
#[derive(Args, Debug)]
pub(super) struct ExplainArgs {
    /// Name of the algorithm; `pavlov list algorithms` shows all
    algorithm: String,
    /// A setting, such as lr or model.fcnet_hiddens; without one all settings are listed
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A setting of an algorithm.
struct Setting {
    key: String,
    default: Value,
    meaning: String,
}

/// What the sources say of a setting of this algorithm; an empty text if they say nothing, as of a user's own algorithm.
fn meaning(algorithm: &str, key: &str) -> String {
    // The settings of TD3 are those of DDPG.
    let owners = [algorithm, if algorithm == "TD3" { "DDPG" } else { algorithm }, "OffPolicy", "Common"];
    let all = MEANINGS.get(key);
    let found = owners.iter().find_map(|owner| all?.get(*owner));
    if let (None, Some(kind)) = (found, key.strip_suffix(".type")) {
        return format!(
            "Name of the kind that `{kind}` describes; the other settings below `{kind}` depend on it."
        );
    }
    match (found, key.rsplit_once('.')) {
        (Some(found), _) => found.clone(),
        // A key of the user's own choice, such as the name of a group.
        (None, Some((above, _))) => meaning(algorithm, above),
        (None, None) => String::new(),
    }
}

/// The first sentence of what the sources say of a setting; an empty text if they say nothing.
pub(super) fn first_sentence(algorithm: &str, key: &str) -> String {
    first(&meaning(algorithm, key))
}

fn first(text: &str) -> String {
    text.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

fn settings(entry: &AlgorithmEntry) -> anyhow::Result<Vec<Setting>> {
    let defaults = entry.default_config()?;
    let of = |(key, value): (String, &Value)| {
        let meaning = meaning(entry.name(), &key);
        Setting { key, default: value.clone(), meaning }
    };
    let mut all: Vec<Setting> = leaves(&defaults, "").into_iter().map(of).collect();
    // The settings of other ways to explore are not among the defaults.
    let explores = MEANINGS.keys().filter(|key| key.starts_with("exploration_config."));
    for key in explores {
        if all.iter().all(|setting| setting.key != *key) {
            let meaning = meaning(entry.name(), key);
            all.push(Setting { key: key.clone(), default: Value::Null, meaning });
        }
    }
    Ok(all)
}

pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let entry = registry::algorithm(&args.algorithm)?;
    let all = settings(&entry)?;
    let Some(asked) = &args.key else { return list(&all, args.json) };
    let is_known = all.iter().any(|setting| setting.key == *asked);
    let named = if is_known { None } else { synonym(asked, &entry.default_config()?) };
    let key = named.unwrap_or(asked);
    let Some(setting) = all.iter().find(|setting| setting.key == *key) else {
        return Err(usage(unknown(&entry, &all, key)));
    };
    let others = names_elsewhere(key);
    let mut having = Vec::new();
    for other in registry::algorithms() {
        let defaults = other.default_config()?;
        if leaves(&defaults, "").iter().any(|(known, _)| known == key) {
            having.push(other.name());
        }
    }
    if args.json {
        let object = json!({
            "key": key,
            "meaning": setting.meaning,
            "default": setting.default,
            "names_elsewhere": others,
            "algorithms": having,
        });
        return print_json(&object).map(drop);
    }
    let mut lines = vec![format!("{key}: {}", setting.meaning)];
    if key != asked {
        lines.insert(0, format!("{asked} is {key} here"));
    }
    lines.push(format!("default:     {}", setting.default));
    if !others.is_empty() {
        lines.push(format!("elsewhere:   {}", others.join(", ")));
    }
    lines.push(format!("algorithms:  {}", having.join(", ")));
    lines.push(format!("to set it:   --set {key}=VALUE"));
    print(&lines.join("\n")).map(drop)
}

/// The answer to a key that the algorithm does not have: at most five names that are like it.
fn unknown(entry: &AlgorithmEntry, all: &[Setting], key: &str) -> String {
    let keys = || all.iter().map(|setting| setting.key.as_str());
    let mut nearest = near(key, keys());
    let last = |full: &str| full.rsplit('.').next().unwrap_or_default().to_owned();
    if nearest.is_empty() {
        nearest = keys().filter(|full| !near(key, [last(full).as_str()]).is_empty()).take(5).collect();
    }
    let way_out = match nearest.as_slice() {
        [] => "leave it out to list all".to_owned(),
        some => format!("nearest: {}", some.join(", ")),
    };
    format!("{} has no setting `{key}`; {way_out}", entry.name())
}

fn list(all: &[Setting], json: bool) -> anyhow::Result<()> {
    if json {
        let object = |setting: &Setting| json!({"key": setting.key, "default": setting.default, "meaning": setting.meaning});
        return print_json(&all.iter().map(object).collect::<Vec<_>>()).map(drop);
    }
    let row =
        |setting: &Setting| vec![setting.key.clone(), setting.default.to_string(), first(&setting.meaning)];
    let head = ["setting", "default", "meaning"].map(str::to_owned).to_vec();
    print_table(&[head].into_iter().chain(all.iter().map(row)).collect::<Vec<_>>()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_every_algorithm_has_a_meaning() {
        let built_in = ["DDPG", "DQN", "IMPALA", "PPO", "QMIX", "SAC", "TD3"];
        for name in built_in {
            let entry = registry::algorithm(name).unwrap();
            for setting in settings(&entry).unwrap() {
                assert!(!setting.meaning.is_empty(), "{name}: {} has no meaning", setting.key);
            }
        }
    }

    #[test]
    fn an_unknown_setting_is_answered_with_at_most_five_names() {
        let entry = registry::algorithm("PPO").unwrap();
        let all = settings(&entry).unwrap();
        assert!(unknown(&entry, &all, "gama").ends_with("nearest: gamma"));
        let hidden = unknown(&entry, &all, "fcnet_hidens");
        assert!(
            hidden.ends_with("nearest: model.fcnet_hiddens, model.post_fcnet_hiddens")
                || hidden.contains("model.fcnet_hiddens"),
            "{hidden}"
        );
        assert!(unknown(&entry, &all, "something_else").ends_with("leave it out to list all"));
        assert!(unknown(&entry, &all, "num").matches(',').count() < 5);
    }
}
