//! Weights of 8 bits for the C file: one scale for each output, activations stay single precision.

use crate::export::pack::session_of;
use crate::export::spaces::{draw, tame};
use crate::sample::{Action, PolicyToEnv, Session};
use pavlov_envs::{AnyVectorEnv, DType, Element, NpRandom, StepOut};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::loss::Layer;
use pavlov_learn::{Parameter, RecordedOp, Recording};
use std::fmt;

/// Number of observations that weights of 8 bits are compared on.
const OBSERVATIONS: usize = 10_000;
/// Largest whole number that a weight becomes.
const MOST: f32 = 127.0;

/// How the actions by weights of 8 bits agree with those of the policy, for the same observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Number of observations.
    pub observations: usize,
    /// Whether the policy visited them in the environment; otherwise they were drawn at random.
    pub are_visited: bool,
    /// Share of the observations whose actions are equal, of discrete choices.
    pub equal: Option<f64>,
    /// Largest difference of a component, of continuous actions; in shares of the width of the bounds where there are bounds.
    pub largest: Option<f64>,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.are_visited { "that the policy visited" } else { "that were drawn at random" };
        if let Some(equal) = self.equal {
            return write!(
                f,
                "the same action for {:.2} % of {} observations {of}",
                100.0 * equal,
                self.observations
            );
        }
        let largest = 100.0 * self.largest.unwrap_or_default();
        write!(
            f,
            "actions at most {largest:.3} % of the bounds apart for {} observations {of}",
            self.observations
        )
    }
}

/// The numbers of one row of weights in 8 bits, and their scale.
pub(super) fn quantised(row: &[f32]) -> (f32, Vec<i8>) {
    let scale = row.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / MOST;
    if scale == 0.0 {
        return (0.0, vec![0; row.len()]);
    }
    // A float becomes the nearest whole number of the type when it is out of range.
    (scale, row.iter().map(|x| (x / scale).round() as i8).collect())
}

/// Rounds the weights of a matrix as 8 bits do. Each output has a row.
fn round(parameter: &mut Parameter) {
    let outputs = parameter.shape.first().copied().unwrap_or(1).max(1);
    let width = (parameter.numbers.len() / outputs).max(1);
    for row in parameter.numbers.chunks_exact_mut(width) {
        let (scale, whole) = quantised(row);
        row.iter_mut().zip(whole).for_each(|(x, whole)| *x = f32::from(whole) * scale);
    }
}

/// The recording with its weights rounded as 8 bits do.
fn rounded(mut recording: Recording) -> Recording {
    for step in &mut recording.steps {
        if let RecordedOp::Layer(layer, _, parameters) = step {
            let matrices: &[usize] = match layer {
                Layer::Dense { .. } | Layer::Noisy { .. } | Layer::Conv2d { .. } => &[0],
                Layer::Recurrent { .. } => &[0, 2],
                Layer::Norm { .. } | Layer::Free { .. } => &[],
            };
            matrices.iter().for_each(|&at| round(&mut parameters[at]));
        }
    }
    recording
}

/// Compares the actions by rounded weights with the policy's: in episodes of `env`, which has one copy, or for random
/// observations. The session has one copy, and begins new episodes.
pub(super) fn agreement(own: &mut Session, env: Option<&mut dyn AnyVectorEnv>) -> Result<Agreement> {
    let policy = own.policies.get_mut(&own.id)?;
    let recording = rounded(policy.recording(own.desk.connector.mask_width())?);
    let mut small = session_of(&own.desk, policy.as_ref(), &recording)?;
    let mut pair = Pair { own, small: &mut small, rows: 0, equal: 0, largest: 0.0 };
    let are_visited = env.is_some();
    match pair.own.desk.obs_dtype() {
        DType::U8 => pair.compare::<u8>(env)?,
        DType::I64 => pair.compare::<i64>(env)?,
        DType::F32 => pair.compare::<f32>(env)?,
        DType::F64 => pair.compare::<f64>(env)?,
    }
    let discrete = pair.own.desk.connector.is_discrete();
    Ok(Agreement {
        observations: pair.rows,
        are_visited,
        equal: discrete.then(|| pair.equal as f64 / pair.rows as f64),
        largest: (!discrete).then_some(pair.largest),
    })
}

