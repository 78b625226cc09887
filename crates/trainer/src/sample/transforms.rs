//! Conversions between environment and policy: of raw observations to stored ones, and of the policy's actions to the
//! environment's form.

use crate::sample::cast_actions::{CastActions, as_f32};
use crate::settings::{Common, any};
use pavlov_envs::{DType, Space};
use pavlov_learn::base::{Error, Result, Stream};
use pavlov_learn::distributions::ActionRows;

/// Converts raw observations to the form in which they are stored: unchanged, or flattened to f32.
#[derive(Debug)]
pub(crate) struct EnvToPolicy {
    /// The space of raw observations.
    space: Space,
    /// Whether both forms are equal, so that the environment writes into the rollout buffer itself.
    pub(crate) direct: bool,
    /// Number of bytes of one raw observation.
    pub(crate) raw_bytes: usize,
}

impl EnvToPolicy {
    /// Makes the conversion from raw observations of `space` to stored observations of `stored`.
    pub(crate) fn new(space: &Space, stored: &Space) -> Self {
        let boxes = matches!((space, stored), (Space::Box { .. }, Space::Box { .. }));
        Self {
            direct: space == stored || boxes && space.dtype() == stored.dtype(),
            raw_bytes: space.width() * space.dtype().size(),
            space: space.clone(),
        }
    }

    /// Allocates a buffer for `n` raw observations; empty if the environment needs none.
    pub(crate) fn buffer(&self, n: usize) -> Vec<u64> {
        // Words of eight bytes are aligned for every scalar type.
        if self.direct { Vec::new() } else { vec![0; (n * self.raw_bytes).div_ceil(8)] }
    }

    /// Converts raw observations to stored ones; both are bytes.
    pub(crate) fn apply(&self, raw: &[u8], out: &mut [u8]) -> Result<()> {
        if self.direct {
            out.copy_from_slice(raw);
            return Ok(());
        }
        Ok(self.space.flatten_into(raw, bytemuck::cast_slice_mut(out))?)
    }
}

/// Converts the policy's actions to the environment's form.
#[derive(Debug)]
pub(crate) enum PolicyToEnv {
    /// Discrete actions: `start`, the first value of each choice, is added; it is empty if all are 0. `sizes` has the number of actions of each
    /// choice. Environments outside this program take bits as bytes; `bytes` is the buffer for them, or empty.
    Int { start: Vec<i64>, sizes: Vec<usize>, buffer: Vec<i64>, bytes: Vec<u8> },
    /// Continuous actions: scaled from [-1, 1] to the bounds, clipped to the bounds, or unchanged, as `how` says. `cast` makes
    /// actions of other types than f32.
    Float { low: Vec<f32>, high: Vec<f32>, how: FloatActions, buffer: Vec<f32>, cast: Option<CastActions> },
}

/// How continuous actions are converted for the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatActions {
    /// Actions are scaled from [-1, 1] to the bounds.
    Unsquash,
    /// Actions are clipped to the bounds.
    Clip,
    /// Actions stay as they are.
    Keep,
}

