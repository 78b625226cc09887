//! What several agents cost beside one: `cargo bench --bench agents`.
//!
//! PPO's agent steps per second on an environment that computes nothing, so that all of its time is pavlov's: 48 copies of an
//! environment with one agent, 48 of one that could have several but has one, and 16 of one with three agents that share the
//! policy. All three sample and learn as many rows of the same width. The rounds take turns, and a ratio is of neighbours.

mod support;

use std::time::Instant;

use pavlov::{
    envs::{self, Env, EnvCreator, IntoEnvCreator, MultiAgentEnv, MultiAgentOut, Space, Step},
    prelude::*,
};
use support::{Args, Outcome, matched_ppo, median};

const COPIES: usize = 48;
/// Numbers that an agent sees, actions that it has, and steps of an episode: those of simple spread.
const WIDTH: usize = 18;
const ACTIONS: i64 = 5;
const STEPS: usize = 25;
const ROUNDS: usize = 15;

#[derive(Clone, Default)]
struct Alone {
    t: usize,
}

impl Env for Alone {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[WIDTH])
    }
    fn action_space(&self) -> Space {
        Space::discrete(ACTIONS)
    }
    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.t = 0;
        obs.fill(0.0);
        Ok(())
    }
    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.t += 1;
        obs.fill(self.t as f32);
        Ok(Step { reward: 1.0, terminated: false, truncated: self.t == STEPS })
    }
}

#[derive(Clone)]
struct Together {
    agents: usize,
    t: usize,
}

impl Together {
    fn write(&self, out: MultiAgentOut<'_, f32>) {
        let over = self.t == STEPS;
        out.obs.fill(self.t as f32);
        out.rewards.fill(1.0);
        out.terminated.fill(false);
        out.truncated.fill(over);
        out.alive.fill(!over);
        out.acting.fill(!over);
    }
}

impl MultiAgentEnv for Together {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        (0..self.agents).map(|i| format!("agent_{i}")).collect()
    }
    fn observation_space(&self, _: usize) -> Space {
        Space::real(&[WIDTH])
    }
    fn action_space(&self, _: usize) -> Space {
        Space::discrete(ACTIONS)
    }
    fn reset(&mut self, _: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t = 0;
        self.write(out);
        Ok(())
    }
    fn step(&mut self, _: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t += 1;
        self.write(out);
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let driver = |agents: Option<usize>| {
        let mut ppo = matched_ppo(COPIES / agents.unwrap_or(1), 0);
        ppo.sgd_minibatch_size = matched_ppo(COPIES, 0).sgd_minibatch_size;
        // They take any action.
        ppo.common.disable_env_checking = true;
        let creator = match agents {
            None => Alone::default.into_env_creator(),
            Some(agents) => EnvCreator::multi_agent(move || Together { agents, t: 0 }),
        };
        ppo.builder(creator).loggers(LoggerChoice::None).build()
    };
    let mut drivers = [driver(None)?, driver(Some(1))?, driver(Some(3))?];
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        for (driver, rates) in drivers.iter_mut().zip(&mut rates) {
            let start = Instant::now();
            let mut steps = 0;
            while start.elapsed().as_secs_f64() < args.seconds {
                let result = driver.train()?;
                let count = result.get("num_agent_steps_sampled_this_iter").and_then(|count| count.as_u64());
                steps += count.ok_or("the result has no count of agent steps")?;
            }
            if round > 0 {
                rates.push(steps as f64 / start.elapsed().as_secs_f64());
            }
        }
    }
    let [alone, one, three] = rates;
    let beside =
        |rates: &[f64]| median(&mut rates.iter().zip(&alone).map(|(a, b)| a / b).collect::<Vec<_>>());
    let one_beside = beside(&one);
    let three_beside = beside(&three);
    println!("{:<44}{:>16}{:>8}", "PPO, two 64x64 tanh towers", "agent steps/s", "ratio");
    for (name, mut rates, ratio) in [
        ("one agent, `Env`", alone, 1.0),
        ("one agent, `MultiAgentEnv`", one, one_beside),
        ("three agents, one policy, `MultiAgentEnv`", three, three_beside),
    ] {
        println!("{name:<44}{:>16.0}{ratio:>8.3}", median(&mut rates));
    }
    Ok(())
}
