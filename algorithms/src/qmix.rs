//! QMIX (Rashid et al. 2018) and VDN (Sunehag et al. 2018): one value for a whole team, computed from a value per
//! member.
//!
//! 1. A group of agents acts as one agent (`multiagent.agent_groups`): it observes all members' observations, chooses
//!    an action for each member, and gets the sum of their rewards.
//! 2. One network, shared by the members, gives the values of a member's actions from that member's observation. Each
//!    member acts by its own values: greedily, or at random with probability epsilon.
//! 3. A mixer turns the values of the chosen actions into one value. VDN adds them up. QMIX uses a network whose
//!    weights are computed from the state (the observations of all members) and are never negative: an action that is
//!    best for a member is then best for the team.
//! 4. The mixed value moves towards `r + gamma^n Q_tot'(s', argmax of each member)`, and now and then the weights of
//!    the network are copied to the target network.
//!
//! The networks are not recurrent, unlike in the papers.

use pavlov_envs::Space;
use pavlov_trainer::{
    own_defaults,
    plan::{owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target},
    prelude::*,
    replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    settings::{ExplorationConfig, MultiAgentConfig, rules},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the members' values are mixed into the team's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mixing {
    /// Mixes by a network with weights computed from the state; if a member's value rises, the team's never falls.
    Qmix,
    /// Adds the members' values.
    Vdn,
}

/// Settings of QMIX. Defaults are those of Ray 1.13, except for settings of recurrent networks.
///
/// ```no_run
/// use pavlov_algorithms::Qmix;
/// use pavlov_trainer::{Error, Trainer, TrainerExt};
///
/// let mut trainer = Qmix::get_default_config().build("simple_spread_v3")?;
/// println!("{}", trainer.train()?["episode_reward_mean"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Qmix {
    /// Settings that all algorithms share.
    #[serde(flatten)]
    pub common: Common,
    /// How the members' values are mixed; null: each member learns by itself, from the reward of the team.
    pub mixer: Option<Mixing>,
    /// Number of units in the hidden layer of the mixing network; used only with `mixer = "qmix"`.
    pub mixing_embed_dim: usize,
    /// Double Q-learning: the network chooses the next actions, and the target network values them (van Hasselt et
    /// al. 2016).
    pub double_q: bool,
    /// Step size of RMSprop.
    pub lr: f64,
    /// Schedule of the step size, which replaces `lr`: `[[step, value], ...]`.
    pub lr_schedule: Option<Piecewise>,
    /// Decay of RMSprop's second moment.
    pub optim_alpha: f64,
    /// RMSprop's epsilon.
    pub optim_eps: f64,
    /// Largest norm of the gradient (Ray's `grad_norm_clipping`); a larger gradient is scaled down to it. Null: no bound.
    pub grad_clip: Option<f64>,
    /// Settings of the replay buffer and of learning from it.
    #[serde(flatten)]
    pub off_policy: OffPolicy,
}

own_defaults!(Qmix);

impl Default for Qmix {
    fn default() -> Self {
        Self {
            common: Common {
                num_workers: 0,
                rollout_fragment_length: 4,
                train_batch_size: 32,
                min_sample_timesteps_per_reporting: Some(1000),
                exploration_config: ExplorationConfig::EpsilonGreedy {
                    initial_epsilon: 1.0,
                    final_epsilon: 0.01,
                    warmup_timesteps: 0,
                    epsilon_timesteps: 40_000,
                    epsilon_schedule: None,
                },
                model: ModelConfig {
                    fcnet_hiddens: vec![64, 64],
                    fcnet_activation: Activation::Relu,
                    ..ModelConfig::default()
                },
                multiagent: MultiAgentConfig {
                    agent_groups: [("*".to_owned(), "team".to_owned())].into(),
                    ..MultiAgentConfig::default()
                },
                ..Common::default()
            },
            mixer: Some(Mixing::Qmix),
            mixing_embed_dim: 32,
            double_q: true,
            lr: 5e-4,
            lr_schedule: None,
            optim_alpha: 0.99,
            optim_eps: 1e-5,
            grad_clip: Some(10.0),
            off_policy: OffPolicy {
                replay_buffer_config: ReplayBufferConfig {
                    kind: ReplayKind::ReplayBuffer,
                    ..ReplayBufferConfig::default()
                },
                target_network_update_freq: 500,
                ..OffPolicy::default()
            },
        }
    }
}

