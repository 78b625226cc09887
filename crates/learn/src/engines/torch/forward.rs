//! Heads of a network on tensors, for libtorch to trace.

use crate::engines::backend::{HeadFn, Sets};
use crate::engines::torch::graph::TorchGraph;
use crate::engines::torch::leaves::Leaves;
use crate::engines::torch::sequences::Sequences;
use crate::loss::{Graph, Input, Net, ParamSet, Value};
use crate::params::{Encoding, LearningGroups};
use std::sync::Arc;
use tch::{Kind, Tensor};

pub(super) fn input<'t>(graph: &'t TorchGraph<'t>, obs: &Tensor, mask: Option<&Tensor>) -> Input<'t> {
    let beside = |tensor: Tensor| Value::new(graph, graph.insert(tensor));
    let here = |tensor: &Tensor| tensor.to_device(graph.device());
    let obs = graph.leaves.encoding.encode(&here(obs));
    Input::new(beside(obs), mask.map(|mask| beside(here(mask))))
}

/// Computes `head` of the network on `inputs` (observations, then masks if there are any), for libtorch to trace.
pub(crate) fn forward(
    sets: &Sets,
    encoding: &Arc<Encoding>,
    inputs: &[Tensor],
    memory: Option<&Tensor>,
    head: &dyn HeadFn,
) -> Tensor {
    let leaves = Leaves::new(sets, encoding);
    let live = LearningGroups { groups: &[], learning: &[] };
    let mut graph = TorchGraph::new(&leaves, live, inputs[0].size()[0] as usize);
    graph.like = Some(encoding.rows(&inputs[0]));
    if let Some(memory) = memory {
        let rows = inputs[0].size()[0];
        let resets = Tensor::zeros([rows], (Kind::Float, inputs[0].device()));
        graph.sequences = Some(Sequences::new(vec![1; rows as usize], memory.shallow_clone(), resets));
    }
    let x = input(&graph, &inputs[0], inputs.get(1));
    let value = head.at(Net::new(&graph, ParamSet::Frozen), x);
    graph.tensor(value.id())
}

/// Computes a function of the network's `outputs`, for libtorch to trace.
pub(crate) fn of_outputs(
    sets: &Sets,
    encoding: &Arc<Encoding>,
    outputs: &Tensor,
    f: &dyn for<'t> Fn(Value<'t>) -> Option<Value<'t>>,
) -> Option<Tensor> {
    let leaves = Leaves::new(sets, encoding);
    let live = LearningGroups { groups: &[], learning: &[] };
    let graph = TorchGraph::new(&leaves, live, outputs.size()[0] as usize);
    let outputs = Value::new(&graph, graph.insert(outputs.shallow_clone()));
    f(outputs).map(|value| graph.tensor(value.id()))
}
