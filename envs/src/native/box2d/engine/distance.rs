//! Distance of two convex shapes by the GJK algorithm (Gilbert, Johnson and Keerthi).

use super::math::{Transform, Vec2, cross, cross_of, cross_with, dot};

/// The vertices of a convex shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct DistanceProxy<'a> {
    pub(super) vertices: &'a [Vec2],
}

impl DistanceProxy<'_> {
    /// Index of the vertex farthest along `d`.
    pub(super) fn support(&self, d: Vec2) -> usize {
        let mut best = 0;
        let mut best_value = dot(self.vertices[0], d);
        for (i, &vertex) in self.vertices.iter().enumerate().skip(1) {
            let value = dot(vertex, d);
            if value > best_value {
                best = i;
                best_value = value;
            }
        }
        best
    }
}

/// Final simplex of the last search, from which the next search starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimplexCache {
    metric: f32,
    pub(super) count: usize,
    pub(super) indices: [(usize, usize); 3],
}

#[derive(Clone, Copy, Default)]
struct SimplexVertex {
    w_a: Vec2,
    w_b: Vec2,
    /// The difference `w_b - w_a`.
    w: Vec2,
    /// Barycentric coordinate of the closest point.
    a: f32,
    indices: (usize, usize),
}

struct Simplex {
    v: [SimplexVertex; 3],
    count: usize,
}

/// Two shapes with the transforms of their bodies.
pub(super) struct Shapes<'a> {
    pub(super) proxy_a: DistanceProxy<'a>,
    pub(super) proxy_b: DistanceProxy<'a>,
    pub(super) transform_a: Transform,
    pub(super) transform_b: Transform,
}

impl Shapes<'_> {
    fn vertex(&self, indices: (usize, usize), a: f32) -> SimplexVertex {
        let w_a = self.transform_a.mul(self.proxy_a.vertices[indices.0]);
        let w_b = self.transform_b.mul(self.proxy_b.vertices[indices.1]);
        SimplexVertex { w_a, w_b, w: w_b - w_a, a, indices }
    }

    /// Distance of the shapes without their skins; 0 if they overlap.
    pub(super) fn distance(&self, cache: &mut SimplexCache) -> f32 {
        const MAX_ITERATIONS: usize = 20;
        let mut simplex = Simplex::read(cache, self);
        for _ in 0..MAX_ITERATIONS {
            let count = simplex.count;
            let saved = simplex.v.map(|vertex| vertex.indices);
            match count {
                2 => simplex.solve2(),
                3 => simplex.solve3(),
                _ => {}
            }
            if simplex.count == 3 {
                break;
            }
            let d = simplex.search_direction();
            if d.length_squared() < f32::EPSILON * f32::EPSILON {
                break;
            }
            let indices = (
                self.proxy_a.support(self.transform_a.q.mul_t(-d)),
                self.proxy_b.support(self.transform_b.q.mul_t(d)),
            );
            simplex.v[simplex.count] = self.vertex(indices, 0.0);
            if saved[..count].contains(&indices) {
                break;
            }
            simplex.count += 1;
        }
        let (point_a, point_b) = simplex.witness_points();
        simplex.write(cache);
        (point_a - point_b).length()
    }
}

impl Simplex {
    fn read(cache: &SimplexCache, shapes: &Shapes<'_>) -> Self {
        let mut simplex = Self { v: [SimplexVertex::default(); 3], count: cache.count };
        for (vertex, &indices) in simplex.v.iter_mut().zip(&cache.indices[..cache.count]) {
            *vertex = shapes.vertex(indices, 0.0);
        }
        if simplex.count > 1 {
            let old = cache.metric;
            let new = simplex.metric();
            if new < 0.5 * old || 2.0 * old < new || new < f32::EPSILON {
                simplex.count = 0;
            }
        }
        if simplex.count == 0 {
            simplex.v[0] = shapes.vertex((0, 0), 1.0);
            simplex.count = 1;
        }
        simplex
    }

    fn write(&self, cache: &mut SimplexCache) {
        cache.metric = self.metric();
        cache.count = self.count;
        cache.indices = self.v.map(|vertex| vertex.indices);
    }

