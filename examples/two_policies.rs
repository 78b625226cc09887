//! Two policies in one environment: `agent_0` of simple spread learns by PPO under the id `first`, the other two share a
//! second PPO under the id `others`. Both have to learn: after training an episode must bring more than with random
//! actions, by a margin that was set before anything was trained, or the program ends with an error.
//!
//! `cargo run --example two_policies` trains one seed for 50,000 steps; with `-- --full` three seeds, 300,000 steps each.
use pavlov::envs::{MultiAgentEnv, MultiAgentRows, SimpleSpread, SimpleSpreadConfig, SpaceSampler};
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::models::Initializer;
use pavlov::trainer::plan::Plan;
use pavlov::trainer::policy::{Agent, Policies, PolicyClass, Spaces};
use serde::{Deserialize, Serialize};

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

/// Episodes in which every agent draws every action uniformly.
fn random_actions(episodes: u64) -> pavlov::envs::Result<Score> {
    let mut env = SimpleSpread::<i64>::new(SimpleSpreadConfig::default())?;
    let mut rows = MultiAgentRows::new(&env);
    let (mut random, mut actions) = (SpaceSampler::new(&env.action_space(0), 0), [0; 3]);
    let mut returns = Vec::new();
    for episode in 0..episodes {
        env.reset(Some(episode), rows.out())?;
        let mut total = 0.0;
        while !rows.is_over() {
            actions.iter_mut().for_each(|action| random.sample(std::slice::from_mut(action)));
            env.step(&actions, rows.out())?;
            total += rows.rewards.iter().sum::<f64>();
        }
        returns.push(total);
    }
    Ok(Score::of(&returns))
}

/// A copy plays one whole episode per fragment.
fn settings(seed: u64) -> TwoPolicies {
    let mut ppo = Ppo { lr: 1e-3, lambda: 0.95, clip_param: 0.2, kl_coeff: 0.0, ..Ppo::get_default_config() };
    (ppo.sgd_minibatch_size, ppo.num_sgd_iter) = (256, 10);
    let common = &mut ppo.common;
    (common.num_workers, common.num_envs_per_worker, common.seed) = (0, 16, Some(seed));
    (common.rollout_fragment_length, common.train_batch_size, common.gamma) = (25, 800, 0.95);
    common.model.fcnet_hiddens = vec![64, 64];
    common.model.fcnet_initializer = Initializer::Orthogonal;
    TwoPolicies(ppo)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let full = std::env::args().any(|argument| argument == "--full");
    let (seeds, steps) = if full { (3, 300_000) } else { (1, 50_000) };
    let random = random_actions(1000)?;
    println!("random actions: {random}, to be beaten by {:.1}", random.margin(random));
    for seed in 0..seeds {
        let start = std::time::Instant::now();
        let mut trainer = settings(seed).builder("simple_spread_v3").loggers(LoggerChoice::None).build()?;
        let mut iterations = 0;
        loop {
            let result = trainer.train()?;
            iterations += 1;
            let sampled = result["timesteps_total"].as_u64().ok_or("a result without `timesteps_total`")?;
            if iterations % 10 == 1 || sampled >= steps {
                println!(
                    "{sampled:>8} steps: {:.1}, by policy {}",
                    result["episode_reward_mean"], result["policy_reward_mean"]
                );
            }
            if sampled >= steps {
                break;
            }
        }
        for explore in [true, false] {
            let episodes = trainer.play(200, 1000, explore, 0)?.episodes;
            let trained = Score::of(&episodes.iter().map(|episode| episode.total_reward).collect::<Vec<_>>());
            let margin = random.margin(trained);
            println!("seed {seed}, explore {explore}: {trained}, margin {margin}, {:?}", start.elapsed());
        }
    }
    Ok(())
}
