//! Soft actor-critic (Haarnoja et al. 2018, with the learned temperature of the second paper), in Ray's form.
//!
//! 1. A stochastic actor acts; what it saw goes to a buffer.
//! 2. Two critics move towards the reward and the discounted value of the actor's next action, less its log-probability.
//! 3. The actor moves to where the smaller critic is high and its own probability low; the temperature that weighs the
//!    two keeps the entropy near a target.
//! 4. A slow copy of the critics gives the targets.

use pavlov_trainer::{
    plan::{owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target},
    prelude::*,
    replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};

/// Settings of SAC. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sac {
    /// Settings that all algorithms share. `model.fused` is all that SAC reads of `model`.
    #[serde(flatten)]
    pub common: Common,
    /// Settings of the replay buffer and of learning from it.
    #[serde(flatten)]
    pub off_policy: OffPolicy,
    /// Learn two critics and use the smaller of their values, against overestimation.
    pub twin_q: bool,
    /// Hidden layers of the actor.
    pub policy_model_config: HiddenLayers,
    /// Hidden layers of each critic.
    pub q_model_config: HiddenLayers,
    /// Step sizes of Adam.
    pub optimization: Optimization,
    /// Share of the way that the target copy goes towards the network each time. Typical: 0.005 to 0.02.
    pub tau: f64,
    /// The temperature to begin with: higher explores longer.
    pub initial_alpha: f64,
    /// Entropy that the temperature aims at; null is minus the number of the action's components.
    pub target_entropy: Option<f64>,
    /// Bound of the norm of each network's gradient.
    pub grad_clip: Option<f64>,
    /// How an error of the critics counts.
    pub critic_loss: CriticLoss,
}

/// Step sizes of Adam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimization {
    /// Step size of the actor.
    pub actor_learning_rate: f64,
    /// Step size of the critics.
    pub critic_learning_rate: f64,
    /// Step size of the temperature.
    pub entropy_learning_rate: f64,
}

/// How an error of the critics counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriticLoss {
    /// The loss is Huber's, with threshold 1 (Ray).
    Huber,
    /// The loss is half the square (the paper, Stable-Baselines3, CleanRL).
    Mse,
}

impl Default for Optimization {
    fn default() -> Self {
        Self { actor_learning_rate: 3e-4, critic_learning_rate: 3e-4, entropy_learning_rate: 3e-4 }
    }
}

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
            policy_model_config: HiddenLayers::default(),
            q_model_config: HiddenLayers::default(),
            optimization: Optimization::default(),
            tau: 0.005,
            initial_alpha: 1.0,
            target_entropy: None,
            grad_clip: None,
            critic_loss: CriticLoss::Huber,
        }
    }
}

impl Trainer for Sac {
    const NAME: &'static str = "SAC";

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let (model, exploration) = (&self.common.model, &self.common.exploration_config);
        // A network that remembers has its own refusal.
        let unread = *model != ModelConfig { fused: model.fused, ..ModelConfig::default() };
        rules::all([
            ActionDist::squashed(&spaces.action_space).map(|_| ()),
            self.off_policy.validate(&self.common),
            self.policy_model_config.validate("policy_model_config"),
            self.q_model_config.validate("q_model_config"),
            rules::above_zero([
                ("optimization.actor_learning_rate", self.optimization.actor_learning_rate),
                ("optimization.critic_learning_rate", self.optimization.critic_learning_rate),
                ("optimization.entropy_learning_rate", self.optimization.entropy_learning_rate),
                ("initial_alpha", self.initial_alpha),
            ]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::share([("tau", self.tau)]),
            rules::refuse_if(
                unread && !model.is_recurrent(),
                "model",
                serde_json::to_string(model).unwrap_or_default(),
                "SAC reads nothing of it but `fused`; its networks are `policy_model_config` and `q_model_config`",
            ),
            rules::refuse_if(
                !matches!(exploration, ExplorationConfig::StochasticSampling { .. }),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "SAC explores by its own distribution: use StochasticSampling",
            ),
            rules::refuse_if(
                !self.common.normalize_actions,
                "normalize_actions",
                false,
                "SAC acts in [-1, 1]; leave it true, so that actions are stretched to the bounds",
            ),
        ])?;
        self.common.rollout_fragment_length = self.common.rollout_fragment_length.max(self.off_policy.n_step);
        Ok(())
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
        for (key, layers) in [
            ("policy_model_config.fcnet_hiddens", &self.policy_model_config),
            ("q_model_config.fcnet_hiddens", &self.q_model_config),
        ] {
            memory.add_layers("the networks", key, spaces.obs_width(), &layers.fcnet_hiddens);
        }
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<SacPolicy>("SacPolicy", self))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let (off, rows) = (&self.off_policy, self.common.train_batch_size);
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

/// An actor, one or two critics, a temperature.
#[derive(Debug)]
struct SacPolicy {
    config: Sac,
    dist: ActionDist,
    actor: Mlp,
    q: Critics,
    log_alpha: Free,
    target_entropy: f64,
}

/// Standard normal numbers for the actions that the loss draws.
const NOISE: Column = Column::new("noise");
const NEXT_NOISE: Column = Column::new("next_noise");

impl SacPolicy {
    fn pi<'t>(&self, net: Net<'t>, s: Input<'t>) -> Dist<'_, 't> {
        self.dist.at(self.actor.on(net, s.obs()))
    }

