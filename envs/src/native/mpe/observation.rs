//! Observations of particle agents, collected number by number.

use super::world::{Body, Point, minus, norm};

/// The observations of all agents, collected in one buffer that is reused.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub(super) numbers: Vec<f32>,
    /// Buffer for sorting: distance and observed point of each body.
    seen: Vec<(f64, Point)>,
}

impl Observation {
    pub(super) fn push(&mut self, numbers: &[f64]) {
        self.numbers.extend(numbers.iter().map(|&x| x as f32));
    }

    /// Adds the positions of `bodies` relative to `me`: all of them in order, or the `limit` nearest ones, nearest
    /// first, with zeros for missing ones.
    pub(super) fn places<'a>(
        &mut self,
        me: &Body,
        bodies: impl Iterator<Item = &'a Body>,
        limit: Option<usize>,
    ) {
        self.points(me, bodies, limit, |body| minus(body.position, me.position));
    }

    /// Adds one point for each of `bodies`, chosen and ordered as by [`places`](Self::places).
    pub(super) fn points<'a>(
        &mut self,
        me: &Body,
        bodies: impl Iterator<Item = &'a Body>,
        limit: Option<usize>,
        point: impl Fn(&Body) -> Point,
    ) {
        let Some(limit) = limit else {
            return bodies.for_each(|body| self.push(&point(body)));
        };
        self.seen.clear();
        self.seen.extend(bodies.map(|body| (norm(minus(body.position, me.position)), point(body))));
        self.seen.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let missing = limit.saturating_sub(self.seen.len());
        let seen = self.seen.iter().take(limit).flat_map(|(_, point)| *point);
        self.numbers.extend(seen.map(|x| x as f32));
        self.zeros(2 * missing);
    }

    pub(super) fn zeros(&mut self, n: usize) {
        self.numbers.resize(self.numbers.len() + n, 0.0);
    }

    /// Adds `n` numbers: 1 at `index`, 0 elsewhere.
    pub(super) fn one_hot(&mut self, index: usize, n: usize) {
        self.numbers.extend((0..n).map(|i| f32::from(u8::from(i == index))));
    }
}
