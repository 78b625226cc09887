//! A policy's recorded model, traced by libtorch: the inputs and outputs of ONNX, in the same order.

use crate::base::Result;
use crate::export::onnx::compare::compare;
use crate::export::onnx::evaluate::Values;
use crate::export::onnx::model::{Model, Port};
use crate::export::onnx::{description, model_of, signature};
use crate::export::torchscript::operators::{Constants, kind, run};
use crate::export::torchscript::refuse_full_disk;
use crate::export::{Signature, write_description, write_whole};
use crate::policy::Policy;
use crate::sample::Inference;
use ndarray::{ArrayD, IxDyn};
use pavlov_tune as tune;
use std::path::Path;
use tch::{CModule, Device, IValue, Kind, Tensor};

/// Writes the file and its description, after a comparison with the policy.
pub(super) fn export(
    file: &Path,
    desk: &mut Inference,
    policy: &mut dyn Policy,
    sample: bool,
) -> Result<Signature> {
    let model = model_of(desk, policy, sample)?;
    let traced = trace(&model)?;
    let room = 2 * policy.get_weights().bytes() + (1 << 20);
    write_whole(file, |unfinished| {
        let written = refuse_full_disk(unfinished, room);
        written.map_err(|error| crate::Error::from(tune::Error::io("write", file)(error)))?;
        traced.save(unfinished)?;
        let module = CModule::load(unfinished)?;
        compare(&model, desk, policy, sample, &|inputs| answer(&module, &model, &inputs))
    })?;
    let bytes = std::fs::metadata(file).map_err(tune::Error::io("read", file))?.len() as usize;
    let described = format!("{:#}\n", description(&model, file, bytes, "torchscript"));
    write_description(file, &described)?;
    Ok(signature(&model))
}

/// Traces the model on two rows.
fn trace(model: &Model) -> Result<CModule> {
    let constants = Constants::of(model);
    let example = |port: &Port| Tensor::zeros(sizes(port, 2), (kind(port.kind), Device::Cpu));
    let examples: Vec<Tensor> = model.inputs.iter().map(example).collect();
    let mut failed = None;
    let mut forward = |inputs: &[Tensor]| {
        run(model, &constants, inputs).unwrap_or_else(|error| {
            failed = Some(error);
            vec![inputs[0].shallow_clone()]
        })
    };
    let module = CModule::create_by_tracing("Policy", "forward", &examples, &mut forward)?;
    failed.map_or(Ok(module), Err)
}

/// The module's outputs by name; `None` if it fails or has other outputs.
fn answer(module: &CModule, model: &Model, inputs: &Values) -> Option<Values> {
    let tensor = |port: &Port| {
        let numbers: Vec<f64> = inputs.get(&port.name)?.iter().copied().collect();
        let rows = numbers.len() / port.width().max(1);
        Some(IValue::Tensor(Tensor::from_slice(&numbers).reshape(sizes(port, rows)).to_kind(kind(port.kind))))
    };
    let inputs: Vec<IValue> = model.inputs.iter().map(tensor).collect::<Option<_>>()?;
    let IValue::Tuple(outputs) = module.forward_is(&inputs).ok()? else { return None };
    let array = |(port, output): (&Port, &IValue)| {
        let IValue::Tensor(output) = output else { return None };
        let shape: Vec<usize> = output.size().iter().map(|&n| n as usize).collect();
        let numbers = Vec::<f64>::try_from(output.to_kind(Kind::Double).flatten(0, -1)).ok()?;
        Some((port.name.clone(), ArrayD::from_shape_vec(IxDyn(&shape), numbers).ok()?))
    };
    (outputs.len() == model.outputs.len()).then_some(())?;
    model.outputs.iter().zip(&outputs).map(array).collect()
}

/// Shape of `rows` rows of an input.
fn sizes(port: &Port, rows: usize) -> Vec<i64> {
    std::iter::once(rows).chain(port.shape.iter().copied()).map(|n| n as i64).collect()
}
