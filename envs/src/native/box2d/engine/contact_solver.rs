//! Solver of contacts: impulses that keep touching bodies from penetrating each other.

use super::{
    body::Body,
    contact::Contact,
    math::{Mat22, Transform, Vec2, clamp, cross, cross_of, cross_with, dot, max, min},
    settings::{LINEAR_SLOP, POLYGON_RADIUS},
    time_step::{Position, Velocity},
};

const BAUMGARTE: f32 = 0.2;
const TOI_BAUMGARTE: f32 = 0.75;
const MAX_CORRECTION: f32 = 0.2;
/// Relative speed below which collisions are inelastic, in m/s.
const VELOCITY_THRESHOLD: f32 = 1.0;

#[derive(Clone, Copy, Debug, Default)]
struct VelocityPoint {
    r_a: Vec2,
    r_b: Vec2,
    normal_impulse: f32,
    tangent_impulse: f32,
    normal_mass: f32,
    tangent_mass: f32,
    velocity_bias: f32,
}

/// One of the two bodies of a contact.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Index among the bodies of the island.
    index: usize,
    inv_mass: f32,
    inv_inertia: f32,
    local_center: Vec2,
}

#[derive(Clone, Copy, Debug, Default)]
struct Constraint {
    a: Side,
    b: Side,
    points: [VelocityPoint; 2],
    normal: Vec2,
    normal_mass: Mat22,
    k: Mat22,
    friction: f32,
    restitution: f32,
    /// Number of points whose velocities are solved; one of two nearly dependent points is dropped.
    count: usize,
    /// Index among the world's contacts.
    contact: usize,
}

/// Solver of the contacts of one island.
#[derive(Clone, Debug, Default)]
pub(super) struct ContactSolver {
    constraints: Vec<Constraint>,
}

impl ContactSolver {
    pub(super) fn reserve(&mut self, contacts: usize) {
        self.constraints.clear();
        self.constraints.reserve(contacts);
    }

    /// Starts from the last step's impulses times `dt_ratio`; `None` starts from zero.
    pub(super) fn begin(
        &mut self,
        island: &[usize],
        contacts: &[Contact],
        bodies: &[Body],
        dt_ratio: Option<f32>,
    ) {
        self.constraints.clear();
        for &index in island {
            let contact = &contacts[index];
            let [a, b] = contact.bodies.map(|body| {
                let body = &bodies[body];
                Side {
                    index: body.island_index,
                    inv_mass: body.inv_mass,
                    inv_inertia: body.inv_inertia,
                    local_center: body.sweep.local_center,
                }
            });
            let mut points = [VelocityPoint::default(); 2];
            if let Some(ratio) = dt_ratio {
                for (point, from) in points.iter_mut().zip(contact.manifold.points()) {
                    point.normal_impulse = ratio * from.normal_impulse;
                    point.tangent_impulse = ratio * from.tangent_impulse;
                }
            }
            self.constraints.push(Constraint {
                a,
                b,
                points,
                friction: contact.friction,
                restitution: contact.restitution,
                count: contact.manifold.count,
                contact: index,
                ..Constraint::default()
            });
        }
    }

    pub(super) fn initialize_velocities(
        &mut self,
        contacts: &[Contact],
        positions: &[Position],
        velocities: &[Velocity],
    ) {
        for constraint in &mut self.constraints {
            constraint.initialize(&contacts[constraint.contact], positions, velocities);
        }
    }

    pub(super) fn warm_start(&self, velocities: &mut [Velocity]) {
        for constraint in &self.constraints {
            let Constraint { a, b, normal, .. } = *constraint;
            let Velocity { v: mut v_a, w: mut w_a } = velocities[a.index];
            let Velocity { v: mut v_b, w: mut w_b } = velocities[b.index];
            let tangent = cross_with(normal, 1.0);
            for point in &constraint.points[..constraint.count] {
                let p = point.normal_impulse * normal + point.tangent_impulse * tangent;
                w_a -= a.inv_inertia * cross(point.r_a, p);
                v_a -= a.inv_mass * p;
                w_b += b.inv_inertia * cross(point.r_b, p);
                v_b += b.inv_mass * p;
            }
            velocities[a.index] = Velocity { v: v_a, w: w_a };
            velocities[b.index] = Velocity { v: v_b, w: w_b };
        }
    }

    pub(super) fn solve_velocities(&mut self, velocities: &mut [Velocity]) {
        for constraint in &mut self.constraints {
            constraint.solve_velocities(velocities);
        }
    }

    /// Stores the impulses in the contacts, for the warm start of the next step.
    pub(super) fn store_impulses(&self, contacts: &mut [Contact]) {
        for constraint in &self.constraints {
            let points = &mut contacts[constraint.contact].manifold.points;
            for (point, from) in points.iter_mut().zip(&constraint.points[..constraint.count]) {
                point.normal_impulse = from.normal_impulse;
                point.tangent_impulse = from.tangent_impulse;
            }
        }
    }