/// The number of members of a group, and the number of actions of each member.
///
/// # Errors
/// Returns [`Error::Space`] if the agent is not a group, or its members have different spaces.
fn members_and_actions(spaces: &Spaces) -> Result<(usize, usize)> {
    if let (Space::Tuple(seen), Space::MultiDiscrete { nvec, .. }) =
        (&spaces.observation_space, &spaces.action_space)
        && seen.len() == nvec.len()
        && seen.iter().all(|space| space == &seen[0])
        && nvec.iter().all(|n| n == &nvec[0])
    {
        return Ok((nvec.len(), nvec[0] as usize));
    }
    let Spaces { observation_space, action_space } = spaces;
    Err(Error::Space {
        who: Qmix::NAME.into(),
        needs:
            "groups (`multiagent.agent_groups`) of agents with equal observations and equal Discrete actions"
                .into(),
        space: format!("{observation_space} with actions {action_space}"),
    })
}

impl Trainer for Qmix {
    const NAME: &'static str = "QMIX";

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = &[
        ("before_learn_on_batch", "it is code: implement `Callbacks::on_learn_on_batch`"),
        ("worker_side_prioritization", "priorities are those of learning; leave it out"),
    ];

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        let common = &self.common;
        let exploration = &self.common.exploration_config;
        rules::all([
            members_and_actions(spaces).map(drop),
            self.off_policy.validate(common, spaces),
            rules::at_least_one([("mixing_embed_dim", self.mixing_embed_dim)]),
            rules::above_zero([("lr", self.lr), ("optim_eps", self.optim_eps)]),
            rules::share([("optim_alpha", self.optim_alpha)]),
            rules::above_zero_or_null([("grad_clip", self.grad_clip)]),
            rules::schedules([("lr_schedule", &self.lr_schedule)]),
            rules::refuse_if(
                common.multiagent.observation_fn.is_some(),
                "multiagent.observation_fn",
                "\"global_state\"",
                "the mixer sees what all members see anyway; leave it out",
            ),
            rules::refuse_if(
                exploration.is_noise() || matches!(exploration, ExplorationConfig::StochasticSampling { .. }),
                "exploration_config.type",
                format_args!("{:?}", exploration.name()),
                "values have no distribution to sample; use EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or Random",
            ),
        ])?;
        Ok(())
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
        let Ok((members, _)) = members_and_actions(spaces) else { return };
        let width = self.mixing_embed_dim.saturating_mul(members + 3);
        memory.add_layers("the mixer", "mixing_embed_dim", spaces.obs_width(), &[width]);
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        let (members, actions) = members_and_actions(spaces)?;
        Ok(PolicyClass::net::<QmixPolicy>("QmixPolicy", &(self.clone(), members, actions)))
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

/// The network that all members share, and the mixer of their values.
#[derive(Debug)]
struct QmixPolicy {
    config: Qmix,
    members: usize,
    actions: usize,
    agent: Vec<Dense>,
    /// The mixing network; only with `mixer = "qmix"`.
    mixer: Option<Mixer>,
    worker: (usize, usize),
}

/// A network of two layers from the members' values to the team's value. Other networks compute its weights and
/// biases from the state (section 4 of the paper, figure 2).
#[derive(Debug)]
struct Mixer {
    embed: usize,
    w1: Dense,
    b1: Dense,
    w2: Dense,
    b2: [Dense; 2],
}

impl Mixer {
    fn new(net: &mut NetBuilder<'_>, members: usize, embed: usize) -> Self {
        let state = net.obs_width();
        let mut of = |name: &str, inputs: usize, out: usize, activation: Activation, init: Init| {
            net.dense(&format!("mixer.{name}"), inputs, out, activation, init)
        };
        // Small initial weights: with larger ones the values of a team diverge from its rewards.
        let small = Init::Orthogonal(0.01);
        let usual = Init::Uniform;
        Self {
            embed,
            w1: of("w1", state, members * embed, Activation::Linear, small),
            b1: of("b1", state, embed, Activation::Linear, usual),
            w2: of("w2", state, embed, Activation::Linear, small),
            b2: [
                of("b2.0", state, embed, Activation::Relu, usual),
                of("b2.1", embed, 1, Activation::Linear, usual),
            ],
        }
    }

    /// The team's value: `Q_tot = |w2(s)| elu(sum_i |w1_i(s)| q_i + b1(s)) + b2(s)`, `[rows, 1]`.
    fn on<'t>(&self, net: Net<'t>, s: Value<'t>, q: &[Value<'t>]) -> Value<'t> {
        let w1 = self.w1.on(net, s).abs();
        let weighted = q.iter().enumerate().map(|(i, &q)| w1.narrow(i * self.embed, self.embed) * q);
        let hidden = (weighted.sum::<Value<'t>>() + self.b1.on(net, s)).activate(Activation::Elu);
        let b2 = self.b2.iter().fold(s, |x, layer| layer.on(net, x));
        (hidden * self.w2.on(net, s).abs()).sum_columns() + b2
    }
}

