//! Proximal policy optimisation (Schulman et al. 2017), in Ray's form.
//!
//! 1. Every worker samples a fragment with the current policy.
//! 2. Advantages are computed by GAE; an episode that the end of a fragment cuts is bootstrapped with the value of the
//!    observation at the cut.
//! 3. Several passes over the batch in shuffled minibatches maximise the clipped surrogate (equation 7), with a value
//!    loss, an entropy bonus and a KL penalty (equation 8) whose coefficient adapts.
//! 4. The workers get the new weights.

use pavlov_envs::Space;
use pavlov_trainer::{
    models::Sde,
    notice, own_defaults,
    policy::SdeShape,
    prelude::*,
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of PPO. Defaults are those of Ray 1.13.
///
/// ```no_run
/// # use pavlov_trainer::{Error, Trainer, TrainerExt};
/// let mut trainer = pavlov_algorithms::Ppo::get_default_config().build("CartPole-v1")?;
/// println!("{}", trainer.train()?["episode_reward_mean"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Ppo {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// State-dependent exploration of continuous actions.
    #[serde(flatten)]
    pub sde: Sde,
    /// Step size of Adam: higher learns faster and less steadily. Typical: 1e-5 to 1e-3.
    pub lr: f64,
    /// Schedule of the step size, which replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Adam's epsilon, and RMSprop's. CleanRL and baselines use 1e-5.
    pub adam_epsilon: f64,
    /// The optimizer: Adam, or RMSprop as A2C has it.
    pub opt_type: OptType,
    /// Whether to subtract the critic's values from returns when `use_gae` is false.
    pub use_critic: bool,
    /// Whether to estimate advantages by generalised advantage estimation (GAE).
    pub use_gae: bool,
    /// GAE's lambda: 1 trusts returns (more variance), 0 trusts the critic (more bias). Typical: 0.9 to 1.
    pub lambda: f64,
    /// Initial coefficient of the KL penalty; 0 turns the penalty off.
    pub kl_coeff: f64,
    /// Target KL of the penalty: `kl_coeff` grows when the measured KL is above twice this, and shrinks below half of
    /// this.
    pub kl_target: f64,
    /// Number of rows per gradient step. A pass learns from every row: where this number does not divide the batch,
    /// minibatches have about this number and are as equal as can be; Ray leaves out rows that do not fill one. Sequences
    /// of a recurrent network stay whole, so its minibatches have about this number, too.
    pub sgd_minibatch_size: usize,
    /// Number of passes over each batch.
    pub num_sgd_iter: usize,
    /// Weight of the value loss.
    pub vf_loss_coeff: f64,
    /// Weight of the entropy bonus: higher explores longer. Typical: 0 to 0.02.
    pub entropy_coeff: f64,
    /// Schedule of the weight of the entropy bonus, which replaces `entropy_coeff`: `[[step, value], ...]`.
    pub entropy_coeff_schedule: Option<Piecewise>,
    /// How far the probability ratio may move from 1 before its gradient stops. Typical: 0.1 to 0.3.
    pub clip_param: f64,
    /// Schedule of the clip range, which replaces `clip_param`: `[[step, value], ...]`.
    pub clip_param_schedule: Option<Piecewise>,
    /// Upper bound of a quantity in the value loss; `vf_clip` says of which one.
    pub vf_clip_param: f64,
    /// Which quantity of the value loss `vf_clip_param` bounds.
    pub vf_clip: ValueClip,
    /// The rows over which advantages are standardised to mean 0 and standard deviation 1.
    pub normalize_advantages: NormalizeAdvantages,
    /// Largest norm of the gradient; a larger gradient is scaled down to it. Null: no bound. Typical: 0.5.
    pub grad_clip: Option<f64>,
    /// The passes over a batch end early when a minibatch's KL is above 1.5 times this; null: never. Typical: 0.01 to
    /// 0.05.
    pub target_kl: Option<f64>,
}

/// The optimizers that PPO can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptType {
    /// Adam with PyTorch's decays.
    Adam,
    /// RMSprop with the decay 0.99 and no momentum.
    Rmsprop,
}

/// The quantity of the value loss that `vf_clip_param` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueClip {
    /// The squared error (Ray 1.13): rows beyond the bound give no gradient, so raise it for large returns.
    SquaredError,
    /// The change of the critic's value since the batch was sampled (Ray up to 1.9, baselines, CleanRL): the loss is the
    /// larger of the squared errors with and without the bound.
    AroundOld,
    /// The change of the critic's value since the batch was sampled (`clip_range_vf` of Stable-Baselines3): the loss is
    /// the squared error with the bound, so a value that has moved further gives no gradient.
    Clipped,
    /// The value loss is not bounded (Stable-Baselines3's default).
    None,
}

