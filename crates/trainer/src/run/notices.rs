//! What a user should know before a run trains although nothing is wrong: one line each, with the setting to change.

use crate::agents::{Agent, EnvInfo, flat_image};
use crate::run::memory::Memory;
use crate::run::resolve::memory_of;
use crate::run::trainer::Trainer;
use crate::settings::Common;
use pavlov_learn::base::{Result, image, rules};
use pavlov_processes::WorkerTransport;
use pavlov_tune::Config;
use serde_json::Value;

/// Returns the notices about settings that are allowed and seldom meant in this environment: one line each.
/// `has_own_network` tells that the user's own network takes the observations.
pub fn notices<T: Trainer>(settings: &T, env: &EnvInfo, has_own_network: bool) -> Vec<String> {
    let common = settings.common();
    let cores = std::thread::available_parallelism().map_or(usize::MAX, Into::into);
    let image = if has_own_network {
        None
    } else {
        image_in_parts(common, env).or_else(|| box_by_default(common, env))
    };
    [crowded(common, cores), unread_masks(common, env), image]
        .into_iter()
        .flatten()
        .chain(settings.notices(&env.agents))
        .collect()
}

/// The notice about more rollout workers than this machine's cores can serve.
fn crowded(common: &Common, cores: usize) -> Option<String> {
    let workers = common.num_workers;
    let is_here = common.workers.transport != WorkerTransport::Ray;
    (is_here && workers > 4 && workers > cores.saturating_mul(2)).then(|| {
        format!(
            "`num_workers` is {workers}, but this process may use {cores} core(s), so workers wait for each other: set \
             `num_workers` to {cores}, and for more copies of the environment raise `num_envs_per_worker`"
        )
    })
}

/// Whether the run or one of its policies obeys masks, or it is said that none does.
fn masks_are_settled(common: &Common) -> bool {
    let of_policies = common.multiagent.policies.values();
    common.mask_actions
        || common.allow_illegal_actions
        || of_policies.into_iter().any(|own| own.get("mask_actions") == Some(&Value::Bool(true)))
}

/// The notice about an environment of one agent that has masks, which the policy does not read.
fn unread_masks(common: &Common, env: &EnvInfo) -> Option<String> {
    (env.has_masks && env.agents.len() == 1 && !masks_are_settled(common)).then(|| {
        "the environment says which actions are legal, and the policy does not read it: set `mask_actions` to true, or \
         `allow_illegal_actions` if illegal actions are meant"
            .to_owned()
    })
}

/// Refuses several agents whose environment has masks that no policy reads. Most are board games, in which
/// an illegal move loses the game.
///
/// # Errors
/// Returns [`Error::Config`](crate::Error::Config) for `mask_actions`.
pub fn refuse_illegal_moves(common: &Common, env: &EnvInfo) -> Result<()> {
    let broken = env.has_masks && env.agents.len() > 1 && !masks_are_settled(common);
    let rule = "the environment says which moves are legal, and most end the game after an illegal one: set it to true, or \
                `allow_illegal_actions` if illegal moves are meant";
    rules::refuse_if(broken, "mask_actions", false, rule)
}

/// What an image inside a Dict or a Tuple must be for convolutions.
const WAY_TO_CONVOLUTIONS: &str = "Convolutions read images of bytes (uint8) with the bounds 0 and 255 without `observation_filter`, or \
                                   those of a `Builder::custom_model`";

/// Largest number of weights of a layer on observations with an image among their parts: 0.5 GB with gradients and moments.
const MOST_WEIGHTS: usize = 1 << 25;

/// Refuses observations of several parts with an image so large that the fully connected layer on all their numbers has more than
/// 2^25 weights.
///
/// # Errors
/// Returns [`Error::Config`](crate::Error::Config) for the setting of this layer.
pub fn refuse_large_image_in_parts<T: Trainer>(settings: &T, env: &EnvInfo) -> Result<()> {
    let of_agent =
        |agent: &Agent| large_image_in_parts(settings.common(), agent, &memory_of(settings, &agent.spaces));
    rules::all(env.agents.iter().map(of_agent))
}

