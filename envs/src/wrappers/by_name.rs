//! Wrappers by name, as settings files and the command line give them.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AtariConfig, AtariPreprocessing, ClipAction, ClipReward, FlattenObservation, FrameStack, Padding,
    RescaleAction, TimeLimit, one_copy::OneCopy,
};
use crate::{AnyVectorEnv, DType, Element, Env, EnvConfig, Error, Result, SyncVectorEnv, nearest::nearest};

/// A wrapper that settings name, with its arguments: `"FrameStack(4)"`, `"ClipReward(-1, 1)"`, or a table
/// `{ name = "FrameStack", stack_size = 4 }`. Arguments have Gymnasium's names and order, and may be named in the text
/// too: `"AtariPreprocessing(frame_skip=2)"`.
///
/// There is `AtariPreprocessing(noop_max=30, frame_skip=4, screen_size=84, terminal_on_life_loss=false,
/// grayscale_obs=true)`, `ClipAction`, `ClipReward(min_reward, max_reward)`, `FlattenObservation`,
/// `FrameStack(stack_size)`, also by its name in Gymnasium 1.x, `FrameStackObservation`,
/// `RescaleAction(min_action, max_action)` and `TimeLimit(max_episode_steps)`. Around environments of MiniGrid, and before the others, there is `FullyObsWrapper`, `OneHotPartialObsWrapper`,
/// `RGBImgObsWrapper(tile_size=8)` and `RGBImgPartialObsWrapper(tile_size=8)`, and behind one of these or alone
/// `ImgObsWrapper`.
///
/// ```
/// use pavlov_envs::{EnvConfig, EnvCreator, WrapperSpec};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let stack: WrapperSpec = serde_json::from_str(r#""FrameStack(4)""#).unwrap();
/// let creator = EnvCreator::from("CartPole-v1").wrapped(&[stack]);
/// let env = creator.make_vec(&EnvConfig::new(), 2)?;
/// assert_eq!(env.observation_space().shape(), [4, 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "String")]
pub struct WrapperSpec {
    known: &'static Known,
    /// A value for every parameter, in order.
    arguments: Vec<Value>,
}

/// A wrapper that has a name.
#[derive(Debug, PartialEq)]
struct Known {
    name: &'static str,
    /// Names, and defaults as JSON.
    parameters: &'static [(&'static str, Option<&'static str>)],
}

const KNOWN: &[Known] = &[
    Known {
        name: "AtariPreprocessing",
        parameters: &[
            ("noop_max", Some("30")),
            ("frame_skip", Some("4")),
            ("screen_size", Some("84")),
            ("terminal_on_life_loss", Some("false")),
            ("grayscale_obs", Some("true")),
        ],
    },
    Known { name: "ClipAction", parameters: &[] },
    Known { name: "ClipReward", parameters: &[("min_reward", None), ("max_reward", None)] },
    Known { name: "FlattenObservation", parameters: &[] },
    Known { name: "FrameStack", parameters: &[("stack_size", None)] },
    Known { name: "FullyObsWrapper", parameters: &[] },
    Known { name: "ImgObsWrapper", parameters: &[] },
    Known { name: "OneHotPartialObsWrapper", parameters: &[] },
    Known { name: "RGBImgObsWrapper", parameters: &[("tile_size", Some("8"))] },
    Known { name: "RGBImgPartialObsWrapper", parameters: &[("tile_size", Some("8"))] },
    Known { name: "RescaleAction", parameters: &[("min_action", None), ("max_action", None)] },
    Known { name: "TimeLimit", parameters: &[("max_episode_steps", None)] },
];

/// Wrappers of MiniGrid, which its environments apply themselves: their setting `wrappers`.
const MINIGRID: &[&str] = &[
    "FullyObsWrapper",
    "ImgObsWrapper",
    "OneHotPartialObsWrapper",
    "RGBImgObsWrapper",
    "RGBImgPartialObsWrapper",
];

/// Other names of wrappers: those of Gymnasium 1.x where they differ.
const OTHER_NAMES: &[(&str, &str)] = &[("FrameStackObservation", "FrameStack")];

/// Wrappers that settings cannot name, each with the way out.
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
    ("TransformObservation", "it needs a function; wrap the environment in a program"),
    ("TransformReward", "it needs a function; wrap the environment in a program"),
];

impl TryFrom<Value> for WrapperSpec {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Self::from_text(&text),
            Value::Object(mut table) => match table.shift_remove("name") {
                Some(Value::String(name)) => Self::new(&name, Vec::new(), table),
                _ => Err(format!(
                    "the wrapper {} has no `name`; write {{ name = \"FrameStack\", stack_size = 4 }}",
                    Value::Object(table)
                )),
            },
            other => Err(format!(
                "a wrapper is {other}, but it must be a text such as \"FrameStack(4)\" or a table"
            )),
        }
    }
}