impl PolicyToEnv {
    /// Makes the conversion for `n` copies; `dtype` is the scalar type of actions.
    pub(crate) fn new(space: &Space, dtype: DType, n: usize, common: &Common) -> Result<Self> {
        let refuse = |needs: &str| {
            let space = format!("{space} with {dtype} actions");
            Err(Error::Space { who: "the sampler".into(), needs: needs.into(), space })
        };
        match space {
            Space::Discrete { .. } | Space::MultiDiscrete { .. } | Space::MultiBinary { .. } => {
                let as_bytes = dtype == DType::U8 && matches!(space, Space::MultiBinary { .. });
                if dtype != DType::I64 && !as_bytes {
                    return refuse("discrete actions of type i64 (`type Act = i64`)");
                }
                let (start, sizes) = match space {
                    Space::Discrete { n, start } => (vec![*start], vec![*n as usize]),
                    Space::MultiDiscrete { nvec, start } => {
                        (start.clone(), nvec.iter().map(|&n| n as usize).collect())
                    }
                    other => (vec![], vec![2; other.width()]),
                };
                let start = if start.iter().all(|&start| start == 0) { vec![] } else { start };
                let all = n * space.width();
                let bytes = vec![0; if as_bytes { all } else { 0 }];
                Ok(Self::Int { start, sizes, buffer: vec![0; all], bytes })
            }
            Space::Box { low, high, .. } => {
                let cast = CastActions::new(dtype, low, high, n);
                let low: Vec<f32> = low.iter().map(|&x| x as f32).collect();
                let high: Vec<f32> = high.iter().map(|&x| x as f32).collect();
                let bounded = low.iter().chain(&high).all(|x| x.is_finite());
                let has_bounds = low.iter().chain(&high).any(|x| x.is_finite());
                let how = match (common.normalize_actions, common.clip_actions) {
                    (true, _) if bounded => FloatActions::Unsquash,
                    // There is nothing to scale to, but the bounds that there are hold.
                    (true, _) if has_bounds => FloatActions::Clip,
                    (false, true) => FloatActions::Clip,
                    _ => FloatActions::Keep,
                };
                Ok(Self::Float { low, high, how, buffer: vec![0.0; n * space.width()], cast })
            }
            _ => refuse("a Discrete, MultiDiscrete, MultiBinary or Box action space"),
        }
    }

