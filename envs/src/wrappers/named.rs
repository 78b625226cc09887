//! The wrappers that settings can name: those of this crate, and the registered ones of a user.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, RwLock},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    AtariConfig, AtariPreprocessing, ClipReward, Padding, TimeLimit,
    arguments::{Arguments, Make},
    clip_action::ClipActions,
    copies_to_wrap::{CopiesToWrap, with_scalars},
    dtype_observation::Cast,
    filter_observation::Filter,
    flatten_observation::FlattenObservations,
    frame_stack::StackFrames,
    grayscale_observation::Grayscale,
    max_and_skip_observation::MaxAndSkipObservation,
    one_copy::OneCopy,
    rescale_action::RescaleActions,
    rescale_observation::Rescale,
    reshape_observation::Reshape,
    resize_observation::Resize,
    sticky_action::Sticky,
};
use crate::{
    AnyVectorEnv, DType, Element, Env, Error, Result, SyncVectorEnv, TypedVectorEnv,
    env_config::decode_config, nearest::nearest,
};

type Together = dyn Fn(CopiesToWrap, &Arguments) -> Result<Box<dyn AnyVectorEnv>> + Send + Sync;
type OneByOne = fn(&Arguments, &str, usize, &Make<'_>) -> Result<Box<dyn AnyVectorEnv>>;

/// The way in which a wrapper is put around the copies of an environment.
pub(super) enum Apply {
    /// The wrapper is put around all copies at once.
    Together(Arc<Together>),
    /// The wrapper is put around each copy separately, because it steps a copy more than once or ends its episodes.
    OneByOne(OneByOne),
    /// Environments of MiniGrid apply the wrapper themselves, by their setting `wrappers`.
    MiniGrid,
}

/// A wrapper that settings can name.
pub(super) struct Named {
    pub(super) name: String,
    /// Names and defaults of the arguments; an argument without a default must be given.
    pub(super) parameters: Vec<(String, Option<Value>)>,
    pub(super) apply: Apply,
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Named").field(&self.name).finish()
    }
}

static NAMED: LazyLock<RwLock<BTreeMap<String, Arc<Named>>>> = LazyLock::new(|| {
    RwLock::new(built_in().into_iter().map(|named| (named.name.clone(), Arc::new(named))).collect())
});

/// Registers a wrapper of your own under a name for settings, as in `wrappers = ["Scaled(0.5)"]`, for the whole process.
/// `C` is a struct with one field per argument, in order; its [`Default`] has the defaults of the arguments. For a wrapper
/// without arguments, `C` has no fields.
///
/// ```
/// use pavlov_envs::{Element, EnvConfig, EnvCreator, WrapperSpec, Wrapper, register_wrapper};
///
/// /// Pays a multiple of the reward.
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct Scaled {
///     factor: f64,
/// }
///
/// impl Default for Scaled {
///     fn default() -> Self {
///         Self { factor: 0.1 }
///     }
/// }
///
/// impl<O: Element, A: Element> Wrapper<O, A> for Scaled {
///     type Obs = O;
///     type Act = A;
///
///     fn reward(&mut self, reward: f64) -> f64 {
///         self.factor * reward
///     }
/// }
///
/// # fn main() -> pavlov_envs::Result<()> {
/// register_wrapper("Scaled", |copies, scaled: Scaled| copies.wrapped(|| Ok(scaled.clone())))?;
/// let wrappers: Vec<WrapperSpec> = serde_json::from_str(r#"["Scaled(0.5)", "FrameStack(4)"]"#).unwrap();
/// let env = EnvCreator::from("CartPole-v1").wrapped(&wrappers).make_vec(&EnvConfig::new(), 8)?;
/// assert_eq!(env.observation_space().shape(), [4, 4]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`Error::AlreadyRegistered`] if the name is taken, and [`Error::Shape`] if it is not made of letters, digits and
/// underscores, or if `C` is not a struct with named fields.
pub fn register_wrapper<C>(
    name: &str,
    wrap: impl Fn(CopiesToWrap, C) -> Result<Box<dyn AnyVectorEnv>> + Send + Sync + 'static,
) -> Result<()>
where
    C: Default + Serialize + DeserializeOwned,
{
    let spells = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(spells) {
        let expected = "made of letters, digits and underscores, as settings write it";
        return Err(Error::shape("the name of a wrapper", format_args!("{name:?}"), expected));
    }
    let Ok(Value::Object(defaults)) = serde_json::to_value(C::default()) else {
        let expected = "a struct with named fields, even if it has none";
        return Err(Error::shape("the type of a wrapper's arguments", std::any::type_name::<C>(), expected));
    };
    let parameters = defaults.into_iter().map(|(parameter, default)| (parameter, Some(default))).collect();
    let owned = name.to_owned();
    let together = move |copies: CopiesToWrap, given: &Arguments| {
        let arguments = decode_config(&owned, &given.table())?;
        wrap(copies, arguments)
    };
    let named = Named { name: name.into(), parameters, apply: Apply::Together(Arc::new(together)) };
    let mut table = NAMED.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if table.contains_key(name) || OTHER_NAMES.iter().any(|(other, _)| *other == name) {
        return Err(Error::AlreadyRegistered { id: name.into() });
    }
    table.insert(name.into(), Arc::new(named));
    Ok(())
}

/// Returns the wrapper with this name, or a message that lists the known names.
pub(super) fn find(name: &str) -> Result<Arc<Named>, String> {
    let name = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, known)| known);
    let table = NAMED.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(named) = table.get(name) {
        return Ok(named.clone());
    }
    if let Some((_, way_out)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("the wrapper {name} cannot be named in settings: {way_out}"));
    }
    let names = || table.keys().map(String::as_str);
    let near = nearest(name, names()).map(|near| format!("; nearest: {near}")).unwrap_or_default();
    Err(format!("no wrapper {name:?}{near}; there is {}", names().collect::<Vec<_>>().join(", ")))
}

