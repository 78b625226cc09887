//! The check of a world that was read from a saved state.

use super::{
    shape::{MAX_VERTICES, Shape},
    tree::{DynamicTree, NONE},
    world::World,
};
use crate::{Error, Result};

impl World {
    /// Checks that no index of a loaded world leads nowhere, so that steps neither panic nor hang.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the first problem.
    pub(in crate::native) fn check(&self) -> Result<()> {
        self.first_problem()
            .map_err(|problem| Error::state(format!("{problem}; it is damaged or of another version")))
    }

    fn first_problem(&self) -> Result<(), &'static str> {
        let is = |holds: bool, problem: &'static str| if holds { Ok(()) } else { Err(problem) };
        let is_body = |body: &usize| *body < self.bodies.len();
        let is_fixture = |fixture: &usize| *fixture < self.fixtures.len();
        let DynamicTree { root, nodes, free } = &self.broad_phase.tree;
        let is_leaf = |node: &usize| nodes.get(*node).is_some_and(|node| node.height == 0 && node.is_leaf());
        for (index, body) in self.bodies.iter().enumerate() {
            let fixtures = self.fixtures.get(body.fixtures.clone());
            let own = fixtures.is_some_and(|fixtures| fixtures.iter().all(|fixture| fixture.body == index));
            is(own, "a body has fixtures of others")?;
        }
        for (index, fixture) in self.fixtures.iter().enumerate() {
            is(is_body(&fixture.body), "a fixture has no body")?;
            is(is_leaf(&fixture.proxy), "a fixture has no box")?;
            is(nodes[fixture.proxy].fixture == index, "a box has another fixture")?;
            if let Shape::Polygon(polygon) = &fixture.shape {
                is((3..=MAX_VERTICES).contains(&polygon.count), "a polygon has too few or too many corners")?;
            }
        }
        for contact in &self.contacts {
            is(contact.bodies.iter().all(is_body), "a contact has no body")?;
            is(contact.fixtures.iter().all(is_fixture), "a contact has no fixture")?;
            is(contact.bodies[0] != contact.bodies[1], "a body touches itself")?;
            is(contact.manifold.count <= 2, "a contact has too many points")?;
        }
        for joint in &self.joints {
            is(joint.def.bodies.iter().all(is_body), "a joint has no body")?;
            is(joint.def.bodies[0] != joint.def.bodies[1], "a joint has one body")?;
        }
        is(
            self.broad_phase.moved.iter().all(|node| *node == NONE || is_leaf(node)),
            "a moved box is not there",
        )?;

        // Each node must be reached exactly once, from the root or along the list of free nodes.
        let problem = "the tree of boxes has come apart";
        let mut seen = vec![false; nodes.len()];
        let mut meet =
            |node: usize| is(seen.get_mut(node).is_some_and(|seen| !std::mem::replace(seen, true)), problem);
        let mut stack = vec![(*root, NONE)];
        let mut leaves = 0;
        while let Some((index, parent)) = stack.pop() {
            if index == NONE {
                continue;
            }
            meet(index)?;
            let node = &nodes[index];
            is(node.parent == parent, problem)?;
            if node.is_leaf() {
                let proxy = self.fixtures.get(node.fixture).map(|fixture| fixture.proxy);
                is(node.height == 0 && proxy == Some(index), problem)?;
                leaves += 1;
            } else {
                let children = [node.child1, node.child2].map(|child| nodes.get(child));
                let [Some(first), Some(second)] = children else { return Err(problem) };
                is(node.height == first.height.max(second.height).saturating_add(1), problem)?;
                stack.extend([(node.child1, index), (node.child2, index)]);
            }
        }
        let mut next = *free;
        while next != NONE {
            meet(next)?;
            next = nodes[next].parent;
        }
        is(leaves == self.fixtures.len() && seen.into_iter().all(|seen| seen), problem)
    }
}
