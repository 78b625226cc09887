//! The meanings that `pavlov config explain` prints are the doc lines of the sources.

use std::collections::BTreeMap;

/// By dotted key, then by the algorithm or the shared settings that have it.
type Meanings = BTreeMap<String, BTreeMap<String, String>>;

/// Owner, source file, type, and what stands before its keys.
const SOURCES: [(&str, &str, &str, &str); 17] = [
    ("Common", "trainer/src/settings/common.rs", "Common", ""),
    ("Common", "trainer/src/settings/model.rs", "ModelConfig", "model."),
    ("Common", "trainer/src/settings/evaluation.rs", "EvaluationConfig", "evaluation_config."),
    ("Common", "trainer/src/settings/multi_agent.rs", "MultiAgentConfig", "multiagent."),
    ("Common", "trainer/src/settings/exploration.rs", "ExplorationConfig", "exploration_config."),
    ("OffPolicy", "trainer/src/settings/replay.rs", "OffPolicy", ""),
    ("OffPolicy", "trainer/src/settings/replay.rs", "ReplayBufferConfig", "replay_buffer_config."),
    ("DDPG", "algorithms/src/ddpg.rs", "Ddpg", ""),
    ("DQN", "algorithms/src/dqn.rs", "Dqn", ""),
    ("IMPALA", "algorithms/src/impala.rs", "Impala", ""),
    ("PPO", "algorithms/src/ppo.rs", "Ppo", ""),
    ("QMIX", "algorithms/src/qmix.rs", "Qmix", ""),
    ("SAC", "algorithms/src/sac.rs", "Sac", ""),
    ("SAC", "algorithms/src/sac.rs", "Optimization", "optimization."),
    ("SAC", "trainer/src/learn/nets/quantiles.rs", "Quantiles", ""),
    ("SAC", "trainer/src/settings/model.rs", "HiddenLayers", "policy_model_config."),
    ("SAC", "trainer/src/settings/model.rs", "HiddenLayers", "q_model_config."),
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

#[test]
fn the_meanings_of_settings_are_the_doc_lines_of_the_sources() {
    let mut all = Meanings::new();
    SOURCES.into_iter().for_each(|source| read(source, &mut all));
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
