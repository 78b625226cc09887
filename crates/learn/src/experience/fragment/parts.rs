//! Optional parts of a fragment (recurrent states, action masks), and one number for each observation.

use crate::base::ArrayRef;

/// An environment copy before the first row of a [`Fragment`](crate::experience::fragment::Fragment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpisodeStart {
    /// Number of the copy among all copies of the run.
    pub env_id: u64,
    /// Number of steps of its running episode so far.
    pub steps: u64,
}

/// Recurrent states in a [`Fragment`](crate::experience::fragment::Fragment).
#[derive(Clone, Copy, Debug)]
pub struct FragmentMemory<'a> {
    /// Number of rows of a sequence. The last sequence of a copy is shorter if the number of steps is no multiple of it.
    pub max_seq_len: usize,
    /// Recurrent state before the first row of every sequence, `[ceil(T / max_seq_len), N, width]`.
    pub rows: ArrayRef<'a>,
    /// Whether an episode begins with the row, `[T * N]`.
    pub resets: &'a [bool],
    /// Recurrent state after the last step of every episode that ended, `[ended, width]`.
    pub behind: &'a [f32],
    /// Recurrent state of each copy after the last step of the fragment, `[N, width]`.
    pub next: &'a [f32],
}

/// Flags of the actions that were legal, for every observation of a [`Fragment`](crate::experience::fragment::Fragment).
#[derive(Clone, Copy, Debug)]
pub struct FragmentMasks<'a> {
    /// Flags for the observations [`Fragment::obs`](crate::experience::fragment::Fragment::obs), `[T + 1, N, options]` bool.
    pub rows: ArrayRef<'a>,
    /// Flags for the last observation of every episode that ended, `[ended, options]` bool.
    pub behind: ArrayRef<'a>,
}

/// One number for every observation of a fragment.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) copies: usize,
    pub(crate) lengths: Option<Vec<usize>>,
    /// One number for each observation of `Fragment::obs`, `[(T + 1) * N]`, time-major.
    pub(crate) at_rows: Vec<f32>,
    /// One number for the last observation of each episode that ended, in the order of `Fragment::ended`.
    pub(crate) at_ends: Vec<f32>,
}

impl Values {
    /// The numbers of the observations at which an action was taken, ordered as
    /// [`Fragment::rows`](crate::experience::fragment::Fragment::rows).
    pub fn rows(&self) -> Vec<f32> {
        let steps = self.at_rows.len() / self.copies - 1;
        let length = |copy: usize| self.lengths.as_ref().map_or(steps, |lengths| lengths[copy]);
        let of_copy = |copy| (0..length(copy)).map(move |t| self.at_rows[t * self.copies + copy]);
        (0..self.copies).flat_map(of_copy).collect()
    }
}