impl From<WrapperSpec> for String {
    fn from(spec: WrapperSpec) -> String {
        spec.to_string()
    }
}

impl fmt::Display for WrapperSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.known.name)?;
        if self.arguments.is_empty() {
            return Ok(());
        }
        let arguments: Vec<String> = self.arguments.iter().map(Value::to_string).collect();
        write!(f, "({})", arguments.join(", "))
    }
}

impl WrapperSpec {
    fn from_text(text: &str) -> Result<Self, String> {
        let (name, arguments) = match text.trim().split_once('(') {
            None => (text.trim(), ""),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(arguments) => (name.trim(), arguments),
                None => return Err(format!("the wrapper {text:?} has no closing parenthesis")),
            },
        };
        let (mut by_place, mut by_name) = (Vec::new(), EnvConfig::new());
        for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            let (key, value) = match argument.split_once('=') {
                Some((key, value)) => (Some(key.trim()), value.trim()),
                None => (None, argument),
            };
            let value = serde_json::from_str(&value.to_lowercase()).map_err(|_| {
                format!("the argument {value} of {name} is neither a number nor true or false")
            })?;
            match key {
                Some(key) => drop(by_name.insert(key.to_owned(), value)),
                None => by_place.push(value),
            }
        }
        Self::new(name, by_place, by_name)
    }

    fn new(name: &str, by_place: Vec<Value>, mut by_name: EnvConfig) -> Result<Self, String> {
        if let Some((_, way_out)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(format!("the wrapper {name} cannot be named in settings: {way_out}"));
        }
        let name = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, known)| known);
        let names = || KNOWN.iter().map(|known| known.name);
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
            let near = nearest(name, names()).map(|near| format!("; nearest: {near}")).unwrap_or_default();
            return Err(format!(
                "no wrapper {name:?}{near}; there is {}",
                names().collect::<Vec<_>>().join(", ")
            ));
        };
        let takes = || {
            let parameters: Vec<&str> = known.parameters.iter().map(|(parameter, _)| *parameter).collect();
            if parameters.is_empty() {
                "no arguments".to_owned()
            } else {
                format!("({})", parameters.join(", "))
            }
        };
        if by_place.len() > known.parameters.len() {
            return Err(format!("{name} is given {} arguments, but it takes {}", by_place.len(), takes()));
        }
        let mut by_place = by_place.into_iter();
        let mut arguments = Vec::new();
        for (parameter, default) in known.parameters {
            let default = default.and_then(|text| serde_json::from_str(text).ok());
            let named = by_name.shift_remove(*parameter);
            let Some(value) = by_place.next().or(named).or(default) else {
                return Err(format!("{name} lacks `{parameter}`; it takes {}", takes()));
            };
            arguments.push(value);
        }
        match by_name.keys().next() {
            Some(key) => Err(format!("{name} is given `{key}`, but it takes {}", takes())),
            None => Ok(Self { known, arguments }),
        }
    }

    /// `TimeLimit(steps)`.
    pub(crate) fn time_limit(steps: usize) -> Self {
        Self::new("TimeLimit", vec![steps.into()], EnvConfig::new()).expect("a wrapper with that parameter")
    }

    pub(crate) fn name(&self) -> &'static str {
        self.known.name
    }

    /// The argument at that place, or an error that names it.
    pub(crate) fn get<T: for<'de> Deserialize<'de>>(&self, at: usize) -> Result<T> {
        T::deserialize(&self.arguments[at]).map_err(|error| {
            let (parameter, _) = self.known.parameters[at];
            let message = format!("`{parameter}` of the wrapper is {}: {error}", self.arguments[at]);
            Error::Config { env: self.known.name.into(), message }
        })
    }

    /// `num_envs` copies of `env` in this wrapper around what `make` makes, one copy each time.
    fn around(&self, env: &str, num_envs: usize, make: &MakeOne<'_>) -> Result<Box<dyn AnyVectorEnv>> {
        let first = make()?;
        match (first.obs_dtype(), first.act_dtype()) {
            (DType::U8, DType::I64) if self.known.name == "AtariPreprocessing" => {
                let config = AtariConfig {
                    noop_max: self.get(0)?,
                    frame_skip: self.get(1)?,
                    screen_size: self.get(2)?,
                    terminal_on_life_loss: self.get(3)?,
                    grayscale_obs: self.get(4)?,
                };
                let mut copies = Copies::<u8, i64>::new(first, make);
                boxed(env, num_envs, || AtariPreprocessing::new(copies.next()?, config))
            }
            (DType::U8, DType::I64) => self.typed::<u8, i64>(env, num_envs, first, make),
            (DType::I64, DType::I64) => self.typed::<i64, i64>(env, num_envs, first, make),
            (DType::F32, DType::I64) => self.typed::<f32, i64>(env, num_envs, first, make),
            (DType::F64, DType::I64) => self.typed::<f64, i64>(env, num_envs, first, make),
            (DType::U8, DType::F32) => self.typed::<u8, f32>(env, num_envs, first, make),
            (DType::I64, DType::F32) => self.typed::<i64, f32>(env, num_envs, first, make),
            (DType::F32, DType::F32) => self.typed::<f32, f32>(env, num_envs, first, make),
            (DType::F64, DType::F32) => self.typed::<f64, f32>(env, num_envs, first, make),
            (_, actions) => {
                let found = format!("an environment with {actions} actions");
                Err(Error::shape("what wrappers stand around", found, "one with i64 or f32 actions"))
            }
        }
    }

    fn typed<O: Element, A: Element>(
        &self,
        env: &str,
        num_envs: usize,
        first: Box<dyn AnyVectorEnv>,
        make: &MakeOne<'_>,
    ) -> Result<Box<dyn AnyVectorEnv>> {
        let space = first.observation_space().to_string();
        let mut copies = Copies::<O, A>::new(first, make);
        match self.known.name {
            "ClipAction" => boxed(env, num_envs, || ClipAction::new(copies.next()?)),
            "ClipReward" => {
                let (least, most) = (self.get(0)?, self.get(1)?);
                boxed(env, num_envs, || ClipReward::new(copies.next()?, least, most))
            }
            "FlattenObservation" => boxed(env, num_envs, || Ok(FlattenObservation::new(copies.next()?))),
            "FrameStack" => {
                let stack_size = self.get(0)?;
                boxed(env, num_envs, || FrameStack::new(copies.next()?, stack_size, Padding::Reset))
            }
            "RescaleAction" => {
                let (least, most) = (self.get(0)?, self.get(1)?);
                boxed(env, num_envs, || RescaleAction::new(copies.next()?, least, most))
            }
            "TimeLimit" => {
                let limit = self.get(0)?;
                boxed(env, num_envs, || Ok(TimeLimit::new(copies.next()?, limit)))
            }
            name if MINIGRID.contains(&name) => Err(Error::Config {
                env: name.into(),
                message: "it stands around another wrapper, but environments of MiniGrid apply it themselves; name it \
                          before the others in `wrappers`"
                    .into(),
            }),
            name => Err(Error::shape(
                "what AtariPreprocessing stands around",
                format!("an environment that shows {space} to {name}"),
                "one of frames of bytes with discrete actions",
            )),
        }
    }
}

