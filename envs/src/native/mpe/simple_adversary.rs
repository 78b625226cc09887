//! Simple adversary: good agents know which landmark is the goal, the adversary does not.

use serde::{Deserialize, Serialize};

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, at_least_1, common, no_neighbors},
    world::{Body, World, least},
};
use crate::NpRandom;

/// Settings of the scenario simple adversary, with mpe2's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleAdversaryConfig {
    /// Number of good agents, and also of landmarks.
    #[serde(rename = "N")]
    pub n: usize,
    /// Maximum number of steps, after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether pictures show larger bodies when all are near the middle.
    pub dynamic_rescaling: bool,
    /// Number of other agents in an observation, nearest first, missing ones as zeros; `None` for all, in order.
    pub num_agent_neighbors: Option<usize>,
    /// Number of landmarks in an observation, nearest first, missing ones as zeros; `None` for all, in order. Good
    /// agents also observe the goal.
    pub num_landmark_neighbors: Option<usize>,
}

impl Default for SimpleAdversaryConfig {
    fn default() -> Self {
        Self {
            n: 2,
            max_cycles: 25,
            dynamic_rescaling: true,
            num_agent_neighbors: None,
            num_landmark_neighbors: None,
        }
    }
}

/// The environment `simple_adversary_v3`: `agent_0`, `agent_1`, ... stay near one of several landmarks, and
/// `adversary_0` guesses which one it is.
///
/// | | |
/// |---|---|
/// | observation of a good agent | the goal, the landmarks and the other agents, relative to it; `[2 + 2 N + 2 N]`, with the numbers of neighbors in place of `N` if they are set |
/// | observation of the adversary | the landmarks and the other agents, relative to it |
/// | reward of a good agent | the adversary's distance from the goal minus that of the nearest good agent |
/// | reward of the adversary | minus its distance from the goal |
/// | start | random goal; agents and landmarks uniform in -1..1 |
///
/// Actions and episode ends are described at [`ParticleEnv`]. Bodies do not collide.
pub type SimpleAdversary<A = i64> = ParticleEnv<SimpleAdversaryConfig, A>;

const LANDMARK: [f64; 3] = [0.15; 3];

impl Scenario for SimpleAdversaryConfig {
    const ID: &'static str = "simple_adversary_v3";

    common!();

    fn problem(&self) -> Option<String> {
        if self.n == 0 {
            return Some(at_least_1("N"));
        }
        no_neighbors(self.num_agent_neighbors, self.num_landmark_neighbors)
    }

    fn world(&self) -> World {
        let agent = |color| Body { collides: false, size: 0.15, ..Body::agent(color) };
        let adversary = Body { adversary: true, ..agent([0.85, 0.35, 0.35]) };
        let good = (0..self.n).map(|i| (format!("agent_{i}"), agent([0.35, 0.35, 0.85])));
        let agents = std::iter::once(("adversary_0".to_owned(), adversary)).chain(good).collect();
        World::new(agents, vec![Body { size: 0.08, ..Body::landmark(LANDMARK) }; self.n])
    }

    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.goals[0] = random.integers(0, self.n as i64) as usize;
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    fn paint(&self, world: &mut World) {
        world.landmarks.iter_mut().for_each(|landmark| landmark.color = LANDMARK);
        world.landmarks[world.goals[0]].color = [0.15, 0.65, 0.15];
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        if !me.adversary {
            obs.places(me, std::iter::once(world.goal(0)), None);
        }
        obs.places(me, world.landmarks.iter(), self.num_landmark_neighbors);
        obs.places(me, world.others(agent), self.num_agent_neighbors);
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let distance = |agent: &Body| agent.distance(world.goal(0));
        if world.agents[agent].adversary {
            return -distance(&world.agents[agent]);
        }
        -least(world.good_agents().map(distance)) + world.adversaries().map(distance).sum::<f64>()
    }
}
