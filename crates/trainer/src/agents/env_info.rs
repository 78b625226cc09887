//! Facts about the environment that a run needs before workers start.

use crate::agents::agent::Agent;
use crate::base::{notice, notice_if_slow};
use crate::settings::{BatchMode, Common};
use pavlov_envs::{
    DType, EnvCopies, EnvCreator, Examination, Space, examine_multi_agent_env, examine_vector_env,
};
use pavlov_learn::base::{Error, Result, image};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The agents of an environment, with their spaces, and its scalar types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EnvInfo {
    /// The agents with their spaces; most environments have one.
    pub agents: Vec<Agent>,
    /// Scalar type of the observations.
    pub obs_dtype: DType,
    /// Scalar type of the actions.
    pub act_dtype: DType,
    /// Whether the environment says which discrete actions are legal.
    #[serde(default)]
    pub has_masks: bool,
}

/// About the longest time for which the check of an environment plays it.
const CHECK: Duration = Duration::from_secs(10);
/// Time after which the user is told that the environment is being checked.
const PATIENCE: Duration = Duration::from_secs(3);

/// Largest number of discrete actions for which [`EnvInfo::of`] asks for a mask.
const MAX_FLAGS: usize = 1 << 20;

/// Whether the environment says which discrete actions are legal; only the first agent is asked.
fn has_masks(copies: &EnvCopies, agents: &[Agent]) -> bool {
    let space = &agents[0].spaces.action_space;
    let number = match copies {
        EnvCopies::Vector(copies) => copies.num_envs() * space.flat_width(),
        EnvCopies::MultiAgent(_) | EnvCopies::External(_) => space.flat_width(),
    };
    if !matches!(space, Space::Discrete { .. } | Space::MultiDiscrete { .. }) || number > MAX_FLAGS {
        return false;
    }
    let mut flags = vec![false; number];
    match copies {
        EnvCopies::Vector(copies) => copies.action_masks(&mut flags),
        EnvCopies::MultiAgent(copies) => copies.action_mask(0, 0, &mut flags),
        EnvCopies::External(env) => env.has_masks(),
    }
}

impl EnvInfo {
    /// Reads agents and scalar types from copies of the environment.
    pub fn of(copies: &EnvCopies) -> Self {
        let agents = Agent::of(copies);
        let (obs_dtype, act_dtype) = match copies {
            EnvCopies::Vector(copies) => (copies.obs_dtype(), copies.act_dtype()),
            EnvCopies::MultiAgent(copies) => (copies.obs_dtype(), copies.act_dtype()),
            EnvCopies::External(env) => (env.observation_space().dtype(), env.action_space().dtype()),
        };
        let has_masks = has_masks(copies, &agents);
        Self { agents, obs_dtype, act_dtype, has_masks }
    }

    /// Makes the environment, checks its contract unless `disable_env_checking` is set, and drops the environment
    /// again. The check is bounded in time, and the user is told of it if it takes long.
    pub(crate) fn new(env: &EnvCreator, common: &Common) -> Result<Self> {
        if common.disable_env_checking {
            return Self::made(env, common);
        }
        let text = format!(
            "checking the environment {}: it is played for {} s at most before training begins; \
             `disable_env_checking = true` leaves that out",
            env.name(),
            CHECK.as_secs()
        );
        notice_if_slow(PATIENCE, &text, || Self::made(env, common))
    }

    fn made(env: &EnvCreator, common: &Common) -> Result<Self> {
        // Whether copies depend on each other is of no account where there is one.
        let copies = common.wrap_env(env).make(&common.env_config, common.total_envs().clamp(1, 2))?;
        let mut info = Self::of(&copies);
        check_groups(env, common)?;
        if matches!(copies, EnvCopies::External(_)) {
            check_external(env.name(), common)?;
        }
        if !common.disable_env_checking {
            match copies {
                EnvCopies::Vector(mut vector) => {
                    judge(&examine_vector_env(vector.as_mut(), CHECK)?, common)?;
                    // Some environments know their masks only after the reset, which the check has made.
                    info.has_masks |= has_masks(&EnvCopies::Vector(vector), &info.agents);
                }
                EnvCopies::MultiAgent(vector) => {
                    let env = vector.into_envs().swap_remove(0);
                    judge(&examine_multi_agent_env(env, CHECK)?, common)?;
                }
                EnvCopies::External(_) => {}
            }
        }
        Ok(info)
    }
}

/// Returns an error for settings that an environment cannot have whose episodes other programs play.
fn check_external(env: &str, common: &Common) -> Result<()> {
    let refuse = |key: &str, value: &dyn std::fmt::Display, rule: &str| {
        Err(Error::config(key, value, format!("the episodes of {env} are played by other programs: {rule}")))
    };
    if common.num_workers > 0 {
        return refuse("num_workers", &common.num_workers, "the trainer takes them itself, so set it to 0");
    }
    if common.batch_mode == BatchMode::CompleteEpisodes {
        let rule = "an episode whose program dies is never completed; use \"truncate_episodes\"";
        return refuse("batch_mode", &"\"complete_episodes\"", rule);
    }
    if let Some(interval) = common.evaluation_interval {
        let rule = "none can be started here, so leave it out and evaluate where the environment is";
        return refuse("evaluation_interval", &interval, rule);
    }
    Ok(())
}

