//! A dynamic tree: a balanced binary tree of bounding boxes with the fixtures as leaves.

use serde::{Deserialize, Serialize};

use super::math::{Aabb, Vec2, abs, cross_of, dot, lower, upper};

/// Index that stands for no node.
pub(super) const NONE: usize = usize::MAX;
/// Margin of a leaf's box around its fixture, in meters, so that small motions leave the tree unchanged.
const EXTENSION: Vec2 = Vec2::new(0.1, 0.1);
/// Factor by which a leaf's box is extended along the displacement of the last step.
const MULTIPLIER: f32 = 2.0;
const FIRST_CAPACITY: usize = 16;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) aabb: Aabb,
    /// Fixture of a leaf; `NONE` in inner nodes.
    pub(super) fixture: usize,
    /// Parent of the node; for a free node, the next free node.
    pub(super) parent: usize,
    /// First child; `NONE` in leaves.
    pub(super) child1: usize,
    pub(super) child2: usize,
    /// Height of the subtree: 0 in leaves, -1 in free nodes.
    pub(super) height: i32,
}

impl Node {
    fn free(next: usize) -> Self {
        Self { aabb: Aabb::default(), fixture: NONE, parent: next, child1: NONE, child2: NONE, height: -1 }
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.child1 == NONE
    }
}

/// A tree of bounding boxes; a leaf keeps its node index until it is destroyed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DynamicTree {
    pub(super) root: usize,
    /// All nodes, including free ones.
    pub(super) nodes: Vec<Node>,
    /// First node of the list of free nodes.
    pub(super) free: usize,
}

impl DynamicTree {
    pub(super) fn new() -> Self {
        let mut tree = Self { root: NONE, nodes: Vec::new(), free: NONE };
        tree.grow(FIRST_CAPACITY);
        tree
    }

    /// Resets to a new tree.
    pub(super) fn clear(&mut self) {
        self.root = NONE;
        self.nodes.clear();
        self.grow(FIRST_CAPACITY);
    }

    fn grow(&mut self, capacity: usize) {
        self.free = self.nodes.len();
        for i in self.nodes.len()..capacity {
            self.nodes.push(Node::free(if i + 1 < capacity { i + 1 } else { NONE }));
        }
    }

    fn allocate_node(&mut self) -> usize {
        if self.free == NONE {
            self.grow(2 * self.nodes.len());
        }
        let node = self.free;
        self.free = self.nodes[node].parent;
        self.nodes[node] = Node { height: 0, ..Node::free(NONE) };
        node
    }

    fn free_node(&mut self, node: usize) {
        self.nodes[node].parent = self.free;
        self.nodes[node].height = -1;
        self.free = node;
    }

    pub(super) fn create_proxy(&mut self, aabb: &Aabb, fixture: usize) -> usize {
        let proxy = self.allocate_node();
        self.nodes[proxy].aabb = Aabb { lower: aabb.lower - EXTENSION, upper: aabb.upper + EXTENSION };
        self.nodes[proxy].fixture = fixture;
        self.insert_leaf(proxy);
        proxy
    }

    pub(super) fn destroy_proxy(&mut self, proxy: usize) {
        self.remove_leaf(proxy);
        self.free_node(proxy);
    }

    /// Updates the box of a leaf; returns whether the leaf was reinserted.
    pub(super) fn move_proxy(&mut self, proxy: usize, aabb: &Aabb, displacement: Vec2) -> bool {
        if self.nodes[proxy].aabb.contains(aabb) {
            return false;
        }
        self.remove_leaf(proxy);
        let mut fat = Aabb { lower: aabb.lower - EXTENSION, upper: aabb.upper + EXTENSION };
        let d = MULTIPLIER * displacement;
        if d.x < 0.0 {
            fat.lower.x += d.x;
        } else {
            fat.upper.x += d.x;
        }
        if d.y < 0.0 {
            fat.lower.y += d.y;
        } else {
            fat.upper.y += d.y;
        }
        self.nodes[proxy].aabb = fat;
        self.insert_leaf(proxy);
        true
    }

    /// Cost of inserting a leaf below `child`, without the cost in the ancestors.
    fn cost_below(&self, child: usize, leaf: &Aabb) -> f32 {
        let node = &self.nodes[child];
        let combined = leaf.combine(&node.aabb).perimeter();
        if node.is_leaf() { combined } else { combined - node.aabb.perimeter() }
    }

    fn insert_leaf(&mut self, leaf: usize) {
        if self.root == NONE {
            self.root = leaf;
            self.nodes[leaf].parent = NONE;
            return;
        }
        let leaf_aabb = self.nodes[leaf].aabb;
        let mut index = self.root;
        while !self.nodes[index].is_leaf() {
            let Node { child1, child2, aabb, .. } = self.nodes[index];
            let area = aabb.perimeter();
            let combined_area = aabb.combine(&leaf_aabb).perimeter();
            let cost = 2.0 * combined_area;
            let inheritance_cost = 2.0 * (combined_area - area);
            let cost1 = self.cost_below(child1, &leaf_aabb) + inheritance_cost;
            let cost2 = self.cost_below(child2, &leaf_aabb) + inheritance_cost;
            if cost < cost1 && cost < cost2 {
                break;
            }
            index = if cost1 < cost2 { child1 } else { child2 };
        }
        let sibling = index;
        let old_parent = self.nodes[sibling].parent;
        let new_parent = self.allocate_node();
        self.nodes[new_parent] = Node {
            aabb: leaf_aabb.combine(&self.nodes[sibling].aabb),
            fixture: NONE,
            parent: old_parent,
            child1: sibling,
            child2: leaf,
            height: self.nodes[sibling].height + 1,
        };
        self.replace_child(old_parent, sibling, new_parent);
        self.nodes[sibling].parent = new_parent;
        self.nodes[leaf].parent = new_parent;
        self.refit(new_parent);
    }