    /// Pushes overlapping bodies apart; returns whether the penetrations were already small.
    pub(super) fn solve_positions(&self, contacts: &[Contact], positions: &mut [Position]) -> bool {
        self.separate(contacts, positions, BAUMGARTE, |side| side) >= -3.0 * LINEAR_SLOP
    }

    /// Pushes only the bodies `a` and `b` of the island apart; returns whether the penetrations were already small.
    pub(super) fn solve_toi_positions(
        &self,
        contacts: &[Contact],
        positions: &mut [Position],
        a: usize,
        b: usize,
    ) -> bool {
        let fixed = |side: Side| {
            if side.index == a || side.index == b {
                side
            } else {
                Side { inv_mass: 0.0, inv_inertia: 0.0, ..side }
            }
        };
        self.separate(contacts, positions, TOI_BAUMGARTE, fixed) >= -1.5 * LINEAR_SLOP
    }

    fn separate(
        &self,
        contacts: &[Contact],
        positions: &mut [Position],
        baumgarte: f32,
        side: impl Fn(Side) -> Side,
    ) -> f32 {
        let mut min_separation = 0.0;
        for constraint in &self.constraints {
            let manifold = &contacts[constraint.contact].manifold;
            let a = side(constraint.a);
            let b = side(constraint.b);
            let Position { c: mut c_a, a: mut a_a } = positions[a.index];
            let Position { c: mut c_b, a: mut a_b } = positions[b.index];
            for from in manifold.points() {
                let transform_a = Transform::around(c_a, a_a, a.local_center);
                let transform_b = Transform::around(c_b, a_b, b.local_center);
                let (face, other) =
                    if manifold.face_b { (&transform_b, &transform_a) } else { (&transform_a, &transform_b) };
                let normal = face.q.mul(manifold.local_normal);
                let plane_point = face.mul(manifold.local_point);
                let point = other.mul(from.local_point);
                let separation = dot(point - plane_point, normal) - POLYGON_RADIUS - POLYGON_RADIUS;
                let normal = if manifold.face_b { -normal } else { normal };
                let r_a = point - c_a;
                let r_b = point - c_b;
                min_separation = min(min_separation, separation);
                let c = clamp(baumgarte * (separation + LINEAR_SLOP), -MAX_CORRECTION, 0.0);
                let rn_a = cross(r_a, normal);
                let rn_b = cross(r_b, normal);
                let k = a.inv_mass + b.inv_mass + a.inv_inertia * rn_a * rn_a + b.inv_inertia * rn_b * rn_b;
                let impulse = if k > 0.0 { -c / k } else { 0.0 };
                let p = impulse * normal;
                c_a -= a.inv_mass * p;
                a_a -= a.inv_inertia * cross(r_a, p);
                c_b += b.inv_mass * p;
                a_b += b.inv_inertia * cross(r_b, p);
            }
            positions[a.index] = Position { c: c_a, a: a_a };
            positions[b.index] = Position { c: c_b, a: a_b };
        }
        min_separation
    }
}

impl Constraint {
    fn initialize(&mut self, contact: &Contact, positions: &[Position], velocities: &[Velocity]) {
        const MAX_CONDITION_NUMBER: f32 = 1000.0;
        let Self { a, b, .. } = *self;
        let position_a = positions[a.index];
        let position_b = positions[b.index];
        let Velocity { v: v_a, w: w_a } = velocities[a.index];
        let Velocity { v: v_b, w: w_b } = velocities[b.index];
        let transform_a = Transform::around(position_a.c, position_a.a, a.local_center);
        let transform_b = Transform::around(position_b.c, position_b.a, b.local_center);
        let (normal, points) = contact.manifold.in_world(&transform_a, &transform_b);
        self.normal = normal;
        let tangent = cross_with(normal, 1.0);
        let mass_sum = a.inv_mass + b.inv_mass;
        let effective_mass = |k: f32| if k > 0.0 { 1.0 / k } else { 0.0 };
        for (point, at) in self.points[..self.count].iter_mut().zip(points) {
            point.r_a = at - position_a.c;
            point.r_b = at - position_b.c;
            let rn_a = cross(point.r_a, normal);
            let rn_b = cross(point.r_b, normal);
            let k_normal = mass_sum + a.inv_inertia * rn_a * rn_a + b.inv_inertia * rn_b * rn_b;
            point.normal_mass = effective_mass(k_normal);
            let rt_a = cross(point.r_a, tangent);
            let rt_b = cross(point.r_b, tangent);
            let k_tangent = mass_sum + a.inv_inertia * rt_a * rt_a + b.inv_inertia * rt_b * rt_b;
            point.tangent_mass = effective_mass(k_tangent);
            let relative = v_b + cross_of(w_b, point.r_b) - v_a - cross_of(w_a, point.r_a);
            let v_rel = dot(normal, relative);
            point.velocity_bias = if v_rel < -VELOCITY_THRESHOLD { -self.restitution * v_rel } else { 0.0 };
        }
        if self.count == 2 {
            let [one, two] = &self.points;
            let rn1_a = cross(one.r_a, normal);
            let rn1_b = cross(one.r_b, normal);
            let rn2_a = cross(two.r_a, normal);
            let rn2_b = cross(two.r_b, normal);
            let k11 = mass_sum + a.inv_inertia * rn1_a * rn1_a + b.inv_inertia * rn1_b * rn1_b;
            let k22 = mass_sum + a.inv_inertia * rn2_a * rn2_a + b.inv_inertia * rn2_b * rn2_b;
            let k12 = mass_sum + a.inv_inertia * rn1_a * rn2_a + b.inv_inertia * rn1_b * rn2_b;
            if k11 * k11 < MAX_CONDITION_NUMBER * (k11 * k22 - k12 * k12) {
                self.k = Mat22 { ex: Vec2::new(k11, k12), ey: Vec2::new(k12, k22) };
                self.normal_mass = self.k.inverse();
            } else {
                self.count = 1;
            }
        }
    }

