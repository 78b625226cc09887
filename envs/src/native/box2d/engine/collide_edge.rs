//! Collision of an edge with a polygon.

use super::{
    manifold::{ClipVertex, ContactId, Manifold, clip_segment_to_line},
    math::{Transform, Vec2, dot, min},
    settings::{ANGULAR_SLOP, POLYGON_RADIUS},
    shape::{Edge, MAX_VERTICES, Polygon},
};

const RADIUS: f32 = 2.0 * POLYGON_RADIUS;

/// The face whose normal is the axis of largest separation.
enum Axis {
    Edge,
    Polygon(usize),
}

/// The edge and the polygon in the coordinates of the edge.
struct Collider {
    count: usize,
    vertices: [Vec2; MAX_VERTICES],
    normals: [Vec2; MAX_VERTICES],
    v1: Vec2,
    v2: Vec2,
    /// Normal of the side of the edge on which the polygon lies.
    normal: Vec2,
    front: bool,
}

pub(super) fn collide_edge_and_polygon(
    manifold: &mut Manifold,
    edge: &Edge,
    transform_a: &Transform,
    polygon: &Polygon,
    transform_b: &Transform,
) {
    manifold.count = 0;
    let transform = transform_a.mul_t_transform(transform_b);
    let collider = Collider::new(edge, polygon, &transform);
    let Some(axis) = collider.axis() else { return };
    let (face, incident) = match axis {
        Axis::Edge => collider.edge_as_reference(),
        Axis::Polygon(index) => collider.polygon_as_reference(index),
    };
    let side_normal1 = Vec2::new(face.normal.y, -face.normal.x);
    let side_normal2 = -side_normal1;
    let side_offset1 = dot(side_normal1, face.v1);
    let side_offset2 = dot(side_normal2, face.v2);
    let Some(clipped) = clip_segment_to_line(&incident, side_normal1, side_offset1, face.i1)
        .and_then(|clipped| clip_segment_to_line(&clipped, side_normal2, side_offset2, face.i2))
    else {
        return;
    };
    manifold.face_b = matches!(axis, Axis::Polygon(..));
    (manifold.local_normal, manifold.local_point) = if manifold.face_b {
        (polygon.normals[face.i1], polygon.vertices[face.i1])
    } else {
        (face.normal, face.v1)
    };
    for vertex in clipped {
        if dot(face.normal, vertex.v - face.v1) <= RADIUS {
            let point = &mut manifold.points[manifold.count];
            (point.local_point, point.id) = if manifold.face_b {
                (vertex.v, vertex.id.flipped())
            } else {
                (transform.mul_t(vertex.v), vertex.id)
            };
            manifold.count += 1;
        }
    }
}

struct ReferenceFace {
    i1: usize,
    i2: usize,
    v1: Vec2,
    v2: Vec2,
    normal: Vec2,
}

impl Collider {
    fn new(edge: &Edge, polygon: &Polygon, transform: &Transform) -> Self {
        let [v1, v2] = edge.vertices;
        let mut direction = v2 - v1;
        direction.normalize();
        let normal = Vec2::new(direction.y, -direction.x);
        let front = dot(normal, transform.mul(polygon.centroid) - v1) >= 0.0;
        let mut vertices = [Vec2::default(); MAX_VERTICES];
        let mut normals = [Vec2::default(); MAX_VERTICES];
        for i in 0..polygon.count {
            vertices[i] = transform.mul(polygon.vertices[i]);
            normals[i] = transform.q.mul(polygon.normals[i]);
        }
        let normal = if front { normal } else { -normal };
        Self { count: polygon.count, vertices, normals, v1, v2, normal, front }
    }

    /// Returns the axis of largest separation; `None` if the shapes do not touch.
    fn axis(&self) -> Option<Axis> {
        const RELATIVE_TOLERANCE: f32 = 0.98;
        const ABSOLUTE_TOLERANCE: f32 = 0.001;
        let edge = self.edge_separation();
        if edge > RADIUS {
            return None;
        }
        match self.polygon_separation() {
            Some((_, polygon)) if polygon > RADIUS => None,
            Some((index, polygon)) if polygon > RELATIVE_TOLERANCE * edge + ABSOLUTE_TOLERANCE => {
                Some(Axis::Polygon(index))
            }
            _ => Some(Axis::Edge),
        }
    }

    fn edge_separation(&self) -> f32 {
        let mut separation = f32::MAX;
        for &vertex in &self.vertices[..self.count] {
            let s = dot(self.normal, vertex - self.v1);
            if s < separation {
                separation = s;
            }
        }
        separation
    }

    /// Returns the polygon's face with the largest separation; `None` if no face is turned towards the edge.
    fn polygon_separation(&self) -> Option<(usize, f32)> {
        let mut best = None;
        let mut separation = -f32::MAX;
        // Without neighbours, both limits of the normal lie behind the edge.
        let limit = -self.normal;
        for i in 0..self.count {
            let n = -self.normals[i];
            let s1 = dot(n, self.vertices[i] - self.v1);
            let s2 = dot(n, self.vertices[i] - self.v2);
            let s = min(s1, s2);
            if s > RADIUS {
                return Some((i, s));
            }
            if dot(n - limit, self.normal) < -ANGULAR_SLOP {
                continue;
            }
            if s > separation {
                separation = s;
                best = Some((i, s));
            }
        }
        best
    }

    /// Takes the edge as the reference face and the polygon's face most opposed to it as the incident one.
    fn edge_as_reference(&self) -> (ReferenceFace, [ClipVertex; 2]) {
        let mut best = 0;
        let mut best_value = dot(self.normal, self.normals[0]);
        for i in 1..self.count {
            let value = dot(self.normal, self.normals[i]);
            if value < best_value {
                best_value = value;
                best = i;
            }
        }
        let next = if best + 1 < self.count { best + 1 } else { 0 };
        let incident =
            [best, next].map(|i| ClipVertex { v: self.vertices[i], id: ContactId::face_vertex(0, i) });
        let (i1, i2, v1, v2) = if self.front { (0, 1, self.v1, self.v2) } else { (1, 0, self.v2, self.v1) };
        (ReferenceFace { i1, i2, v1, v2, normal: self.normal }, incident)
    }

    /// Takes face `index` of the polygon as the reference face and the edge as the incident one.
    fn polygon_as_reference(&self, index: usize) -> (ReferenceFace, [ClipVertex; 2]) {
        let incident = [self.v1, self.v2].map(|v| ClipVertex { v, id: ContactId::vertex_face(0, index) });
        let next = if index + 1 < self.count { index + 1 } else { 0 };
        let v1 = self.vertices[index];
        let v2 = self.vertices[next];
        (ReferenceFace { i1: index, i2: next, v1, v2, normal: self.normals[index] }, incident)
    }
}
