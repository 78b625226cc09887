//! Soft actor-critic (Haarnoja et al. 2018, with the learned temperature of the second paper), in Ray's form.
//!
//! 1. A stochastic actor acts; its experience goes to a replay buffer.
//! 2. Two critics move towards the reward plus the discounted value of the actor's next action, less its
//!    log-probability times the temperature.
//! 3. The actor moves towards actions with a high value (of the smaller critic) and a low log-probability, weighted
//!    by the temperature; the temperature adapts so that the entropy stays near a target.
//! 4. Target critics, which follow the critics slowly, give the values for step 2.
//!
//! For continuous actions the losses draw actions from the actor. For discrete ones (Christodoulou 2019) the critics
//! value every choice, and the losses take the mean over all choices, weighted by their probabilities.
//!
//! With several quantiles per critic this is TQC (Kuznetsov et al. 2020): targets leave out the largest quantiles.

mod losses;

use pavlov_envs::Space;
pub use pavlov_trainer::models::{CriticLoss, UpdateOrder};
use pavlov_trainer::{
    models::{Quantiles, Sde, SdeNoise},
    notice, own_defaults,
    plan::{owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target},
    policy::SdeShape,
    prelude::*,
    replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};

/// Settings of SAC. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Sac {
    /// Settings that all algorithms share. Of `model` SAC reads `fused` and, for images, `conv_filters` and `conv_activation`.
    #[serde(flatten)]
    pub common: Common,
    /// Settings of the replay buffer and of learning from it.
    #[serde(flatten)]
    pub off_policy: OffPolicy,
    /// Whether to learn two critics and use the smaller of their values, against overestimation.
    pub twin_q: bool,
    /// The number of critics, and the number of quantiles that each learns.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// State-dependent exploration of continuous actions.
    #[serde(flatten)]
    pub sde: Sde,
    /// Hidden layers of the actor.
    pub policy_model_config: HiddenLayers,
    /// Hidden layers of each critic.
    pub q_model_config: HiddenLayers,
    /// Whether the critics read images through the actor's convolutions, which then learn from the actor's loss alone, as in
    /// Stable-Baselines3; otherwise the critics together have convolutions of their own.
    pub share_features_extractor: bool,
    /// Step sizes and weight decay of Adam.
    pub optimization: Optimization,
    /// Fraction of the way that the target critics move towards the critics at each update. Typical: 0.005 to 0.02.
    pub tau: f64,
    /// Initial temperature: a higher one explores longer.
    pub initial_alpha: f64,
    /// Entropy of the policy that the temperature aims at. Null: minus the number of components of a continuous action, or
    /// 0.98 of the entropy of equally likely discrete actions. With null and `mask_actions` only the legal actions of a row
    /// count: a row with one legal action has the target 0. A number is the target of all rows.
    pub target_entropy: Option<f64>,
    /// Largest norm of each network's gradient; a larger gradient is scaled down to it. Null: no bound.
    pub grad_clip: Option<f64>,
    /// How a critic's error becomes a loss: `huber` or `mse`.
    pub critic_loss: CriticLoss,
    /// Factor of the critics' loss. Adam's steps depend on it only as far as `optimization.adam_epsilon` and `grad_clip` do.
    /// One over the number of critics gives the loss of TQC in sb3-contrib.
    pub critic_loss_scale: f64,
    /// When actor and critics take the steps of one update: `together`, or `critics_first` as in Stable-Baselines3.
    pub update_order: UpdateOrder,
    /// Lower bound of the logarithms of the actor's standard deviations, for continuous actions: -5 as in Ray, or -20 as in
    /// Stable-Baselines3. The deviations of gSDE have no bound.
    pub log_std_min: f64,
    /// Number that is added to tanh's slope before the logarithm of it is taken in the log-probability of a continuous
    /// action: 0 is exact, Stable-Baselines3 has 1e-6.
    pub log_prob_epsilon: f64,
}

