//! Constants of Box2D (`b2Settings.h`).

/// Slack in which contacts and joints may rest, in meters.
pub(super) const LINEAR_SLOP: f32 = 0.005;
pub(super) const ANGULAR_SLOP: f32 = 2.0 / 180.0 * std::f32::consts::PI;
/// The skin around every shape.
pub(super) const POLYGON_RADIUS: f32 = 2.0 * LINEAR_SLOP;
