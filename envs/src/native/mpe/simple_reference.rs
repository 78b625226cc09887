//! Simple reference: two agents tell each other where to go.

use serde::{Deserialize, Serialize};

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, no_share},
    world::{Body, World},
};
use crate::NpRandom;

const WORDS: usize = 10;

/// Settings of simple reference, named as in mpe2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleReferenceConfig {
    /// Weight of an agent's own part of the reward, in 0..=1; the mean over both agents has the rest.
    pub local_ratio: f64,
    /// Number of steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether rendered bodies are larger when all are near the middle.
    pub dynamic_rescaling: bool,
}

impl Default for SimpleReferenceConfig {
    fn default() -> Self {
        Self { local_ratio: 0.5, max_cycles: 25, dynamic_rescaling: true }
    }
}

/// The environment `simple_reference_v3`: `agent_0` and `agent_1` each know to which of three landmarks the other one has
/// to go, move and talk.
///
/// | | |
/// |---|---|
/// | observation | own velocity, the landmarks relative to it, the color of the other's landmark, the ten words that the other said; `[21]` |
/// | own part of the reward | minus the other's distance from its landmark |
/// | reward | `(1 - local_ratio)` times the mean of both parts plus `local_ratio` times the own part |
/// | start | goals drawn, agents and landmarks uniform in -1..1 |
///
/// Actions and ends of episodes are those of every [`ParticleEnv`]. No body collides.
pub type SimpleReference<A = i64> = ParticleEnv<SimpleReferenceConfig, A>;

impl Scenario for SimpleReferenceConfig {
    const ID: &'static str = "simple_reference_v3";

    common!();

    fn problem(&self) -> Option<String> {
        no_share("local_ratio", self.local_ratio)
    }

    fn world(&self) -> World {
        let agent = Body { collides: false, silent: false, ..Body::agent([0.25; 3]) };
        let agents = (0..2).map(|i| (format!("agent_{i}"), agent)).collect();
        let colors = [[0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.25, 0.75]];
        World { words: WORDS, ..World::new(agents, colors.map(Body::landmark).into()) }
    }

    /// Draws for each agent `i` the landmark that the other agent has to reach (`goals[i]`), and places the bodies.
    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.goals = [(); 2].map(|()| random.integers(0, 3) as usize);
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    fn paint(&self, world: &mut World) {
        world.agents[1].color = world.goal(0).color;
        world.agents[0].color = world.goal(1).color;
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        obs.places(me, world.landmarks.iter(), None);
        obs.push(&world.goal(agent).color);
        obs.push(&world.agents[1 - agent].speech[..WORDS]);
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        -world.agents[1 - agent].distance(world.goal(agent))
    }

    fn global_reward(&self, world: &World) -> f64 {
        (self.reward(world, 0) + self.reward(world, 1)) / 2.0
    }

    fn local_ratio(&self) -> Option<f64> {
        Some(self.local_ratio)
    }
}
