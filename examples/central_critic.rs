//! A central critic (MAPPO, Yu et al. 2022): in simple spread three agents share a policy. While it learns, the critic sees
//! what all agents see; the actor sees what its own agent sees, in training as later. After training an episode must bring at
//! least 30 % more than the untrained policy brought, or the program ends with an error.
//!
//! The same by the command: `pavlov train PPO --env simple_spread_v3 --preset ppo-simple-spread --set
//! multiagent.observation_fn=global_state`. For a value of the whole team there are QMIX and VDN:
//! `pavlov train QMIX --env simple_spread_v3`.
//!
//! `cargo run --release --example central_critic`

use pavlov::prelude::*;
use pavlov::trainer::models::Initializer;
use pavlov::trainer::settings::ObservationFn;

/// Episodes of an evaluation.
const EPISODES: u64 = 500;
/// Numbers that an agent sees, and those that all three see.
const OWN: usize = 18;
const ALL: usize = 3 * OWN;

fn settings() -> Ppo {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, clip_param: 0.2, kl_coeff: 0.0, ..Ppo::get_default_config() };
    ppo.sgd_minibatch_size = 256;
    ppo.num_sgd_iter = 10;
    let common = &mut ppo.common;
    common.multiagent.observation_fn = Some(ObservationFn::GlobalState);
    common.num_workers = 0;
    common.num_envs_per_worker = 16;
    common.seed = Some(0);
    // A copy plays two whole episodes per batch.
    common.rollout_fragment_length = 50;
    common.train_batch_size = 800;
    common.gamma = 0.95;
    common.model.fcnet_hiddens = vec![64, 64];
    common.model.fcnet_initializer = Initializer::Orthogonal;
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
            let explained = &result["info"]["learner"]["default_policy"]["learner_stats"]["vf_explained_var"];
            println!(
                "{:>7} steps: {:.1} an episode; the critic explains {:.2} of the variance of returns",
                result["timesteps_total"],
                result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN),
                explained.as_f64().unwrap_or(f64::NAN)
            );
        }
    }

    // An observation is `Dict(obs, state)`, and actors do not read the state: zeros do.
    let mut seen = vec![0.25_f32; OWN];
    seen.resize(OWN + ALL, 0.0);
    println!("an agent alone does {:?}", trainer.compute_single_action(&seen, false)?);

    let after = mean_return(&mut trainer, false)?;
    let mark = before + 0.3 * before.abs();
    println!("trained: {after:.1}; the mark is {mark:.1}");
    if after < mark { Err(format!("{after:.1} is below the mark {mark:.1}").into()) } else { Ok(()) }
}
