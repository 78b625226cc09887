//! The world: bodies, fixtures, joints and contacts, and the simulation step.

use serde::{Deserialize, Serialize};

use super::{
    body::{Body, BodyDef, BodyState, Fixture, FixtureDef},
    broad_phase::BroadPhase,
    contact::{Contact, ContactEvent},
    island::Island,
    math::{Transform, Vec2},
    revolute_joint::{RevoluteJoint, RevoluteJointDef},
    time_step::TimeStep,
};

/// All objects of the simulation; each list goes from the oldest to the newest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    pub(super) gravity: Vec2,
    pub(super) bodies: Vec<Body>,
    pub(super) fixtures: Vec<Fixture>,
    pub(super) joints: Vec<RevoluteJoint>,
    pub(super) contacts: Vec<Contact>,
    pub(super) broad_phase: BroadPhase,
    /// Inverse of the length of the last step.
    pub(super) inv_dt0: f32,
    pub(super) has_new_fixture: bool,
    #[serde(skip)]
    pub(super) island: Island,
    #[serde(skip)]
    stack: Vec<usize>,
    #[serde(skip)]
    pub(super) events: Vec<ContactEvent>,
}

impl World {
    pub(in crate::native) fn new(gravity: Vec2) -> Self {
        Self {
            gravity,
            bodies: Vec::new(),
            fixtures: Vec::new(),
            joints: Vec::new(),
            contacts: Vec::new(),
            broad_phase: BroadPhase::new(),
            inv_dt0: 0.0,
            has_new_fixture: false,
            island: Island::default(),
            stack: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Reserves memory in an empty world for `fixtures` fixtures and their contacts, so that steps do not allocate.
    pub(in crate::native) fn reserve(&mut self, fixtures: usize) {
        const CONTACTS: usize = 128;
        self.bodies.reserve(fixtures);
        self.fixtures.reserve(fixtures);
        self.contacts.reserve(CONTACTS);
        self.events.reserve(CONTACTS.saturating_sub(self.events.len()));
        self.stack.reserve(fixtures);
        self.broad_phase.reserve(fixtures);
        self.island.reserve(fixtures.min(CONTACTS));
    }

    /// Resets to a new world.
    pub(in crate::native) fn clear(&mut self) {
        self.bodies.clear();
        self.fixtures.clear();
        self.joints.clear();
        self.contacts.clear();
        self.broad_phase.clear();
        self.inv_dt0 = 0.0;
        self.has_new_fixture = false;
        self.events.clear();
    }

    /// Destroys all bodies, in the given order. The state of the tree of bounding boxes and of the last step is kept.
    pub(in crate::native) fn destroy_bodies(&mut self, order: impl IntoIterator<Item = usize>) {
        for body in order {
            for fixture in self.bodies[body].fixtures.clone().rev() {
                self.broad_phase.destroy_proxy(self.fixtures[fixture].proxy);
            }
        }
        self.bodies.clear();
        self.fixtures.clear();
        self.joints.clear();
        self.contacts.clear();
    }

    pub(in crate::native) fn create_body(&mut self, def: BodyDef) -> usize {
        let BodyDef { is_dynamic, position, angle } = def;
        let fixtures = self.fixtures.len()..self.fixtures.len();
        self.bodies.push(Body::new(is_dynamic, position, angle, fixtures));
        self.bodies.len() - 1
    }

    /// Adds a fixture to the newest body.
    pub(in crate::native) fn create_fixture(&mut self, def: FixtureDef) {
        let FixtureDef { shape, density, friction, category, mask } = def;
        let Some((body, older)) = self.bodies.split_last_mut() else { return };
        let proxy = self.broad_phase.create_proxy(&shape.aabb(&body.transform), self.fixtures.len());
        self.fixtures.push(Fixture {
            body: older.len(),
            shape,
            density,
            friction,
            restitution: 0.0,
            category,
            mask,
            proxy,
        });
        body.fixtures.end = self.fixtures.len();
        if density > 0.0 {
            body.reset_mass_data(&self.fixtures);
        }
        self.has_new_fixture = true;
    }

    pub(in crate::native) fn create_joint(&mut self, def: RevoluteJointDef) {
        let [a, b] = def.bodies.map(|body| self.bodies[body].sweep.a);
        self.joints.push(RevoluteJoint::new(def, b - a));
    }

    /// Returns the contacts that began or ended in the last step.
    pub(in crate::native) fn events(&self) -> &[ContactEvent] {
        &self.events
    }

    pub(in crate::native) fn body(&self, body: usize) -> &Body {
        &self.bodies[body]
    }

    pub(in crate::native) fn body_mut(&mut self, body: usize) -> &mut Body {
        &mut self.bodies[body]
    }

    pub(in crate::native) fn states(&self) -> impl Iterator<Item = BodyState> {
        self.bodies.iter().map(|body| BodyState {
            position: [body.transform.p.x, body.transform.p.y],
            angle: body.sweep.a,
            linear_velocity: [body.linear_velocity.x, body.linear_velocity.y],
            angular_velocity: body.angular_velocity,
            awake: body.awake,
        })
    }

    /// Returns the vertices of each of a body's shapes, in world coordinates.
    pub(in crate::native) fn outlines(
        &self,
        body: usize,
    ) -> impl Iterator<Item = impl Iterator<Item = Vec2>> {
        let Body { transform, fixtures, .. } = &self.bodies[body];
        self.fixtures[fixtures.clone()]
            .iter()
            .map(move |fixture| fixture.shape.vertices().iter().map(move |&vertex| transform.mul(vertex)))
    }

    /// Returns the number of joints.
    pub(in crate::native) fn joints(&self) -> usize {
        self.joints.len()
    }

    /// Returns the angle and the angular speed of a joint.
    pub(in crate::native) fn joint_motion(&self, joint: usize) -> (f32, f32) {
        let joint = &self.joints[joint];
        let [a, b] = joint.def.bodies.map(|body| &self.bodies[body]);
        (b.sweep.a - a.sweep.a - joint.reference_angle, b.angular_velocity - a.angular_velocity)
    }

    pub(in crate::native) fn set_motor(&mut self, joint: usize, speed: f32, max_torque: f32) {
        let joint = &mut self.joints[joint];
        joint.def.motor_speed = speed;
        joint.def.max_motor_torque = max_torque;
        for body in joint.def.bodies {
            self.bodies[body].wake();
        }
    }

    /// Casts a ray from `p1` to `p2`; returns the fraction of it at the first fixture with a bit of `category`.
    pub(in crate::native) fn ray_cast(&mut self, p1: Vec2, p2: Vec2, category: u16) -> Option<f32> {
        let Self { broad_phase, fixtures, bodies, .. } = self;
        let mut nearest = None;
        broad_phase.ray_cast(p1, p2, |fixture, max_fraction| {
            let fixture = &fixtures[fixture];
            let transform = &bodies[fixture.body].transform;
            match fixture.shape.ray_cast(p1, p2, max_fraction, transform) {
                None => max_fraction,
                Some(_) if fixture.category & category == 0 => -1.0,
                Some(fraction) => {
                    nearest = Some(fraction);
                    fraction
                }
            }
        });
        nearest
    }

    /// Advances the simulation by `dt` seconds.
    pub(in crate::native) fn step(
        &mut self,
        dt: f32,
        velocity_iterations: usize,
        position_iterations: usize,
    ) {
        self.events.clear();
        if self.has_new_fixture {
            self.find_new_contacts();
            self.has_new_fixture = false;
        }
        let dt_ratio = self.inv_dt0 * dt;
        let step = TimeStep { dt, dt_ratio, velocity_iterations, position_iterations };
        self.collide();
        self.solve(&step);
        self.solve_toi(&step);
        self.inv_dt0 = 1.0 / dt;
        for body in &mut self.bodies {
            body.force = Vec2::default();
            body.torque = 0.0;
        }
    }

    /// Updates all contacts and removes those whose bounding boxes no longer overlap.
    fn collide(&mut self) {
        let Self { bodies, fixtures, contacts, broad_phase, events, .. } = self;
        for index in (0..contacts.len()).rev() {
            let contact = &mut contacts[index];
            if !contact.bodies.iter().any(|&body| bodies[body].is_active()) {
                continue;
            }
            let [a, b] = contact.fixtures.map(|fixture| fixtures[fixture].proxy);
            if broad_phase.overlap(a, b) {
                contact.update(bodies, fixtures, events);
                continue;
            }
            let contact = contacts.remove(index);
            if contact.touching {
                events.push(ContactEvent { began: false, bodies: contact.bodies });
            }
            if contact.manifold.count > 0 {
                for body in contact.bodies {
                    bodies[body].wake();
                }
            }
        }
    }

    pub(super) fn find_new_contacts(&mut self) {
        let Self { bodies, fixtures, contacts, joints, broad_phase, .. } = self;
        broad_phase.update_pairs(|a, b| {
            let one = &fixtures[a];
            let two = &fixtures[b];
            let joined = |joint: &RevoluteJoint| joint.joins(one.body) && joint.joins(two.body);
            let known = |contact: &Contact| contact.fixtures == [a, b] || contact.fixtures == [b, a];
            if one.body == two.body
                || contacts.iter().any(known)
                || !(bodies[one.body].is_dynamic || bodies[two.body].is_dynamic)
                || joints.iter().any(joined)
                || one.mask & two.category == 0
                || one.category & two.mask == 0
            {
                return;
            }
            if let Some(contact) = Contact::new(a, b, fixtures) {
                for body in contact.bodies {
                    bodies[body].wake();
                }
                contacts.push(contact);
            }
        });
    }

    /// Builds the islands, starting with the newest body, and solves each.
    fn solve(&mut self, step: &TimeStep) {
        let Self { gravity, bodies, contacts, joints, island, stack, .. } = self;
        for body in &mut *bodies {
            body.in_island = false;
        }
        for contact in &mut *contacts {
            contact.in_island = false;
        }
        for joint in &mut *joints {
            joint.in_island = false;
        }
        for seed in (0..bodies.len()).rev() {
            if bodies[seed].in_island || !bodies[seed].is_active() {
                continue;
            }
            island.clear();
            stack.clear();
            stack.push(seed);
            bodies[seed].in_island = true;
            while let Some(body) = stack.pop() {
                island.add_body(body, bodies);
                bodies[body].wake();
                if !bodies[body].is_dynamic {
                    continue;
                }
                let mut visit = |other: usize| {
                    if !bodies[other].in_island {
                        bodies[other].in_island = true;
                        stack.push(other);
                    }
                };
                for (index, contact) in contacts.iter_mut().enumerate().rev() {
                    if contact.joins(body) && !contact.in_island && contact.enabled && contact.touching {
                        contact.in_island = true;
                        island.contacts.push(index);
                        visit(contact.other(body));
                    }
                }
                for (index, joint) in joints.iter_mut().enumerate().rev() {
                    if joint.joins(body) && !joint.in_island {
                        joint.in_island = true;
                        island.joints.push(index);
                        visit(joint.other(body));
                    }
                }
            }
            island.solve(step, *gravity, bodies, contacts, joints);
            // A static body can be in several islands.
            for &body in &island.bodies {
                bodies[body].in_island &= bodies[body].is_dynamic;
            }
        }
        for index in (0..self.bodies.len()).rev() {
            if self.bodies[index].in_island {
                self.synchronize_fixtures(index);
            }
        }
        self.find_new_contacts();
    }

    /// Updates the boxes of a body's fixtures in the tree.
    pub(super) fn synchronize_fixtures(&mut self, index: usize) {
        let body = &self.bodies[index];
        let start = Transform::around(body.sweep.c0, body.sweep.a0, body.sweep.local_center);
        let displacement = body.transform.p - start.p;
        for fixture in self.fixtures[body.fixtures.clone()].iter().rev() {
            let aabb = fixture.shape.aabb(&start).combine(&fixture.shape.aabb(&body.transform));
            self.broad_phase.move_proxy(fixture.proxy, &aabb, displacement);
        }
    }
}
