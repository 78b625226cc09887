//! [`Loaded`]: a policy for other programs, which threads share.

use crate::policy::{Act, SharedPolicy, StepColumns};
use crate::sample::filter::MeanStdFilter;
use crate::sample::masks::choice_without_action;
use crate::sample::session::{Action, Session, rows};
use crate::sample::transforms::{EnvToPolicy, PolicyToEnv};
use pavlov_envs::{DType, Element, Space};
use pavlov_learn::base::{Error, HostRows, Result, Spaces, Stream, lock};
use pavlov_learn::distributions::ActionRows;
use pavlov_learn::loss::Seen;
use pavlov_learn::params::Encoding;
use std::sync::{Arc, Mutex};

/// A trained policy that acts for several threads at the same time, in batches of any size.
///
/// Clones share one policy. A call takes scratch memory from a pool and puts it back, so no lock is held while it computes,
/// and after the first call of a size nothing is allocated. Actions have the bits of [`Session`], and so of training. On the
/// engine that computes without libtorch, a row's action does not depend on the rows beside it; libtorch may round
/// otherwise in another batch.
///
/// The caller keeps what belongs to an episode: the memory of a recurrent policy, zeros where an episode begins, and the
/// random stream if actions are drawn.
///
/// ```no_run
/// use pavlov_trainer::{Loaded, Observations, policy::ActionRows};
///
/// fn two_poles(policy: &Loaded, rows: &[f32; 8]) -> pavlov_trainer::Result<[i64; 2]> {
///     let mut actions = [0; 2];
///     policy.act(Observations::new(rows), ActionRows::Int(&mut actions))?;
///     Ok(actions)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Loaded(Arc<Shared>);

/// What the clones of a policy share.
#[derive(Debug)]
struct Shared {
    policy: Box<dyn SharedPolicy>,
    spaces: Spaces,
    /// Scalar type of raw observations.
    obs_dtype: DType,
    preprocess: EnvToPolicy,
    /// Shape and scalar type of the observations that the policy gets.
    encoding: Encoding,
    filter: Option<MeanStdFilter>,
    to_env: PolicyToEnv,
    /// Number of options of each choice; `None` if the policy takes no masks of legal actions.
    choices: Option<Vec<usize>>,
    /// Number of environment steps of the run, at which exploration schedules stand.
    timestep: u64,
    /// Index of the worker that acts, and number of workers, for exploration.
    worker: (usize, usize),
    /// Scratch memory that no call uses at the moment.
    spare: Mutex<Vec<Scratch>>,
}

/// Scratch memory of one call, with room for a number of rows.
#[derive(Debug)]
struct Scratch {
    rows: usize,
    obs: HostRows,
    mask: Vec<bool>,
    resets: Vec<bool>,
    rngs: Vec<Stream>,
    noise: Vec<f32>,
}

/// Rows that a [`Loaded`] policy acts for, in the caller's memory.
#[derive(Debug)]
pub struct Observations<'a, O> {
    obs: &'a [O],
    mask: Option<&'a [bool]>,
    memory: &'a mut [f32],
    draw: Option<&'a mut [Stream]>,
}

impl<'a, O: Element> Observations<'a, O> {
    /// Raw observations, row after row, as the environment writes them.
    pub fn new(obs: &'a [O]) -> Self {
        Self { obs, mask: None, memory: &mut [], draw: None }
    }

