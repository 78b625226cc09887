//! Arithmetic of the fused engine and the optimizers, in plain memory, with the vector instructions of the processor.

mod adam;
mod arch;
mod elementwise;
mod gradients;
mod join;
mod products;
mod rmsprop;
mod share;

pub(crate) use adam::Adam;
pub(crate) use arch::{arch, check_arch};
pub use elementwise::sum;
pub(crate) use elementwise::{approach, exp, ln, norm, tanh};
pub(crate) use gradients::{outer, outer_room};
pub(crate) use join::{is_helper_awake, join};
pub(crate) use products::{LANES, Left, panels, panels_room, product, product_relu, stride};
pub(crate) use rmsprop::{Averages, MomentumStep};
pub(crate) use share::share_out;