impl QmixPolicy {
    /// The values of all members' actions, member after member: `[rows, members * actions]`.
    fn values<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let seen = x.obs().columns() / self.members;
        let of = |i: usize| {
            let own = x.obs().narrow(i * seen, seen);
            self.agent.iter().fold(own, |x, layer| layer.on(net, x))
        };
        (1..self.members).fold(of(0), |all, i| all.cat(of(i)))
    }

    /// The part of `values` that belongs to member `i`: `[rows, actions]`.
    fn of_member<'t>(&self, values: Value<'t>, i: usize) -> Value<'t> {
        values.narrow(i * self.actions, self.actions)
    }

    /// The team's value, computed from one value `[rows, 1]` per member; without a mixer, the members' values as they are.
    fn mixed<'t>(&self, net: Net<'t>, x: Input<'t>, q: Vec<Value<'t>>) -> Vec<Value<'t>> {
        match (self.config.mixer, &self.mixer) {
            (None, _) => q,
            (Some(_), Some(mixer)) => vec![mixer.on(net, x.obs(), &q)],
            (Some(_), None) => vec![q.into_iter().sum()],
        }
    }

    /// The errors `Q_tot(s, a) - target`, and the values `Q_tot(s, a)`: one of each, or one per member without a mixer.
    fn td_errors<'t>(&self, rows: &Rows<'t>) -> Result<(Vec<Value<'t>>, Vec<Value<'t>>)> {
        let [rewards, actions] = rows.columns([Column::REWARDS, Column::ACTIONS])?;
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discounts = rows.discounts()?;
        let next = self.values(rows.target(), s2);
        let chooses = if self.config.double_q { self.values(rows.frozen(), s2) } else { next };
        let legal = s2.masked(chooses);
        let best = |i: usize| self.of_member(next, i).gather(self.of_member(legal, i).argmax());
        let next = self.mixed(rows.target(), s2, (0..self.members).map(best).collect());
        let values = self.values(rows.online(), s);
        let taken = |i: usize| self.of_member(values, i).gather(actions.narrow(i, 1));
        let q = self.mixed(rows.online(), s, (0..self.members).map(taken).collect());
        let errors = q.iter().zip(next).map(|(&q, next)| q - (rewards + discounts * next));
        Ok((errors.collect(), q))
    }
}

impl NetPolicy for QmixPolicy {
    /// The settings, the number of members of a group, and the number of actions of each member.
    type Config = (Qmix, usize, usize);

    fn build((config, members, actions): &Self::Config, net: &mut NetBuilder<'_>) -> Result<Self> {
        net.refuse_custom_model()?;
        net.target();
        let spec = net.spec();
        let members = *members;
        let actions = *actions;
        let rule = Rule {
            optimizer: OptimizerConfig::Rmsprop {
                alpha: config.optim_alpha,
                eps: config.optim_eps,
                momentum: 0.0,
                centered: false,
            },
            lr: Schedule::of(config.lr, config.lr_schedule.as_ref()),
            grad_clip: config.grad_clip,
        };
        let (_, (agent, mixer)) = net.group("all", rule, |net| {
            let mut agent = Vec::new();
            let mut width = net.obs_width() / members;
            let hidden = config.common.model.hidden_layers().into_iter();
            let init = config.common.model.fcnet_initializer.hidden();
            let output = (actions, Activation::Linear, Init::Uniform);
            let layers = hidden.map(|(units, activation)| (units, activation, init)).chain([output]);
            for (i, (units, activation, init)) in layers.enumerate() {
                agent.push(net.dense(&format!("agent.{i}"), width, units, activation, init));
                width = units;
            }
            let has_network = config.mixer == Some(Mixing::Qmix);
            Ok((agent, has_network.then(|| Mixer::new(net, members, config.mixing_embed_dim))))
        })?;
        let worker = (spec.worker_index, spec.num_workers);
        Ok(Self { config: config.clone(), members, actions, agent, mixer, worker })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.values(net, x)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.by_values(inputs, &self.config.common.exploration_config)
    }

    fn postprocess(&self, _: &mut Learner, fragment: &Fragment<'_>) -> Result<SampleBatch> {
        self.config.off_policy.rows(fragment, self.config.common.gamma)
    }

    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let (errors, q) = self.td_errors(rows)?;
        let count = errors.len() as f64;
        let weights = rows.weights()?;
        let mean_q = q.into_iter().sum::<Value<'t>>() / count;
        let squares = errors.iter().map(|error| error.square()).sum::<Value<'t>>() / count;
        let loss = (squares * weights).mean();
        let error = errors.into_iter().sum::<Value<'t>>() / count;
        Ok(Loss::new(loss)
            .mean("loss", loss)
            .mean("mean_q", mean_q)
            .min("min_q", mean_q)
            .max("max_q", mean_q)
            .td_errors(error))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let (index, workers) = self.worker;
        let epsilon = self.config.common.exploration_config.epsilon(timestep, index, workers);
        BTreeMap::from([("cur_epsilon".to_owned(), epsilon)])
    }
}
