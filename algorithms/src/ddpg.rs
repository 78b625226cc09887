//! Deep deterministic policy gradients (Lillicrap et al. 2016), in Ray's form.
//!
//! 1. An actor acts deterministically, apart from exploration noise; its experience goes to a replay buffer.
//! 2. A critic moves towards the reward plus the discounted value of the next action. The action and its value come
//!    from target networks, which follow the learned networks slowly.
//! 3. The actor moves towards actions with a high value.
//!
//! With three settings DDPG becomes TD3, which counters overestimated values (Fujimoto et al. 2018; defaults of
//! [`Td3`](crate::Td3)):
//!
//! * `twin_q`: the smaller of two critics gives the target.
//! * `smooth_target_policy`: the target's action gets noise, so that a narrow peak of the critic has little effect.
//! * `policy_delay`: the actor learns less often than the critics.
//!
//! Actions and noise are in [-1, 1] everywhere, and are stretched to the bounds of the action space once. (Ray 1.13
//! stretches them twice, which changes nothing if the bounds are -1 and 1.)

pub use pavlov_trainer::models::UpdateOrder;
use pavlov_trainer::{
    own_defaults,
    plan::{owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target},
    prelude::*,
    replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of DDPG. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Ddpg {
    /// Settings that all algorithms share. Of `model` DDPG reads `fused` and, for images, `conv_filters` and `conv_activation`.
    #[serde(flatten)]
    pub common: Common,
    /// Settings of the replay buffer and of learning from it.
    #[serde(flatten)]
    pub off_policy: OffPolicy,
    /// Whether to learn two critics and use the smaller of their values in targets, against overestimation.
    pub twin_q: bool,
    /// The actor learns in the first of every `policy_delay` learning steps (in the last with the `update_order`
    /// `critics_first`); the critics learn in all of them.
    pub policy_delay: usize,
    /// When actor and critics take the steps of one update: `together`, or `critics_first` as in Stable-Baselines3.
    pub update_order: UpdateOrder,
    /// Whether the target networks move only when the actor has learned, as in TD3's paper and most libraries;
    /// otherwise they move after every learning step, as in Ray.
    pub delay_target: bool,
    /// Whether to add noise to the next actions that targets are computed with.
    pub smooth_target_policy: bool,
    /// Standard deviation of the noise of `smooth_target_policy`, for actions in [-1, 1].
    pub target_noise: f64,
    /// Largest absolute value of the noise of `smooth_target_policy`; larger noise is clipped to it.
    pub target_noise_clip: f64,
    /// Number of units of each hidden layer of the actor.
    pub actor_hiddens: Vec<usize>,
    /// Activation after each hidden layer of the actor.
    pub actor_hidden_activation: Activation,
    /// Number of units of each hidden layer of a critic.
    pub critic_hiddens: Vec<usize>,
    /// Activation after each hidden layer of a critic.
    pub critic_hidden_activation: Activation,
    /// Whether the critics read images through the actor's convolutions, which then learn from the actor's loss alone, as in
    /// Stable-Baselines3; otherwise the critics together have convolutions of their own. The target's copy of them follows with
    /// `tau`; in Stable-Baselines3 it is moved twice, by about 2 `tau`.
    pub share_features_extractor: bool,
    /// Step size of Adam for the actor.
    pub actor_lr: f64,
    /// Step size of Adam for the critics.
    pub critic_lr: f64,
    /// Adam's epsilon: 1e-7 as in TensorFlow and Ray, or 1e-8 as in PyTorch and Stable-Baselines3.
    pub adam_epsilon: f64,
    /// Fraction of the way that the target networks move towards the learned ones at each update. Typical: 0.002 to 0.02.
    pub tau: f64,
    /// Whether the critics' loss is Huber's; otherwise it is half the squared error.
    pub use_huber: bool,
    /// Error above which Huber's loss is linear.
    pub huber_threshold: f64,
    /// Factor of the critics' loss: with 2 it is the squared error, as in Stable-Baselines3. Adam's steps depend on it only
    /// as far as `adam_epsilon` and `grad_clip` do.
    pub critic_loss_scale: f64,
    /// Weight decay: `l2_reg / 2` times the sum of a network's squared weights is added to its loss.
    pub l2_reg: f64,
    /// Largest norm of each network's gradient; a larger gradient is scaled down to it. Null: no bound.
    pub grad_clip: Option<f64>,
}

own_defaults!(Ddpg);

impl Default for Ddpg {
    fn default() -> Self {
        Self {
            common: Common {
                num_workers: 0,
                rollout_fragment_length: 1,
                train_batch_size: 256,
                min_sample_timesteps_per_reporting: Some(1000),
                exploration_config: ExplorationConfig::OrnsteinUhlenbeckNoise {
                    random_timesteps: 1000,
                    ou_base_scale: 0.1,
                    ou_theta: 0.15,
                    ou_sigma: 0.2,
                    initial_scale: 1.0,
                    final_scale: 0.02,
                    scale_timesteps: 10_000,
                },
                ..Common::default()
            },
            off_policy: OffPolicy {
                replay_buffer_config: ReplayBufferConfig {
                    kind: ReplayKind::PrioritizedReplayBuffer,
                    capacity: 50_000,
                    learning_starts: 1500,
                    ..ReplayBufferConfig::default()
                },
                ..OffPolicy::default()
            },
            twin_q: false,
            policy_delay: 1,
            update_order: UpdateOrder::Together,
            delay_target: false,
            smooth_target_policy: false,
            target_noise: 0.2,
            target_noise_clip: 0.5,
            actor_hiddens: vec![400, 300],
            actor_hidden_activation: Activation::Relu,
            critic_hiddens: vec![400, 300],
            critic_hidden_activation: Activation::Relu,
            share_features_extractor: false,
            actor_lr: 1e-3,
            critic_lr: 1e-3,
            adam_epsilon: 1e-7,
            tau: 0.002,
            use_huber: false,
            huber_threshold: 1.0,
            critic_loss_scale: 1.0,
            l2_reg: 1e-6,
            grad_clip: None,
        }
    }
}

/// Ray's settings of DDPG and TD3 that do not exist here, and the reasons.
pub(crate) const REFUSED_KEYS: &[(&str, &str)] = &[
    (
        "use_state_preprocessor",
        "the networks read observations themselves: add layers to `actor_hiddens` and `critic_hiddens`",
    ),
    ("worker_side_prioritization", "new rows have the highest priority so far; leave it out"),
];

impl Ddpg {
    /// Checks the settings, for the algorithm with this name (DDPG or TD3).
    pub(crate) fn validate_as(&mut self, name: &str, spaces: &Spaces) -> Result<()> {
        let exploration = &self.common.exploration_config;
        let networks = "`actor_hiddens` and `critic_hiddens`";
        let empty = |key: &str, units: &[usize]| {
            let rule = "every layer needs at least one unit";
            rules::refuse_if(units.contains(&0), key, format_args!("{units:?}"), rule)
        };
        rules::all([
            rules::bounded_actions(name, &spaces.action_space).map(|_| ()),
            self.off_policy.validate(&self.common, spaces),
            self.common.refuse_unread_model(name, networks, self.share_features_extractor, spaces),
            empty("actor_hiddens", &self.actor_hiddens),
            empty("critic_hiddens", &self.critic_hiddens),
            rules::at_least_one([("policy_delay", self.policy_delay)]),
            rules::not_negative([
                ("target_noise", self.target_noise),
                ("target_noise_clip", self.target_noise_clip),
                ("l2_reg", self.l2_reg),
                ("adam_epsilon", self.adam_epsilon),
            ]),
            rules::above_zero([
                ("actor_lr", self.actor_lr),
                ("critic_lr", self.critic_lr),
                ("huber_threshold", self.huber_threshold),
                ("critic_loss_scale", self.critic_loss_scale),
            ]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::share([("tau", self.tau)]),
            rules::refuse_if(
                !exploration.is_noise() && !matches!(exploration, ExplorationConfig::Random {}),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                format!(
                    "{name} has no distribution to sample; use GaussianNoise, OrnsteinUhlenbeckNoise or Random"
                ),
            ),
            self.common.refuse_raw_actions(name),
        ])?;
        Ok(())
    }
}

impl Trainer for Ddpg {
    const NAME: &'static str = "DDPG";

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = REFUSED_KEYS;

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.validate_as(Self::NAME, spaces)
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
        let inputs = memory.add_convolutions(&self.common.model, spaces).unwrap_or(spaces.obs_width());
        for (key, hiddens) in
            [("actor_hiddens", &self.actor_hiddens), ("critic_hiddens", &self.critic_hiddens)]
        {
            memory.add_layers("the networks", key, inputs, hiddens);
        }
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<DdpgPolicy>("DdpgPolicy", self))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let off = &self.off_policy;
        let rows = self.common.train_batch_size;
        let buffer = workers.replay_buffer(&off.replay_buffer_config, off.store_buffer_in_checkpoints);
        let store = workers.rollouts().then(store_to_replay(&buffer));
        let learn = replay(&buffer, rows)
            .then(train_on_replay(workers))
            .then(update_priorities(&buffer))
            .then(update_target(workers, off.target_network_update_freq))
            .then(sync_weights(workers));
        round_robin(store, learn, owed(workers, &buffer, off.training_intensity, rows))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The policy of DDPG and TD3: an actor, and one or two critics. [`Over`] changes single methods of it.
#[derive(Debug)]
pub struct DdpgPolicy {
    config: Ddpg,
    actor: Mlp,
    /// What the actor reads of observations, and the critics if they have no convolutions of their own.
    features: Box<dyn Torso>,
    q: Critics,
    actor_group: Group,
    action_width: usize,
    worker: (usize, usize),
}

/// Column of standard normal numbers, which become the noise on next actions with `smooth_target_policy`.
const NOISE: Column = Column::new("noise");

impl DdpgPolicy {
    /// The settings that the policy was built with.
    pub fn config(&self) -> &Ddpg {
        &self.config
    }

    /// The actor's actions for the observations `s`, in [-1, 1].
    fn mu<'t>(&self, net: Net<'t>, s: Input<'t>) -> Value<'t> {
        self.actor.on(net, self.features.on(net, s)).tanh()
    }

    /// What the critics read: the observation `s`, followed by the action `a`.
    fn sa<'t>(&self, net: Net<'t>, s: Input<'t>, a: Value<'t>) -> Value<'t> {
        self.q.seen(net, s, &*self.features).cat(a)
    }

    /// The target actor's action for the next observation `s2`, with noise if `smooth_target_policy` is set.
    fn next_action<'t>(&self, rows: &Rows<'t>, s2: Input<'t>) -> Result<Value<'t>> {
        let Ddpg { smooth_target_policy, target_noise, target_noise_clip: c, .. } = self.config;
        let a2 = self.mu(rows.target(), s2);
        if !smooth_target_policy {
            return Ok(a2);
        }
        let noise = (rows.get(NOISE)? * target_noise).clamp(-c, c);
        Ok((a2 + noise).clamp(-1.0, 1.0))
    }

    /// A critic's loss for `error` in each row: Huber's loss with `use_huber`, else half the squared error; times
    /// `critic_loss_scale`.
    fn size<'t>(&self, error: Value<'t>) -> Value<'t> {
        let Ddpg { huber_threshold: threshold, critic_loss_scale: scale, .. } = self.config;
        if self.config.use_huber {
            (error / threshold).huber() * (threshold.powi(2) * scale)
        } else {
            error.square() * (0.5 * scale)
        }
    }

    /// Whether the actor learns in learning step number `step`, counted from 0.
    fn actor_learns_at(&self, step: u64) -> bool {
        let step = match self.config.update_order {
            UpdateOrder::Together => step,
            UpdateOrder::CriticsFirst => step + 1,
        };
        step.is_multiple_of(self.config.policy_delay as u64)
    }

    /// The actor's loss: how little the first critic values its actions.
    fn actor_loss<'t>(&self, rows: &Rows<'t>) -> Result<Value<'t>> {
        // The critic's parameters are constant here; the gradient of its value reaches the actor through the action.
        let s = rows.obs()?;
        let sa = self.sa(rows.frozen(), s, self.mu(rows.online(), s));
        Ok(-self.q.first(rows.frozen(), sa).mean())
    }

    /// Computes the gradient of the groups' losses, with weight decay and clipped.
    fn gradient_of(
        &self,
        groups: &[Group],
        learner: &mut Learner,
        batch: &SampleBatch,
        loss: &LossOf<'_, Self>,
    ) -> Result<Report> {
        let mut report = learner.gradient_of(groups, batch, |rows| loss(self, rows))?;
        learner.add_l2(self.config.l2_reg, &report);
        learner.clip(&mut report);
        Ok(report)
    }
}

