//! What stands between environment and policy: raw observations to stored rows, a policy's actions to what the
//! environment takes.

use crate::base::{Error, Result, Stream};
use crate::learn::distributions::ActionRows;
use crate::settings::{Common, any};
use pavlov_envs::{DType, Space};

/// Raw rows of the environment to rows as they are stored: the same, or flattened to f32.
#[derive(Debug)]
pub(crate) struct EnvToPolicy {
    space: Space,
    /// The environment may write stored rows itself.
    pub(crate) direct: bool,
    /// Bytes of one raw row.
    pub(crate) raw_bytes: usize,
}

impl EnvToPolicy {
    /// From rows of `space` to rows of `stored`.
    pub(crate) fn new(space: &Space, stored: &Space) -> Self {
        let boxes = matches!((space, stored), (Space::Box { .. }, Space::Box { .. }));
        Self {
            direct: space == stored || boxes && space.dtype() == stored.dtype(),
            raw_bytes: space.width() * space.dtype().size(),
            space: space.clone(),
        }
    }

    pub(crate) fn buffer(&self, n: usize) -> Vec<u64> {
        // Eight-byte scalars, so that the bytes are aligned for whatever the environment writes.
        if self.direct { Vec::new() } else { vec![0; (n * self.raw_bytes).div_ceil(8)] }
    }

    /// Raw rows to stored rows.
    pub(crate) fn apply(&self, raw: &[u8], out: &mut [u8]) -> Result<()> {
        if self.direct {
            out.copy_from_slice(raw);
            return Ok(());
        }
        Ok(self.space.flatten_into(raw, bytemuck::cast_slice_mut(out))?)
    }
}

/// The policy's actions to the environment's.
#[derive(Debug)]
pub(crate) enum PolicyToEnv {
    /// Discrete: the space's first value is added. `sizes` are the actions of each choice.
    Int { start: i64, sizes: Vec<usize>, buffer: Vec<i64> },
    /// Continuous: stretched from [-1, 1] to the bounds, or clipped to them, or left alone.
    Float { low: Vec<f32>, high: Vec<f32>, how: FloatActions, buffer: Vec<f32> },
}

/// What happens to continuous actions on their way to the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatActions {
    Unsquash,
    Clip,
    Keep,
}

impl PolicyToEnv {
    /// For `n` copies whose actions are scalars of `dtype`.
    pub(crate) fn new(space: &Space, dtype: DType, n: usize, common: &Common) -> Result<Self> {
        let refuse = |needs: &str| {
            let space = format!("{space} with {dtype} actions");
            Err(Error::Space { who: "the sampler".into(), needs: needs.into(), space })
        };
        match space {
            Space::Discrete { .. } | Space::MultiDiscrete { .. } | Space::MultiBinary { .. } => {
                if dtype != DType::I64 {
                    return refuse("discrete actions of type i64 (`type Act = i64`)");
                }
                let (start, sizes) = match space {
                    Space::Discrete { n, start } => (*start, vec![*n as usize]),
                    Space::MultiDiscrete { nvec } => (0, nvec.iter().map(|&n| n as usize).collect()),
                    other => (0, vec![2; other.width()]),
                };
                Ok(Self::Int { start, sizes, buffer: vec![0; n * space.width()] })
            }
            Space::Box { low, high, .. } => {
                if dtype != DType::F32 {
                    return refuse("continuous actions of type f32 (`type Act = f32`)");
                }
                let (low, high): (Vec<f32>, Vec<f32>) =
                    (low.iter().map(|&x| x as f32).collect(), high.iter().map(|&x| x as f32).collect());
                let bounded = low.iter().chain(&high).all(|x| x.is_finite());
                let how = match (common.normalize_actions, common.clip_actions) {
                    (true, _) if bounded => FloatActions::Unsquash,
                    (false, true) => FloatActions::Clip,
                    _ => FloatActions::Keep,
                };
                Ok(Self::Float { low, high, how, buffer: vec![0.0; n * space.width()] })
            }
            _ => refuse("a Discrete, MultiDiscrete, MultiBinary or Box action space"),
        }
    }

    /// Stored actions as scalars, for a policy to write.
    pub(crate) fn rows<'a>(&self, actions: &'a mut [u8]) -> ActionRows<'a> {
        match self {
            Self::Int { .. } => ActionRows::Int(bytemuck::cast_slice_mut(actions)),
            Self::Float { .. } => ActionRows::Float(bytemuck::cast_slice_mut(actions)),
        }
    }

    /// Draws actions as a policy gives them: one of each choice, of the legal ones if there is a mask; between the
    /// bounds, or a standard normal number where there are none.
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

    /// The actions as the environment takes them.
    pub(crate) fn apply<'a>(&'a mut self, actions: &'a mut [u8]) -> &'a [u8] {
        match self {
            Self::Int { start: 0, .. } => actions,
            Self::Int { start, buffer, .. } => {
                let actions: &[i64] = bytemuck::cast_slice(actions);
                buffer.iter_mut().zip(actions).for_each(|(to, a)| *to = a + *start);
                bytemuck::cast_slice(buffer)
            }
            Self::Float { how: FloatActions::Keep, .. } => actions,
            Self::Float { low, high, how, buffer } => {
                let actions: &[f32] = bytemuck::cast_slice(actions);
                let width = low.len();
                for (row, to) in actions.chunks_exact(width).zip(buffer.chunks_exact_mut(width)) {
                    for i in 0..width {
                        let a = match how {
                            FloatActions::Unsquash => unsquash(row[i], low[i], high[i]),
                            _ => row[i],
                        };
                        to[i] = a.clamp(low[i], high[i]);
                    }
                }
                bytemuck::cast_slice(buffer)
            }
        }
    }
}

/// -1 to `low`, 1 to `high`, beyond them clipped (Ray's `unsquash_action`).
pub fn unsquash(action: f32, low: f32, high: f32) -> f32 {
    (low + (action + 1.0) * (high - low) / 2.0).clamp(low, high)
}

/// The inverse of [`unsquash`] inside the bounds (Ray's `normalize_action`).
pub fn normalize(action: f32, low: f32, high: f32) -> f32 {
    (action - low) * 2.0 / (high - low) - 1.0
}
