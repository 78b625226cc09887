//! Proximal policy optimisation (Schulman et al. 2017), in Ray's form.
//!
//! 1. Every worker samples a fragment with the current policy.
//! 2. Advantages by GAE; an episode that was cut is bootstrapped from the observation it was cut at.
//! 3. Several passes over the batch in shuffled minibatches maximise the clipped surrogate (equation 7), with a value
//!    loss, an entropy bonus and a KL penalty (equation 8) whose coefficient adapts.
//! 4. The workers get the new weights.

use pavlov_trainer::{
    Common, Error, Result, Trainer, WorkerSet,
    action_dist::ActionDist,
    batch::{Column, SampleBatch, env_major},
    exploration::ExplorationConfig,
    gae,
    learner::{Learner, Loss, Rows},
    models::{Activation, Free, Initializer, ModelConfig, NetBuilder, Node, Outputs},
    optim::OptimizerConfig,
    plan::{Plan, PlanExt, after_training, standardize, sync_weights, train_epochs, when},
    policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces},
    rng::Stream,
    schedule::{Piecewise, scheduled},
    state::State,
    value::Value,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tch::Tensor;

/// Settings of PPO. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ppo {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// Step size of Adam: higher learns faster and less steadily. Typical: 1e-5 to 1e-3.
    pub lr: f64,
    /// Replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Adam's epsilon. CleanRL and baselines use 1e-5.
    pub adam_epsilon: f64,
    /// Subtract the critic's values from returns (without GAE).
    pub use_critic: bool,
    /// Generalised advantage estimation.
    pub use_gae: bool,
    /// GAE's lambda: 1 trusts returns (more variance), 0 trusts the critic (more bias). Typical: 0.9 to 1.
    pub lambda: f64,
    /// Initial coefficient of the KL penalty; 0 leaves it out.
    pub kl_coeff: f64,
    /// The coefficient grows when the measured KL is above twice this, and shrinks below half of it.
    pub kl_target: f64,
    /// Rows of one gradient step.
    pub sgd_minibatch_size: usize,
    /// Passes over each batch.
    pub num_sgd_iter: usize,
    /// Weight of the value loss.
    pub vf_loss_coeff: f64,
    /// Weight of the entropy bonus: higher explores longer. Typical: 0 to 0.02.
    pub entropy_coeff: f64,
    /// Replaces `entropy_coeff`.
    pub entropy_coeff_schedule: Option<Piecewise>,
    /// How far the probability ratio may move from 1 before its gradient stops. Typical: 0.1 to 0.3.
    pub clip_param: f64,
    /// Replaces `clip_param`.
    pub clip_param_schedule: Option<Piecewise>,
    /// Bound of the value loss; what it bounds is `vf_clip`.
    pub vf_clip_param: f64,
    /// How the value loss is bounded.
    pub vf_clip: ValueClip,
    /// Advantages to mean 0 and standard deviation 1.
    pub normalize_advantages: NormalizeAdvantages,
    /// Bound of the gradient's norm. Typical: 0.5.
    pub grad_clip: Option<f64>,
    /// End the passes over a batch when the policy has moved by 1.5 times this KL. Typical: 0.01 to 0.05.
    pub target_kl: Option<f64>,
}

/// What `vf_clip_param` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueClip {
    /// The squared error itself (Ray 1.13): rows with larger errors give no gradient, so raise it for large returns.
    SquaredError,
    /// The change of the prediction since acting (Ray up to 1.9, baselines, CleanRL).
    AroundOld,
    /// Nothing (Stable-Baselines3).
    None,
}

/// Over which rows advantages are standardised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormalizeAdvantages {
    /// The whole batch (Ray).
    Batch,
    /// Each minibatch (Stable-Baselines3, CleanRL).
    Minibatch,
    /// Not at all.
    None,
}

