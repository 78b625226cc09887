//! Vectors, rotations and sweeps. Comparisons are written as in the original, which matters for the sign of zeros.

use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A point or a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::native) struct Vec2 {
    pub(in crate::native) x: f32,
    pub(in crate::native) y: f32,
}

impl Vec2 {
    pub(in crate::native) const fn new(x: f32, y: f32) -> Self {
        Self { x, y }
    }

    pub(super) fn length(self) -> f32 {
        self.length_squared().sqrt()
    }

    pub(super) fn length_squared(self) -> f32 {
        self.x * self.x + self.y * self.y
    }

    /// Normalizes the vector and returns its former length; a vector shorter than the machine epsilon stays and counts
    /// as 0.
    pub(super) fn normalize(&mut self) -> f32 {
        let length = self.length();
        if length < f32::EPSILON {
            return 0.0;
        }
        let inverse = 1.0 / length;
        self.x *= inverse;
        self.y *= inverse;
        length
    }
}

impl Add for Vec2 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.x + other.x, self.y + other.y)
    }
}

impl Sub for Vec2 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.x - other.x, self.y - other.y)
    }
}

impl Neg for Vec2 {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.x, -self.y)
    }
}

impl Mul<Vec2> for f32 {
    type Output = Vec2;

    fn mul(self, vector: Vec2) -> Vec2 {
        Vec2::new(self * vector.x, self * vector.y)
    }
}

impl AddAssign for Vec2 {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Vec2 {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

pub(super) fn dot(a: Vec2, b: Vec2) -> f32 {
    a.x * b.x + a.y * b.y
}

pub(super) fn cross(a: Vec2, b: Vec2) -> f32 {
    a.x * b.y - a.y * b.x
}

/// Cross product of a vector in the plane with `s` along the third axis.
pub(super) fn cross_with(a: Vec2, s: f32) -> Vec2 {
    Vec2::new(s * a.y, -s * a.x)
}

/// Cross product of `s` along the third axis with a vector in the plane.
pub(super) fn cross_of(s: f32, a: Vec2) -> Vec2 {
    Vec2::new(-s * a.y, s * a.x)
}

pub(super) fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

pub(super) fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

pub(super) fn abs(a: f32) -> f32 {
    if a > 0.0 { a } else { -a }
}

pub(super) fn clamp(a: f32, low: f32, high: f32) -> f32 {
    max(low, min(a, high))
}

/// Componentwise minimum.
pub(super) fn lower(a: Vec2, b: Vec2) -> Vec2 {
    Vec2::new(min(a.x, b.x), min(a.y, b.y))
}

/// Componentwise maximum.
pub(super) fn upper(a: Vec2, b: Vec2) -> Vec2 {
    Vec2::new(max(a.x, b.x), max(a.y, b.y))
}

/// A vector in three dimensions: the two linear components and the angular component of an impulse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Vec3 {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

impl Vec3 {
    pub(super) const fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }
}

impl Neg for Vec3 {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.x, -self.y, -self.z)
    }
}

impl AddAssign for Vec3 {
    fn add_assign(&mut self, other: Self) {
        *self = Self::new(self.x + other.x, self.y + other.y, self.z + other.z);
    }
}

fn dot3(a: Vec3, b: Vec3) -> f32 {
    a.x * b.x + a.y * b.y + a.z * b.z
}

fn cross3(a: Vec3, b: Vec3) -> Vec3 {
    Vec3::new(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)
}

/// A 2 x 2 matrix, stored by columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mat22 {
    pub(super) ex: Vec2,
    pub(super) ey: Vec2,
}

impl Mat22 {
    pub(super) fn inverse(&self) -> Self {
        let a = self.ex.x;
        let b = self.ey.x;
        let c = self.ex.y;
        let d = self.ey.y;
        let det = inverse_unless_zero(a * d - b * c);
        Self { ex: Vec2::new(det * d, -det * c), ey: Vec2::new(-det * b, det * a) }
    }

    pub(super) fn solve(&self, b: Vec2) -> Vec2 {
        let a11 = self.ex.x;
        let a12 = self.ey.x;
        let a21 = self.ex.y;
        let a22 = self.ey.y;
        let det = inverse_unless_zero(a11 * a22 - a12 * a21);
        Vec2::new(det * (a22 * b.x - a12 * b.y), det * (a11 * b.y - a21 * b.x))
    }

    pub(super) fn mul(&self, v: Vec2) -> Vec2 {
        Vec2::new(self.ex.x * v.x + self.ey.x * v.y, self.ex.y * v.x + self.ey.y * v.y)
    }
}

/// A 3 x 3 matrix, stored by columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mat33 {
    pub(super) ex: Vec3,
    pub(super) ey: Vec3,
    pub(super) ez: Vec3,
}

impl Mat33 {
    pub(super) fn solve33(&self, b: Vec3) -> Vec3 {
        let Self { ex, ey, ez } = *self;
        let ey_ez = cross3(ey, ez);
        let det = inverse_unless_zero(dot3(ex, ey_ez));
        Vec3::new(det * dot3(b, ey_ez), det * dot3(ex, cross3(b, ez)), det * dot3(ex, cross3(ey, b)))
    }

