//! Simple spread: agents cover landmarks together and keep off each other.

use serde::{Deserialize, Serialize};

use super::{
    action::ParticleAction,
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, at_least_1, common, no_neighbors, no_share},
    world::{Body, World, least},
};

/// An agent nearer than this covers a landmark.
const CAPTURE_RADIUS: f64 = 0.1;

/// Settings of simple spread, by mpe2's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleSpreadConfig {
    /// Number of agents, and of landmarks.
    #[serde(rename = "N")]
    pub n: usize,
    /// Share of an agent's own collisions in its reward, in 0..=1; the rest is the distance all have in common.
    pub local_ratio: f64,
    /// Steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether an action is five pushes in 0..=1 instead of one of five directions.
    pub continuous_actions: bool,
    /// Whether bodies in pictures are larger when all are near the middle.
    pub dynamic_rescaling: bool,
    /// Whether collisions cost nothing until
    /// [`set_curriculum_stage`](SimpleSpread::set_curriculum_stage) says so.
    pub curriculum: bool,
    /// Whether all agents terminate when every landmark has an agent nearer than 0.1.
    pub terminate_on_success: bool,
    /// Other agents that an agent observes, the nearest ones first, then zeros; `None`: all in their order.
    pub num_agent_neighbors: Option<usize>,
    /// Landmarks that an agent observes, the nearest ones first, then zeros; `None`: all in their order.
    pub num_landmark_neighbors: Option<usize>,
}

impl Default for SimpleSpreadConfig {
    fn default() -> Self {
        Self {
            n: 3,
            local_ratio: 0.5,
            max_cycles: 25,
            continuous_actions: false,
            dynamic_rescaling: true,
            curriculum: false,
            terminate_on_success: false,
            num_agent_neighbors: None,
            num_landmark_neighbors: None,
        }
    }
}

/// The environment `simple_spread_v3`: `agent_0`, `agent_1`, ... cover as many landmarks.
///
/// | | |
/// |---|---|
/// | observation | own velocity and position, landmarks and other agents relative to it, two zeros per other agent (no agent speaks); `[4 + 2 N + 4 (N - 1)]`, or with numbers of neighbors instead of `N` and `N - 1` |
/// | reward | `(1 - local_ratio)` times minus the sum over landmarks of the distance to the nearest agent, plus `local_ratio` times minus the agent's collisions |
/// | start | agents and landmarks uniform in -1..1, at rest |
/// | terminated | with `terminate_on_success`: all agents, when every landmark is covered |
///
/// Actions and other ends are those of every [`ParticleEnv`].
pub type SimpleSpread<A = i64> = ParticleEnv<SimpleSpreadConfig, A>;

impl<A: ParticleAction> SimpleSpread<A> {
    /// The stage of the curriculum: 0, where collisions cost nothing, or 1. Without `curriculum` they always cost. (mpe2
    /// 1.1.1 has both stages, but stays at 0: its `set_curriculum_stage` does nothing.)
    pub fn curriculum_stage(&self) -> usize {
        self.stage()
    }

    /// Goes to a stage of the curriculum; the last one for larger numbers.
    pub fn set_curriculum_stage(&mut self, stage: usize) {
        self.set_stage(stage);
    }
}

impl SimpleSpreadConfig {
    /// Distance of a landmark from the nearest agent.
    fn distance(world: &World, landmark: &Body) -> f64 {
        least(world.agents.iter().map(|agent| agent.distance(landmark)))
    }
}

impl Scenario for SimpleSpreadConfig {
    const ID: &'static str = "simple_spread_v3";
    const NAME: &'static str = "SimpleSpread";
    /// The stage at which collisions cost.
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