    fn solve_velocities(&mut self, velocities: &mut [Velocity]) {
        let Self { a, b, normal, friction, .. } = *self;
        let m_a = a.inv_mass;
        let i_a = a.inv_inertia;
        let m_b = b.inv_mass;
        let i_b = b.inv_inertia;
        let Velocity { v: mut v_a, w: mut w_a } = velocities[a.index];
        let Velocity { v: mut v_b, w: mut w_b } = velocities[b.index];
        let tangent = cross_with(normal, 1.0);
        // Friction is solved first because non-penetration matters more than friction.
        for point in &mut self.points[..self.count] {
            let dv = v_b + cross_of(w_b, point.r_b) - v_a - cross_of(w_a, point.r_a);
            let lambda = point.tangent_mass * -dot(dv, tangent);
            let most = friction * point.normal_impulse;
            let impulse = clamp(point.tangent_impulse + lambda, -most, most);
            let lambda = impulse - point.tangent_impulse;
            point.tangent_impulse = impulse;
            let p = lambda * tangent;
            v_a -= m_a * p;
            w_a -= i_a * cross(point.r_a, p);
            v_b += m_b * p;
            w_b += i_b * cross(point.r_b, p);
        }
        if self.count == 1 {
            let point = &mut self.points[0];
            let dv = v_b + cross_of(w_b, point.r_b) - v_a - cross_of(w_a, point.r_a);
            let vn = dot(dv, normal);
            let lambda = -point.normal_mass * (vn - point.velocity_bias);
            let impulse = max(point.normal_impulse + lambda, 0.0);
            let lambda = impulse - point.normal_impulse;
            point.normal_impulse = impulse;
            let p = lambda * normal;
            v_a -= m_a * p;
            w_a -= i_a * cross(point.r_a, p);
            v_b += m_b * p;
            w_b += i_b * cross(point.r_b, p);
        } else {
            let [one, two] = &self.points;
            let before = Vec2::new(one.normal_impulse, two.normal_impulse);
            let dv1 = v_b + cross_of(w_b, one.r_b) - v_a - cross_of(w_a, one.r_a);
            let dv2 = v_b + cross_of(w_b, two.r_b) - v_a - cross_of(w_a, two.r_a);
            let mut bias =
                Vec2::new(dot(dv1, normal) - one.velocity_bias, dot(dv2, normal) - two.velocity_bias);
            bias -= self.k.mul(before);
            if let Some(x) = self.block_impulses(bias) {
                let [one, two] = &mut self.points;
                let d = x - before;
                let p1 = d.x * normal;
                let p2 = d.y * normal;
                v_a -= m_a * (p1 + p2);
                w_a -= i_a * (cross(one.r_a, p1) + cross(two.r_a, p2));
                v_b += m_b * (p1 + p2);
                w_b += i_b * (cross(one.r_b, p1) + cross(two.r_b, p2));
                one.normal_impulse = x.x;
                two.normal_impulse = x.y;
            }
        }
        velocities[a.index] = Velocity { v: v_a, w: w_a };
        velocities[b.index] = Velocity { v: v_b, w: w_b };
    }

    /// Solves the impulses of both points together, neither of them negative; a separating point gets 0.
    fn block_impulses(&self, b: Vec2) -> Option<Vec2> {
        let [one, two] = &self.points;
        let x = -self.normal_mass.mul(b);
        if x.x >= 0.0 && x.y >= 0.0 {
            return Some(x);
        }
        let x = Vec2::new(-one.normal_mass * b.x, 0.0);
        if x.x >= 0.0 && self.k.ex.y * x.x + b.y >= 0.0 {
            return Some(x);
        }
        let x = Vec2::new(0.0, -two.normal_mass * b.y);
        if x.y >= 0.0 && self.k.ey.x * x.y + b.x >= 0.0 {
            return Some(x);
        }
        (b.x >= 0.0 && b.y >= 0.0).then(Vec2::default)
    }
}
