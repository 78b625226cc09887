//! Tic-tac-toe by self-play: one policy plays both sides and learns from both. After 1,000,000 moves it plays 1,000 games against
//! random moves and 1,000 against a perfect player, with its best moves and from both seats. If it loses one, the program ends with
//! an error.
//!
//! Entropy is what makes it work: a policy that is too sure too early sees few positions, and fails where an opponent leads it
//! out of them. Opponents from the past are another way: see `League`.
//!
//! `cargo run --release --example self_play [SEED]`

use std::collections::HashMap;

use pavlov::envs::{BoardGame, MultiAgentEnv, MultiAgentRows};
use pavlov::prelude::*;
use pavlov::trainer::Session;
use pavlov::trainer::prelude::{Activation, Piecewise};
use pavlov::trainer::rng::Stream;

fn settings(seed: u64) -> Ppo {
    let mut ppo = Ppo { lambda: 0.95, kl_coeff: 0.0, clip_param: 0.2, ..Ppo::get_default_config() };
    (ppo.sgd_minibatch_size, ppo.num_sgd_iter, ppo.entropy_coeff) = (512, 6, 0.15);
    (ppo.lr, ppo.lr_schedule) = (1e-3, Some(Piecewise(vec![(0, 1e-3), (1_000_000, 1e-4)])));
    let common = &mut ppo.common;
    (common.num_workers, common.num_envs_per_worker, common.seed) = (0, 32, Some(seed));
    (common.rollout_fragment_length, common.train_batch_size, common.gamma) = (128, 4096, 1.0);
    (common.mask_actions, common.model.fcnet_hiddens) = (true, vec![128, 128]);
    common.model.fcnet_activation = Activation::Relu;
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

/// Games that the policy wins and loses against `other`, which gets the squares that it sees and its legal moves.
fn games(
    policy: &mut Session,
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
            policy.mask_mut().ok_or("policies obey masks")?.copy_from_slice(&legal);
            let action = match turn == seat {
                true => policy.act(rows.obs(turn))?.discrete().ok_or("a square")?,
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
    let seed = std::env::args().nth(1).map_or(Ok(0), |seed| seed.parse())?;
    let mut trainer = settings(seed).builder("tictactoe_v3").loggers(LoggerChoice::None).build()?;
    for round in 1..=10 {
        let mut result = trainer.train()?;
        while result["timesteps_total"].as_u64().is_some_and(|steps| steps < round * 100_000) {
            result = trainer.train()?;
        }
        println!("{} moves, {} a game", result["timesteps_total"], result["episode_len_mean"]);
    }
    let mut policy = trainer.session(1)?;
    let (mut rng, mut known) = (Stream::new(0, "opponents", 0), HashMap::new());
    let mut any = |moves: &[i64]| moves[rng.below(moves.len() as u64) as usize];
    let random = games(&mut policy, |_, moves| any(moves))?;
    let perfect = games(&mut policy, |seen, moves| {
        let bits =
            |of: usize| (0..9).fold(0, |bits, square| bits | u16::from(seen[2 * square + of]) << square);
        let mut value = |square: &i64| -worth(bits(1), bits(0) | 1 << square, &mut known);
        let most = moves.iter().map(&mut value).max().unwrap_or(0);
        any(&moves.iter().copied().filter(|square| value(square) == most).collect::<Vec<_>>())
    })?;
    println!("[won, lost] of 1,000 games: {random:?} against random moves, {perfect:?} against perfect ones");
    if random[1] + perfect[1] > 0 { Err("it lost a game".into()) } else { Ok(()) }
}
