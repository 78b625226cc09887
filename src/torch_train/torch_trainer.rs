//! [`TorchTrainer`]: several workers that train one model.

use pavlov_train::{Collective, DataParallelTrainer, ReduceOp, WorkerContext};
use pavlov_tune::{Error, Result};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor, no_grad};

/// A [`DataParallelTrainer`] whose loop trains a libtorch model; the loop calls the methods of [`TorchWorker`].
///
/// Each worker's process gives libtorch as many threads as the worker has CPUs.
pub type TorchTrainer<L> = DataParallelTrainer<L>;

/// Methods of a worker for a model that all workers train together, as in Ray's `train.torch`.
///
/// Models must have 32-bit floats on the CPU, because there is no collective for GPUs yet. With a single worker any
/// model is allowed, and the methods do nothing.
pub trait TorchWorker {
    /// Copies the values of all variables from worker 0. Call it before training, after loading a checkpoint.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a variable does not have 32-bit floats on the CPU, and fails whenever
    /// [`broadcast`](pavlov_train::Collective::broadcast) does.
    fn prepare_model(&self, model: &VarStore) -> Result<()>;

    /// Replaces each gradient by its mean over all workers, in one `all_reduce`. Call it between `backward` and the
    /// optimizer's step. With batches of equal size and a loss that is a mean over rows, the result is the gradient
    /// of the joined batch.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a gradient does not have 32-bit floats on the CPU, and fails whenever
    /// [`all_reduce`](pavlov_train::Collective::all_reduce) does, as when workers have gradients of different sizes.
    fn average_gradients(&self, model: &VarStore) -> Result<()>;
}

impl TorchWorker for WorkerContext {
    fn prepare_model(&self, model: &VarStore) -> Result<()> {
        let mut variables: Vec<(String, Tensor)> = model.variables().into_iter().collect();
        variables.sort_by(|(one, _), (other, _)| one.cmp(other));
        let variables = variables.into_iter().map(|(_, variable)| variable).collect();
        together(self.collective(), variables, |collective, values| {
            collective.broadcast(bytemuck::cast_slice_mut(values), 0)
        })
    }

    fn average_gradients(&self, model: &VarStore) -> Result<()> {
        let gradients =
            model.trainable_variables().iter().map(Tensor::grad).filter(Tensor::defined).collect();
        together(self.collective(), gradients, |collective, values| {
            collective.all_reduce(values, ReduceOp::Mean)
        })
    }
}

/// Copies the tensors into one buffer, applies `call` to that buffer, and copies the result back.
fn together(
    collective: &dyn Collective,
    mut tensors: Vec<Tensor>,
    call: impl FnOnce(&dyn Collective, &mut [f32]) -> pavlov_processes::Result<()>,
) -> Result<()> {
    if collective.world_size() == 1 {
        return Ok(());
    }
    if let Some(other) = tensors.iter().find(|tensor| !is_exchanged(tensor)) {
        let value = format!("a tensor of {:?} on {:?}", other.kind(), other.device());
        let rule = "workers exchange 32-bit floats on the CPU, for there is no NCCL yet: make the model so, or train it in \
                    one worker";
        return Err(Error::config("model", value, rule));
    }
    let mut values = vec![0.0; tensors.iter().map(Tensor::numel).sum()];
    let mut rest = &mut values[..];
    for tensor in &tensors {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(tensor.numel());
        tensor.f_copy_data(own, own.len()).map_err(Error::other)?;
        rest = others;
    }
    call(collective, &mut values)?;
    let mut rest = &values[..];
    for tensor in &mut tensors {
        let (own, others) = rest.split_at(tensor.numel());
        let own = Tensor::from_slice(own).f_view_as(tensor).map_err(Error::other)?;
        no_grad(|| tensor.f_copy_(&own).map(drop)).map_err(Error::other)?;
        rest = others;
    }
    Ok(())
}

fn is_exchanged(tensor: &Tensor) -> bool {
    tensor.device() == Device::Cpu && tensor.kind() == Kind::Float
}
