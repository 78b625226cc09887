//! Constants of Box2D (`b2Settings.h`).

/// Tolerated penetration of contacts and error of joints, in meters.
pub(super) const LINEAR_SLOP: f32 = 0.005;
pub(super) const ANGULAR_SLOP: f32 = 2.0 / 180.0 * std::f32::consts::PI;
/// Radius of the skin around every shape, in meters.
pub(super) const POLYGON_RADIUS: f32 = 2.0 * LINEAR_SLOP;
