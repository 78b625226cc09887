//! Where a network computes.

/// The device on which a network computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The processor, with the main memory.
    #[default]
    Cpu,
    /// The graphics card of this number; it needs libtorch (the feature `torch`).
    Cuda(usize),
}
