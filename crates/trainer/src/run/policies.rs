//! The policies of a run, from its `multiagent` settings; each policy can have settings that override the run's.

use crate::agents::{Agent, EVALUATED_BY, Policies};
use crate::base::PolicyId;
use crate::run::resolve::{overlay_known, to_config, validate};
use crate::run::trainer::Trainer;
use crate::settings::{Common, OffPolicy};
use pavlov_learn::base::{Error, Result, rules};
use pavlov_tune as tune;
use pavlov_tune::Config;
use pavlov_tune::config::{Layer, decode};
use serde_json::Value;

/// Key of the setting that maps agents to policies, for errors.
const MAPPED_BY: &str = "multiagent.policy_mapping_fn";

/// Common settings that one policy may override; all others hold for the whole run.
const OF_A_POLICY: [&str; 7] = [
    "gamma",
    "model",
    "exploration_config",
    "clip_rewards",
    "normalize_actions",
    "clip_actions",
    "mask_actions",
];

/// Returns the policies of a run with these settings and agents: those of `multiagent.policies`, or those of
/// [`Trainer::policies`] if that setting names none.
///
/// # Errors
/// Returns [`Error::Config`] if a policy's own setting breaks a rule or belongs to the whole run, if a pattern
/// matches no agent, or if a function is not registered; [`Error::Tune`] for a setting that does not exist or for
/// several errors. Fails if [`Trainer::policies`] does.
pub fn policies_of<T: Trainer>(settings: &T, agents: &[Agent]) -> Result<Policies> {
    let multi = settings.common().multiagent.clone();
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    multi.policy_mapping_fn.check(MAPPED_BY, &names)?;
    let mut policies =
        if multi.policies.is_empty() { settings.policies(agents)? } else { with_settings(settings, agents)? };
    if let Some(ids) = &multi.policies_to_train {
        policies = policies.training(ids.iter().cloned());
    }
    if !(multi.policies.is_empty() && multi.policy_mapping_fn.is_empty()) {
        policies = policies.mapped(multi.policy_mapping_fn.mapping(MAPPED_BY)?);
    }
    if let Some(mapping) = &settings.common().evaluation_config.policy_mapping_fn {
        mapping.check(EVALUATED_BY, &names)?;
        policies = policies.evaluated_by(mapping.mapping(EVALUATED_BY)?);
    }
    Ok(if settings.common().multiagent.rotate_policies { policies.rotating(true) } else { policies })
}

fn with_settings<T: Trainer>(settings: &T, agents: &[Agent]) -> Result<Policies> {
    let multi = &settings.common().multiagent;
    let mapping = multi.policy_mapping_fn.mapping(MAPPED_BY)?;
    let evaluated = settings.common().evaluation_config.policy_mapping_fn.as_ref();
    let evaluated = evaluated.map(|mapping| mapping.mapping(EVALUATED_BY)).transpose()?;
    let acts = |agent: &Agent, id: &PolicyId| {
        let mut mappings = std::iter::once(&mapping).chain(&evaluated);
        mappings.any(|mapping| mapping.possible_policies(&agent.name).contains(id))
    };
    let mut classes = Vec::new();
    let mut commons = Vec::new();
    let mut checks = Vec::new();
    for (id, own) in &multi.policies {
        // A policy without agents is refused later, together with other such policies.
        let used = agents.iter().find(|agent| acts(agent, id));
        let Some(spaces) = used.or(agents.first()).map(|agent| &agent.spaces) else {
            return Err(Error::state("the environment", "it has no agents"));
        };
        let made = own_settings(settings, own).and_then(|mut settings| {
            if used.is_some() {
                validate(&mut settings, spaces)?;
            }
            Ok((settings.get_default_policy_class(spaces)?, settings.common().clone()))
        });
        match made {
            Ok((class, common)) => {
                classes.push((id.clone(), class));
                commons.push((id.clone(), common));
            }
            Err(error) => checks.push(Err(of_policy(id, own, error))),
        }
    }
    rules::all(checks)?;
    Ok(Policies::of_classes(classes, mapping).with_settings(commons))
}

/// The run's settings, overridden by the settings `own` of one policy.
fn own_settings<T: Trainer>(settings: &T, own: &Config) -> Result<T> {
    let runs = |settings: serde_json::Result<Value>, kept: &[&str]| -> Vec<String> {
        let keys: Option<Vec<String>> =
            settings.ok().and_then(|settings| Some(settings.as_object()?.keys().cloned().collect()));
        keys.unwrap_or_default().into_iter().filter(|key| !kept.contains(&key.as_str())).collect()
    };
    let of_the_run: Vec<String> = [
        runs(serde_json::to_value(Common::default()), &OF_A_POLICY),
        runs(serde_json::to_value(OffPolicy::default()), &[]),
        T::PLAN_KEYS.iter().map(|&key| key.to_owned()).collect(),
    ]
    .concat();
    rules::all(own.iter().map(|(key, value)| {
        let rule = match key.as_str() {
            "policy_class" | "observation_space" | "action_space" => {
                "the algorithm gives the class of a policy, and the environment its spaces; leave it out"
            }
            _ if of_the_run.contains(key) => {
                "it is a setting of the whole run, not of a policy; set it outside of `multiagent.policies`"
            }
            _ => return Ok(()),
        };
        Err(Error::config(key, value, rule))
    }))?;
    let mut base = settings.clone();
    base.common_mut().multiagent.policies.clear();
    let layer = Layer { origin: "multiagent.policies".into(), values: own.clone() };
    Ok(decode(&overlay_known::<T>(&to_config(&base)?, vec![layer])?.config)?)
}

/// Renames the keys in an error about a policy's own settings to their full keys in the run's settings.
fn of_policy(id: &PolicyId, own: &Config, error: Error) -> Error {
    placed(error, &|key: &str| {
        if own.contains_key(key.split(['.', '[']).next().unwrap_or_default()) {
            format!("multiagent.policies.{id}.{key}")
        } else {
            key.to_owned()
        }
    })
}

fn placed(error: Error, place: &dyn Fn(&str) -> String) -> Error {
    match error {
        Error::Config { key, value, rule } => Error::Config { key: place(&key), value, rule },
        Error::Tune(error) => Error::Tune(placed_refusal(error, place)),
        other => other,
    }
}

fn placed_refusal(error: tune::Error, place: &dyn Fn(&str) -> String) -> tune::Error {
    match error {
        tune::Error::Config { key, value, rule } => tune::Error::Config { key: place(&key), value, rule },
        tune::Error::Missing { key, rule } => tune::Error::Missing { key: place(&key), rule },
        tune::Error::UnknownKey { key, origin, nearest, known } => {
            tune::Error::UnknownKey { key: place(&key), origin, nearest, known }
        }
        tune::Error::Refusals(all) => {
            tune::Error::Refusals(all.into_iter().map(|error| placed_refusal(error, place)).collect())
        }
        tune::Error::Trainable { source } => match source.downcast::<Error>() {
            Ok(error) => placed(*error, place).into(),
            Err(source) => tune::Error::Trainable { source },
        },
        other => other,
    }
}
