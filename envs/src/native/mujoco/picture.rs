//! Pictures of MuJoCo simulations, drawn without a graphics library: one ray per pixel.
//!
//! Spheres, capsules, cylinders, ellipsoids, boxes and planes appear in the colors of the model; planes are chequered. The
//! pictures are simple; MuJoCo's own renderer, which needs OpenGL, also draws shadows and textures.

use super::{
    settings::Camera,
    shapes::{Places, Shapes},
};
use crate::Frame;

type Vector = [f64; 3];

const PLANE: i32 = 0;
const SPHERE: i32 = 2;
const CAPSULE: i32 = 3;
const ELLIPSOID: i32 = 4;
const CYLINDER: i32 = 5;
const BOX: i32 = 6;

/// Vertical field of view in degrees, MuJoCo's default.
const VIEW: f64 = 45.0;
/// Side of a square of the chequered floor, in metres.
const CHEQUER: f64 = 1.0;
const FLOOR: [Vector; 2] = [[0.2, 0.3, 0.4], [0.1, 0.2, 0.3]];
const SKY: [Vector; 2] = [[0.75, 0.82, 0.9], [0.4, 0.55, 0.75]];

/// One shape with its position and orientation; rays are rotated into the shape's own axes.
struct Shape {
    kind: i32,
    size: Vector,
    color: Vector,
    position: Vector,
    /// Rotation matrix as MuJoCo stores it: its columns are the axes of the shape.
    turn: [Vector; 3],
}

struct Hit {
    distance: f64,
    /// Surface normal in the shape's own axes.
    normal: Vector,
}

pub(super) fn draw(
    shapes: &Shapes,
    places: &Places,
    (camera, target): (Camera, Vector),
    width: usize,
    height: usize,
) -> Frame {
    let shapes: Vec<_> = (0..shapes.kinds.len()).filter_map(|i| shape(shapes, places, i)).collect();
    let azimuth = camera.azimuth.to_radians();
    let elevation = camera.elevation.to_radians();
    let forward = [azimuth.cos() * elevation.cos(), azimuth.sin() * elevation.cos(), elevation.sin()];
    let right = [azimuth.sin(), -azimuth.cos(), 0.0];
    let up = cross(right, forward);
    let eye = add(target, scale(forward, -camera.distance));
    let zoom = (VIEW / 2.0).to_radians().tan() / (height as f64 / 2.0);
    let mut rgb = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        for x in 0..width {
            let across = (x as f64 + 0.5 - width as f64 / 2.0) * zoom;
            let upwards = (height as f64 / 2.0 - y as f64 - 0.5) * zoom;
            let ray = unit(add(forward, add(scale(right, across), scale(up, upwards))));
            let color = color_of(&shapes, eye, ray);
            rgb.extend(color.map(|part| (255.0 * part.clamp(0.0, 1.0)) as u8));
        }
    }
    Frame { width, height, rgb }
}

/// The shape with index `i`, or `None` if it is not drawn: invisible shapes, meshes and height fields.
fn shape(shapes: &Shapes, places: &Places, i: usize) -> Option<Shape> {
    let three = |values: &[f64], at: usize| [values[at], values[at + 1], values[at + 2]];
    let rgba = &shapes.colors[4 * i..][..4];
    let kind = shapes.kinds[i];
    (rgba[3] > 0.0 && [PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX].contains(&kind)).then(|| Shape {
        kind,
        size: three(&shapes.sizes, 3 * i),
        color: [rgba[0], rgba[1], rgba[2]].map(f64::from),
        position: three(&places.positions, 3 * i),
        turn: [0, 3, 6].map(|row| three(&places.turns, 9 * i + row)),
    })
}

fn color_of(shapes: &[Shape], eye: Vector, ray: Vector) -> Vector {
    let mut nearest: Option<(f64, Vector)> = None;
    for shape in shapes {
        let from = shape.to_own_axes(sub(eye, shape.position));
        let along = shape.to_own_axes(ray);
        let Some(hit) = shape.hit(from, along) else { continue };
        if nearest.is_some_and(|(distance, _)| distance <= hit.distance) {
            continue;
        }
        let at = add(from, scale(along, hit.distance));
        let normal = shape.turn.map(|row| dot(row, hit.normal));
        // A lamp at the eye, plus light from above.
        let light = 0.35 + 0.4 * dot(normal, ray).abs() + 0.25 * normal[2].max(0.0);
        nearest = Some((hit.distance, scale(shape.color_at(at), light)));
    }
    let sky = add(scale(SKY[0], 1.0 - ray[2].abs()), scale(SKY[1], ray[2].abs()));
    nearest.map_or(sky, |(_, color)| color)
}

