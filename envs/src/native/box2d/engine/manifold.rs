//! Contact manifolds: the points in which two shapes touch.

use serde::{Deserialize, Serialize};

use super::{
    math::{Transform, Vec2, dot},
    settings::POLYGON_RADIUS,
};

/// Identifies a contact point by the features of both shapes, so that impulses can be kept between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContactId {
    pub(super) index_a: u8,
    pub(super) index_b: u8,
    /// Whether the feature of A is a face; otherwise a vertex.
    pub(super) face_a: bool,
    /// Whether the feature of B is a face; otherwise a vertex.
    pub(super) face_b: bool,
}

impl ContactId {
    /// Vertex `index_b` of B on face `index_a` of A.
    pub(super) fn face_vertex(index_a: usize, index_b: usize) -> Self {
        Self { index_a: index_a as u8, index_b: index_b as u8, face_a: true, face_b: false }
    }

    /// Vertex `index_a` of A on face `index_b` of B.
    pub(super) fn vertex_face(index_a: usize, index_b: usize) -> Self {
        Self { index_a: index_a as u8, index_b: index_b as u8, face_a: false, face_b: true }
    }

    pub(super) fn flipped(self) -> Self {
        Self { index_a: self.index_b, index_b: self.index_a, face_a: self.face_b, face_b: self.face_a }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct ManifoldPoint {
    pub(super) local_point: Vec2,
    pub(super) normal_impulse: f32,
    pub(super) tangent_impulse: f32,
    pub(super) id: ContactId,
}

/// Up to two points in which a face of one shape touches the other shape.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifold {
    pub(super) points: [ManifoldPoint; 2],
    pub(super) local_normal: Vec2,
    pub(super) local_point: Vec2,
    /// Whether the face belongs to B; otherwise to A.
    pub(super) face_b: bool,
    pub(super) count: usize,
}

impl Manifold {
    pub(super) fn points(&self) -> &[ManifoldPoint] {
        &self.points[..self.count]
    }

    /// Returns the normal from A to B and the points, in world coordinates.
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

/// Clips a segment to the half-plane behind a line; `None` if fewer than two points are left.
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
