//! A policy's recorded model, traced by libtorch: the inputs of ONNX, and its outputs side by side, since a traced function
//! returns one tensor.

use crate::export::onnx::compare::compare;
use crate::export::onnx::evaluate::Values;
use crate::export::onnx::model::{Model, Port};
use crate::export::onnx::{description, model_of, signature};
use crate::export::torchscript::operators::{Constants, kind, run};
use crate::export::torchscript::refuse_full_disk;
use crate::export::{Signature, write_description};
use crate::policy::Policy;
use crate::sample::Inference;
use ndarray::{ArrayD, IxDyn};
use pavlov_learn::base::Result;
use pavlov_tune as tune;
use serde_json::json;
use std::ops::Range;
use std::path::Path;
use tch::{CModule, Device, Kind, Tensor};

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
    pavlov_tune::write_whole(file, |unfinished| {
        let written = refuse_full_disk(unfinished, room);
        written.map_err(|error| crate::Error::from(tune::Error::io("write", file)(error)))?;
        traced.save(unfinished)?;
        let module = CModule::load(unfinished)?;
        compare(&model, desk, policy, sample, &|inputs| answer(&module, &model, &inputs))
    })?;
    let bytes = std::fs::metadata(file).map_err(tune::Error::io("read", file))?.len() as usize;
    let mut described = description(&model, file, bytes, "torchscript");
    let columns = columns(&model);
    for (output, own) in columns.iter().enumerate() {
        described["outputs"][output]["columns"] = json!([own.start, own.end]);
    }
    write_description(file, &format!("{described:#}\n"))?;
    let width = columns.last().map_or(0, |last| last.end);
    let output = |(port, own): (&Port, &Range<usize>)| {
        let place = match own.len() {
            1 => format!("column {}", own.start),
            _ => format!("columns {} to {}", own.start, own.end - 1),
        };
        format!("`{}` ({place}): {}", port.name, port.meaning)
    };
    let outputs: Vec<String> = model.outputs.iter().zip(&columns).map(output).collect();
    let gives = format!("float32 [batch, {width}]: {}", outputs.join("; "));
    Ok(Signature { gives, ..signature(&model) })
}

/// The columns of each output.
fn columns(model: &Model) -> Vec<Range<usize>> {
    let mut columns = Vec::new();
    let mut next = 0;
    for port in &model.outputs {
        columns.push(next..next + port.width());
        next += port.width();
    }
    columns
}

/// Traces the model on two rows.
fn trace(model: &Model) -> Result<CModule> {
    let constants = Constants::of(model);
    let example = |port: &Port| Tensor::zeros(sizes(port, 2), (kind(port.kind), Device::Cpu));
    let examples: Vec<Tensor> = model.inputs.iter().map(example).collect();
    let mut failed = None;
    let mut forward = |inputs: &[Tensor]| {
        let outputs = run(model, &constants, inputs).unwrap_or_else(|error| {
            failed = Some(error);
            vec![inputs[0].shallow_clone()]
        });
        let side_by_side: Vec<Tensor> = outputs
            .iter()
            .zip(&model.outputs)
            .map(|(output, port)| output.reshape([-1, port.width() as i64]).to_kind(Kind::Float))
            .collect();
        vec![Tensor::cat(&side_by_side, 1)]
    };
    let module = CModule::create_by_tracing("Policy", "forward", &examples, &mut forward)?;
    failed.map_or(Ok(module), Err)
}

/// The module's outputs by name; `None` if it fails.
fn answer(module: &CModule, model: &Model, inputs: &Values) -> Option<Values> {
    let tensor = |port: &Port| {
        let numbers: Vec<f64> = inputs.get(&port.name)?.iter().copied().collect();
        let rows = numbers.len() / port.width().max(1);
        Some(Tensor::from_slice(&numbers).reshape(sizes(port, rows)).to_kind(kind(port.kind)))
    };
    let inputs: Vec<Tensor> = model.inputs.iter().map(tensor).collect::<Option<_>>()?;
    let rows = module.forward_ts(&inputs).ok()?.to_kind(Kind::Double);
    let array = |(port, columns): (&Port, Range<usize>)| {
        let own = rows.narrow(1, columns.start as i64, columns.len() as i64);
        let numbers = Vec::<f64>::try_from(own.flatten(0, -1)).ok()?;
        let shape: Vec<usize> = sizes(port, rows.size()[0] as usize).iter().map(|&n| n as usize).collect();
        Some((port.name.clone(), ArrayD::from_shape_vec(IxDyn(&shape), numbers).ok()?))
    };
    model.outputs.iter().zip(columns(model)).map(array).collect()
}

/// Shape of `rows` rows of an input.
fn sizes(port: &Port, rows: usize) -> Vec<i64> {
    std::iter::once(rows).chain(port.shape.iter().copied()).map(|n| n as i64).collect()
}
