//! Simple tag: slow adversaries hunt fast prey among obstacles.

use serde::{Deserialize, Serialize};

use super::{
    action::ParticleAction,
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, no_neighbors},
    world::{Body, World},
};
use crate::NpRandom;

const PREY_ACCEL: f64 = 4.0;
const PREY_MAX_SPEED: f64 = 1.3;
/// The prey's share of its full speed, by stage of the curriculum.
const PREY_SPEEDS: [f64; 3] = [0.5, 0.75, 1.0];

/// Settings of simple tag, named as in mpe2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleTagConfig {
    /// Number of good agents, the prey.
    pub num_good: usize,
    /// Number of adversaries, the hunters.
    pub num_adversaries: usize,
    /// Number of obstacles.
    pub num_obstacles: usize,
    /// Number of steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether rendered bodies are larger when all are near the middle.
    pub dynamic_rescaling: bool,
    /// Whether the prey is slower until [`set_curriculum_stage`](SimpleTag::set_curriculum_stage) goes to a later stage.
    pub curriculum: bool,
    /// Whether all agents terminate when every good agent touches an adversary.
    pub terminate_on_success: bool,
    /// Number of other agents that an agent observes, nearest first, padded with zeros; `None`: all, by index.
    pub num_agent_neighbors: Option<usize>,
    /// Number of obstacles that an agent observes, nearest first, padded with zeros; `None`: all, by index.
    pub num_landmark_neighbors: Option<usize>,
}

impl Default for SimpleTagConfig {
    fn default() -> Self {
        Self {
            num_good: 1,
            num_adversaries: 3,
            num_obstacles: 2,
            max_cycles: 25,
            dynamic_rescaling: true,
            curriculum: false,
            terminate_on_success: false,
            num_agent_neighbors: None,
            num_landmark_neighbors: None,
        }
    }
}

/// The environment `simple_tag_v3`: `adversary_0`, `adversary_1`, ... catch the good agents `agent_0`, ..., which are
/// faster.
///
/// | | |
/// |---|---|
/// | observation | own velocity and position, obstacles and other agents relative to it, velocities of the other good agents; with `num_agent_neighbors`, a velocity for each neighbor, zeros for adversaries |
/// | reward of a good agent | -10 for each adversary that touches it, minus up to 10 along each axis when it is beyond 0.9 from the middle |
/// | reward of an adversary | 10 for each pair of a good agent and an adversary that touch |
/// | start | agents uniform in -1..1, obstacles in -0.9..0.9 |
/// | terminated | with `terminate_on_success`: all agents, when every good agent touches an adversary |
///
/// Actions and other ends of episodes are those of every [`ParticleEnv`].
pub type SimpleTag<A = i64> = ParticleEnv<SimpleTagConfig, A>;

impl<A: ParticleAction> SimpleTag<A> {
    /// Stage of the curriculum: at 0, 1 or 2 the prey has half, three quarters or all of its speed. Without `curriculum` the
    /// prey always has all of it. (mpe2 1.1.1 has these stages, but stays at 0: its `set_curriculum_stage` does nothing.)
    pub fn curriculum_stage(&self) -> usize {
        self.stage()
    }

    /// Sets the stage of the curriculum, which takes effect at the next reset; numbers above 2 mean 2.
    pub fn set_curriculum_stage(&mut self, stage: usize) {
        self.set_stage(stage);
    }
}

impl Scenario for SimpleTagConfig {
    const ID: &'static str = "simple_tag_v3";
    const LAST_STAGE: usize = PREY_SPEEDS.len() - 1;

    common!();

    fn problem(&self) -> Option<String> {
        if self.num_good + self.num_adversaries == 0 {
            return Some("`num_good` and `num_adversaries` are 0, but there must be an agent".into());
        }
        no_neighbors(self.num_agent_neighbors, self.num_landmark_neighbors)
    }

    fn world(&self) -> World {
        let adversary = Body {
            adversary: true,
            size: 0.075,
            accel: 3.0,
            max_speed: 1.0,
            ..Body::agent([0.85, 0.35, 0.35])
        };
        let good = Body { accel: PREY_ACCEL, max_speed: PREY_MAX_SPEED, ..Body::agent([0.35, 0.85, 0.35]) };
        let adversaries = (0..self.num_adversaries).map(|i| (format!("adversary_{i}"), adversary));
        let agents = adversaries.chain((0..self.num_good).map(|i| (format!("agent_{i}"), good))).collect();
        let obstacle = Body { collides: true, size: 0.2, ..Body::landmark([0.25; 3]) };
        World::new(agents, vec![obstacle; self.num_obstacles])
    }

    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.place_agents(random);
        world.place_landmarks(0.9, random);
        if self.curriculum {
            let speed = PREY_SPEEDS[world.curriculum_stage];
            for prey in world.agents.iter_mut().filter(|agent| !agent.adversary) {
                prey.max_speed = PREY_MAX_SPEED * speed;
                prey.accel = PREY_ACCEL * speed;
            }
        }
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        obs.push(&me.position);
        obs.places(me, world.landmarks.iter(), self.num_landmark_neighbors);
        obs.places(me, world.others(agent), self.num_agent_neighbors);
        if self.num_agent_neighbors.is_none() {
            let good = world.others(agent).filter(|other| !other.adversary);
            return obs.points(me, good, None, |other| other.velocity);
        }
        let velocity = |other: &Body| if other.adversary { [0.0; 2] } else { other.velocity };
        obs.points(me, world.others(agent), self.num_agent_neighbors, velocity);
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let me = &world.agents[agent];
        if me.adversary {
            let caught = world.good_agents().flat_map(|prey| world.adversaries().filter(|a| a.touches(prey)));
            return 10.0 * caught.count() as f64;
        }
        let hunters = world.adversaries().filter(|adversary| adversary.touches(me)).count();
        me.cost_of_leaving().into_iter().fold(0.0 - 10.0 * hunters as f64, |reward, cost| reward - cost)
    }

    fn is_success(&self, world: &World) -> bool {
        let caught = |prey: &Body| world.adversaries().any(|adversary| adversary.touches(prey));
        self.terminate_on_success && world.good_agents().all(caught)
    }
}
