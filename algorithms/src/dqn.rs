//! Deep Q-learning (Mnih et al. 2015) with the parts of Rainbow (Hessel et al. 2018), in Ray's form.
//!
//! 1. Workers act greedily on the values of a network, or at random with probability epsilon, and store what they saw.
//! 2. Batches are drawn from the store, surprising rows more often.
//! 3. The network moves towards `r + gamma^n Q_target(s', argmax Q(s'))`, by Huber loss; with atoms it learns the
//!    distribution of returns instead of their mean.
//! 4. Now and then the target network becomes a copy of the network.

use pavlov_envs::Space;
use pavlov_trainer::{
    Common, Error, Result, Trainer, WorkerSet,
    action_dist::ActionRows,
    batch::{Column, SampleBatch},
    exploration::ExplorationConfig,
    learner::{Learner, Loss, Rows},
    models::{Activation, Init, NetBuilder, Node, Outputs},
    nstep,
    optim::OptimizerConfig,
    plan::{
        Plan, PlanExt, owed, replay, round_robin, store_to_replay, sync_weights, train_on_replay,
        update_priorities, update_target,
    },
    policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces},
    replay::{ReplayBufferConfig, ReplayKind},
    rng::Stream,
    schedule::{Piecewise, scheduled},
    state::{State, Weights},
    value::Value,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};
use tch::{Device, Kind, Tensor};

/// Settings of DQN. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dqn {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// Step size of Adam.
    pub lr: f64,
    /// Replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Adam's epsilon.
    pub adam_epsilon: f64,
    /// Bound of the gradient's norm.
    pub grad_clip: Option<f64>,
    /// Sampled environment steps between two copies into the target network; 0 copies after every learning step.
    pub target_network_update_freq: u64,
    /// The store of experience.
    pub replay_buffer_config: ReplayBufferConfig,
    /// Trained rows per sampled step; null learns one batch per fragment.
    pub training_intensity: Option<f64>,
    /// Keep the replay buffer in checkpoints. Without it a continued run starts with an empty one.
    pub store_buffer_in_checkpoints: bool,
    /// The network chooses the next action, the target network values it (van Hasselt et al. 2016).
    pub double_q: bool,
    /// Values and advantages in separate heads (Wang et al. 2016).
    pub dueling: bool,
    /// Units of each hidden layer of the heads, ReLU; empty puts the output right on the model.
    pub hiddens: Vec<usize>,
    /// Steps of reward before the value of what follows.
    pub n_step: usize,
    /// More than 1: learn the distribution of returns on so many atoms (Bellemare et al. 2017).
    pub num_atoms: usize,
    /// Lowest return that atoms stand for.
    pub v_min: f64,
    /// Highest return that atoms stand for.
    pub v_max: f64,
    /// Noisy layers in the heads explore (Fortunato et al. 2018); set `final_epsilon` to 0 to explore by them alone.
    pub noisy: bool,
    /// Initial noise of noisy layers.
    pub sigma0: f64,
    /// New rows get their error as priority instead of the highest so far; costs a pass through the network per fragment.
    pub worker_side_prioritization: bool,
}

impl Default for Dqn {
    fn default() -> Self {
        Self {
            common: Common {
                num_workers: 0,
                rollout_fragment_length: 4,
                train_batch_size: 32,
                min_sample_timesteps_per_reporting: Some(1000),
                exploration_config: ExplorationConfig::EpsilonGreedy {
                    initial_epsilon: 1.0,
                    final_epsilon: 0.02,
                    warmup_timesteps: 0,
                    epsilon_timesteps: 10_000,
                    epsilon_schedule: None,
                },
                ..Common::default()
            },
            lr: 5e-4,
            lr_schedule: None,
            adam_epsilon: 1e-8,
            grad_clip: Some(40.0),
            target_network_update_freq: 500,
            replay_buffer_config: ReplayBufferConfig::default(),
            training_intensity: None,
            store_buffer_in_checkpoints: true,
            double_q: true,
            dueling: true,
            hiddens: vec![256],
            n_step: 1,
            num_atoms: 1,
            v_min: -10.0,
            v_max: 10.0,
            noisy: false,
            sigma0: 0.5,
            worker_side_prioritization: false,
        }
    }
}

