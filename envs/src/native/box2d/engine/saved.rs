//! Serialization of a Box2D world: everything that later steps depend on, field by field.

use super::{
    body::{Body, Fixture},
    contact::Contact,
    manifold::{ContactId, Manifold, ManifoldPoint},
    math::{Aabb, Rot, Sweep, Transform, Vec2, Vec3},
    revolute_joint::{LimitState, RevoluteJoint, RevoluteJointDef},
    shape::{Edge, MOST_VERTICES, Polygon, Shape},
    tree::{DynamicTree, NONE, Node},
    world::World,
};
use crate::{
    Error, Result,
    contract::state::{StateReader, StateWriter},
};

/// A type that can be written to a saved state and read back.
pub(in crate::native) trait Saved: Sized {
    fn save(&self, out: &mut StateWriter);

    fn load(input: &mut StateReader<'_>) -> Result<Self>;
}

/// Writes values one after the other.
macro_rules! save_each {
    ($out:ident: $($value:expr),+) => { $($value.save($out);)+ };
}

/// Implements [`Saved`] for a struct by writing and reading its named fields in order.
macro_rules! saved {
    ($($name:ident { $($field:ident),+ })+) => {
        $(impl Saved for $name {
            fn save(&self, out: &mut StateWriter) {
                save_each!(out: $(self.$field),+);
            }

            fn load(input: &mut StateReader<'_>) -> Result<Self> {
                Ok(Self { $($field: Saved::load(input)?),+ })
            }
        })+
    };
}

saved! {
    Vec2 { x, y }
    Vec3 { x, y, z }
    Rot { s, c }
    Transform { p, q }
    Sweep { local_center, c0, c, a0, a, alpha0 }
    Aabb { lower, upper }
    Node { aabb, fixture, parent, child1, child2, height }
    DynamicTree { root, nodes, free }
    Edge { vertices }
    Polygon { count, vertices, normals, centroid }
    Fixture { body, shape, density, friction, restitution, category, mask, proxy }
    ContactId { index_a, index_b, face_a, face_b }
    ManifoldPoint { local_point, normal_impulse, tangent_impulse, id }
    Manifold { points, local_normal, local_point, face_b, count }
    RevoluteJointDef { bodies, local_anchors, lower_angle, upper_angle, max_motor_torque, motor_speed }
}

macro_rules! saved_numbers {
    ($($number:ty),+) => {
        $(impl Saved for $number {
            fn save(&self, out: &mut StateWriter) {
                out.u32(*self as u32);
            }

            fn load(input: &mut StateReader<'_>) -> Result<Self> {
                Ok(input.u32()? as $number)
            }
        })+
    };
}

saved_numbers!(u8, u16, u32, i32);

impl Saved for usize {
    /// Writes `NONE` as the largest `u32`.
    fn save(&self, out: &mut StateWriter) {
        out.u32(u32::try_from(*self).unwrap_or(u32::MAX));
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let value = input.u32()?;
        Ok(if value == u32::MAX { NONE } else { value as usize })
    }
}

impl Saved for f32 {
    fn save(&self, out: &mut StateWriter) {
        out.u32(self.to_bits());
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        input.u32().map(f32::from_bits)
    }
}

impl Saved for bool {
    fn save(&self, out: &mut StateWriter) {
        out.u32(u32::from(*self));
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        Ok(input.u32()? != 0)
    }
}

impl<T: Saved, const N: usize> Saved for [T; N] {
    fn save(&self, out: &mut StateWriter) {
        self.iter().for_each(|value| value.save(out));
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let values = (0..N).map(|_| T::load(input)).collect::<Result<Vec<T>>>()?;
        values.try_into().map_err(|_| damaged("a list has another length"))
    }
}

impl<T: Saved> Saved for Vec<T> {
    fn save(&self, out: &mut StateWriter) {
        self.len().save(out);
        self.iter().for_each(|value| value.save(out));
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let len = usize::load(input)?;
        // Not `with_capacity`, because a damaged length may be huge; reading fails when the bytes end.
        (0..len).map(|_| T::load(input)).collect()
    }
}

impl Saved for Shape {
    fn save(&self, out: &mut StateWriter) {
        match self {
            Self::Edge(edge) => {
                false.save(out);
                edge.save(out);
            }
            Self::Polygon(polygon) => {
                true.save(out);
                polygon.save(out);
            }
        }
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        Ok(if bool::load(input)? {
            Self::Polygon(Saved::load(input)?)
        } else {
            Self::Edge(Saved::load(input)?)
        })
    }
}

impl Saved for Body {
    fn save(&self, out: &mut StateWriter) {
        save_each!(out: self.is_dynamic, self.awake, self.fixtures.start, self.fixtures.end, self.transform, self.sweep);
        if self.is_dynamic {
            save_each!(out: self.linear_velocity, self.angular_velocity, self.force, self.torque);
            save_each!(out: self.inv_mass, self.inv_inertia, self.sleep_time);
        }
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let is_dynamic = bool::load(input)?;
        let awake = bool::load(input)?;
        let fixtures = usize::load(input)?..usize::load(input)?;
        let mut body = Self::new(is_dynamic, Vec2::default(), 0.0, fixtures);
        body.awake = awake;
        body.transform = Saved::load(input)?;
        body.sweep = Saved::load(input)?;
        if is_dynamic {
            body.linear_velocity = Saved::load(input)?;
            body.angular_velocity = Saved::load(input)?;
            body.force = Saved::load(input)?;
            body.torque = Saved::load(input)?;
            body.inv_mass = Saved::load(input)?;
            body.inv_inertia = Saved::load(input)?;
            body.sleep_time = Saved::load(input)?;
        }
        Ok(body)
    }
}

impl Saved for Contact {
    fn save(&self, out: &mut StateWriter) {
        save_each!(out: self.fixtures, self.bodies, self.manifold);
        save_each!(out: self.friction, self.restitution, self.touching, self.enabled);
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        Ok(Self {
            fixtures: Saved::load(input)?,
            bodies: Saved::load(input)?,
            manifold: Saved::load(input)?,
            friction: Saved::load(input)?,
            restitution: Saved::load(input)?,
            touching: Saved::load(input)?,
            enabled: Saved::load(input)?,
            ..Self::default()
        })
    }
}

impl Saved for RevoluteJoint {
    fn save(&self, out: &mut StateWriter) {
        save_each!(out: self.def, self.reference_angle, self.impulse, self.motor_impulse, (self.limit_state as u8));
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let mut joint = Self::new(Saved::load(input)?, Saved::load(input)?);
        joint.impulse = Saved::load(input)?;
        joint.motor_impulse = Saved::load(input)?;
        joint.limit_state = match u8::load(input)? {
            0 => LimitState::Inactive,
            1 => LimitState::AtLower,
            _ => LimitState::AtUpper,
        };
        Ok(joint)
    }
}

impl Saved for World {
    fn save(&self, out: &mut StateWriter) {
        save_each!(out: self.gravity, self.inv_dt0, self.has_new_fixture);
        save_each!(out: self.bodies, self.fixtures, self.joints, self.contacts);
        save_each!(out: self.broad_phase.tree, self.broad_phase.moved);
    }

    fn load(input: &mut StateReader<'_>) -> Result<Self> {
        let gravity = Saved::load(input)?;
        let mut world = Self::new(gravity);
        world.inv_dt0 = Saved::load(input)?;
        world.has_new_fixture = Saved::load(input)?;
        world.bodies = Saved::load(input)?;
        world.fixtures = Saved::load(input)?;
        world.joints = Saved::load(input)?;
        world.contacts = Saved::load(input)?;
        world.broad_phase.tree = Saved::load(input)?;
        world.broad_phase.moved = Saved::load(input)?;
        world.check().map_err(damaged)?;
        Ok(world)
    }
}

fn damaged(what: &'static str) -> Error {
    Error::state(format!("{what}; it is damaged or of another version"))
}

impl World {
    /// Checks a loaded world for dangling indices and returns the first problem.
    fn check(&self) -> Result<(), &'static str> {
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
                is(
                    (3..=MOST_VERTICES).contains(&polygon.count),
                    "a polygon has too few or too many corners",
                )?;
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
