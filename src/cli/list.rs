//! `pavlov list`: lists algorithms, environments or presets by name.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::output::{print_json, print_table};
use crate::{envs, presets, registry};

/// List algorithms, environments or presets
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov list envs\n\n\
    What an environment needs: nothing, or a Python that has the package (PAVLOV_PYTHON, or `python` in the env_config).")]
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
        What::Envs => {
            let columns = vec![
                "id",
                "observation_space",
                "action_space",
                "max_episode_steps",
                "reward_threshold",
                "needs",
                "summary",
            ];
            let mut rows = envs()?;
            if !args.json {
                rows.extend(bridged());
            }
            (columns, rows)
        }
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
        // An environment that cannot be made here, because a program is missing, is listed without its spaces.
        let spaces = envs::make_vec(&id, &envs::EnvConfig::new(), 1)
            .ok()
            .map(|env| [env.observation_space().to_string(), env.action_space().to_string()]);
        Ok(json!({
            "id": spec.id,
            "observation_space": spaces.as_ref().map(|spaces| &spaces[0]),
            "action_space": spaces.as_ref().map(|spaces| &spaces[1]),
            "max_episode_steps": spec.max_episode_steps,
            "reward_threshold": spec.reward_threshold,
            "needs": null,
            "summary": spec.summary,
        }))
    };
    let mut rows = envs::ids().into_iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    for id in envs::multi_agent_ids() {
        let spec = envs::multi_agent_spec(&id)?;
        let env = envs::make_multi_agent(&id, &envs::EnvConfig::new()).ok();
        rows.push(json!({
            "id": spec.id,
            "observation_space": env.as_ref().map(|env| env.observation_space(0).to_string()),
            "action_space": env.as_ref().map(|env| env.action_space(0).to_string()),
            "needs": null,
            "max_episode_steps": spec.max_episode_steps,
            "summary": format!("{} (several agents)", spec.summary),
        }));
    }
    Ok(rows)
}

/// Rows for the environments in Python, which are named by a pattern.
fn bridged() -> [Value; 2] {
    [
        json!({"id": "py:ENV_ID", "needs": "Python, gymnasium", "summary": "any environment of Gymnasium"}),
        json!({"id": "pz:MODULE", "needs": "Python, pettingzoo", "summary": "any parallel one of PettingZoo (several agents)"}),
    ]
}

fn presets() -> anyhow::Result<Vec<Value>> {
    let row = |name| {
        let preset = presets::preset(name)?;
        let algorithm = preset.algorithm;
        let env = preset.env;
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
