//! Three agents and two policies: in simple spread `agent_0` learns by the policy `first`, which has a learning rate of its
//! own, and the other two agents share the policy `others`. After training an episode must bring at least 15 % more than the
//! untrained policies brought, or the program ends with an error.
//!
//! The same as a settings file, for `pavlov train PPO --env simple_spread_v3 --config FILE`:
//!
//! ```toml
//! [multiagent.policies]
//! first = { lr = 7e-4 }
//! others = {}
//!
//! [multiagent.policy_mapping_fn]
//! agent_0 = "first"
//! "agent_*" = "others"
//! ```
//!
//! `cargo run --example multi_agent`

use pavlov::prelude::*;
use pavlov::trainer::models::Initializer;

/// Episodes of an evaluation.
const EPISODES: u64 = 500;
/// Numbers that each agent sees.
const OBSERVED: usize = 18;

fn settings() -> Ppo {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, clip_param: 0.2, kl_coeff: 0.0, ..Ppo::get_default_config() };
    ppo.sgd_minibatch_size = 256;
    ppo.num_sgd_iter = 10;
    let common = &mut ppo.common;
    common.num_workers = 0;
    common.num_envs_per_worker = 16;
    common.seed = Some(0);
    // A copy plays two whole episodes per batch.
    common.rollout_fragment_length = 50;
    common.train_batch_size = 800;
    common.gamma = 0.95;
    common.model.fcnet_hiddens = vec![64, 64];
    common.model.fcnet_initializer = Initializer::Orthogonal;

    let own = Config::from_iter([("lr".to_owned(), 7e-4.into())]);
    common.multiagent.policies = [("first".to_owned(), own), ("others".to_owned(), Config::new())].into();
    common.multiagent.policy_mapping_fn = [("agent_0", "first"), ("agent_*", "others")].into();
    ppo
}

/// The mean return of an episode, of all agents together.
fn mean_return(trainer: &mut Driver<Algorithm<Ppo>>, explore: bool) -> Result<f64> {
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
            let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
            let of = &result["policy_reward_mean"];
            println!(
                "{:>7} steps: {:.1} an episode; {:.1} to an agent of `first`, {:.1} to one of `others`",
                result["timesteps_total"],
                number(&result["episode_reward_mean"]),
                number(&of["first"]),
                number(&of["others"])
            );
        }
    }

    // Each policy acts and has weights by itself.
    let actions = trainer.compute_actions_of("others", &[0.0_f32; 2 * OBSERVED], false)?;
    let weights = trainer.get_weights_of(&["first"])?;
    println!("two agents of `others` do {actions:?}; `first` has {} arrays", weights.array_names().count());

    let after = mean_return(&mut trainer, false)?;
    let mark = before + 0.15 * before.abs();
    println!("trained: {after:.1}; the mark is {mark:.1}");
    if after < mark { Err(format!("{after:.1} is below the mark {mark:.1}").into()) } else { Ok(()) }
}
