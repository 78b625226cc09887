//! MiniGrid: small grid worlds with doors, keys, boxes and balls, of which the agent sees a part.

mod cell;
mod door_tasks;
mod env;
mod goal_tasks;
mod grid;
mod hall_tasks;
mod ids;
mod multi_room;
mod object_tasks;
mod observation;
mod room;
mod room_tasks;
mod rooms;
mod saved;
mod scalar;
mod settings;
mod task;
mod tiles;
mod view;
mod world;

pub use env::MiniGrid;
pub(crate) use env::entries;
pub use scalar::MiniGridObs;