/// Splits off the wrappers at the front that environments of MiniGrid apply themselves.
pub(crate) fn split_minigrid(wrappers: &[WrapperSpec]) -> (&[WrapperSpec], &[WrapperSpec]) {
    let own = wrappers.iter().take_while(|wrapper| MINIGRID.contains(&wrapper.name())).count();
    wrappers.split_at(own)
}

type MakeOne<'a> = dyn Fn() -> Result<Box<dyn AnyVectorEnv>> + 'a;

/// The copy that was made to look at, then more of them.
struct Copies<'a, O, A> {
    first: Option<Box<dyn AnyVectorEnv>>,
    make: &'a MakeOne<'a>,
    of: PhantomData<(O, A)>,
}

impl<'a, O: Element, A: Element> Copies<'a, O, A> {
    fn new(first: Box<dyn AnyVectorEnv>, make: &'a MakeOne<'a>) -> Self {
        Self { first: Some(first), make, of: PhantomData }
    }

    fn next(&mut self) -> Result<OneCopy<O, A>> {
        Ok(OneCopy::new(match self.first.take() {
            Some(first) => first,
            None => (self.make)()?,
        }))
    }
}

fn boxed<E: Env>(
    env: &str,
    num_envs: usize,
    make: impl FnMut() -> Result<E>,
) -> Result<Box<dyn AnyVectorEnv>> {
    Ok(Box::new(SyncVectorEnv::new(num_envs, make)?.named(env)))
}

/// `num_envs` copies of `env` in these wrappers, the first of them innermost, around what `make` makes, one copy each time.
pub(crate) fn wrapped(
    env: &str,
    wrappers: &[WrapperSpec],
    num_envs: usize,
    make: &MakeOne<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    match wrappers.split_last() {
        None => make(),
        Some((last, [])) => last.around(env, num_envs, make),
        Some((last, inner)) => last.around(env, num_envs, &|| wrapped(env, inner, 1, make)),
    }
}
