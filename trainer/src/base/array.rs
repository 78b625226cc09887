//! Views of tensors as arrays of the crate `ndarray`.

use crate::base::error::{Error, Result};
use crate::base::host;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use tch::{Device, Tensor, kind};

/// Views a tensor's memory as an array of the same shape, without a copy. `what` is the tensor's name in errors.
pub(crate) fn view<'a, T: Pod + kind::Element>(tensor: &'a Tensor, what: &str) -> Result<ArrayViewD<'a, T>> {
    let refuse = |reason: String| Err(Error::state(what, reason));
    if tensor.kind() != T::KIND {
        return refuse(format!("it holds {:?}, but {:?} was asked for", tensor.kind(), T::KIND));
    }
    if tensor.device() != Device::Cpu || !tensor.is_contiguous() {
        let device = tensor.device();
        return refuse(format!("it is on {device:?} or strided; copy it to the CPU as one piece first"));
    }
    let shape: Vec<usize> = tensor.size().into_iter().map(|n| n as usize).collect();
    ArrayViewD::from_shape(shape, host::read(tensor)).or_else(|error| refuse(error.to_string()))
}
