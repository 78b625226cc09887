//! Pages hold what the sources hold: the meanings of settings, and the operations and layers of losses.

mod algorithms;
mod arguments;

use std::collections::BTreeMap;

use pavlov::registry;
use pavlov::trainer::settings::names_elsewhere;
use serde_json::Value;

/// By dotted key, then by the algorithm or the shared settings that have it.
type Meanings = BTreeMap<String, BTreeMap<String, String>>;

/// Owner, source file, type, and what stands before its keys.
const SOURCES: [(&str, &str, &str, &str); 19] = [
    ("Common", "crates/trainer/src/settings/common.rs", "Common", ""),
    ("Common", "crates/learn/src/layers/model.rs", "ModelConfig", "model."),
    ("Common", "crates/trainer/src/settings/evaluation.rs", "EvaluationConfig", "evaluation_config."),
    ("Common", "crates/trainer/src/settings/multi_agent.rs", "MultiAgentConfig", "multiagent."),
    ("Common", "crates/trainer/src/settings/exploration.rs", "ExplorationConfig", "exploration_config."),
    ("OffPolicy", "crates/trainer/src/settings/replay.rs", "OffPolicy", ""),
    ("OffPolicy", "crates/trainer/src/settings/replay.rs", "ReplayBufferConfig", "replay_buffer_config."),
    ("DDPG", "algorithms/src/ddpg.rs", "Ddpg", ""),
    ("DQN", "algorithms/src/dqn.rs", "Dqn", ""),
    ("IMPALA", "algorithms/src/impala.rs", "Impala", ""),
    ("PPO", "algorithms/src/ppo.rs", "Ppo", ""),
    ("PPO", "crates/learn/src/nets/sde.rs", "Sde", ""),
    ("QMIX", "algorithms/src/qmix.rs", "Qmix", ""),
    ("SAC", "algorithms/src/sac.rs", "Sac", ""),
    ("SAC", "algorithms/src/sac.rs", "Optimization", "optimization."),
    ("SAC", "crates/learn/src/nets/quantiles.rs", "Quantiles", ""),
    ("SAC", "crates/learn/src/nets/sde.rs", "Sde", ""),
    ("SAC", "crates/learn/src/layers/model.rs", "HiddenLayers", "policy_model_config."),
    ("SAC", "crates/learn/src/layers/model.rs", "HiddenLayers", "q_model_config."),
];

/// Reads the doc lines of all fields of one type.
fn read((owner, path, name, prefix): (&str, &str, &str, &str), all: &mut Meanings) {
    let source = std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a source");
    let begins = [format!("pub struct {name} {{"), format!("pub enum {name} {{")];
    let body = source.lines().skip_while(|line| !begins.iter().any(|begin| begin == line)).skip(1);
    let mut doc: Vec<&str> = Vec::new();
    let mut renamed = None;
    for line in body.take_while(|line| !line.starts_with('}')) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
            renamed = rest.split('"').next();
        } else if line.starts_with("#[serde(flatten") {
            doc.clear();
        } else if !line.starts_with("#[") {
            let field = line.strip_prefix("pub ").unwrap_or(line).split_once(": ").map(|(field, _)| field);
            let field = field.filter(|field| field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            if let (Some(field), false) = (field, doc.is_empty()) {
                let key = format!("{prefix}{}", renamed.unwrap_or(field));
                all.entry(key).or_default().entry(owner.into()).or_insert_with(|| plain(&doc.join(" ")));
            }
            doc.clear();
            renamed = None;
        }
    }
}

/// The text without links: ``[`Name`](place)`` becomes `` `Name` ``.
fn plain(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, behind)) = link.split_once("`]") else { break };
        found += &format!("{before}`{name}`");
        rest = behind;
        if let Some((_, after)) = behind.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            rest = after;
        }
    }
    found + rest
}

fn meanings() -> Meanings {
    let mut all = Meanings::new();
    SOURCES.into_iter().for_each(|source| read(source, &mut all));
    all
}

/// Settings under their dotted keys, in order.
fn leaves(config: &serde_json::Map<String, Value>, prefix: &str, found: &mut Vec<(String, Value)>) {
    for (name, value) in config {
        let key = format!("{prefix}{name}");
        match value {
            Value::Object(inner) if !inner.is_empty() => leaves(inner, &format!("{key}."), found),
            value => found.push((key, value.clone())),
        }
    }
}

/// Defaults of a setting by algorithm.
fn defaults() -> BTreeMap<String, Vec<(&'static str, String)>> {
    let mut all: BTreeMap<String, Vec<(&str, String)>> = BTreeMap::new();
    for entry in registry::algorithms() {
        let mut found = Vec::new();
        leaves(&entry.default_config().expect("defaults"), "", &mut found);
        for (key, value) in found {
            all.entry(key).or_default().push((entry.name(), value.to_string()));
        }
    }
    all
}

/// `0.01`, if all have it, or else `PPO 0.01, DQN 0.02`.
fn default_of(values: &[(&str, String)]) -> String {
    let (_, first) = &values[0];
    if values.iter().all(|(_, value)| value == first) {
        return format!("`{first}`");
    }
    values.iter().map(|(algorithm, value)| format!("{algorithm} `{value}`")).collect::<Vec<_>>().join(", ")
}

