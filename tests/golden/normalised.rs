//! Networks of several groups with layer normalisation, and the loss of their quantiles, against libtorch's autograd in
//! doubles, on both engines.

use pavlov::torch::{Kind, Reduction, Tensor};
use pavlov::trainer::Array;
use pavlov::trainer::Result;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Learner, Loss, Rows, Value};
use pavlov::trainer::models::{
    Activation, Architecture, Dense, Group, HiddenLayers, Init, LayerNorm, Mlp, Net, NetBuilder, Rule,
};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;

use crate::support::{assert_close, discrete_spaces, floats, learner, on_threads, spec};

const OBS: usize = 6;
const QUANTILES: usize = 5;
/// Numbers that are drawn for each row, and how many of them and of the target's quantiles are left.
const DRAWN: i64 = 3;
const KEPT: usize = 6;
const DRAWS: Column = Column::new("draws");

/// Hidden units with layer normalisation before their activation, and quantiles of them.
#[derive(Clone, Copy)]
struct Layers {
    first: Dense,
    norm: LayerNorm,
    activation: Activation,
    last: Dense,
}

impl Layers {
    fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.last.on(net, self.norm.on(net, self.first.on(net, x)).activate(self.activation))
    }

    fn loss<'t>(self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let online = rows.online();
        let target = rows.target();
        let s = rows.obs()?.obs();
        let samples = self.on(target, s).cat(rows.get(DRAWS)?).sort_columns().narrow(0, KEPT);
        let quantiles = self.on(online, s);
        // The target's normalisation passes on what flows back to its input.
        let passed_on = self.norm.on(target, self.first.on(online, s)).square().mean();
        Ok(Loss::sum([
            ("fit", quantiles.quantile_huber(samples).mean()),
            ("size", quantiles.logsumexp().mean() * 0.1),
            ("passed_on", passed_on * 0.2),
        ]))
    }
}

struct Problem {
    learner: Learner,
    layers: Layers,
    batch: SampleBatch,
    /// That of the hidden units, and that of the quantiles.
    groups: [Group; 2],
}

