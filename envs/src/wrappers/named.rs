//! The wrappers that settings can name: those of this crate, and the registered ones of a user.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, RwLock},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    arguments::{Arguments, Make},
    built_in::built_in,
    copies_to_wrap::CopiesToWrap,
};
use crate::{AnyVectorEnv, Error, Result, registry::env_config::decode_config, registry::nearest::nearest};

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