fn large_image_in_parts(common: &Common, agent: &Agent, memory: &Memory) -> Result<()> {
    let Some((name, shape)) = flat_image(&agent.spaces.observation_space, "") else { return Ok(()) };
    let inputs = common.policy_spaces(&agent.spaces).obs_width();
    let Some((units, key, value)) = memory.layer_on_observations(inputs) else { return Ok(()) };
    let weights = inputs.saturating_mul(units);
    let rule = format!(
        "the image `{name}` of shape {shape} is a part of the observation, whose {inputs} numbers would go flat into a layer with \
         {weights} weights; more than {MOST_WEIGHTS} are refused. Make the image smaller in a wrapper of the environment. \
         {WAY_TO_CONVOLUTIONS}"
    );
    rules::refuse_if(weights > MOST_WEIGHTS, key, value, rule)
}

/// The notice about an image inside a Dict or a Tuple: which convolutions read it if `model.conv_filters` has no value, or that none
/// do.
fn image_in_parts(common: &Common, env: &EnvInfo) -> Option<String> {
    env.agents.iter().find_map(|agent| {
        let space = common.policy_spaces(&agent.spaces).observation_space;
        if let Some((part, filters)) = common.model.filters_of_parts(&space).into_iter().next() {
            return common.model.conv_filters.is_none().then(|| {
                format!(
                    "the image `{}` of shape {:?} inside the observation goes through convolutions, `model.conv_filters = {}`: set this \
                     for others. The fully connected layers read their output with the other numbers",
                    part.path,
                    part.shape,
                    Value::from(filters)
                )
            });
        }
        // With an observation filter the space is flat already, so its parts are found in the environment's own.
        let parts = flat_image(&space, "").or_else(|| flat_image(&agent.spaces.observation_space, ""));
        let (name, shape) = parts?;
        Some(format!(
            "the image `{name}` of shape {shape} is a part of the observation and goes flat into a fully connected \
             network. {WAY_TO_CONVOLUTIONS}"
        ))
    })
}

/// The notice about observations that are a box of three dimensions, for which `model.conv_filters` has no value: what reads
/// them, and how to choose.
fn box_by_default(common: &Common, env: &EnvInfo) -> Option<String> {
    let of_policies = common.multiagent.policies.values();
    let is_chosen =
        common.model.conv_filters.is_some() || of_policies.into_iter().any(|own| own.contains_key("model"));
    if is_chosen {
        return None;
    }
    env.agents.iter().find_map(|agent| {
        let space = common.policy_spaces(&agent.spaces).observation_space;
        image(&space)?;
        let shape = space.shape();
        Some(match common.model.filters(&space) {
            Some((_, filters)) => format!(
                "observations of shape {shape:?} go through convolutions, `model.conv_filters = {}` with {} weights: set this for \
                 others, or wrap the environment in `FlattenObservation` for fully connected layers",
                Value::from(filters),
                common.model.convolutions(&space).map_or(0, |(weights, _)| weights)
            ),
            None => format!(
                "observations of shape {shape:?} are too small for convolutions, or have too many channels for an image: they go as \
                 {} numbers into fully connected layers. Set `model.conv_filters`, such as [[16, 2, 1]], for convolutions",
                space.flat_width()
            ),
        })
    })
}

/// Schedules that make learning stop, with the step at which the last of them ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Names of the settings that are 0 from then on, without `_schedule`.
    pub settings: Vec<String>,
    /// Number of environment steps at which the schedule of the step size ends.
    pub step: u64,
}

