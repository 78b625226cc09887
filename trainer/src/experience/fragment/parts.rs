//! What a fragment has where the settings or the policy ask for it, and numbers for all that it observed.

use tch::Tensor;

/// What a policy remembered in a [`Fragment`](crate::experience::fragment::Fragment).
#[derive(Clone, Copy, Debug)]
pub struct FragmentMemory<'a> {
    /// Rows of a sequence. The last one of a copy is shorter where T is no multiple of it.
    pub max_seq_len: usize,
    /// What was remembered at the first row of every sequence, `[ceil(T / max_seq_len), N, width]`.
    pub rows: &'a Tensor,
    /// Whether an episode begins with the row, `[T * N]`.
    pub resets: &'a [bool],
    /// What was remembered behind the last step of every episode that ended, `[ended, width]`.
    pub behind: &'a [f32],
    /// What was remembered behind the last step of the fragment, `[N, width]`.
    pub next: &'a [f32],
}

/// Which actions were legal at every observation of a [`Fragment`](crate::experience::fragment::Fragment), bool.
#[derive(Clone, Copy, Debug)]
pub struct FragmentMasks<'a> {
    /// Flags at the rows of [`Fragment::obs`](crate::experience::fragment::Fragment::obs), `[T + 1, N, options]`.
    pub rows: &'a Tensor,
    /// Flags at the last observation of every episode that ended, `[ended, options]`.
    pub behind: &'a Tensor,
}

/// One number for every observation of a fragment.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) copies: usize,
    pub(crate) lengths: Option<Vec<usize>>,
    /// Time-major `[(T + 1) * N]`.
    pub(crate) at_rows: Vec<f32>,
    /// At the observations at which episodes ended.
    pub(crate) at_ends: Vec<f32>,
}

impl Values {
    /// The values of the observations that were acted on, ordered as [`Fragment::rows`](crate::experience::fragment::Fragment::rows).
    pub fn rows(&self) -> Vec<f32> {
        let steps = self.at_rows.len() / self.copies - 1;
        let length = |copy: usize| self.lengths.as_ref().map_or(steps, |lengths| lengths[copy]);
        let of_copy = |copy| (0..length(copy)).map(move |t| self.at_rows[t * self.copies + copy]);
        (0..self.copies).flat_map(of_copy).collect()
    }
}
