//! Export of a policy as TorchScript: a function from raw observations to the network's outputs, or to actions in the
//! environment's form. The observation filter is part of the function.

use crate::base::{Error, Result};
use crate::learn::params::Encoding;
use crate::policy::Policy;
use crate::sample::filter::RunningStat;
use crate::sample::session::{Inference, Session};
use crate::sample::signature::{Outputs, Signature};
use pavlov_envs::{DType, Element, NpRandom, Space};
use pavlov_tune as tune;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::{fs, io};
use tch::{CModule, Device, Kind, Tensor};

/// Endings of the names of TorchScript files.
const ENDINGS: [&str; 3] = ["pt", "pth", "ts"];

/// Number of random batches of observations on which the exported function is compared with the policy.
const COMPARISONS: usize = 8;

impl Session {
    /// Writes the policy as TorchScript: a function from raw observations `[rows, ...]` to the outputs of the policy,
    /// `[rows, columns]`. One-hot coding and the observation filter are part of the function.
    ///
    /// If the policy has [`Policy::best_actions`] (SAC with continuous actions, TD3, DDPG), the outputs are actions,
    /// scaled to the bounds of the action space. Otherwise they are parameters of the action distribution, or Q-values;
    /// the caller chooses the best action, masks illegal ones, and scales actions to the bounds.
    ///
    /// The function is read back and compared with the policy before `file` appears. What it takes and gives is returned,
    /// and is stored beside it as `FILE.json`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the name of `file` does not end in `.pt`. Returns [`Error::State`] if the policy has recurrent layers or no network, or if the outputs of the function
    /// differ from the policy's. Returns [`Error::State`] or [`Error::Torch`] if the file cannot be written, or
    /// libtorch cannot trace the network.
    pub fn export(&mut self, file: &Path) -> Result<Signature> {
        if !file
            .extension()
            .is_some_and(|suffix| ENDINGS.iter().any(|known| suffix.eq_ignore_ascii_case(known)))
        {
            let rule = "the file holds TorchScript, so its name must end in .pt, .pth or .ts; there is no other format";
            return Err(Error::config("the file of an export", file.display(), rule));
        }
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        if policy.memory_width() > 0 {
            let reason = "it remembers from step to step, which the exported function could not; act with \
                          `pavlov::load` instead";
            return Err(Error::state(format!("the policy `{id}`"), reason));
        }
        let _guard = tch::no_grad_guard();
        let traced = trace(policy, &Entrance::of(desk), &desk.space, desk.pilot.action_space())?;
        // The file appears complete, and only if its function agrees with the policy.
        let mut unfinished = OsString::from(file);
        unfinished.push(".unfinished");
        let room = 2 * policy.get_weights().bytes() + (1 << 20);
        let written = refuse_full_disk(&unfinished, room)
            .map_err(|error| tune::Error::io("write", file)(error).into())
            .and_then(|()| Ok(traced.save(&unfinished)?))
            .and_then(|()| compare(&CModule::load(&unfinished)?, desk, policy))
            .and_then(|()| Ok(fs::rename(&unfinished, file).map_err(tune::Error::io("write", file))?));
        if written.is_err() {
            // The unfinished file may not exist.
            let _ = fs::remove_file(&unfinished);
        }
        written?;
        let row = Tensor::zeros(sizes(&desk.space, 1), (kind(&desk.space), Device::Cpu));
        let outputs = Outputs {
            observation_space: &desk.space,
            action_space: desk.pilot.action_space(),
            columns: CModule::load(file)?.forward_ts(&[row])?.size().get(1).copied().unwrap_or(1) as usize,
            are_actions: !desk.pilot.is_discrete() && has_best_actions(desk, policy)?,
            is_masked: desk.storage.masks.is_some(),
        };
        let signature = Signature::of(&outputs);
        let mut beside = OsString::from(file);
        beside.push(".json");
        let beside = Path::new(&beside);
        tune::write_file(beside, signature.to_json(&outputs).as_bytes())
            .map_err(tune::Error::io("write", beside))?;
        Ok(signature)
    }
}

/// Whether the policy says which actions its outputs are.
fn has_best_actions(desk: &Inference, policy: &dyn Policy) -> Result<bool> {
    let entrance = Entrance::of(desk);
    let row = Tensor::zeros(sizes(&desk.space, 1), (kind(&desk.space), Device::Cpu));
    Ok(policy.best_actions(&policy.forward(&entrance.pass(&row))?).is_some())
}