impl Trainer for Dqn {
    const NAME: &'static str = "DQN";

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = &[
        ("before_learn_on_batch", "it is code: implement `Callbacks::on_learn_on_batch`"),
        (
            "prioritized_replay",
            "set `replay_buffer_config.type` to \"PrioritizedReplayBuffer\" or \"ReplayBuffer\"",
        ),
        ("prioritized_replay_alpha", "its place is `replay_buffer_config.prioritized_replay_alpha`"),
        ("prioritized_replay_beta", "its place is `replay_buffer_config.prioritized_replay_beta`"),
        ("prioritized_replay_eps", "its place is `replay_buffer_config.prioritized_replay_eps`"),
        ("final_prioritized_replay_beta", "it had no effect in Ray either; leave it out"),
        ("prioritized_replay_beta_annealing_timesteps", "it had no effect in Ray either; leave it out"),
        ("buffer_size", "its place is `replay_buffer_config.capacity`"),
        ("learning_starts", "its place is `replay_buffer_config.learning_starts`"),
        ("replay_sequence_length", "recurrent networks are not there yet; leave it out"),
    ];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        if !matches!(spaces.action_space, Space::Discrete { .. }) {
            return Err(Error::Space {
                who: Self::NAME.into(),
                needs: "a Discrete action space".into(),
                space: spaces.action_space.to_string(),
            });
        }
        self.replay_buffer_config.validate(self.common.train_batch_size)?;
        for (key, value) in [("n_step", self.n_step), ("num_atoms", self.num_atoms)] {
            if value == 0 {
                return Err(Error::config(key, value, "it must be at least 1"));
            }
        }
        if self.hiddens.contains(&0) {
            return Err(Error::config(
                "hiddens",
                format!("{:?}", self.hiddens),
                "every layer needs at least one unit",
            ));
        }
        for (key, value) in [("lr", self.lr), ("sigma0", self.sigma0)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::config(key, value, "it must be above 0"));
            }
        }
        for (key, value) in [("grad_clip", self.grad_clip), ("training_intensity", self.training_intensity)] {
            if let Some(value) = value.filter(|v| !(*v > 0.0 && v.is_finite())) {
                return Err(Error::config(key, value, "it must be above 0, or null"));
            }
        }
        if self.num_atoms > 1 && self.v_min >= self.v_max {
            let rule = format!("it must be below {} (`v_max`)", self.v_max);
            return Err(Error::config("v_min", self.v_min, rule));
        }
        if self.worker_side_prioritization
            && self.replay_buffer_config.kind != ReplayKind::PrioritizedReplayBuffer
        {
            let rule = "it needs `replay_buffer_config.type` to be \"PrioritizedReplayBuffer\"";
            return Err(Error::config("worker_side_prioritization", true, rule));
        }
        if matches!(
            self.common.exploration_config,
            ExplorationConfig::GaussianNoise { .. } | ExplorationConfig::StochasticSampling { .. }
        ) {
            let rule = "values have no distribution to sample; use EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or Random";
            let value = self.common.exploration_config.name();
            return Err(Error::config("exploration_config.type", format!("{value:?}"), rule));
        }
        self.lr_schedule.as_ref().map_or(Ok(()), |s| s.validate("lr_schedule"))?;
        self.common.rollout_fragment_length = self.common.rollout_fragment_length.max(self.n_step);
        Ok(())
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        let config = self.clone();
        Ok(PolicyClass::new("DqnPolicy", move |spec| DqnPolicy::new(config.clone(), spec)))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let buffer = workers.replay_buffer(&self.replay_buffer_config, self.store_buffer_in_checkpoints);
        let store = workers.rollouts().then(store_to_replay(&buffer));
        let learn = replay(&buffer, self.common.train_batch_size)
            .then(train_on_replay(workers))
            .then(update_priorities(&buffer))
            .then(update_target(workers, self.target_network_update_freq))
            .then(sync_weights(workers));
        let owed = owed(workers, &buffer, self.training_intensity, self.common.train_batch_size);
        Box::new(round_robin(Box::new(store), Box::new(learn), owed))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Where the outputs of the Q-network stand: advantages, and values if dueling.
