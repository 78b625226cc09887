//! `pavlov list`: what there is by name.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::output::{print_json, print_table};
use crate::{envs, presets, registry};

/// List algorithms, environments or presets
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov list envs")]
pub(super) struct ListArgs {
    what: What,
    /// Print a JSON list of objects
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    Algorithms,
    Envs,
    Presets,
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<()> {
    let (columns, rows) = match args.what {
        What::Algorithms => (vec!["name", "summary"], algorithms()),
        What::Envs => (vec!["id", "max_episode_steps", "reward_threshold", "summary"], envs()?),
        What::Presets => (vec!["name", "algorithm", "env", "stop"], presets()?),
    };
    if args.json {
        return print_json(&rows).map(drop);
    }
    let head = columns.iter().map(|column| column.replace('_', " ")).collect();
    let row = |row: &Value| columns.iter().map(|column| cell(&row[column])).collect();
    print_table(&[head].into_iter().chain(rows.iter().map(row)).collect::<Vec<_>>()).map(drop)
}

fn algorithms() -> Vec<Value> {
    let row = |entry: &registry::AlgorithmEntry| json!({"name": entry.name(), "summary": entry.summary()});
    registry::algorithms().iter().map(row).collect()
}

fn envs() -> anyhow::Result<Vec<Value>> {
    let row = |id: String| {
        let spec = envs::spec(&id)?;
        Ok(json!({
            "id": spec.id,
            "max_episode_steps": spec.max_episode_steps,
            "reward_threshold": spec.reward_threshold,
            "summary": spec.summary,
        }))
    };
    envs::ids().into_iter().map(row).collect()
}

fn presets() -> anyhow::Result<Vec<Value>> {
    let row = |name| {
        let preset = presets::preset(name)?;
        let (algorithm, env) = (preset.algorithm, preset.env);
        Ok(json!({"name": name, "algorithm": algorithm, "env": env, "stop": preset.stop}))
    };
    presets::names().map(row).collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
