//! Wrappers by name, for settings files and the command line.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    arguments::{Arguments, Make},
    copies_to_wrap::CopiesToWrap,
    named::{Apply, Named, find},
};
use crate::{AnyVectorEnv, EnvConfig, Error, Result};

/// A wrapper named in settings, with its arguments: `"FrameStack(4)"`, `"ClipReward(-1, 1)"`, or a table `{ name =
/// "FrameStack", stack_size = 4 }`. Arguments have Gymnasium's names and order, and may be named in the text form too:
/// `"AtariPreprocessing(frame_skip=2)"`.
///
/// The wrappers are `AtariPreprocessing(noop_max=30, frame_skip=4, screen_size=84, terminal_on_life_loss=false,
/// grayscale_obs=true)`, `ClipAction`, `ClipReward(min_reward, max_reward)`, `DtypeObservation("float32")`,
/// `FilterObservation(["a", "b"])`, `FlattenObservation`, `FrameStack(stack_size)` (in Gymnasium 1.x and here also
/// `FrameStackObservation`), `GrayscaleObservation(keep_dim=false)`, `MaxAndSkipObservation(skip=4)`,
/// `RecordVideo(video_folder, episode_trigger=null, step_trigger=null, video_length=0, name_prefix="rl-video", fps=null)`,
/// `RescaleAction(min_action, max_action)`, `RescaleObservation(min_obs, max_obs)`, `ReshapeObservation([2, 3])`,
/// `ResizeObservation([42, 42])`, `StickyAction(repeat_action_probability, repeat_action_duration=1)`,
/// `TimeAwareObservation(flatten=true, normalize_time=false, dict_time_key="time")` and `TimeLimit(max_episode_steps)`.
/// [`register_wrapper`](crate::register_wrapper) adds others.
///
/// A trigger of `RecordVideo` is a whole number here: every such episode or step begins a video. Only the first of several
/// copies is recorded; see [`RecordVideo`](crate::wrappers::RecordVideo).
///
/// Environments of MiniGrid also have, before all other wrappers, at most one of `FullyObsWrapper`,
/// `OneHotPartialObsWrapper`, `RGBImgObsWrapper(tile_size=8)` and `RGBImgPartialObsWrapper(tile_size=8)`, optionally
/// followed by `ImgObsWrapper`. Environments in Python (`py:`) have MiniGrid's in the package minigrid.
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
    named: Arc<Named>,
    arguments: Arguments,
}

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
        f.write_str(&self.named.name)?;
        if self.arguments.values.is_empty() {
            return Ok(());
        }
        let arguments: Vec<String> =
            self.arguments.values.iter().map(|(_, value)| value.to_string()).collect();
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
        let mut by_place = Vec::new();
        let mut by_name = EnvConfig::new();
        for argument in split_arguments(arguments) {
            let (key, value) = match argument.split_once('=') {
                Some((key, value)) => (Some(key.trim()), value.trim()),
                None => (None, argument),
            };
            // Python writes `True`, JSON `true`; both are accepted.
            let read = serde_json::from_str(value).or_else(|_| serde_json::from_str(&value.to_lowercase()));
            let value = read.map_err(|_| {
                format!(
                    "the argument {value} of {name} is neither a number nor true or false, nor a text in double quotes \
                     or a list in brackets"
                )
            })?;
            match key {
                Some(key) => drop(by_name.insert(key.to_owned(), value)),
                None => by_place.push(value),
            }
        }
        Self::new(name, by_place, by_name)
    }

    fn new(name: &str, by_place: Vec<Value>, mut by_name: EnvConfig) -> Result<Self, String> {
        let named = find(name)?;
        let takes = || {
            let parameters: Vec<&str> =
                named.parameters.iter().map(|(parameter, _)| parameter.as_str()).collect();
            if parameters.is_empty() {
                "no arguments".to_owned()
            } else {
                format!("({})", parameters.join(", "))
            }
        };
        if by_place.len() > named.parameters.len() {
            return Err(format!("{name} is given {} arguments, but it takes {}", by_place.len(), takes()));
        }
        let mut by_place = by_place.into_iter();
        let mut values = Vec::new();
        for (parameter, default) in &named.parameters {
            let given = by_name.shift_remove(parameter);
            let Some(value) = by_place.next().or(given).or_else(|| default.clone()) else {
                return Err(format!("{name} lacks `{parameter}`; it takes {}", takes()));
            };
            values.push((parameter.clone(), value));
        }
        match by_name.keys().next() {
            Some(key) => Err(format!("{name} is given `{key}`, but it takes {}", takes())),
            None => {
                let arguments = Arguments { wrapper: named.name.clone(), values };
                Ok(Self { named, arguments })
            }
        }
    }

    /// Makes the spec `TimeLimit(steps)`.
    pub(crate) fn time_limit(steps: usize) -> Self {
        Self::new("TimeLimit", vec![steps.into()], EnvConfig::new()).expect("a wrapper with that parameter")
    }

    pub(crate) fn name(&self) -> &str {
        &self.named.name
    }

    pub(crate) fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Whether an environment of MiniGrid, or one in Python, applies this wrapper itself. In Python they are those that choose
    /// parts of an observation, because the other parts may be of a space that only Python has.
    fn is_own(&self, in_python: bool) -> bool {
        matches!(self.named.apply, Apply::MiniGrid) || in_python && self.name() == "FilterObservation"
    }

    /// Makes `num_envs` copies of `env` with `make` and puts this wrapper around them.
    fn around(&self, env: &str, num_envs: usize, make: &Make<'_>) -> Result<Box<dyn AnyVectorEnv>> {
        match &self.named.apply {
            Apply::Together(wrap) => wrap(CopiesToWrap::new(env, make(num_envs)?), &self.arguments),
            Apply::OneByOne(wrap) => wrap(&self.arguments, env, num_envs, make),
            Apply::MiniGrid => Err(Error::Config {
                env: self.named.name.clone(),
                message: "it stands around another wrapper, but environments of MiniGrid apply it themselves; name it \
                          before the others in `wrappers`"
                    .into(),
            }),
        }
    }
}

/// Splits a list of arguments at the commas outside of brackets.
fn split_arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let outside = move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(outside).map(str::trim).filter(|argument| !argument.is_empty())
}

/// Splits a list of wrappers after those at its front that the environment `env` applies by itself.
pub(crate) fn split_own<'w>(
    env: &str,
    wrappers: &'w [WrapperSpec],
) -> (&'w [WrapperSpec], &'w [WrapperSpec]) {
    let in_python = env.starts_with(crate::python::PREFIX);
    let own = wrappers.iter().take_while(|wrapper| wrapper.is_own(in_python)).count();
    wrappers.split_at(own)
}

/// Makes `num_envs` copies of `env` with `make` and puts `wrappers` around them; the first wrapper is the innermost.
pub(crate) fn wrapped(
    env: &str,
    wrappers: &[WrapperSpec],
    num_envs: usize,
    make: &Make<'_>,
) -> Result<Box<dyn AnyVectorEnv>> {
    match wrappers.split_last() {
        None => make(num_envs),
        Some((last, inner)) => last.around(env, num_envs, &|copies| wrapped(env, inner, copies, make)),
    }
}
