//! Presets that fit a run: the environment's own, or those of the nearest kind of task.

use super::exit::usage;
use super::output::program;
use crate::envs::{EnvConfig, EnvCopies, EnvCreator, Space, python::is_agents_id};
use crate::presets::{self, Preset};

/// Name of `--preset auto`.
pub(super) const AUTO: &str = "auto";

/// What an environment shows a policy, as far as presets differ in it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EnvKind {
    Numbers,
    Pixels,
    /// Several agents.
    Agents,
}

/// Presets for any environment of a kind: algorithm, kind, name. A kind without a line of its own has that of numbers.
const OF_KINDS: [(&str, EnvKind, &str); 10] = [
    ("DDPG", EnvKind::Numbers, "ddpg-sb3"),
    ("DQN", EnvKind::Numbers, "dqn-sb3"),
    ("IMPALA", EnvKind::Numbers, "impala-cartpole"),
    ("PPO", EnvKind::Numbers, "ppo-sb3"),
    ("PPO", EnvKind::Pixels, "ppo-pixel-breakout"),
    ("PPO", EnvKind::Agents, "ppo-simple-spread"),
    ("QMIX", EnvKind::Numbers, "qmix-simple-spread"),
    ("QMIX", EnvKind::Agents, "qmix-simple-spread"),
    ("SAC", EnvKind::Numbers, "sac-sb3"),
    ("TD3", EnvKind::Numbers, "td3-sb3"),
];

fn all() -> impl Iterator<Item = Preset> {
    presets::names().filter_map(|name| presets::preset(name).ok())
}

/// The id without the prefix of the Python bridge: `py:CartPole-v1` is the task of `CartPole-v1`.
fn task(env: &str) -> &str {
    env.strip_prefix("py:").unwrap_or(env)
}

/// Names of the presets of an algorithm that were made for this environment.
fn own(algorithm: &str, env: &str) -> Vec<String> {
    let fits = |preset: &Preset| {
        preset.algorithm.eq_ignore_ascii_case(algorithm) && preset.env.as_deref() == Some(task(env))
    };
    // Presets named after Ray show Ray's example and are slower than the others.
    let (ray, others): (Vec<_>, Vec<_>) =
        all().filter(fits).partition(|preset| preset.name.ends_with("-ray"));
    others.into_iter().chain(ray).map(|preset| preset.name).collect()
}

/// The kind of a task; environments in Python are not made for this question and count as numbers.
fn kind(env: &str) -> EnvKind {
    if is_agents_id(env) {
        return EnvKind::Agents;
    }
    if env.starts_with("py:") {
        return EnvKind::Numbers;
    }
    match EnvCreator::from(env).make(&EnvConfig::new(), 1) {
        Ok(EnvCopies::MultiAgent(_)) => EnvKind::Agents,
        Ok(EnvCopies::External(_)) => EnvKind::Numbers,
        Ok(EnvCopies::Vector(copies)) => match copies.observation_space() {
            Space::Box { shape, .. } if shape.len() == 3 => EnvKind::Pixels,
            _ => EnvKind::Numbers,
        },
        // Another line reports that the environment cannot be made.
        Err(_) => EnvKind::Numbers,
    }
}

/// The preset of the nearest kind.
fn of_kind(algorithm: &str, env: &str) -> Option<&'static str> {
    let kind = kind(env);
    let find = |wanted: EnvKind| {
        let mut of =
            OF_KINDS.iter().filter(|(name, of, _)| name.eq_ignore_ascii_case(algorithm) && *of == wanted);
        of.next().map(|(.., preset)| *preset)
    };
    find(kind).or_else(|| find(EnvKind::Numbers))
}

/// The preset that `--preset auto` stands for.
///
/// # Errors
/// Fails if the algorithm has no preset at all.
pub(super) fn auto(algorithm: &str, env: &str) -> anyhow::Result<Preset> {
    let name = own(algorithm, env).into_iter().next().or_else(|| of_kind(algorithm, env).map(str::to_owned));
    let Some(name) = name else {
        return Err(usage(format!(
            "--preset is auto, but {algorithm} has no presets; leave it out (`{} list presets` shows all)",
            program()
        )));
    };
    Ok(presets::preset(&name)?)
}

