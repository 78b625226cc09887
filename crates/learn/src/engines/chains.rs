//! Layers that do not depend on each other, on two threads: those of an actor and those of its critic, or those of a
//! network and those of its target copy.
//!
//! The layers of a loss wait until a number of theirs is needed. Those that wait are then cut into chains, in which one
//! layer feeds the next. Each thread computes whole chains, forward and backward, so the numbers of a chain stay in
//! one core's cache. Each number is computed as on one thread: the bits are the same.

use crate::engines::buffer::{Buffer, Side};
use crate::engines::layers::Layers;
use crate::engines::places::LayerPlace;
use crate::engines::tape::{Made, Node, Tape};
use crate::kernels;
use crate::layers::Activation;

/// Least number of multiply-adds for a second thread. Handing over takes 0.1 us, but the weights and numbers that another core
/// has written must be fetched: the 350,000 of a target copy in DQN with 64 rows and 64x64 units gained nothing.
pub(crate) const JOINT_WORK: usize = 1 << 19;
/// Number of multiply-adds that take as long as one hyperbolic tangent.
const TANH: usize = 16;

/// The layers, by index, that each of two threads computes, and the number of their multiply-adds. The second thread has
/// none if there is too little work for it.
type Sides = ([Vec<usize>; 2], usize);

impl Tape {
    /// Computes the layers that wait, with these parameters.
    pub(crate) fn settle(&self, flats: &[&[f32]]) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return;
        }
        let mut nodes = self.nodes.borrow_mut();
        let ([mine, theirs], work) = self.sides(&nodes, &waiting);
        let layers = Layers { shared: theirs.is_empty(), ..self.layers() };
        let seen: &[Node] = &nodes;
        let helper = Layers { side: Side::Helper, ..layers };
        let mut done = Vec::new();
        let mut more = Vec::new();
        if theirs.is_empty() {
            done = forward(layers, seen, &mine, flats);
        } else {
            kernels::join(
                work,
                || done = forward(layers, seen, &mine, flats),
                || more = forward(helper, seen, &theirs, flats),
            );
        }
        for (id, out) in done.into_iter().chain(more) {
            nodes[id].data = out;
        }
        waiting.clear();
    }

    /// Divides layers, given by index in the order of computation, between two threads.
    fn sides(&self, nodes: &[Node], ids: &[usize]) -> Sides {
        let mut chains: Vec<(Vec<usize>, usize)> = Vec::new();
        for &id in ids {
            let place = layer_of(&nodes[id]);
            let smooth = if place.activation == Activation::Tanh { TANH } else { 0 };
            let work = self.stride * place.out * (place.inputs + smooth);
            match chains.iter_mut().find(|(chain, _)| chain.contains(&place.from)) {
                Some((chain, sum)) => {
                    chain.push(id);
                    *sum += work;
                }
                None => chains.push((vec![id], work)),
            }
        }
        let mut sides: [Vec<usize>; 2] = Default::default();
        let mut sums = [0; 2];
        for (chain, work) in chains {
            let side = usize::from(sums[1] < sums[0]);
            sides[side].extend(chain);
            sums[side] += work;
        }
        if sums[1] < JOINT_WORK {
            let rest = std::mem::take(&mut sides[1]);
            sides[0].extend(rest);
        }
        (sides, sums[0] + sums[1])
    }

    /// The backward pass of node `last` and of all layers right before it, if two threads can share them. Returns the
    /// index of the first of these layers.
    pub(crate) fn through_layers(
        &self,
        nodes: &mut [Node],
        last: usize,
        flats: &[&[f32]],
        grads: &mut [f32],
    ) -> usize {
        let is_layer = |node: &Node| matches!(node.made, Made::Layer(_));
        let first = nodes[..last].iter().rposition(|node| !is_layer(node)).map_or(0, |i| i + 1);
        let ids: Vec<usize> = (first..=last).filter(|&id| nodes[id].wants).collect();
        let outside = |id: usize| layer_of(&nodes[id]).from < first;
        let shared = ids.iter().any(|&id| outside(id) && nodes[layer_of(&nodes[id]).from].wants);
        let (sides, work) = self.sides(nodes, &ids);
        if shared || sides[1].is_empty() {
            return first;
        }
        let Some(mut parts) = parts(nodes, &sides, grads) else { return first };
        let [mut mine, mut theirs] = sides.map(|ids| {
            let take = |id: usize| (id, std::mem::take(&mut nodes[id]));
            ids.into_iter().rev().map(take).collect::<Vec<_>>()
        });
        let layers = Layers { shared: false, ..self.layers() };
        let [own, other] = &mut parts;
        let rest = &*nodes;
        kernels::join(
            work,
            || backward(layers, &mut mine, rest, flats, own),
            || backward(Layers { side: Side::Helper, ..layers }, &mut theirs, rest, flats, other),
        );
        for (id, node) in mine.into_iter().chain(theirs) {
            nodes[id] = node;
        }
        first
    }
}

/// The operands of a layer's node.
fn layer_of(node: &Node) -> LayerPlace {
    match node.made {
        Made::Layer(place) => place,
        _ => unreachable!("only layers wait"),
    }
}

/// The outputs of layers, by index. A layer reads that of a layer before it, or a node.
fn forward(layers: Layers<'_>, nodes: &[Node], ids: &[usize], flats: &[&[f32]]) -> Vec<(usize, Buffer)> {
    let mut done: Vec<(usize, Buffer)> = Vec::with_capacity(ids.len());
    for &id in ids {
        let place = layer_of(&nodes[id]);
        let flat = flats[place.set];
        let x = done.iter().find(|(id, _)| *id == place.from).map_or(&nodes[place.from].data, |(_, x)| x);
        let out = layers.forward(place, x, &flat[place.weights()], &flat[place.biases()]);
        done.push((id, out));
    }
    done
}

