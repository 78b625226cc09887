//! The loop over the copies of a vector environment.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result};

/// A copy with a running episode.
pub(crate) trait InEpisode {
    /// Returns the seed of the episode and the number of steps made in it.
    fn place(&self) -> (Option<u64>, usize);
}

/// Runs `work` on one copy after the other. An error or panic is reported with the copy's index, seed and step.
pub(crate) fn for_each_copy<C: InEpisode>(
    copies: &mut [C],
    mut work: impl FnMut(usize, &mut C) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    let done = catch_unwind(AssertUnwindSafe(|| {
        copies.iter_mut().enumerate().try_for_each(|(i, copy)| {
            at = i;
            work(i, copy)
        })
    }));
    let error = match done {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(payload) => Error::panic(&*payload),
    };
    let (seed, step) = copies[at].place();
    Err(Error::Env { env: at, seed, step, source: Box::new(error) })
}
