//! A loss like that of soft actor-critic on a random network, and the same formulas in tensors of doubles.

use std::collections::BTreeMap;

use pavlov::envs::Space;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::Result;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Value;
use pavlov::trainer::learner::{Learner, Loss, Rows};
use pavlov::trainer::models::{Activation, Critics, Free, Group, HiddenLayers, Mlp, NetBuilder, Rule};
use pavlov::trainer::policy::ActionDist;
use pavlov::trainer::policy::Spaces;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;

use crate::support::{floats, spec};

pub(crate) const NOISE: Column = Column::new("noise");
const NEXT_NOISE: Column = Column::new("next_noise");
const ACTIONS: i64 = 2;
const OBS: i64 = 5;

/// The losses of a sum that are there.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) critics: bool,
    pub(crate) actor: bool,
    pub(crate) alpha: bool,
}

pub(crate) const ALL: Parts = Parts { critics: true, actor: true, alpha: true };
pub(crate) const CRITICS: Parts = Parts { critics: true, actor: false, alpha: false };
pub(crate) const ACTOR: Parts = Parts { critics: false, actor: true, alpha: false };
pub(crate) const ALPHA: Parts = Parts { critics: false, actor: false, alpha: true };

/// An actor, two critics and a temperature, a group each.
pub(crate) struct Nets {
    dist: ActionDist,
    actor: Mlp,
    pub(crate) q: Critics,
    log_alpha: Free,
}

impl Nets {
    /// The actions of noise, and their log-probabilities.
    pub(crate) fn act<'t>(
        &self,
        rows: &Rows<'t>,
        live: bool,
        obs: Value<'t>,
        noise: Column,
    ) -> Result<[Value<'t>; 2]> {
        let net = if live { rows.online() } else { rows.frozen() };
        let (action, logp) = self.dist.at(self.actor.on(net, obs)).rsample(rows.get(noise)?);
        Ok([action, logp])
    }

    pub(crate) fn loss<'t>(&self, rows: &Rows<'t>, parts: Parts) -> Result<Loss<'t>> {
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discounts = rows.discounts()?;
        let log_alpha = self.log_alpha.on(rows.online());
        let alpha = log_alpha.exp().detach();
        let [action, logp] = self.act(rows, true, s.obs(), NOISE)?;
        let mut losses = Vec::new();
        if parts.critics {
            let [a2, logp2] = self.act(rows, false, s2.obs(), NEXT_NOISE)?;
            let next = self.q.min(rows.target(), s2.obs().cat(a2)) - alpha * logp2;
            let wanted = rows.get(Column::REWARDS)? + discounts * next;
            let of = |q: Value<'t>| (q - wanted).square().mean() * 0.5;
            let sa = s.obs().cat(rows.get(Column::ACTIONS)?);
            losses.extend(self.q.on(rows.online(), sa).into_iter().map(of));
        }
        if parts.actor {
            losses.push((alpha * logp - self.q.min(rows.frozen(), s.obs().cat(action))).mean());
        }
        if parts.alpha {
            losses.push(-(log_alpha * (logp.detach() - ACTIONS as f64)).mean());
        }
        Ok(Loss::new(losses.into_iter().sum()))
    }
}

/// A random network whose target copy differs from it, and a batch.
pub(crate) struct Problem {
    pub(crate) learner: Learner,
    pub(crate) nets: Nets,
    hidden: HiddenLayers,
    pub(crate) batch: SampleBatch,
    pub(crate) actor: Group,
    pub(crate) alpha: Group,
}