impl Default for Ppo {
    fn default() -> Self {
        let model = ModelConfig { vf_share_layers: false, ..ModelConfig::default() };
        Self {
            common: Common { train_batch_size: 4000, model, ..Common::default() },
            lr: 5e-5,
            lr_schedule: None,
            adam_epsilon: 1e-8,
            use_critic: true,
            use_gae: true,
            lambda: 1.0,
            kl_coeff: 0.2,
            kl_target: 0.01,
            sgd_minibatch_size: 128,
            num_sgd_iter: 30,
            vf_loss_coeff: 1.0,
            entropy_coeff: 0.0,
            entropy_coeff_schedule: None,
            clip_param: 0.3,
            clip_param_schedule: None,
            vf_clip_param: 10.0,
            vf_clip: ValueClip::SquaredError,
            normalize_advantages: NormalizeAdvantages::Batch,
            grad_clip: None,
            target_kl: None,
        }
    }
}

impl Trainer for Ppo {
    const NAME: &'static str = "PPO";

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] =
        &[("shuffle_sequences", "rows are always shuffled; leave it out")];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        ActionDist::for_space(&spaces.action_space)?;
        self.common.fit_fragments()?;
        let batch = self.common.train_batch_size;
        if self.sgd_minibatch_size == 0 || self.sgd_minibatch_size > batch {
            let rule = format!("it must be in 1..={batch} (`train_batch_size`)");
            return Err(Error::config("sgd_minibatch_size", self.sgd_minibatch_size, rule));
        }
        if self.num_sgd_iter == 0 {
            return Err(Error::config("num_sgd_iter", 0, "it must be at least 1"));
        }
        for (key, value) in
            [("lr", self.lr), ("clip_param", self.clip_param), ("vf_clip_param", self.vf_clip_param)]
        {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::config(key, value, "it must be above 0"));
            }
        }
        for (key, value) in [
            ("entropy_coeff", self.entropy_coeff),
            ("vf_loss_coeff", self.vf_loss_coeff),
            ("kl_coeff", self.kl_coeff),
            ("kl_target", self.kl_target),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::config(key, value, "it must not be negative"));
            }
        }
        for (key, value) in [("grad_clip", self.grad_clip), ("target_kl", self.target_kl)] {
            if let Some(value) = value.filter(|v| !(*v > 0.0 && v.is_finite())) {
                return Err(Error::config(key, value, "it must be above 0, or null"));
            }
        }
        if !(0.0..=1.0).contains(&self.lambda) {
            return Err(Error::config("lambda", self.lambda, "it must be in 0..=1"));
        }
        if self.use_gae && !self.use_critic {
            return Err(Error::config("use_critic", false, "`use_gae` needs a critic; set both or neither"));
        }
        if !self.use_gae && self.common.batch_mode == pavlov_trainer::common::BatchMode::TruncateEpisodes {
            let rule = "fragments of episodes need it to bootstrap; set it, or `batch_mode` to \"complete_episodes\"";
            return Err(Error::config("use_gae", false, rule));
        }
        for (key, schedule) in [
            ("lr_schedule", &self.lr_schedule),
            ("entropy_coeff_schedule", &self.entropy_coeff_schedule),
            ("clip_param_schedule", &self.clip_param_schedule),
        ] {
            schedule.as_ref().map_or(Ok(()), |s| s.validate(key))?;
        }
        match self.common.exploration_config {
            ExplorationConfig::StochasticSampling { random_timesteps: 0 } => Ok(()),
            ref other => {
                let value = serde_json::to_string(other).unwrap_or_default();
                let rule =
                    "PPO learns from its own samples: only {\"type\": \"StochasticSampling\"} keeps them so";
                Err(Error::config("exploration_config", value, rule))
            }
        }
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        let config = self.clone();
        Ok(PolicyClass::new("PpoPolicy", move |spec| PpoPolicy::new(config.clone(), spec)))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let over_batch = self.normalize_advantages == NormalizeAdvantages::Batch;
        Box::new(
            workers
                .rollouts()
                .concat_batches(self.common.train_batch_size)
                .then(when(over_batch, standardize(Column::ADVANTAGES)))
                .then(train_epochs(workers, self.num_sgd_iter, self.sgd_minibatch_size))
                .then(after_training(workers))
                .then(sync_weights(workers)),
        )
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Actor and critic: where their outputs stand in the network. Two towers, or one that they share.
#[derive(Clone, Copy, Debug)]
struct ActorCritic {
    actor: Node,
    /// State-independent log standard deviations.
    free_log_std: Option<Free>,
    critic: Node,
}