/// A session, and one by rounded weights that sees the same.
struct Pair<'a> {
    own: &'a mut Session,
    small: &'a mut Session,
    rows: usize,
    equal: usize,
    largest: f64,
}

impl Pair<'_> {
    fn compare<T: Element>(&mut self, env: Option<&mut dyn AnyVectorEnv>) -> Result<()> {
        self.begin()?;
        let space = self.own.desk.space.clone();
        let mut obs = vec![T::default(); space.width()];
        if let Some(env) = env {
            if (env.observation_space(), env.num_envs()) != (&space, 1) {
                let reason = "its environment has other observations than the policy";
                return Err(Error::state("the comparison of 8 bits", reason));
            }
            return self.play::<T>(env, &mut obs);
        }
        let mut random = NpRandom::new(0);
        let space = tame(&space);
        for _ in 0..OBSERVATIONS {
            draw(&space, &mut random, bytemuck::cast_slice_mut(&mut obs));
            if let Some(masks) = &mut self.own.desk.storage.masks {
                self.own.desk.connector.draw_masks(masks.row(0), &mut random);
            }
            self.act(&obs)?;
        }
        self.begin()
    }

    fn play<T: Element>(&mut self, env: &mut dyn AnyVectorEnv, obs: &mut [T]) -> Result<()> {
        let mut last = obs.to_vec();
        let mut rewards = [0.0];
        let mut terminated = [false];
        let mut truncated = [false];
        env.reset(Some(&[0]), bytemuck::cast_slice_mut(obs))?;
        for step in 1..=OBSERVATIONS as u64 {
            if let Some(masks) = &mut self.own.desk.storage.masks
                && !env.action_masks(masks.row(0))
            {
                masks.row(0).fill(true);
            }
            let out = StepOut {
                obs: bytemuck::cast_slice_mut(obs),
                final_obs: bytemuck::cast_slice_mut(&mut last),
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            // The action is chosen before the rows are written.
            let seen: Vec<T> = bytemuck::cast_slice(out.obs).to_vec();
            match self.act(&seen)? {
                Action::Int(action) => env.step(bytemuck::cast_slice(&action), Some(&[step]), out)?,
                Action::Float(action) => env.step(bytemuck::cast_slice(&action), Some(&[step]), out)?,
            }
            if terminated[0] || truncated[0] {
                self.begin()?;
            }
        }
        self.begin()
    }

    fn begin(&mut self) -> Result<()> {
        self.own.reset(0)?;
        self.small.reset(0)
    }

    /// Lets both act, and counts how they agree; returns the policy's action.
    fn act<T: Element>(&mut self, obs: &[T]) -> Result<Action> {
        if let (Some(mask), Some(masks)) = (self.small.mask_mut(), &mut self.own.desk.storage.masks) {
            mask.copy_from_slice(masks.row(0));
        }
        let wanted = self.own.compute_actions(obs, false)?.remove(0);
        let found = self.small.compute_actions(obs, false)?.remove(0);
        self.rows += 1;
        self.equal += usize::from(wanted == found);
        if let (Action::Float(wanted), Action::Float(found), PolicyToEnv::Float { low, high, .. }) =
            (&wanted, &found, self.own.desk.connector.to_env())
        {
            for (((a, b), low), high) in wanted.iter().zip(found).zip(low).zip(high) {
                let width = f64::from(high - low);
                let width = if width.is_finite() && width > 0.0 { width } else { 1.0 };
                self.largest = self.largest.max(f64::from(a - b).abs() / width);
            }
        }
        Ok(wanted)
    }
}
