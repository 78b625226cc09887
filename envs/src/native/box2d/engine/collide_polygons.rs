//! Collision of two polygons.

use super::{
    manifold::{ClipVertex, ContactId, Manifold, clip_segment_to_line},
    math::{Transform, Vec2, cross_with, dot},
    settings::POLYGON_RADIUS,
    shape::Polygon,
};

const RADIUS: f32 = POLYGON_RADIUS + POLYGON_RADIUS;

/// A polygon with the transform of its body.
#[derive(Clone, Copy)]
struct Placed<'a> {
    shape: &'a Polygon,
    transform: &'a Transform,
}

pub(super) fn collide_polygons(
    manifold: &mut Manifold,
    polygon_a: &Polygon,
    transform_a: &Transform,
    polygon_b: &Polygon,
    transform_b: &Transform,
) {
    const RELATIVE_TOLERANCE: f32 = 0.98;
    const ABSOLUTE_TOLERANCE: f32 = 0.001;
    manifold.count = 0;
    let a = Placed { shape: polygon_a, transform: transform_a };
    let b = Placed { shape: polygon_b, transform: transform_b };
    let (edge_a, separation_a) = max_separation(a, b);
    if separation_a > RADIUS {
        return;
    }
    let (edge_b, separation_b) = max_separation(b, a);
    if separation_b > RADIUS {
        return;
    }
    let face_b = separation_b > RELATIVE_TOLERANCE * separation_a + ABSOLUTE_TOLERANCE;
    let (one, two, iv1) = if face_b { (b, a, edge_b) } else { (a, b, edge_a) };
    manifold.face_b = face_b;

    let incident = incident_edge(one, iv1, two);
    let iv2 = one.shape.next(iv1);
    let v11 = one.shape.vertices[iv1];
    let v12 = one.shape.vertices[iv2];
    let mut local_tangent = v12 - v11;
    local_tangent.normalize();
    let local_normal = cross_with(local_tangent, 1.0);
    let plane_point = 0.5 * (v11 + v12);
    let tangent = one.transform.q.mul(local_tangent);
    let normal = cross_with(tangent, 1.0);
    let v11 = one.transform.mul(v11);
    let v12 = one.transform.mul(v12);
    let front_offset = dot(normal, v11);
    let side_offset1 = -dot(tangent, v11) + RADIUS;
    let side_offset2 = dot(tangent, v12) + RADIUS;
    let Some(clipped) = clip_segment_to_line(&incident, -tangent, side_offset1, iv1)
        .and_then(|clipped| clip_segment_to_line(&clipped, tangent, side_offset2, iv2))
    else {
        return;
    };
    manifold.local_normal = local_normal;
    manifold.local_point = plane_point;
    for vertex in clipped {
        if dot(normal, vertex.v) - front_offset <= RADIUS {
            let point = &mut manifold.points[manifold.count];
            point.local_point = two.transform.mul_t(vertex.v);
            point.id = if face_b { vertex.id.flipped() } else { vertex.id };
            manifold.count += 1;
        }
    }
}

/// Separation of `two` from face `edge` of `one`.
fn edge_separation(one: Placed<'_>, edge: usize, two: Placed<'_>) -> f32 {
    let normal_world = one.transform.q.mul(one.shape.normals[edge]);
    let normal = two.transform.q.mul_t(normal_world);
    let mut index = 0;
    let mut min_dot = f32::MAX;
    for (i, &vertex) in two.shape.vertices().iter().enumerate() {
        let value = dot(vertex, normal);
        if value < min_dot {
            min_dot = value;
            index = i;
        }
    }
    let v1 = one.transform.mul(one.shape.vertices[edge]);
    let v2 = two.transform.mul(two.shape.vertices[index]);
    dot(v2 - v1, normal_world)
}

/// Returns the face of `one` with the largest separation from `two`, and that separation; a local search from the face
/// turned towards `two`.
fn max_separation(one: Placed<'_>, two: Placed<'_>) -> (usize, f32) {
    let d = two.transform.mul(two.shape.centroid) - one.transform.mul(one.shape.centroid);
    let local = one.transform.q.mul_t(d);
    let mut edge = 0;
    let mut max_dot = -f32::MAX;
    for (i, &normal) in one.shape.normals().iter().enumerate() {
        let value = dot(normal, local);
        if value > max_dot {
            max_dot = value;
            edge = i;
        }
    }
    let separation = edge_separation(one, edge, two);
    let previous = one.shape.previous(edge);
    let next = one.shape.next(edge);
    let before = edge_separation(one, previous, two);
    let after = edge_separation(one, next, two);
    let (mut best, forward) = if before > separation && before > after {
        ((previous, before), false)
    } else if after > separation {
        ((next, after), true)
    } else {
        return (edge, separation);
    };
    loop {
        let edge = if forward { one.shape.next(best.0) } else { one.shape.previous(best.0) };
        let separation = edge_separation(one, edge, two);
        if separation > best.1 {
            best = (edge, separation);
        } else {
            return best;
        }
    }
}

/// Returns the face of `two` that is most opposed to face `edge` of `one`.
fn incident_edge(one: Placed<'_>, edge: usize, two: Placed<'_>) -> [ClipVertex; 2] {
    let normal: Vec2 = two.transform.q.mul_t(one.transform.q.mul(one.shape.normals[edge]));
    let mut index = 0;
    let mut min_dot = f32::MAX;
    for (i, &other) in two.shape.normals().iter().enumerate() {
        let value = dot(normal, other);
        if value < min_dot {
            min_dot = value;
            index = i;
        }
    }
    [index, two.shape.next(index)].map(|i| ClipVertex {
        v: two.transform.mul(two.shape.vertices[i]),
        id: ContactId::face_vertex(edge, i),
    })
}
