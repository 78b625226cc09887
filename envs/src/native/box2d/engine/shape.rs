//! Shapes: edges and convex polygons.

use serde::{Deserialize, Serialize};

use super::math::{Aabb, Transform, Vec2, cross, cross_with, dot, lower, upper};
use super::{distance::DistanceProxy, settings::POLYGON_RADIUS};

/// Largest number of vertices of a polygon in this port; the original allows 16.
pub(in crate::native) const MAX_VERTICES: usize = 8;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::native) enum Shape {
    Edge(Edge),
    Polygon(Polygon),
}

/// A line segment between two points, without neighbours.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(in crate::native) struct Edge {
    pub(in crate::native) vertices: [Vec2; 2],
}

/// A convex polygon with counterclockwise vertices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::native) struct Polygon {
    pub(super) count: usize,
    pub(super) vertices: [Vec2; MAX_VERTICES],
    pub(super) normals: [Vec2; MAX_VERTICES],
    pub(super) centroid: Vec2,
}

/// Mass, centre of mass, and moment of inertia about the body's origin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MassData {
    pub(super) mass: f32,
    pub(super) center: Vec2,
    pub(super) inertia: f32,
}

impl Shape {
    pub(super) fn aabb(&self, transform: &Transform) -> Aabb {
        let vertices = self.vertices();
        let first = transform.mul(vertices[0]);
        let mut aabb = Aabb { lower: first, upper: first };
        for &vertex in &vertices[1..] {
            let vertex = transform.mul(vertex);
            aabb = Aabb { lower: lower(aabb.lower, vertex), upper: upper(aabb.upper, vertex) };
        }
        let skin = Vec2::new(POLYGON_RADIUS, POLYGON_RADIUS);
        Aabb { lower: aabb.lower - skin, upper: aabb.upper + skin }
    }

    pub(in crate::native) fn vertices(&self) -> &[Vec2] {
        match self {
            Self::Edge(edge) => &edge.vertices,
            Self::Polygon(polygon) => polygon.vertices(),
        }
    }

    pub(super) fn proxy(&self) -> DistanceProxy<'_> {
        DistanceProxy { vertices: self.vertices() }
    }

    pub(super) fn mass_data(&self, density: f32) -> MassData {
        match self {
            Self::Edge(edge) => {
                MassData { center: 0.5 * (edge.vertices[0] + edge.vertices[1]), ..MassData::default() }
            }
            Self::Polygon(polygon) => polygon.mass_data(density),
        }
    }

    /// Casts a ray from `p1` to `p2`; returns the fraction of it at the first hit, if that is at most `max_fraction`.
    pub(super) fn ray_cast(
        &self,
        p1: Vec2,
        p2: Vec2,
        max_fraction: f32,
        transform: &Transform,
    ) -> Option<f32> {
        let p1 = transform.q.mul_t(p1 - transform.p);
        let d = transform.q.mul_t(p2 - transform.p) - p1;
        match self {
            Self::Edge(edge) => edge.ray_cast(p1, d, max_fraction),
            Self::Polygon(polygon) => polygon.ray_cast(p1, d, max_fraction),
        }
    }
}

impl Edge {
    pub(in crate::native) fn new(from: Vec2, to: Vec2) -> Self {
        Self { vertices: [from, to] }
    }

    fn ray_cast(&self, p1: Vec2, d: Vec2, max_fraction: f32) -> Option<f32> {
        let [v1, v2] = self.vertices;
        let e = v2 - v1;
        let mut normal = Vec2::new(e.y, -e.x);
        normal.normalize();
        let numerator = dot(normal, v1 - p1);
        let denominator = dot(normal, d);
        if denominator == 0.0 {
            return None;
        }
        let t = numerator / denominator;
        if t < 0.0 || max_fraction < t {
            return None;
        }
        let q = p1 + t * d;
        let rr = dot(e, e);
        if rr == 0.0 {
            return None;
        }
        let s = dot(q - v1, e) / rr;
        (0.0..=1.0).contains(&s).then_some(t)
    }
}

impl Polygon {
    pub(super) fn vertices(&self) -> &[Vec2] {
        &self.vertices[..self.count]
    }

    pub(super) fn normals(&self) -> &[Vec2] {
        &self.normals[..self.count]
    }

    /// Index of the vertex after vertex `i`.
    pub(super) fn next(&self, i: usize) -> usize {
        if i + 1 < self.count { i + 1 } else { 0 }
    }

    /// Index of the vertex before vertex `i`.
    pub(super) fn previous(&self, i: usize) -> usize {
        if i > 0 { i - 1 } else { self.count - 1 }
    }

