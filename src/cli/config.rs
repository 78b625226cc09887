//! `pavlov config`: prints the settings that a run would have and where each comes from, or what a setting means.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;

use super::explain::{ExplainArgs, explain};
use super::leaves::leaves;
use super::output::{print, print_json, print_table, say};
use super::settings::SettingsArgs;
use crate::registry::Effective;

/// Show settings, or explain them
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov config show PPO --env CartPole-v1 --set lr=3e-4")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show each setting that a run would have, and where it comes from
    #[command(
        after_help = "Example:\n  pavlov config show PPO --env CartPole-v1 --preset ppo-cartpole --set lr=3e-4\n\n\
                            The origin `fitted` marks what the algorithm's own rules adjusted."
    )]
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say what a setting means, its default, and its names in other libraries
    #[command(
        after_help = "Example:\n  pavlov config explain PPO lr\n  pavlov config explain PPO    # all of them, a line each"
    )]
    Explain(ExplainArgs),
}

pub(super) fn config(args: ConfigArgs) -> anyhow::Result<()> {
    let (settings, json) = match args.action {
        Action::Show { settings, json } => (settings, json),
        Action::Explain(args) => return explain(&args),
    };
    let settings = settings.resolve()?;
    if let Some(translation) = &settings.translation {
        say(translation);
    }
    let effective = settings.entry.effective(&settings.resolved, &settings.env);
    let effective = effective.map_err(|error| settings.lines.place(error))?;
    let config = &effective.resolved.config;
    let origins = &effective.resolved.origins;
    if json {
        return print_json(&json!({
            "algorithm": settings.entry.name(),
            "env": settings.env.name(),
            "config": config,
            "origins": origins,
            "batch_arithmetic": effective.batch_arithmetic,
            "agents": effective.agents.iter().cloned().collect::<BTreeMap<_, _>>(),
            "policies_that_do_not_learn": effective.frozen,
            "notices": effective.notices,
        }))
        .map(drop);
    }
    let mut rows = vec![["setting", "value", "origin"].map(str::to_owned).to_vec()];
    for (key, value) in leaves(config, "") {
        let origin = origins.get(&key).cloned().unwrap_or_else(|| "default".into());
        rows.push(vec![key, value.to_string(), origin]);
    }
    effective.notices.iter().for_each(|notice| say(&format!("notice: {notice}")));
    let mut read = print_table(&rows)?;
    if let Some(arithmetic) = effective.batch_arithmetic.as_ref().filter(|_| read) {
        read = print(&format!("\none batch: {arithmetic}"))?;
    }
    match policies(&effective) {
        Some(policies) if read => print(&format!("\n{policies}")).map(drop),
        _ => Ok(()),
    }
}

/// Describes which agents act by which policy; `None` if there are fewer than two agents.
fn policies(effective: &Effective) -> Option<String> {
    if effective.agents.len() < 2 {
        return None;
    }
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (agent, id) in &effective.agents {
        of.entry(id).or_default().push(agent);
    }
    let line = |(id, agents): (&str, Vec<&str>)| {
        let rest = if effective.frozen.contains(id) { " and does not learn" } else { "" };
        format!("policy {id} acts for {}{rest}", agents.join(", "))
    };
    let multi = &effective.resolved.config["multiagent"];
    let change = multi["policy_mapping_fn"].is_string() || multi["rotate_policies"] == true;
    let first =
        if change { "in the first episode of the first copy, and in others by others:\n" } else { "" };
    Some(first.to_owned() + &of.into_iter().map(line).collect::<Vec<_>>().join("\n"))
}
