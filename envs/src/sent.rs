//! What `send` was given, kept until `recv`.

use crate::Element;

/// Actions and reset seeds of a step that was sent; room is made once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent<A> {
    actions: Vec<A>,
    seeds: Vec<u64>,
    seeded: bool,
    in_flight: bool,
}

impl<A: Element> Sent<A> {
    /// For `num_envs` copies and `scalars` scalars of actions.
    pub(crate) fn new(num_envs: usize, scalars: usize) -> Self {
        Self {
            actions: Vec::with_capacity(scalars),
            seeds: Vec::with_capacity(num_envs),
            seeded: false,
            in_flight: false,
        }
    }

    pub(crate) fn keep(&mut self, actions: &[A], reset_seeds: Option<&[u64]>) {
        self.actions.clear();
        self.actions.extend_from_slice(actions);
        self.seeds.clear();
        self.seeds.extend_from_slice(reset_seeds.unwrap_or_default());
        self.seeded = reset_seeds.is_some();
        self.in_flight = true;
    }

    pub(crate) fn actions(&self) -> &[A] {
        &self.actions
    }

    pub(crate) fn reset_seeds(&self) -> Option<&[u64]> {
        self.seeded.then_some(&self.seeds)
    }

    /// For `recv`, and for `reset`: what was sent before it is not stepped any more.
    pub(crate) fn forget(&mut self) {
        self.in_flight = false;
    }

    /// Whether a step was sent and not received.
    pub(crate) fn in_flight(&self) -> bool {
        self.in_flight
    }
}
