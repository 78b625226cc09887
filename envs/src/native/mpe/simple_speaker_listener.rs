//! Simple speaker listener: one agent talks, the other one moves.

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, common_settings},
    world::{Body, World},
};
use crate::NpRandom;

const WORDS: usize = 3;
const SPEAKER: usize = 0;
const LISTENER: usize = 1;

common_settings! {
    /// Settings of simple speaker listener, named as in mpe2.
    SimpleSpeakerListenerConfig
}

/// The environment `simple_speaker_listener_v4`: `speaker_0` knows to which of three landmarks `listener_0` has to go. The
/// speaker only talks, and the listener only moves.
///
/// | | |
/// |---|---|
/// | observation of the speaker | the color of the goal; `[3]` |
/// | observation of the listener | own velocity, the landmarks relative to it, the three words; `[11]` |
/// | reward | of both, minus the square of the listener's distance from the goal |
/// | start | goal drawn, agents and landmarks uniform in -1..1 |
///
/// Actions and ends of episodes are those of every [`ParticleEnv`]. No body collides.
pub type SimpleSpeakerListener<A = i64> = ParticleEnv<SimpleSpeakerListenerConfig, A>;

impl Scenario for SimpleSpeakerListenerConfig {
    const ID: &'static str = "simple_speaker_listener_v4";

    common!();

    fn world(&self) -> World {
        let agent = Body { collides: false, size: 0.075, ..Body::agent([0.25; 3]) };
        let speaker = Body { movable: false, silent: false, ..agent };
        let agents = vec![("speaker_0".into(), speaker), ("listener_0".into(), agent)];
        let colors = [[0.65, 0.15, 0.15], [0.15, 0.65, 0.15], [0.15, 0.15, 0.65]];
        let landmarks = colors.map(|color| Body { size: 0.04, ..Body::landmark(color) });
        World { words: WORDS, ..World::new(agents, landmarks.into()) }
    }

    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.goals[0] = random.integers(0, 3) as usize;
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    fn paint(&self, world: &mut World) {
        world.agents[LISTENER].color = world.goal(0).color.map(|part| part + 0.45);
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        if agent == SPEAKER {
            return obs.push(&world.goal(0).color);
        }
        let me = &world.agents[agent];
        obs.push(&me.velocity);
        obs.places(me, world.landmarks.iter(), None);
        obs.push(&world.agents[SPEAKER].speech[..WORDS]);
    }

    fn reward(&self, world: &World, _agent: usize) -> f64 {
        -world.agents[LISTENER].square_distance(world.goal(0))
    }
}