/// Step sizes and weight decay of Adam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimization {
    /// Step size of the actor.
    pub actor_learning_rate: f64,
    /// Step size of the critics.
    pub critic_learning_rate: f64,
    /// Step size of the temperature; 0 keeps it at `initial_alpha`.
    pub entropy_learning_rate: f64,
    /// Weight decay of the actor and the critics (AdamW); with 0 the optimizer is Adam.
    pub weight_decay: f64,
    /// Adam's epsilon: 1e-7 as in TensorFlow and Ray, or 1e-8 as in PyTorch and Stable-Baselines3.
    pub adam_epsilon: f64,
}

impl Default for Optimization {
    fn default() -> Self {
        let [actor_learning_rate, critic_learning_rate, entropy_learning_rate] = [3e-4; 3];
        Self {
            actor_learning_rate,
            critic_learning_rate,
            entropy_learning_rate,
            weight_decay: 0.0,
            adam_epsilon: 1e-7,
        }
    }
}

own_defaults!(Sac);

impl Default for Sac {
    fn default() -> Self {
        Self {
            common: Common {
                num_workers: 0,
                rollout_fragment_length: 1,
                train_batch_size: 256,
                min_sample_timesteps_per_reporting: Some(100),
                ..Common::default()
            },
            off_policy: OffPolicy {
                replay_buffer_config: ReplayBufferConfig {
                    kind: ReplayKind::ReplayBuffer,
                    capacity: 1_000_000,
                    learning_starts: 1500,
                    ..ReplayBufferConfig::default()
                },
                ..OffPolicy::default()
            },
            twin_q: true,
            quantiles: Quantiles::default(),
            sde: Sde::default(),
            policy_model_config: HiddenLayers::default(),
            q_model_config: HiddenLayers::default(),
            share_features_extractor: false,
            optimization: Optimization::default(),
            tau: 0.005,
            initial_alpha: 1.0,
            target_entropy: None,
            grad_clip: None,
            critic_loss: CriticLoss::Huber,
            critic_loss_scale: 1.0,
            update_order: UpdateOrder::Together,
            log_std_min: -5.0,
            log_prob_epsilon: 0.0,
        }
    }
}