    fn search_direction(&self) -> Vec2 {
        let [v1, v2, _] = &self.v;
        if self.count == 1 {
            return -v1.w;
        }
        let e12 = v2.w - v1.w;
        if cross(e12, -v1.w) > 0.0 { cross_of(1.0, e12) } else { cross_with(e12, 1.0) }
    }

    fn witness_points(&self) -> (Vec2, Vec2) {
        let [v1, v2, v3] = &self.v;
        match self.count {
            1 => (v1.w_a, v1.w_b),
            2 => (v1.a * v1.w_a + v2.a * v2.w_a, v1.a * v1.w_b + v2.a * v2.w_b),
            _ => {
                let point = v1.a * v1.w_a + v2.a * v2.w_a + v3.a * v3.w_a;
                (point, point)
            }
        }
    }

    fn metric(&self) -> f32 {
        let [v1, v2, v3] = &self.v;
        match self.count {
            1 => 0.0,
            2 => (v1.w - v2.w).length(),
            _ => cross(v2.w - v1.w, v3.w - v1.w),
        }
    }

    /// Keeps those vertices of a segment that support its point nearest to the origin.
    fn solve2(&mut self) {
        let w1 = self.v[0].w;
        let w2 = self.v[1].w;
        let e12 = w2 - w1;
        let d12_2 = -dot(w1, e12);
        if d12_2 <= 0.0 {
            return self.keep_one(0);
        }
        let d12_1 = dot(w2, e12);
        if d12_1 <= 0.0 {
            return self.keep_one(1);
        }
        self.keep_two(0, d12_1, 1, d12_2);
    }

    /// Keeps those vertices of a triangle that support its point nearest to the origin.
    fn solve3(&mut self) {
        let [w1, w2, w3] = self.v.map(|vertex| vertex.w);
        let e12 = w2 - w1;
        let d12_1 = dot(w2, e12);
        let d12_2 = -dot(w1, e12);
        let e13 = w3 - w1;
        let d13_1 = dot(w3, e13);
        let d13_2 = -dot(w1, e13);
        let e23 = w3 - w2;
        let d23_1 = dot(w3, e23);
        let d23_2 = -dot(w2, e23);
        let n123 = cross(e12, e13);
        let d123_1 = n123 * cross(w2, w3);
        let d123_2 = n123 * cross(w3, w1);
        let d123_3 = n123 * cross(w1, w2);
        if d12_2 <= 0.0 && d13_2 <= 0.0 {
            self.keep_one(0);
        } else if d12_1 > 0.0 && d12_2 > 0.0 && d123_3 <= 0.0 {
            self.keep_two(0, d12_1, 1, d12_2);
        } else if d13_1 > 0.0 && d13_2 > 0.0 && d123_2 <= 0.0 {
            self.keep_two(0, d13_1, 2, d13_2);
        } else if d12_1 <= 0.0 && d23_2 <= 0.0 {
            self.keep_one(1);
        } else if d13_1 <= 0.0 && d23_1 <= 0.0 {
            self.keep_one(2);
        } else if d23_1 > 0.0 && d23_2 > 0.0 && d123_1 <= 0.0 {
            // The third vertex replaces the first, as in the original.
            self.keep_two(2, d23_2, 1, d23_1);
        } else {
            let inverse = 1.0 / (d123_1 + d123_2 + d123_3);
            self.v[0].a = d123_1 * inverse;
            self.v[1].a = d123_2 * inverse;
            self.v[2].a = d123_3 * inverse;
        }
    }

    fn keep_one(&mut self, vertex: usize) {
        self.v[vertex].a = 1.0;
        self.v[0] = self.v[vertex];
        self.count = 1;
    }

    /// Keeps the vertices `first` and `second`, in this order.
    fn keep_two(&mut self, first: usize, share1: f32, second: usize, share2: f32) {
        let inverse = 1.0 / (share1 + share2);
        let mut v1 = self.v[first];
        let mut v2 = self.v[second];
        v1.a = share1 * inverse;
        v2.a = share2 * inverse;
        self.v[0] = v1;
        self.v[1] = v2;
        self.count = 2;
    }
}
