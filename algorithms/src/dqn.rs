//! Deep Q-learning (Mnih et al. 2015) with the parts of Rainbow (Hessel et al. 2018), in Ray's form.
//!
//! 1. Workers act greedily by the Q-values of a network, or at random with probability epsilon, and store their
//!    experience.
//! 2. Batches are drawn from the replay buffer; rows with larger errors are drawn more often.
//! 3. The network moves towards `r + gamma^n Q_target(s', argmax Q(s'))`, by Huber loss; with atoms it learns the
//!    distribution of returns instead of their mean.
//! 4. Now and then the weights of the network are copied to the target network.

mod c51;

use crate::dqn::c51::Atoms;
use pavlov_envs::Space;
use pavlov_trainer::{
    own_defaults,
    plan::{owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target},
    prelude::*,
    replay::{OffPolicy, ReplayKind},
    settings::{ExplorationConfig, rules},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of DQN. Defaults are those of Ray 1.13.
///
/// ```no_run
/// use pavlov_algorithms::Dqn;
/// use pavlov_trainer::{Error, Trainer, TrainerExt};
///
/// let mut dqn = Dqn { lr: 1e-3, ..Dqn::get_default_config() };
/// dqn.common.num_workers = 0;
/// let mut trainer = dqn.build("CartPole-v1")?;
/// for _ in 0..30 {
///     println!("{}", trainer.train()?["episode_reward_mean"]);
/// }
/// trainer.save()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Dqn {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// Step size of Adam.
    pub lr: f64,
    /// Schedule of the step size, which replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Adam's epsilon.
    pub adam_epsilon: f64,
    /// Largest norm of the gradient; a larger gradient is scaled down to it. Null: no bound.
    pub grad_clip: Option<f64>,
    /// Settings of the replay buffer and of learning from it.
    #[serde(flatten)]
    pub off_policy: OffPolicy,
    /// Double DQN: the network chooses the next action, and the target network values it (van Hasselt et al. 2016).
    pub double_q: bool,
    /// Whether to compute values and advantages in separate heads (Wang et al. 2016).
    pub dueling: bool,
    /// Number of units of each hidden layer of the heads (ReLU); if empty, the output layer follows the model directly.
    pub hiddens: Vec<usize>,
    /// Number of atoms of the learned distribution of returns (Bellemare et al. 2017); with 1 only the mean is learned.
    pub num_atoms: usize,
    /// Return of the lowest atom; lower returns count as this one.
    pub v_min: f64,
    /// Return of the highest atom; higher returns count as this one.
    pub v_max: f64,
    /// Whether to explore by noisy layers in the heads (Fortunato et al. 2018); set `final_epsilon` to 0 to explore
    /// by these alone. New noise is drawn for each step and each training batch. In one step all environment copies
    /// of all workers act with the same noise, so that a run does not depend on how copies are divided among workers.
    pub noisy: bool,
    /// Initial size of the noise in noisy layers.
    pub sigma0: f64,
    /// Whether workers compute the priority of new rows from their error, by a pass through the network per fragment;
    /// otherwise new rows get the highest priority so far.
    pub worker_side_prioritization: bool,
}