impl NetPolicy for DdpgPolicy {
    type Config = Ddpg;

    fn build(config: &Ddpg, net: &mut NetBuilder<'_>) -> Result<Self> {
        net.refuse_custom_model()?;
        let spec = net.spec();
        let action_width = rules::bounded_actions(Ddpg::NAME, &spec.spaces.action_space)?;
        let adam = |lr: f64| Rule::adam(lr, config.adam_epsilon).clip(config.grad_clip);
        net.target();
        let hidden = HiddenLayers {
            fcnet_hiddens: config.actor_hiddens.clone(),
            fcnet_activation: config.actor_hidden_activation,
            ..HiddenLayers::default()
        };
        let model = &config.common.model;
        let (actor_group, (features, actor)) = net.group("actor", adam(config.actor_lr), |net| {
            let features = net.features("actor.features", model)?;
            let width = features.width();
            Ok((features, Mlp::new(net, "actor", width, &hidden, action_width)))
        })?;
        let hidden = HiddenLayers {
            fcnet_hiddens: config.critic_hiddens.clone(),
            fcnet_activation: config.critic_hidden_activation,
            ..HiddenLayers::default()
        };
        let count = 1 + usize::from(config.twin_q);
        let rule = adam(config.critic_lr);
        let mut q = Critics::new(net, count, features.width() + action_width, 1, &hidden, &rule)?;
        if !config.share_features_extractor {
            q.add_features(net, model, &rule)?;
        }
        let worker = (spec.worker_index, spec.num_workers);
        Ok(Self { config: config.clone(), actor, features, q, actor_group, action_width, worker })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, s: Input<'t>) -> Value<'t> {
        self.mu(net, s)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.with_noise(inputs, &self.config.common.exploration_config)
    }

    fn best_actions<'t>(&self, inputs: Value<'t>) -> Option<Value<'t>> {
        Some(inputs)
    }

    fn postprocess(&self, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        self.config.off_policy.rows(f, self.config.common.gamma)
    }

    fn prepare(&self, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        if self.config.smooth_target_policy {
            batch.set_noise(NOISE, self.action_width, learner.rng());
        }
        Ok(())
    }

    /// The sum of the losses of critics and actor, as far as these learn now. Each loss has gradients for the parameters
    /// of its own network only, so one backward pass serves all.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        if !rows.learns(self.q.groups[0]) {
            return Ok(Loss::sum([("actor_loss", self.actor_loss(rows)?)]));
        }
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discount = rows.discounts()?;
        let [a, r] = rows.columns([Column::ACTIONS, Column::REWARDS])?;

        // y = r + gamma min Q'(s', mu'(s') + noise)
        let a2 = self.next_action(rows, s2)?;
        let y = r + discount * self.q.min(rows.target(), self.sa(rows.target(), s2, a2));
        let q = self.q.on(rows.online(), self.sa(rows.online(), s, a));
        let weights = rows.weights()?;
        let critic_loss = q.iter().map(|&q| (self.size(q - y) * weights).mean()).sum();
        let loss = Loss::sum([("critic_loss", critic_loss)])
            .mean("mean_q", q[0])
            .min("min_q", q[0])
            .max("max_q", q[0])
            .td_errors(q[0] - y);
        if !rows.learns(self.actor_group) {
            return Ok(loss);
        }
        Ok(loss.plus("actor_loss", self.actor_loss(rows)?))
    }

    fn learn(&mut self, learner: &mut Learner, batch: &SampleBatch) -> Result<Learned> {
        self.learn_by(learner, batch, &|policy, rows| policy.loss(rows))
    }

    fn update_target(&self, learner: &mut Learner) {
        let last = learner.steps().saturating_sub(1);
        if !self.config.delay_target || self.actor_learns_at(last) {
            learner.update_target(self.config.tau);
        }
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let (index, workers) = self.worker;
        let scale = self.config.common.exploration_config.noise_scale(timestep, index, workers);
        BTreeMap::from([("cur_noise_scale".to_owned(), scale)])
    }
}

impl Overridable for DdpgPolicy {
    fn learn_by(
        &mut self,
        learner: &mut Learner,
        batch: &SampleBatch,
        loss: &LossOf<'_, Self>,
    ) -> Result<Learned> {
        let actor_learns = self.actor_learns_at(learner.steps());
        let apart = self.config.update_order == UpdateOrder::CriticsFirst;
        let resting = (apart || !actor_learns).then_some(self.actor_group);
        let groups = learner.groups_but(resting);
        let report = self.gradient_of(&groups, learner, batch, loss)?;
        if !(apart && actor_learns) {
            learner.step(&report);
            return Ok(report.into());
        }
        learner.step_part(&report);
        let actor = self.gradient_of(&[self.actor_group], learner, batch, loss)?;
        learner.step(&actor);
        Ok(report.and(actor).into())
    }
}
