//! Networks in tch: their variables are parameters of a group, or they are refused.

use std::sync::Mutex;

use pavlov::prelude::*;
use pavlov::torch::nn::{self, Module, OptimizerConfig as _, RNN};
use pavlov::torch::{Device, Kind, Tensor, no_grad};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Learner, Loss, Rows, Value};
use pavlov::trainer::models::{
    Activation, CustomModel, Init, Input, Net, NetBuilder, OnLibtorch, Rule, TchModule, Torso,
};
use pavlov::trainer::state::Array;

use crate::support::{discrete_spaces, learner, refused, spec, tiny_dqn, tiny_ppo};

/// A memory over the numbers of one observation, and a linear layer.
#[derive(Debug)]
struct Scan {
    lstm: nn::LSTM,
    linear: nn::Linear,
}

impl Module for Scan {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (out, _) = self.lstm.seq(&x.unsqueeze(-1));
        self.linear.forward(&out.select(1, -1)).tanh()
    }
}

#[derive(Debug)]
struct Scanning(TchModule<Scan>);

impl Torso for Scanning {
    fn width(&self) -> usize {
        6
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.0.on(net, x.obs())
    }
}

fn scanning() -> CustomModel {
    CustomModel::named("scanning", |net: &mut NetBuilder<'_>, name: &str| {
        let scan = net.tch_module(name, |path| Scan {
            lstm: nn::lstm(path / "lstm", 1, 5, nn::RNNConfig { batch_first: true, ..Default::default() }),
            linear: nn::linear(path / "linear", 5, 6, Default::default()),
        })?;
        Ok(Scanning(scan))
    })
}

/// Parameters of `Scan`: an LSTM of 5 units on 1 number, 4 * 5 * (1 + 5 + 2), and a layer from 5 to 6.
const IN_SCAN: usize = 160 + 36;

fn ppo(workers: usize, envs: usize) -> Driver<Algorithm<Ppo>> {
    let mut ppo = Ppo { num_sgd_iter: 2, ..tiny_ppo() };
    ppo.common.num_workers = workers;
    ppo.common.num_envs_per_worker = envs;
    ppo.builder("CartPole-v1")
        .custom_model(scanning())
        .loggers(LoggerChoice::None)
        .build()
        .expect("a trainer")
}

fn weights(trainer: &Driver<Algorithm<Ppo>>, name: &str) -> Vec<f64> {
    let weights = trainer.get_weights().expect("weights").nested("default_policy").expect("the policy");
    weights.array(name).expect("an array of that name").to_vec()
}

const VARIABLES: [&str; 6] = [
    "linear.bias",
    "linear.weight",
    "lstm.bias_hh_l0",
    "lstm.bias_ih_l0",
    "lstm.weight_hh_l0",
    "lstm.weight_ih_l0",
];

#[test]
fn a_module_in_tch_trains_with_its_optimizer_and_resumes_bit_for_bit() {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = ppo(0, 2);
    let before = VARIABLES.map(|name| weights(&trainer, &format!("actor.{name}")));
    trainer.train().expect("a result");
    for (name, before) in VARIABLES.iter().zip(&before) {
        assert_ne!(weights(&trainer, &format!("actor.{name}")), *before, "{name} did not learn");
    }
    let checkpoint = trainer.save_to(home.path()).expect("a checkpoint");
    let state = trainer
        .get_policy("default_policy", |policy| policy.get_state())
        .expect("a policy")
        .expect("a state");
    // Two such torsos, an actor's layer of 2 outputs and a critic's of 1.
    let moments =
        state.nested("optimizer").expect("its state").array("second").expect("moments").to_vec::<f64>();
    assert_eq!(moments.len(), 2 * IN_SCAN + 7 * 2 + 7);
    assert!(
        moments[..IN_SCAN].iter().all(|&moment| moment > 0.0),
        "every variable of the actor got a gradient"
    );

    let mut restored = ppo(0, 2);
    restored.restore(&checkpoint).expect("the same network");
    let first = trainer.train().expect("a result");
    let second = restored.train().expect("a result");
    assert_eq!(first["info"]["learner"], second["info"]["learner"]);
    assert_eq!(first["episode_reward_mean"], second["episode_reward_mean"]);
    assert_eq!(trainer.get_weights().expect("weights"), restored.get_weights().expect("weights"));
}

