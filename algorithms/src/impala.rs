//! Importance-weighted actor-learner architecture (Espeholt et al. 2018), in Ray's form.
//!
//! 1. Workers sample without waiting for the learner, with weights that are a few updates old.
//! 2. V-trace corrects value targets and advantages by the ratio of the new policy's probabilities to the acting
//!    policy's.
//! 3. Each batch gives one step: policy gradient, value loss and entropy bonus, summed up over its rows.
//! 4. Workers get the new weights with their next request.

use pavlov_trainer::{
    learner::OptimizerConfig,
    own_defaults,
    prelude::*,
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of IMPALA. Defaults are those of Ray 1.13.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Impala {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// Upper bound of the probability ratio in value targets: the lower it is, the nearer the learned value is to that of
    /// the older policy, which acted.
    pub vtrace_clip_rho_threshold: f64,
    /// Upper bound of the probability ratio in advantages.
    pub vtrace_clip_pg_rho_threshold: f64,
    /// Number of fragments per worker that are being sampled or wait for the trainer. More of them keep workers busier,
    /// but their experience is older.
    pub max_sample_requests_in_flight_per_worker: usize,
    /// The order in which fragments of workers are taken. With `"deterministic"` it is worker by worker, and a run repeats
    /// bit for bit; with `"first_come"` fragments are taken as they arrive.
    pub sample_order: Order,
    /// Number of training batches after which the workers get new weights.
    pub broadcast_interval: usize,
    /// Number of training batches that may wait for a separate learner thread. With 0 the trainer's own thread learns
    /// while the workers sample, and a run repeats bit for bit; with more it does not.
    pub learner_queue_size: usize,
    /// Number of passes over each batch; each pass computes V-trace anew.
    pub num_sgd_iter: usize,
    /// Number of batches in use at once: with more than one, the passes over a batch alternate with those over other
    /// batches.
    pub minibatch_buffer_size: usize,
    /// Number of earlier fragments that are added to each new one; a fractional part is the probability of one more.
    pub replay_proportion: f64,
    /// Number of earlier fragments that are kept for `replay_proportion`.
    pub replay_buffer_num_slots: usize,
    /// The optimizer: Adam or RMSprop.
    pub opt_type: OptType,
    /// Step size: higher learns faster and less steadily. Typical: 1e-4 to 1e-3.
    pub lr: f64,
    /// Schedule of the step size, which replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Largest norm of the gradient; a larger gradient is scaled down to it. Null: no bound. The loss is a sum over the
    /// batch, so the norm is larger than for a mean.
    pub grad_clip: Option<f64>,
    /// Decay of RMSprop's second moment.
    pub decay: f64,
    /// RMSprop's momentum.
    pub momentum: f64,
    /// Number that RMSprop adds to the root of the second moment.
    pub epsilon: f64,
    /// Weight of the value loss.
    pub vf_loss_coeff: f64,
    /// Weight of the entropy bonus: higher explores longer. Typical: 0 to 0.02.
    pub entropy_coeff: f64,
    /// Schedule of the weight of the entropy bonus, which replaces `entropy_coeff`: `[[step, value], ...]`.
    pub entropy_coeff_schedule: Option<Piecewise>,
}

/// The optimizers that IMPALA can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptType {
    /// Adam with PyTorch's defaults.
    Adam,
    /// RMSprop with `decay`, `momentum` and `epsilon`.
    Rmsprop,
}

own_defaults!(Impala);

impl Default for Impala {
    fn default() -> Self {
        Self {
            common: Common {
                rollout_fragment_length: 50,
                train_batch_size: 500,
                // Ray reports every ten seconds, which would differ from run to run.
                min_sample_timesteps_per_reporting: Some(5000),
                ..Common::default()
            },
            vtrace_clip_rho_threshold: 1.0,
            vtrace_clip_pg_rho_threshold: 1.0,
            max_sample_requests_in_flight_per_worker: 2,
            sample_order: Order::Deterministic,
            broadcast_interval: 1,
            // Ray's 16 starts a learner thread, whose runs do not repeat bit for bit.
            learner_queue_size: 0,
            num_sgd_iter: 1,
            minibatch_buffer_size: 1,
            replay_proportion: 0.0,
            replay_buffer_num_slots: 0,
            opt_type: OptType::Adam,
            lr: 5e-4,
            lr_schedule: None,
            grad_clip: Some(40.0),
            decay: 0.99,
            momentum: 0.0,
            epsilon: 0.1,
            vf_loss_coeff: 0.5,
            entropy_coeff: 0.01,
            entropy_coeff_schedule: None,
        }
    }
}

