//! Acting outside of training: a session takes raw observations and returns actions.

use crate::base::PolicyId;
use crate::policy::{Policy, PolicyMap};
use crate::sample::connector::Connector;
use crate::sample::filter::RunningStat;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::spec::WorkerSpec;
use pavlov_envs::{DType, Element, Space};
use pavlov_learn::base::{Error, Result, Stream};

/// An action in the environment's form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// The chosen value of each discrete choice.
    Int(Vec<i64>),
    /// The value of each component of a continuous action.
    Float(Vec<f32>),
}

impl Action {
    /// The chosen value of a `Discrete` action; `None` for other action spaces.
    pub fn discrete(&self) -> Option<i64> {
        match self {
            Self::Int(choices) if choices.len() == 1 => Some(choices[0]),
            _ => None,
        }
    }
}

/// Acts by a trained policy in episodes of your own, for instance in production. A session is made by
/// [`Algorithm::session`](crate::run::Algorithm::session), or from a checkpoint by
/// [`load_session`](crate::run::load_session).
///
/// A session has its own copy of the policy, so later training does not change it. A recurrent policy keeps the state
/// of each environment copy from one call to the next, until [`reset`](Self::reset).
#[derive(Debug)]
pub struct Session {
    pub(crate) id: PolicyId,
    /// Preprocessing, filter and recurrent states.
    pub(crate) desk: Inference,
    pub(crate) policies: PolicyMap,
    /// Number of environment copies.
    copies: usize,
    /// Number of environment steps of the run, at which exploration schedules stand.
    pub(super) timestep: u64,
}

impl Session {
    /// Makes a session with one copy per random stream; `timestep` is the number of environment steps at which
    /// exploration schedules stand.
    pub(crate) fn new(
        id: &str,
        spec: &WorkerSpec,
        mut policies: PolicyMap,
        rngs: Vec<Stream>,
        filter: Option<&RunningStat>,
        timestep: u64,
    ) -> Result<Self> {
        let copies = rngs.len();
        let policy = policies.get_mut(id)?;
        policy.on_global_var_update(timestep);
        let desk = Inference::new(spec, (id, policy.as_ref()), rngs, filter)?;
        Ok(Self { id: id.to_owned(), desk, policies, copies, timestep })
    }

    /// Returns the best action for one raw observation, in a session of one copy.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the session has several copies, and fails whenever
    /// [`compute_actions`](Self::compute_actions) does.
    pub fn act<O: Element>(&mut self, obs: &[O]) -> Result<Action> {
        if self.copies != 1 {
            let reason = format!("it has {} copies; `compute_actions` acts in all of them", self.copies);
            return Err(Error::state("the session", reason));
        }
        Ok(self.compute_actions(obs, false)?.remove(0))
    }

    /// The environment's observation space; [`act`](Self::act) takes one observation of it.
    pub fn observation_space(&self) -> &Space {
        &self.desk.space
    }

    /// The environment's action space.
    pub fn action_space(&self) -> &Space {
        self.desk.connector.action_space()
    }

    /// Whether the policy keeps a recurrent state from one call to the next.
    ///
    /// # Errors
    /// Never fails today.
    pub fn is_recurrent(&mut self) -> Result<bool> {
        Ok(self.policies.get_mut(&self.id)?.memory_width() > 0)
    }

    /// Returns one action per copy; `obs` has one raw observation per copy, in the order of the copies. Observations
    /// are preprocessed and filtered as in training. Without `explore` the best known actions are chosen.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `obs` is not one observation per copy in the space's scalar type or has a NaN, or if a mask
    /// leaves no legal action. Fails if the policy does.
    pub fn compute_actions<O: Element>(&mut self, obs: &[O], explore: bool) -> Result<Vec<Action>> {
        let rows = self.desk.rows(obs)?;
        if rows != self.copies {
            let reason = format!("{rows} rows were given, but the session has {} copies", self.copies);
            return Err(Error::state("an observation", reason));
        }
        self.desk.actions(self.policies.get_mut(&self.id)?.as_mut(), obs, explore, self.timestep)
    }

    /// Starts an episode of copy `copy`: a recurrent policy forgets the previous episode, and noise of gSDE is drawn anew.
    ///
    /// # Errors
    /// Returns [`Error::State`] if there is no such copy.
    pub fn reset(&mut self, copy: usize) -> Result<()> {
        if copy >= self.copies {
            let reason = format!("there is no copy {copy}; it has {}, and the first is 0", self.copies);
            return Err(Error::state("the session", reason));
        }
        self.desk.connector.begin(copy, None);
        self.desk.connector.renew_noise(copy);
        Ok(())
    }