fn normal(rng: &mut Stream, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

impl Problem {
    pub(crate) fn new(case: u64, rows: i64, fused: bool) -> Self {
        let mut rng = Stream::new(case, "case", 0);
        let activations = [Activation::Relu, Activation::Tanh, Activation::Elu];
        let hidden = HiddenLayers {
            fcnet_hiddens: (0..rng.below(3)).map(|_| 1 + rng.below(40) as usize).collect(),
            fcnet_activation: activations[rng.below(3) as usize],
            ..HiddenLayers::default()
        };
        let spaces = Spaces {
            observation_space: Space::real(&[OBS as usize]),
            action_space: Space::real(&[ACTIONS as usize]),
        };
        let dist = ActionDist::SquashedGaussian { dim: ACTIONS as usize, log_std_min: -5.0 };
        let spec = spec(&spaces, fused);
        let rule = Rule::adam(1e-3, 1e-8);
        let mut net = NetBuilder::new(&spec);
        net.target();
        let outputs = dist.num_inputs();
        let lay_out = |net: &mut NetBuilder<'_>| Ok(Mlp::new(net, "actor", OBS as usize, &hidden, outputs));
        let (actor, layers) = net.group("actor", rule.clone(), lay_out).expect("a group");
        let inputs = (OBS + ACTIONS) as usize;
        let q = Critics::new(&mut net, 2, inputs, 1, &hidden, &rule).expect("critics");
        let (alpha, log_alpha) =
            net.group("alpha", rule, |net| Ok(net.free("log_alpha", &[-0.4]))).expect("a group");
        let mut learner = net.finish().expect("a learner");
        let first = learner.weights();
        let mut moved = State::default();
        for name in first.array_names() {
            let weight = first.tensor(name).expect("a parameter");
            moved.set_tensor(name, &(&weight + normal(&mut rng, &weight.size()) * 0.2));
        }
        learner.set_weights(&moved).expect("weights that fit");
        let ends: Vec<f32> = (0..rows).map(|_| f32::from(rng.below(5) == 0)).collect();
        let batch = SampleBatch::default()
            .with(Column::OBS, normal(&mut rng, &[rows, OBS]))
            .with(Column::NEW_OBS, normal(&mut rng, &[rows, OBS]))
            .with(Column::ACTIONS, normal(&mut rng, &[rows, ACTIONS]).tanh())
            .with(Column::REWARDS, normal(&mut rng, &[rows]))
            .with(Column::TERMINATED, Tensor::from_slice(&ends))
            .with(Column::DISCOUNTS, Tensor::full([rows], 0.97, pavlov::torch::kind::FLOAT_CPU))
            .with(NOISE, normal(&mut rng, &[rows, ACTIONS]))
            .with(NEXT_NOISE, normal(&mut rng, &[rows, ACTIONS]));
        let nets = Nets { dist, actor: layers, q, log_alpha };
        Self { learner, nets, hidden, batch, actor, alpha }
    }

    /// The ranges of the groups: the actor's, those of the critics, the temperature's.
    pub(crate) fn ranges(&self) -> [std::ops::Range<usize>; 3] {
        let [q1, q2] = [0, 1].map(|i| self.learner.range(self.nets.q.groups[i]));
        [self.learner.range(self.actor), q1.start..q2.end, self.learner.range(self.alpha)]
    }

    pub(crate) fn gradient(&mut self, parts: Parts) -> Vec<f64> {
        let nets = &self.nets;
        self.learner.gradient(&self.batch, |rows| nets.loss(rows, parts)).expect("a gradient");
        floats(self.learner.last_gradient())
    }

    pub(crate) fn gradient_of(&mut self, groups: &[Group]) -> Vec<f64> {
        let nets = &self.nets;
        self.learner.gradient_of(groups, &self.batch, |rows| nets.loss(rows, ALL)).expect("a gradient");
        floats(self.learner.last_gradient())
    }

    pub(crate) fn reference(&self) -> Reference {
        let state = self.learner.state().expect("a state");
        let set = |name: &str| {
            let weights = state.nested(name).expect("weights");
            let double = |name: &str| weights.tensor(name).expect("a parameter").to_kind(Kind::Double);
            weights.array_names().map(|name| (name.to_owned(), double(name))).collect::<Set>()
        };
        let online: Set =
            set("weights").into_iter().map(|(name, t)| (name, t.set_requires_grad(true))).collect();
        let frozen = online.iter().map(|(name, t)| (name.clone(), t.detach())).collect();
        let column =
            |column| (column, self.batch.get(column).expect("the column").to_tensor().to_kind(Kind::Double));
        Reference {
            online,
            frozen,
            target: set("target"),
            activation: self.hidden.fcnet_activation,
            columns: self.batch.columns().map(|(name, _)| column(name)).collect(),
        }
    }
}

type Set = BTreeMap<String, Tensor>;

/// The same formulas in tensors of doubles.
pub(crate) struct Reference {
    pub(crate) online: Set,
    pub(crate) frozen: Set,
    pub(crate) target: Set,
    activation: Activation,
    columns: Vec<(Column, Tensor)>,
}

impl Reference {
    pub(crate) fn column(&self, wanted: Column) -> Tensor {
        let (_, tensor) = self.columns.iter().find(|(column, _)| *column == wanted).expect("the column");
        if tensor.dim() == 1 { tensor.unsqueeze(1) } else { tensor.shallow_clone() }
    }

    fn mlp(&self, set: &Set, name: &str, mut x: Tensor) -> Tensor {
        let linear = |x: &Tensor, layer: &str| {
            x.linear(&set[&format!("{name}.{layer}.weight")], Some(&set[&format!("{name}.{layer}.bias")]))
        };
        for i in (0..).take_while(|i| set.contains_key(&format!("{name}.{i}.weight"))) {
            let y = linear(&x, &i.to_string());
            x = match self.activation {
                Activation::Tanh => y.tanh(),
                Activation::Relu => y.relu(),
                Activation::Elu => y.elu(),
                other => panic!("{other:?} is not drawn"),
            };
        }
        linear(&x, "out")
    }

    pub(crate) fn act(&self, set: &Set, obs: Tensor, noise: Column) -> [Tensor; 2] {
        let inputs = self.mlp(set, "actor", obs);
        let mean = inputs.narrow(1, 0, ACTIONS);
        let log_std = inputs.narrow(1, ACTIONS, ACTIONS);
        let log_std = log_std.clamp(-5.0, 2.0);
        let noise = self.column(noise);
        let before = mean + log_std.exp() * &noise;
        let normal = noise.square() * -0.5 - log_std - 0.5 * std::f64::consts::TAU.ln();
        // The slope of tanh is 1 / cosh^2.
        let size = before.abs();
        let log_cosh = &size + (&size * -2.0).exp().log1p() - std::f64::consts::LN_2;
        let logp = normal + log_cosh * 2.0;
        [before.tanh(), logp.sum_dim_intlist(1, true, Kind::Double)]
    }

    pub(crate) fn q(&self, set: &Set, name: &str, obs: Tensor, action: &Tensor) -> Tensor {
        self.mlp(set, name, Tensor::cat(&[&obs, action], 1))
    }

    pub(crate) fn min_q(&self, set: &Set, obs: Column, action: &Tensor) -> Tensor {
        let [q1, q2] = ["q1", "q2"].map(|name| self.q(set, name, self.column(obs), action));
        q1.minimum(&q2)
    }

    pub(crate) fn loss(&self, parts: Parts) -> Tensor {
        let log_alpha = &self.online["log_alpha"];
        let alpha = log_alpha.exp().detach();
        let [action, logp] = self.act(&self.online, self.column(Column::OBS), NOISE);
        let mut total = Tensor::from(0.0_f64);
        if parts.critics {
            let [a2, logp2] = self.act(&self.frozen, self.column(Column::NEW_OBS), NEXT_NOISE);
            let next = self.min_q(&self.target, Column::NEW_OBS, &a2) - &alpha * logp2;
            let discounts = self.column(Column::DISCOUNTS) * (self.column(Column::TERMINATED) * -1.0 + 1.0);
            let wanted = self.column(Column::REWARDS) + discounts * next;
            for name in ["q1", "q2"] {
                let q = self.q(&self.online, name, self.column(Column::OBS), &self.column(Column::ACTIONS));
                total += (q - &wanted).square().mean(Kind::Double) * 0.5;
            }
        }
        if parts.actor {
            let q = self.min_q(&self.frozen, Column::OBS, &action);
            total += (&alpha * &logp - q).mean(Kind::Double);
        }
        if parts.alpha {
            total -= (log_alpha * (logp.detach() - ACTIONS as f64)).mean(Kind::Double);
        }
        total
    }

    /// The gradient, in the order in which the parameters were laid out.
    pub(crate) fn gradient(&self, loss: &Tensor) -> Vec<f64> {
        loss.backward();
        let nets = ["actor", "q1", "q2"].map(|net| {
            let layers = (0..2).map(|i| i.to_string()).chain(["out".to_owned()]);
            let names = layers.flat_map(|l| [format!("{net}.{l}.weight"), format!("{net}.{l}.bias")]);
            names.filter(|name| self.online.contains_key(name)).collect::<Vec<_>>()
        });
        let of = |name: &String| {
            let leaf = &self.online[name];
            floats(&if leaf.grad().defined() { leaf.grad() } else { leaf.zeros_like() })
        };
        nets.concat().iter().chain([&"log_alpha".to_owned()]).flat_map(of).collect()
    }
}
