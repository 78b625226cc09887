//! Packed models: a policy in one file that holds no program and nothing of the machine that made it.

mod check;
mod file;
mod making;
mod plan;
mod policy;

use crate::agents::{Agent, EnvInfo};
use crate::base::DEFAULT_POLICY;
use crate::export::pack::check::{MAX_COLUMNS, check};
use crate::export::pack::file::{MAX_BYTES, Tensors};
use crate::export::pack::plan::Plan;
use crate::export::pack::policy::Packed;
use crate::sample::{
    Code, Evaluation, EvaluationTask, FilterStats, RunningStat, Session, WorkerNames, WorkerSpec, play,
};
use crate::settings::{Common, ObservationFilter};
use pavlov_envs::{DType, EnvCreator, Space};
use pavlov_learn::base::{Device, Error, Result, Spaces, Stream, catch};
use pavlov_tune::{self as tune, Config};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub(super) use making::session_of;

/// Version of the format that this version of pavlov writes, and the newest that it reads.
const FORMAT_VERSION: u64 = 1;
/// Largest number of bytes of the names that commands print: of the algorithm, the environment, the licence.
const MAX_NAME: usize = 1000;
const FORMAT: &str = "pavlov-model";

/// What a packed model says about itself besides its network. None of it is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackFacts {
    /// The settings that tell where the policy comes from and how its environment is made: `algorithm`, `env`,
    /// `env_config`, `wrappers`, and numbers of the training.
    pub settings: Config,
    /// Results of the training and of evaluations.
    pub results: Config,
    /// The model card, in Markdown.
    pub card: String,
    /// The licence of the weights: its SPDX name, or words.
    pub licence: String,
}

/// The spaces of a packed policy, and how its actions reach the environment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct PackSpaces {
    observation_space: Space,
    action_space: Space,
    obs_dtype: DType,
    normalize_actions: bool,
    clip_actions: bool,
    mask_actions: bool,
}

/// What a pack holds besides the network.
#[derive(Clone, Debug)]
struct About {
    format_version: u64,
    /// Version of pavlov that wrote the pack.
    pavlov: String,
    spaces: PackSpaces,
    filter: Option<RunningStat>,
    facts: PackFacts,
}

/// A policy in one file: the network that acts, its weights, the observation filter, the spaces, and a model card. The
/// file is in the safetensors format.
///
/// Reading refuses what does not fit, with a sentence: a pack may come from a stranger. Nothing in it is run, and no
/// registered algorithm is asked.
///
/// ```no_run
/// # fn main() -> pavlov_trainer::Result<()> {
/// let pack = pavlov_trainer::Pack::read("pole.pavlov")?;
/// println!("{}", pack.facts().card);
/// let action = pack.session(1)?.act(&[0.02_f32, -0.01, 0.03, 0.04])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pack {
    plan: Plan,
    tensors: Arc<Tensors>,
    policy: Packed,
    about: About,
}

impl Pack {
    /// Checks that all parts fit each other.
    fn new(plan: Plan, tensors: Arc<Tensors>, about: About) -> Result<Self> {
        let refuse = |reason: String| Error::state("the packed model", reason);
        let spaces = Spaces {
            observation_space: about.spaces.observation_space.clone(),
            action_space: about.spaces.action_space.clone(),
        };
        let About { pavlov, facts, .. } = &about;
        let named = ["algorithm", "env"].iter().filter_map(|key| facts.settings.get(*key)?.as_str());
        for name in named.chain([pavlov.as_str(), facts.licence.as_str()]) {
            if name.chars().any(char::is_control) || name.len() > MAX_NAME {
                let begins: String = name.chars().take(80).collect();
                return Err(refuse(format!("a name in it begins {begins:?}, which is no name to print")));
            }
        }
        for (what, space) in [("observation", &spaces.observation_space), ("action", &spaces.action_space)] {
            if width(space).is_none_or(|width| width > MAX_COLUMNS) {
                return Err(refuse(format!("its {what} space has more than {MAX_COLUMNS} numbers")));
            }
            space.validate()?;
        }
        if spaces.observation_space.width() == 0 || spaces.action_space.width() == 0 {
            return Err(refuse("an observation or an action of it has no numbers".into()));
        }
        let stored = spaces.stored(about.filter.is_some()).observation_space;
        if let Some(filter) = &about.filter
            && !filter.is_sound(stored.flat_width())
        {
            return Err(refuse("its observation filter does not fit the observations".into()));
        }
        let is_discrete = !matches!(spaces.action_space, Space::Box { .. });
        let options = about.spaces.mask_actions.then(|| spaces.action_space.flat_width());
        if options.is_some() && !is_discrete {
            return Err(refuse("it has masks of legal actions, but its actions are no choices".into()));
        }
        let checked = check(&plan, &tensors, stored.flat_width(), options).map_err(refuse)?;
        let head = (plan.head, plan.choice);
        let policy = Packed::new(Arc::new(checked), Arc::clone(&tensors), head, &spaces).map_err(refuse)?;
        Ok(Self { plan, tensors, policy, about })
    }

