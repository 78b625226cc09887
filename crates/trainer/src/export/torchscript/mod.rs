//! Export of a policy as TorchScript. A policy without masks and recurrent layers is traced as it is: a function from raw
//! observations to the network's outputs, or to actions in the environment's form. A policy with either, and one whose
//! actions are drawn, becomes what it is as ONNX, computed by libtorch. The observation filter is part of both.

mod operators;
mod recorded;

use crate::export::signature::{Outputs, Signature};
use crate::export::spaces::{RawObservations, draw, shape, tame};
use crate::export::write_description;
use crate::policy::Policy;
use crate::sample::{Inference, Session};
use pavlov_envs::{DType, NpRandom, Space};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::params::Encoding;
use pavlov_tune as tune;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use tch::{CModule, Device, Kind, Tensor};

/// Number of random batches of observations on which the exported function is compared with the policy.
const COMPARISONS: usize = 8;

impl Session {
    pub(super) fn export_torchscript(&mut self, file: &Path, sample: bool) -> Result<Signature> {
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        let _guard = tch::no_grad_guard();
        if sample || policy.memory_width() > 0 || desk.storage.masks.is_some() {
            return recorded::export(file, desk, policy, sample);
        }
        let traced = trace(policy, &Entrance::of(desk), &desk.space, desk.connector.action_space())?;
        let room = 2 * policy.get_weights().bytes() + (1 << 20);
        tune::write_whole(file, |unfinished| {
            let written = refuse_full_disk(unfinished, room);
            written.map_err(|error| crate::Error::from(tune::Error::io("write", file)(error)))?;
            traced.save(unfinished)?;
            compare(&CModule::load(unfinished)?, desk, policy)
        })?;
        let row = Tensor::zeros(sizes(&desk.space, 1), (kind(&desk.space), Device::Cpu));
        let outputs = Outputs {
            observation_space: &desk.space,
            action_space: desk.connector.action_space(),
            columns: CModule::load(file)?.forward_ts(&[row])?.size().get(1).copied().unwrap_or(1) as usize,
            are_actions: !desk.connector.is_discrete() && has_best_actions(desk, policy)?,
        };
        let signature = Signature::of(&outputs);
        write_description(file, &signature.to_json(&outputs))?;
        Ok(signature)
    }
}

/// Whether the exported function gives actions, which the policy computes from its outputs.
fn has_best_actions(desk: &Inference, policy: &dyn Policy) -> Result<bool> {
    let entrance = Entrance::of(desk);
    let row = Tensor::zeros(sizes(&desk.space, 1), (kind(&desk.space), Device::Cpu));
    Ok(policy.best_actions(&policy.forward(&entrance.pass(&row))?).is_some())
}

/// Returns an error if the disk has no room for `bytes` bytes at `file`: on a full disk libtorch would end the process.
fn refuse_full_disk(file: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(file)?;
    let piece = [0; 1 << 16];
    (0..bytes.div_ceil(1 << 16)).try_for_each(|_| file.write_all(&piece))
}

/// Conversion of raw observations to the policy's input, in operations that libtorch can trace.
struct Entrance {
    space: Space,
    /// Whether raw observations are encoded to flat f32 rows for the policy.
    flat: bool,
    /// Mean and divisor of each component, if observations are filtered.
    filter: Option<(Tensor, Tensor)>,
}

impl Entrance {
    fn of(desk: &Inference) -> Self {
        let RawObservations { space, is_flattened, filter } = RawObservations::of(desk);
        let filter = filter.map(|(mean, std)| (Tensor::from_slice(&mean), Tensor::from_slice(&std)));
        Self { space: space.clone(), flat: is_flattened, filter }
    }

    /// Converts raw observations to the policy's input.
    fn pass(&self, raw: &Tensor) -> Tensor {
        let rows = match (&self.space, self.flat) {
            // Pixels are not scaled and keep their order, as in `Space::flatten_into`.
            (Space::Box { .. }, true) => raw.reshape([-1, self.space.width() as i64]).to_kind(Kind::Float),
            (space, true) => Encoding::flat(space).encode(raw),
            (_, false) if raw.kind() == Kind::Double => raw.to_kind(Kind::Float),
            (_, false) => raw.shallow_clone(),
        };
        match &self.filter {
            Some((mean, std)) => ((rows.to_kind(Kind::Double) - mean) / std).to_kind(Kind::Float),
            None => rows,
        }
    }
}