    /// Solves with the upper left 2 x 2 matrix.
    pub(super) fn solve22(&self, b: Vec2) -> Vec2 {
        let upper_left = Mat22 { ex: Vec2::new(self.ex.x, self.ex.y), ey: Vec2::new(self.ey.x, self.ey.y) };
        upper_left.solve(b)
    }
}

fn inverse_unless_zero(det: f32) -> f32 {
    if det != 0.0 { 1.0 / det } else { det }
}

/// A rotation, stored as its sine and cosine.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rot {
    pub(super) s: f32,
    pub(super) c: f32,
}

impl Rot {
    pub(super) fn new(angle: f32) -> Self {
        Self { s: angle.sin(), c: angle.cos() }
    }

    pub(super) fn mul(self, v: Vec2) -> Vec2 {
        Vec2::new(self.c * v.x - self.s * v.y, self.s * v.x + self.c * v.y)
    }

    /// Applies the inverse rotation.
    pub(super) fn mul_t(self, v: Vec2) -> Vec2 {
        Vec2::new(self.c * v.x + self.s * v.y, -self.s * v.x + self.c * v.y)
    }
}

/// A rotation followed by a translation: from body coordinates to world coordinates.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Transform {
    pub(super) p: Vec2,
    pub(super) q: Rot,
}

impl Transform {
    /// The transform of a body whose centre of mass, `local` in its own coordinates, is at `center`.
    pub(super) fn around(center: Vec2, angle: f32, local: Vec2) -> Self {
        let q = Rot::new(angle);
        Self { p: center - q.mul(local), q }
    }

    pub(super) fn mul(&self, v: Vec2) -> Vec2 {
        Vec2::new((self.q.c * v.x - self.q.s * v.y) + self.p.x, (self.q.s * v.x + self.q.c * v.y) + self.p.y)
    }

    /// Maps world coordinates to body coordinates.
    pub(super) fn mul_t(&self, v: Vec2) -> Vec2 {
        let px = v.x - self.p.x;
        let py = v.y - self.p.y;
        Vec2::new(self.q.c * px + self.q.s * py, -self.q.s * px + self.q.c * py)
    }

    /// Returns `other` relative to this transform.
    pub(super) fn mul_t_transform(&self, other: &Self) -> Self {
        let q = self.q;
        let r = other.q;
        Self { q: Rot { s: q.c * r.s - q.s * r.c, c: q.c * r.c + q.s * r.s }, p: q.mul_t(other.p - self.p) }
    }
}

/// Motion of a body in one step: its centre of mass moves from `c0` to `c` and its angle from `a0` to `a`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sweep {
    pub(super) local_center: Vec2,
    pub(super) c0: Vec2,
    pub(super) c: Vec2,
    pub(super) a0: f32,
    pub(super) a: f32,
    /// Fraction of the step at which `c0` and `a0` hold.
    pub(super) alpha0: f32,
}

impl Sweep {
    /// Returns the transform after the fraction `beta` of the motion.
    pub(super) fn transform(&self, beta: f32) -> Transform {
        let p = (1.0 - beta) * self.c0 + beta * self.c;
        Transform::around(p, (1.0 - beta) * self.a0 + beta * self.a, self.local_center)
    }

    /// Moves the start of the motion to the fraction `alpha` of the step.
    pub(super) fn advance(&mut self, alpha: f32) {
        let beta = (alpha - self.alpha0) / (1.0 - self.alpha0);
        self.c0 = (1.0 - beta) * self.c0 + beta * self.c;
        self.a0 = (1.0 - beta) * self.a0 + beta * self.a;
        self.alpha0 = alpha;
    }

    /// Subtracts whole turns from both angles.
    pub(super) fn normalize(&mut self) {
        let two_pi = 2.0 * std::f32::consts::PI;
        let d = two_pi * (self.a0 / two_pi).floor();
        self.a0 -= d;
        self.a -= d;
    }
}

/// An axis-aligned bounding box (AABB).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Aabb {
    pub(super) lower: Vec2,
    pub(super) upper: Vec2,
}

impl Aabb {
    pub(super) fn combine(&self, other: &Self) -> Self {
        Self { lower: lower(self.lower, other.lower), upper: upper(self.upper, other.upper) }
    }

    pub(super) fn perimeter(&self) -> f32 {
        let wx = self.upper.x - self.lower.x;
        let wy = self.upper.y - self.lower.y;
        2.0 * (wx + wy)
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        self.lower.x <= other.lower.x
            && self.lower.y <= other.lower.y
            && other.upper.x <= self.upper.x
            && other.upper.y <= self.upper.y
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let d1 = other.lower - self.upper;
        let d2 = self.lower - other.upper;
        !(d1.x > 0.0 || d1.y > 0.0 || d2.x > 0.0 || d2.y > 0.0)
    }
}
