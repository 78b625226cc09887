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
    batch::{Column, SampleBatch, read_f32},
    exploration::ExplorationConfig,
    models::{Activation, FcNet, Linear, ModelConfig, NoisyLinear, Params, ParamsBuilder},
    nstep,
    optim::{Optimizer, OptimizerConfig, clip_grad_norm},
    plan::{
        Plan, PlanExt, Replay, round_robin, store_to_replay, sync_weights, train_on_replay,
        update_priorities, update_target,
    },
    policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces, Stats},
    replay::{ReplayBufferConfig, ReplayKind},
    rng::Stream,
    schedule::{Piecewise, scheduled},
    state::{State, Weights},
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
        let replay = Replay::new(&buffer, self.common.train_batch_size)
            .then(train_on_replay(workers))
            .then(update_priorities(&buffer))
            .then(update_target(workers, self.target_network_update_freq))
            .then(sync_weights(workers));
        Box::new(round_robin(Box::new(store), Box::new(replay), self.pulls(workers)))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

impl Dqn {
    /// How many batches to learn from after a fragment: one, or as many as `training_intensity` owes. The debt is
    /// computed from the counters, so no fraction is lost and a restored run owes the same.
    fn pulls(&self, workers: &WorkerSet) -> impl FnMut() -> usize + Send + use<> {
        let workers = workers.clone();
        let (intensity, batch) = (self.training_intensity, self.common.train_batch_size as f64);
        let starts = self.replay_buffer_config.learning_starts as u64;
        move || match intensity {
            None => 1,
            Some(intensity) => {
                let counters = workers.counters();
                let sampled = counters.num_env_steps_sampled.saturating_sub(starts) as f64;
                ((intensity * sampled - counters.num_env_steps_trained as f64) / batch).max(0.0) as usize
            }
        }
    }
}

/// A layer of a head.
#[derive(Clone, Copy, Debug)]
enum HeadLayer {
    Plain(Linear),
    Noisy(NoisyLinear),
}

/// Hidden ReLU layers and an output layer.
#[derive(Clone, Debug)]
struct Head {
    layers: Vec<HeadLayer>,
}

impl Head {
    fn new(p: &mut ParamsBuilder<'_>, name: &str, inputs: i64, out: i64, config: &Dqn) -> Self {
        let mut sizes: Vec<i64> = config.hiddens.iter().map(|&n| n as i64).collect();
        sizes.push(out);
        let mut from = inputs;
        let layers = sizes
            .iter()
            .enumerate()
            .map(|(i, &to)| {
                let name = format!("{name}.{i}");
                let layer = match config.noisy {
                    true => HeadLayer::Noisy(NoisyLinear::new(p, &name, from, to, config.sigma0)),
                    false => HeadLayer::Plain(Linear::uniform(p, &name, from, to)),
                };
                from = to;
                layer
            })
            .collect();
        Self { layers }
    }

    fn forward(&self, p: &Params, x: &Tensor, mut noise: Option<&mut Stream>) -> Tensor {
        let mut h = x.shallow_clone();
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                h = Activation::Relu.apply(h);
            }
            h = match layer {
                HeadLayer::Plain(layer) => layer.forward(p, &h),
                HeadLayer::Noisy(layer) => layer.forward(p, &h, noise.as_deref_mut()),
            };
        }
        h
    }
}

/// The Q-network: a model, an advantage head, and a value head if dueling.
#[derive(Clone, Debug)]
struct QNet {
    model: FcNet,
    advantage: Head,
    value: Option<Head>,
    actions: i64,
    atoms: i64,
}

impl QNet {
    fn new(
        p: &mut ParamsBuilder<'_>,
        config: &Dqn,
        model: &ModelConfig,
        obs_width: i64,
        actions: i64,
    ) -> Self {
        let model = FcNet::hidden(p, "model", obs_width, &model.hidden_layers(), model.fcnet_initializer);
        let atoms = config.num_atoms as i64;
        let advantage = Head::new(p, "advantage", model.out(), actions * atoms, config);
        let value = config.dueling.then(|| Head::new(p, "value", model.out(), atoms, config));
        Self { model, advantage, value, actions, atoms }
    }

    /// Values `[rows, actions]`, or logits of their distributions `[rows, actions, atoms]`.
    fn forward(&self, p: &Params, obs: &Tensor, mut noise: Option<&mut Stream>) -> Tensor {
        let features = self.model.forward(p, obs);
        let mut q = self.advantage.forward(p, &features, noise.as_deref_mut());
        if self.atoms > 1 {
            q = q.view([-1, self.actions, self.atoms]);
        }
        let Some(value) = &self.value else { return q };
        let mut v = value.forward(p, &features, noise);
        if self.atoms > 1 {
            v = v.unsqueeze(1);
        }
        &q - q.mean_dim(1, true, Kind::Float) + v
    }
}

