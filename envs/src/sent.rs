//! What `send` was given, kept until `recv`.

use crate::{Element, Error, Result};

/// Actions and reset seeds of a step that was sent; room is made once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent<A> {
    actions: Vec<A>,
    seeds: Vec<u64>,
    seeded: bool,
    waiting: bool,
}

impl<A: Element> Sent<A> {
    /// For `num_envs` copies and `scalars` scalars of actions.
    pub(crate) fn new(num_envs: usize, scalars: usize) -> Self {
        Self {
            actions: Vec::with_capacity(scalars),
            seeds: Vec::with_capacity(num_envs),
            seeded: false,
            waiting: false,
        }
    }

    pub(crate) fn keep(&mut self, actions: &[A], reset_seeds: Option<&[u64]>) {
        self.actions.clear();
        self.actions.extend_from_slice(actions);
        self.seeds.clear();
        self.seeds.extend_from_slice(reset_seeds.unwrap_or_default());
        self.seeded = reset_seeds.is_some();
        self.waiting = true;
    }

    pub(crate) fn actions(&self) -> &[A] {
        &self.actions
    }

    pub(crate) fn reset_seeds(&self) -> Option<&[u64]> {
        self.seeded.then_some(&self.seeds)
    }

    /// For `reset`: what was sent before it is not stepped any more.
    pub(crate) fn forget(&mut self) {
        self.waiting = false;
    }

    /// For `send`, `step` and `save_state`.
    pub(crate) fn check_received(&self, call: &str) -> Result<()> {
        if self.waiting { Err(Error::not_received(call)) } else { Ok(()) }
    }

    /// For `recv`: a step was sent, and is waited for no longer.
    pub(crate) fn receive(&mut self) -> Result<()> {
        if std::mem::take(&mut self.waiting) { Ok(()) } else { Err(Error::not_sent()) }
    }
}