    /// Reads a packed model.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the reason if the file is no packed model, is damaged, was changed, is larger than
    /// 2 GiB, or needs a newer version of pavlov, and [`Error::Tune`] if it cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let within = |error: Error| error.within(&path.display().to_string());
        let file = File::open(path).map_err(tune::Error::io("read", path))?;
        let data = file.metadata().map_err(tune::Error::io("read", path))?;
        if !data.is_file() || data.len() > MAX_BYTES {
            let reason = format!("a packed model is a file of at most {MAX_BYTES} bytes, and this is none");
            return Err(Error::state(path.display().to_string(), reason));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(tune::Error::io("read", path))?;
        Self::from_bytes(&bytes).map_err(within)
    }

    /// Writes the packed model. An existing file is replaced.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let bytes = self.to_bytes()?;
        Ok(tune::write_output(path.as_ref(), &bytes)?)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a fact cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        fn text(what: &str, value: &impl Serialize) -> Result<String> {
            serde_json::to_string(value).map_err(|error| Error::state(what, error.to_string()))
        }
        let About { format_version, pavlov, spaces, filter, facts } = &self.about;
        let metadata = BTreeMap::from([
            ("format", FORMAT.to_owned()),
            ("format_version", format_version.to_string()),
            ("pavlov", pavlov.clone()),
            ("plan", text("the plan", &self.plan)?),
            ("spaces", text("the spaces", spaces)?),
            ("filter", text("the filter", filter)?),
            ("settings", text("the settings", &facts.settings)?),
            ("results", text("the results", &facts.results)?),
            ("card", facts.card.clone()),
            ("licence", facts.licence.clone()),
        ]);
        Ok(file::encode(&metadata, &self.tensors))
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Fails like [`read`](Self::read).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        catch(|| "reading a packed model".into(), || Self::decoded(bytes))
    }

    fn decoded(bytes: &[u8]) -> Result<Self> {
        let refuse = |reason: String| Error::state("the packed model", reason);
        let (metadata, tensors) = file::decode(bytes).map_err(refuse)?;
        let text =
            |key: &str| metadata.get(key).ok_or_else(|| refuse(format!("its metadata have no `{key}`")));
        fn read<T: DeserializeOwned>(key: &str, text: &str) -> Result<T> {
            serde_json::from_str(text).map_err(|error| {
                Error::state("the packed model", format!("its `{key}` cannot be read: {error}"))
            })
        }
        if text("format")? != FORMAT {
            return Err(refuse(format!(
                "its format is {:?}, but a packed model's is {FORMAT:?}",
                text("format")?
            )));
        }
        let format_version: u64 = read("format_version", text("format_version")?)?;
        if format_version != FORMAT_VERSION {
            return Err(refuse(format!(
                "its format_version is {format_version}, but this version of pavlov reads {FORMAT_VERSION}; use the \
                 version that wrote it, {:?}, or a newer one",
                text("pavlov")?
            )));
        }
        let facts = PackFacts {
            settings: read("settings", text("settings")?)?,
            results: read("results", text("results")?)?,
            card: text("card")?.clone(),
            licence: text("licence")?.clone(),
        };
        let about = About {
            format_version,
            pavlov: text("pavlov")?.clone(),
            spaces: read("spaces", text("spaces")?)?,
            filter: read("filter", text("filter")?)?,
            facts,
        };
        Self::new(read("plan", text("plan")?)?, Arc::new(tensors), about)
    }

    /// What the packed model says about itself.
    pub fn facts(&self) -> &PackFacts {
        &self.about.facts
    }

    /// Replaces what the packed model says about itself.
    #[must_use]
    pub fn with_facts(mut self, facts: PackFacts) -> Self {
        self.about.facts = facts;
        self
    }

    /// Version of pavlov that packed the model.
    pub fn version(&self) -> &str {
        &self.about.pavlov
    }

    /// The observation space of the environment that the policy was trained in, behind its wrappers.
    pub fn observation_space(&self) -> &Space {
        &self.about.spaces.observation_space
    }

    /// The action space of the environment.
    pub fn action_space(&self) -> &Space {
        &self.about.spaces.action_space
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.tensors.values().map(|tensor| tensor.numbers.len()).sum()
    }

    /// The space of the observations that the policy gets.
    fn stored(&self) -> Space {
        self.spaces().stored(self.about.filter.is_some()).observation_space
    }

    fn spaces(&self) -> Spaces {
        Spaces {
            observation_space: self.observation_space().clone(),
            action_space: self.action_space().clone(),
        }
    }

    /// Makes a session that acts in `copies` episodes of your own.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `copies` is 0.
    pub fn session(&self, copies: usize) -> Result<Session> {
        if copies == 0 {
            return Err(Error::state("a session", "it was asked for 0 copies, but it needs at least 1"));
        }
        let spec = self.spec(&EnvCreator::from("packed"), Common::default());
        let policies = spec.policies(0, Device::Cpu)?;
        let rngs = (0..copies as u64).map(|copy| Stream::new(0, "packed", copy)).collect();
        Session::new(DEFAULT_POLICY, &spec, policies, rngs, self.about.filter.as_ref(), 0)
    }

    /// Plays `episodes` whole episodes in the environment `env`, which is made with `env_config` and `wrappers`. The
    /// same seed plays the same episodes as [`Algorithm::play`](crate::Algorithm::play) does by the policy that was
    /// packed. The result has at most `frames` pictures of the first episode.
    ///
    /// # Errors
    /// Fails if the environment does, or has other spaces than the policy. With `explore` it returns [`Error::State`] for
    /// a policy without a distribution to draw from.
    pub fn play(
        &self,
        env: &EnvCreator,
        settings: &Config,
        (episodes, seed): (u64, u64),
        explore: bool,
        frames: usize,
    ) -> Result<Evaluation> {
        let common = Common {
            env_config: of_key(settings, "env_config")?,
            wrappers: of_key(settings, "wrappers")?,
            ..Common::default()
        };
        let spec = self.spec(env, common);
        let mut policies = spec.policies(0, Device::Cpu)?;
        let filter = self.about.filter.clone();
        let filters: FilterStats = filter.into_iter().map(|filter| (DEFAULT_POLICY.into(), filter)).collect();
        let task = EvaluationTask { episodes: (0..episodes).collect(), seed, explore, timestep: 0, frames };
        play(&spec, 0, &task, &mut policies, &filters, &mut None)
    }

    /// What a worker that acts by the policy is made from.
    fn spec(&self, env: &EnvCreator, common: Common) -> WorkerSpec {
        let PackSpaces { obs_dtype, normalize_actions, clip_actions, mask_actions, .. } = self.about.spaces;
        let spaces = self.spaces();
        let act_dtype = match spaces.action_space {
            Space::Box { .. } => DType::F32,
            _ => DType::I64,
        };
        let observation_filter = match self.about.filter {
            Some(_) => ObservationFilter::MeanStdFilter,
            None => ObservationFilter::NoFilter,
        };
        let common = Common {
            num_workers: 0,
            normalize_actions,
            clip_actions,
            mask_actions,
            observation_filter,
            ..common
        };
        let names = WorkerNames {
            trainable: None,
            settings: Config::new(),
            common,
            env: env.name().to_owned(),
            env_info: EnvInfo { agents: Agent::only(spaces), obs_dtype, act_dtype, has_masks: mask_actions },
            sampling: false,
        };
        WorkerSpec { names, env: env.clone(), policies: self.policy.policies(), code: Code::default() }
    }
}