/// What [`Dqn`] learns with.
#[derive(Debug)]
struct DqnPolicy {
    config: Dqn,
    net: QNet,
    online: Params,
    target: Params,
    optimizer: Optimizer,
    /// The returns that atoms stand for, `[atoms]`.
    support: Tensor,
    device: Device,
    noise: Stream,
    seed: u64,
    worker: (usize, usize),
    timestep: u64,
}

impl DqnPolicy {
    fn new(config: Dqn, spec: &PolicySpec) -> Result<Self> {
        let actions = match spec.spaces.action_space {
            Space::Discrete { n, .. } => n,
            ref other => {
                let needs = "a Discrete action space".into();
                return Err(Error::Space { who: Dqn::NAME.into(), needs, space: other.to_string() });
            }
        };
        let mut rng = Stream::new(spec.seed, "initial weights", 0);
        let mut builder = ParamsBuilder::new(&mut rng);
        let net =
            QNet::new(&mut builder, &config, &config.common.model, spec.spaces.obs_width() as i64, actions);
        let online = builder.finish(spec.device);
        let target = online.duplicate();
        let optimizer = Optimizer::new(OptimizerConfig::adam(config.adam_epsilon), online.flat());
        let support =
            Tensor::linspace(config.v_min, config.v_max, config.num_atoms as i64, (Kind::Float, spec.device));
        Ok(Self {
            net,
            online,
            target,
            optimizer,
            support,
            device: spec.device,
            noise: Stream::new(spec.seed, "noisy layers", 0),
            seed: spec.seed,
            worker: (spec.worker_index, spec.num_workers),
            timestep: 0,
            config,
        })
    }

    /// Expected values, `[rows, actions]`, from the network's output.
    fn expected(&self, output: &Tensor) -> Tensor {
        match self.config.num_atoms {
            1 => output.shallow_clone(),
            _ => (output.softmax(-1, Kind::Float) * &self.support).sum_dim_intlist(-1, false, Kind::Float),
        }
    }