impl Trainer for Sac {
    const NAME: &'static str = "SAC";

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let exploration = &self.common.exploration_config;
        rules::all([
            action_dist(&spaces.action_space).map(|_| ()),
            self.off_policy.validate(&self.common, spaces),
            self.policy_model_config.validate("policy_model_config"),
            self.q_model_config.validate("q_model_config"),
            self.common.refuse_unread_model(
                Self::NAME,
                "`policy_model_config` and `q_model_config`",
                self.share_features_extractor,
                spaces,
            ),
            rules::above_zero([
                ("optimization.actor_learning_rate", self.optimization.actor_learning_rate),
                ("optimization.critic_learning_rate", self.optimization.critic_learning_rate),
                ("initial_alpha", self.initial_alpha),
                ("critic_loss_scale", self.critic_loss_scale),
            ]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::not_negative([
                ("optimization.entropy_learning_rate", self.optimization.entropy_learning_rate),
                ("optimization.weight_decay", self.optimization.weight_decay),
                ("optimization.adam_epsilon", self.optimization.adam_epsilon),
                ("log_prob_epsilon", self.log_prob_epsilon),
            ]),
            rules::refuse_if(
                self.target_entropy.is_some() && self.optimization.entropy_learning_rate == 0.0,
                "target_entropy",
                format_args!("{}", self.target_entropy.unwrap_or_default()),
                "`optimization.entropy_learning_rate` is 0, so nothing aims at it: leave it out",
            ),
            rules::share([("tau", self.tau)]),
            rules::refuse_if(
                !(-1e3..2.0).contains(&self.log_std_min),
                "log_std_min",
                self.log_std_min,
                "it must be from -1000 to below 2, which is the upper bound",
            ),
            self.quantiles.validate(&spaces.action_space, self.critic_loss),
            self.sde.validate(&spaces.action_space, false),
            rules::refuse_if(
                self.sde.use_sde && exploration.is_noise(),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "gSDE (`use_sde`) is noise already: use StochasticSampling",
            ),
            rules::refuse_if(
                !matches!(exploration, ExplorationConfig::StochasticSampling { .. })
                    && !exploration.is_noise(),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "SAC explores by its own distribution: use StochasticSampling, or a noise that is added to its draws",
            ),
            rules::refuse_if(
                exploration.is_noise() && matches!(spaces.action_space, Space::Discrete { .. }),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "noise is added to real actions only, and these are choices: use StochasticSampling",
            ),
            self.common.refuse_raw_actions(Self::NAME),
        ])?;
        Ok(())
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
        let inputs = memory.add_convolutions(&self.common.model, spaces).unwrap_or(spaces.obs_width());
        memory.add_hidden_layers("policy_model_config.fcnet_hiddens", inputs, &self.policy_model_config);
        memory.add_hidden_layers("q_model_config.fcnet_hiddens", inputs, &self.q_model_config);
        let units = self.q_model_config.fcnet_hiddens.last().map_or(inputs, |units| *units) as u128;
        let critics = self.quantiles.n_critics.unwrap_or(2);
        let quantiles = self.quantiles.n_quantiles;
        memory.add("the critics", &[("n_critics", critics), ("n_quantiles", quantiles)], 16 * (units + 1));
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<SacPolicy>("SacPolicy", self))
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

impl Sac {
    /// The distribution of actions of `dim` real numbers.
    fn squashed(&self, dim: usize) -> ActionDist {
        let log_std_min = if self.sde.use_sde { UNBOUNDED } else { self.log_std_min as f32 };
        ActionDist::SquashedGaussian { dim, log_std_min }
    }
}

/// The distribution of the actor's actions: categorical for a Discrete space, else one that is squashed between the
/// bounds of the space.
fn action_dist(space: &Space) -> Result<ActionDist> {
    match space {
        Space::Discrete { .. } => ActionDist::for_space(space),
        _ => ActionDist::squashed(Sac::NAME, space),
    }
}

/// The policy of SAC: an actor, the critics, and a temperature. [`Over`] changes single methods of it.
#[derive(Debug)]
pub struct SacPolicy {
    config: Sac,
    dist: ActionDist,
    actor: Mlp,
    /// What the actor reads of observations, and the critics if they have no convolutions of their own.
    features: Box<dyn Torso>,
    /// The state-dependent noise of the actions; `None` without gSDE.
    sde: Option<SdeNoise>,
    actor_group: Group,
    q: Critics,
    log_alpha: Free,
    target_entropy: f64,
    /// Whether the warning about a growing temperature was given already.
    warned: bool,
}

/// Default target entropy of discrete actions, as a share of the largest possible entropy.
const SHARE_OF_ENTROPY: f64 = 0.98;
/// Temperature above which a warning is given, as a multiple of the initial one (of 1, if the initial one is lower).
const RUNAWAY: f64 = 100.0;
/// Number of learning steps from one check of the temperature to the next.
const STEPS_BETWEEN_LOOKS: u64 = 50;

/// Column of standard normal numbers, from which the loss draws actions for the observations.
const NOISE: Column = Column::new("noise");
/// Column of standard normal numbers, from which the loss draws actions for the next observations.
const NEXT_NOISE: Column = Column::new("next_noise");
/// Bound of the actions' means before they are squashed, with gSDE; it is that of Stable-Baselines3.
const LARGEST_MEAN: f64 = 2.0;
/// Log standard deviation below all that gSDE gives, whose variances are at least 1e-6.
const UNBOUNDED: f32 = -20.0;
/// Initial log standard deviation of gSDE; it is that of Stable-Baselines3.
const LOG_STD_INIT: f64 = -3.0;

impl SacPolicy {
    /// The settings that the policy was built with.
    pub fn config(&self) -> &Sac {
        &self.config
    }