/// The first line of a run without a preset; `None` if the algorithm has none.
pub(super) fn hint(algorithm: &str, env: &str) -> Option<String> {
    let own = own(algorithm, env);
    let (name, fits) = match own.first() {
        Some(first) => (first.clone(), format!("was made for {env}")),
        None => (of_kind(algorithm, env)?.to_owned(), "fits tasks of this kind".into()),
    };
    let preset = presets::preset(&name).ok()?;
    let mut keys: Vec<&str> = preset.config.keys().map(String::as_str).collect();
    let more = keys.len().saturating_sub(SHOWN);
    keys.truncate(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "no preset: these are Ray's defaults. The preset {name} {fits} and changes {}{more}; `--preset auto` takes it",
        keys.join(", ")
    ))
}

/// Number of settings that [`hint`] names.
const SHOWN: usize = 5;

/// The notice about a preset that was made for another environment; `None` if it was made for this one or for any.
pub(super) fn other_env(preset: &Preset, env: &str) -> Option<String> {
    let made_for = preset.env.as_deref().filter(|made_for| task(made_for) != task(env))?;
    let better = own(&preset.algorithm, env).into_iter().next();
    let better = better
        .or_else(|| of_kind(&preset.algorithm, env).map(str::to_owned))
        .filter(|name| *name != preset.name);
    let instead = better.map(|name| format!("; `--preset {name}` fits better")).unwrap_or_default();
    Some(format!("the preset {} was made for {made_for}, and this run trains on {env}{instead}", preset.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_environments_own_preset_or_that_of_its_kind() {
        for (algorithm, env, wanted) in [
            ("PPO", "CartPole-v1", "ppo-cartpole"),
            ("ppo", "py:CartPole-v1", "ppo-cartpole"),
            ("PPO", "MountainCar-v0", "ppo-sb3"),
            ("PPO", "PixelPong-v0", "ppo-pixel-breakout"),
            ("PPO", "simple_tag_v3", "ppo-simple-spread"),
            ("SAC", "Pendulum-v1", "sac-pendulum"),
            ("DQN", "Acrobot-v1", "dqn-sb3"),
        ] {
            assert_eq!(auto(algorithm, env).expect("a preset").name, wanted, "{algorithm} on {env}");
        }
        let refused = auto("Mine", "CartPole-v1").unwrap_err().to_string();
        assert!(refused.starts_with("--preset is auto, but Mine has no presets"), "{refused}");
    }

    #[test]
    fn the_hint_names_the_preset_and_what_it_changes() {
        let text = hint("PPO", "CartPole-v1").unwrap_or_default();
        let wanted = "no preset: these are Ray's defaults. The preset ppo-cartpole was made for CartPole-v1 and changes \
                      adam_epsilon, clip_param_schedule, ";
        assert!(text.starts_with(wanted) && text.ends_with(" more; `--preset auto` takes it"), "{text}");
        let text = hint("PPO", "PixelPong-v0").unwrap_or_default();
        assert!(text.contains("ppo-pixel-breakout fits tasks of this kind"), "{text}");
        assert_eq!(hint("Mine", "CartPole-v1"), None);
    }

    #[test]
    fn a_preset_of_another_environment_is_named_with_a_better_one() {
        let of = |name, env| other_env(&presets::preset(name).expect("a preset"), env);
        let text = of("ppo-cartpole", "Acrobot-v1").unwrap_or_default();
        assert!(text.contains("was made for CartPole-v1, and this run trains on Acrobot-v1"), "{text}");
        assert!(text.ends_with("`--preset ppo-acrobot` fits better"), "{text}");
        for (name, env) in
            [("ppo-cartpole", "py:CartPole-v1"), ("ppo-cartpole", "CartPole-v1"), ("ppo-sb3", "Taxi-v4")]
        {
            assert_eq!(of(name, env), None, "{name} on {env}");
        }
    }
}
