//! The two engines that run networks and losses. Two private traits hide from the learner which engine runs.
//!
//! * **Fused** (`fused.rs`), on the CPU, for fully connected, convolutional and recurrent networks: forward, loss and backward
//!   in plain memory that is used again, with the vector instructions that the processor has and no libtorch call and no allocation
//!   per row. Small networks spend most of libtorch's time on dispatch, not on
//!   arithmetic.
//! * **libtorch** (`torch`), for everything else: a GPU, losses over tensors.
//!
//! Both cut a batch into pieces whose number depends on the rows alone. Pieces run in parallel and their gradients are
//! added in order, so the bits do not depend on the number of cores. libtorch's own threads are not used: they spin at
//! barriers, and when another process holds one of the cores they run tens of times slower, while pieces only wait.

mod atoms;
mod backend;
mod backward;
mod buffer;
mod chains;
mod conv_place;
mod convolution;
mod cut;
mod fused;
mod fused_graph;
mod joined;
mod layers;
mod load;
mod noisy;
mod norm;
mod places;
mod quantiles;
mod recurrence;
mod scan;
mod tape;
mod together;
#[cfg_attr(not(feature = "torch"), path = "no_torch.rs")]
mod torch;

pub(crate) use backend::Backend;
pub use backend::Report;
pub(crate) use fused::Fused;
pub use norm::EPSILON as NORM_EPSILON;
pub use together::Together;
pub(crate) use torch::libtorch;
#[cfg(feature = "torch")]
pub(crate) use torch::{forward, of_outputs};