#[derive(Clone, Copy, Debug)]
struct QNet {
    advantage: Node,
    value: Option<Node>,
    actions: usize,
    atoms: usize,
    /// The returns that the first and the last atom stand for.
    range: (f64, f64),
}

impl QNet {
    fn new(net: &mut NetBuilder<'_>, config: &Dqn, actions: usize) -> Self {
        let model = &config.common.model;
        let features = net.tower("model", net.obs(), &model.hidden_layers(), model.fcnet_initializer);
        let atoms = config.num_atoms;
        let advantage = Self::head(net, "advantage", features, actions * atoms, config);
        let value = config.dueling.then(|| Self::head(net, "value", features, atoms, config));
        Self { advantage, value, actions, atoms, range: (config.v_min, config.v_max) }
    }

    /// Hidden ReLU layers and an output layer.
    fn head(net: &mut NetBuilder<'_>, name: &str, features: Node, out: usize, config: &Dqn) -> Node {
        let hidden = config.hiddens.iter().map(|&units| (units, Activation::Relu));
        let layers = hidden.chain([(out, Activation::Linear)]);
        layers.enumerate().fold(features, |from, (i, (units, activation))| {
            let name = format!("{name}.{i}");
            match config.noisy {
                true => net.noisy(&name, from, units, activation, config.sigma0),
                false => net.layer(&name, from, units, activation, Init::Uniform),
            }
        })
    }

    /// Values `[rows, actions]`.
    fn values<'t>(&self, net: &Outputs<'t>) -> Value<'t> {
        if self.atoms > 1 {
            let support =
                Tensor::linspace(self.range.0, self.range.1, self.atoms as i64, (Kind::Float, Device::Cpu));
            let probs = self.logits(net).softmax(-1, Kind::Float);
            let values = &probs * support.to_device(probs.device());
            return Value::torch(values.sum_dim_intlist(-1, false, Kind::Float));
        }
        let q = net.get(self.advantage);
        match self.value {
            None => q,
            Some(value) => &q - q.mean_columns() + net.get(value),
        }
    }

    /// Logits of the distributions of returns, `[rows, actions, atoms]`, on libtorch.
    fn logits(&self, net: &Outputs<'_>) -> Tensor {
        let blocks = |node: Node, n: usize| tensor(&net.get(node)).view([-1, n as i64, self.atoms as i64]);
        let q = blocks(self.advantage, self.actions);
        match self.value {
            None => q,
            Some(value) => &q - q.mean_dim(1, true, Kind::Float) + blocks(value, 1),
        }
    }
}

/// A value of a network with atoms, which runs on libtorch.
fn tensor(value: &Value<'_>) -> Tensor {
    value.as_torch().map(Tensor::shallow_clone).expect("networks with atoms run on libtorch")
}

/// The loss of a replayed batch: Huber's, or the cross-entropy of distributions.
fn td_loss<'t>(q_net: QNet, config: &Dqn, rows: &Rows<'t>) -> Result<Loss<'t>> {
    let (error, q) = td_error(q_net, config, rows)?;
    let loss = if config.num_atoms == 1 { huber(&error) } else { error.clone() };
    let loss = match rows.has(Column::WEIGHTS) {
        true => loss * rows.get(Column::WEIGHTS)?,
        false => loss,
    };
    let total = loss.mean();
    let stats = vec![("loss", total.clone()), ("mean_q", q.mean()), ("min_q", q.min()), ("max_q", q.max())];
    Ok(Loss { total, stats, td_errors: Some(error) })
}