    /// The features of the observations and the bounded means of the actions, with gSDE.
    fn mean<'t>(&self, net: Net<'t>, s: Input<'t>) -> (Value<'t>, Value<'t>) {
        let (features, mean) = self.actor.features_and_output(net, self.features.on(net, s));
        (features, mean.clamp(-LARGEST_MEAN, LARGEST_MEAN))
    }

    /// Warns once if the temperature has grown far beyond its initial value.
    fn warn_of_runaway(&mut self, alpha: Option<f64>) {
        let initial = self.config.initial_alpha;
        let Some(alpha) = alpha.filter(|alpha| *alpha > RUNAWAY * initial.max(1.0)) else { return };
        self.warned = true;
        notice(&format!(
            "SAC's temperature (`alpha_value`) has grown from {initial} (`initial_alpha`) to {alpha:.0}: the entropy of \
             actions stays below its target, and what is learned is to act at random. Lower `target_entropy`, or set \
             `optimization.entropy_learning_rate` to 0, which keeps `initial_alpha`. Where rewards are that large it is as \
             it should be"
        ));
    }
}

impl NetPolicy for SacPolicy {
    type Config = Sac;

    fn build(config: &Sac, net: &mut NetBuilder<'_>) -> Result<Self> {
        net.refuse_custom_model()?;
        let dist = match action_dist(&net.spec().spaces.action_space)? {
            ActionDist::SquashedGaussian { dim, .. } => config.squashed(dim),
            discrete => discrete,
        };
        let act = dist.action_width();
        let rates = &config.optimization;
        let adam = |lr: f64| Rule::adam(lr, rates.adam_epsilon).clip(config.grad_clip);
        let adamw = |lr: f64| adam(lr).decay(rates.weight_decay);
        net.target();
        let model = &config.common.model;
        let hidden = &config.policy_model_config;
        let actor_rule = adamw(rates.actor_learning_rate);
        let (actor_group, (features, actor, sde)) = net.group("actor", actor_rule, |net| {
            let features = net.features("actor.features", model)?;
            let width = features.width();
            if !config.sde.use_sde {
                return Ok((features, Mlp::new(net, "actor", width, hidden, dist.num_inputs()), None));
            }
            let actor = Mlp::new(net, "actor", width, hidden, act);
            let sizes = (hidden.fcnet_hiddens.last().copied().unwrap_or(width), act);
            let sde = SdeNoise::new(net, "actor.log_std", &config.sde, sizes, LOG_STD_INIT, true);
            Ok((features, actor, Some(sde)))
        })?;
        let critics = adamw(rates.critic_learning_rate);
        let count = config.quantiles.n_critics.unwrap_or(1 + usize::from(config.twin_q));
        let obs = features.width();
        let (inputs, outputs, entropy) = match dist {
            ActionDist::Categorical { n } => (obs, n, SHARE_OF_ENTROPY * (n as f64).ln()),
            _ => (obs + act, config.quantiles.n_quantiles, -(act as f64)),
        };
        let mut q = Critics::new(net, count, inputs, outputs, &config.q_model_config, &critics)?;
        if !config.share_features_extractor {
            q.add_features(net, model, &critics)?;
        }
        let (_, log_alpha) = net.group("alpha", adam(rates.entropy_learning_rate), |net| {
            Ok(net.free("log_alpha", &[config.initial_alpha.ln() as f32]))
        })?;
        let target_entropy = config.target_entropy.unwrap_or(entropy);
        Ok(Self {
            config: config.clone(),
            dist,
            actor,
            features,
            sde,
            actor_group,
            q,
            log_alpha,
            target_entropy,
            warned: false,
        })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, s: Input<'t>) -> Value<'t> {
        let Some(sde) = &self.sde else { return self.actor.on(net, self.features.on(net, s)) };
        let (features, mean) = self.mean(net, s);
        sde.dist_inputs(net, mean, features)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.sample_with_noise(&self.dist, inputs, &self.config.common.exploration_config)
    }

    fn distribution(&self) -> Option<&ActionDist> {
        Some(&self.dist)
    }

    fn sde(&self) -> Option<SdeShape> {
        self.sde.map(|sde| sde.shape)
    }

    fn sde_inputs<'t>(&self, net: Net<'t>, s: Input<'t>) -> Value<'t> {
        let Some(sde) = &self.sde else { return self.actor.on(net, s.obs()) };
        let (features, mean) = self.mean(net, s);
        sde.outputs(net, mean, features)
    }

    fn best_actions<'t>(&self, inputs: Value<'t>) -> Option<Value<'t>> {
        (!self.dist.is_discrete()).then(|| inputs.narrow(0, self.dist.action_width()).tanh())
    }

    fn postprocess(&self, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        self.config.off_policy.rows(f, self.config.common.gamma)
    }

    fn prepare(&self, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        if let Some(SdeNoise { shape, .. }) = self.sde {
            // As in Stable-Baselines3, one matrix serves all rows of a step, and both observations.
            batch.set_shared_noise(NOISE, shape.numbers(), learner.rng());
        } else if !self.dist.is_discrete() {
            batch.set_noise(NOISE, self.dist.action_width(), learner.rng());
            batch.set_noise(NEXT_NOISE, self.dist.action_width(), learner.rng());
        }
        Ok(())
    }

    /// The sum of the losses of critics, actor and temperature, as far as these learn now. Each loss has gradients for its
    /// own parameters only, so one backward pass serves all.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        if !rows.learns(self.q.groups[0]) {
            return Ok(Loss::sum(self.actor_losses(rows)?));
        }
        let (critic_loss, alpha, q, td) = self.critic_loss(rows)?;
        let loss = if rows.learns(self.actor_group) {
            let [actor_loss, alpha_loss] = self.actor_losses(rows)?;
            Loss::sum([critic_loss, actor_loss, alpha_loss])
        } else {
            Loss::sum([critic_loss])
        };
        Ok(loss.mean("alpha_value", alpha).mean("mean_q", q).min("min_q", q).max("max_q", q).td_errors(td))
    }

    fn learn(&mut self, learner: &mut Learner, batch: &SampleBatch) -> Result<Learned> {
        self.learn_by(learner, batch, &|policy, rows| policy.loss(rows))
    }

    fn update_target(&self, learner: &mut Learner) {
        learner.update_target(self.config.tau);
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("initial_alpha", &self.config.initial_alpha)?;
        Ok(state)
    }

    fn set_parameters(&self, learner: &mut Learner, state: &State) -> Result<()> {
        let initial = self.config.initial_alpha;
        if !state.has_other("initial_alpha", initial)? {
            return Ok(());
        }
        let mut weights = learner.weights();
        weights.replace_array("log_alpha", vec![initial.ln() as f32]);
        learner.set_weights(&weights)
    }
}

impl Overridable for SacPolicy {
    fn learn_by(
        &mut self,
        learner: &mut Learner,
        batch: &SampleBatch,
        loss: &LossOf<'_, Self>,
    ) -> Result<Learned> {
        let report = match self.config.update_order {
            UpdateOrder::Together => {
                let mut report = learner.gradient(batch, |rows| loss(self, rows))?;
                learner.clip(&mut report);
                learner.step(&report);
                report
            }
            UpdateOrder::CriticsFirst => {
                let mut critics = learner.gradient_of(&self.q.groups, batch, |rows| loss(self, rows))?;
                learner.clip(&mut critics);
                learner.step_part(&critics);
                let mut others = learner.groups_but(None);
                others.retain(|group| !self.q.groups.contains(group));
                let mut report = learner.gradient_of(&others, batch, |rows| loss(self, rows))?;
                learner.clip(&mut report);
                learner.step(&report);
                critics.and(report)
            }
        };
        // Not at every step: reading the temperature waits for the GPU.
        if !self.warned && learner.steps().is_multiple_of(STEPS_BETWEEN_LOOKS) {
            self.warn_of_runaway(report.stats.read("alpha_value"));
        }
        Ok(report.into())
    }
}