    fn size<'t>(&self, error: Value<'t>) -> Value<'t> {
        match self.config.critic_loss {
            CriticLoss::Huber => error.huber(),
            CriticLoss::Mse => error.square() * 0.5,
        }
    }
}

impl NetPolicy for SacPolicy {
    type Config = Sac;

    fn build(config: &Sac, net: &mut NetBuilder<'_>) -> Result<Self> {
        let dist = ActionDist::squashed(&net.spec().spaces.action_space)?;
        if net.spec().custom_model.is_some() {
            let reason = "SAC lays out its own networks; leave it out, or write them as a `NetPolicy`";
            return Err(Error::state("`custom_model`", reason));
        }
        let (obs, act) = (net.obs_width(), dist.action_width());
        let adam = |lr: f64| Rule::adam(lr, 1e-7).clip(config.grad_clip);
        let rates = &config.optimization;
        net.target();
        let (_, actor) = net.group("actor", adam(rates.actor_learning_rate), |net| {
            Ok(Mlp::new(net, "actor", obs, &config.policy_model_config, dist.num_inputs()))
        })?;
        let critics = adam(rates.critic_learning_rate);
        let q = Critics::new(net, config.twin_q, act, &config.q_model_config, &critics)?;
        let (_, log_alpha) = net.group("alpha", adam(rates.entropy_learning_rate), |net| {
            Ok(net.free("log_alpha", &[config.initial_alpha.ln() as f32]))
        })?;
        let target_entropy = config.target_entropy.unwrap_or(-(act as f64));
        Ok(Self { config: config.clone(), dist, actor, q, log_alpha, target_entropy })
    }

    fn head<'t>(&self, net: Net<'t>, s: Input<'t>) -> Value<'t> {
        self.actor.on(net, s.obs())
    }

    fn act(&self, head: &[f32], act: Act<'_>) -> Result<()> {
        act.sample(&self.dist, head)
    }

    fn postprocess(&self, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        Ok(f.transitions(self.config.off_policy.n_step, self.config.common.gamma))
    }

    fn prepare(&self, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        batch.set_noise(NOISE, self.dist.action_width(), learner.rng());
        batch.set_noise(NEXT_NOISE, self.dist.action_width(), learner.rng());
        Ok(())
    }

    /// The sum of three losses, each of which reaches its own parameters only: one backward pass serves all.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let (online, frozen, target) = (rows.online(), rows.frozen(), rows.target());
        let (s, s2, discount) = (rows.obs()?, rows.next_obs()?, rows.discounts()?);
        let [a, r, noise, next_noise] =
            rows.columns([Column::ACTIONS, Column::REWARDS, NOISE, NEXT_NOISE])?;
        let log_alpha = self.log_alpha.on(online);
        let alpha = log_alpha.detach().exp();

        // y = r + gamma (min Q'(s', a') - alpha log pi(a'|s')),  a' ~ pi(s')
        let (a2, logp2) = self.pi(frozen, s2).rsample(next_noise);
        let y = r + discount * (self.q.min(target, s2, a2) - alpha * logp2);
        let errors: Vec<Value<'t>> = self.q.on(online, s, a).into_iter().map(|q| q - y).collect();
        let weights = rows.weights()?;
        let critic_loss = errors.iter().map(|&e| (self.size(e) * weights).mean()).sum();

        // The critics' parameters stand still; what they say of a ~ pi(s) reaches the actor through a.
        let (a, logp) = self.pi(online, s).rsample(noise);
        let actor_loss = (alpha * logp - self.q.min(frozen, s, a)).mean();

        let alpha_loss = -(log_alpha * (logp.detach() + self.target_entropy)).mean();

        let td = errors.iter().map(|e| e.abs()).sum::<Value<'_>>() / errors.len() as f64;
        let losses = [("critic_loss", critic_loss), ("actor_loss", actor_loss), ("alpha_loss", alpha_loss)];
        Ok(Loss::sum(losses)
            .mean("alpha_value", alpha)
            .mean("mean_q", y)
            .min("min_q", y)
            .max("max_q", y)
            .td_errors(td))
    }

    fn update_target(&self, learner: &mut Learner) {
        learner.update_target(self.config.tau);
    }
}
