//! Acting with a saved policy, from a checkpoint alone: no settings, environment or workers are needed.

use crate::agents::EnvInfo;
use crate::run::checkpoint_settings::CheckpointSettings;
use crate::run::resolve::resolve;
use crate::run::saved_code::SavedCode;
use crate::run::trainer::Trainer;
use crate::sample::{Code, MeanStdFilter, Session, WorkerNames, saved_filters};
use crate::workers::Counters;
use pavlov_envs::EnvCreator;
use pavlov_learn::base::{Device, Error, Result, State, Stream, catch};
use pavlov_tune::Config;
use std::path::Path;

/// Loads the policy `policy` of a checkpoint (`None`: its only policy) as a session that acts in `copies` episodes of
/// your own. `T` is the algorithm that saved the checkpoint; `pavlov::load` finds the algorithm by its name.
///
/// Weights, the observation filter, the spaces and the transformation of actions come from the checkpoint. No
/// environment is made, no worker is started, and no code that the checkpoint names is run.
///
/// # Errors
/// Returns [`Error::Tune`] if the checkpoint is damaged or of another algorithm, and [`Error::UnknownPolicy`] if it
/// has no policy of that id. Returns [`Error::State`] if the checkpoint is of an older version without spaces; if it
/// has several policies and `policy` is `None`; if a policy has your own network or policy class, which a checkpoint
/// does not describe; and if `copies` is 0.
pub fn load_session<T: Trainer>(checkpoint: &Path, policy: Option<&str>, copies: usize) -> Result<Session> {
    load_session_with::<T>(checkpoint, policy, copies, &Code::default())
}

/// Loads a policy as [`load_session`] does, with the network or the policy class of your own that `code` has.
///
/// # Errors
/// Fails whenever [`load_session`] does; and if the network or the class of the checkpoint has another name than that of
/// `code`, or computes something else.
pub fn load_session_with<T: Trainer>(
    checkpoint: &Path,
    policy: Option<&str>,
    copies: usize,
    code: &Code,
) -> Result<Session> {
    pavlov_tune::checkpoint::verify(checkpoint, Some(T::NAME))?;
    let within = |error: Error| error.within(&checkpoint.display().to_string());
    catch(|| format!("loading {}", checkpoint.display()), || load::<T>(checkpoint, policy, copies, code))
        .map_err(within)
}

fn load<T: Trainer>(checkpoint: &Path, policy: Option<&str>, copies: usize, code: &Code) -> Result<Session> {
    if copies == 0 {
        return Err(Error::state("a session", "it was asked for 0 copies, but it needs at least 1"));
    }
    let saved = CheckpointSettings::read(checkpoint)?;
    let (Some(agents), Some((obs_dtype, act_dtype))) = (saved.spaces, saved.dtypes) else {
        let reason = "an older version saved this checkpoint, without the spaces of its environment; train one iteration \
                      more (`pavlov resume`) and load the checkpoint that is saved then";
        return Err(Error::state("spaces", reason));
    };
    let Some(first) = agents.first() else {
        return Err(Error::state("spaces", "it names no agent, but an environment has at least one"));
    };
    for agent in &agents {
        agent.spaces.observation_space.validate()?;
        agent.spaces.action_space.validate()?;
    }
    let env = EnvCreator::from(saved.env);
    let (mut settings, env) = resolve(&T::get_default_config(), &saved.config, &env)?;
    settings.validate_config(&first.spaces)?;
    let names = WorkerNames {
        trainable: None,
        settings: Config::new(),
        common: settings.common().clone(),
        env: env.name().to_owned(),
        env_info: EnvInfo { agents, obs_dtype, act_dtype, has_masks: false },
        sampling: false,
    };
    let spec = code.spec(&settings, &env, names)?;
    let id = match policy {
        Some(id) => id,
        None => spec.policies.sole()?,
    };
    let mut policies = spec.policies(0, Device::Cpu)?;
    saved.code.check(&SavedCode::of(&spec.code, &spec.policies, &policies))?;
    policies.set_state(&State::read(checkpoint, "policies")?).map_err(|error| {
        let way_out =
            "a network or a policy class of your own is no part of a checkpoint: give it to `pavlov::Load`";
        Error::state("the weights", format!("{error}; {way_out}"))
    })?;
    let run = State::read(checkpoint, "run")?;
    let filters = saved_filters(&run, spec.policies.classes().map(|(id, _)| id))?;
    let timestep = run.get::<Counters>("counters")?.num_env_steps_sampled;
    let mut seeds = Stream::from_state(saved.inference_rng);
    let rngs = (0..copies).map(|_| Stream::new(seeds.below(u64::MAX), "inference", 0)).collect();
    let filter = filters.get(id).map(MeanStdFilter::running);
    Session::new(id, &spec, policies, rngs, filter, timestep)
}
