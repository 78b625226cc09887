//! Islands: groups of touching or joined bodies that are solved together.

use super::{
    body::Body,
    contact::Contact,
    contact_solver::ContactSolver,
    math::{Vec2, abs, dot, min},
    revolute_joint::RevoluteJoint,
    time_step::{Position, TimeStep, Velocity},
};

/// Largest translation of a body in one step, in meters.
const MAX_TRANSLATION: f32 = 2.0;
const MAX_TRANSLATION_SQUARED: f32 = MAX_TRANSLATION * MAX_TRANSLATION;
const MAX_ROTATION: f32 = 0.5 * std::f32::consts::PI;
const MAX_ROTATION_SQUARED: f32 = MAX_ROTATION * MAX_ROTATION;
/// Time after which a slow island falls asleep, in seconds.
const TIME_TO_SLEEP: f32 = 0.5;
const LINEAR_SLEEP_TOLERANCE: f32 = 0.01;
const ANGULAR_SLEEP_TOLERANCE: f32 = 2.0 / 180.0 * std::f32::consts::PI;
/// Number of position iterations after an impact.
const TOI_POSITION_ITERATIONS: usize = 20;

/// Indices into the world's lists, in the order of discovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Island {
    pub(super) bodies: Vec<usize>,
    pub(super) contacts: Vec<usize>,
    pub(super) joints: Vec<usize>,
    positions: Vec<Position>,
    velocities: Vec<Velocity>,
    solver: ContactSolver,
}

impl Island {
    /// Reserves memory for `room` bodies, contacts and joints.
    pub(super) fn reserve(&mut self, room: usize) {
        self.clear();
        self.bodies.reserve(room);
        self.contacts.reserve(room);
        self.joints.reserve(room);
        self.positions.clear();
        self.positions.reserve(room);
        self.velocities.clear();
        self.velocities.reserve(room);
        self.solver.reserve(room);
    }

    pub(super) fn clear(&mut self) {
        self.bodies.clear();
        self.contacts.clear();
        self.joints.clear();
    }

    pub(super) fn add_body(&mut self, index: usize, bodies: &mut [Body]) {
        bodies[index].island_index = self.bodies.len();
        self.bodies.push(index);
    }

    pub(super) fn solve(
        &mut self,
        step: &TimeStep,
        gravity: Vec2,
        bodies: &mut [Body],
        contacts: &mut [Contact],
        joints: &mut [RevoluteJoint],
    ) {
        let Self { positions, velocities, solver, .. } = self;
        let h = step.dt;
        positions.clear();
        velocities.clear();
        for &index in &self.bodies {
            let body = &mut bodies[index];
            let mut v = body.linear_velocity;
            let mut w = body.angular_velocity;
            body.sweep.c0 = body.sweep.c;
            body.sweep.a0 = body.sweep.a;
            if body.is_dynamic {
                v += h * (gravity + body.inv_mass * body.force);
                w += h * body.inv_inertia * body.torque;
            }
            positions.push(Position { c: body.sweep.c, a: body.sweep.a });
            velocities.push(Velocity { v, w });
        }
        solver.begin(&self.contacts, contacts, bodies, Some(step.dt_ratio));
        solver.initialize_velocities(contacts, positions, velocities);
        solver.warm_start(velocities);
        for &joint in &self.joints {
            joints[joint].initialize_velocities(bodies, positions, velocities, step.dt_ratio);
        }
        for _ in 0..step.velocity_iterations {
            for &joint in &self.joints {
                joints[joint].solve_velocities(velocities, h);
            }
            solver.solve_velocities(velocities);
        }
        solver.store_impulses(contacts);
        integrate(h, positions, velocities);
        let mut solved = false;
        for _ in 0..step.position_iterations {
            let contacts_okay = solver.solve_positions(contacts, positions);
            let mut joints_okay = true;
            for &joint in &self.joints {
                let okay = joints[joint].solve_positions(positions);
                joints_okay = joints_okay && okay;
            }
            if contacts_okay && joints_okay {
                solved = true;
                break;
            }
        }
        self.write_back(bodies);
        self.sleep(h, solved, bodies);
    }

    /// Solves the contacts at the time of an impact; `toi_bodies` are the island indices of the two colliding bodies.
    pub(super) fn solve_toi(
        &mut self,
        dt: f32,
        velocity_iterations: usize,
        toi_bodies: [usize; 2],
        bodies: &mut [Body],
        contacts: &[Contact],
    ) {
        let Self { positions, velocities, solver, .. } = self;
        positions.clear();
        velocities.clear();
        for &index in &self.bodies {
            let body = &bodies[index];
            positions.push(Position { c: body.sweep.c, a: body.sweep.a });
            velocities.push(Velocity { v: body.linear_velocity, w: body.angular_velocity });
        }
        solver.begin(&self.contacts, contacts, bodies, None);
        let [a, b] = toi_bodies;
        for _ in 0..TOI_POSITION_ITERATIONS {
            if solver.solve_toi_positions(contacts, positions, a, b) {
                break;
            }
        }
        // The bodies continue from this safe position.
        for index in toi_bodies {
            let sweep = &mut bodies[self.bodies[index]].sweep;
            sweep.c0 = positions[index].c;
            sweep.a0 = positions[index].a;
        }
        solver.initialize_velocities(contacts, positions, velocities);
        for _ in 0..velocity_iterations {
            solver.solve_velocities(velocities);
        }
        integrate(dt, positions, velocities);
        self.write_back(bodies);
    }

    fn write_back(&self, bodies: &mut [Body]) {
        for ((&index, position), velocity) in self.bodies.iter().zip(&self.positions).zip(&self.velocities) {
            let body = &mut bodies[index];
            body.sweep.c = position.c;
            body.sweep.a = position.a;
            body.linear_velocity = velocity.v;
            body.angular_velocity = velocity.w;
            body.synchronize_transform();
        }
    }

    fn sleep(&self, h: f32, solved: bool, bodies: &mut [Body]) {
        let mut min_sleep_time = f32::MAX;
        for &index in &self.bodies {
            let body = &mut bodies[index];
            if !body.is_dynamic {
                continue;
            }
            if body.angular_velocity * body.angular_velocity
                > ANGULAR_SLEEP_TOLERANCE * ANGULAR_SLEEP_TOLERANCE
                || dot(body.linear_velocity, body.linear_velocity)
                    > LINEAR_SLEEP_TOLERANCE * LINEAR_SLEEP_TOLERANCE
            {
                body.sleep_time = 0.0;
                min_sleep_time = 0.0;
            } else {
                body.sleep_time += h;
                min_sleep_time = min(min_sleep_time, body.sleep_time);
            }
        }
        if min_sleep_time >= TIME_TO_SLEEP && solved {
            for &index in &self.bodies {
                bodies[index].fall_asleep();
            }
        }
    }
}

fn integrate(h: f32, positions: &mut [Position], velocities: &mut [Velocity]) {
    for (position, velocity) in positions.iter_mut().zip(velocities) {
        let translation = h * velocity.v;
        if dot(translation, translation) > MAX_TRANSLATION_SQUARED {
            velocity.v = (MAX_TRANSLATION / translation.length()) * velocity.v;
        }
        let rotation = h * velocity.w;
        if rotation * rotation > MAX_ROTATION_SQUARED {
            velocity.w *= MAX_ROTATION / abs(rotation);
        }
        position.c += h * velocity.v;
        position.a += h * velocity.w;
    }
}
