//! Tic-tac-toe against a league. The policy `main` learns; `opponent` plays with its weights of now, or with those of one of
//! its frozen snapshots, the more often the less `main` wins against it. Elo ratings say how the players compare with each
//! other, and evaluations against `beginner`, which never learns and plays in evaluations alone, how good `main` is. At the
//! end it must win 70 % more games against `beginner` than it loses, or the program ends with an error.
//!
//! `cargo run --release --example league [SEED]`

use pavlov::prelude::*;
use pavlov::trainer::prelude::Piecewise;
use pavlov::trainer::settings::{EvaluationDuration, PolicyMapping};
use pavlov::{League, LeagueConfig};

const ITERATIONS: u64 = 200;
/// Moves of an iteration.
const MOVES: usize = 4096;

fn settings(seed: u64) -> Ppo {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, kl_coeff: 0.0, clip_param: 0.2, ..Ppo::get_default_config() };
    ppo.sgd_minibatch_size = 512;
    ppo.num_sgd_iter = 6;
    ppo.entropy_coeff = 0.15;
    ppo.lr_schedule = Some(Piecewise(vec![(0, 1e-3), (ITERATIONS * MOVES as u64, 1e-4)]));
    let common = &mut ppo.common;
    common.num_workers = 0;
    common.num_envs_per_worker = 32;
    common.seed = Some(seed);
    common.rollout_fragment_length = 128;
    common.train_batch_size = MOVES;
    common.gamma = 1.0;
    common.mask_actions = true;
    common.model.fcnet_hiddens = vec![128, 128];
    let multi = &mut common.multiagent;
    multi.policies = ["main", "opponent", "beginner"].map(|id| (id.to_owned(), Config::new())).into();
    multi.policies_to_train = Some(vec!["main".into()]);
    multi.policy_mapping_fn = [("player_1", "main"), ("player_2", "opponent")].into();
    // Both begin every second game.
    multi.rotate_policies = true;
    let against_beginner = PolicyMapping::from([("player_1", "main"), ("player_2", "beginner")]);
    common.evaluation_config.policy_mapping_fn = Some(against_beginner);
    // The best moves of a policy are always the same ones, and so would be the games.
    common.evaluation_config.explore = true;
    common.evaluation_interval = Some(25);
    common.evaluation_duration = EvaluationDuration::Units(500);
    ppo
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(0), |seed| seed.parse())?;
    let league = || League::new(LeagueConfig { snapshot_interval: 20, ..LeagueConfig::default() });
    let builder = settings(seed).builder("tictactoe_v3").loggers(LoggerChoice::None).callbacks(league);
    let mut trainer = builder.build()?;
    let mut balance = 0.0;
    for iteration in 1..=ITERATIONS {
        let result = trainer.train()?;
        if iteration % 25 == 0 {
            let league = &result["league"];
            let won = &result["evaluation"]["policy_reward_mean"]["main"];
            balance = won.as_f64().ok_or("an evaluation against `beginner`")?;
            let rates = league["members"].as_array().into_iter().flatten().map(|member| &member["win_rate"]);
            let rates: Vec<String> =
                rates.map(|rate| format!("{:.2}", rate.as_f64().unwrap_or(f64::NAN))).collect();
            println!(
                "{} moves: Elo {:.0}; wins against its snapshots: {}; against `beginner` {balance:+.2} a game",
                result["timesteps_total"],
                league["elo"].as_f64().unwrap_or(f64::NAN),
                rates.join(" "),
            );
        }
    }
    if balance < 0.7 { Err(format!("{balance:+.2} a game is below +0.70").into()) } else { Ok(()) }
}