    /// Creates a rectangle around the origin with half sides `hx` and `hy`. Its vertices start at the lower left, unlike
    /// those of [`hull`](Self::hull).
    pub(in crate::native) fn rectangle(hx: f32, hy: f32) -> Self {
        let mut polygon = Self { count: 4, ..Self::default() };
        polygon.vertices[..4].copy_from_slice(&[
            Vec2::new(-hx, -hy),
            Vec2::new(hx, -hy),
            Vec2::new(hx, hy),
            Vec2::new(-hx, hy),
        ]);
        polygon.normals[..4].copy_from_slice(&[
            Vec2::new(0.0, -1.0),
            Vec2::new(1.0, 0.0),
            Vec2::new(0.0, 1.0),
            Vec2::new(-1.0, 0.0),
        ]);
        polygon
    }

    /// Creates the convex hull of at most [`MAX_VERTICES`] points; its vertices start at the rightmost point.
    pub(in crate::native) fn hull(points: &[Vec2]) -> Self {
        let mut first = 0;
        for (i, point) in points.iter().enumerate() {
            let rightmost = points[first];
            if point.x > rightmost.x || (point.x == rightmost.x && point.y < rightmost.y) {
                first = i;
            }
        }
        let mut polygon = Self::default();
        let mut current = first;
        while polygon.count < MAX_VERTICES {
            polygon.vertices[polygon.count] = points[current];
            polygon.count += 1;
            let mut next = 0;
            for j in 1..points.len() {
                if next == current {
                    next = j;
                    continue;
                }
                let r = points[next] - points[current];
                let v = points[j] - points[current];
                let c = cross(r, v);
                if c < 0.0 || (c == 0.0 && v.length_squared() > r.length_squared()) {
                    next = j;
                }
            }
            current = next;
            if next == first {
                break;
            }
        }
        for i in 0..polygon.count {
            let edge = polygon.vertices[polygon.next(i)] - polygon.vertices[i];
            polygon.normals[i] = cross_with(edge, 1.0);
            polygon.normals[i].normalize();
        }
        polygon.centroid = centroid(polygon.vertices());
        polygon
    }

    fn mass_data(&self, density: f32) -> MassData {
        const THIRD: f32 = 1.0 / 3.0;
        let mut center = Vec2::default();
        let mut s = Vec2::default();
        let mut area = 0.0_f32;
        let mut inertia = 0.0_f32;
        for &vertex in self.vertices() {
            s += vertex;
        }
        s = (1.0 / self.count as f32) * s;
        for i in 0..self.count {
            let e1 = self.vertices[i] - s;
            let e2 = self.vertices[self.next(i)] - s;
            let d = cross(e1, e2);
            let triangle_area = 0.5 * d;
            area += triangle_area;
            center += (triangle_area * THIRD) * (e1 + e2);
            let intx2 = e1.x * e1.x + e2.x * e1.x + e2.x * e2.x;
            let inty2 = e1.y * e1.y + e2.y * e1.y + e2.y * e2.y;
            inertia += (0.25 * THIRD * d) * (intx2 + inty2);
        }
        let mass = density * area;
        center = (1.0 / area) * center;
        let from_origin = center + s;
        let mut inertia = density * inertia;
        inertia += mass * (dot(from_origin, from_origin) - dot(center, center));
        MassData { mass, center: from_origin, inertia }
    }

    fn ray_cast(&self, p1: Vec2, d: Vec2, max_fraction: f32) -> Option<f32> {
        let mut lower = 0.0;
        let mut upper = max_fraction;
        let mut entered = false;
        for (&normal, &vertex) in self.normals().iter().zip(self.vertices()) {
            let numerator = dot(normal, vertex - p1);
            let denominator = dot(normal, d);
            if denominator == 0.0 {
                if numerator < 0.0 {
                    return None;
                }
            } else if denominator < 0.0 && numerator < lower * denominator {
                lower = numerator / denominator;
                entered = true;
            } else if denominator > 0.0 && numerator < upper * denominator {
                upper = numerator / denominator;
            }
            if upper < lower {
                return None;
            }
        }
        entered.then_some(lower)
    }
}

fn centroid(vertices: &[Vec2]) -> Vec2 {
    const THIRD: f32 = 1.0 / 3.0;
    let mut c = Vec2::default();
    let mut area = 0.0_f32;
    let origin = Vec2::default();
    for (i, &p2) in vertices.iter().enumerate() {
        let p3 = vertices[(i + 1) % vertices.len()];
        let triangle_area = 0.5 * cross(p2 - origin, p3 - origin);
        area += triangle_area;
        c += (triangle_area * THIRD) * (origin + p2 + p3);
    }
    (1.0 / area) * c
}
