//! An off-policy algorithm of your own, whole: Munchausen DQN (Vieillard et al. 2020) as settings, a plan and a policy.
//!
//! Its policy is a softmax of the values, and the logarithm of what the policy did is added to the reward. Replay,
//! priorities, workers, checkpoints, evaluation, export and the command's `--set` come with the traits; `docs/off-policy.md`
//! walks through this file. Run it with `cargo run --example custom_off_policy`.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::trainer::plan::{
    owed, replay, round_robin, store_to_replay, train_on_replay, update_priorities, update_target,
};
use pavlov::trainer::prelude::*;
use pavlov::trainer::replay::OffPolicy;
use pavlov::trainer::settings::rules;
use serde::{Deserialize, Serialize};

/// Settings. What all algorithms share, and what all with a replay buffer share, stand beside the algorithm's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Munchausen {
    #[serde(flatten)]
    common: Common,
    #[serde(flatten)]
    off_policy: OffPolicy,
    lr: f64,
    hiddens: HiddenLayers,
    /// Higher makes the policy more random.
    temperature: f64,
    /// How much of the logarithm counts as reward.
    munchausen_alpha: f64,
}

impl Trainer for Munchausen {
    const NAME: &'static str = "MunchausenDQN";

    fn get_default_config() -> Self {
        let mut common = Common { num_workers: 0, num_envs_per_worker: 4, ..Common::default() };
        common.rollout_fragment_length = 4;
        common.train_batch_size = 64;
        common.min_sample_timesteps_per_reporting = Some(1600);
        let mut off_policy = OffPolicy { target_network_update_freq: 400, ..OffPolicy::default() };
        // Rows learned per step of the environments: a batch of 64 after every 4 steps.
        off_policy.training_intensity = Some(16.0);
        let hiddens = HiddenLayers { fcnet_hiddens: vec![64, 64], ..HiddenLayers::default() };
        Self { common, off_policy, lr: 1e-3, hiddens, temperature: 0.03, munchausen_alpha: 0.9 }
    }

    /// Rules between settings. An error names the setting, its value and the rule.
    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        rules::all([
            self.off_policy.validate(&self.common, spaces),
            self.hiddens.validate("hiddens"),
            rules::above_zero([("lr", self.lr), ("temperature", self.temperature)]),
            rules::share([("munchausen_alpha", self.munchausen_alpha)]),
            rules::refuse_if(
                self.off_policy.n_step != 1,
                "n_step",
                self.off_policy.n_step,
                "the logarithm is added to one reward; leave it at 1",
            ),
        ])
    }

    /// What a run would need in memory is said before it starts.
    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        memory.add_off_policy(&self.off_policy, spaces);
    }

    fn get_default_policy_class(&self, _: &Spaces) -> Result<PolicyClass> {
        Ok(PolicyClass::net::<MunchausenPolicy>("MunchausenPolicy", self))
    }

    /// Two sequences in turn: fragments go into the buffer, and batches that are drawn from it are learned.
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

/// A value of every choice.
#[derive(Debug)]
struct MunchausenPolicy {
    config: Munchausen,
    dist: ActionDist,
    q: Mlp,
}

impl NetPolicy for MunchausenPolicy {
    type Config = Munchausen;

    fn build(config: &Munchausen, net: &mut NetBuilder<'_>) -> Result<Self> {
        let space = &net.spec().spaces.action_space;
        let Space::Discrete { .. } = space else {
            let who = Munchausen::NAME.into();
            let needs = "a Discrete action space".into();
            return Err(Error::Space { who, needs, space: space.to_string() });
        };
        let dist = ActionDist::for_space(space)?;
        let inputs = net.obs_width();
        net.target();
        let (_, q) = net.group("q", Rule::adam(config.lr, 1e-8), |net| {
            Ok(Mlp::new(net, "q", inputs, &config.hiddens, dist.num_inputs()))
        })?;
        Ok(Self { config: config.clone(), dist, q })
    }

    /// What acting looks at: the logits of the softmax.
    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        x.masked(self.q.on(net, x.obs()) / self.config.temperature)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.sample(&self.dist, inputs)
    }

    /// A fragment as rows of observation, action, reward and next observation.
    fn postprocess(&self, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        self.config.off_policy.rows(f, self.config.common.gamma)
    }

    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let Munchausen { temperature, munchausen_alpha, .. } = self.config;
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discount = rows.discounts()?;
        let [a, r] = rows.columns([Column::ACTIONS, Column::REWARDS])?;

        // y = r + alpha [tau ln pi'(a|s)] + gamma sum pi'(a'|s') (Q'(s', a') - tau ln pi'(a'|s')), all of the target copy
        let did = self.action_inputs(rows.target(), s).log_softmax().gather(a) * temperature;
        let next = self.action_inputs(rows.target(), s2);
        let logp = next.log_softmax();
        let value = (logp.exp() * (next - logp)).sum_columns() * temperature;
        let y = r + did.clamp(-1.0, 0.0) * munchausen_alpha + discount * value;

        let q = self.q.on(rows.online(), s.obs()).gather(a);
        let error = q - y;
        let loss = (error.huber() * rows.weights()?).mean();
        Ok(Loss::sum([("loss", loss)]).mean("mean_q", q).td_errors(error))
    }
}

fn main() -> Result<()> {
    let mut settings = Munchausen::get_default_config();
    settings.common.seed = Some(0);
    let mut trainer = settings.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    for _ in 0..20 {
        let result = trainer.train()?;
        println!("{}: {}", result["timesteps_total"], result["episode_reward_mean"]);
    }
    let played = trainer.play(10, 1, false, 0)?;
    let total: f64 = played.episodes.iter().map(|episode| episode.total_reward).sum();
    println!("greedy: {}", total / played.episodes.len() as f64);
    Ok(())
}
