//! Blocks of copies: what each needs to be made, and its step in every autoreset mode.

use pavlov_envs::{AnyVectorEnv, EnvConfig, Error, StepOut};

use crate::fault::{Fault, Result};

/// Every number that a native environment tells in `info`.
pub(crate) const INFO_KEYS: [&str; 19] = [
    "prob",
    "lives",
    "x_position",
    "y_position",
    "z_distance_from_origin",
    "distance_from_origin",
    "x_velocity",
    "y_velocity",
    "reward_forward",
    "reward_ctrl",
    "reward_contact",
    "reward_survive",
    "reward_dist",
    "reward_near",
    "reward_linup",
    "reward_quadctrl",
    "reward_impact",
    "distance_penalty",
    "velocity_penalty",
];

/// Gymnasium's `AutoresetMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Autoreset {
    /// In the step that ends the episode.
    SameStep,
    /// In the step after it, which reads no action.
    NextStep,
    /// When the caller says so.
    Disabled,
}

impl Autoreset {
    /// By the value of Gymnasium's member.
    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "SameStep" => Ok(Self::SameStep),
            "NextStep" => Ok(Self::NextStep),
            "Disabled" => Ok(Self::Disabled),
            _ => Err(Fault::config(format!(
                "`autoreset_mode` is {name:?}, but it must be \"SameStep\", \"NextStep\" or \"Disabled\""
            ))),
        }
    }
}

/// What a copy does next, where it is not reset in the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Next {
    Step,
    /// It ended.
    Reset,
    /// It ended and was reset ahead of time; its new observation is in `final_obs`.
    Show,
}

/// What a block needs for a step.
pub(crate) struct Job<'a> {
    pub(crate) block: &'a mut Box<dyn AnyVectorEnv>,
    pub(crate) first: usize,
    pub(crate) actions: &'a [u8],
    pub(crate) next: &'a mut [Next],
    pub(crate) out: StepOut<'a, u8>,
}

impl Job<'_> {
    pub(crate) fn run(self, same_step: bool) -> pavlov_envs::Result<()> {
        let Self { block, first, actions, next, out } = self;
        let done = if same_step {
            block.step(actions, None, out)
        } else {
            one_step(&mut **block, actions, &mut next[0], out)
        };
        done.map_err(|error| shifted(error, first))
    }
}

/// A step of a block of one copy that is reset after its end, not in it.
fn one_step(
    block: &mut dyn AnyVectorEnv,
    actions: &[u8],
    next: &mut Next,
    mut out: StepOut<'_, u8>,
) -> pavlov_envs::Result<()> {
    if *next == Next::Step {
        block.step(actions, None, out.reborrow())?;
        if out.terminated[0] || out.truncated[0] {
            *next = Next::Reset;
        }
        return Ok(());
    }
    if *next == Next::Show {
        out.obs.copy_from_slice(out.final_obs);
    } else {
        block.reset(None, out.obs)?;
    }
    *next = Next::Step;
    out.rewards[0] = 0.0;
    out.terminated[0] = false;
    out.truncated[0] = false;
    Ok(())
}

/// What is known of a native environment with one agent; ids in Python are not.
pub(crate) fn native(id: &str) -> Result<pavlov_envs::EnvSpec> {
    if pavlov_envs::ids().iter().any(|known| known == id) {
        return Ok(pavlov_envs::spec(id)?);
    }
    if pavlov_envs::multi_agent_ids().iter().any(|known| known == id) {
        return Err(Fault::config(format!(
            "{id} has several agents; make it with `pavlov_rl.parallel_env({id:?})`"
        )));
    }
    let nearest = if pavlov_envs::python::is_python_id(id) {
        None
    } else {
        match pavlov_envs::make_vec(id, &EnvConfig::new(), 1) {
            Err(Error::UnknownEnv { nearest, .. }) => nearest,
            _ => None,
        }
    };
    Err(Error::UnknownEnv { id: id.to_owned(), nearest }.into())
}

pub(crate) fn limit_episodes(
    id: &str,
    block: &mut dyn AnyVectorEnv,
    own: Option<usize>,
    limit: usize,
) -> Result<()> {
    if limit == 0 || own.is_some_and(|own| limit > own) {
        let most =
            own.map_or_else(|| "at least 1".to_owned(), |own| format!("in 1..={own}, the limit of {id}"));
        return Err(Fault::config(format!("`max_episode_steps` is {limit}, but it must be {most}")));
    }
    if own == Some(limit) || block.limit_episodes(limit) {
        return Ok(());
    }
    Err(Fault::config(format!("episodes of {id} cannot be limited; leave `max_episode_steps` out")))
}

/// Counts the copy in a message from the start of all copies.
pub(crate) fn shifted(error: Error, first: usize) -> Error {
    match error {
        Error::Env { env, seed, step, source } => Error::Env { env: env + first, seed, step, source },
        other => other,
    }
}
