//! Statistics of a loss, joined over the pieces of a batch.

use crate::base::Result;
use crate::engines::backend::not_a_number;
use crate::engines::tape::Tape;
use crate::loss::{Reduction, Stat, explained};

/// A statistic over the rows that were computed so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    pub(super) name: &'static str,
    join: Reduction,
    /// The joined statistic in `sums[0]`; an explained variance is computed from all five sums.
    pub(super) sums: [f64; 5],
}

impl Joined {
    pub(super) fn none(stat: &Stat<'_>) -> Self {
        let first = match stat.join {
            Reduction::Mean | Reduction::ExplainedVariance => 0.0,
            Reduction::Min => f64::INFINITY,
            Reduction::Max => f64::NEG_INFINITY,
        };
        Self { name: stat.name, join: stat.join, sums: [first, 0.0, 0.0, 0.0, 0.0] }
    }

    /// Adds the statistic of further rows; `share` is their share of all rows of the batch.
    pub(super) fn add(&mut self, tape: &Tape, stat: &Stat<'_>, share: f64) -> Result<()> {
        let id = stat.of[0].id();
        match self.join {
            Reduction::Mean if tape.cols(id) > 0 => return Err(not_a_number(self.name, tape.cols(id))),
            Reduction::Mean => self.sums[0] += share * f64::from(tape.data(id)[0]),
            Reduction::Min => tape.numbers(id, |x| self.sums[0] = self.sums[0].min(f64::from(x))),
            Reduction::Max => tape.numbers(id, |x| self.sums[0] = self.sums[0].max(f64::from(x))),
            Reduction::ExplainedVariance => {
                let wanted = tape.data(id);
                let found = tape.data(stat.of[1].id());
                for (&w, &f) in wanted.iter().zip(found.iter()).take(tape.rows()) {
                    let (w, d) = (f64::from(w), f64::from(w) - f64::from(f));
                    let here = [1.0, w, w * w, d, d * d];
                    self.sums.iter_mut().zip(here).for_each(|(sum, x)| *sum += x);
                }
            }
        }
        Ok(())
    }

    pub(super) fn join(&mut self, other: &Self) {
        match self.join {
            Reduction::Min => self.sums[0] = self.sums[0].min(other.sums[0]),
            Reduction::Max => self.sums[0] = self.sums[0].max(other.sums[0]),
            Reduction::Mean | Reduction::ExplainedVariance => {
                self.sums.iter_mut().zip(other.sums).for_each(|(sum, x)| *sum += x);
            }
        }
    }

    pub(super) fn value(&self) -> f64 {
        if self.join == Reduction::ExplainedVariance { explained(self.sums) } else { self.sums[0] }
    }

    /// The name of the statistic, if it is not a number where it is not defined.
    pub(super) fn may_be_undefined(&self) -> Option<&'static str> {
        (self.join == Reduction::ExplainedVariance).then_some(self.name)
    }
}
