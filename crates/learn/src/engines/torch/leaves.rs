//! The parameters as tensors that get a gradient, and as tensors without.

use crate::engines::backend::Sets;
use crate::params::{Encoding, Layout, MadeModule, Params};
use std::sync::Arc;
use tch::Tensor;

/// The leaf tensors of one thread, which share the memory of the parameters.
#[derive(Debug)]
pub(crate) struct Leaves {
    pub(super) layout: Arc<Layout>,
    /// All parameters, `[total]`.
    flat: Tensor,
    /// The network's parameters as tensors that get a gradient.
    pub(super) online: LeafSet,
    /// The network's parameters, in the same memory, as tensors without gradient: libtorch cannot trace a module whose
    /// tensors need them.
    pub(super) frozen: LeafSet,
    pub(super) target: Option<LeafSet>,
    pub(super) encoding: Arc<Encoding>,
}

/// The leaf tensors of one set of parameters, and the modules in tch over them.
#[derive(Debug)]
pub(super) struct LeafSet {
    pub(super) leaves: Vec<Tensor>,
    pub(super) modules: Vec<MadeModule>,
}

impl Leaves {
    pub(super) fn new(sets: &Sets, encoding: &Arc<Encoding>) -> Self {
        let leaves = |set: &Params, learn: bool| over(&set.buffer().as_tensor(), set.layout(), learn);
        Self {
            layout: Arc::clone(sets[0].layout()),
            flat: sets[0].buffer().as_tensor(),
            online: leaves(&sets[0], true),
            frozen: leaves(&sets[0], false),
            target: sets.get(1).map(|set| leaves(set, false)),
            encoding: Arc::clone(encoding),
        }
    }

    pub(super) fn device(&self) -> tch::Device {
        self.flat.device()
    }

    /// The gradient of `loss` with respect to all parameters, `[total]`; zero for parameters that the loss does not
    /// depend on.
    pub(super) fn gradient(&self, loss: &Tensor) -> Tensor {
        // libtorch would refuse a backward pass without gradients, and tch does not survive that.
        if !loss.requires_grad() {
            return self.flat.zeros_like();
        }
        let online = &self.online.leaves;
        let grads = Tensor::run_backward(&[loss], online, false, false);
        let part = |(grad, leaf): (Tensor, &Tensor)| {
            if grad.defined() { grad.reshape([-1]) } else { leaf.zeros_like().reshape([-1]) }
        };
        let parts: Vec<Tensor> = grads.into_iter().zip(online).map(part).collect();
        Tensor::cat(&parts, 0)
    }
}

/// A tensor for every parameter in the buffer `flat`; with `learn` they get gradients.
fn over(flat: &Tensor, layout: &Layout, learn: bool) -> LeafSet {
    let leaf = |(i, (_, shape)): (usize, &(String, Vec<i64>))| {
        let range = layout.range(i);
        let leaf = flat.narrow(0, range.start as i64, range.len() as i64).view(shape.as_slice()).detach();
        if learn { leaf.set_requires_grad(true) } else { leaf }
    };
    let mut leaves: Vec<Tensor> = layout.shapes.iter().enumerate().map(leaf).collect();
    let modules = layout.modules.iter().map(|place| place.over(learn, &mut leaves)).collect();
    LeafSet { leaves, modules }
}
