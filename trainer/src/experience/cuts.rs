//! What a batch knows of its trajectories: which of its rows follow each other, and what stands behind those that were cut.

use crate::base::{Error, Result};
use crate::experience::batch::{Cuts, SampleBatch};
use crate::experience::trajectories;
use crate::experience::trajectories::Trajectory;

impl SampleBatch {
    /// Says which rows follow each other. `behind` has a row for each piece that was cut, in their order: what the policy
    /// saw there, under the names that rows have.
    ///
    /// # Panics
    /// Panics if the pieces do not cover the rows one after the other, or `behind` has another number of rows.
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

    /// What stands behind each trajectory that was cut, a row for each in their order.
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
