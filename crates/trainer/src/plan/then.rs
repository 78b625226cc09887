//! `then`: passes every item of a plan through a step.

use pavlov_learn::base::Result;

/// The iterator that [`PlanExt::then`](crate::plan::PlanExt::then) returns.
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Then<I, F> {
    base: I,
    step: F,
}

impl<I, F> Then<I, F> {
    pub(super) fn new(base: I, step: F) -> Self {
        Self { base, step }
    }
}

impl<I: std::fmt::Debug, F> std::fmt::Debug for Then<I, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Then").field("base", &self.base).finish_non_exhaustive()
    }
}

impl<T, U, I, F> Iterator for Then<I, F>
where
    I: Iterator<Item = Result<T>>,
    F: FnMut(T) -> Result<U>,
{
    type Item = Result<U>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.base.next()?.and_then(&mut self.step))
    }
}
