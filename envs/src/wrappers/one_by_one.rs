//! Wrappers by name that are put around each copy separately.

use super::{
    AtariConfig, AtariPreprocessing, MaxAndSkipObservation, RecordVideo, TimeLimit,
    arguments::{Arguments, Make},
    copies_to_wrap::with_scalars,
    one_copy::OneCopy,
};
use crate::{
    AnyVectorEnv, DType, Element, Env, Error, Result, Step, SyncVectorEnv, contract::forward::forward_to,
};

/// Lets the vector truncate episodes itself if it can; otherwise puts a [`TimeLimit`] around each copy.
pub(super) fn time_limit(
    arguments: &Arguments,
    env: &str,
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let limit = arguments.get(0)?;
    if limit == 0 {
        return Err(Error::shape("`max_episode_steps` of TimeLimit", 0, "at least 1"));
    }
    let mut copies = make(num_envs)?;
    if copies.limit_episodes(limit) {
        return Ok(copies);
    }
    drop(copies);
    let first = make(1)?;
    with_scalars!(first, O, A => {
        one_by_one::<O, A, _>(env, num_envs, first, make, |copy| Ok(TimeLimit::new(copy, limit)))
    })
}

/// Records the first of the copies.
pub(super) fn record_video(
    arguments: &Arguments,
    env: &str,
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let folder: String = arguments.get(0)?;
    let every = |at: usize| match arguments.get::<Option<u64>>(at)? {
        Some(0) => {
            Err(Error::shape("the trigger of RecordVideo", 0, "at least 1: every such episode or step"))
        }
        every => Ok(every),
    };
    let episodes = every(1)?;
    let steps = every(2)?;
    let video_length = arguments.get(3)?;
    let prefix: String = arguments.get(4)?;
    let fps: Option<f64> = arguments.get(5)?;
    let mut is_first = true;
    let first = make(1)?;
    with_scalars!(first, O, A => {
        one_by_one::<O, A, _>(env, num_envs, first, make, |copy| {
            let mut recorded = RecordVideo::new(copy, &folder)?.name_prefix(&prefix).video_length(video_length);
            if !std::mem::take(&mut is_first) {
                return Ok(recorded.episode_trigger(|_| false));
            }
            if let Some(every) = episodes {
                recorded = recorded.episode_trigger(move |episode| episode.is_multiple_of(every));
            }
            if let Some(every) = steps {
                recorded = recorded.step_trigger(move |step| step.is_multiple_of(every));
            }
            Ok(if let Some(fps) = fps { recorded.fps(fps) } else { recorded })
        })
    })
}

pub(super) fn max_and_skip(
    arguments: &Arguments,
    env: &str,
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let skip = arguments.get(0)?;
    let first = make(1)?;
    with_scalars!(first, O, A => {
        one_by_one::<O, A, _>(env, num_envs, first, make, |copy| MaxAndSkipObservation::new(copy, skip))
    })
}

pub(super) fn atari_preprocessing(
    arguments: &Arguments,
    env: &str,
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let config = AtariConfig {
        noop_max: arguments.get(0)?,
        frame_skip: arguments.get(1)?,
        screen_size: arguments.get(2)?,
        terminal_on_life_loss: arguments.get(3)?,
        grayscale_obs: arguments.get(4)?,
    };
    let first = make(1)?;
    if (first.obs_dtype(), first.act_dtype()) != (DType::U8, DType::I64) {
        let space = first.observation_space();
        let found = format_args!("an environment that shows {space} to AtariPreprocessing");
        let expected = "one of frames of bytes with discrete actions";
        return Err(Error::shape("what AtariPreprocessing stands around", found, expected));
    }
    one_by_one::<u8, i64, _>(env, num_envs, first, make, |copy| AtariPreprocessing::new(copy, config))
}

/// Wraps each copy separately: first the copy `first`, whose types have been looked at, then copies made by `make`.
fn one_by_one<O: Element, A: Element, E: Env>(
    env: &str,
    num_envs: usize,
    first: Box<dyn AnyVectorEnv>,
    make: &Make<'_>,
    mut wrap: impl FnMut(OneCopy<O, A>) -> Result<E>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let mut first = Some(first);
    let mut next = || {
        let copy = wrap(OneCopy::new(first.take().map_or_else(|| make(1), Ok)?))?;
        Ok(Boxed { env: Box::new(copy) as Box<dyn Env<Obs = _, Act = _>> })
    };
    vector_of(env, num_envs, &mut next)
}

/// The vector environment is compiled for each choice of scalar types, and not for each wrapper.
fn vector_of<O: Element, A: Element>(
    env: &str,
    num_envs: usize,
    next: &mut dyn FnMut() -> Result<Boxed<O, A>>,
) -> Result<Box<dyn AnyVectorEnv>> {
    Ok(Box::new(SyncVectorEnv::new(num_envs, next)?.named(env)))
}

/// A copy with a wrapper around it, whose type is known by its scalar types alone.
struct Boxed<O, A> {
    env: Box<dyn Env<Obs = O, Act = A>>,
}

impl<O: Element, A: Element> Env for Boxed<O, A> {
    type Obs = O;
    type Act = A;

    forward!(
        observation_space,
        action_space,
        max_episode_steps,
        action_mask,
        set_task,
        goals,
        info,
        render,
        state
    );
    forward_to! {
        env:
        fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()>;
        fn step(&mut self, action: &[A], obs: &mut [O]) -> Result<Step>;
    }
}