impl Trainer for Impala {
    const NAME: &'static str = "IMPALA";

    const PLAN_KEYS: &'static [&'static str] = &[
        "max_sample_requests_in_flight_per_worker",
        "sample_order",
        "broadcast_interval",
        "learner_queue_size",
        "num_sgd_iter",
        "minibatch_buffer_size",
        "replay_proportion",
        "replay_buffer_num_slots",
    ];

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = &[
        ("vtrace", "experience is always corrected by V-trace; leave it out"),
        (
            "vtrace_drop_last_ts",
            "the observation behind the last row is known, so no row is dropped; leave it out",
        ),
        (
            "learner_queue_timeout",
            "a learner thread waits for the next batch as long as it takes; leave it out",
        ),
        ("num_multi_gpu_tower_stacks", "a batch goes to the GPU as one piece; leave it out"),
        ("num_aggregation_workers", "fragments cross threads without a copy; leave it out"),
        ("max_requests_in_flight_per_aggregator_worker", "there are no aggregation workers; leave it out"),
    ];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let common = &self.common;
        let fragment = (common.rollout_fragment_length * common.num_envs_per_worker).max(1);
        let broken = common.batch_mode == BatchMode::TruncateEpisodes
            && !common.train_batch_size.is_multiple_of(fragment);
        let nearest = common.train_batch_size.div_ceil(fragment) * fragment;
        let whole = format!(
            "it must be whole fragments of {fragment} steps (`rollout_fragment_length` x `num_envs_per_worker`); \
             next: {nearest}"
        );
        let explores = matches!(
            common.exploration_config,
            ExplorationConfig::StochasticSampling { random_timesteps: 0 }
        );
        rules::all([
            ActionDist::for_space(&spaces.action_space).map(|_| ()),
            rules::refuse_if(broken, "train_batch_size", common.train_batch_size, whole),
            rules::refuse_if(
                common.sample_async,
                "sample_async",
                true,
                "workers always sample while the trainer learns: leave it out",
            ),
            rules::at_least_one([
                ("max_sample_requests_in_flight_per_worker", self.max_sample_requests_in_flight_per_worker),
                ("broadcast_interval", self.broadcast_interval),
                ("num_sgd_iter", self.num_sgd_iter),
                ("minibatch_buffer_size", self.minibatch_buffer_size),
            ]),
            rules::above_zero([
                ("lr", self.lr),
                ("vtrace_clip_rho_threshold", self.vtrace_clip_rho_threshold),
                ("vtrace_clip_pg_rho_threshold", self.vtrace_clip_pg_rho_threshold),
                ("epsilon", self.epsilon),
            ]),
            rules::not_negative([
                ("replay_proportion", self.replay_proportion),
                ("momentum", self.momentum),
                ("vf_loss_coeff", self.vf_loss_coeff),
                ("entropy_coeff", self.entropy_coeff),
            ]),
            rules::share([("decay", self.decay)]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::refuse_if(
                self.replay_proportion > 0.0 && self.replay_buffer_num_slots == 0,
                "replay_proportion",
                self.replay_proportion,
                "nothing is kept that could be replayed: set `replay_buffer_num_slots` to at least 1",
            ),
            rules::schedules([
                ("lr_schedule", &self.lr_schedule),
                ("entropy_coeff_schedule", &self.entropy_coeff_schedule),
            ]),
            rules::refuse_if(
                !explores,
                "exploration_config",
                serde_json::to_string(&common.exploration_config).unwrap_or_default(),
                "V-trace needs the probability of every action: only {\"type\": \"StochasticSampling\"} gives it",
            ),
        ])
    }

    fn memory(&self, _spaces: &Spaces, memory: &mut Memory) {
        let copies = ("num_envs_per_worker", self.common.num_envs_per_worker);
        let steps = ("rollout_fragment_length", self.common.rollout_fragment_length);
        let slots = ("replay_buffer_num_slots", self.replay_buffer_num_slots);
        memory.add("fragments to replay", &[slots, copies, steps], 16);
        let requests =
            ("max_sample_requests_in_flight_per_worker", self.max_sample_requests_in_flight_per_worker);
        let workers = ("num_workers", self.common.num_workers);
        memory.add("fragments under way", &[requests, workers, copies, steps], 16);
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<ImpalaPolicy>("ImpalaPolicy", self))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let mut train = train_in_turn(workers, self.minibatch_buffer_size, self.num_sgd_iter);
        let mut broadcast = broadcast_weights(workers, self.broadcast_interval);
        let learn = move |batch| broadcast(train(batch)?);
        Box::new(
            workers
                .rollouts_async(self.max_sample_requests_in_flight_per_worker, self.sample_order)
                .mix_in_replay(workers, self.replay_proportion, self.replay_buffer_num_slots)
                .concat_batches(self.common.train_batch_size)
                .count_steps_by(self.common.multiagent.count_steps_by)
                .then(learner_thread(workers, self.learner_queue_size, learn)),
        )
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The policy of IMPALA: an actor and a critic. [`Over`] changes single methods of it.
#[derive(Debug)]
pub struct ImpalaPolicy {
    nets: ActorCritic,
    vtrace: VTrace,
    vf_loss_coeff: f64,
    entropy: Schedule,
}

