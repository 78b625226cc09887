//! Self-play: one policy plays both sides of a board game and learns from both, and then plays 1,000 games against random moves
//! and 1,000 against a better player, with its best moves and from both seats.
//!
//! - `tictactoe_v3`, 1,000,000 moves: against a perfect player. If it loses one game, the program ends with an error.
//! - `connect_four_v3`, 3,000,000 moves: against one that wins at once where it can; it must win 99 % and 90 %.
//!
//! Entropy is what makes it work: a policy that is too sure too early sees few positions, and fails where an opponent leads it
//! out of them. Opponents from the past are another way: see the example `league`.
//!
//! `cargo run --release --example self_play [GAME] [SEED]`

use std::collections::HashMap;

use pavlov::envs::{MultiAgentEnv, MultiAgentRows, native::BoardGame};
use pavlov::prelude::*;
use pavlov::trainer::prelude::{Activation, Piecewise};
use pavlov::trainer::{Session, rng::Stream};

fn settings(is_small: bool, moves: u64, seed: u64) -> Ppo {
    let mut ppo = Ppo { lambda: 0.95, kl_coeff: 0.0, clip_param: 0.2, ..Ppo::get_default_config() };
    let (copies, units) = if is_small { (32, 128) } else { (64, 256) };
    ppo.sgd_minibatch_size = 16 * copies;
    ppo.num_sgd_iter = 6;
    ppo.entropy_coeff = if is_small { 0.15 } else { 0.2 };
    ppo.lr = 1e-3;
    ppo.lr_schedule = Some(Piecewise(vec![(0, 1e-3), (moves, 1e-4)]));
    let common = &mut ppo.common;
    common.num_workers = 0;
    common.num_envs_per_worker = copies;
    common.seed = Some(seed);
    common.rollout_fragment_length = 128;
    common.train_batch_size = 128 * copies;
    common.gamma = 1.0;
    common.mask_actions = true;
    common.model.fcnet_hiddens = vec![units; 2];
    common.model.fcnet_activation = Activation::Relu;
    ppo
}

/// Whether a move wins the game.
fn wins(game: &BoardGame, action: i64) -> bool {
    let (mut game, mut rows) = (game.clone(), MultiAgentRows::new(game));
    game.step(&[action; 2], rows.out()).is_ok() && rows.rewards.contains(&1.0)
}

/// What a position is worth to the player to move: 1 if it can win, -1 if it must lose. Squares are bits.
fn worth(mine: u16, others: u16, known: &mut HashMap<(u16, u16), i8>) -> i8 {
    const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
    if let Some(worth) = known.get(&(mine, others)) {
        return *worth;
    }
    let moves = (0..9).filter(|square| (mine | others) >> square & 1 == 0);
    let best = if LINES.iter().any(|line| others & line == *line) {
        -1
    } else {
        moves.map(|square| -worth(others, mine | 1 << square, known)).max().unwrap_or(0)
    };
    *known.entry((mine, others)).or_insert(best)
}

/// Games that the policy wins and loses against `other`, which gets the game, the squares that it sees and its legal moves.
fn games(
    env: &mut BoardGame,
    policy: &mut Session,
    mut other: impl FnMut(&BoardGame, &[u8], &[i64]) -> i64,
) -> std::result::Result<[u32; 2], Box<dyn std::error::Error>> {
    let mut ends = [0, 0];
    let mut rows = MultiAgentRows::new(env);
    for game in 0..1000 {
        let seat = game % 2;
        env.reset(None, rows.out())?;
        while !rows.is_over() {
            let turn = usize::from(rows.acting[1]);
            let legal = policy.mask_mut().ok_or("policies obey masks")?;
            env.action_mask(turn, legal);
            let squares = legal.len();
            let moves: Vec<i64> = (0..).zip(&*legal).filter(|(_, legal)| **legal).map(|(i, _)| i).collect();
            let action = if turn == seat {
                policy.act(rows.obs(turn))?.discrete().ok_or("a square")?
            } else {
                other(env, &rows.obs(turn)[squares..], &moves)
            };
            env.step(&[action; 2], rows.out())?;
        }
        ends[0] += u32::from(rows.rewards[seat] > 0.0);
        ends[1] += u32::from(rows.rewards[seat] < 0.0);
    }
    Ok(ends)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().unwrap_or("tictactoe_v3".into());
    let seed = arguments.next().map_or(Ok(0), |seed| seed.parse())?;
    let (mut game, moves) = match id.as_str() {
        "tictactoe_v3" => (BoardGame::tictactoe(), 1_000_000),
        "connect_four_v3" => (BoardGame::connect_four(), 3_000_000),
        _ => {
            return Err(format!("`{id}` is not a game of this program: tictactoe_v3, connect_four_v3").into());
        }
    };
    let is_small = id == "tictactoe_v3";
    let mut trainer =
        settings(is_small, moves, seed).builder(id.as_str()).loggers(LoggerChoice::None).build()?;
    for round in 1..=10 {
        let mut result = trainer.train()?;
        while result["timesteps_total"].as_u64().is_some_and(|steps| steps < round * moves / 10) {
            result = trainer.train()?;
        }
        println!("{} moves, {} a game", result["timesteps_total"], result["episode_len_mean"]);
    }
    let mut policy = trainer.session(1)?;
    let mut rng = Stream::new(0, "opponents", 0);
    let mut known = HashMap::new();
    let mut any = |moves: &[i64]| moves[rng.below(moves.len() as u64) as usize];
    let random = games(&mut game, &mut policy, |_, _, moves| any(moves))?;
    let better = games(&mut game, &mut policy, |game, seen, moves| {
        if !is_small {
            return moves.iter().copied().find(|&action| wins(game, action)).unwrap_or_else(|| any(moves));
        }
        let bits =
            |of: usize| (0..9).fold(0, |bits, square| bits | u16::from(seen[2 * square + of]) << square);
        let mut value = |square: &i64| -worth(bits(1), bits(0) | 1 << square, &mut known);
        let most = moves.iter().map(&mut value).max().unwrap_or(0);
        any(&moves.iter().copied().filter(|square| value(square) == most).collect::<Vec<_>>())
    })?;
    println!("[won, lost] of 1,000 games: {random:?} against random moves, {better:?} against better ones");
    let missed = if is_small { random[1] + better[1] > 0 } else { random[0] < 990 || better[0] < 900 };
    if missed { Err("it missed its mark".into()) } else { Ok(()) }
}