    /// Sets which actions are legal, `[rows, options]`, with the options of several choices one after the other. Without
    /// masks all are.
    #[must_use]
    pub fn with_mask(self, mask: &'a [bool]) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// Sets the memory of a recurrent policy, `[rows, memory_width]`, which the call replaces by the memory after the rows.
    /// It must be zeros in rows that begin an episode.
    #[must_use]
    pub fn with_memory(self, memory: &'a mut [f32]) -> Self {
        Self { memory, ..self }
    }

    /// Lets the policy explore: the action of each row is drawn from the row's own stream. Without streams the best known
    /// actions are taken.
    #[must_use]
    pub fn drawn_from(self, streams: &'a mut [Stream]) -> Self {
        Self { draw: Some(streams), ..self }
    }
}

impl Session {
    /// Turns the session into a policy that threads share. Memories and masks of the session are dropped.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy cannot be shared: a class of your own without
    /// [`Policy::into_shared`](crate::policy::Policy::into_shared).
    pub fn into_loaded(self) -> Result<Loaded> {
        let Self { id, desk, policies, timestep, .. } = self;
        let policy = policies.take(&id)?.into_shared()?;
        let obs_dtype = desk.obs_dtype();
        let parts = desk.connector.into_parts();
        Ok(Loaded(Arc::new(Shared {
            policy,
            obs_dtype,
            spaces: parts.spaces,
            preprocess: parts.preprocess,
            encoding: parts.encoding,
            filter: parts.filter,
            to_env: parts.to_env,
            choices: parts.choices,
            timestep,
            worker: parts.worker,
            spare: Mutex::default(),
        })))
    }
}

impl Loaded {
    /// Chooses one action per row and writes them to `actions`, `[rows, components]`, as the environment takes them.
    ///
    /// # Errors
    /// Returns [`Error::State`] if observations, masks, memory, streams or `actions` have another size or type than the
    /// rows need, or if a mask leaves no legal action. Fails if the policy does; memory may have changed then.
    pub fn act<O: Element>(&self, of: Observations<'_, O>, mut actions: ActionRows<'_>) -> Result<()> {
        let rows = rows(of.obs, &self.0.spaces.observation_space, self.0.obs_dtype)?;
        self.check_actions(rows, &actions)?;
        self.check(rows, &of)?;
        if rows == 0 {
            return Ok(());
        }
        let Shared { policy, timestep, worker, to_env, .. } = &*self.0;
        let explore = of.draw.is_some();
        let to = match &mut actions {
            ActionRows::Int(actions) => ActionRows::Int(actions),
            ActionRows::Float(actions) => ActionRows::Float(actions),
        };
        self.with_seen(rows, of, |seen, rngs, noise| {
            let act = Act {
                rngs,
                actions: to,
                mask: seen.mask,
                explore,
                timestep: *timestep,
                worker: *worker,
                noise,
                matrices: None,
                columns: StepColumns { names: &[], rows: &mut [], step: 0, acting: (rows, rows) },
            };
            policy.compute_actions(seen, act)
        })?;
        to_env.convert(actions);
        Ok(())
    }

    /// Returns the network's outputs that actions are chosen by, `[rows, columns]`: parameters of a distribution, values, or
    /// actions before they are scaled.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, and fails whenever [`act`](Self::act) does.
    pub fn outputs<O: Element>(&self, of: Observations<'_, O>) -> Result<Vec<f32>> {
        let rows = rows(of.obs, &self.0.spaces.observation_space, self.0.obs_dtype)?;
        self.check(rows, &of)?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        self.with_seen(rows, of, |seen, _, _| self.0.policy.outputs(seen))
    }

    /// Returns the best action for one observation, of a policy without memory.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `obs` is not one row, and fails whenever [`act`](Self::act) does.
    pub fn act_once<O: Element>(&self, obs: &[O]) -> Result<Action> {
        let width = self.action_width();
        if self.is_discrete() {
            let mut action = vec![0; width];
            self.act(Observations::new(obs), ActionRows::Int(&mut action))?;
            return Ok(Action::Int(action));
        }
        let mut action = vec![0.0; width];
        self.act(Observations::new(obs), ActionRows::Float(&mut action))?;
        Ok(Action::Float(action))
    }