    /// Flags of the actions that are legal from now on, `[copies, options]`, for the caller to write; at first all are
    /// legal. Returns `None` unless the algorithm has the setting `mask_actions`.
    pub fn mask_mut(&mut self) -> Option<&mut [bool]> {
        self.desk.storage.masks.as_mut().map(|masks| masks.row(0))
    }
}

/// Acts one step at a time, for sessions and exports, by a policy that the caller passes.
#[derive(Debug)]
pub(crate) struct Inference {
    pub(crate) connector: Connector,
    pub(crate) storage: RolloutBuffer,
    /// The environment's observation space.
    pub(crate) space: Space,
    /// The space of the observations that the policy gets, converted and filtered; `space` is the environment's.
    pub(crate) stored: Space,
    /// Scalar type of raw observations.
    obs_dtype: DType,
    /// Number of values of an action.
    action_width: usize,
}

impl Inference {
    /// Makes the state for one environment copy per random stream; `filter` has the statistics of the observation
    /// filter.
    pub(crate) fn new(
        spec: &WorkerSpec,
        (id, policy): (&str, &dyn Policy),
        rngs: Vec<Stream>,
        filter: Option<&RunningStat>,
    ) -> Result<Self> {
        let spaces = spec.policies.spaces(id, spec.agents())?;
        let common = spec.common_of(id);
        // Whoever acts here gets continuous actions in single precision, whatever the environment takes.
        let act_dtype = match &spaces.action_space {
            Space::Box { .. } => DType::F32,
            _ => spec.names.env_info.act_dtype,
        };
        let connector = Connector::new(spaces, act_dtype, common, policy, 0, rngs)?.filtered_by(filter)?;
        Ok(Self {
            storage: connector.steps(1)?,
            connector,
            space: spaces.observation_space.clone(),
            stored: spec.names.common.policy_spaces(spaces).observation_space,
            obs_dtype: spec.names.env_info.obs_dtype,
            action_width: spaces.action_space.width(),
        })
    }

    /// Scalar type of raw observations.
    pub(crate) fn obs_dtype(&self) -> DType {
        self.obs_dtype
    }

    /// Number of environment copies.
    pub(crate) fn copies(&self) -> usize {
        self.connector.copies()
    }

    /// Number of raw observations in `obs`; an error if they have another scalar type, their last one is not whole, or a number
    /// is NaN.
    fn rows<O: Element>(&self, obs: &[O]) -> Result<usize> {
        rows(obs, &self.space, self.obs_dtype)
    }

    /// Returns the actions for one observation per copy.
    pub(crate) fn actions<O: Element>(
        &mut self,
        policy: &mut dyn Policy,
        obs: &[O],
        explore: bool,
        timestep: u64,
    ) -> Result<Vec<Action>> {
        let Self { connector, storage, action_width, .. } = self;
        if let Some(masks) = &mut storage.masks {
            masks.check(0)?;
        }
        connector.first(storage).copy_from_slice(bytemuck::cast_slice(obs));
        connector.observe(storage, 0, false)?;
        connector.act(policy, storage, 0, explore, timestep)?;
        let discrete = connector.is_discrete();
        let bytes = connector.exchange(storage, 0).0;
        Ok(if discrete {
            chunks(bytes, *action_width).map(Action::Int).collect()
        } else {
            chunks(bytes, *action_width).map(Action::Float).collect()
        })
    }
}

/// Splits actions in bytes into one vector of `width` values per copy.
fn chunks<T: Element>(bytes: &[u8], width: usize) -> impl Iterator<Item = Vec<T>> {
    bytemuck::cast_slice(bytes).chunks_exact(width).map(<[T]>::to_vec)
}

/// Number of raw observations in `obs`; an error if they have another scalar type than `dtype`, the last one is not whole, or
/// a number is NaN.
pub(crate) fn rows<O: Element>(obs: &[O], space: &Space, dtype: DType) -> Result<usize> {
    let width = space.width();
    if O::DTYPE != dtype || !obs.len().is_multiple_of(width) {
        let reason = format!(
            "{} {} scalars were given, but one row is {width} {dtype} scalars ({space})",
            obs.len(),
            O::DTYPE
        );
        return Err(Error::state("an observation", reason));
    }
    if matches!(O::DTYPE, DType::F32 | DType::F64)
        && let Some(at) = obs.iter().position(|x| x.to_f64().is_nan())
    {
        let reason =
            format!("element {} of row {} is NaN, so no action can be chosen by it", at % width, at / width);
        return Err(Error::state("an observation", reason));
    }
    Ok(obs.len() / width)
}