    /// The error of each row (differentiable) and the values of the chosen actions, `[rows]`.
    ///
    /// Without atoms the error is `Q(s, a) - target`, with atoms the cross-entropy to the projected target distribution.
    fn td_error(&self, batch: &SampleBatch, mut noise: Option<&mut Stream>) -> Result<(Tensor, Tensor)> {
        let (obs, new_obs) = (batch.get(Column::OBS)?, batch.get(Column::NEW_OBS)?);
        let (rewards, discounts) = (batch.get(Column::REWARDS)?, batch.get(Column::DISCOUNTS)?);
        let actions = batch.get(Column::ACTIONS)?.view([-1, 1]);

        let bootstrap = discounts * batch.get(Column::TERMINATED)?.rsub_scalar(1.0);
        let (next, best) = tch::no_grad(|| {
            let next = self.net.forward(&self.target, new_obs, noise.as_deref_mut());
            let judge = match self.config.double_q {
                true => self.expected(&self.net.forward(&self.online, new_obs, noise.as_deref_mut())),
                false => self.expected(&next),
            };
            (next, judge.argmax(1, true))
        });
        let output = self.net.forward(&self.online, obs, noise);
        if self.config.num_atoms == 1 {
            let target = tch::no_grad(|| rewards + bootstrap * next.gather(1, &best, false).squeeze_dim(1));
            let q = output.gather(1, &actions, false).squeeze_dim(1);
            return Ok((&q - target, q));
        }
        let atoms = self.config.num_atoms as i64;
        let pick = |t: &Tensor, action: &Tensor| {
            let index = action.unsqueeze(-1).expand([-1, 1, atoms], false);
            t.gather(1, &index, false).squeeze_dim(1)
        };
        let projected = tch::no_grad(|| {
            let next = pick(&next, &best).softmax(-1, Kind::Float);
            project(&next, rewards, &bootstrap, self.config.v_min, self.config.v_max)
        });
        let log_probs = pick(&output, &actions).log_softmax(-1, Kind::Float);
        let cross_entropy = -(projected * &log_probs).sum_dim_intlist(-1, false, Kind::Float);
        let q = tch::no_grad(|| (log_probs.exp() * &self.support).sum_dim_intlist(-1, false, Kind::Float));
        Ok((cross_entropy, q))
    }
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
pub fn huber(x: &Tensor) -> Tensor {
    let size = x.abs();
    let inner = size.clamp_max(1.0);
    &inner * (size - &inner * 0.5)
}

impl Policy for DqnPolicy {
    fn compute_actions(&mut self, input: ActInput<'_>, output: ActOutput<'_>) -> Result<()> {
        let _guard = tch::no_grad_guard();
        let ActionRows::Int(actions) = output.actions else {
            return Err(Error::state("DQN", "it was asked for continuous actions"));
        };
        // Noise follows from the run's step, so that workers need no state for it.
        let mut noise = (self.config.noisy && input.explore)
            .then(|| Stream::new(self.seed, "noisy acting", input.timestep));
        let q = self.net.forward(&self.online, &input.obs.to_device(self.device), noise.as_mut());
        let q = self.expected(&q).to_device(Device::Cpu).contiguous();
        let exploration = &self.config.common.exploration_config;
        let epsilon = exploration.epsilon(input.timestep, self.worker.0, self.worker.1);
        let rows = read_f32(&q)?.chunks_exact(self.net.actions as usize);
        for ((values, rng), action) in rows.zip(input.rngs).zip(actions) {
            *action = exploration.choose(values, epsilon, input.explore, rng);
        }
        Ok(())
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        let mut batch = nstep::transitions(&f, self.config.n_step, self.config.common.gamma);
        if self.config.worker_side_prioritization {
            // Without noise: first priorities are then a function of weights and rows, on whatever worker.
            let (error, _) = tch::no_grad(|| self.td_error(&batch.to_device(self.device), None))?;
            let eps = self.config.replay_buffer_config.prioritized_replay_eps;
            batch.set(Column::WEIGHTS, error.abs().to_device(Device::Cpu) + eps);
        }
        Ok(batch)
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let batch = batch.to_device(self.device);
        let mut noise = self.config.noisy.then_some(self.noise.clone());
        let (error, q) = self.td_error(&batch, noise.as_mut())?;
        if let Some(noise) = noise {
            self.noise = noise;
        }
        let loss = if self.config.num_atoms == 1 { huber(&error) } else { error.shallow_clone() };
        let loss = match batch.get(Column::WEIGHTS) {
            Ok(weights) => (loss * weights).mean(None),
            Err(_) => loss.mean(None),
        };
        let mut gradient = self.online.gradient(&loss);
        let _guard = tch::no_grad_guard();
        let q = q.detach();
        let mut names = vec!["loss", "mean_q", "min_q", "max_q"];
        let mut values = vec![loss.detach(), q.mean(None), q.min(), q.max()];
        if let Some(max_norm) = self.config.grad_clip {
            names.push("grad_gnorm");
            values.push(clip_grad_norm(&mut gradient, max_norm));
        }
        let lr = scheduled(self.config.lr, self.config.lr_schedule.as_ref(), self.timestep);
        self.optimizer.step(self.online.flat_mut(), &gradient, lr);
        let stats = Stats { names, values: Tensor::stack(&values, 0) };
        Ok(Learned { stats, td_errors: Some(error.detach()), stop: false })
    }

    fn get_weights(&self) -> Weights {
        let mut weights = self.online.weights();
        if self.config.worker_side_prioritization {
            weights.nest("target", self.target.weights());
        }
        Arc::new(weights)
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.online.set_weights(weights)?;
        if self.config.worker_side_prioritization {
            self.target.set_weights(&weights.nested("target")?)?;
        }
        Ok(())
    }

    fn get_state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("timestep", &self.timestep)?;
        state.set("noise", &self.noise.state())?;
        state.nest("weights", self.online.weights());
        state.nest("target", self.target.weights());
        state.nest("optimizer", self.optimizer.state()?);
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.online.set_weights(&state.nested("weights")?)?;
        self.target.set_weights(&state.nested("target")?)?;
        self.optimizer.set_state(&state.nested("optimizer")?)?;
        self.noise = Stream::from_state(state.get("noise")?);
        self.timestep = state.get("timestep")?;
        Ok(())
    }

    fn on_global_var_update(&mut self, timestep: u64) {
        self.timestep = timestep;
    }

    fn update_target(&mut self) {
        self.target.soft_update(&self.online, 1.0);
    }

    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        Ok(self.expected(&self.net.forward(&self.online.frozen(), obs, None)))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let lr = scheduled(self.config.lr, self.config.lr_schedule.as_ref(), self.timestep);
        let epsilon = self.config.common.exploration_config.epsilon(timestep, self.worker.0, self.worker.1);
        BTreeMap::from([("cur_lr".to_owned(), lr), ("cur_epsilon".to_owned(), epsilon)])
    }
}
