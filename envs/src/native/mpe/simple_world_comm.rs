//! Simple world comm: simple tag with food, forests to hide in, and a leader of the adversaries who talks.

use serde::{Deserialize, Serialize};

use super::{
    observation::Observation,
    particle_env::ParticleEnv,
    scenario::{Scenario, at_least_1, common},
    world::{Body, World, least, minus, place},
};
use crate::NpRandom;

const WORDS: usize = 4;
/// Index of the adversaries' leader, the only agent that talks and that sees into every forest.
const LEADER: usize = 0;

/// Settings of simple world comm, named as in mpe2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleWorldCommConfig {
    /// Number of good agents, the prey; at least 1.
    pub num_good: usize,
    /// Number of adversaries, the hunters; their leader is one of them.
    pub num_adversaries: usize,
    /// Number of obstacles.
    pub num_obstacles: usize,
    /// Number of pieces of food; at least 1.
    pub num_food: usize,
    /// Number of steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Number of forests.
    pub num_forests: usize,
    /// Whether rendered bodies are larger when all are near the middle.
    pub dynamic_rescaling: bool,
}

impl Default for SimpleWorldCommConfig {
    fn default() -> Self {
        Self {
            num_good: 2,
            num_adversaries: 4,
            num_obstacles: 1,
            num_food: 2,
            max_cycles: 25,
            num_forests: 2,
            dynamic_rescaling: true,
        }
    }
}

/// The environment `simple_world_comm_v3`: `leadadversary_0`, `adversary_0`, ... catch `agent_0`, ..., which eat and hide.
///
/// | | |
/// |---|---|
/// | observation of an adversary | own velocity and position, landmarks (obstacles, food, forests) and other agents relative to it, velocities of the other good agents, 1 or -1 for each forest it is in or not, the four words of the leader |
/// | observation of a good agent | the same, with the forests before the velocities and without the words |
/// | hidden agents | another agent is observed as zeros unless both are in the same forest or both are in none; the leader sees all |
/// | reward of a good agent | -5 for each adversary that touches it, 2 for each food it touches, minus 0.05 of the distance from the nearest food, minus up to 20 along each axis when it is beyond 0.9 from the middle |
/// | reward of an adversary | 5 for each pair of a good agent and an adversary that touch, minus 0.1 of its distance from the nearest good agent |
/// | start | agents uniform in -1..1, landmarks in -0.9..0.9 |
///
/// Actions and ends of episodes are those of every [`ParticleEnv`].
pub type SimpleWorldComm<A = i64> = ParticleEnv<SimpleWorldCommConfig, A>;

impl SimpleWorldCommConfig {
    fn food<'a>(&self, world: &'a World) -> &'a [Body] {
        &world.landmarks[self.num_obstacles..][..self.num_food]
    }

    fn forests<'a>(&self, world: &'a World) -> &'a [Body] {
        &world.landmarks[self.num_obstacles + self.num_food..]
    }

    /// Whether the agent `me` sees the agent `other`; `leads` says that `me` is the leader.
    fn sees(&self, world: &World, me: &Body, leads: bool, other: &Body) -> bool {
        let forests = self.forests(world).iter().map(|forest| (me.touches(forest), other.touches(forest)));
        let together = forests.clone().any(|(mine, others)| mine && others);
        together || leads || !forests.clone().any(|(mine, others)| mine || others)
    }
}

impl Scenario for SimpleWorldCommConfig {
    const ID: &'static str = "simple_world_comm_v3";

    common!();

    fn problem(&self) -> Option<String> {
        let needed = [("num_good", self.num_good), ("num_food", self.num_food)];
        needed.iter().find(|(_, number)| *number == 0).map(|(name, _)| at_least_1(name))
    }

    fn world(&self) -> World {
        let agent = |i: usize| {
            let adversary = i < self.num_adversaries;
            let (mut color, kind) =
                if adversary { ([0.95, 0.45, 0.45], "adversary") } else { ([0.45, 0.95, 0.45], "agent") };
            if i == LEADER {
                color = color.map(|part| part - 0.3);
            }
            let name = match i {
                LEADER => "leadadversary_0".into(),
                _ if adversary => format!("{kind}_{}", i - 1),
                _ => format!("{kind}_{}", i - self.num_adversaries),
            };
            let body = Body {
                adversary,
                silent: i != LEADER,
                size: if adversary { 0.075 } else { 0.045 },
                accel: if adversary { 3.0 } else { 4.0 },
                max_speed: if adversary { 1.0 } else { 1.3 },
                ..Body::agent(color)
            };
            (name, body)
        };
        let agents = (0..self.num_adversaries + self.num_good).map(agent).collect();
        let obstacle = Body { collides: true, size: 0.2, ..Body::landmark([0.25; 3]) };
        let food = Body { size: 0.03, ..Body::landmark([0.15, 0.15, 0.65]) };
        let forest = Body { size: 0.3, ..Body::landmark([0.6, 0.9, 0.6]) };
        let kinds = [(obstacle, self.num_obstacles), (food, self.num_food), (forest, self.num_forests)];
        let landmarks = kinds.into_iter().flat_map(|(body, n)| std::iter::repeat_n(body, n)).collect();
        World { words: WORDS, ..World::new(agents, landmarks) }
    }

    /// Places all bodies. Food and forests are placed twice, as in mpe2, so that the random stream is the same.
    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.place_agents(random);
        world.place_landmarks(0.9, random);
        place(&mut world.landmarks[self.num_obstacles..], 0.9, random);
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation) {
        let me = &world.agents[agent];
        let leads = agent == LEADER;
        obs.push(&me.velocity);
        obs.push(&me.position);
        obs.places(me, world.landmarks.iter(), None);
        let if_seen = |other: &Body, point| if self.sees(world, me, leads, other) { point } else { [0.0; 2] };
        let relative = |other: &Body| if_seen(other, minus(other.position, me.position));
        obs.points(me, world.others(agent), None, relative);
        let forests = |obs: &mut Observation| {
            for forest in self.forests(world) {
                obs.push(&[if me.touches(forest) { 1.0 } else { -1.0 }]);
            }
        };
        let knows_words = me.adversary || leads;
        if !knows_words {
            forests(obs);
        }
        let good = world.others(agent).filter(|other| !other.adversary);
        obs.points(me, good, None, |other| if_seen(other, other.velocity));
        if knows_words {
            forests(obs);
            obs.push(&world.agents[LEADER].speech[..WORDS]);
        }
    }

    fn reward(&self, world: &World, agent: usize) -> f64 {
        let me = &world.agents[agent];
        if me.adversary {
            let shape = 0.0 - 0.1 * least(world.good_agents().map(|prey| prey.distance(me)));
            let caught = world.good_agents().flat_map(|prey| world.adversaries().filter(|a| a.touches(prey)));
            return caught.fold(shape, |reward, _| reward + 5.0);
        }
        let hunters = world.adversaries().filter(|adversary| adversary.touches(me)).count();
        let costs = me.cost_of_leaving();
        let reward = costs.into_iter().fold(0.0 - 5.0 * hunters as f64, |reward, cost| reward - 2.0 * cost);
        let food = self.food(world);
        let reward = food.iter().filter(|food| food.touches(me)).fold(reward, |reward, _| reward + 2.0);
        reward - 0.05 * least(food.iter().map(|food| food.distance(me)))
    }
}
