//! The part of Box2D 2.3.0 that Gymnasium's LunarLander and BipedalWalker need, ported from C++ bit for bit.
//!
//! Every sum and product is computed in the original's order, in single precision. Other orders decide bits too: contacts
//! are visited from the newest to the oldest, as are bodies and joints, and new pairs of fixtures are sorted by their
//! nodes in the tree of bounding boxes. So the tree equals the original's node by node, and a world that is emptied and
//! filled again reuses the tree's free nodes in the original's order.
//!
//! Features that these environments never use are left out: circles and chains, neighbours of an edge ("ghost vertices"),
//! joints other than the revolute joint with a motor and limits, sensors, bullets, damping, kinematic bodies, and the
//! destruction of a single body.

mod body;
mod broad_phase;
mod check;
mod collide_edge;
mod collide_polygons;
mod contact;
mod contact_solver;
mod distance;
mod island;
mod manifold;
mod math;
mod revolute_joint;
mod settings;
mod shape;
mod time_of_impact;
mod time_step;
mod toi;
mod tree;
mod world;

pub use body::BodyState;
pub(super) use body::{BodyDef, FixtureDef};
pub(super) use math::Vec2;
pub(super) use revolute_joint::RevoluteJointDef;
pub(super) use shape::{Edge, Polygon, Shape};
pub(super) use world::World;
