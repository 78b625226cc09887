//! Two policies in one environment: `agent_0` of simple spread learns by PPO under the id `first`, the other two share a
//! second PPO under the id `others`. Both have to learn: after training an episode must bring more than with random
//! actions, by a margin that was set before anything was trained, and more than with either policy beside random actions;
//! or the program ends with an error.
//!
//! `cargo run --example two_policies` trains one seed for 160,000 steps; with `-- --full` three seeds, 300,000 steps each.

use pavlov::envs::{MultiAgentEnv, MultiAgentRows, SimpleSpread, SimpleSpreadConfig, SpaceSampler};
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::models::Initializer;
use pavlov::trainer::plan::Plan;
use pavlov::trainer::policy::{Agent, Policies, PolicyClass, Spaces};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// PPO's settings, for both policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct TwoPolicies(Ppo);

impl Trainer for TwoPolicies {
    const NAME: &'static str = "TwoPolicies";

    fn get_default_config() -> Self {
        Self(Ppo::get_default_config())
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.0.validate_config(spaces)
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.0.get_default_policy_class(spaces)
    }

    /// The only method that single-agent algorithms do not have.
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        let class = self.get_default_policy_class(&agents[0].spaces)?;
        let policies = [("first", class.clone()), ("others", class)];
        Ok(Policies::new(policies, |agent| if agent == "agent_0" { "first" } else { "others" }))
    }

    /// Steps of a plan treat all policies alike, so it is PPO's own.
    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        self.0.execution_plan(workers)
    }

    fn common(&self) -> &Common {
        &self.0.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.0.common
    }
}

/// The least gain over random actions that counts as learning, as a share of their mean return. They bring -78.4 with a
/// standard error of 0.7 (1000 episodes), so the mark is -66.6.
const MARGIN: f64 = 0.15;
/// And it is at least so many standard errors of the difference.
const STANDARD_ERRORS: f64 = 3.0;

/// Episodes of random actions, and of an evaluation.
const RANDOM_EPISODES: u64 = 1000;
const EPISODES: u64 = 500;
/// Steps of an iteration.
const BATCH: usize = 800;
/// Agents of simple spread, unless its settings say otherwise.
const AGENTS: usize = 3;

/// Mean return of some episodes and its standard error.
#[derive(Clone, Copy, Debug)]
struct Score {
    mean: f64,
    error: f64,
}

impl Score {
    fn of(returns: &[f64]) -> Self {
        let n = returns.len() as f64;
        let mean = returns.iter().sum::<f64>() / n;
        let variance = returns.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { mean, error: (variance / n).sqrt() }
    }

    /// By how much `self`, the score of random actions, has to be beaten.
    fn margin(self, trained: Score) -> f64 {
        (MARGIN * self.mean.abs()).max(STANDARD_ERRORS * self.error.hypot(trained.error))
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} (standard error {:.2})", self.mean, self.error)
    }
}

/// Plays episodes by hand; `act` writes the actions of all agents, whose observations follow each other.
fn play(episodes: u64, mut act: impl FnMut(&[f32], &mut [i64]) -> Result<()>) -> Result<Score> {
    let mut env = SimpleSpread::<i64>::new(SimpleSpreadConfig::default())?;
    let (mut rows, mut actions) = (MultiAgentRows::new(&env), [0; AGENTS]);
    let mut returns = Vec::new();
    for episode in 0..episodes {
        env.reset(Some(episode), rows.out())?;
        let mut total = 0.0;
        while !rows.is_over() {
            act(&rows.obs, &mut actions)?;
            env.step(&actions, rows.out())?;
            total += rows.rewards.iter().sum::<f64>();
        }
        returns.push(total);
    }
    Ok(Score::of(&returns))
}

/// Actions drawn uniformly.
fn at_random() -> impl FnMut(&[f32], &mut [i64]) -> Result<()> {
    let mut random = SpaceSampler::new(&Space::discrete(5), 0);
    move |_, actions| {
        actions.iter_mut().for_each(|action| random.sample(std::slice::from_mut(action)));
        Ok(())
    }
}

/// Only the agents of the policy `id` do what it learned; the others act at random.
fn alone(
    trainer: &mut Driver<Algorithm<TwoPolicies>>,
    id: &str,
    agents: std::ops::Range<usize>,
) -> Result<Score> {
    let mut session = trainer.session_of(id, agents.len())?;
    let mut random = at_random();
    play(EPISODES, |obs, actions| {
        random(obs, actions)?;
        let width = obs.len() / AGENTS;
        let learned = session.compute_actions(&obs[agents.start * width..agents.end * width], false)?;
        for (action, learned) in actions[agents.clone()].iter_mut().zip(&learned) {
            *action = learned.discrete().unwrap_or(*action);
        }
        Ok(())
    })
}

/// A copy plays one whole episode per fragment.
fn settings(seed: u64) -> TwoPolicies {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, clip_param: 0.2, kl_coeff: 0.0, ..Ppo::get_default_config() };
    (ppo.sgd_minibatch_size, ppo.num_sgd_iter) = (256, 10);
    let common = &mut ppo.common;
    (common.num_workers, common.num_envs_per_worker, common.seed) = (0, 16, Some(seed));
    (common.rollout_fragment_length, common.train_batch_size, common.gamma) = (25, BATCH, 0.95);
    common.model.fcnet_hiddens = vec![64, 64];
    common.model.fcnet_initializer = Initializer::Orthogonal;
    TwoPolicies(ppo)
}

/// Trains a pair; an error if it misses the mark, or if one of the two policies is as good without the other.
fn prove(random: Score, seed: u64, steps: u64) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut trainer = settings(seed).builder("simple_spread_v3").loggers(LoggerChoice::None).build()?;
    for iteration in 1..=steps / BATCH as u64 {
        let result = trainer.train()?;
        if iteration % 25 == 0 {
            let mean = result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN);
            println!("{:>8} steps: {mean:.1}", result["timesteps_total"]);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let episodes = trainer.play(EPISODES, 1000, false, 0)?.episodes;
    let trained = Score::of(&episodes.iter().map(|episode| episode.total_reward).collect::<Vec<_>>());
    let margin = random.margin(trained);
    println!("seed {seed}, trained for {steps} steps in {seconds:.0} s: {trained}");
    let mut missed = Vec::new();
    if trained.mean < random.mean + margin {
        missed.push(format!("{trained} is less than {margin:.2} above random actions, {random}"));
    }
    for (id, agents) in [("first", 0..1), ("others", 1..AGENTS)] {
        let alone = alone(&mut trainer, id, agents)?;
        println!("  `{id}` as trained, the rest at random: {alone}");
        if trained.mean < alone.mean + STANDARD_ERRORS * alone.error.hypot(trained.error) {
            missed.push(format!("`{id}` brings {alone} beside random actions, both together {trained}"));
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("seed {seed}: {}", missed.join("; ")).into()) }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let full = std::env::args().any(|argument| argument == "--full");
    let (seeds, steps) = if full { (3, 300_000) } else { (1, 160_000) };
    let random = play(RANDOM_EPISODES, at_random())?;
    let margin = random.margin(random);
    println!("random actions: {random}; margin {margin:.2}, so the mark is {:.2}", random.mean + margin);
    for seed in 0..seeds {
        prove(random, seed, steps)?;
    }
    Ok(())
}
