//! Simple spread: agents cover landmarks together and avoid collisions.

use serde::{Deserialize, Serialize};

use super::{
    action::ParticleAction,
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, at_least_1, common, no_neighbors, no_share},
    world::{Body, World, least},
};

/// Distance below which an agent covers a landmark.
const CAPTURE_RADIUS: f64 = 0.1;

/// Settings of simple spread, named as in mpe2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleSpreadConfig {
    /// Number of agents, and number of landmarks.
    #[serde(rename = "N")]
    pub n: usize,
    /// Weight of an agent's own collisions in its reward, in 0..=1; the distance that all agents share has the rest.
    pub local_ratio: f64,
    /// Number of steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether rendered bodies are larger when all are near the middle.
    pub dynamic_rescaling: bool,
    /// Whether collisions are free until [`set_curriculum_stage`](SimpleSpread::set_curriculum_stage) goes to stage 1.
    pub curriculum: bool,
    /// Whether all agents terminate when every landmark has an agent nearer than 0.1.
    pub terminate_on_success: bool,
    /// Number of other agents that an agent observes, nearest first, padded with zeros; `None`: all, by index.
    pub num_agent_neighbors: Option<usize>,
    /// Number of landmarks that an agent observes, nearest first, padded with zeros; `None`: all, by index.
    pub num_landmark_neighbors: Option<usize>,
}

impl Default for SimpleSpreadConfig {
    fn default() -> Self {
        Self {
            n: 3,
            local_ratio: 0.5,
            max_cycles: 25,
            dynamic_rescaling: true,
            curriculum: false,
            terminate_on_success: false,
            num_agent_neighbors: None,
            num_landmark_neighbors: None,
        }
    }
}

/// The environment `simple_spread_v3`: `agent_0`, `agent_1`, ... cover landmarks, of which there are as many as agents.
///
/// | | |
/// |---|---|
/// | observation | own velocity and position, landmarks and other agents relative to it, two zeros per other agent (no agent speaks); `[4 + 2 N + 4 (N - 1)]`, or with numbers of neighbors instead of `N` and `N - 1` |
/// | reward | `(1 - local_ratio)` times minus the sum over landmarks of the distance to the nearest agent, plus `local_ratio` times minus the agent's collisions |
/// | start | agents and landmarks uniform in -1..1, at rest |
/// | terminated | with `terminate_on_success`: all agents, when every landmark is covered |
///
/// Actions and other ends of episodes are those of every [`ParticleEnv`].
pub type SimpleSpread<A = i64> = ParticleEnv<SimpleSpreadConfig, A>;

impl<A: ParticleAction> SimpleSpread<A> {
    /// Stage of the curriculum: at 0 collisions are free, at 1 they cost. Without `curriculum` collisions always cost. (mpe2
    /// 1.1.1 has both stages, but stays at 0: its `set_curriculum_stage` does nothing.)
    pub fn curriculum_stage(&self) -> usize {
        self.stage()
    }

    /// Sets the stage of the curriculum; numbers above 1 mean 1.
    pub fn set_curriculum_stage(&mut self, stage: usize) {
        self.set_stage(stage);
    }
}

impl SimpleSpreadConfig {
    /// Distance between a landmark and the agent nearest to it.
    fn distance(world: &World, landmark: &Body) -> f64 {
        least(world.agents.iter().map(|agent| agent.distance(landmark)))
    }
}

impl Scenario for SimpleSpreadConfig {
    const ID: &'static str = "simple_spread_v3";
    /// The stage at which collisions begin to cost.
    const LAST_STAGE: usize = 1;

    common!();

    fn problem(&self) -> Option<String> {
        if self.n == 0 {
            return Some(at_least_1("N"));
        }
        no_neighbors(self.num_agent_neighbors, self.num_landmark_neighbors)
            .or_else(|| no_share("local_ratio", self.local_ratio))
    }

    fn world(&self) -> World {
        let agent = Body { size: 0.15, ..Body::agent([0.35, 0.35, 0.85]) };
        let agents = (0..self.n).map(|i| (format!("agent_{i}"), agent)).collect();
        World::new(agents, vec![Body::landmark([0.25; 3]); self.n])
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        obs.push(&me.position);
        obs.places(me, world.landmarks.iter(), self.num_landmark_neighbors);
        obs.places(me, world.others(agent), self.num_agent_neighbors);
        obs.zeros(2 * self.num_agent_neighbors.unwrap_or(self.n - 1));
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let collisions_cost = !self.curriculum || world.curriculum_stage == Self::LAST_STAGE;
        let me = &world.agents[agent];
        let collisions = world.others(agent).filter(|other| collisions_cost && other.touches(me)).count();
        0.0 - collisions as f64
    }

    fn global_reward(&self, world: &World) -> f64 {
        world.landmarks.iter().fold(0.0, |sum, landmark| sum - Self::distance(world, landmark))
    }

    fn local_ratio(&self) -> Option<f64> {
        Some(self.local_ratio)
    }

    fn is_success(&self, world: &World) -> bool {
        let covered = |landmark| Self::distance(world, landmark) < CAPTURE_RADIUS;
        self.terminate_on_success && world.landmarks.iter().all(covered)
    }
}
