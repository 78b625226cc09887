//! The world of an MPE scenario: a plane with agents that move, push each other and talk, and landmarks that stay.

use crate::NpRandom;

const DT: f64 = 0.1;
const DAMPING: f64 = 0.25;
const CONTACT_FORCE: f64 = 100.0;
const CONTACT_MARGIN: f64 = 1e-3;
/// Size of the largest vocabulary that a scenario has.
pub(super) const MAX_WORDS: usize = 10;

pub(super) type Point = [f64; 2];
pub(super) type Color = [f64; 3];

/// An agent or a landmark, with its place and properties.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    pub(super) position: Point,
    pub(super) velocity: Point,
    /// Force of this step: the agent's action plus its contacts.
    pub(super) force: Point,
    pub(super) size: f64,
    /// Whether it pushes other colliding bodies, and is pushed by them.
    pub(super) collides: bool,
    pub(super) movable: bool,
    /// Whether the agent cannot talk.
    pub(super) silent: bool,
    /// Whether the agent plays against the good agents.
    pub(super) adversary: bool,
    /// Force of a push of strength 1.
    pub(super) accel: f64,
    pub(super) max_speed: f64,
    /// Loudness of each word of the scenario's vocabulary; the rest are zeros.
    pub(super) speech: [f64; MAX_WORDS],
    pub(super) color: Color,
}

impl Body {
    /// Makes an agent that moves, collides and says nothing.
    pub(super) fn agent(color: Color) -> Self {
        Self {
            position: [0.0; 2],
            velocity: [0.0; 2],
            force: [0.0; 2],
            size: 0.05,
            collides: true,
            movable: true,
            silent: true,
            adversary: false,
            accel: 5.0,
            max_speed: f64::INFINITY,
            speech: [0.0; MAX_WORDS],
            color,
        }
    }

    /// Makes a landmark that does not move, and that agents walk through.
    pub(super) fn landmark(color: Color) -> Self {
        Self { collides: false, movable: false, ..Self::agent(color) }
    }

    pub(super) fn distance(&self, other: &Self) -> f64 {
        norm(minus(self.position, other.position))
    }

    pub(super) fn square_distance(&self, other: &Self) -> f64 {
        let [x, y] = minus(self.position, other.position);
        x * x + y * y
    }

    pub(super) fn touches(&self, other: &Self) -> bool {
        self.distance(other) < self.size + other.size
    }

    /// Cost of leaving the picture along each axis, at most 10, so that an agent cannot flee for ever.
    pub(super) fn cost_of_leaving(&self) -> [f64; 2] {
        self.position.map(|x| {
            let x = x.abs();
            if x < 0.9 {
                0.0
            } else if x < 1.0 {
                (x - 0.9) * 10.0
            } else {
                (2.0 * x - 2.0).exp().min(10.0)
            }
        })
    }
}

/// All bodies of a scenario, and the state of its episode.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) names: Vec<String>,
    pub(super) agents: Vec<Body>,
    pub(super) landmarks: Vec<Body>,
    /// Number of words in the vocabulary.
    pub(super) words: usize,
    /// Indices of the landmarks that have a meaning in this episode; the scenario defines the meaning.
    pub(super) goals: [usize; 2],
    pub(super) curriculum_stage: usize,
}

impl World {
    pub(super) fn new(agents: Vec<(String, Body)>, landmarks: Vec<Body>) -> Self {
        let (names, agents) = agents.into_iter().unzip();
        Self { names, agents, landmarks, words: 0, goals: [0; 2], curriculum_stage: 0 }
    }

    /// Puts the agents at random points in -1..1 on both axes, at rest and silent.
    pub(super) fn place_agents(&mut self, random: &mut NpRandom) {
        place(&mut self.agents, 1.0, random);
    }

    /// Puts the landmarks at random points in `-range..range` on both axes.
    pub(super) fn place_landmarks(&mut self, range: f64, random: &mut NpRandom) {
        place(&mut self.landmarks, range, random);
    }

