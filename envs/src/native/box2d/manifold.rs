//! Where two shapes touch.

use super::{
    POLYGON_RADIUS,
    math::{Transform, Vec2, dot},
};

/// Which features of two shapes make a point: contacts keep their impulses by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContactId {
    pub(super) index_a: u8,
    pub(super) index_b: u8,
    /// A face of A, not a corner.
    pub(super) face_a: bool,
    /// A face of B, not a corner.
    pub(super) face_b: bool,
}

impl ContactId {
    /// Corner `index_b` of B on face `index_a` of A.
    pub(super) fn face_vertex(index_a: usize, index_b: usize) -> Self {
        Self { index_a: index_a as u8, index_b: index_b as u8, face_a: true, face_b: false }
    }

    /// Corner `index_a` of A on face `index_b` of B.
    pub(super) fn vertex_face(index_a: usize, index_b: usize) -> Self {
        Self { index_a: index_a as u8, index_b: index_b as u8, face_a: false, face_b: true }
    }

    pub(super) fn flipped(self) -> Self {
        Self { index_a: self.index_b, index_b: self.index_a, face_a: self.face_b, face_b: self.face_a }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ManifoldPoint {
    pub(super) local_point: Vec2,
    pub(super) normal_impulse: f32,
    pub(super) tangent_impulse: f32,
    pub(super) id: ContactId,
}

/// Up to two points in which a face of one shape touches the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manifold {
    pub(super) points: [ManifoldPoint; 2],
    pub(super) local_normal: Vec2,
    pub(super) local_point: Vec2,
    /// The face is B's, not A's.
    pub(super) face_b: bool,
    pub(super) count: usize,
}

impl Manifold {
    pub(super) fn points(&self) -> &[ManifoldPoint] {
        &self.points[..self.count]
    }

    /// The normal from A to B, and the points, in the coordinates of the world.
    pub(super) fn in_world(&self, transform_a: &Transform, transform_b: &Transform) -> (Vec2, [Vec2; 2]) {
        let (face, other) = if self.face_b { (transform_b, transform_a) } else { (transform_a, transform_b) };
        let normal = face.q.mul(self.local_normal);
        let plane_point = face.mul(self.local_point);
        let mut points = [Vec2::default(); 2];
        for (point, from) in points.iter_mut().zip(self.points()) {
            let clip_point = other.mul(from.local_point);
            let on_face = clip_point + (POLYGON_RADIUS - dot(clip_point - plane_point, normal)) * normal;
            let on_other = clip_point - POLYGON_RADIUS * normal;
            *point = 0.5 * (on_face + on_other);
        }
        (if self.face_b { -normal } else { normal }, points)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClipVertex {
    pub(super) v: Vec2,
    pub(super) id: ContactId,
}

/// The part of a segment behind a line; `None` when fewer than two points are left.
pub(super) fn clip_segment_to_line(
    segment: &[ClipVertex; 2],
    normal: Vec2,
    offset: f32,
    vertex_a: usize,
) -> Option<[ClipVertex; 2]> {
    let [first, second] = *segment;
    let distance0 = dot(normal, first.v) - offset;
    let distance1 = dot(normal, second.v) - offset;
    let crossing = || {
        let interp = distance0 / (distance0 - distance1);
        let v = first.v + interp * (second.v - first.v);
        ClipVertex { v, id: ContactId::vertex_face(vertex_a, first.id.index_b as usize) }
    };
    match (distance0 <= 0.0, distance1 <= 0.0) {
        (true, true) => Some(*segment),
        (true, false) if distance0 * distance1 < 0.0 => Some([first, crossing()]),
        (false, true) if distance0 * distance1 < 0.0 => Some([second, crossing()]),
        _ => None,
    }
}
