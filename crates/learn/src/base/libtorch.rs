//! What a process asks of libtorch when it starts.

/// Whether this build has libtorch.
pub const IS_HERE: bool = cfg!(feature = "torch");

/// Leaves libtorch one thread: for small networks its own threads cost more than they save; see `learner`.
pub fn one_thread() {
    #[cfg(feature = "torch")]
    tch::set_num_threads(1);
}

/// Whether libtorch finds a GPU.
#[inline]
pub fn has_gpu() -> bool {
    #[cfg(feature = "torch")]
    return tch::Cuda::is_available();
    #[cfg(not(feature = "torch"))]
    false
}
