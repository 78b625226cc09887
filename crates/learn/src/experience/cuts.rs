//! Methods of batches for trajectories: which rows follow each other, and the observations after those that were cut.

use crate::base::{Error, Result};
use crate::experience::batch::{Cuts, SampleBatch};
use crate::experience::trajectories;
use crate::experience::trajectories::Trajectory;

impl SampleBatch {
    /// Sets the trajectories of the rows. `behind` has one row for each trajectory that was cut, in order: the
    /// observation after the cut, in columns named as those of the batch.
    ///
    /// # Panics
    /// Panics if the trajectories do not cover the rows one after the other, or `behind` has not one row per cut.
    #[must_use]
    pub fn with_trajectories(mut self, pieces: Vec<Trajectory>, behind: Self) -> Self {
        let covered = pieces.iter().fold(0, |end, piece| {
            assert_eq!(piece.start, end, "a trajectory begins where the last one ended");
            piece.rows().end
        });
        assert_eq!(covered, self.rows(), "rows of all trajectories");
        assert_eq!(trajectories::cuts(&pieces), behind.rows(), "rows behind trajectories that were cut");
        self.cuts = Some(Box::new(Cuts { pieces, behind }));
        self
    }

    /// The trajectories of the batch: which of its rows follow each other.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the batch was made without trajectories, or single rows were selected since.
    pub fn trajectories(&self) -> Result<&[Trajectory]> {
        self.cuts().map(|cuts| cuts.pieces.as_slice())
    }

    /// The observations after cuts: a batch of one row for each trajectory that was cut, in order.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the batch was made without trajectories, or single rows were selected since.
    pub fn behind(&self) -> Result<&Self> {
        self.cuts().map(|cuts| &cuts.behind)
    }

    fn cuts(&self) -> Result<&Cuts> {
        self.cuts.as_deref().ok_or_else(|| {
            let reason = "it does not know which of its rows follow each other; make it by \
                          `Fragment::rows_with_trajectories`, and select no single rows of it";
            Error::state("a batch", reason)
        })
    }
}
