//! A revolute joint (hinge) with a motor and angle limits.

use serde::{Deserialize, Serialize};

use super::{
    body::Body,
    math::{Mat22, Mat33, Rot, Vec2, Vec3, clamp, cross, cross_of},
    settings::{ANGULAR_SLOP, LINEAR_SLOP},
    time_step::{Position, Velocity},
};

const MAX_ANGULAR_CORRECTION: f32 = 8.0 / 180.0 * std::f32::consts::PI;

/// Definition of a joint; `lower_angle` must be below `upper_angle`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in crate::native) struct RevoluteJointDef {
    pub(in crate::native) bodies: [usize; 2],
    pub(in crate::native) local_anchors: [Vec2; 2],
    pub(in crate::native) lower_angle: f32,
    pub(in crate::native) upper_angle: f32,
    pub(in crate::native) max_motor_torque: f32,
    pub(in crate::native) motor_speed: f32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LimitState {
    #[default]
    Inactive,
    AtLower,
    AtUpper,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RevoluteJoint {
    pub(super) def: RevoluteJointDef,
    pub(super) reference_angle: f32,
    pub(super) impulse: Vec3,
    pub(super) motor_impulse: f32,
    pub(super) limit_state: LimitState,
    /// Whether the joint is in an island of the current step.
    #[serde(skip)]
    pub(super) in_island: bool,
    #[serde(skip)]
    solver: SolverData,
}

/// Values of the solver that are valid within one step.
#[derive(Clone, Copy, Debug, Default)]
struct SolverData {
    index_a: usize,
    index_b: usize,
    r_a: Vec2,
    r_b: Vec2,
    /// Anchors relative to the centres of mass, in body coordinates.
    local_a: Vec2,
    local_b: Vec2,
    m_a: f32,
    m_b: f32,
    i_a: f32,
    i_b: f32,
    mass: Mat33,
    motor_mass: f32,
}

impl RevoluteJoint {
    pub(super) fn new(def: RevoluteJointDef, reference_angle: f32) -> Self {
        Self {
            def,
            reference_angle,
            impulse: Vec3::default(),
            motor_impulse: 0.0,
            limit_state: LimitState::Inactive,
            in_island: false,
            solver: SolverData::default(),
        }
    }

    pub(super) fn joins(&self, body: usize) -> bool {
        self.def.bodies.contains(&body)
    }

    /// Returns the other body of the joint.
    pub(super) fn other(&self, body: usize) -> usize {
        if self.def.bodies[0] == body { self.def.bodies[1] } else { self.def.bodies[0] }
    }

    pub(super) fn initialize_velocities(
        &mut self,
        bodies: &[Body],
        positions: &[Position],
        velocities: &mut [Velocity],
        dt_ratio: f32,
    ) {
        let [body_a, body_b] = self.def.bodies.map(|body| &bodies[body]);
        let index_a = body_a.island_index;
        let index_b = body_b.island_index;
        let a_a = positions[index_a].a;
        let a_b = positions[index_b].a;
        let local_a = self.def.local_anchors[0] - body_a.sweep.local_center;
        let local_b = self.def.local_anchors[1] - body_b.sweep.local_center;
        let r_a = Rot::new(a_a).mul(local_a);
        let r_b = Rot::new(a_b).mul(local_b);
        let m_a = body_a.inv_mass;
        let m_b = body_b.inv_mass;
        let i_a = body_a.inv_inertia;
        let i_b = body_b.inv_inertia;
        let ex_x = m_a + m_b + r_a.y * r_a.y * i_a + r_b.y * r_b.y * i_b;
        let ey_x = -r_a.y * r_a.x * i_a - r_b.y * r_b.x * i_b;
        let ez_x = -r_a.y * i_a - r_b.y * i_b;
        let ey_y = m_a + m_b + r_a.x * r_a.x * i_a + r_b.x * r_b.x * i_b;
        let ez_y = r_a.x * i_a + r_b.x * i_b;
        let ez_z = i_a + i_b;
        let mass = Mat33 {
            ex: Vec3::new(ex_x, ey_x, ez_x),
            ey: Vec3::new(ey_x, ey_y, ez_y),
            ez: Vec3::new(ez_x, ez_y, ez_z),
        };
        let motor_mass = if ez_z > 0.0 { 1.0 / ez_z } else { ez_z };
        self.solver =
            SolverData { index_a, index_b, r_a, r_b, local_a, local_b, m_a, m_b, i_a, i_b, mass, motor_mass };

        let angle = a_b - a_a - self.reference_angle;
        let limit_state = if angle <= self.def.lower_angle {
            LimitState::AtLower
        } else if angle >= self.def.upper_angle {
            LimitState::AtUpper
        } else {
            LimitState::Inactive
        };
        if limit_state != self.limit_state || limit_state == LimitState::Inactive {
            self.impulse.z = 0.0;
        }
        self.limit_state = limit_state;

        let Vec3 { x, y, z } = self.impulse;
        self.impulse = Vec3::new(x * dt_ratio, y * dt_ratio, z * dt_ratio);
        self.motor_impulse *= dt_ratio;
        let p = Vec2::new(self.impulse.x, self.impulse.y);
        let Velocity { v: v_a, w: w_a } = &mut velocities[index_a];
        *v_a -= m_a * p;
        *w_a -= i_a * (cross(r_a, p) + self.motor_impulse + self.impulse.z);
        let Velocity { v: v_b, w: w_b } = &mut velocities[index_b];
        *v_b += m_b * p;
        *w_b += i_b * (cross(r_b, p) + self.motor_impulse + self.impulse.z);
    }

    pub(super) fn solve_velocities(&mut self, velocities: &mut [Velocity], dt: f32) {
        let SolverData { index_a, index_b, r_a, r_b, m_a, m_b, i_a, i_b, mass, motor_mass, .. } = self.solver;
        let Velocity { v: mut v_a, w: mut w_a } = velocities[index_a];
        let Velocity { v: mut v_b, w: mut w_b } = velocities[index_b];

        let c_dot = w_b - w_a - self.def.motor_speed;
        let most = dt * self.def.max_motor_torque;
        let old = self.motor_impulse;
        self.motor_impulse = clamp(old + -motor_mass * c_dot, -most, most);
        let impulse = self.motor_impulse - old;
        w_a -= i_a * impulse;
        w_b += i_b * impulse;

        let c_dot1 = v_b + cross_of(w_b, r_b) - v_a - cross_of(w_a, r_a);
        if self.limit_state == LimitState::Inactive {
            let p = mass.solve22(-c_dot1);
            self.impulse.x += p.x;
            self.impulse.y += p.y;
            v_a -= m_a * p;
            w_a -= i_a * cross(r_a, p);
            v_b += m_b * p;
            w_b += i_b * cross(r_b, p);
        } else {
            let c_dot2 = w_b - w_a;
            let mut impulse = -mass.solve33(Vec3::new(c_dot1.x, c_dot1.y, c_dot2));
            let new = self.impulse.z + impulse.z;
            let released = match self.limit_state {
                LimitState::AtLower => new < 0.0,
                _ => new > 0.0,
            };
            if released {
                let rhs = -c_dot1 + self.impulse.z * Vec2::new(mass.ez.x, mass.ez.y);
                let reduced = mass.solve22(rhs);
                impulse = Vec3::new(reduced.x, reduced.y, -self.impulse.z);
                self.impulse.x += reduced.x;
                self.impulse.y += reduced.y;
                self.impulse.z = 0.0;
            } else {
                self.impulse += impulse;
            }
            let p = Vec2::new(impulse.x, impulse.y);
            v_a -= m_a * p;
            w_a -= i_a * (cross(r_a, p) + impulse.z);
            v_b += m_b * p;
            w_b += i_b * (cross(r_b, p) + impulse.z);
        }
        velocities[index_a] = Velocity { v: v_a, w: w_a };
        velocities[index_b] = Velocity { v: v_b, w: w_b };
    }

    /// Moves the bodies together at the hinge and the angle into its limits; returns whether both errors were small.
    pub(super) fn solve_positions(&self, positions: &mut [Position]) -> bool {
        let SolverData { index_a, index_b, local_a, local_b, m_a, m_b, i_a, i_b, motor_mass, .. } =
            self.solver;
        let Position { c: mut c_a, a: mut a_a } = positions[index_a];
        let Position { c: mut c_b, a: mut a_b } = positions[index_b];
        let mut angular_error = 0.0;
        if self.limit_state != LimitState::Inactive {
            let angle = a_b - a_a - self.reference_angle;
            let c = if self.limit_state == LimitState::AtLower {
                let c = angle - self.def.lower_angle;
                angular_error = -c;
                clamp(c + ANGULAR_SLOP, -MAX_ANGULAR_CORRECTION, 0.0)
            } else {
                let c = angle - self.def.upper_angle;
                angular_error = c;
                clamp(c - ANGULAR_SLOP, 0.0, MAX_ANGULAR_CORRECTION)
            };
            let limit_impulse = -motor_mass * c;
            a_a -= i_a * limit_impulse;
            a_b += i_b * limit_impulse;
        }
        let r_a = Rot::new(a_a).mul(local_a);
        let r_b = Rot::new(a_b).mul(local_b);
        let c = c_b + r_b - c_a - r_a;
        let position_error = c.length();
        let k_xy = -i_a * r_a.x * r_a.y - i_b * r_b.x * r_b.y;
        let k = Mat22 {
            ex: Vec2::new(m_a + m_b + i_a * r_a.y * r_a.y + i_b * r_b.y * r_b.y, k_xy),
            ey: Vec2::new(k_xy, m_a + m_b + i_a * r_a.x * r_a.x + i_b * r_b.x * r_b.x),
        };
        let impulse = -k.solve(c);
        c_a -= m_a * impulse;
        a_a -= i_a * cross(r_a, impulse);
        c_b += m_b * impulse;
        a_b += i_b * cross(r_b, impulse);
        positions[index_a] = Position { c: c_a, a: a_a };
        positions[index_b] = Position { c: c_b, a: a_b };
        position_error <= LINEAR_SLOP && angular_error <= ANGULAR_SLOP
    }
}
