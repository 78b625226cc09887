//! Noise that drifts belongs to the agent it was drawn for, whoever else acts.

use std::sync::{Arc, Mutex};

use pavlov::envs::{self, EnvCreator, MultiAgentEnv, MultiAgentOut, Space};
use pavlov::prelude::*;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::policy::{Act, Policy, PolicyClass, Seen};
use pavlov::trainer::settings::ExplorationConfig;
use serde_json::json;

use super::turns::workers;
use crate::support::tiny_ppo;

/// What each of two agents did, in order.
type Done = Arc<Mutex<[Vec<f32>; 2]>>;

/// Two agents act together or in turn, for 20 steps each; what they do is written down.
#[derive(Clone, Debug)]
struct Levers {
    in_turn: bool,
    t: usize,
    done: Done,
}

impl Levers {
    fn acts(&self, agent: usize) -> bool {
        !self.in_turn || self.t % 2 == agent
    }

    fn write(&self, out: MultiAgentOut<'_, f32>) {
        let over = self.t == if self.in_turn { 40 } else { 20 };
        for agent in 0..2 {
            out.obs[agent] = self.t as f32;
            out.rewards[agent] = 0.0;
            out.terminated[agent] = over;
            out.truncated[agent] = false;
            out.alive[agent] = !over;
            out.acting[agent] = !over && self.acts(agent);
        }
    }
}

impl MultiAgentEnv for Levers {
    type Obs = f32;
    type Act = f32;

    fn agents(&self) -> Vec<String> {
        ["a", "b"].map(String::from).to_vec()
    }
    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[1])
    }
    fn action_space(&self, _agent: usize) -> Space {
        Space::boxed(-1.0, 1.0, &[1])
    }
    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t = 0;
        self.write(out);
        Ok(())
    }
    fn step(&mut self, actions: &[f32], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        let mut done = self.done.lock().expect("no test has failed");
        (0..2).filter(|&agent| self.acts(agent)).for_each(|agent| done[agent].push(actions[agent]));
        drop(done);
        self.t += 1;
        self.write(out);
        Ok(())
    }
}

/// Does nothing but explore.
#[derive(Debug)]
struct Drifting(ExplorationConfig);

impl Policy for Drifting {
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        act.with_noise(&vec![0.0; seen.obs.len()], &self.0)
    }
}

#[test]
fn agents_that_act_in_turn_have_the_noise_that_they_have_together() {
    // Those in turn take twice as many steps of the run, so its scale stays as it is.
    let settings = json!({"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 0, "final_scale": 1.0});
    let exploration: ExplorationConfig = serde_json::from_value(settings).expect("a strategy");
    let actions = |in_turn: bool| {
        let done = Done::default();
        let env = Levers { in_turn, t: 0, done: Arc::clone(&done) };
        let mut common = tiny_ppo().common;
        common.num_envs_per_worker = 1;
        common.exploration_config = exploration.clone();
        // Two episodes, and a half of the third: the noise begins anew.
        common.rollout_fragment_length = if in_turn { 100 } else { 50 };
        let strategy = exploration.clone();
        let class = PolicyClass::new("Drifting", move |_| Ok(Drifting(strategy.clone())));
        let creator = EnvCreator::multi_agent(move || env.clone());
        let workers = workers(&common, Policies::from(class), &creator).expect("workers");
        workers.sample().expect("fragments");
        done.lock().expect("no test has failed").clone()
    };
    let together = actions(false);
    let in_turn = actions(true);
    for (agent, (wanted, found)) in together.iter().zip(&in_turn).enumerate() {
        assert_eq!(wanted.len(), 50);
        assert_eq!(wanted, found, "agent {agent}");
    }
    assert_ne!(together[0], together[1]);
}
