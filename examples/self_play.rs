//! Tic-tac-toe by self-play: the policy `main` learns against `opponent`, which acts by a frozen snapshot of an earlier `main`.
//! Snapshots are taken while it trains, and all of them come back as opponents. In the end `main` has to beat the first
//! snapshot, which knew nothing: at least 75 % of the games, and at most 15 % lost, or the program ends with an error.
//!
//! `cargo run --example self_play`

use pavlov::envs::{self, BoardGame, EnvCreator, MultiAgentEnv, MultiAgentOut, Space};
use pavlov::prelude::*;
use pavlov::trainer::state::Weights;

const GAMES: u64 = 1000;
/// Iterations between two snapshots.
const EVERY: usize = 10;

/// The game with agents whose seats the episode's seed deals: the learner begins every other game.
struct EitherSeat {
    game: BoardGame,
    swapped: bool,
}

impl EitherSeat {
    /// Rows of the two players, from the seats of the game to those of the agents.
    fn deal(&self, out: MultiAgentOut<'_, u8>) {
        if self.swapped {
            let (first, second) = out.obs.split_at_mut(out.obs.len() / 2);
            first.swap_with_slice(second);
            out.rewards.swap(0, 1);
            for flags in [out.terminated, out.truncated, out.alive, out.acting] {
                flags.swap(0, 1);
            }
        }
    }
}

impl MultiAgentEnv for EitherSeat {
    type Obs = u8;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["learner".into(), "opponent".into()]
    }
    fn observation_space(&self, agent: usize) -> Space {
        self.game.observation_space(agent)
    }
    fn action_space(&self, agent: usize) -> Space {
        self.game.action_space(agent)
    }
    fn reset(&mut self, seed: Option<u64>, mut out: MultiAgentOut<'_, u8>) -> envs::Result<()> {
        self.swapped = seed.unwrap_or_default() % 2 == 1;
        self.game.reset(seed, out.reborrow())?;
        self.deal(out);
        Ok(())
    }
    fn step(&mut self, actions: &[i64], mut out: MultiAgentOut<'_, u8>) -> envs::Result<()> {
        let seats = if self.swapped { [actions[1], actions[0]] } else { [actions[0], actions[1]] };
        self.game.step(&seats, out.reborrow())?;
        self.deal(out);
        Ok(())
    }
    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        self.game.action_mask(agent ^ usize::from(self.swapped), mask)
    }
}

fn settings() -> Ppo {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, kl_coeff: 0.0, ..Ppo::get_default_config() };
    (ppo.sgd_minibatch_size, ppo.num_sgd_iter, ppo.entropy_coeff) = (256, 6, 0.003);
    let common = &mut ppo.common;
    (common.num_workers, common.num_envs_per_worker, common.seed) = (0, 32, Some(0));
    (common.rollout_fragment_length, common.train_batch_size) = (32, 1024);
    (common.mask_actions, common.model.fcnet_hiddens) = (true, vec![64, 64]);
    let ids = ["main", "opponent"];
    common.multiagent.policies = ids.map(|id| (id.to_owned(), Config::new())).into();
    common.multiagent.policies_to_train = Some(vec!["main".into()]);
    ppo
}

/// Shares of games that `main` wins and loses against an opponent with these weights; both draw their moves.
fn match_against(trainer: &mut Driver<Algorithm<Ppo>>, opponent: &Weights) -> Result<(f64, f64)> {
    trainer.get_policy("opponent", |policy| policy.set_weights(opponent))??;
    let episodes = trainer.play(GAMES, 7, true, 0)?.episodes;
    let share = |reward: f64| {
        let games = episodes.iter().filter(|episode| episode.agent_rewards[0].reward == reward);
        games.count() as f64 / GAMES as f64
    };
    Ok((share(1.0), share(-1.0)))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let env = EnvCreator::multi_agent(|| EitherSeat { game: BoardGame::tictactoe(), swapped: false });
    let by = |agent: &str| if agent == "learner" { "main" } else { "opponent" };
    let builder = settings().builder(env).policy_mapping_fn(by).loggers(LoggerChoice::None);
    let mut trainer = builder.build()?;
    let mut snapshots = vec![trainer.get_policy("main", |policy| policy.get_weights())?];
    for iteration in 1..=50 * EVERY {
        // Another of the snapshots every iteration, old ones included.
        let opponent = &snapshots[iteration * 31 % snapshots.len()];
        trainer.get_policy("opponent", |policy| policy.set_weights(opponent))??;
        trainer.train()?;
        if iteration % EVERY == 0 {
            snapshots.push(trainer.get_policy("main", |policy| policy.get_weights())?);
        }
        if iteration % (10 * EVERY) == 0 {
            let (won, lost) = match_against(&mut trainer, &snapshots[0])?;
            println!(
                "iteration {iteration}: {:.1} % won against the first snapshot, {:.1} % lost",
                100.0 * won,
                100.0 * lost
            );
        }
    }
    match match_against(&mut trainer, &snapshots[0])? {
        (won, lost) if won >= 0.75 && lost <= 0.15 => Ok(()),
        (won, lost) => Err(format!("{won} won and {lost} lost, but 0.75 and 0.15 were asked for").into()),
    }
}