impl ActorCritic {
    fn new(net: &mut NetBuilder<'_>, model: &ModelConfig, dist: &ActionDist) -> Self {
        let (layers, init) = (model.hidden_layers(), model.fcnet_initializer);
        let value_scale = match init {
            Initializer::Normc => 0.01,
            Initializer::Orthogonal => 1.0,
        };
        let free = model.free_log_std && matches!(dist, ActionDist::DiagGaussian { .. });
        let outputs = if free { dist.num_inputs() / 2 } else { dist.num_inputs() };
        let last = layers.last().map_or(Activation::Linear, |(_, activation)| *activation);
        let after_logits = if model.no_final_linear { last } else { Activation::Linear };
        let features = net.tower("actor", net.obs(), &layers, init);
        let actor = net.layer("actor.out", features, outputs, after_logits, init.scaled(0.01));
        let free_log_std = free.then(|| net.free("actor.log_std", &vec![0.0; outputs]));
        let features = match model.vf_share_layers {
            true => features,
            false => net.tower("critic", net.obs(), &layers, init),
        };
        let critic = net.layer("critic.out", features, 1, Activation::Linear, init.scaled(value_scale));
        Self { actor, free_log_std, critic }
    }

    /// Parameters of the action distribution, `[rows, inputs]`.
    fn dist_inputs<'t>(&self, net: &Outputs<'t>) -> Value<'t> {
        let out = net.get(self.actor);
        match self.free_log_std {
            None => out,
            Some(log_std) => out.cat(&net.free(log_std)),
        }
    }
}

/// What [`PpoPolicy`] learns with.
#[derive(Debug)]
struct PpoPolicy {
    config: Ppo,
    dist: ActionDist,
    heads: ActorCritic,
    learner: Learner,
    kl_coeff: f64,
    timestep: u64,
}

/// Positions in [`Policy::step_columns`].
const LOGP: usize = 0;
const DIST_INPUTS: usize = 1;

impl PpoPolicy {
    fn new(config: Ppo, spec: &PolicySpec) -> Result<Self> {
        let dist = ActionDist::for_space(&spec.spaces.action_space)?;
        let mut rng = Stream::new(spec.seed, "initial weights", 0);
        let mut net = NetBuilder::new(spec.spaces.obs_width(), &mut rng);
        let heads = ActorCritic::new(&mut net, &config.common.model, &dist);
        let adam = OptimizerConfig::adam(config.adam_epsilon);
        let learner = net.learner(spec.device, adam, config.common.model.fused);
        let kl_coeff = config.kl_coeff;
        Ok(Self { config, dist, heads, learner, kl_coeff, timestep: 0 })
    }

    fn now(&self) -> Coefficients {
        let c = &self.config;
        Coefficients {
            lr: scheduled(c.lr, c.lr_schedule.as_ref(), self.timestep),
            clip: scheduled(c.clip_param, c.clip_param_schedule.as_ref(), self.timestep),
            entropy: scheduled(c.entropy_coeff, c.entropy_coeff_schedule.as_ref(), self.timestep),
            kl: self.kl_coeff,
        }
    }

    /// Values of observations `[rows, width]`.
    fn values(&mut self, obs: &Tensor) -> Result<Vec<f32>> {
        let heads = self.heads;
        Ok(self.learner.evaluate(obs, 1, |net| net.get(heads.critic))?.to_vec())
    }
}

