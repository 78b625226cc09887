//! The engines that run networks and losses: libtorch, and plain memory for small networks on the CPU.

pub(crate) mod backward;
pub(crate) mod buffer;
pub(crate) mod cut;
pub(crate) mod kernels;
pub(crate) mod tape;
