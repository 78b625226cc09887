//! Time of impact of two moving shapes.

use super::{
    distance::{DistanceProxy, Shapes, SimplexCache},
    math::{Sweep, Transform, Vec2, abs, cross_with, dot, max},
    settings::{LINEAR_SLOP, POLYGON_RADIUS},
};

/// A shape with the motion of its body in one step.
#[derive(Clone, Copy)]
pub(super) struct Moving<'a> {
    pub(super) proxy: DistanceProxy<'a>,
    pub(super) sweep: Sweep,
}

/// Returns the fraction of the motion after which `a` and `b` touch. `None` if they do not touch, overlap from the start,
/// or the search does not converge.
pub(super) fn time_of_impact(mut a: Moving<'_>, mut b: Moving<'_>) -> Option<f32> {
    const MAX_ITERATIONS: usize = 20;
    const MAX_PUSH_BACKS: usize = 16;
    const TOLERANCE: f32 = 0.25 * LINEAR_SLOP;
    a.sweep.normalize();
    b.sweep.normalize();
    let total_radius = POLYGON_RADIUS + POLYGON_RADIUS;
    let target = max(LINEAR_SLOP, total_radius - 3.0 * LINEAR_SLOP);
    let mut t1 = 0.0;
    let mut cache = SimplexCache::default();
    for _ in 0..MAX_ITERATIONS {
        let shapes = Shapes {
            proxy_a: a.proxy,
            proxy_b: b.proxy,
            transform_a: a.sweep.transform(t1),
            transform_b: b.sweep.transform(t1),
        };
        let distance = shapes.distance(&mut cache);
        if distance <= 0.0 {
            return None;
        }
        if distance < target + TOLERANCE {
            return Some(t1);
        }
        let separation = Separation::new(&cache, &shapes, a, b);
        let mut t2 = 1.0;
        for _ in 0..MAX_PUSH_BACKS {
            let (indices, mut s2) = separation.find_min(t2);
            if s2 > target + TOLERANCE {
                return None;
            }
            if s2 > target - TOLERANCE {
                t1 = t2;
                break;
            }
            let mut s1 = separation.evaluate(indices, t1);
            if s1 < target - TOLERANCE {
                return None;
            }
            if s1 <= target + TOLERANCE {
                return Some(t1);
            }
            let mut a1 = t1;
            let mut a2 = t2;
            for root_iteration in 0..50 {
                let t = if root_iteration & 1 == 1 {
                    a1 + (target - s1) * (a2 - a1) / (s2 - s1)
                } else {
                    0.5 * (a1 + a2)
                };
                let s = separation.evaluate(indices, t);
                if abs(s - target) < TOLERANCE {
                    t2 = t;
                    break;
                }
                if s > target {
                    a1 = t;
                    s1 = s;
                } else {
                    a2 = t;
                    s2 = s;
                }
            }
        }
    }
    None
}

#[derive(Clone, Copy)]
enum Kind {
    Points,
    FaceA,
    FaceB,
}

/// The separation of two shapes along an axis, as a function of time.
struct Separation<'a> {
    a: Moving<'a>,
    b: Moving<'a>,
    kind: Kind,
    local_point: Vec2,
    axis: Vec2,
}

impl<'a> Separation<'a> {
    fn new(cache: &SimplexCache, shapes: &Shapes<'_>, a: Moving<'a>, b: Moving<'a>) -> Self {
        let [first, second, _] = cache.indices;
        let transform_a = &shapes.transform_a;
        let transform_b = &shapes.transform_b;
        let vertices_a = a.proxy.vertices;
        let vertices_b = b.proxy.vertices;
        if cache.count == 1 {
            let point_a = transform_a.mul(vertices_a[first.0]);
            let point_b = transform_b.mul(vertices_b[first.1]);
            let mut axis = point_b - point_a;
            axis.normalize();
            return Self { a, b, kind: Kind::Points, local_point: Vec2::default(), axis };
        }
        if first.0 == second.0 {
            let face = (vertices_b[first.1], vertices_b[second.1]);
            let (local_point, axis) = face_axis(face, transform_b, transform_a.mul(vertices_a[first.0]));
            Self { a, b, kind: Kind::FaceB, local_point, axis }
        } else {
            let face = (vertices_a[first.0], vertices_a[second.0]);
            let (local_point, axis) = face_axis(face, transform_a, transform_b.mul(vertices_b[first.1]));
            Self { a, b, kind: Kind::FaceA, local_point, axis }
        }
    }

    fn transforms(&self, t: f32) -> (Transform, Transform) {
        (self.a.sweep.transform(t), self.b.sweep.transform(t))
    }

    /// Returns the pair of vertices with the smallest separation at time `t`, and that separation.
    fn find_min(&self, t: f32) -> ((usize, usize), f32) {
        let (transform_a, transform_b) = self.transforms(t);
        let indices = match self.kind {
            Kind::Points => (
                self.a.proxy.support(transform_a.q.mul_t(self.axis)),
                self.b.proxy.support(transform_b.q.mul_t(-self.axis)),
            ),
            Kind::FaceA => {
                let normal = transform_a.q.mul(self.axis);
                (0, self.b.proxy.support(transform_b.q.mul_t(-normal)))
            }
            Kind::FaceB => {
                let normal = transform_b.q.mul(self.axis);
                (self.a.proxy.support(transform_a.q.mul_t(-normal)), 0)
            }
        };
        (indices, self.separation(indices, &transform_a, &transform_b))
    }

    /// Returns the separation of a given pair of vertices at time `t`.
    fn evaluate(&self, indices: (usize, usize), t: f32) -> f32 {
        let (transform_a, transform_b) = self.transforms(t);
        self.separation(indices, &transform_a, &transform_b)
    }

    fn separation(&self, (i, j): (usize, usize), transform_a: &Transform, transform_b: &Transform) -> f32 {
        let vertices_a = self.a.proxy.vertices;
        let vertices_b = self.b.proxy.vertices;
        match self.kind {
            Kind::Points => dot(transform_b.mul(vertices_b[j]) - transform_a.mul(vertices_a[i]), self.axis),
            Kind::FaceA => {
                let normal = transform_a.q.mul(self.axis);
                dot(transform_b.mul(vertices_b[j]) - transform_a.mul(self.local_point), normal)
            }
            Kind::FaceB => {
                let normal = transform_b.q.mul(self.axis);
                dot(transform_a.mul(vertices_a[i]) - transform_b.mul(self.local_point), normal)
            }
        }
    }
}

/// Returns the middle of a face and its normal towards `point`, in the coordinates of the face's body.
fn face_axis((v1, v2): (Vec2, Vec2), transform: &Transform, point: Vec2) -> (Vec2, Vec2) {
    let mut axis = cross_with(v2 - v1, 1.0);
    axis.normalize();
    let normal = transform.q.mul(axis);
    let local_point = 0.5 * (v1 + v2);
    let s = dot(point - transform.mul(local_point), normal);
    (local_point, if s < 0.0 { -axis } else { axis })
}