/// The page: one entry per setting, in the order of the names.
fn page() -> String {
    let defaults = defaults();
    let mut page = String::from(
        "# All settings\n\n\
         What each setting means, its default, the algorithms that have it, and its names in other libraries.\n\
         `pavlov config explain ALGORITHM KEY` prints the same of one, and `pavlov config show ALGORITHM` prints the values of a run.\n\
         A test writes this page from the doc lines of the sources. `a.b` is the setting `b` in the table `a`.\n\n",
    );
    for (key, meanings) in meanings() {
        page += &format!("### `{key}`\n\n");
        let shared = meanings.len() == 1;
        for (owner, meaning) in &meanings {
            let owner = if shared { String::new() } else { format!("{owner}: ") };
            page += &format!("{owner}{meaning}\n\n");
        }
        if let Some(values) = defaults.get(&key) {
            page += &format!("* Default: {}\n", default_of(values));
            if values.len() < registry::algorithms().len() {
                let algorithms: Vec<&str> = values.iter().map(|(algorithm, _)| *algorithm).collect();
                page += &format!("* Algorithms: {}\n", algorithms.join(", "));
            }
        }
        let elsewhere = names_elsewhere(&key);
        if !elsewhere.is_empty() {
            page += &format!("* Elsewhere: `{}`\n", elsewhere.join("`, `"));
        }
        page.truncate(page.trim_end().len());
        page += "\n\n";
    }
    page.trim_end().to_owned() + "\n"
}

/// Refuses a page that is not what a test makes of the sources. With `PAVLOV_WRITE` set it is written first.
pub(crate) fn is_written(page: &str, wanted: &str) {
    let path = format!("{}/{page}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PAVLOV_WRITE").is_some() {
        std::fs::write(&path, wanted).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "{page} is old, first at {differs:?}: run this test with PAVLOV_WRITE=1, which writes it"
    );
}

#[test]
fn the_page_of_all_settings_says_what_the_sources_say() {
    is_written("docs/settings.md", &page());
}

#[test]
fn every_setting_of_every_algorithm_is_on_the_page() {
    let meanings = meanings();
    let has_meaning = |key: &str| {
        // `.type` and keys of the user's own choice are told with what stands above them.
        let mut above = Some(key);
        std::iter::from_fn(|| {
            let now = above?;
            above = now.rsplit_once('.').map(|(above, _)| above);
            Some(now)
        })
        .any(|key| meanings.contains_key(key))
    };
    let missing: Vec<String> = defaults().into_keys().filter(|key| !has_meaning(key)).collect();
    assert!(missing.is_empty(), "{missing:?} have no doc line");
}

#[test]
fn the_meanings_of_settings_are_the_doc_lines_of_the_sources() {
    let all = meanings();
    let path = format!("{}/src/cli/settings.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PAVLOV_WRITE").is_some() {
        let text = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
        std::fs::write(&path, text).expect("written");
    }
    let text = std::fs::read_to_string(&path).expect("the file");
    let stored: Meanings = serde_json::from_str(&text).expect("JSON");
    for (key, meaning) in &all {
        assert_eq!(
            stored.get(key),
            Some(meaning),
            "{key}: run this test with PAVLOV_WRITE=1, which writes the file"
        );
    }
    let gone: Vec<&String> = stored.keys().filter(|key| !all.contains_key(*key)).collect();
    assert!(gone.is_empty(), "{gone:?} are no settings any more: run this test with PAVLOV_WRITE=1");
}

/// The names of public methods of a source, also of those in the tables of `value.rs`.
fn methods(path: &str) -> Vec<String> {
    let source = std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a source");
    let name = |line: &str| {
        let line = line.trim();
        let named = match (line.strip_prefix("pub fn "), line.split_once(" => Op::")) {
            (Some(rest), _) => rest,
            (None, Some((name, _))) if !line.starts_with("//") => name,
            _ => return None,
        };
        let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(named.len());
        Some(named[..end].to_owned())
    };
    source.lines().filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_page_of_losses_lists_every_operation_and_layer() {
    let path = format!("{}/docs/losses.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).expect("the page");
    let operations = methods("crates/learn/src/loss/value.rs");
    assert!(["gather", "huber", "exp", "min"].iter().all(|name| operations.iter().any(|o| o == name)));
    let layers = methods("crates/learn/src/nets/builder.rs");
    assert!(layers.iter().any(|name| name == "dense"), "{layers:?}");
    // What a value or a builder tells of itself makes no value and no layer.
    let tells = [
        "columns",
        "image",
        "name",
        "named",
        "new",
        "spec",
        "refuse_custom_model",
        "encoding",
        "obs_width",
        "group",
        "has_actor",
        "target",
    ];
    let of_page = |name: &&String| {
        [format!("`{name}`"), format!("`{name}("), format!("{name}(")].iter().any(|form| page.contains(form))
    };
    let missing: Vec<&String> = operations
        .iter()
        .chain(&layers)
        .filter(|name| !tells.contains(&name.as_str()) && *name != "target_in_workers")
        .filter(|name| !of_page(name))
        .collect();
    assert!(missing.is_empty(), "docs/losses.md does not say {missing:?}");
}