/// The surrogate objective of equations 7 and 9 as a loss, over a piece of a minibatch.
fn surrogate_loss<'t>(
    heads: ActorCritic,
    dist: &ActionDist,
    config: &Ppo,
    now: Coefficients,
    rows: &Rows<'t>,
) -> Result<Loss<'t>> {
    let (actions, old_logp) = (rows.get(Column::ACTIONS)?, rows.get(Column::ACTION_LOGP)?);
    let (advantages, targets) = (rows.get(Column::ADVANTAGES)?, rows.get(Column::VALUE_TARGETS)?);

    let net = rows.net(Column::OBS)?;
    let (pi, values) = (dist.at(&heads.dist_inputs(&net)), net.get(heads.critic));
    let log_ratio = pi.logp(&actions) - old_logp;
    let ratio = log_ratio.exp();
    let clipped = ratio.clamp(1.0 - now.clip, 1.0 + now.clip);
    let policy_loss = -(&ratio * &advantages).minimum(&(clipped * &advantages)).mean();

    let squared_error = (&values - &targets).square();
    let vf_loss = match config.vf_clip {
        ValueClip::None => squared_error,
        ValueClip::SquaredError => squared_error.clamp_max(config.vf_clip_param),
        ValueClip::AroundOld => {
            let (old, bound) = (rows.get(Column::VF_PREDS)?, config.vf_clip_param);
            let clipped = &old + (&values - &old).clamp(-bound, bound);
            squared_error.maximum(&(clipped - &targets).square())
        }
    }
    .mean();

    let mut total = &policy_loss + &vf_loss * config.vf_loss_coeff;
    let entropy = pi.entropy().mean();
    if now.entropy != 0.0 {
        total = total - &entropy * now.entropy;
    }
    let kl = if config.kl_coeff > 0.0 {
        let kl = dist.at(&rows.get(Column::ACTION_DIST_INPUTS)?).kl(&pi).mean();
        total = total + &kl * now.kl;
        kl
    } else {
        // Schulman's estimator; it only reports.
        (&ratio - &log_ratio - 1.0).mean()
    };
    // Within a piece of the minibatch.
    let explained = 1.0 - (&targets - &values).variance() / (targets.variance() + 1e-8);
    let stats = vec![
        ("total_loss", total.clone()),
        ("policy_loss", policy_loss),
        ("vf_loss", vf_loss),
        ("vf_explained_var", explained),
        ("kl", kl),
        ("entropy", entropy),
    ];
    Ok(Loss { total, stats, td_errors: None })
}

/// Coefficients as they stand at some step.
#[derive(Clone, Copy, Debug)]
struct Coefficients {
    lr: f64,
    clip: f64,
    entropy: f64,
    kl: f64,
}

impl Policy for PpoPolicy {
    fn step_columns(&self) -> Vec<(Column, usize)> {
        // The KL penalty needs the old distribution, the clipped surrogate only the old probability.
        let mut columns = vec![(Column::ACTION_LOGP, 1)];
        if self.config.kl_coeff > 0.0 {
            columns.push((Column::ACTION_DIST_INPUTS, self.dist.num_inputs()));
        }
        columns
    }