fn normal(rng: &mut Stream, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

impl Problem {
    fn new(case: u64, rows: i64, fused: bool) -> Self {
        let mut rng = Stream::new(case, "case", 0);
        let width = 5 + rng.below(60) as usize;
        let activation = [Activation::Relu, Activation::Tanh, Activation::Elu][rng.below(3) as usize];
        let spec = spec(&discrete_spaces(OBS, 2), fused);
        let rule = Rule::adam(1e-3, 1e-8);
        let mut net = NetBuilder::new(&spec);
        net.target();
        let hidden = net.group("hidden", rule.clone(), |net| {
            let first = net.dense("first", OBS, width, Activation::Linear, Init::Uniform);
            Ok((first, net.layer_norm("norm", width)))
        });
        let (hidden, (first, norm)) = hidden.expect("a group");
        let lay_out = |net: &mut NetBuilder<'_>| {
            Ok(net.dense("last", width, QUANTILES, Activation::Linear, Init::Orthogonal(1.0)))
        };
        let (quantiles, last) = net.group("quantiles", rule, lay_out).expect("a group");
        let mut learner = net.finish().expect("a learner");
        // Scales and shifts other than those of the beginning, and others in the target copy.
        for _ in 0..2 {
            learner.update_target(1.0);
            let weights = learner.weights();
            let mut moved = State::default();
            for name in weights.array_names() {
                let weight = weights.tensor(name).expect("a parameter");
                moved.set_tensor(name, &(&weight + normal(&mut rng, &weight.size()) * 0.3));
            }
            learner.set_weights(&moved).expect("weights that fit");
        }
        let batch = SampleBatch::default()
            .with(Column::OBS, normal(&mut rng, &[rows, OBS as i64]))
            .with(DRAWS, normal(&mut rng, &[rows, DRAWN]) * 2.0);
        let layers = Layers { first, norm, activation, last };
        Self { learner, layers, batch, groups: [hidden, quantiles] }
    }

    /// The gradient by the parameters of some groups, and the three losses.
    fn gradient_of(&mut self, groups: &[Group]) -> (Vec<f64>, Vec<f64>) {
        let layers = self.layers;
        let report = self.learner.gradient_of(groups, &self.batch, |rows| layers.loss(rows));
        let losses = report.expect("a gradient").stats.values();
        (floats(self.learner.last_gradient()), losses)
    }

    /// The same by the parameters of all groups, in tensors of doubles.
    fn reference(&self) -> (Vec<f64>, Vec<f64>) {
        let state = self.learner.state().expect("a state");
        let names = ["first.weight", "first.bias", "norm.weight", "norm.bias", "last.weight", "last.bias"];
        let set = |set: &str| {
            let weights = state.nested(set).expect("weights");
            names.map(|name| weights.tensor(name).expect("a parameter").to_kind(Kind::Double))
        };
        let online = set("weights").map(|leaf| leaf.set_requires_grad(true));
        let target = set("target");
        let get = |column| self.batch.get(column).expect("the column").to_tensor().to_kind(Kind::Double);
        let s = get(Column::OBS);
        let draws = get(DRAWS);
        let first = |set: &[Tensor; 6]| s.linear(&set[0], Some(&set[1]));
        let norm = |set: &[Tensor; 6], x: &Tensor| {
            x.layer_norm([set[2].size()[0]], Some(&set[2]), Some(&set[3]), 1e-5, false)
        };
        let on = |set: &[Tensor; 6]| {
            let hidden = norm(set, &first(set));
            let hidden = match self.layers.activation {
                Activation::Relu => hidden.relu(),
                Activation::Tanh => hidden.tanh(),
                _ => hidden.elu(),
            };
            hidden.linear(&set[4], Some(&set[5]))
        };
        let samples = Tensor::cat(&[on(&target), draws], 1).sort(-1, false).0.narrow(1, 0, KEPT as i64);
        let quantiles = on(&online);
        let levels = Tensor::from_slice(&[0.1, 0.3, 0.5, 0.7, 0.9]).view([1, QUANTILES as i64, 1]);
        let errors = samples.unsqueeze(1) - quantiles.unsqueeze(2);
        let weights = (levels - errors.lt(0).to_kind(Kind::Double)).abs();
        let losses = [
            (weights * errors.huber_loss(&errors.zeros_like(), Reduction::None, 1.0)).mean(Kind::Double),
            quantiles.logsumexp(-1, false).mean(Kind::Double) * 0.1,
            norm(&target, &first(&online)).square().mean(Kind::Double) * 0.2,
        ];
        (&losses[0] + &losses[1] + &losses[2]).backward();
        let gradient = online.iter().flat_map(|leaf| floats(&leaf.grad())).collect();
        (gradient, losses.iter().flat_map(floats).collect())
    }
}

/// Within 1e-4 of the largest.
#[track_caller]
fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 1e-4 * largest, "{what} {i}: {f}, wanted {w}; the largest is {largest}");
    }
}

#[test]
fn gradients_through_normalised_rows_and_quantiles_are_autograds_on_both_engines() {
    for case in 0..12 {
        let rows = 1 + 190 * case as i64;
        let (wanted, losses) = Problem::new(case, rows, false).reference();
        for fused in [false, true] {
            let mut problem = Problem::new(case, rows, fused);
            let groups = problem.groups;
            let (found, found_losses) = problem.gradient_of(&groups);
            assert_near(&found, &wanted, &format!("case {case}, fused {fused}, number"));
            assert_close(&found_losses, &losses, 1e-4);
        }
    }
}

#[test]
fn a_normalisation_that_does_not_learn_has_no_gradient_and_passes_on_that_of_its_input() {
    for fused in [false, true] {
        let mut problem = Problem::new(3, 700, fused);
        let groups = problem.groups;
        let all = problem.gradient_of(&groups).0;
        for group in groups {
            let some = problem.gradient_of(&[group]).0;
            let range = problem.learner.range(group);
            assert_eq!(some[range.clone()], all[range.clone()], "fused {fused}");
            let rest = [&some[..range.start], &some[range.end..]].concat();
            assert!(rest.iter().all(|&g| g == 0.0), "fused {fused}: {rest:?}");
        }
    }
}