#[test]
fn workers_act_with_the_weights_of_a_module_in_tch() {
    let trained = |workers, envs| {
        let mut trainer = ppo(workers, envs);
        let results: Vec<_> =
            (0..3).map(|_| trainer.train().expect("a result")["episode_reward_mean"].clone()).collect();
        (results, trainer.get_weights().expect("weights"))
    };
    assert_eq!(trained(0, 2), trained(2, 1));
}

#[test]
fn a_target_network_has_the_module_too_and_follows_it() {
    let dqn = tiny_dqn();
    let builder = dqn.builder("CartPole-v1").custom_model(scanning()).loggers(LoggerChoice::None);
    let mut trainer = builder.build().expect("a trainer");
    for _ in 0..4 {
        trainer.train().expect("a result");
    }
    let state = trainer
        .get_policy("default_policy", |policy| policy.get_state())
        .expect("a policy")
        .expect("a state");
    let of = |set: &str| {
        let set = state.nested(set).expect("a set");
        let name = set.array_names().find(|name| name.ends_with("lstm.weight_hh_l0")).expect("the LSTM");
        set.array(name).expect("it").to_vec::<f64>()
    };
    assert_ne!(of("weights"), of("target"), "the network learned since the target was updated");
    trainer.get_policy("default_policy", |policy| policy.update_target()).expect("a policy");
    let state = trainer
        .get_policy("default_policy", |policy| policy.get_state())
        .expect("a policy")
        .expect("a state");
    assert_eq!(state.nested("weights").expect("weights"), state.nested("target").expect("a target"));
}

#[test]
fn the_initial_weights_of_a_module_depend_on_the_seed_alone() {
    let of = |seed: u64, other: i64| {
        pavlov::torch::manual_seed(other);
        let mut ppo = tiny_ppo();
        ppo.common.seed = Some(seed);
        let builder = ppo.builder("CartPole-v1").custom_model(scanning()).loggers(LoggerChoice::None);
        builder.build().expect("a trainer").get_weights().expect("weights")
    };
    assert_eq!(of(0, 1), of(0, 2));
    assert_ne!(of(0, 1), of(1, 1));
}

/// 64 rows of 3 numbers, and their sums.
fn rows() -> SampleBatch {
    let numbers: Vec<f32> = (0..192).map(|i| (i as f32 * 0.37).sin()).collect();
    let sums: Vec<f32> = numbers.chunks(3).map(|row| row.iter().sum()).collect();
    SampleBatch::default()
        .with(Column::OBS, Array::from_vec(numbers, &[64, 3]))
        .with_f32s(Column::VALUE_TARGETS, &sums)
}

fn layers(path: &nn::Path<'_>) -> nn::Sequential {
    let first = nn::linear(path / "first", 3, 8, Default::default());
    let second = nn::linear(path / "second", 8, 1, Default::default());
    nn::seq().add(first).add_fn(|x| x.tanh()).add(second)
}

fn in_tch() -> (Learner, TchModule<nn::Sequential>) {
    learner(3, true, Rule::adam(1e-2, 1e-8), |net| net.tch_module("net", layers).expect("a module"))
}

fn fit(learner: &mut Learner, out: impl for<'t> Fn(Net<'t>, Value<'t>) -> Value<'t> + Sync) -> Result<f64> {
    let report = learner.gradient(&rows(), |rows: &Rows<'_>| {
        let error = out(rows.online(), rows.obs()?.obs()) - rows.get(Column::VALUE_TARGETS)?;
        Ok(Loss::sum([("error", error.square().mean())]))
    })?;
    learner.step(&report);
    Ok(report.stats.read("error").expect("the error"))
}

#[test]
fn a_module_learns_what_tch_itself_makes_of_it() {
    let (mut learner, module) = in_tch();
    let store = nn::VarStore::new(Device::Cpu);
    let alone = layers(&store.root());
    no_grad(|| {
        for (name, mut variable) in store.variables() {
            variable.copy_(&learner.weights().tensor(&format!("net.{name}")).expect("a parameter"));
        }
    });
    let mut adam = nn::Adam::default().build(&store, 1e-2).expect("an optimizer");
    let data = rows();
    let [x, y] = [Column::OBS, Column::VALUE_TARGETS].map(|column| data.get(column).expect("it").to_tensor());
    for _ in 0..50 {
        let error = fit(&mut learner, |net, x| module.on(net, x)).expect("a step");
        let loss = (alone.forward(&x) - y.view([-1, 1])).square().mean(Kind::Float);
        assert!((error - loss.double_value(&[])).abs() <= 1e-5 * (1.0 + error), "{error} and {loss:?}");
        adam.backward_step(&loss);
    }
}

