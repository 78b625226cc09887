//! The form of raw observations, how they reach the policy, and random ones to compare with.

use crate::sample::Inference;
use crate::sample::RunningStat;
use pavlov_envs::{DType, Element, NpRandom, Space};

/// Raw observations, and what is done with them before the policy sees them.
#[derive(Debug)]
pub(super) struct RawObservations<'a> {
    /// The environment's observation space.
    pub(super) space: &'a Space,
    /// Whether raw observations become flat rows of f32 for the policy.
    pub(super) is_flattened: bool,
    /// Mean and divisor of each component, if observations are filtered.
    pub(super) filter: Option<(Vec<f64>, Vec<f64>)>,
}

impl<'a> RawObservations<'a> {
    pub(super) fn of(desk: &'a Inference) -> Self {
        let boxes = matches!((&desk.space, &desk.stored), (Space::Box { .. }, Space::Box { .. }));
        let filter = desk.connector.filter.as_ref().map(|filter| statistics(filter.running()));
        let is_same = desk.space == desk.stored || (boxes && filter.is_none());
        Self { space: &desk.space, is_flattened: !is_same, filter }
    }

    /// Shape of one raw observation.
    pub(super) fn shape(&self) -> Vec<usize> {
        shape(self.space)
    }
}

/// Shape of one raw observation: composite ones are flat.
pub(super) fn shape(space: &Space) -> Vec<usize> {
    if matches!(space, Space::Box { .. }) { space.shape() } else { vec![space.width()] }
}

/// Mean and divisor of each component, as [`MeanStdFilter::apply`](crate::sample::MeanStdFilter::apply) computes them.
fn statistics(running: &RunningStat) -> (Vec<f64>, Vec<f64>) {
    let mean = running.mean().to_vec();
    let std = (0..mean.len()).map(|i| running.variance(i).sqrt() + 1e-6).collect();
    (mean, std)
}

/// Fills `rows` with random observations of the space.
pub(super) fn draw(space: &Space, random: &mut NpRandom, rows: &mut [u8]) {
    fn typed<T: Element>(space: &Space, random: &mut NpRandom, rows: &mut [u8]) {
        let rows: &mut [T] = bytemuck::cast_slice_mut(rows);
        rows.chunks_exact_mut(space.width()).for_each(|row| space.sample(random, row));
    }
    match space.dtype() {
        DType::U8 => typed::<u8>(space, random, rows),
        DType::I64 => typed::<i64>(space, random, rows),
        DType::F32 => typed::<f32>(space, random, rows),
        DType::F64 => typed::<f64>(space, random, rows),
    }
}

/// Returns the space with bounds beyond a million replaced by infinity: random draws then have a usual size.
pub(super) fn tame(space: &Space) -> Space {
    match space.clone() {
        Space::Box { low, high, shape, dtype } => {
            let free = |bound: f64| if bound.abs() > 1e6 { bound.signum() * f64::INFINITY } else { bound };
            let [low, high] = [low, high].map(|bounds| bounds.into_iter().map(free).collect());
            Space::Box { low, high, shape, dtype }
        }
        Space::Dict(parts) => {
            Space::Dict(parts.iter().map(|(name, part)| (name.clone(), tame(part))).collect())
        }
        Space::Tuple(parts) => Space::Tuple(parts.iter().map(tame).collect()),
        other => other,
    }
}
