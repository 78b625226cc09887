//! Random members of spaces, drawn in Gymnasium's order.

use super::Space;
use crate::{DType, Element, NpRandom};

/// Draws as Gymnasium's `space.seed(seed)` and then `space.sample()` do: every part of a dict or tuple has its own random
/// stream, whose seed is drawn from the stream of the whole space.
///
/// ```
/// use pavlov_envs::{Space, SpaceSampler};
///
/// let mut sampler = SpaceSampler::new(&Space::discrete(5), 9);
/// let mut action = [0_i64];
/// sampler.sample(&mut action);
/// ```
#[derive(Clone, Debug)]
pub struct SpaceSampler {
    leaves: Vec<(Space, NpRandom)>,
}

impl Space {
    /// Draws a legal action by the mask of a discrete space; draws as [`sample`](Self::sample) for other spaces, or if the
    /// mask allows nothing.
    pub(crate) fn sample_legal<T: Element>(&self, mask: &[bool], random: &mut NpRandom, row: &mut [T]) {
        let legal = mask.iter().filter(|legal| **legal).count();
        match self {
            Self::Discrete { start, .. } if legal > 0 => {
                let chosen = random.integers(0, legal as i64) as usize;
                let index = mask.iter().enumerate().filter(|(_, legal)| **legal).nth(chosen);
                row[0] = T::from_f64((start + index.map_or(0, |(i, _)| i as i64)) as f64);
            }
            _ => self.sample(random, row),
        }
    }
}

impl SpaceSampler {
    /// Makes a sampler of `space`, seeded with `seed`.
    pub fn new(space: &Space, seed: u64) -> Self {
        let mut sampler = Self { leaves: vec![] };
        sampler.seed(space, seed);
        sampler
    }

    /// Draws a member from the parts' own random streams into `row`.
    ///
    /// # Panics
    /// Panics if `row` is not as wide as the space.
    pub fn sample<T: Element>(&mut self, row: &mut [T]) {
        let width: usize = self.leaves.iter().map(|(leaf, _)| leaf.width()).sum();
        assert_eq!(row.len(), width, "the row must be as wide as the space");
        let mut rest = row;
        for (leaf, random) in &mut self.leaves {
            let (head, tail) = rest.split_at_mut(leaf.width());
            leaf.sample_leaf(random, head);
            rest = tail;
        }
    }

    fn seed(&mut self, space: &Space, seed: u64) {
        let parts: Vec<&Space> = match space {
            Space::Dict(parts) => parts.iter().map(|(_, part)| part).collect(),
            Space::Tuple(parts) => parts.iter().collect(),
            leaf => return self.leaves.push((leaf.clone(), NpRandom::new(seed))),
        };
        let mut random = NpRandom::new(seed);
        let seeds: Vec<u64> = parts.iter().map(|_| random.integers(0, i64::from(i32::MAX)) as u64).collect();
        parts.iter().zip(seeds).for_each(|(part, seed)| self.seed(part, seed));
    }
}

impl Space {
    pub(super) fn sample_leaf<T: Element>(&self, random: &mut NpRandom, row: &mut [T]) {
        match self {
            Self::Box { low, high, dtype, .. } => sample_box(low, high, *dtype, random, row),
            Self::Discrete { n, start } => row[0] = T::from_f64((*start + random.integers(0, *n)) as f64),
            Self::MultiDiscrete { nvec, start } => {
                for (i, (out, &n)) in row.iter_mut().zip(nvec).enumerate() {
                    let start = super::start_at(start, i) as f64;
                    *out = T::from_f64((random.random() * n as f64).floor() + start);
                }
            }
            Self::MultiBinary { .. } => {
                // numpy cuts the bytes of a 32-bit draw from the low end and takes the top bit of each.
                for four in row.chunks_mut(4) {
                    let mut bits = random.next_u32();
                    for out in four {
                        *out = T::from_f64(f64::from((bits >> 7) & 1));
                        bits >>= 8;
                    }
                }
            }
            Self::Dict(_) | Self::Tuple(_) => {}
        }
    }
}

/// Draws a member of a box: elements without bounds first, then those with one bound, then those with two.
fn sample_box<T: Element>(low: &[f64], high: &[f64], dtype: DType, random: &mut NpRandom, row: &mut [T]) {
    // Integer bounds are inclusive, so the real interval is longer by 1, and its draws are rounded down.
    let (extra, round): (f64, fn(f64) -> f64) =
        if dtype.is_float() { (0.0, |x| x) } else { (1.0, f64::floor) };
    for kind in 0..4 {
        for (i, out) in row.iter_mut().enumerate() {
            let low = in_dtype(dtype, low[i]);
            let high = in_dtype(dtype, high[i]) + extra;
            let of_kind = match (low.is_finite(), high.is_finite()) {
                (false, false) => 0,
                (true, false) => 1,
                (false, true) => 2,
                (true, true) => 3,
            };
            if kind == of_kind {
                *out = T::from_f64(round(match kind {
                    0 => random.normal(),
                    1 => random.exponential() + low,
                    2 => -random.exponential() + high,
                    _ => random.uniform(low, high),
                }));
            }
        }
    }
}

/// Rounds a bound to the scalar type of the box, in which Gymnasium stores it.
pub(super) fn in_dtype(dtype: DType, bound: f64) -> f64 {
    if dtype == DType::F32 { f64::from(bound as f32) } else { bound }
}
