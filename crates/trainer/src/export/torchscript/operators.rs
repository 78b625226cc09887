//! The operators of a recorded model, as libtorch computes them while it traces.

use crate::export::onnx::model::{Data, ElemType, Model, Node};
use pavlov_learn::base::{Error, Result};
use std::collections::HashMap;
use tch::{Kind, Tensor};

/// The constants of a model as tensors. They are made before a trace begins, which would not record where their numbers
/// come from.
#[derive(Debug)]
pub(super) struct Constants(HashMap<String, Tensor>);

impl Constants {
    pub(super) fn of(model: &Model) -> Self {
        let tensor = |data: &Data| match data {
            Data::F32(numbers) => Tensor::from_slice(numbers),
            Data::I64(numbers) => Tensor::from_slice(numbers),
        };
        let shaped = model.constants.iter().map(|(name, constant)| {
            let shape: Vec<i64> = constant.shape.iter().map(|&n| n as i64).collect();
            (name.clone(), tensor(&constant.data).reshape(shape))
        });
        Self(shaped.collect())
    }
}

/// Computes a model's outputs, in their order, from its inputs.
///
/// # Errors
/// Returns [`Error::State`] for an operator that is not known here.
pub(super) fn run(model: &Model, constants: &Constants, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values: HashMap<&str, Tensor> =
        constants.0.iter().map(|(name, tensor)| (name.as_str(), tensor.shallow_clone())).collect();
    for (port, input) in model.inputs.iter().zip(inputs) {
        values.insert(&port.name, input.shallow_clone());
    }
    for node in &model.nodes {
        let unknown = || Error::state("the exported policy", format!("libtorch has no operator {}", node.op));
        let operands: Option<Vec<&Tensor>> =
            node.inputs.iter().map(|name| values.get(name.as_str())).collect();
        let value = operands.and_then(|operands| apply(node, &operands)).ok_or_else(unknown)?;
        values.insert(&node.output, value);
    }
    let output = |name: &str| values.get(name).map(Tensor::shallow_clone);
    let outputs: Option<Vec<Tensor>> = model.outputs.iter().map(|port| output(&port.name)).collect();
    outputs.ok_or_else(|| Error::state("the exported policy", "one of its outputs is never computed"))
}

/// libtorch's type of elements.
pub(super) fn kind(elements: ElemType) -> Kind {
    match elements {
        ElemType::F32 => Kind::Float,
        ElemType::F64 => Kind::Double,
        ElemType::I64 => Kind::Int64,
        ElemType::U8 => Kind::Uint8,
        ElemType::Bool => Kind::Bool,
    }
}

fn apply(node: &Node, inputs: &[&Tensor]) -> Option<Tensor> {
    let &x = inputs.first()?;
    let second = || inputs.get(1).copied();
    Some(match node.op {
        // `Free` numbers are repeated for each row of the observations. The observations themselves stand for their
        // shape, since a trace would keep the shape as fixed numbers: only `Expand` reads it.
        "Shape" => x.shallow_clone(),
        "Slice" if inputs.len() == 3 => x.shallow_clone(),
        "Concat" if node.int("axis") == Some(0) => x.shallow_clone(),
        "Expand" => {
            let rows = second()?.flatten(1, -1).narrow(1, 0, 1).zeros_like().to_kind(x.kind());
            rows + x
        }
        "Identity" => x.shallow_clone(),
        "Cast" => {
            let all = [ElemType::F32, ElemType::F64, ElemType::I64, ElemType::U8, ElemType::Bool];
            let to = node.int("to")?;
            x.to_kind(kind(all.into_iter().find(|elements| elements.code() as i64 == to)?))
        }
        "Exp" => x.exp(),
        "Log" => x.log(),
        "Sqrt" => x.sqrt(),
        "Abs" => x.abs(),
        "Sign" => x.sign(),
        "Tanh" => x.tanh(),
        "Sigmoid" => x.sigmoid(),
        "Softplus" => x.softplus(),
        "Relu" => x.relu(),
        "Elu" => x.elu(),
        "Add" => x + second()?,
        "Sub" => x - second()?,
        "Mul" => x * second()?,
        "Div" => x / second()?,
        "Max" => x.maximum(second()?),
        "Min" => x.minimum(second()?),
        "Equal" => x.eq_tensor(second()?),
        "LessOrEqual" => x.less_equal_tensor(second()?),
        "Where" => second()?.where_self(x, inputs.get(2)?),
        "Gemm" => x.linear(second()?, inputs.get(2).copied()),
        "Conv" => {
            let &[top, left, bottom, right] = node.ints("pads")? else { return None };
            let padded = x.constant_pad_nd([left, right, top, bottom]);
            padded.conv2d(second()?, inputs.get(2).copied(), node.ints("strides")?, [0, 0], [1, 1], 1)
        }
        "Reshape" => x.reshape(integers(second()?)),
        "Transpose" => x.permute(node.ints("perm")?),
        "Slice" => {
            let number = |at: usize| inputs.get(at).map(|of| integers(of)[0]);
            let from = number(1)?;
            x.narrow(number(3)?, from, number(2)? - from)
        }
        "Concat" => Tensor::cat(inputs, node.int("axis")?),
        "ReduceSum" => x.sum_dim_intlist([1].as_slice(), true, None),
        "ReduceMean" => x.mean_dim([1].as_slice(), true, None),
        "ReduceMax" => x.amax([1], true),
        "ReduceLogSumExp" => x.logsumexp([1], true),
        "ArgMax" => x.argmax(1, true),
        "LogSoftmax" => x.log_softmax(1, None),
        "CumSum" => x.cumsum(1, None),
        "GatherElements" => x.gather(1, second()?, false),
        _ => return None,
    })
}

/// The numbers of a constant of integers.
fn integers(constant: &Tensor) -> Vec<i64> {
    (0..constant.numel() as i64).map(|i| constant.int64_value(&[i])).collect()
}