/// Traces the policy, with the conversion of raw observations and, where they exist, of actions.
fn trace(policy: &dyn Policy, entrance: &Entrance, space: &Space, actions: &Space) -> Result<CModule> {
    let example = Tensor::zeros(sizes(space, 2), (kind(space), Device::Cpu));
    let mut failed = None;
    let bounds = bounds(actions);
    let mut forward = |inputs: &[Tensor]| match policy.forward(&entrance.pass(&inputs[0])) {
        Ok(outputs) => vec![match (&bounds, policy.best_actions(&outputs)) {
            (Some(bounds), Some(best)) => stretched(best, bounds),
            _ => outputs,
        }],
        Err(error) => {
            failed = Some(error);
            vec![inputs[0].shallow_clone()]
        }
    };
    let module = CModule::create_by_tracing("Policy", "forward", &[example], &mut forward)?;
    match failed {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// Lower and upper bounds of a Box; `None` for other spaces. To be called before a policy is traced: a trace would not
/// record how the tensors get their numbers.
fn bounds(space: &Space) -> Option<[Tensor; 2]> {
    let Space::Box { low, high, .. } = space else { return None };
    let tensor =
        |bounds: &Vec<f64>| Tensor::from_slice(&bounds.iter().map(|&bound| bound as f32).collect::<Vec<_>>());
    Some([tensor(low), tensor(high)])
}

/// Scales actions in [-1, 1] to the bounds, as [`unsquash`](crate::sample::unsquash) does.
fn stretched(actions: Tensor, [low, high]: &[Tensor; 2]) -> Tensor {
    (low + (actions + 1.0) * (high - low) / 2.0).clamp_tensor(Some(low), Some(high))
}

/// Returns an error if the exported function differs from the policy on random raw observations.
fn compare(module: &CModule, desk: &mut Inference, policy: &mut dyn Policy) -> Result<()> {
    let Inference { connector, storage, space, .. } = desk;
    let tame = tame(space);
    let mut random = NpRandom::new(0);
    for _ in 0..COMPARISONS {
        let raw = connector.first(storage);
        draw(&tame, &mut random, raw);
        let rows = raw.len() / (space.width() * space.dtype().size());
        let input = Tensor::from_data_size(raw, &sizes(space, rows), kind(space));
        connector.observe(storage, 0, false)?;
        let outputs = policy.forward(&storage.obs.row(0).to_tensor())?;
        let gives_actions = !connector.is_discrete() && policy.best_actions(&outputs).is_some();
        let wanted = if gives_actions {
            connector.act(policy, storage, 0, false, u64::MAX)?;
            let taken: &[f32] = bytemuck::cast_slice(connector.taken(storage, 0));
            Tensor::from_slice(taken).view([rows as i64, -1])
        } else {
            outputs
        };
        let found = module.forward_ts(&[input])?;
        if found.size() != wanted.size() || !found.allclose(&wanted, 1e-4, 1e-5, true) {
            let reason = format!(
                "it answers {found:?} where the policy answers {wanted:?}: no file was written. The network may do what \
                 libtorch cannot trace, such as branching on values"
            );
            return Err(Error::state("the exported policy", reason));
        }
    }
    Ok(())
}

/// Shape of a batch of `rows` raw observations.
fn sizes(space: &Space, rows: usize) -> Vec<i64> {
    std::iter::once(rows).chain(shape(space)).map(|n| n as i64).collect()
}

/// libtorch's scalar type of a space.
fn kind(space: &Space) -> Kind {
    match space.dtype() {
        DType::U8 => Kind::Uint8,
        DType::I64 => Kind::Int64,
        DType::F32 => Kind::Float,
        DType::F64 => Kind::Double,
    }
}