/// The value of a setting; the default if there is none.
fn of_key<T: DeserializeOwned + Default>(settings: &Config, key: &str) -> Result<T> {
    match settings.get(key) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|error| Error::config(key, value, error.to_string())),
    }
}

/// Number of numbers of a space with integers one-hot, and at least that of its rows; `None` if it is beyond counting.
fn width(space: &Space) -> Option<usize> {
    fn sum(mut widths: impl Iterator<Item = Option<usize>>) -> Option<usize> {
        widths.try_fold(0_usize, |sum, width| sum.checked_add(width?))
    }
    let product = |shape: &[usize]| shape.iter().try_fold(1_usize, |size, &n| size.checked_mul(n));
    match space {
        Space::Box { low, high, shape, .. } => product(shape).map(|size| size.max(low.len()).max(high.len())),
        Space::Discrete { n, start } => start.checked_add(*n).and_then(|_| usize::try_from(*n).ok()),
        Space::MultiDiscrete { nvec, start } => {
            start.iter().zip(nvec).try_for_each(|(start, n)| start.checked_add(*n).map(drop))?;
            sum(nvec.iter().map(|&n| usize::try_from(n).ok()))
        }
        Space::MultiBinary { shape } => product(shape),
        Space::Dict(parts) => sum(parts.iter().map(|(_, part)| width(part))),
        Space::Tuple(parts) => sum(parts.iter().map(width)),
    }
}
