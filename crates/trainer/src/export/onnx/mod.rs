//! Export of a policy as ONNX.

mod actions;
pub(super) mod compare;
pub(super) mod evaluate;
pub(super) mod model;
mod network;
mod observations;
mod proto;

use crate::export::onnx::actions::{Choosing, actions};
use crate::export::onnx::compare::compare;
use crate::export::onnx::evaluate::evaluate;
use crate::export::onnx::model::{ElemType, Model, Port};
use crate::export::onnx::network::network;
use crate::export::onnx::observations::observations;
use crate::export::spaces::RawObservations;
use crate::export::{Signature, write_description};
use crate::policy::Policy;
use crate::sample::{Inference, Session};
use pavlov_envs::DType;
use pavlov_learn::base::Result;
use pavlov_tune as tune;
use serde_json::{Value, json};
use std::path::Path;

impl RawObservations<'_> {
    fn kind(&self) -> ElemType {
        match self.space.dtype() {
            DType::U8 => ElemType::U8,
            DType::I64 => ElemType::I64,
            DType::F32 => ElemType::F32,
            DType::F64 => ElemType::F64,
        }
    }
}

impl Session {
    pub(super) fn export_onnx(&mut self, file: &Path, sample: bool) -> Result<Signature> {
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        let model = model_of(desk, policy, sample)?;
        compare(&model, desk, policy, sample, &|inputs| evaluate(&model, inputs))?;
        let bytes = proto::encode(&model);
        let mut described = description(&model, file, bytes.len(), "onnx");
        described["opset"] = json!(proto::OPSET);
        let described = format!("{described:#}\n");
        tune::write_output(file, &bytes)?;
        write_description(file, &described)?;
        Ok(signature(&model))
    }
}

/// What a model takes and gives.
pub(super) fn signature(model: &Model) -> Signature {
    Signature { takes: ports(&model.inputs), gives: ports(&model.outputs) }
}

/// The policy as ONNX: with actions that are drawn if it has a distribution, otherwise with its best actions.
pub(crate) fn encoded(desk: &Inference, policy: &dyn Policy) -> Result<Vec<u8>> {
    let model = model_of(desk, policy, true).or_else(|_| model_of(desk, policy, false))?;
    Ok(proto::encode(&model))
}

/// The inputs or outputs of a model in words.
fn ports(ports: &[Port]) -> String {
    let port = |port: &Port| {
        let shape: String = port.shape.iter().map(|n| format!(", {n}")).collect();
        format!("`{}` {} [batch{shape}]: {}", port.name, port.kind.name(), port.meaning)
    };
    ports.iter().map(port).collect::<Vec<_>>().join("; ")
}

/// Returns an error unless the policy's recorded network computes what the policy does.
pub(super) fn check(desk: &mut Inference, policy: &mut dyn Policy) -> Result<()> {
    let model = model_of(desk, policy, false)?;
    compare(&model, desk, policy, false, &|inputs| evaluate(&model, inputs))
}

/// Makes the model of a policy, with what turns raw observations into its input and its outputs into actions.
pub(super) fn model_of(desk: &Inference, policy: &dyn Policy, sample: bool) -> Result<Model> {
    let options = desk.connector.mask_width();
    let recording = policy.recording(options)?;
    let mut model = Model::default();
    let obs = observations(&mut model, &RawObservations::of(desk), &recording.encoding);
    let mask = options.map(|options| {
        model.input(
            "mask",
            ElemType::Bool,
            &[options],
            "which actions are legal; the options of several choices in turn",
        )
    });
    let mask = mask.as_deref();
    let network = network(&mut model, &recording, &obs, mask)?;
    let choosing = Choosing {
        space: desk.connector.action_space(),
        to_env: desk.connector.to_env(),
        dist: policy.distribution(),
        sample,
    };
    actions(&mut model, &choosing, &recording, &network, mask)?;
    for (name, next, units) in &network.memory {
        let meaning = format!("what `{name}` is at the next step of the episode");
        model.output(&format!("{name}_next"), next, ElemType::F32, &[*units], &meaning);
    }
    Ok(model)
}

/// What stands in the file beside an exported model.
pub(super) fn description(model: &Model, file: &Path, bytes: usize, format: &str) -> Value {
    let port = |port: &Port| {
        let shape = std::iter::once(json!("batch")).chain(port.shape.iter().map(|n| json!(n)));
        json!({
            "name": port.name, "dtype": port.kind.name(), "shape": Value::Array(shape.collect()), "meaning": port.meaning,
        })
    };
    json!({
        "file": file.file_name().map(|name| name.to_string_lossy()),
        "format": format,
        "bytes": bytes,
        "pavlov": env!("CARGO_PKG_VERSION"),
        "inputs": model.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": model.outputs.iter().map(port).collect::<Vec<_>>(),
    })
}