    fn compute_actions(&mut self, input: ActInput<'_>, mut output: ActOutput<'_>) -> Result<()> {
        let heads = self.heads;
        let inputs =
            self.learner.evaluate(input.obs, self.dist.num_inputs(), |net| heads.dist_inputs(net))?;
        self.dist.sample(inputs, input.rngs, input.explore, output.actions, output.columns.row(LOGP));
        if self.config.kl_coeff > 0.0 {
            output.columns.row(DIST_INPUTS).copy_from_slice(inputs);
        }
        Ok(())
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        let _guard = tch::no_grad_guard();
        let values = self.values(&f.obs.view([-1, f.obs.size()[2]]))?;
        let final_values = self.values(f.final_obs)?;
        let trajectories = gae::Trajectories {
            num_envs: f.num_envs,
            rewards: f.rewards,
            values: &values,
            terminated: f.terminated,
            truncated: f.truncated,
            ended: f.ended,
            final_values: &final_values,
        };
        // Without GAE: the discounted return, which is GAE with lambda 1 before the value is added.
        let lambda = if self.config.use_gae { self.config.lambda } else { 1.0 };
        let advantages = gae::advantages(trajectories, self.config.common.gamma as f32, lambda as f32);
        let advantages = Tensor::from_slice(&advantages);
        let (steps, copies) = (f.steps as i64, f.num_envs as i64);
        let values = Tensor::from_slice(&values).view([steps + 1, copies]);
        let vf_preds = env_major(&values.narrow(0, 0, steps));
        let value_targets = &advantages + &vf_preds;
        let (advantages, value_targets) = match self.config.use_critic {
            true => (advantages, value_targets),
            false => (value_targets.shallow_clone(), value_targets.zeros_like()),
        };
        Ok(f.rows()
            .with(Column::VF_PREDS, vf_preds)
            .with(Column::ADVANTAGES, advantages)
            .with(Column::VALUE_TARGETS, value_targets))
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let now = self.now();
        let mut batch = batch.slice(0, batch.rows());
        if self.config.normalize_advantages == NormalizeAdvantages::Minibatch {
            batch = batch.standardized(Column::ADVANTAGES)?;
        }
        let (heads, dist, config) = (self.heads, &self.dist, &self.config);
        let mut report =
            self.learner.gradient(&batch, |rows| surrogate_loss(heads, dist, config, now, rows))?;
        if let Some(max_norm) = self.config.grad_clip {
            self.learner.clip_grad_norm(max_norm, &mut report);
        }
        let stop = match self.config.target_kl {
            None => false,
            Some(target) => report.stats.read("kl").is_some_and(|kl| kl > 1.5 * target),
        };
        if !stop {
            self.learner.step(now.lr);
        }
        Ok(Learned { stats: report.stats, td_errors: None, stop })
    }

    fn learner(&self) -> Option<&Learner> {
        Some(&self.learner)
    }

    fn learner_mut(&mut self) -> Option<&mut Learner> {
        Some(&mut self.learner)
    }

    fn get_state(&self) -> Result<State> {
        let mut state = self.learner.state()?;
        state.set("kl_coeff", &self.kl_coeff)?;
        state.set("timestep", &self.timestep)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.learner.set_state(state)?;
        self.kl_coeff = state.get("kl_coeff")?;
        self.timestep = state.get("timestep")?;
        Ok(())
    }

    fn on_global_var_update(&mut self, timestep: u64) {
        self.timestep = timestep;
    }

    fn after_training(&mut self, means: &BTreeMap<String, f64>) {
        if let Some(&kl) = means.get("kl") {
            self.kl_coeff = adapt_kl_coeff(self.kl_coeff, kl, self.config.kl_target);
        }
    }

    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        Ok(self.learner.forward(obs, |net| self.heads.dist_inputs(net)))
    }

    fn current_values(&self, _timestep: u64) -> BTreeMap<String, f64> {
        let now = self.now();
        BTreeMap::from([
            ("cur_lr".to_owned(), now.lr),
            ("cur_kl_coeff".to_owned(), now.kl),
            ("entropy_coeff".to_owned(), now.entropy),
            ("clip_param".to_owned(), now.clip),
        ])
    }
}

/// Half as much again when the measured KL is above twice the target, half when it is below half of it.
pub fn adapt_kl_coeff(coeff: f64, sampled_kl: f64, kl_target: f64) -> f64 {
    if sampled_kl > 2.0 * kl_target {
        coeff * 1.5
    } else if sampled_kl < 0.5 * kl_target {
        coeff * 0.5
    } else {
        coeff
    }
}