/// The rows over which advantages are standardised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormalizeAdvantages {
    /// Advantages are standardised over the whole batch (Ray).
    Batch,
    /// Advantages are standardised over each minibatch, by its population standard deviation.
    Minibatch,
    /// Advantages are standardised over each minibatch, by its sample standard deviation plus 1e-8 (Stable-Baselines3,
    /// CleanRL).
    MinibatchSample,
    /// Advantages stay as they are.
    None,
}

own_defaults!(Ppo);

impl Default for Ppo {
    fn default() -> Self {
        let model = ModelConfig { vf_share_layers: false, ..ModelConfig::default() };
        Self {
            common: Common { train_batch_size: 4000, model, ..Common::default() },
            sde: Sde::default(),
            lr: 5e-5,
            lr_schedule: None,
            adam_epsilon: 1e-8,
            opt_type: OptType::Adam,
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

    const PLAN_KEYS: &'static [&'static str] =
        &["num_sgd_iter", "sgd_minibatch_size", "normalize_advantages"];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let fitted = self.common.fit_fragments();
        let minibatch = self.sgd_minibatch_size;
        let batch = self.common.train_batch_size;
        let minibatches = format!("it must be in 1..={batch} (`train_batch_size`)");
        let critic = "`use_gae` needs a critic; set both or neither";
        let bootstraps =
            "fragments of episodes need it to bootstrap; set it, or `batch_mode` to \"complete_episodes\"";
        let fragments = self.common.batch_mode == BatchMode::TruncateEpisodes;
        let exploration = &self.common.exploration_config;
        let samples = matches!(exploration, ExplorationConfig::StochasticSampling { random_timesteps: 0 });
        let (over, rows) = match self.normalize_advantages {
            NormalizeAdvantages::None => ("", 0),
            NormalizeAdvantages::Batch => ("train_batch_size", batch),
            _ if batch == 1 => ("train_batch_size", batch),
            _ => ("sgd_minibatch_size", minibatch),
        };
        let of_one = "it must be at least 2: advantages are normalised over these rows, and one row has nothing to be compared \
                      with; or set `normalize_advantages` to \"none\"";
        let own = "PPO learns from its own samples: only {\"type\": \"StochasticSampling\"} keeps them so";
        rules::all([
            ActionDist::for_space(&spaces.action_space).map(|_| ()),
            self.sde.validate(
                &spaces.action_space,
                self.common.model.free_log_std && matches!(spaces.action_space, Space::Box { .. }),
            ),
            fitted,
            rules::refuse_if(
                // A batch of 0 rows is refused by a rule of its own.
                batch > 0 && !(1..=batch).contains(&minibatch),
                "sgd_minibatch_size",
                minibatch,
                minibatches,
            ),
            rules::refuse_if(rows == 1, over, rows, of_one),
            rules::at_least_one([("num_sgd_iter", self.num_sgd_iter)]),
            rules::above_zero([("lr", self.lr), ("clip_param", self.clip_param)]),
            rules::above_zero([("vf_clip_param", self.vf_clip_param)]),
            rules::not_negative([("entropy_coeff", self.entropy_coeff), ("kl_coeff", self.kl_coeff)]),
            rules::not_negative([("vf_loss_coeff", self.vf_loss_coeff), ("kl_target", self.kl_target)]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip), ("target_kl", self.target_kl)]),
            rules::share([("lambda", self.lambda)]),
            rules::refuse_if(self.use_gae && !self.use_critic, "use_critic", false, critic),
            rules::refuse_if(!self.use_gae && fragments, "use_gae", false, bootstraps),
            rules::schedules([
                ("lr_schedule", &self.lr_schedule),
                ("entropy_coeff_schedule", &self.entropy_coeff_schedule),
                ("clip_param_schedule", &self.clip_param_schedule),
            ]),
            rules::refuse_if(!samples, "exploration_config", serde_json::json!(exploration), own),
        ])
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<PpoPolicy>("PpoPolicy", self))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let over_batch = self.normalize_advantages == NormalizeAdvantages::Batch;
        Box::new(
            workers
                .rollouts()
                .concat_batches(self.common.train_batch_size)
                .count_steps_by(self.common.multiagent.count_steps_by)
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

/// The networks of PPO, and its settings that change while it learns.
#[derive(Debug)]
struct PpoPolicy {
    config: Ppo,
    nets: ActorCritic,
    clip: Schedule,
    entropy: Schedule,
    kl_coeff: f64,
    /// Number of iterations in a row in which `vf_clip_param` bounded almost the whole value loss.
    bounded: u32,
}

impl PpoPolicy {
    /// Tells the user once if the bound on the squared error keeps the critic from learning for ten iterations.
    fn watch_bound(&mut self, vf_loss: f64) {
        let Ppo { vf_clip, vf_clip_param: bound, vf_loss_coeff, .. } = self.config;
        let is_bounded = vf_clip == ValueClip::SquaredError && vf_loss_coeff > 0.1 && vf_loss > 0.9 * bound;
        if self.bounded == 10 {
            return; // The user was told.
        }
        self.bounded = if is_bounded { self.bounded + 1 } else { 0 };
        if self.bounded == 10 {
            notice(&format!(
                "the value loss is {vf_loss:.2} and `vf_clip_param` bounds it at {bound}: most rows give the critic no \
                 gradient. Set `vf_clip` to \"none\", or scale rewards down"
            ));
        }
    }
}

impl NetPolicy for PpoPolicy {
    type Config = Ppo;

    fn build(config: &Ppo, net: &mut NetBuilder<'_>) -> Result<Self> {
        let lr = Schedule::of(config.lr, config.lr_schedule.as_ref());
        let eps = config.adam_epsilon;
        let optimizer = match config.opt_type {
            OptType::Adam => OptimizerConfig::adam(eps),
            OptType::Rmsprop => OptimizerConfig::Rmsprop { alpha: 0.99, eps, momentum: 0.0, centered: false },
        };
        let rule = Rule { optimizer, lr, grad_clip: config.grad_clip };
        let (_, nets) =
            net.group("all", rule, |net| ActorCritic::exploring(net, &config.common.model, &config.sde))?;
        Ok(Self {
            nets,
            clip: Schedule::of(config.clip_param, config.clip_param_schedule.as_ref()),
            entropy: Schedule::of(config.entropy_coeff, config.entropy_coeff_schedule.as_ref()),
            kl_coeff: config.kl_coeff,
            bounded: 0,
            config: config.clone(),
        })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.nets.dist_inputs(net, x)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.sample(&self.nets.dist, inputs)
    }

    fn distribution(&self) -> Option<&ActionDist> {
        Some(&self.nets.dist)
    }

    fn sde(&self) -> Option<SdeShape> {
        self.nets.sde()
    }

    fn sde_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.nets.sde_inputs(net, x)
    }

    /// The columns that are stored when acting: the action's log-probability for the clipped surrogate and, for the KL
    /// penalty, the inputs of the action distribution.
    fn step_columns(&self) -> Vec<(Column, usize)> {
        let inputs = (Column::ACTION_DIST_INPUTS, self.nets.dist.num_inputs());
        let penalty = (self.config.kl_coeff > 0.0).then_some(inputs);
        [(Column::ACTION_LOGP, 1)].into_iter().chain(penalty).collect()
    }

    /// The rows of a fragment, with advantages and the critic's value targets.
    fn postprocess(&self, learner: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        let values = f.values(learner, |net, x| self.nets.value(net, x))?;
        // Without GAE advantages are discounted returns: GAE with lambda 1, plus the value.
        let lambda = if self.config.use_gae { self.config.lambda } else { 1.0 };
        let advantages = f.advantages(&values, self.config.common.gamma, lambda);
        let vf_preds = values.rows();
        let targets: Vec<f32> = advantages.iter().zip(&vf_preds).map(|(a, v)| a + v).collect();
        let batch = f.rows().with_f32s(Column::VF_PREDS, &vf_preds);
        Ok(if self.config.use_critic {
            batch.with_f32s(Column::ADVANTAGES, &advantages).with_f32s(Column::VALUE_TARGETS, &targets)
        } else {
            batch
                .with_f32s(Column::ADVANTAGES, &targets)
                .with_f32s(Column::VALUE_TARGETS, &vec![0.0; targets.len()])
        })
    }

    /// The clipped surrogate objective with value loss and entropy bonus (equations 7 and 9), and the KL penalty.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let [actions, old_logp] = rows.columns([Column::ACTIONS, Column::ACTION_LOGP])?;
        let [advantages, targets] = rows.columns([Column::ADVANTAGES, Column::VALUE_TARGETS])?;
        let clip = self.clip.at(rows.timestep());
        let entropy_coeff = self.entropy.at(rows.timestep());

        let (pi, values) = self.nets.pi_and_value(rows.online(), rows.obs()?);
        let log_ratio = pi.logp(actions) - old_logp;
        let ratio = log_ratio.exp();
        let clipped = ratio.clamp(1.0 - clip, 1.0 + clip);
        let policy_loss = -(ratio * advantages).minimum(clipped * advantages).mean();

        let squared_error = (values - targets).square();
        let bound = self.config.vf_clip_param;
        let vf_loss = match self.config.vf_clip {
            ValueClip::None => squared_error,
            ValueClip::SquaredError => squared_error.clamp_max(bound),
            ValueClip::AroundOld => {
                let old = rows.get(Column::VF_PREDS)?;
                let clipped = old + (values - old).clamp(-bound, bound);
                squared_error.maximum((clipped - targets).square())
            }
            ValueClip::Clipped => {
                let old = rows.get(Column::VF_PREDS)?;
                (old + (values - old).clamp(-bound, bound) - targets).square()
            }
        }
        .mean();

        let mut total = policy_loss + vf_loss * self.config.vf_loss_coeff;
        let entropy = pi.entropy().mean();
        if entropy_coeff != 0.0 {
            total = total - entropy * entropy_coeff;
        }
        let kl = if self.config.kl_coeff > 0.0 {
            let old = self.nets.dist.at(rows.get(Column::ACTION_DIST_INPUTS)?);
            let kl = old.kl(&pi).mean();
            total = total + kl * self.kl_coeff;
            kl
        } else {
            // Schulman's estimator of the KL, for statistics only.
            (ratio - log_ratio - 1.0).mean()
        };
        let beyond = ((ratio - 1.0).detach().abs() - clip).sign().relu();
        Ok(Loss::new(total)
            .mean("total_loss", total)
            .mean("policy_loss", policy_loss)
            .mean("vf_loss", vf_loss)
            .explained_variance("vf_explained_var", targets, values)
            .mean("kl", kl)
            .mean("entropy", entropy)
            .mean("clip_fraction", beyond))
    }

    fn learn(&mut self, learner: &mut Learner, batch: &SampleBatch) -> Result<Learned> {
        let batch = match self.config.normalize_advantages {
            NormalizeAdvantages::Minibatch => &standardized(batch, Column::ADVANTAGES)?,
            NormalizeAdvantages::MinibatchSample => &standardized_by_sample(batch, Column::ADVANTAGES)?,
            NormalizeAdvantages::Batch | NormalizeAdvantages::None => batch,
        };
        let mut report = learner.gradient(batch, |rows| self.loss(rows))?;
        learner.clip(&mut report);
        let stop = self
            .config
            .target_kl
            .is_some_and(|target| report.stats.read("kl").is_some_and(|kl| kl > 1.5 * target));
        if !stop {
            learner.step(&report);
        }
        Ok(Learned { stop, ..report.into() })
    }

    fn after_training(&mut self, means: &BTreeMap<String, f64>) {
        self.watch_bound(means.get("vf_loss").copied().unwrap_or_default());
        if let Some(&kl) = means.get("kl") {
            self.kl_coeff = adapt_kl_coeff(self.kl_coeff, kl, self.config.kl_target);
        }
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("kl_coeff", &self.kl_coeff)?;
        state.set("initial_kl_coeff", &self.config.kl_coeff)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        let is_changed = state.has_other("initial_kl_coeff", self.config.kl_coeff)?;
        self.kl_coeff = if is_changed { self.config.kl_coeff } else { state.get("kl_coeff")? };
        Ok(())
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        BTreeMap::from([
            ("cur_kl_coeff".to_owned(), self.kl_coeff),
            ("entropy_coeff".to_owned(), self.entropy.at(timestep)),
            ("clip_param".to_owned(), self.clip.at(timestep)),
        ])
    }
}

/// The next KL coefficient: 1.5 times as high if the measured KL is above twice the target, half as high if the
/// measured KL is below half the target.
pub fn adapt_kl_coeff(coeff: f64, sampled_kl: f64, kl_target: f64) -> f64 {
    if sampled_kl > 2.0 * kl_target {
        coeff * 1.5
    } else if sampled_kl < 0.5 * kl_target {
        coeff * 0.5
    } else {
        coeff
    }
}
