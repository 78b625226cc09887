//! Simple crypto: Alice tells Bob a secret, and Eve listens.

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, common, common_settings},
    world::{Body, World},
};
use crate::NpRandom;

const WORDS: usize = 4;
const EVE: usize = 0;
const BOB: usize = 1;
const ALICE: usize = 2;

common_settings! {
    /// Settings of simple crypto, named as in mpe2.
    SimpleCryptoConfig
}

/// The environment `simple_crypto_v3`: `alice_0` tells `bob_0` which of two words is the secret, by a key that both know,
/// while `eve_0` listens without the key. All three agents talk, and none moves.
///
/// | | |
/// |---|---|
/// | observation of Eve | the four words that Alice said; `[4]` |
/// | observation of Bob | the key, one-hot of four, and what Alice said; `[8]` |
/// | observation of Alice | the secret and the key, each one-hot of four; `[8]` |
/// | error of an agent | the sum of squares between what it says and the secret, one-hot of four; 0 while it is silent |
/// | reward of Alice and Bob | Eve's error minus Bob's |
/// | reward of Eve | minus her error |
/// | start | secret and key drawn from the first two words, agents and landmarks uniform in -1..1 |
///
/// Actions and ends of episodes are those of every [`ParticleEnv`].
pub type SimpleCrypto<A = i64> = ParticleEnv<SimpleCryptoConfig, A>;

impl Scenario for SimpleCryptoConfig {
    const ID: &'static str = "simple_crypto_v3";

    common!();

    fn world(&self) -> World {
        let agent = Body { collides: false, movable: false, silent: false, ..Body::agent([0.25; 3]) };
        let eve = Body { adversary: true, color: [0.75, 0.25, 0.25], ..agent };
        let agents = vec![("eve_0".into(), eve), ("bob_0".into(), agent), ("alice_0".into(), agent)];
        let landmarks = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]].map(Body::landmark);
        World { words: WORDS, ..World::new(agents, landmarks.into()) }
    }

    /// Draws the secret and the key (`world.goals`) and places the bodies.
    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.goals = [(); 2].map(|()| random.integers(0, 2) as usize);
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    fn paint(&self, world: &mut World) {
        world.agents[BOB].color = world.goal(0).color;
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let [secret, key] = world.goals;
        if agent == ALICE {
            obs.one_hot(secret, WORDS);
        }
        if agent != EVE {
            obs.one_hot(key, WORDS);
        }
        if agent != ALICE {
            obs.push(&world.agents[ALICE].speech[..WORDS]);
        }
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let [eve, bob] = [EVE, BOB].map(|agent| error(world, agent));
        if agent == EVE { 0.0 - eve } else { eve + (0.0 - bob) }
    }
}

fn error(world: &World, agent: usize) -> f64 {
    let said = &world.agents[agent].speech[..WORDS];
    if said.iter().all(|&loudness| loudness == 0.0) {
        return 0.0;
    }
    let secret = |word| if word == world.goals[0] { 1.0 } else { 0.0 };
    said.iter().enumerate().map(|(word, loudness)| loudness - secret(word)).fold(0.0, |sum, x| sum + x * x)
}
