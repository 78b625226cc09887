//! Simple push: a good agent goes to a landmark, an adversary pushes it away.

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, common_settings},
    world::{Body, World},
};
use crate::NpRandom;

common_settings! {
    /// Settings of simple push, named as in mpe2.
    SimplePushConfig
}

/// The environment `simple_push_v3`: `agent_0` goes to one of two landmarks, and `adversary_0` keeps it away without
/// knowing which one it is.
///
/// | | |
/// |---|---|
/// | observation of the good agent | own velocity, the goal relative to it, its own color, which is the goal's, the landmarks relative to it, their colors, the adversary relative to it; `[19]` |
/// | observation of the adversary | own velocity, the landmarks and the good agent relative to it; `[8]` |
/// | reward of the good agent | minus its distance from the goal |
/// | reward of the adversary | the good agent's distance from the goal minus its own |
/// | start | goal drawn, agents and landmarks uniform in -1..1 |
///
/// Actions and ends of episodes are those of every [`ParticleEnv`].
pub type SimplePush<A = i64> = ParticleEnv<SimplePushConfig, A>;

impl Scenario for SimplePushConfig {
    const ID: &'static str = "simple_push_v3";

    common!();

    fn world(&self) -> World {
        let adversary = Body { adversary: true, ..Body::agent([0.75, 0.25, 0.25]) };
        let agents = vec![("adversary_0".into(), adversary), ("agent_0".into(), Body::agent([0.25; 3]))];
        let landmarks = [1, 2].map(|part| {
            let mut color = [0.1; 3];
            color[part] += 0.8;
            Body::landmark(color)
        });
        World::new(agents, landmarks.into())
    }

    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.goals[0] = random.integers(0, 2) as usize;
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    fn paint(&self, world: &mut World) {
        world.agents[1].color = [0.25; 3];
        world.agents[1].color[world.goals[0] + 1] += 0.5;
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        if !me.adversary {
            obs.places(me, std::iter::once(world.goal(0)), None);
            obs.push(&me.color);
        }
        obs.places(me, world.landmarks.iter(), None);
        if !me.adversary {
            world.landmarks.iter().for_each(|landmark| obs.push(&landmark.color));
        }
        obs.places(me, world.others(agent), None);
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let [adversary, good] = [0, 1].map(|i: usize| world.agents[i].distance(world.goal(0)));
        if world.agents[agent].adversary { good - adversary } else { -good }
    }
}