    /// Views stored actions, given as bytes, as the scalars that the policy writes.
    pub(crate) fn rows<'a>(&self, actions: &'a mut [u8]) -> ActionRows<'a> {
        match self {
            Self::Int { .. } => ActionRows::Int(bytemuck::cast_slice_mut(actions)),
            Self::Float { .. } => ActionRows::Float(bytemuck::cast_slice_mut(actions)),
        }
    }

    /// Draws random actions in the policy's form: for discrete actions one legal value of each choice, for continuous
    /// ones uniform numbers between the bounds, or standard normal ones where there are no bounds.
    pub(crate) fn draw(&self, actions: &mut [u8], mask: Option<&[bool]>, rngs: &mut [Stream]) {
        let width = actions.len() / rngs.len();
        for (copy, (row, rng)) in actions.chunks_exact_mut(width).zip(rngs).enumerate() {
            match self {
                Self::Int { sizes, .. } => {
                    let mut start = copy * sizes.iter().sum::<usize>();
                    for (action, &n) in bytemuck::cast_slice_mut(row).iter_mut().zip(sizes) {
                        *action = any(n, mask.map(|mask| &mask[start..][..n]), rng);
                        start += n;
                    }
                }
                Self::Float { low, high, how, .. } => {
                    let row: &mut [f32] = bytemuck::cast_slice_mut(row);
                    for ((action, &low), &high) in row.iter_mut().zip(low).zip(high) {
                        *action = match how {
                            FloatActions::Unsquash => 2.0 * rng.uniform() - 1.0,
                            _ if low.is_finite() && high.is_finite() => low + (high - low) * rng.uniform(),
                            _ => rng.normal(),
                        };
                    }
                }
            }
        }
    }

    /// Converts stored actions, given as bytes, to the environment's form.
    pub(crate) fn apply<'a>(&'a mut self, actions: &'a mut [u8]) -> &'a [u8] {
        match self {
            Self::Int { bytes, .. } if !bytes.is_empty() => {
                let bits: &[i64] = bytemuck::cast_slice(actions);
                bytes.iter_mut().zip(bits).for_each(|(byte, &bit)| *byte = u8::from(bit != 0));
                bytes
            }
            Self::Int { start, .. } if start.is_empty() => actions,
            Self::Int { start, buffer, .. } => {
                buffer.copy_from_slice(bytemuck::cast_slice(actions));
                add_starts(buffer, start);
                bytemuck::cast_slice(buffer)
            }
            Self::Float { how: FloatActions::Keep, cast: None, .. } => actions,
            Self::Float { low, high, how, buffer, cast } => {
                buffer.copy_from_slice(bytemuck::cast_slice(actions));
                how.apply(buffer, low, high);
                match cast {
                    Some(cast) => cast.apply(buffer, *how != FloatActions::Keep),
                    None => bytemuck::cast_slice(buffer),
                }
            }
        }
    }

    /// Converts one action of `space`, the environment's action space, to the policy's form; both are bytes. Fails with a
    /// sentence if it is no action of the space. A number outside of its bounds is taken where the policy's own are clipped.
    pub(crate) fn inverse(&self, space: &Space, action: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let wrong = |why: String| format!("the action is not of the space {space}: {why}");
        if action.len() != space.width() * space.dtype().size() {
            let found = action.len() / space.dtype().size();
            return Err(wrong(format!("it has {found} numbers, but it must have {}", space.width())));
        }
        match self {
            Self::Int { start, .. } => {
                let mut action: Vec<i64> = match space.dtype() {
                    DType::U8 => action.iter().map(|&bit| i64::from(bit)).collect(),
                    _ => action.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect(),
                };
                if let Some(why) = space.violation(&action) {
                    return Err(wrong(why));
                }
                action.iter_mut().zip(start.iter().cycle()).for_each(|(action, start)| *action -= start);
                Ok(bytemuck::cast_slice(&action).to_vec())
            }
            Self::Float { low, high, how, .. } => {
                let mut action = as_f32(space.dtype(), action);
                if let Some(at) = action.iter().position(|x| !x.is_finite()) {
                    return Err(wrong(format!("number {at} is {}, but it must be finite", action[at])));
                }
                if *how == FloatActions::Unsquash {
                    if let Some(why) = space.violation(&action) {
                        return Err(wrong(why));
                    }
                    for ((action, &low), &high) in action.iter_mut().zip(low).zip(high) {
                        *action = normalize(*action, low, high);
                    }
                }
                Ok(bytemuck::cast_slice(&action).to_vec())
            }
        }
    }

    /// Converts the policy's actions to the environment's form in place; they may be those of any number of rows.
    pub(crate) fn convert(&self, actions: ActionRows<'_>) {
        match (self, actions) {
            (Self::Int { start, .. }, ActionRows::Int(actions)) => add_starts(actions, start),
            (Self::Float { low, high, how, .. }, ActionRows::Float(actions)) => how.apply(actions, low, high),
            // A policy refuses to write actions of another kind.
            _ => {}
        }
    }
}

/// Adds the first value of each choice.
fn add_starts(actions: &mut [i64], start: &[i64]) {
    actions.iter_mut().zip(start.iter().cycle()).for_each(|(action, start)| *action += start);
}

impl FloatActions {
    /// Converts rows of actions, each as wide as the bounds.
    fn apply(self, actions: &mut [f32], low: &[f32], high: &[f32]) {
        if self == Self::Keep {
            return;
        }
        for row in actions.chunks_exact_mut(low.len().max(1)) {
            for ((action, &low), &high) in row.iter_mut().zip(low).zip(high) {
                if self == Self::Unsquash {
                    *action = unsquash(*action, low, high);
                }
                *action = action.clamp(low, high);
            }
        }
    }
}

/// Scales an action in [-1, 1] to the range from `low` to `high`, and clips it to the range (Ray's `unsquash_action`).
pub fn unsquash(action: f32, low: f32, high: f32) -> f32 {
    (low + (action + 1.0) * (high - low) / 2.0).clamp(low, high)
}

/// Scales an action in the range from `low` to `high` to [-1, 1], the inverse of [`unsquash`] (Ray's
/// `normalize_action`).
pub fn normalize(action: f32, low: f32, high: f32) -> f32 {
    (action - low) * 2.0 / (high - low) - 1.0
}
