//! The part of Box2D 2.3.0 that Gymnasium's LunarLander and BipedalWalker need, ported from C++ bit for bit.
//!
//! Every sum and product is taken in the original's order, in single precision. Order decides bits elsewhere too: contacts
//! are visited from the newest to the oldest, bodies and joints likewise, and new pairs of fixtures come sorted by their
//! nodes in the tree of bounding boxes. So that tree is the original's to the last node, and a world that is emptied and
//! filled again goes on with the tree's order of free nodes.
//!
//! Left out is what these environments never reach: circles and chains, the neighbors of an edge ("ghost vertices"), joints
//! that are no revolute joint with a motor and limits, sensors, bullets, damping, kinematic bodies, and the destruction of
//! one body alone.

mod body;
mod broad_phase;
mod collide_edge;
mod collide_polygons;
mod contact;
mod contact_solver;
mod distance;
mod island;
mod manifold;
mod math;
mod revolute_joint;
mod saved;
mod shape;
mod time_of_impact;
mod toi;
mod tree;
mod world;

pub use body::BodyState;
pub(super) use body::{BodyDef, FixtureDef};
pub(super) use math::Vec2;
pub(super) use revolute_joint::RevoluteJointDef;
pub(super) use saved::Saved;
pub(super) use shape::{Edge, Polygon, Shape};
pub(super) use world::World;

/// Slack in which contacts and joints may rest, in meters.
const LINEAR_SLOP: f32 = 0.005;
const ANGULAR_SLOP: f32 = 2.0 / 180.0 * std::f32::consts::PI;
/// The skin around every shape.
const POLYGON_RADIUS: f32 = 2.0 * LINEAR_SLOP;