own_defaults!(Dqn);

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
            off_policy: OffPolicy { target_network_update_freq: 500, ..OffPolicy::default() },
            double_q: true,
            dueling: true,
            hiddens: vec![256],
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
        ("replay_sequence_length", "recurrent networks are not there yet; leave it out"),
    ];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let discrete = match spaces.action_space {
            Space::Discrete { .. } => Ok(()),
            ref other => Err(Error::Space {
                who: Self::NAME.into(),
                needs: "a Discrete action space".into(),
                space: other.to_string(),
            }),
        };
        let replay = &self.off_policy.replay_buffer_config;
        let exploration = &self.common.exploration_config;
        rules::all([
            discrete,
            self.off_policy.validate(&self.common, spaces),
            rules::at_least_one([("num_atoms", self.num_atoms)]),
            rules::refuse_if(
                self.hiddens.contains(&0),
                "hiddens",
                format_args!("{:?}", self.hiddens),
                "every layer needs at least one unit",
            ),
            rules::above_zero([("lr", self.lr), ("sigma0", self.sigma0)]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::refuse_if(
                self.num_atoms > 1 && self.v_min >= self.v_max,
                "v_min",
                self.v_min,
                format!("it must be below {} (`v_max`)", self.v_max),
            ),
            rules::refuse_if(
                self.worker_side_prioritization && replay.kind != ReplayKind::PrioritizedReplayBuffer,
                "worker_side_prioritization",
                true,
                "it needs `replay_buffer_config.type` to be \"PrioritizedReplayBuffer\"",
            ),
            rules::refuse_if(
                exploration.is_noise() || matches!(exploration, ExplorationConfig::StochasticSampling { .. }),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "values have no distribution to sample; use EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or Random",
            ),
            rules::schedules([("lr_schedule", &self.lr_schedule)]),
        ])?;
        Ok(())
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
        let features = self.common.model.features(spaces);
        memory.add_layers("the heads", "hiddens", features, &self.hiddens);
        let units = self.hiddens.last().copied().unwrap_or(features);
        let actions = spaces.action_space.flat_width();
        // Output layers: their weights with gradients and optimizer state, and the values of a batch.
        let outputs = [("num_atoms", self.num_atoms)];
        memory.add("the heads", &outputs, 16 * (units as u128) * (actions as u128));
        let rows = ("train_batch_size", self.common.train_batch_size);
        memory.add("distributions", &[outputs[0], rows], 4 * actions as u128);
    }

    fn get_default_policy_class(&self, _spaces: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<DqnPolicy>("DqnPolicy", self))
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

/// The policy of DQN: a model and its heads. [`Over`] changes single methods of it.
#[derive(Debug)]
pub struct DqnPolicy {
    config: Dqn,
    torso: Box<dyn Torso>,
    advantage: Vec<Dense>,
    /// Head of the state's value; only with `dueling`.
    value: Option<Vec<Dense>>,
    /// The distributions of returns; `None` with one atom.
    atoms: Option<Atoms>,
    worker: (usize, usize),
}

impl DqnPolicy {
    /// The settings that the policy was built with.
    pub fn config(&self) -> &Dqn {
        &self.config
    }

    /// Q-values of all actions, `[rows, actions]`.
    pub fn values<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let (q, value) = self.outputs(net, x);
        match self.atoms {
            Some(atoms) => atoms.means((q, value)),
            None => value.map_or(q, |value| q - q.mean_columns() + value),
        }
    }

    /// Outputs of the advantage head, `[rows, actions * atoms]`, and of the value head, `[rows, atoms]`; the second is
    /// `None` without `dueling`.
    fn outputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> (Value<'t>, Option<Value<'t>>) {
        let features = self.torso.on(net, x);
        let run = |layers: &[Dense]| layers.iter().fold(features, |x, layer| layer.on(net, x));
        (run(&self.advantage), self.value.as_deref().map(run))
    }

    /// The error of each row, and the Q-value of its action, `[rows, 1]`.
    ///
    /// Without atoms the error is `Q(s, a) - target`; with atoms it is the cross-entropy to the projected target
    /// distribution.
    fn td_error<'t>(&self, rows: &Rows<'t>) -> Result<(Value<'t>, Value<'t>)> {
        let [rewards, actions] = rows.columns([Column::REWARDS, Column::ACTIONS])?;
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discounts = rows.discounts()?;
        if let Some(atoms) = self.atoms {
            let outputs = |net: Net<'t>, x: Input<'t>| self.outputs(net, x);
            return Ok(atoms.td_error(rows, &outputs, (s, s2), (actions, rewards, discounts)));
        }
        let next = self.values(rows.target(), s2);
        let best = if self.config.double_q {
            s2.masked(self.values(rows.frozen(), s2)).argmax()
        } else {
            s2.masked(next).argmax()
        };
        let target = rewards + discounts * next.gather(best);
        let q = self.values(rows.online(), s).gather(actions);
        Ok((q - target, q))
    }
}

