//! Rigid bodies and their fixtures.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    math::{Rot, Sweep, Transform, Vec2, cross, dot},
    shape::Shape,
};

/// Initial state of a body.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct BodyDef {
    /// Whether the body moves; false for a static body.
    pub(in crate::native) is_dynamic: bool,
    pub(in crate::native) position: Vec2,
    pub(in crate::native) angle: f32,
}

/// A shape of a body with its material and collision filter.
#[derive(Clone, Debug)]
pub(in crate::native) struct FixtureDef {
    pub(in crate::native) shape: Shape,
    pub(in crate::native) density: f32,
    pub(in crate::native) friction: f32,
    /// Collision category of the fixture: one or more bits.
    pub(in crate::native) category: u16,
    /// Mask of the categories with which the fixture collides.
    pub(in crate::native) mask: u16,
}

impl FixtureDef {
    /// Creates a fixture with Box2D's defaults: no mass, a friction of 0.2, and collisions with everything.
    pub(in crate::native) fn new(shape: Shape) -> Self {
        Self { shape, density: 0.0, friction: 0.2, category: 1, mask: u16::MAX }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::native) struct Body {
    pub(super) is_dynamic: bool,
    pub(super) awake: bool,
    /// Whether the body is in an island of the current step.
    #[serde(skip)]
    pub(super) in_island: bool,
    #[serde(skip)]
    pub(super) island_index: usize,
    pub(super) transform: Transform,
    pub(super) sweep: Sweep,
    pub(super) linear_velocity: Vec2,
    pub(super) angular_velocity: f32,
    pub(super) force: Vec2,
    pub(super) torque: f32,
    pub(super) inv_mass: f32,
    pub(super) inv_inertia: f32,
    pub(super) sleep_time: f32,
    /// Index range of the body's fixtures, from the oldest to the newest.
    pub(super) fixtures: Range<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::native) struct Fixture {
    pub(super) body: usize,
    pub(super) shape: Shape,
    pub(super) density: f32,
    pub(super) friction: f32,
    pub(super) restitution: f32,
    pub(super) category: u16,
    pub(super) mask: u16,
    /// Leaf of the fixture in the tree of bounding boxes.
    pub(super) proxy: usize,
}

/// Position and motion of a body of a native environment, in meters, radians and seconds, as in Box2D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BodyState {
    /// Position of the body's origin.
    pub position: [f32; 2],
    /// Angle, counterclockwise.
    pub angle: f32,
    /// Velocity of the centre of mass.
    pub linear_velocity: [f32; 2],
    /// Angular velocity, counterclockwise.
    pub angular_velocity: f32,
    /// Whether the body is awake; Box2D puts a body that rests long enough to sleep.
    pub awake: bool,
}

impl Body {
    pub(super) fn new(is_dynamic: bool, position: Vec2, angle: f32, fixtures: Range<usize>) -> Self {
        let transform = Transform { p: position, q: Rot::new(angle) };
        let sweep = Sweep { c0: position, c: position, a0: angle, a: angle, ..Sweep::default() };
        Self {
            is_dynamic,
            awake: true,
            in_island: false,
            island_index: 0,
            transform,
            sweep,
            linear_velocity: Vec2::default(),
            angular_velocity: 0.0,
            force: Vec2::default(),
            torque: 0.0,
            inv_mass: if is_dynamic { 1.0 } else { 0.0 },
            inv_inertia: 0.0,
            sleep_time: 0.0,
            fixtures,
        }
    }

    /// Position of the body's origin.
    pub(in crate::native) fn position(&self) -> Vec2 {
        self.transform.p
    }

    pub(in crate::native) fn angle(&self) -> f32 {
        self.sweep.a
    }

    /// Velocity of the centre of mass.
    pub(in crate::native) fn linear_velocity(&self) -> Vec2 {
        self.linear_velocity
    }

    pub(in crate::native) fn angular_velocity(&self) -> f32 {
        self.angular_velocity
    }

    pub(in crate::native) fn is_awake(&self) -> bool {
        self.awake
    }

    pub(in crate::native) fn apply_force_to_center(&mut self, force: Vec2) {
        self.wake();
        self.force += force;
    }

    pub(in crate::native) fn apply_torque(&mut self, torque: f32) {
        self.wake();
        self.torque += torque;
    }

    pub(in crate::native) fn apply_linear_impulse(&mut self, impulse: Vec2, point: Vec2) {
        self.wake();
        self.linear_velocity += self.inv_mass * impulse;
        self.angular_velocity += self.inv_inertia * cross(point - self.sweep.c, impulse);
    }

    pub(super) fn is_active(&self) -> bool {
        self.awake && self.is_dynamic
    }

    pub(super) fn wake(&mut self) {
        if !self.awake {
            self.awake = true;
            self.sleep_time = 0.0;
        }
    }

    pub(super) fn fall_asleep(&mut self) {
        self.awake = false;
        self.sleep_time = 0.0;
        self.linear_velocity = Vec2::default();
        self.angular_velocity = 0.0;
        self.force = Vec2::default();
        self.torque = 0.0;
    }

    pub(super) fn synchronize_transform(&mut self) {
        self.transform = Transform::around(self.sweep.c, self.sweep.a, self.sweep.local_center);
    }

    /// Moves the body to the fraction `alpha` of the step.
    pub(super) fn advance(&mut self, alpha: f32) {
        self.sweep.advance(alpha);
        self.sweep.c = self.sweep.c0;
        self.sweep.a = self.sweep.a0;
        self.synchronize_transform();
    }

    pub(super) fn reset_mass_data(&mut self, fixtures: &[Fixture]) {
        if !self.is_dynamic {
            return;
        }
        let mut mass = 0.0_f32;
        let mut inertia = 0.0_f32;
        let mut center = Vec2::default();
        for fixture in fixtures[self.fixtures.clone()].iter().rev() {
            if fixture.density == 0.0 {
                continue;
            }
            let data = fixture.shape.mass_data(fixture.density);
            mass += data.mass;
            center += data.mass * data.center;
            inertia += data.inertia;
        }
        self.inv_mass = if mass > 0.0 { 1.0 / mass } else { 1.0 };
        if mass > 0.0 {
            center = self.inv_mass * center;
        }
        self.inv_inertia = 0.0;
        if inertia > 0.0 {
            inertia -= mass * dot(center, center);
            self.inv_inertia = 1.0 / inertia;
        }
        self.sweep.local_center = center;
        self.sweep.c = self.transform.mul(center);
        self.sweep.c0 = self.sweep.c;
    }
}