#[test]
fn a_module_has_the_bits_of_the_same_layers_on_libtorch() {
    let (mut tch, module) = in_tch();
    let (mut own, (first, second)) = learner(3, false, Rule::adam(1e-2, 1e-8), |net| {
        let first = net.dense("net.first", 3, 8, Activation::Tanh, Init::Uniform);
        (first, net.dense("net.second", 8, 1, Activation::Linear, Init::Uniform))
    });
    own.set_weights(&tch.weights()).expect("the same names and shapes");
    for _ in 0..10 {
        let one = fit(&mut tch, |net, x| module.on(net, x)).expect("a step");
        assert_eq!(one, fit(&mut own, |net, x| second.on(net, first.on(net, x))).expect("a step"));
    }
    for (name, array) in tch.weights().parts().1 {
        assert_eq!(
            array.to_vec::<f64>(),
            own.weights().array(name).expect("a parameter").to_vec::<f64>(),
            "{name}"
        );
    }
}

/// A layer in tch whose variables nothing knows of.
#[derive(Debug)]
struct Foreign(Mutex<nn::Linear>, OnLibtorch);

impl Torso for Foreign {
    fn width(&self) -> usize {
        6
    }

    fn on<'t>(&self, _: Net<'t>, x: Input<'t>) -> Value<'t> {
        let out = self.0.lock().expect("no panic").forward(&x.obs().tensor(self.1));
        x.obs().from_tensor(self.1, out)
    }
}

#[test]
fn a_tensor_that_needs_a_gradient_and_belongs_to_no_group_is_refused() {
    let model = CustomModel::new(|net: &mut NetBuilder<'_>, _: &str| {
        let store = nn::VarStore::new(Device::Cpu);
        let linear = nn::linear(store.root(), 4, 6, Default::default());
        Ok(Foreign(Mutex::new(linear), net.on_libtorch()))
    });
    let said = ["a tensor in a network or a loss: it needs a gradient", "`NetBuilder::tch_module`"];
    refused(tiny_ppo().builder("CartPole-v1").custom_model(model).loggers(LoggerChoice::None).build(), &said);

    // A variable of a loss, behind a layer that learns.
    let (mut learner, (layer, on)) = learner(3, true, Rule::adam(1e-2, 1e-8), |net| {
        (net.dense("net", 3, 1, Activation::Linear, Init::Uniform), net.on_libtorch())
    });
    let scale = Mutex::new(Tensor::from(2.0_f32).set_requires_grad(true));
    let scaled = fit(&mut learner, |net, x| {
        let out = layer.on(net, x);
        out.from_tensor(on, out.tensor(on) * &*scale.lock().expect("no panic"))
    });
    refused(scaled, &said);
}

#[test]
fn a_module_without_variables_or_with_running_means_is_refused() {
    let spec = spec(&discrete_spaces(3, 2), true);
    let mut net = NetBuilder::new(&spec);
    refused(net.tch_module("empty", |_| nn::seq()), &["the module `empty`: it has no variables"]);
    let running = net.tch_module("norm", |path| nn::batch_norm1d(path, 3, Default::default()));
    refused(running, &["the variable `running_mean` of the module `norm`", "does not learn"]);
}

#[test]
fn a_module_whose_output_has_other_rows_is_refused() {
    let (mut learner, module) = in_tch();
    let wrong =
        fit(&mut learner, |net, x| module.apply(net, x, |layers, x| layers.forward(x).sum(Kind::Float)));
    refused(wrong, &["the module `net`: it gets [64, 3] and returns []"]);
}

#[test]
fn a_loss_that_reaches_no_parameter_is_refused() {
    for fused in [true, false] {
        let (mut learner, layer) = learner(3, fused, Rule::adam(1e-2, 1e-8), |net| {
            net.dense("net", 3, 1, Activation::Linear, Init::Uniform)
        });
        let said = ["the loss: it depends on no parameter"];
        refused(fit(&mut learner, |net, x| layer.on(net, x).detach()), &said);
        refused(fit(&mut learner, |_, x| x.mean()), &said);
        fit(&mut learner, |net, x| layer.on(net, x)).expect("a loss that reaches the layer");
    }
}