/// The error of each row and the value of the chosen action, `[rows, 1]`.
///
/// Without atoms the error is `Q(s, a) - target`, with atoms the cross-entropy to the projected target distribution.
fn td_error<'t>(q_net: QNet, config: &Dqn, rows: &Rows<'t>) -> Result<(Value<'t>, Value<'t>)> {
    let (rewards, discounts) = (rows.get(Column::REWARDS)?, rows.get(Column::DISCOUNTS)?);
    let (actions, terminated) = (rows.get(Column::ACTIONS)?, rows.get(Column::TERMINATED)?);
    let bootstrap = discounts * (1.0 - terminated);

    let target = rows.target(Column::NEW_OBS)?;
    let next = q_net.values(&target);
    let best = match config.double_q {
        true => q_net.values(&rows.frozen(Column::NEW_OBS)?).argmax(),
        false => next.argmax(),
    };
    let online = rows.net(Column::OBS)?;
    if config.num_atoms == 1 {
        let target = rewards + bootstrap * next.gather(&best);
        let q = q_net.values(&online).gather(&actions);
        return Ok((&q - target, q));
    }
    let of_action = |logits: Tensor, action: &Value<'_>| {
        let index = tensor(action).view([-1, 1, 1]).expand([-1, 1, q_net.atoms as i64], false);
        logits.gather(1, &index, false).squeeze_dim(1)
    };
    let projected = tch::no_grad(|| {
        let next = of_action(q_net.logits(&target), &best).softmax(-1, Kind::Float);
        let one = |value: &Value<'_>| tensor(value).squeeze_dim(-1);
        project(&next, &one(&rewards), &one(&bootstrap), config.v_min, config.v_max)
    });
    let log_probs = of_action(q_net.logits(&online), &actions).log_softmax(-1, Kind::Float);
    let error = -(projected * log_probs).sum_dim_intlist(-1, false, Kind::Float);
    Ok((Value::torch(error), q_net.values(&online).gather(&actions).detach()))
}

/// Moves the atoms' probabilities by `r + discount z` and spreads them over the fixed atoms (Bellemare et al. 2017,
/// algorithm 1). `probs` is `[rows, atoms]`, the others `[rows]`.
pub fn project(probs: &Tensor, rewards: &Tensor, discounts: &Tensor, v_min: f64, v_max: f64) -> Tensor {
    let atoms = probs.size()[1];
    let step = (v_max - v_min) / (atoms - 1) as f64;
    let support = Tensor::linspace(v_min, v_max, atoms, (Kind::Float, probs.device()));
    let moved = (rewards.unsqueeze(1) + discounts.unsqueeze(1) * support).clamp(v_min, v_max);
    let position = ((moved - v_min) / step).clamp(0.0, (atoms - 1) as f64);
    let below = position.floor();
    let above_share = &position - &below;
    let lower = below.to_kind(Kind::Int64);
    let upper = (&lower + 1).clamp_max(atoms - 1);
    probs.zeros_like().scatter_add_(1, &lower, &(probs * above_share.rsub_scalar(1.0))).scatter_add_(
        1,
        &upper,
        &(probs * above_share),
    )
}

/// `x^2 / 2` within plus and minus 1, `|x| - 1/2` beyond.
pub fn huber<'t>(x: &Value<'t>) -> Value<'t> {
    let size = x.abs();
    let inner = size.clamp_max(1.0);
    &inner * (size - &inner * 0.5)
}

/// What [`Dqn`] learns with.
#[derive(Debug)]
struct DqnPolicy {
    config: Dqn,
    q_net: QNet,
    learner: Learner,
    seed: u64,
    worker: (usize, usize),
    timestep: u64,
}

