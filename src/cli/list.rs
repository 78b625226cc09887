//! `pavlov list`: lists algorithms, environments or presets by name.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::exit::usage;
use super::output::{print_json, print_table, program};
use crate::{envs, presets, registry};

/// List algorithms, environments or presets
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov list envs\n\n\
    What an environment needs: nothing, or a Python that has the package (PAVLOV_PYTHON, or `python` in the env_config).")]
pub(super) struct ListArgs {
    what: What,
    /// With presets: the algorithm whose presets are listed
    algorithm: Option<String>,
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
    if let (Some(name), What::Algorithms | What::Envs) = (&args.algorithm, args.what) {
        return Err(usage(format!("`{name}` selects presets: `{} list presets {name}`", program())));
    }
    let (columns, rows) = match args.what {
        What::Algorithms => (vec!["name", "summary"], algorithms()),
        What::Envs if args.json => (Vec::new(), envs()?),
        What::Envs => return envs_table(&envs()?),
        What::Presets => (vec!["name", "algorithm", "env", "stop"], presets(args.algorithm.as_deref())?),
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

/// Numbers of components of observations and actions of Gymnasium's MuJoCo environments, for a machine without MuJoCo.
const MUJOCO: [(&str, usize, usize); 11] = [
    ("HalfCheetah-v5", 17, 6),
    ("Hopper-v5", 11, 3),
    ("Walker2d-v5", 17, 6),
    ("Swimmer-v5", 8, 2),
    ("Ant-v5", 105, 8),
    ("Humanoid-v5", 348, 17),
    ("HumanoidStandup-v5", 348, 17),
    ("InvertedPendulum-v5", 4, 1),
    ("InvertedDoublePendulum-v5", 9, 1),
    ("Reacher-v5", 10, 2),
    ("Pusher-v5", 23, 7),
];

/// Columns of the table of environments, so that it fits a window of usual width.
const WIDTH: usize = 100;

/// Prints the environments in lines of at most [`WIDTH`] columns, with abbreviated observation and action spaces; `--json`
/// prints the spaces in full.
fn envs_table(rows: &[Value]) -> anyhow::Result<()> {
    let mut table = vec![["id", "observation", "action", "limit", "summary"].map(str::to_owned).to_vec()];
    for row in rows {
        let id = cell(&row["id"]);
        let known = MUJOCO.iter().find(|(name, ..)| *name == id);
        let space = |key: &str, number: fn(&(&str, usize, usize)) -> usize| match (&row[key], known) {
            (Value::Null, Some(known)) => numbers(number(known)),
            (Value::Null, None) => "-".into(),
            (text, _) => short(text.as_str().unwrap_or_default()),
        };
        let [observation, action] =
            [space("observation_space", |known| known.1), space("action_space", |known| known.2)];
        table.push(vec![id, observation, action, cell(&row["max_episode_steps"]), cell(&row["summary"])]);
    }
    // The environments in Python are named by a pattern.
    for (id, summary) in [
        ("py:ENV_ID", "any environment of Gymnasium (needs Python, gymnasium)"),
        ("pz:MODULE", "any of PettingZoo (needs Python, pettingzoo)"),
        ("ma:ENV_ID", "any of Gymnasium with a Tuple of agents (needs Python, gymnasium)"),
    ] {
        table.push(vec![id.into(), "-".into(), "-".into(), "-".into(), summary.into()]);
    }
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let before: usize = (0..4).map(|column| width(column) + 2).sum();
    for row in &mut table {
        row[4] = cut(&row[4], WIDTH.saturating_sub(before));
    }
    print_table(&table).map(drop)
}

fn numbers(count: usize) -> String {
    if count == 1 { "1 number".into() } else { format!("{count} numbers") }
}

/// A space in few characters: `Box(-1, 1, [17], float32)` is `17 numbers`, and an image `64x64x3`.
fn short(space: &str) -> String {
    let shape = space.strip_prefix("Box(").and_then(|rest| {
        let inside = rest.rsplit_once('[').or_else(|| rest.rsplit_once('('))?.1;
        let inside = inside.split([']', ')']).next()?;
        inside.split(',').map(|n| n.trim().parse::<usize>().ok()).collect::<Option<Vec<usize>>>()
    });
    match shape.as_deref() {
        Some([count]) => numbers(*count),
        Some(shape) => shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"),
        None => cut(space, 16),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn presets(algorithm: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let wanted = algorithm.map(registry::algorithm).transpose()?;
    let mut rows = Vec::new();
    for name in presets::names() {
        let preset = presets::preset(name)?;
        if wanted.as_ref().is_none_or(|entry| preset.algorithm.eq_ignore_ascii_case(entry.name())) {
            let algorithm = preset.algorithm;
            let env = preset.env;
            rows.push(json!({"name": name, "algorithm": algorithm, "env": env, "stop": preset.stop}));
        }
    }
    Ok(rows)
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
