//! Random seeds and actions for the checks of vector environments, and aligned byte buffers.

use super::STEPS;
use crate::{
    AnyVectorEnv, DType, Element, NpRandom, Space,
    contract::{element::with_scalar, space::start_at},
};

/// A byte buffer aligned for every scalar type.
#[derive(Clone, Debug)]
pub(crate) struct AlignedRows {
    words: Vec<u64>,
    len: usize,
}

impl AlignedRows {
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(8)], len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// The seeds and actions of one run.
pub(crate) struct Inputs {
    pub(crate) seeds: Vec<u64>,
    pub(crate) actions: Vec<AlignedRows>,
    /// Seeds of the episodes that autoreset starts, by step and copy.
    pub(crate) reset_seeds: Vec<Vec<u64>>,
    /// Number of bytes of one copy's action.
    pub(super) act_row: usize,
}

impl Inputs {
    pub(crate) fn draw(env: &dyn AnyVectorEnv) -> Self {
        let n = env.num_envs();
        let space = env.action_space();
        let act_row = space.width() * env.act_dtype().size();
        let mut random = NpRandom::new(0);
        let mut seeds = || (0..n).map(|_| random.next_u64() >> 1).collect::<Vec<_>>();
        let first = seeds();
        let reset_seeds = (0..STEPS).map(|_| seeds()).collect();
        let mut row = vec![0.0; space.width()];
        let mut actions = vec![AlignedRows::new(n * act_row); STEPS];
        for action in actions.iter_mut().flat_map(|rows| rows.bytes_mut().chunks_exact_mut(act_row)) {
            space.sample(&mut random, &mut row);
            write(env.act_dtype(), &row, action);
        }
        Self { seeds: first, actions, reset_seeds, act_row }
    }

    /// Returns the inputs rotated by one copy: copy `i + 1` gets the seeds and actions of copy `i`.
    pub(super) fn turned(&self) -> Self {
        let turn = |seeds: &Vec<u64>| {
            let mut seeds = seeds.clone();
            seeds.rotate_right(1);
            seeds
        };
        let mut actions = self.actions.clone();
        actions.iter_mut().for_each(|rows| rows.bytes_mut().rotate_right(self.act_row));
        Self {
            seeds: turn(&self.seeds),
            actions,
            reset_seeds: self.reset_seeds.iter().map(turn).collect(),
            act_row: self.act_row,
        }
    }
}

/// Returns the action masks in a slice sized for `copies` copies; `None` without masks or with more than 2^20 flags.
pub(super) fn action_masks(env: &dyn AnyVectorEnv, copies: usize) -> Option<Vec<bool>> {
    const MAX_FLAGS: usize = 1 << 20;
    let flags = env.action_space().flat_width().saturating_mul(copies);
    if flags > MAX_FLAGS {
        return None;
    }
    let mut masks = vec![false; flags];
    env.action_masks(&mut masks).then_some(masks)
}

/// Returns `actions` with each illegal action replaced by the next legal one; `None` without masks.
pub(crate) fn legal(env: &dyn AnyVectorEnv, actions: &[u8]) -> Option<AlignedRows> {
    let &Space::Discrete { n, start } = env.action_space() else { return None };
    let n = n as usize;
    let dtype = env.act_dtype();
    let masks = action_masks(env, env.num_envs())?;
    let mut rows = AlignedRows::new(actions.len());
    rows.bytes_mut().copy_from_slice(actions);
    for (action, mask) in rows.bytes_mut().chunks_exact_mut(dtype.size()).zip(masks.chunks_exact(n)) {
        let given = read(dtype, action)[0] - start as f64;
        // Actions outside the space stay as they are: other code must reject them.
        if (0.0..n as f64).contains(&given) {
            let next = (0..n).map(|i| (given as usize + i) % n).find(|&i| mask[i]);
            if let Some(next) = next {
                write(dtype, &[(start + next as i64) as f64], action);
            }
        }
    }
    Some(rows)
}

/// Returns an action outside the space that every environment must reject; `None` for spaces that are not tested.
pub(super) fn invalid_action(space: &Space) -> Option<Vec<f64>> {
    match space {
        Space::Box { dtype, .. } => dtype.is_float().then(|| vec![f64::NAN; space.width()]),
        Space::Discrete { n, start } => Some(vec![(start + n) as f64]),
        Space::MultiDiscrete { nvec, start } => {
            Some(nvec.iter().enumerate().map(|(i, &n)| (start_at(start, i) + n) as f64).collect())
        }
        Space::MultiBinary { .. } => Some(vec![2.0; space.width()]),
        Space::Dict(_) | Space::Tuple(_) => None,
    }
}

pub(super) fn read(dtype: DType, row: &[u8]) -> Vec<f64> {
    with_scalar!(dtype, T => {
        let scalars = row.chunks_exact(size_of::<T>());
        scalars.map(|scalar| bytemuck::pod_read_unaligned::<T>(scalar).to_f64()).collect()
    })
}

pub(super) fn write(dtype: DType, values: &[f64], row: &mut [u8]) {
    with_scalar!(dtype, T => {
        for (out, &value) in row.chunks_exact_mut(size_of::<T>()).zip(values) {
            out.copy_from_slice(bytemuck::bytes_of(&T::from_f64(value)));
        }
    })
}