impl DqnPolicy {
    fn new(config: Dqn, spec: &PolicySpec) -> Result<Self> {
        let actions = match spec.spaces.action_space {
            Space::Discrete { n, .. } => n as usize,
            ref other => {
                let needs = "a Discrete action space".into();
                return Err(Error::Space { who: Dqn::NAME.into(), needs, space: other.to_string() });
            }
        };
        let mut rng = Stream::new(spec.seed, "initial weights", 0);
        let mut net = NetBuilder::new(spec.spaces.obs_width(), &mut rng);
        let q_net = QNet::new(&mut net, &config, actions);
        let adam = OptimizerConfig::adam(config.adam_epsilon);
        let fused = config.common.model.fused && config.num_atoms == 1;
        let mut learner = net.learner(spec.device, adam, fused).with_target();
        if config.noisy {
            learner = learner.with_noise(Stream::new(spec.seed, "noisy layers", 0));
        }
        let worker = (spec.worker_index, spec.num_workers);
        Ok(Self { q_net, learner, seed: spec.seed, worker, timestep: 0, config })
    }
}

impl Policy for DqnPolicy {
    fn compute_actions(&mut self, input: ActInput<'_>, output: ActOutput<'_>) -> Result<()> {
        let ActionRows::Int(actions) = output.actions else {
            return Err(Error::state("DQN", "it was asked for continuous actions"));
        };
        // Noise follows from the run's step, so that workers need no state for it.
        let noise = (self.config.noisy && input.explore)
            .then(|| Stream::new(self.seed, "noisy acting", input.timestep));
        let q_net = self.q_net;
        let values =
            self.learner.evaluate_with_noise(input.obs, q_net.actions, noise, |net| q_net.values(net))?;
        let exploration = &self.config.common.exploration_config;
        let epsilon = exploration.epsilon(input.timestep, self.worker.0, self.worker.1);
        let rows = values.chunks_exact(q_net.actions);
        for ((values, rng), action) in rows.zip(input.rngs).zip(actions) {
            *action = exploration.choose(values, epsilon, input.explore, rng);
        }
        Ok(())
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        let mut batch = nstep::transitions(&f, self.config.n_step, self.config.common.gamma);
        if self.config.worker_side_prioritization {
            // Without noise: first priorities are then a function of weights and rows, on whatever worker.
            let (q_net, config) = (self.q_net, &self.config);
            let errors = self.learner.per_row(&batch, |rows| Ok(td_error(q_net, config, rows)?.0))?;
            let eps = self.config.replay_buffer_config.prioritized_replay_eps as f32;
            let priorities: Vec<f32> = errors.iter().map(|e| e.abs() + eps).collect();
            batch.set(Column::WEIGHTS, Tensor::from_slice(&priorities));
        }
        Ok(batch)
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let (q_net, config) = (self.q_net, &self.config);
        let mut report = self.learner.gradient(batch, |rows| td_loss(q_net, config, rows))?;
        if let Some(max_norm) = self.config.grad_clip {
            self.learner.clip_grad_norm(max_norm, &mut report);
        }
        self.learner.step(scheduled(self.config.lr, self.config.lr_schedule.as_ref(), self.timestep));
        Ok(report.into())
    }

    fn get_weights(&self) -> Weights {
        Arc::new(self.learner.weights(self.config.worker_side_prioritization))
    }

    fn learner(&self) -> Option<&Learner> {
        Some(&self.learner)
    }

    fn learner_mut(&mut self) -> Option<&mut Learner> {
        Some(&mut self.learner)
    }

    fn get_state(&self) -> Result<State> {
        let mut state = self.learner.state()?;
        state.set("timestep", &self.timestep)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.learner.set_state(state)?;
        self.timestep = state.get("timestep")?;
        Ok(())
    }

    fn on_global_var_update(&mut self, timestep: u64) {
        self.timestep = timestep;
    }

    fn update_target(&mut self) {
        self.learner.update_target(1.0);
    }

    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        Ok(self.learner.forward(obs, |net| self.q_net.values(net)))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let lr = scheduled(self.config.lr, self.config.lr_schedule.as_ref(), self.timestep);
        let epsilon = self.config.common.exploration_config.epsilon(timestep, self.worker.0, self.worker.1);
        BTreeMap::from([("cur_lr".to_owned(), lr), ("cur_epsilon".to_owned(), epsilon)])
    }
}