    /// Calls `f` with what the policy sees of the rows, their random streams and their exploration noise, which is 0.
    fn with_seen<O: Element, R>(
        &self,
        rows: usize,
        of: Observations<'_, O>,
        f: impl FnOnce(Seen<'_>, &mut [Stream], &mut [f32]) -> Result<R>,
    ) -> Result<R> {
        let Shared { preprocess, filter, choices, timestep, .. } = &*self.0;
        let Observations { obs, mask, memory, draw } = of;
        let mut scratch = self.take(rows);
        let Scratch { rows: room, obs: stored, mask: all, resets, rngs, noise } = &mut scratch;
        let bytes = stored.bytes_mut(0);
        let used = bytes.len() / *room * rows;
        preprocess.apply(bytemuck::cast_slice(obs), &mut bytes[..used])?;
        if let Some(filter) = filter {
            filter.normalise(bytemuck::cast_slice_mut(&mut bytes[..used]));
        }
        let all = &all[..self.mask_width().unwrap_or(0) * rows];
        let noise = &mut noise[..self.noise_width() * rows];
        noise.fill(0.0);
        let seen = Seen {
            obs: stored.row(0).rows(0..rows),
            mask: choices.as_ref().map(|_| mask.unwrap_or(all)),
            memory,
            resets: &resets[..rows],
            explore: draw.is_some(),
            timestep: *timestep,
        };
        let done = f(seen, draw.unwrap_or(&mut rngs[..rows]), noise);
        // What a panic leaves behind is not put back.
        lock(&self.0.spare).push(scratch);
        done
    }

    fn check_actions(&self, rows: usize, actions: &ActionRows<'_>) -> Result<()> {
        let kind = match actions {
            ActionRows::Int(_) => "i64",
            ActionRows::Float(_) => "f32",
        };
        let len = match actions {
            ActionRows::Int(actions) => actions.len(),
            ActionRows::Float(actions) => actions.len(),
        };
        if matches!(actions, ActionRows::Int(_)) != self.is_discrete() {
            let space = self.action_space();
            let reason = format!("room for {kind} actions was given, but the policy's are of {space}");
            return Err(Error::state("the actions", reason));
        }
        check("numbers of actions", len, rows * self.action_width())
    }

    fn check<O>(&self, rows: usize, of: &Observations<'_, O>) -> Result<()> {
        check("numbers of memory", of.memory.len(), rows * self.memory_width())?;
        if let Some(streams) = &of.draw {
            check("random streams", streams.len(), rows)?;
        }
        let Some(mask) = of.mask else { return Ok(()) };
        let Some(choices) = &self.0.choices else {
            let reason =
                "this policy was trained without masks of legal actions (`mask_actions`): leave the mask out";
            return Err(Error::state("the action mask", reason));
        };
        let options = choices.iter().sum::<usize>();
        check("flags of legal actions", mask.len(), rows * options)?;
        let Some((row, choice)) = self.row_without_action(mask) else { return Ok(()) };
        let count = choices[choice];
        let reason =
            format!("in row {row} it allows none of the {count} actions of choice {choice}; allow one");
        Err(Error::state("the action mask", reason))
    }

    /// Takes scratch memory for `rows` rows from the pool, or makes it.
    fn take(&self, rows: usize) -> Scratch {
        let spare = lock(&self.0.spare).pop();
        if let Some(scratch) = spare.filter(|scratch| scratch.rows >= rows) {
            return scratch;
        }
        let room = rows.next_power_of_two();
        let encoding = &self.0.encoding;
        let shape: Vec<i64> = std::iter::once(room as i64).chain(encoding.shape().iter().copied()).collect();
        Scratch {
            rows: room,
            obs: HostRows::zeros(1, &shape, encoding.kind()),
            mask: vec![true; self.mask_width().unwrap_or(0) * room],
            resets: vec![false; room],
            rngs: (0..room).map(|_| Stream::new(0, "greedy", 0)).collect(),
            noise: vec![0.0; self.noise_width() * room],
        }
    }

    fn noise_width(&self) -> usize {
        if self.is_discrete() { 0 } else { self.action_width() }
    }

    /// The environment's observation space.
    pub fn observation_space(&self) -> &Space {
        &self.0.spaces.observation_space
    }

    /// The environment's action space.
    pub fn action_space(&self) -> &Space {
        &self.0.spaces.action_space
    }

    /// Scalar type of raw observations.
    pub fn observation_dtype(&self) -> DType {
        self.0.obs_dtype
    }

    /// Number of scalars of one row of observations.
    pub fn observation_width(&self) -> usize {
        self.observation_space().width()
    }

    /// Number of scalars of one action.
    pub fn action_width(&self) -> usize {
        self.action_space().width()
    }

    /// Whether actions are i64; otherwise they are f32.
    pub fn is_discrete(&self) -> bool {
        matches!(self.0.to_env, PolicyToEnv::Int { .. })
    }

    /// Number of flags of legal actions per row; `None` if the policy takes no masks.
    pub fn mask_width(&self) -> Option<usize> {
        self.0.choices.as_ref().map(|choices| choices.iter().sum())
    }

    /// Finds the first row and choice for which `mask`, `[rows, options]`, allows no action.
    pub fn row_without_action(&self, mask: &[bool]) -> Option<(usize, usize)> {
        let choices = self.0.choices.as_ref()?;
        let rows = mask.chunks_exact(choices.iter().sum()).enumerate();
        rows.filter_map(|(row, mask)| Some((row, choice_without_action(choices, mask)?))).next()
    }

    /// Number of scalars of a recurrent policy's memory per row; 0 without recurrent layers.
    pub fn memory_width(&self) -> usize {
        self.0.policy.memory_width()
    }

    /// Number of equal parts of a row's memory: 2 if it is that of one long short-term memory, whose output comes before its
    /// cell; else 1.
    pub fn memory_parts(&self) -> usize {
        self.0.policy.memory_parts()
    }
}

fn check(what: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::state("the rows", format!("they come with {found} {what}, but {wanted} are needed")))
}
