//! Two algorithms in one run, as Ray's example with two trainers: in simple spread `agent_0` learns by DQN from a replay buffer,
//! and the other two agents share a policy of PPO. The plan of `PpoAndDqn` joins those of both. The trained policies must get at
//! least 15 % more per episode than the untrained ones, or the program ends with an error.
//!
//! `cargo run --release --example ppo_and_dqn`

use pavlov::prelude::*;
use pavlov::trainer::agents::{Agent, Policies};
use pavlov::trainer::plan::{
    Plan, PlanExt, after_training, keep_in_replay, owed, replay, round_robin, standardize, sync_weights,
    train_epochs, train_on_replay, update_priorities, update_target,
};
use pavlov::trainer::policy::{PolicyClass, Spaces};
use pavlov::trainer::{WorkerSet, batch::Column};
use serde::{Deserialize, Serialize};

/// Episodes of an evaluation.
const EPISODES: u64 = 500;

/// PPO's settings are the run's; DQN has its own for what only it reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PpoAndDqn {
    #[serde(flatten)]
    ppo: Ppo,
    dqn: Dqn,
}

impl Trainer for PpoAndDqn {
    const NAME: &'static str = "PPO and DQN";

    fn get_default_config() -> Self {
        Self { ppo: Ppo::get_default_config(), dqn: Dqn::get_default_config() }
    }
    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.ppo.validate_config(spaces)?;
        self.dqn.validate_config(spaces)
    }
    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.ppo.get_default_policy_class(spaces)
    }
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        let spaces = &agents[0].spaces;
        let ppo = self.ppo.get_default_policy_class(spaces)?;
        let dqn = self.dqn.get_default_policy_class(spaces)?;
        let by = |agent: &str| if agent == "agent_0" { "dqn" } else { "ppo" };
        Ok(Policies::new([("ppo", ppo), ("dqn", dqn)], by))
    }
    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let ppo = &self.ppo;
        let off = &self.dqn.off_policy;
        let rows = self.dqn.common.train_batch_size;
        let buffer =
            workers.replay_buffer_of("dqn", &off.replay_buffer_config, off.store_buffer_in_checkpoints);
        // DQN's rows go to its buffer, and only PPO's go on.
        let on_policy = workers
            .rollouts()
            .then(keep_in_replay(&buffer))
            .select(&["ppo"])
            .concat_batches(ppo.common.train_batch_size)
            .then(standardize(Column::ADVANTAGES))
            .then(train_epochs(workers, ppo.num_sgd_iter, ppo.sgd_minibatch_size))
            .then(after_training(workers));
        let off_policy = replay(&buffer, rows)
            .then(train_on_replay(workers))
            .then(update_priorities(&buffer))
            .then(update_target(workers, off.target_network_update_freq));
        let due = owed(workers, &buffer, off.training_intensity, rows);
        Box::new(round_robin(on_policy, off_policy, due).then(sync_weights(workers)))
    }
    fn common(&self) -> &Common {
        &self.ppo.common
    }
    fn common_mut(&mut self) -> &mut Common {
        &mut self.ppo.common
    }
}

fn settings() -> PpoAndDqn {
    let PpoAndDqn { mut ppo, mut dqn } = PpoAndDqn::get_default_config();
    ppo.lr = 1e-3;
    ppo.lambda = 0.95;
    ppo.clip_param = 0.2;
    ppo.kl_coeff = 0.0;
    ppo.sgd_minibatch_size = 256;
    ppo.num_sgd_iter = 10;
    dqn.lr = 5e-4;
    dqn.common.train_batch_size = 128;
    dqn.off_policy.training_intensity = Some(4.0);
    dqn.off_policy.target_network_update_freq = 2000;
    ppo.common.num_workers = 0;
    ppo.common.num_envs_per_worker = 16;
    ppo.common.seed = Some(0);
    ppo.common.rollout_fragment_length = 50;
    ppo.common.train_batch_size = 800;
    for common in [&mut ppo.common, &mut dqn.common] {
        common.gamma = 0.95;
        common.model.fcnet_hiddens = vec![64, 64];
    }
    PpoAndDqn { ppo, dqn }
}

/// The mean return of an episode, of all agents together.
fn mean_return(trainer: &mut Driver<Algorithm<PpoAndDqn>>, explore: bool) -> Result<f64> {
    let episodes = trainer.play(EPISODES, 1000, explore, 0)?.episodes;
    Ok(episodes.iter().map(|episode| episode.total_reward).sum::<f64>() / EPISODES as f64)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut trainer = settings().builder("simple_spread_v3").loggers(LoggerChoice::None).build()?;
    let before = mean_return(&mut trainer, true)?;
    println!("untrained, exploring: {before:.1}");
    for iteration in 1..=200 {
        let result = trainer.train()?;
        if iteration % 25 == 0 {
            let of = |id: &str| result["policy_reward_mean"][id].as_f64().unwrap_or(f64::NAN);
            let steps = &result["timesteps_total"];
            let dqn = of("dqn");
            let ppo = of("ppo");
            println!("{steps:>7} steps: {dqn:.1} to the agent of DQN, {ppo:.1} to one of PPO");
        }
    }
    let after = mean_return(&mut trainer, false)?;
    let mark = before + 0.15 * before.abs();
    println!("trained: {after:.1}; the mark is {mark:.1}");
    if after < mark { Err(format!("{after:.1} is below the mark {mark:.1}").into()) } else { Ok(()) }
}
