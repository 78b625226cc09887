//! A multi-agent environment whose every number is known, and a policy that acts by its streams alone.

use pavlov::envs::{self, EnvCreator, MultiAgentEnv, MultiAgentOut, Space};
use pavlov::prelude::*;
use pavlov::trainer::Device;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::policy::{Act, Policy, PolicyClass, Seen};

use crate::support::{quiet, refused, spec_with, tiny_ppo};

/// Agents `a`, `b` and `c` observe `(seed mod 1000, agent, t)`; every step `t` brings agent `i` the reward `t + 100 i`.
///
/// | t | acts |
/// |---|---|
/// | even | `a` and `c` |
/// | odd | `b` |
///
/// `a` terminates at step 3, `b` is cut at step 5, `c` terminates at step 5. After step 3, `c` acts at 4 only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) seed: u64,
    pub(crate) t: u64,
    /// Whoever terminates has both flags.
    pub(crate) both_flags: bool,
    /// Breaks the contract: whoever has ended acts again.
    pub(crate) acts_on: bool,
    /// The step in which `c` sees a number that is none.
    pub(crate) blinds_c_at: Option<u64>,
}

impl Turns {
    pub(crate) fn creator() -> EnvCreator {
        EnvCreator::multi_agent(Self::default)
    }

    fn write(&self, out: MultiAgentOut<'_, f32>) {
        for (agent, end) in [3, 5, 5].into_iter().enumerate() {
            let alive = self.t < end;
            let present = self.t <= end;
            out.obs[3 * agent..][..3].copy_from_slice(&if present {
                [(self.seed % 1000) as f32, agent as f32, self.t as f32]
            } else {
                [0.0; 3]
            });
            if agent == 2 && self.blinds_c_at == Some(self.t) {
                out.obs[8] = f32::NAN;
            }
            let earns = self.t > 0 && present;
            out.rewards[agent] = if earns { self.t as f64 + 100.0 * agent as f64 } else { 0.0 };
            out.terminated[agent] = self.t == end && agent != 1;
            out.truncated[agent] = self.t == end && (agent == 1 || self.both_flags);
            out.alive[agent] = alive;
            out.acting[agent] = (alive || self.acts_on) && (self.t % 2 == 1) == (agent == 1);
        }
    }
}

impl MultiAgentEnv for Turns {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }
    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[3])
    }
    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.seed = seed.unwrap_or_default();
        self.t = 0;
        self.write(out);
        Ok(())
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        for agent in (0..3).filter(|agent| (self.t % 2 == 1) == (*agent == 1)) {
            if self.t < 3 || agent != 0 {
                self.check_action(agent, &actions[agent..=agent])?;
            }
        }
        self.t += 1;
        self.write(out);
        Ok(())
    }
    fn save_state(&self) -> Option<Vec<u8>> {
        Some([self.seed, self.t].iter().flat_map(|x| x.to_le_bytes()).collect())
    }
    fn load_state(&mut self, state: &[u8]) -> envs::Result<()> {
        let number = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().expect("eight bytes"));
        self.seed = number(0);
        self.t = number(8);
        Ok(())
    }
}

/// An environment whose list of agents is empty.
struct Empty(Turns);

impl MultiAgentEnv for Empty {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        Vec::new()
    }
    fn observation_space(&self, agent: usize) -> Space {
        self.0.observation_space(agent)
    }
    fn action_space(&self, agent: usize) -> Space {
        self.0.action_space(agent)
    }
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.0.reset(seed, out)
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.0.step(actions, out)
    }
}

#[test]
fn an_environment_without_agents_is_refused() {
    let env = EnvCreator::multi_agent(|| Empty(Turns::default()));
    refused(
        quiet(tiny_ppo(), env),
        &["the number of agents is 0, but it must be at least 1; `agents` names them"],
    );
}

/// A legal action drawn from the stream of whoever acts.
#[derive(Debug)]
pub(crate) struct AtRandom(u64);

impl AtRandom {
    pub(crate) fn class(actions: u64) -> PolicyClass {
        PolicyClass::new("AtRandom", move |_| Ok(Self(actions)))
    }
}

impl Policy for AtRandom {
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let ActionRows::Int(actions) = act.actions else { panic!("discrete actions") };
        for (i, (action, rng)) in actions.iter_mut().zip(act.rngs).enumerate() {
            let legal = |&a: &u64| seen.mask.is_none_or(|mask| mask[i * self.0 as usize + a as usize]);
            let legal: Vec<u64> = (0..self.0).filter(legal).collect();
            *action = legal[rng.below(legal.len() as u64) as usize] as i64;
        }
        Ok(())
    }
}

/// Workers of several policies, with nothing sampled yet.
pub(crate) fn workers(common: &Common, policies: Policies, env: &EnvCreator) -> Result<WorkerSet> {
    WorkerSet::new(&spec_with(common, policies, env.clone())?, Device::Cpu)
}