impl Shape {
    fn to_own_axes(&self, vector: Vector) -> Vector {
        let turn = &self.turn;
        std::array::from_fn(|axis| {
            turn[0][axis] * vector[0] + turn[1][axis] * vector[1] + turn[2][axis] * vector[2]
        })
    }

    fn color_at(&self, at: Vector) -> Vector {
        if self.kind != PLANE {
            return self.color;
        }
        let chequer = (at[0] / CHEQUER).floor() + (at[1] / CHEQUER).floor();
        FLOOR[usize::from(chequer.rem_euclid(2.0) >= 1.0)]
    }

    /// First point where a ray meets the shape; `from` and `along` are in the shape's own axes.
    fn hit(&self, from: Vector, along: Vector) -> Option<Hit> {
        let [a, b, c] = self.size;
        match self.kind {
            PLANE => {
                let distance = -from[2] / along[2];
                let at = add(from, scale(along, distance));
                // A half-size of 0 means that the plane is infinite in that direction.
                let inside = (a <= 0.0 || at[0].abs() <= a) && (b <= 0.0 || at[1].abs() <= b);
                (distance > 0.0 && along[2] < 0.0 && inside)
                    .then_some(Hit { distance, normal: [0.0, 0.0, 1.0] })
            }
            SPHERE => ellipsoid(from, along, [a; 3]),
            ELLIPSOID => ellipsoid(from, along, [a, b, c]),
            CAPSULE => {
                let caps = [-b, b].map(|end| ellipsoid(sub(from, [0.0, 0.0, end]), along, [a; 3]));
                first(caps.into_iter().chain([tube(from, along, a, b)]))
            }
            CYLINDER => {
                let lids = [-b, b].map(|end| lid(from, along, a, end));
                first(lids.into_iter().chain([tube(from, along, a, b)]))
            }
            _ => cuboid(from, along, [a, b, c]),
        }
    }
}

fn first(hits: impl Iterator<Item = Option<Hit>>) -> Option<Hit> {
    hits.flatten().min_by(|a, b| a.distance.total_cmp(&b.distance))
}

/// The smaller root of `a x^2 + 2 b x + c`, if it is real and positive.
fn root(a: f64, b: f64, c: f64) -> Option<f64> {
    let discriminant = b * b - a * c;
    let root = (-b - discriminant.max(0.0).sqrt()) / a;
    (discriminant >= 0.0 && root > 0.0).then_some(root)
}

fn ellipsoid(from: Vector, along: Vector, radii: Vector) -> Option<Hit> {
    let squeezed = |v: Vector| [v[0] / radii[0], v[1] / radii[1], v[2] / radii[2]];
    let p = squeezed(from);
    let d = squeezed(along);
    let distance = root(dot(d, d), dot(p, d), dot(p, p) - 1.0)?;
    Some(Hit { distance, normal: unit(squeezed(add(p, scale(d, distance)))) })
}

/// Where a ray hits the round side of a cylinder along the z axis with half-length `half`.
fn tube(from: Vector, along: Vector, radius: f64, half: f64) -> Option<Hit> {
    let flat = |v: Vector| [v[0], v[1], 0.0];
    let p = flat(from);
    let d = flat(along);
    let distance = root(dot(d, d), dot(p, d), dot(p, p) - radius * radius)?;
    let inside = (from[2] + distance * along[2]).abs() <= half;
    inside.then(|| Hit { distance, normal: unit(add(p, scale(d, distance))) })
}

fn lid(from: Vector, along: Vector, radius: f64, height: f64) -> Option<Hit> {
    let distance = (height - from[2]) / along[2];
    let [x, y, _] = add(from, scale(along, distance));
    (distance > 0.0 && x * x + y * y <= radius * radius)
        .then_some(Hit { distance, normal: [0.0, 0.0, height.signum()] })
}

fn cuboid(from: Vector, along: Vector, half: Vector) -> Option<Hit> {
    let mut near = f64::NEG_INFINITY;
    let mut far = f64::INFINITY;
    let mut normal = [0.0; 3];
    for axis in 0..3 {
        let sides = [-half[axis], half[axis]].map(|side| (side - from[axis]) / along[axis]);
        let enter = sides[0].min(sides[1]);
        let leave = sides[0].max(sides[1]);
        if enter > near {
            near = enter;
            normal = [0.0; 3];
            normal[axis] = -along[axis].signum();
        }
        far = far.min(leave);
    }
    (near <= far && near > 0.0).then_some(Hit { distance: near, normal })
}

fn add(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] + b[i])
}

fn sub(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

fn scale(a: Vector, by: f64) -> Vector {
    a.map(|x| x * by)
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn unit(a: Vector) -> Vector {
    scale(a, 1.0 / dot(a, a).sqrt())
}