    pub(super) fn adversaries(&self) -> impl Iterator<Item = &Body> + Clone {
        self.agents.iter().filter(|agent| agent.adversary)
    }

    pub(super) fn good_agents(&self) -> impl Iterator<Item = &Body> + Clone {
        self.agents.iter().filter(|agent| !agent.adversary)
    }

    pub(super) fn others(&self, agent: usize) -> impl Iterator<Item = &Body> + Clone {
        self.agents.iter().enumerate().filter(move |(i, _)| *i != agent).map(|(_, other)| other)
    }

    /// The landmark that [`goals`](Self::goals) names at `i`.
    pub(super) fn goal(&self, i: usize) -> &Body {
        &self.landmarks[self.goals[i]]
    }

    /// Greatest absolute coordinate of any body.
    pub(super) fn range(&self) -> f64 {
        let points = self.agents.iter().chain(&self.landmarks).map(|body| body.position);
        points.flatten().fold(0.0, |most, x| x.abs().max(most))
    }

    /// Moves the agents by one step; their `force` holds those of the actions and gets those of the contacts.
    pub(super) fn step(&mut self) {
        self.push_apart();
        for Body { position, velocity, force, max_speed, .. } in self.agents.iter_mut().filter(|a| a.movable)
        {
            for axis in 0..2 {
                position[axis] += velocity[axis] * DT;
                velocity[axis] = velocity[axis] * (1.0 - DAMPING) + force[axis] * DT;
            }
            let speed = norm(*velocity);
            if speed > *max_speed {
                *velocity = velocity.map(|v| v / speed * *max_speed);
            }
        }
    }

    fn push_apart(&mut self) {
        for a in 0..self.agents.len() {
            let (agents, others) = self.agents.split_at_mut(a + 1);
            let agent = &mut agents[a];
            if !agent.collides {
                continue;
            }
            for other in others.iter_mut().filter(|other| other.collides) {
                let force = contact_force(agent, other);
                for (axis, force) in force.into_iter().enumerate() {
                    agent.force[axis] += force;
                    other.force[axis] += -force;
                }
            }
            for landmark in self.landmarks.iter().filter(|landmark| landmark.collides) {
                let force = contact_force(agent, landmark);
                for (axis, force) in force.into_iter().enumerate() {
                    agent.force[axis] += force;
                }
            }
        }
    }
}

/// Puts the bodies at random points in `-range..range` on both axes, at rest and silent.
pub(super) fn place(bodies: &mut [Body], range: f64, random: &mut NpRandom) {
    for body in bodies {
        body.position = [random.uniform(-range, range), random.uniform(-range, range)];
        body.velocity = [0.0; 2];
        body.speech = [0.0; MAX_WORDS];
    }
}

/// Force of `b` on `a` while both touch or nearly touch.
fn contact_force(a: &Body, b: &Body) -> Point {
    let delta = minus(a.position, b.position);
    let distance = norm(delta);
    let overlap = -(distance - (a.size + b.size)) / CONTACT_MARGIN;
    let penetration = log_add_exp_0(overlap) * CONTACT_MARGIN;
    delta.map(|delta| CONTACT_FORCE * delta / distance * penetration)
}

pub(super) fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

pub(super) fn norm([x, y]: Point) -> f64 {
    (x * x + y * y).sqrt()
}

/// The smallest distance; infinite if there are none.
pub(super) fn least(distances: impl Iterator<Item = f64>) -> f64 {
    distances.fold(f64::INFINITY, f64::min)
}

/// Computes numpy's `logaddexp(0, x)`.
fn log_add_exp_0(x: f64) -> f64 {
    if x == 0.0 {
        std::f64::consts::LN_2
    } else if x < 0.0 {
        x.exp().ln_1p()
    } else {
        x + (-x).exp().ln_1p()
    }
}