impl NetPolicy for DqnPolicy {
    type Config = Dqn;

    fn build(config: &Dqn, net: &mut NetBuilder<'_>) -> Result<Self> {
        let spec = net.spec();
        let actions = match spec.spaces.action_space {
            Space::Discrete { n, .. } => n as usize,
            ref other => {
                let needs = "a Discrete action space".into();
                return Err(Error::Space { who: Dqn::NAME.into(), needs, space: other.to_string() });
            }
        };
        if config.worker_side_prioritization {
            net.target_in_workers();
        } else {
            net.target();
        }
        let atoms = (config.num_atoms > 1).then_some(Atoms {
            atoms: config.num_atoms,
            actions,
            v_min: config.v_min,
            v_max: config.v_max,
            double_q: config.double_q,
        });
        let lr = Schedule::of(config.lr, config.lr_schedule.as_ref());
        let rule = Rule::adam(lr, config.adam_epsilon).clip(config.grad_clip);
        let (_, (torso, advantage, value)) = net.group("all", rule, |net| {
            let torso = net.torso("model", &config.common.model)?;
            let features = torso.width();
            let n = config.num_atoms;
            let advantage = lay_out_head(net, "advantage", features, actions * n, config);
            let value = config.dueling.then(|| lay_out_head(net, "value", features, n, config));
            Ok((torso, advantage, value))
        })?;
        let worker = (spec.worker_index, spec.num_workers);
        Ok(Self { config: config.clone(), torso, advantage, value, atoms, worker })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.values(net, x)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.by_values(inputs, &self.config.common.exploration_config)
    }

    fn postprocess(&self, learner: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        let batch = self.config.off_policy.rows(f, self.config.common.gamma)?;
        if !self.config.worker_side_prioritization {
            return Ok(batch);
        }
        // Noise is left out, so that first priorities depend on weights and rows only, not on the worker.
        let errors = learner.per_row(&batch, |rows| Ok(self.td_error(rows)?.0))?;
        let eps = self.config.off_policy.replay_buffer_config.prioritized_replay_eps as f32;
        let priorities: Vec<f32> = errors.iter().map(|e| e.abs() + eps).collect();
        Ok(batch.with_f32s(Column::PRIORITIES, &priorities))
    }

    /// The weighted mean over the rows of Huber's loss of the error, or of the cross-entropy with several atoms.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let (error, q) = self.td_error(rows)?;
        let of_rows = if self.atoms.is_some() { error } else { error.huber() };
        let loss = (of_rows * rows.weights()?).mean();
        Ok(Loss::new(loss)
            .mean("loss", loss)
            .mean("mean_q", q)
            .min("min_q", q)
            .max("max_q", q)
            .td_errors(error))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let (index, workers) = self.worker;
        let epsilon = self.config.common.exploration_config.epsilon(timestep, index, workers);
        BTreeMap::from([("cur_epsilon".to_owned(), epsilon)])
    }
}

impl Overridable for DqnPolicy {}

/// Lays out hidden ReLU layers and an output layer; these are noisy if `noisy` is set.
fn lay_out_head(net: &mut NetBuilder<'_>, name: &str, inputs: usize, out: usize, config: &Dqn) -> Vec<Dense> {
    let hidden = config.hiddens.iter().map(|&units| (units, Activation::Relu));
    let mut layers = Vec::new();
    let mut width = inputs;
    for (i, (units, activation)) in hidden.chain([(out, Activation::Linear)]).enumerate() {
        let name = format!("{name}.{i}");
        layers.push(if config.noisy {
            net.noisy(&name, width, units, activation, config.sigma0)
        } else {
            net.dense(&name, width, units, activation, Init::Uniform)
        });
        width = units;
    }
    layers
}
