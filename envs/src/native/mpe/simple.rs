//! Simple: one agent and one landmark.

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, common_settings},
    world::{Body, World},
};

common_settings! {
    /// Settings of the scenario simple, with mpe2's names.
    SimpleConfig
}

/// The environment `simple_v3`: one agent, `agent_0`, goes to a landmark.
///
/// | | |
/// |---|---|
/// | observation | own velocity, position of the landmark relative to the agent; `[4]` |
/// | reward | minus the squared distance from the landmark |
/// | start | agent and landmark uniform in -1..1 |
///
/// Actions and episode ends are described at [`ParticleEnv`].
pub type Simple<A = i64> = ParticleEnv<SimpleConfig, A>;

impl Scenario for SimpleConfig {
    const ID: &'static str = "simple_v3";

    common!();

    fn world(&self) -> World {
        let agent = Body { collides: false, ..Body::agent([0.25; 3]) };
        World::new(vec![("agent_0".into(), agent)], vec![Body::landmark([0.75, 0.25, 0.25])])
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        obs.places(me, world.landmarks.iter(), None);
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        -world.agents[agent].square_distance(&world.landmarks[0])
    }
}