/// Alternative names of wrappers from Gymnasium 1.x, each with the name that it stands for.
const OTHER_NAMES: &[(&str, &str)] = &[("FrameStackObservation", "FrameStack")];

/// Wrappers that settings cannot name, each with a hint what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "NormalizeObservation",
        "its statistics would not reach evaluation; set `observation_filter = \"MeanStdFilter\"`, which is saved with the \
         policy",
    ),
    (
        "NormalizeReward",
        "evaluation would report normalised returns; set `clip_rewards`, which evaluation leaves alone, or wrap the \
         environment in a program",
    ),
    ("RecordEpisodeStatistics", "every result has the statistics of its episodes already"),
    ("TransformAction", "it needs a function; give a wrapper of your own a name by `register_wrapper`"),
    ("TransformObservation", "it needs a function; give a wrapper of your own a name by `register_wrapper`"),
    ("TransformReward", "it needs a function; give a wrapper of your own a name by `register_wrapper`"),
];

fn built_in() -> Vec<Named> {
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
        named("TimeLimit", &[("max_episode_steps", None)], Apply::OneByOne(time_limit)),
    ]
}

fn together(
    wrap: impl Fn(CopiesToWrap, &Arguments) -> Result<Box<dyn AnyVectorEnv>> + Send + Sync + 'static,
) -> Apply {
    Apply::Together(Arc::new(wrap))
}

/// Lets the vector truncate episodes itself if it can; otherwise puts a [`TimeLimit`] around each copy.
fn time_limit(
    arguments: &Arguments,
    env: &str,
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let limit = arguments.get(0)?;
    let mut copies = make(num_envs)?;
    if limit > 0 && copies.limit_episodes(limit) {
        return Ok(copies);
    }
    drop(copies);
    let first = make(1)?;
    with_scalars!(first, O, A => {
        one_by_one::<O, A, _>(env, num_envs, first, make, |copy| Ok(TimeLimit::new(copy, limit)))
    })
}

fn max_and_skip(
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

fn atari_preprocessing(
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
    wrap: impl Fn(OneCopy<O, A>) -> Result<E>,
) -> Result<Box<dyn AnyVectorEnv>> {
    let mut first = Some(first);
    let next = || wrap(OneCopy::new(first.take().map_or_else(|| make(1), Ok)?));
    Ok(Box::new(SyncVectorEnv::new(num_envs, next)?.named(env)))
}