impl ImpalaPolicy {
    /// The actor and the critic.
    pub fn nets(&self) -> &ActorCritic {
        &self.nets
    }
}

impl Overridable for ImpalaPolicy {}

impl NetPolicy for ImpalaPolicy {
    type Config = Impala;

    fn build(config: &Impala, net: &mut NetBuilder<'_>) -> Result<Self> {
        let optimizer = match config.opt_type {
            OptType::Adam => OptimizerConfig::adam(1e-8),
            OptType::Rmsprop => OptimizerConfig::Rmsprop {
                alpha: config.decay,
                eps: config.epsilon,
                momentum: config.momentum,
                centered: false,
            },
        };
        let lr = Schedule::of(config.lr, config.lr_schedule.as_ref());
        let rule = Rule { optimizer, lr, grad_clip: config.grad_clip };
        let (_, nets) = net.group("all", rule, |net| ActorCritic::new(net, &config.common.model))?;
        Ok(Self {
            nets,
            vtrace: VTrace {
                gamma: config.common.gamma as f32,
                clip_rho: config.vtrace_clip_rho_threshold as f32,
                clip_pg_rho: config.vtrace_clip_pg_rho_threshold as f32,
            },
            vf_loss_coeff: config.vf_loss_coeff,
            entropy: Schedule::of(config.entropy_coeff, config.entropy_coeff_schedule.as_ref()),
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

    fn step_columns(&self) -> Vec<(Column, usize)> {
        vec![(Column::ACTION_LOGP, 1)]
    }

    fn postprocess(&self, _learner: &mut Learner, fragment: &Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows_with_trajectories())
    }

    /// Computes V-trace with the parameters before the step.
    fn prepare(&self, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        let values = learner.values(batch, |net, x| self.nets.value(net, x))?;
        let log_rhos = learner.per_row(batch, |rows| {
            let [actions, acted_logp] = rows.columns([Column::ACTIONS, Column::ACTION_LOGP])?;
            Ok(self.nets.pi(rows.frozen(), rows.obs()?).logp(actions) - acted_logp)
        })?;
        let targets = vtrace(batch, &values, log_rhos, self.vtrace)?;
        batch.set_f32s(Column::ADVANTAGES, &targets.advantages);
        batch.set_f32s(Column::VALUE_TARGETS, &targets.values);
        Ok(())
    }

    /// The loss of section 4.2 of the paper, as a sum over the batch like Ray's, whose `grad_clip` is meant for sums.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let [actions, advantages, targets] =
            rows.columns([Column::ACTIONS, Column::ADVANTAGES, Column::VALUE_TARGETS])?;
        let (pi, values) = self.nets.pi_and_value(rows.online(), rows.obs()?);

        let policy_loss = -(pi.logp(actions) * advantages).mean();
        let vf_loss = (values - targets).square().mean() * 0.5;
        let entropy = pi.entropy().mean();
        let total = policy_loss + vf_loss * self.vf_loss_coeff - entropy * self.entropy.at(rows.timestep());
        Ok(Loss::new(total * rows.count())
            .mean("total_loss", total)
            .mean("policy_loss", policy_loss)
            .mean("vf_loss", vf_loss)
            .mean("entropy", entropy)
            .explained_variance("vf_explained_var", targets, values))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        BTreeMap::from([("entropy_coeff".to_owned(), self.entropy.at(timestep))])
    }
}