#[test]
fn gradients_through_normalised_rows_are_bit_equal_on_any_number_of_threads() {
    for fused in [false, true] {
        let on = |threads| {
            on_threads(threads, || {
                let mut problem = Problem::new(5, 3100, fused);
                let groups = problem.groups;
                problem.gradient_of(&groups)
            })
        };
        let one = on(1);
        assert_eq!(on(4), one);
    }
}

/// What hidden layers make of random observations, on both engines, and the parameters in doubles.
fn outputs(hidden: &HiddenLayers, obs: &Tensor) -> ([Vec<f64>; 2], impl Fn(&str) -> Tensor + use<>) {
    let mut weights = State::default();
    let outputs = [false, true].map(|fused| {
        let rule = Rule::adam(1e-3, 1e-8);
        let (mut learner, net) = learner(OBS, fused, rule, |net| Mlp::new(net, "net", OBS, hidden, 3));
        weights = learner.weights();
        let values =
            learner.evaluate(&Array::from(obs), None, 3, |of, x| net.on(of, x.obs())).expect("values");
        values.iter().map(|&x| f64::from(x)).collect()
    });
    (outputs, move |name| weights.tensor(&format!("net.{name}")).expect("a parameter").to_kind(Kind::Double))
}

#[test]
fn layer_normalisation_stands_between_a_layer_and_its_activation() {
    let obs = normal(&mut Stream::new(1, "obs", 0), &[37, OBS as i64]);
    for fcnet_activation in [Activation::Relu, Activation::Swish] {
        let hidden = HiddenLayers {
            fcnet_hiddens: vec![9, 12],
            fcnet_activation,
            layer_norm: true,
            ..HiddenLayers::default()
        };
        let (found, of) = outputs(&hidden, &obs);
        let mut x = obs.to_kind(Kind::Double);
        for (i, units) in [(0, 9), (1, 12)] {
            let y = x.linear(&of(&format!("{i}.weight")), Some(&of(&format!("{i}.bias"))));
            let scale = of(&format!("{i}.norm.weight"));
            let shift = of(&format!("{i}.norm.bias"));
            let y = y.layer_norm([units], Some(scale), Some(shift), 1e-5, false);
            x = if fcnet_activation == Activation::Relu { y.relu() } else { y.silu() };
        }
        let wanted = floats(&x.linear(&of("out.weight"), Some(&of("out.bias"))));
        found.iter().for_each(|found| assert_close(found, &wanted, 1e-5));
    }
}

#[test]
fn simba_adds_to_each_block_what_its_normalised_input_makes_of_a_wide_layer() {
    let obs = normal(&mut Stream::new(2, "obs", 0), &[37, OBS as i64]);
    let hidden = HiddenLayers {
        fcnet_hiddens: vec![8, 8],
        architecture: Architecture::Simba,
        ..HiddenLayers::default()
    };
    let (found, of) = outputs(&hidden, &obs);
    let linear = |x: &Tensor, layer: &str| {
        x.linear(&of(&format!("{layer}.weight")), Some(&of(&format!("{layer}.bias"))))
    };
    let norm = |x: &Tensor, layer: &str| {
        let scale = of(&format!("{layer}.weight"));
        let shift = of(&format!("{layer}.bias"));
        x.layer_norm([8], Some(scale), Some(shift), 1e-5, false)
    };
    let mut x = linear(&obs.to_kind(Kind::Double), "in");
    for block in ["0", "1"] {
        let wide = linear(&norm(&x, &format!("{block}.norm")), &format!("{block}.wide")).relu();
        assert_eq!(wide.size(), [37, 32]);
        x += linear(&wide, &format!("{block}.back"));
    }
    let wanted = floats(&linear(&norm(&x, "norm"), "out"));
    found.iter().for_each(|found| assert_close(found, &wanted, 1e-5));
}