/// Says once in this program that observations are beyond the bounds of their space; `what` is one of them.
pub(crate) fn say_out_of_bounds(what: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        notice(&format!(
            "observations are beyond the bounds of their space ({what}). They are used as they are, and results have their \
             share as `custom_metrics.obs_out_of_bounds_mean`"
        ));
    }
}

/// Refuses an environment with which nothing right can be learned, and says of another which promises do not hold. With
/// `strict_env_checking` every finding is an error.
fn judge(found: &Examination, common: &Common) -> Result<()> {
    if common.strict_env_checking {
        let way_out = "mend the environment, or leave `strict_env_checking` out to train on it as it is";
        return Ok(found.strict().map_err(|error| with_way_out(error, way_out))?);
    }
    let way_out = "mend the environment, or train on it as it is with `disable_env_checking = true`";
    found.lenient().map_err(|error| with_way_out(error, way_out))?;
    for finding in found.findings.iter().filter(|finding| !finding.is_refused) {
        match finding.rule {
            // Whoever gave an observation in another form was told of it there.
            "form" => {}
            "observation_in_space" | "final_obs" => say_out_of_bounds(&finding.message),
            _ => notice(&finding.remark()),
        }
    }
    Ok(())
}

fn with_way_out(error: pavlov_envs::Error, way_out: &str) -> pavlov_envs::Error {
    match error {
        pavlov_envs::Error::Contract { check, message } => {
            pavlov_envs::Error::Contract { check, message: format!("{message}; {way_out}") }
        }
        other => other,
    }
}

/// Number of scalars in an observation from which on [`too_wide`] warns.
const WIDE: usize = 10_000;

/// The warning about observations that are too large for a fully connected network; `None` if the agent's observations
/// are smaller, or images.
pub(crate) fn too_wide(common: &Common, agent: &Agent) -> Option<String> {
    let space = common.policy_spaces(&agent.spaces).observation_space;
    let width = space.flat_width();
    (flat_image(&space, "").is_none() && common.model.convolutions(&space).is_none() && width >= WIDE).then(|| {
        format!(
            "observations of {width} numbers go into a fully connected network. Images go through convolutions \
             (`model.conv_filters`) where they keep their three dimensions: without `observation_filter` and \
             `FlattenObservation`; `ResizeObservation` and `AtariPreprocessing` make them smaller"
        )
    })
}

/// Number of scalars from which on [`flat_image`] counts a box of three dimensions as an image that convolutions serve.
const IMAGE: usize = 1000;

/// The path and the shape of the first image inside a Dict or a Tuple, which is flattened for a fully connected network;
/// `None` if there is none. `path` is that of `space`.
pub(crate) fn flat_image(space: &Space, path: &str) -> Option<(String, String)> {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match space {
        Space::Dict(parts) => parts.iter().find_map(|(name, part)| flat_image(part, &join(name))),
        Space::Tuple(parts) => {
            parts.iter().enumerate().find_map(|(at, part)| flat_image(part, &join(&at.to_string())))
        }
        image_of => {
            let is_large = image(image_of).is_some() && image_of.flat_width() >= IMAGE;
            (is_large && !path.is_empty()).then(|| (path.to_owned(), format!("{:?}", image_of.shape())))
        }
    }
}

/// Returns an error if the settings name a group that no agent of the environment belongs to.
pub(crate) fn check_groups(env: &EnvCreator, common: &Common) -> Result<()> {
    if common.multiagent.agent_groups.is_empty() {
        return Ok(());
    }
    let copies = env.wrapped(&common.wrappers).make(&common.env_config, 1)?;
    let agents = Agent::of(&copies);
    common.multiagent.check_groups(&agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ObservationFilter;
    use pavlov_learn::base::Spaces;

    #[test]
    fn pixels_that_miss_the_convolutions_are_reported() {
        let agent = |observation_space| Agent {
            name: "agent".into(),
            spaces: Spaces { observation_space, action_space: Space::discrete(2) },
        };
        let pixels = agent(Space::image(&[210, 160, 3]));
        let mut common = Common::default();
        assert_eq!(too_wide(&common, &pixels), None);
        common.observation_filter = ObservationFilter::MeanStdFilter;
        let text = too_wide(&common, &pixels).unwrap_or_default();
        assert!(text.contains("100800 numbers") && text.contains("observation_filter"), "{text}");
        assert_eq!(too_wide(&common, &agent(Space::real(&[4]))), None);
    }
}