impl Ending {
    /// Finds the schedules of a step size that end at 0, and those of a clip range that end with them; `None` if learning
    /// goes on for ever. A step size that is `null` or constant has no end.
    pub fn of(config: &Config) -> Option<Ending> {
        let ends_at_zero = |schedule: &Value| {
            let last = schedule.as_array()?.last()?;
            (last.get(1)?.as_f64()? == 0.0).then(|| last.get(0)?.as_u64()).flatten()
        };
        let mut zero: Vec<(&str, u64)> = Vec::new();
        for (key, value) in config {
            let named =
                key.strip_suffix("_schedule").filter(|name| name.ends_with("lr") || name.contains("clip"));
            zero.extend(named.and_then(|name| Some((name, ends_at_zero(value)?))));
        }
        let step = zero.iter().filter(|(name, _)| name.ends_with("lr")).map(|(_, step)| *step).max()?;
        let settings =
            zero.iter().filter(|(_, at)| *at <= step).map(|(name, _)| (*name).to_owned()).collect();
        Some(Ending { settings, step })
    }

    /// Says that the schedules have ended: `the schedule of lr ended at 100000: lr is 0`.
    pub fn text(&self) -> String {
        let names = self.settings.join(" and ");
        let (schedules, are) =
            if self.settings.len() == 1 { ("schedule", "is") } else { ("schedules", "are") };
        format!("the {schedules} of {names} ended at {}: {names} {are} 0", self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pavlov_envs::{DType, Space};
    use pavlov_learn::base::Spaces;
    use serde_json::json;

    fn env(observation_space: Space, agents: usize, has_masks: bool) -> EnvInfo {
        let spaces = Spaces { observation_space, action_space: Space::discrete(2) };
        let agent = |at| Agent { name: format!("agent{at}"), spaces: spaces.clone() };
        EnvInfo {
            agents: (0..agents).map(agent).collect(),
            obs_dtype: DType::F32,
            act_dtype: DType::I64,
            has_masks,
        }
    }

    #[test]
    fn thirty_two_workers_on_two_cores_are_named_and_two_are_not() {
        let with = |num_workers| Common { num_workers, ..Common::default() };
        let text = crowded(&with(32), 2).unwrap_or_default();
        assert!(text.starts_with("`num_workers` is 32, but this process may use 2 core(s)"), "{text}");
        assert_eq!((crowded(&with(2), 1), crowded(&with(32), 32)), (None, None));
        let mut on_a_cluster = with(32);
        on_a_cluster.workers.transport = WorkerTransport::Ray;
        assert_eq!(crowded(&on_a_cluster, 2), None);
    }

    #[test]
    fn masks_that_nobody_reads_are_named_for_one_agent_and_refused_for_several() {
        let mut common = Common::default();
        let (one, two) = (env(Space::real(&[4]), 1, true), env(Space::real(&[4]), 2, true));
        assert!(unread_masks(&common, &one).is_some_and(|text| text.contains("set `mask_actions` to true")));
        assert!(refuse_illegal_moves(&common, &one).is_ok());
        let refused = refuse_illegal_moves(&common, &two).unwrap_err().to_string();
        assert!(refused.starts_with("`mask_actions` is false, but the environment says"), "{refused}");
        common.allow_illegal_actions = true;
        assert!(unread_masks(&common, &one).is_none() && refuse_illegal_moves(&common, &two).is_ok());
        let own = json!({"mask_actions": true}).as_object().cloned().unwrap_or_default();
        common = Common::default();
        common.multiagent.policies.insert("first".into(), own.into());
        assert!(refuse_illegal_moves(&common, &two).is_ok());
    }

    #[test]
    fn an_image_inside_a_dict_is_named_by_its_path_and_a_small_one_is_not() {
        let dict = |image| Space::Dict(vec![("camera".into(), image), ("speed".into(), Space::real(&[1]))]);
        let common = Common::default();
        let told = |image| image_in_parts(&common, &env(dict(image), 1, false)).unwrap_or_default();
        let text = told(Space::image(&[40, 40, 3]));
        let wanted = "the image `camera` of shape [40, 40, 3] inside the observation goes through convolutions, `model.conv_filters = \"nature\"`";
        assert!(text.starts_with(wanted), "{text}");
        let text = told(Space::boxed(0.0, 1.0, &[32, 32, 3]));
        assert!(
            text.starts_with("the image `camera` of shape [32, 32, 3] is a part") && text.contains("uint8"),
            "{text}"
        );
        assert_eq!(image_in_parts(&common, &env(dict(Space::image(&[7, 7, 3])), 1, false)), None);
        assert_eq!(image_in_parts(&common, &env(Space::image(&[32, 32, 3]), 1, false)), None);
    }

    #[test]
    fn an_image_inside_a_dict_that_needs_a_layer_of_more_than_2_to_the_25_weights_is_refused() {
        let refused = |shape: &[usize], units: usize| {
            let image = Space::boxed(0.0, 1.0, shape);
            let dict = Space::Dict(vec![("camera".into(), image), ("speed".into(), Space::real(&[1]))]);
            let (agent, common) = (env(dict, 1, false).agents.remove(0), Common::default());
            let mut memory = Memory::of(&common, &agent.spaces);
            // An algorithm whose networks are not those of `model`, which has 256 units.
            memory.add_layers("the networks", "actor_hiddens", agent.spaces.obs_width(), &[units, 4]);
            large_image_in_parts(&common, &agent, &memory).map_err(|error| error.to_string())
        };
        // 921,601 numbers by 37 units are 34,099,237 weights, by 36 they are 33,177,636; the limit is 33,554,432.
        let text = refused(&[480, 640, 3], 37).unwrap_err();
        assert!(
            text.starts_with("`actor_hiddens` is [37, 4], but the image `camera` of shape [480, 640, 3]"),
            "{text}"
        );
        assert!(text.contains("921601 numbers") && text.contains("34099237 weights"), "{text}");
        assert_eq!(refused(&[480, 640, 3], 36), Ok(()));
        assert_eq!(refused(&[84, 84, 4], 256), Ok(()));
    }

    #[test]
    fn a_box_of_three_dimensions_without_a_setting_is_told_what_reads_it_and_what_to_set() {
        let mut common = Common::default();
        let told =
            |common: &Common, shape: &[usize]| box_by_default(common, &env(Space::image(shape), 1, false));
        for (shape, parts) in [
            (
                &[40, 40, 3],
                [
                    "[40, 40, 3] go through convolutions, `model.conv_filters = \"nature\"` with 109216 weights",
                    "FlattenObservation",
                ],
            ),
            (
                &[16, 16, 3],
                [
                    "[16, 16, 3] go through convolutions, `model.conv_filters = [[32,[3,3],[2,2]],",
                    "FlattenObservation",
                ],
            ),
            (
                &[4, 4, 16],
                [
                    "[4, 4, 16] are too small for convolutions",
                    "256 numbers into fully connected layers. Set `model.conv_filters`",
                ],
            ),
        ] {
            let text = told(&common, shape).unwrap_or_default();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        assert_eq!(box_by_default(&common, &env(Space::real(&[4]), 1, false)), None);
        common.model.conv_filters = serde_json::from_value(json!("nature")).ok();
        assert_eq!(told(&common, &[40, 40, 3]), None);
    }

    #[test]
    fn the_end_of_learning_is_that_of_the_step_size_and_an_entropy_bonus_has_none() {
        let of = |config: Value| Ending::of(&config.as_object().expect("settings").clone().into());
        let both = json!({"lr_schedule": [[0, 1e-3], [100_000, 0.0]], "clip_param_schedule": [[0, 0.2], [100_000, 0]]});
        let text = of(both).map(|ending| ending.text()).unwrap_or_default();
        assert_eq!(text, "the schedules of lr and clip_param ended at 100000: lr and clip_param are 0");
        let text = of(json!({"lr_schedule": [[0, 1e-3], [50, 0.0]]})).map(|ending| ending.text());
        assert_eq!(text.as_deref(), Some("the schedule of lr ended at 50: lr is 0"));
        assert_eq!(
            of(json!({"lr_schedule": [[0, 1e-3], [50, 1e-5]], "entropy_coeff_schedule": [[0, 1], [9, 0]]})),
            None
        );
        assert_eq!(of(json!({"lr_schedule": null, "lr": 0.1})), None);
    }
}
