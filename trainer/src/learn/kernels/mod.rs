//! Arithmetic in plain memory, with the vector instructions of the processor.

mod adam;
mod elementwise;
mod products;
mod share;

pub(crate) use adam::Adam;
pub(crate) use elementwise::{exp, ln, norm, sum, tanh};
pub(crate) use products::{LANES, Left, outer, outer_room, panels, panels_room, product, stride};
pub(crate) use share::share_out;
