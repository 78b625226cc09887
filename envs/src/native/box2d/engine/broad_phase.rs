//! Broad phase of collision detection: finds pairs of fixtures whose bounding boxes overlap.

use serde::{Deserialize, Serialize};

use super::{
    math::{Aabb, Vec2},
    tree::{DynamicTree, NONE},
};

/// The tree of bounding boxes, and the leaves that moved since the last [`update_pairs`](Self::update_pairs).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BroadPhase {
    pub(super) tree: DynamicTree,
    /// Leaves that moved; `NONE` for a destroyed leaf.
    pub(super) moved: Vec<usize>,
    #[serde(skip)]
    pairs: Vec<(usize, usize)>,
    #[serde(skip)]
    stack: Vec<usize>,
}

impl BroadPhase {
    pub(super) fn new() -> Self {
        Self { tree: DynamicTree::new(), moved: Vec::new(), pairs: Vec::new(), stack: Vec::new() }
    }

    /// Reserves memory for `fixtures` fixtures.
    pub(super) fn reserve(&mut self, fixtures: usize) {
        self.moved.reserve((2 * fixtures).saturating_sub(self.moved.len()));
        self.pairs.clear();
        self.pairs.reserve(8 * fixtures);
        self.stack.clear();
        self.stack.reserve(64);
    }

    /// Resets to the state of a new broad phase.
    pub(super) fn clear(&mut self) {
        self.tree.clear();
        self.moved.clear();
    }

    pub(super) fn create_proxy(&mut self, aabb: &Aabb, fixture: usize) -> usize {
        let proxy = self.tree.create_proxy(aabb, fixture);
        self.moved.push(proxy);
        proxy
    }

    pub(super) fn destroy_proxy(&mut self, proxy: usize) {
        for moved in &mut self.moved {
            if *moved == proxy {
                *moved = NONE;
            }
        }
        self.tree.destroy_proxy(proxy);
    }

    pub(super) fn move_proxy(&mut self, proxy: usize, aabb: &Aabb, displacement: Vec2) {
        if self.tree.move_proxy(proxy, aabb, displacement) {
            self.moved.push(proxy);
        }
    }

    pub(super) fn overlap(&self, a: usize, b: usize) -> bool {
        self.tree.nodes[a].aabb.overlaps(&self.tree.nodes[b].aabb)
    }

    /// Calls `add` once for each overlapping pair of fixtures of which one has moved, sorted by their leaves.
    pub(super) fn update_pairs(&mut self, mut add: impl FnMut(usize, usize)) {
        let Self { tree, moved, pairs, stack } = self;
        pairs.clear();
        for &proxy in moved.iter().filter(|&&proxy| proxy != NONE) {
            tree.query(&tree.nodes[proxy].aabb, stack, |other| {
                if other != proxy {
                    pairs.push((other.min(proxy), other.max(proxy)));
                }
            });
        }
        moved.clear();
        pairs.sort_unstable();
        pairs.dedup();
        for &(a, b) in &*pairs {
            add(tree.nodes[a].fixture, tree.nodes[b].fixture);
        }
    }

    /// Casts a ray; see [`DynamicTree::ray_cast`].
    pub(super) fn ray_cast(&mut self, p1: Vec2, p2: Vec2, hit: impl FnMut(usize, f32) -> f32) {
        self.tree.ray_cast(p1, p2, &mut self.stack, hit);
    }
}
