//! Tic-tac-toe by self-play in a league: `main` learns against `opponent`, which plays with the weights of earlier versions of
//! `main`, drawn the more often the less `main` beats them ([`League`]). In the end `main` plays 1,000 games against random
//! moves and 1,000 against a perfect player, greedily and from both seats. If it loses one, the program ends with an error.
//!
//! `cargo run --release --example self_play`

use std::collections::HashMap;

use pavlov::envs::{BoardGame, MultiAgentEnv, MultiAgentRows};
use pavlov::prelude::*;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::{League, LeagueConfig, Session};

fn settings() -> Ppo {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, kl_coeff: 0.0, ..Ppo::get_default_config() };
    (ppo.sgd_minibatch_size, ppo.num_sgd_iter, ppo.entropy_coeff) = (512, 6, 0.01);
    let common = &mut ppo.common;
    (common.num_workers, common.num_envs_per_worker, common.seed) = (0, 64, Some(0));
    (common.rollout_fragment_length, common.train_batch_size) = (32, 2048);
    (common.mask_actions, common.model.fcnet_hiddens) = (true, vec![128, 128]);
    let multi = &mut common.multiagent;
    multi.policies = ["main", "opponent"].map(|id| (id.to_owned(), Config::new())).into();
    let players = [("player_1", "main"), ("player_2", "opponent")];
    multi.policy_mapping_fn = players.map(|(agent, id)| (agent.to_owned(), id.to_owned())).into();
    // In every other episode `main` is the second player.
    (multi.rotate_policies, multi.policies_to_train) = (true, Some(vec!["main".into()]));
    ppo
}

/// What a position is worth to the player to move: 1 if it can win, -1 if it must lose. Squares are bits.
fn worth(mine: u16, others: u16, known: &mut HashMap<(u16, u16), i8>) -> i8 {
    const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
    if let Some(worth) = known.get(&(mine, others)) {
        return *worth;
    }
    let moves = (0..9).filter(|square| (mine | others) >> square & 1 == 0);
    let best = match LINES.iter().any(|line| others & line == *line) {
        true => -1,
        false => moves.map(|square| -worth(others, mine | 1 << square, known)).max().unwrap_or(0),
    };
    *known.entry((mine, others)).or_insert(best)
}

/// Games that `main` wins and loses against the moves that `other` draws, in the positions that it sees, from legal ones.
fn games(
    main: &mut Session,
    mut other: impl FnMut(&[u8], &[i64]) -> i64,
) -> std::result::Result<[u32; 2], Box<dyn std::error::Error>> {
    let (mut env, mut ends) = (BoardGame::tictactoe(), [0, 0]);
    let mut rows = MultiAgentRows::new(&env);
    for game in 0..1000 {
        let seat = game % 2;
        env.reset(None, rows.out())?;
        while !rows.is_over() {
            let (mut legal, turn) = ([false; 9], usize::from(rows.acting[1]));
            env.action_mask(turn, &mut legal);
            let moves: Vec<i64> = (0..9).filter(|&square| legal[square as usize]).collect();
            main.mask_mut().ok_or("policies obey masks")?.copy_from_slice(&legal);
            let action = match turn == seat {
                true => main.act(rows.obs(turn))?.discrete().ok_or("a square")?,
                false => other(&rows.obs(turn)[9..], &moves),
            };
            env.step(&[action; 2], rows.out())?;
        }
        ends[0] += u32::from(rows.rewards[seat] > 0.0);
        ends[1] += u32::from(rows.rewards[seat] < 0.0);
    }
    Ok(ends)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let builder = settings().builder("tictactoe_v3").callbacks(|| League::new(LeagueConfig::default()));
    let mut trainer = builder.loggers(LoggerChoice::None).build()?;
    for iteration in 1..=500 {
        let result = trainer.train()?;
        if iteration % 50 == 0 {
            let members = result["league"]["members"].as_array().map_or(0, Vec::len);
            println!(
                "{} steps: Elo {:.0} among {members}",
                result["timesteps_total"], result["league"]["elo"]
            );
        }
    }
    let mut main = trainer.session_of("main", 1)?;
    let (mut rng, mut known) = (Stream::new(0, "opponents", 0), HashMap::new());
    let mut any = |moves: &[i64]| moves[rng.below(moves.len() as u64) as usize];
    let random = games(&mut main, |_, moves| any(moves))?;
    let perfect = games(&mut main, |seen, moves| {
        let bits =
            |of: usize| (0..9).fold(0, |bits, square| bits | u16::from(seen[2 * square + of]) << square);
        let mut value = |square: &i64| -worth(bits(1), bits(0) | 1 << square, &mut known);
        let most = moves.iter().map(&mut value).max().unwrap_or(0);
        any(&moves.iter().copied().filter(|square| value(square) == most).collect::<Vec<_>>())
    })?;
    println!("[won, lost] of 1,000 games: {random:?} against random moves, {perfect:?} against perfect ones");
    if random[1] + perfect[1] > 0 { Err("it lost a game".into()) } else { Ok(()) }
}
