//! The wrappers of this crate that settings can name, with their arguments.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ClipReward, Padding, TimeAwareConfig,
    arguments::Arguments,
    clip_action::ClipActions,
    copies_to_wrap::{CopiesToWrap, with_scalars},
    dtype_observation::Cast,
    filter_observation::Filter,
    flatten_observation::FlattenObservations,
    frame_stack::StackFrames,
    grayscale_observation::Grayscale,
    named::{Apply, Named},
    one_by_one::{atari_preprocessing, max_and_skip, record_video, time_limit},
    rescale_action::RescaleActions,
    rescale_observation::Rescale,
    reshape_observation::Reshape,
    resize_observation::Resize,
    sticky_action::Sticky,
    time_aware_observation::TimeAware,
};
use crate::{AnyVectorEnv, DType, Error, Result, TypedVectorEnv, contract::element::with_scalar};

pub(super) fn built_in() -> Vec<Named> {
    let named = |name: &str, parameters: &[(&str, Option<Value>)], apply| Named {
        name: name.into(),
        parameters: parameters.iter().map(|(name, default)| ((*name).to_owned(), default.clone())).collect(),
        apply,
    };
    let tile_size = [("tile_size", Some(8.into()))];
    vec![
        named(
            "AtariPreprocessing",
            &[
                ("noop_max", Some(30.into())),
                ("frame_skip", Some(4.into())),
                ("screen_size", Some(84.into())),
                ("terminal_on_life_loss", Some(false.into())),
                ("grayscale_obs", Some(true.into())),
            ],
            Apply::OneByOne(atari_preprocessing),
        ),
        named("ClipAction", &[], together(|copies, _| copies.wrapped(|| Ok(ClipActions::default())))),
        named(
            "ClipReward",
            &[("min_reward", None), ("max_reward", None)],
            together(|copies, arguments| {
                let least = arguments.get(0)?;
                let most = arguments.get(1)?;
                let copies = copies.into_inner();
                with_scalars!(copies, O, A => {
                    Ok(Box::new(ClipReward::new(TypedVectorEnv::<O, A>::new(copies)?, least, most)?))
                })
            }),
        ),
        named(
            "DtypeObservation",
            &[("dtype", None)],
            together(|copies, arguments| match arguments.get::<String>(0)?.as_str() {
                "uint8" => copies.wrapped(|| Ok(Cast::<u8>::default())),
                "int64" => copies.wrapped(|| Ok(Cast::<i64>::default())),
                "float32" => copies.wrapped(|| Ok(Cast::<f32>::default())),
                "float64" => copies.wrapped(|| Ok(Cast::<f64>::default())),
                other => {
                    let expected = "uint8, int64, float32 or float64";
                    Err(Error::shape("`dtype`", format_args!("{other:?}"), expected))
                }
            }),
        ),
        named(
            "FilterObservation",
            &[("filter_keys", None)],
            together(|copies, arguments| {
                let filter_keys: Vec<String> = arguments.get(0)?;
                copies.wrapped(|| Ok(Filter::new(filter_keys.clone())))
            }),
        ),
        named(
            "FlattenObservation",
            &[],
            together(|copies, _| copies.wrapped(|| Ok(FlattenObservations::default()))),
        ),
        named(
            "FrameStack",
            &[("stack_size", None)],
            together(|copies, arguments| {
                let stack_size = arguments.get(0)?;
                with_scalars!(copies, O, A => {
                    copies.wrapped_typed::<O, A, _>(|| StackFrames::new(stack_size, Padding::Reset))
                })
            }),
        ),
        named("FullyObsWrapper", &[], Apply::MiniGrid),
        named(
            "GrayscaleObservation",
            &[("keep_dim", Some(false.into()))],
            together(|copies, arguments| {
                let keep_dim = arguments.get(0)?;
                copies.wrapped(|| Ok(Grayscale { keep_dim }))
            }),
        ),
        named("ImgObsWrapper", &[], Apply::MiniGrid),
        named("MaxAndSkipObservation", &[("skip", Some(4.into()))], Apply::OneByOne(max_and_skip)),
        named("OneHotPartialObsWrapper", &[], Apply::MiniGrid),
        named("RGBImgObsWrapper", &tile_size, Apply::MiniGrid),
        named("RGBImgPartialObsWrapper", &tile_size, Apply::MiniGrid),
        named(
            "RecordVideo",
            &[
                ("video_folder", None),
                ("episode_trigger", Some(Value::Null)),
                ("step_trigger", Some(Value::Null)),
                ("video_length", Some(0.into())),
                ("name_prefix", Some("rl-video".into())),
                ("fps", Some(Value::Null)),
            ],
            Apply::OneByOne(record_video),
        ),
        named(
            "RescaleAction",
            &[("min_action", None), ("max_action", None)],
            together(|copies, arguments| {
                let least = arguments.get(0)?;
                let most = arguments.get(1)?;
                copies.wrapped(|| RescaleActions::new(least, most))
            }),
        ),
        named(
            "RescaleObservation",
            &[("min_obs", None), ("max_obs", None)],
            together(|copies, arguments| {
                let least = arguments.get(0)?;
                let most = arguments.get(1)?;
                copies.wrapped(|| Rescale::new(least, most))
            }),
        ),
        named(
            "ReshapeObservation",
            &[("shape", None)],
            together(|copies, arguments| {
                let shape: Vec<usize> = arguments.get(0)?;
                copies.wrapped(|| Ok(Reshape { shape: shape.clone() }))
            }),
        ),
        named(
            "ResizeObservation",
            &[("shape", None)],
            together(|copies, arguments| {
                let shape = arguments.get(0)?;
                copies.wrapped(|| Ok(Resize::new(shape)))
            }),
        ),
        named(
            "StickyAction",
            &[("repeat_action_probability", None), ("repeat_action_duration", Some(1.into()))],
            together(|copies, arguments| {
                let probability = arguments.get(0)?;
                // One number is both the minimum and the maximum.
                let duration = match arguments.get::<i64>(1) {
                    Ok(duration) => [duration; 2],
                    Err(_) => arguments.get(1)?,
                };
                with_scalars!(copies, O, A => {
                    copies.wrapped_typed::<O, A, _>(|| Sticky::new(probability, duration))
                })
            }),
        ),
        named(
            "TimeAwareObservation",
            &[
                ("flatten", Some(true.into())),
                ("normalize_time", Some(false.into())),
                ("dict_time_key", Some("time".into())),
            ],
            together(time_aware),
        ),
        named("TimeLimit", &[("max_episode_steps", None)], Apply::OneByOne(time_limit)),
    ]
}

fn together(
    wrap: impl Fn(CopiesToWrap, &Arguments) -> Result<Box<dyn AnyVectorEnv>> + Send + Sync + 'static,
) -> Apply {
    Apply::Together(Arc::new(wrap))
}

fn time_aware(copies: CopiesToWrap, arguments: &Arguments) -> Result<Box<dyn AnyVectorEnv>> {
    let config = TimeAwareConfig {
        flatten: arguments.get(0)?,
        normalize_time: arguments.get(1)?,
        dict_time_key: arguments.get(2)?,
    };
    let limit = copies.max_episode_steps();
    // Without a limit, the wrapper is refused whatever the type is.
    with_scalar!(config.dtype(copies.observation_space(), limit.unwrap_or(1))?, T => {
        copies.wrapped(|| TimeAware::<T>::new(limit, config.clone()))
    })
}