/// The places for the gradients of the layers' parameters, last layer first, for each side; an empty one for a layer that
/// does not learn. `None` if two layers have the same parameters.
fn parts<'g>(
    nodes: &[Node],
    sides: &[Vec<usize>; 2],
    grads: &'g mut [f32],
) -> Option<[Vec<&'g mut [f32]>; 2]> {
    let mut order: Vec<(usize, usize, LayerPlace)> = Vec::new();
    for (side, ids) in sides.iter().enumerate() {
        order.extend(ids.iter().rev().enumerate().map(|(i, &id)| (side, i, layer_of(&nodes[id]))));
    }
    order.retain(|(.., place)| place.learns);
    order.sort_by_key(|(.., place)| place.weight);
    let mut parts = [0, 1].map(|side: usize| sides[side].iter().map(|_| &mut [][..]).collect::<Vec<_>>());
    let mut rest = grads;
    let mut at = 0;
    for (side, i, place) in order {
        let end = place.biases().end;
        let (_, behind) = rest.split_at_mut_checked(place.weight.checked_sub(at)?)?;
        let (own, behind) = behind.split_at_mut(end - place.weight);
        parts[side][i] = own;
        rest = behind;
        at = end;
    }
    Some(parts)
}

/// The backward pass of layers, last layer first. `grads` has a place for the gradients of each layer's parameters.
fn backward(
    layers: Layers<'_>,
    side: &mut [(usize, Node)],
    nodes: &[Node],
    flats: &[&[f32]],
    grads: &mut [&mut [f32]],
) {
    for (i, grads) in grads.iter_mut().enumerate() {
        let [(_, node), before @ ..] = &mut side[i..] else { return };
        if node.grad.is_empty() {
            continue;
        }
        let place = layer_of(node);
        let weights = &flats[place.set][place.weights()];
        layers.through_activation(place.activation, &mut node.grad, &node.data);
        let g = std::mem::take(&mut node.grad);
        match before.iter_mut().find(|(id, _)| *id == place.from) {
            Some((_, from)) => {
                let x = std::mem::take(&mut from.data);
                let to = from.gradient(|cols| layers.take(cols * layers.stride));
                layers.backward(place, &x, weights, &g, to, grads);
                from.data = x;
            }
            None => layers.backward(place, &nodes[place.from].data, weights, &g, None, grads),
        }
        layers.spare.put(g);
    }
}

#[cfg(test)]
mod tests {
    use crate::Learner;
    use crate::base::{Array, Device, Spaces};
    use crate::experience::{Column, SampleBatch};
    use crate::layers::Activation;
    use crate::loss::{Loss, Rows};
    use crate::nets::{Init, NetBuilder, PolicySpec};
    use crate::params::Rule;
    use pavlov_envs::Space;

    /// The bits of a gradient of two towers and of their frozen and target copies; with `twice` one tower sees two inputs.
    fn gradient(activation: Activation, twice: bool) -> Vec<u32> {
        let spec = PolicySpec {
            spaces: Spaces { observation_space: Space::real(&[5]), action_space: Space::discrete(2) },
            own_obs: None,
            seed: 3,
            device: Device::Cpu,
            fused: true,
            custom_model: None,
            worker_index: 0,
            num_workers: 0,
        };
        let mut net = NetBuilder::new(&spec);
        net.target();
        let (_, towers) = net
            .group("all", Rule::adam(1e-3, 1e-8), |net| {
                Ok(["one", "two"].map(|name| {
                    let mut tower = |layer: &str, inputs, out| {
                        net.dense(&format!("{name}.{layer}"), inputs, out, activation, Init::Normc(1.0))
                    };
                    [tower("first", 5, 96), tower("second", 96, 64), tower("out", 64, 3)]
                }))
            })
            .expect("a group");
        let mut learner: Learner = net.finish().expect("a learner");
        let rows = 250;
        let numbers: Vec<f32> = (0..rows * 5).map(|i| (i as f32).sin()).collect();
        let batch = SampleBatch::default().with(Column::OBS, Array::from_vec(numbers, &[rows, 5]));
        let report = learner
            .gradient(&batch, |rows: &Rows<'_>| {
                let x = rows.obs()?.obs();
                let sets = [rows.online(), rows.target(), rows.frozen()];
                let [[one, two], target, frozen] =
                    sets.map(|net| towers.map(|tower| tower.iter().fold(x, |x, layer| layer.on(net, x))));
                let loss = (one - target[1]).square() + (two * frozen[0]).tanh();
                // Then two chains have the parameters of one tower.
                let loss = if twice {
                    loss + towers[1].iter().fold(x.tanh(), |x, layer| layer.on(sets[0], x))
                } else {
                    loss
                };
                Ok(Loss::new(loss.mean()).max("max", loss).td_errors(loss.sum_columns()))
            })
            .expect("a gradient");
        let mut all: Vec<f32> = learner.last_gradient().to_vec();
        all.push(report.stats.read("max").expect("a number") as f32);
        all.extend(report.td_errors.expect("errors").to_vec::<f32>());
        all.into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn two_threads_compute_the_bits_of_one() {
        for activation in [Activation::Tanh, Activation::Relu, Activation::Elu, Activation::Swish] {
            for twice in [false, true] {
                let bits = |threads: usize| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                    pool.install(|| gradient(activation, twice))
                };
                let alone = bits(1);
                assert!(alone.iter().filter(|&&bits| f32::from_bits(bits) != 0.0).count() > 1000);
                assert!(bits(2) == alone, "{activation:?}, {twice}");
            }
        }
    }
}