    fn remove_leaf(&mut self, leaf: usize) {
        if leaf == self.root {
            self.root = NONE;
            return;
        }
        let Node { parent: grand_parent, child1, child2, .. } = self.nodes[self.nodes[leaf].parent];
        let parent = self.nodes[leaf].parent;
        let sibling = if child1 == leaf { child2 } else { child1 };
        self.replace_child(grand_parent, parent, sibling);
        self.nodes[sibling].parent = grand_parent;
        self.free_node(parent);
        self.refit(grand_parent);
    }

    /// Replaces the child `old` of `parent` by `new`; without a parent, `new` becomes the root.
    fn replace_child(&mut self, parent: usize, old: usize, new: usize) {
        if parent == NONE {
            self.root = new;
        } else if self.nodes[parent].child1 == old {
            self.nodes[parent].child1 = new;
        } else {
            self.nodes[parent].child2 = new;
        }
    }

    /// Balances the nodes from `index` up to the root and updates their heights and boxes.
    fn refit(&mut self, mut index: usize) {
        while index != NONE {
            index = self.balance(index);
            let Node { child1, child2, .. } = self.nodes[index];
            self.fit(index, child1, child2);
            index = self.nodes[index].parent;
        }
    }

    fn fit(&mut self, parent: usize, child1: usize, child2: usize) {
        let first = self.nodes[child1];
        let second = self.nodes[child2];
        self.nodes[parent].aabb = first.aabb.combine(&second.aabb);
        self.nodes[parent].height = 1 + first.height.max(second.height);
    }

    /// Rotates the subtree at `a` if it is unbalanced; returns its new root.
    fn balance(&mut self, a: usize) -> usize {
        if self.nodes[a].is_leaf() || self.nodes[a].height < 2 {
            return a;
        }
        let Node { child1: b, child2: c, .. } = self.nodes[a];
        let balance = self.nodes[c].height - self.nodes[b].height;
        if balance > 1 {
            let (higher, lower) = self.rotate_up(a, c);
            self.nodes[c].child2 = higher;
            self.nodes[a].child2 = lower;
            self.nodes[lower].parent = a;
            self.fit(a, b, lower);
            self.fit(c, a, higher);
            c
        } else if balance < -1 {
            let (higher, lower) = self.rotate_up(a, b);
            self.nodes[b].child2 = higher;
            self.nodes[a].child1 = lower;
            self.nodes[lower].parent = a;
            self.fit(a, c, lower);
            self.fit(b, a, higher);
            b
        } else {
            a
        }
    }

    /// Rotates `a` below its child `up`; returns the former children of `up`, the higher one first.
    fn rotate_up(&mut self, a: usize, up: usize) -> (usize, usize) {
        let Node { child1, child2, .. } = self.nodes[up];
        let parent = self.nodes[a].parent;
        self.nodes[up].child1 = a;
        self.nodes[up].parent = parent;
        self.nodes[a].parent = up;
        self.replace_child(parent, a, up);
        if self.nodes[child1].height > self.nodes[child2].height {
            (child1, child2)
        } else {
            (child2, child1)
        }
    }

    /// Calls `found` with every leaf whose box overlaps `aabb`.
    pub(super) fn query(&self, aabb: &Aabb, stack: &mut Vec<usize>, mut found: impl FnMut(usize)) {
        stack.clear();
        stack.push(self.root);
        while let Some(index) = stack.pop() {
            if index == NONE {
                continue;
            }
            let node = &self.nodes[index];
            if node.aabb.overlaps(aabb) {
                if node.is_leaf() {
                    found(index);
                } else {
                    stack.push(node.child1);
                    stack.push(node.child2);
                }
            }
        }
    }

    /// Calls `hit` with each fixture near the ray from `p1` to `p2` and the current maximum fraction. `hit` returns the
    /// new maximum; 0 ends the search, and a negative number keeps the maximum.
    pub(super) fn ray_cast(
        &self,
        p1: Vec2,
        p2: Vec2,
        stack: &mut Vec<usize>,
        mut hit: impl FnMut(usize, f32) -> f32,
    ) {
        let mut r = p2 - p1;
        r.normalize();
        let v = cross_of(1.0, r);
        let abs_v = Vec2::new(abs(v.x), abs(v.y));
        let mut max_fraction = 1.0;
        let segment = |fraction: f32| {
            let t = p1 + fraction * (p2 - p1);
            Aabb { lower: lower(p1, t), upper: upper(p1, t) }
        };
        let mut segment_aabb = segment(max_fraction);
        stack.clear();
        stack.push(self.root);
        while let Some(index) = stack.pop() {
            if index == NONE {
                continue;
            }
            let node = &self.nodes[index];
            if !node.aabb.overlaps(&segment_aabb) {
                continue;
            }
            let center = 0.5 * (node.aabb.lower + node.aabb.upper);
            let extents = 0.5 * (node.aabb.upper - node.aabb.lower);
            if abs(dot(v, p1 - center)) - dot(abs_v, extents) > 0.0 {
                continue;
            }
            if !node.is_leaf() {
                stack.push(node.child1);
                stack.push(node.child2);
                continue;
            }
            let value = hit(node.fixture, max_fraction);
            if value == 0.0 {
                return;
            }
            if value > 0.0 {
                max_fraction = value;
                segment_aabb = segment(max_fraction);
            }
        }
    }
}