/// Returns an error if the disk has no room for `bytes` bytes at `file`: on a full disk libtorch would end the process.
fn refuse_full_disk(file: &OsStr, bytes: u64) -> io::Result<()> {
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
        let boxes = matches!((&desk.space, &desk.stored), (Space::Box { .. }, Space::Box { .. }));
        let filter = desk.pilot.filter.as_ref().map(|filter| filter.running());
        let same = desk.space == desk.stored || (boxes && filter.is_none());
        Self { space: desk.space.clone(), flat: !same, filter: filter.map(statistics) }
    }

    /// Converts raw observations to the policy's input.
    fn pass(&self, raw: &Tensor) -> Tensor {
        let rows = match (&self.space, self.flat) {
            // Pixels are not scaled and keep their order, as in `Space::flatten_into`.
            (Space::Box { .. }, true) => raw.reshape([-1, self.space.width() as i64]).to_kind(Kind::Float),
            (space, true) => Encoding::of(space).encode(raw),
            (_, false) if raw.kind() == Kind::Double => raw.to_kind(Kind::Float),
            (_, false) => raw.shallow_clone(),
        };
        match &self.filter {
            Some((mean, std)) => ((rows.to_kind(Kind::Double) - mean) / std).to_kind(Kind::Float),
            None => rows,
        }
    }
}

/// Mean and divisor of each component, as [`MeanStdFilter::apply`](crate::sample::filter::MeanStdFilter::apply)
/// computes them.
fn statistics(running: &RunningStat) -> (Tensor, Tensor) {
    let width = running.mean().len();
    let std: Vec<f64> = (0..width).map(|i| running.variance(i).sqrt() + 1e-6).collect();
    (Tensor::from_slice(running.mean()), Tensor::from_slice(&std))
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

/// Scales actions in [-1, 1] to the bounds, as [`unsquash`](crate::sample::transforms::unsquash) does.
fn stretched(actions: Tensor, [low, high]: &[Tensor; 2]) -> Tensor {
    (low + (actions + 1.0) * (high - low) / 2.0).clamp_tensor(Some(low), Some(high))
}

/// Returns an error if the exported function differs from the policy on random raw observations.
fn compare(module: &CModule, desk: &mut Inference, policy: &mut dyn Policy) -> Result<()> {
    let Inference { pilot, storage, space, .. } = desk;
    let tame = tame(space);
    let mut random = NpRandom::new(0);
    for _ in 0..COMPARISONS {
        let raw = pilot.first(storage);
        draw(&tame, &mut random, raw);
        let rows = raw.len() / (space.width() * space.dtype().size());
        let input = Tensor::from_data_size(raw, &sizes(space, rows), kind(space));
        pilot.observe(storage, 0, false)?;
        let outputs = policy.forward(&storage.obs.row(0).to_tensor())?;
        let gives_actions = !pilot.is_discrete() && policy.best_actions(&outputs).is_some();
        let wanted = if gives_actions {
            pilot.act(policy, storage, 0, false, u64::MAX)?;
            let taken: &[f32] = bytemuck::cast_slice(pilot.taken(storage, 0));
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
    let row = if matches!(space, Space::Box { .. }) { space.shape() } else { vec![space.width()] };
    std::iter::once(rows).chain(row).map(|n| n as i64).collect()
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

/// Fills `rows` with random observations of the space.
fn draw(space: &Space, random: &mut NpRandom, rows: &mut [u8]) {
    fn typed<T: Element>(space: &Space, random: &mut NpRandom, rows: &mut [u8]) {
        let rows: &mut [T] = bytemuck::cast_slice_mut(rows);
        rows.chunks_exact_mut(space.width()).for_each(|row| space.sample(random, row));
    }
    match space.dtype() {
        DType::U8 => typed::<u8>(space, random, rows),
        DType::I64 => typed::<i64>(space, random, rows),
        DType::F32 => typed::<f32>(space, random, rows),
        DType::F64 => typed::<f64>(space, random, rows),
    }
}

/// Returns the space with bounds beyond a million replaced by infinity: random draws then have a usual size.
fn tame(space: &Space) -> Space {
    match space.clone() {
        Space::Box { low, high, shape, dtype } => {
            let free = |bound: f64| if bound.abs() > 1e6 { bound.signum() * f64::INFINITY } else { bound };
            let [low, high] = [low, high].map(|bounds| bounds.into_iter().map(free).collect());
            Space::Box { low, high, shape, dtype }
        }
        Space::Dict(parts) => {
            Space::Dict(parts.iter().map(|(name, part)| (name.clone(), tame(part))).collect())
        }
        Space::Tuple(parts) => Space::Tuple(parts.iter().map(tame).collect()),
        other => other,
    }
}
