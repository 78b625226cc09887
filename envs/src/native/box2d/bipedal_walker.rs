//! BipedalWalker: walk on two legs over rough ground.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::super::entry::{Entry, single};
use super::engine::{BodyDef, BodyState, FixtureDef, Polygon, RevoluteJointDef, Shape, Vec2, World};
use crate::native::dynamics::{Dynamics, NativeEnv};
use crate::{DType, Error, Frame, NpRandom, Result, Space, Step};
use terrain::{CLOUDS, Cloud, GRASS, LENGTH, START_PAD, sign};

mod picture;
mod terrain;

const FPS: f64 = 50.0;
/// Pixels per meter.
const SCALE: f64 = 30.0;
const WIDTH: f64 = 600.0 / SCALE;
const HEIGHT: f64 = 400.0 / SCALE;
const MOTOR_TORQUE: f64 = 80.0;
const SPEED_HIP: f64 = 4.0;
const SPEED_KNEE: f64 = 6.0;
const RAYS: usize = 10;
const LIDAR_RANGE: f64 = 160.0 / SCALE;
/// Largest strength of the random push at the start, in newtons in either direction.
const FIRST_PUSH: f64 = 5.0;
const HULL: [(f64, f64); 5] = [(-30.0, 9.0), (6.0, 9.0), (34.0, 1.0), (34.0, -8.0), (-30.0, -8.0)];
const LEG_DOWN: f64 = -8.0 / SCALE;
const LEG_W: f64 = 8.0 / SCALE;
const LEG_H: f64 = 34.0 / SCALE;
const TERRAIN_STEP: f64 = 14.0 / SCALE;
const TERRAIN_HEIGHT: f64 = 400.0 / SCALE / 4.0;
/// Capacity for fixtures, more than the ground and the walker need.
const MAX_FIXTURES: usize = 256;
/// Collision category of the ground, on which legs stand and which rays hit.
const GROUND: u16 = 0x1;
const WALKER: u16 = 0x20;
/// Number of the walker's bodies: the hull, and thigh and shin of each leg.
const PARTS: usize = 5;
/// Indices of the shins among the walker's bodies.
const SHINS: [usize; 2] = [2, 4];

/// Settings of BipedalWalker; the defaults are those of `BipedalWalker-v3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BipedalWalkerConfig {
    /// Whether there are stumps, stairs and pits in the way.
    pub hardcore: bool,
}

/// A BipedalWalker environment, equal to Gymnasium's `BipedalWalker-v3`.
///
/// | | |
/// |---|---|
/// | observation | hull: angle, angular velocity, velocities; per leg: angle and speed of hip and knee, ground contact; ten distances to the ground as fractions of 5.33 m |
/// | actions | hip and knee of either leg: direction and strength of the motor, -1..=1 |
/// | reward | 130/30 per meter forward, minus a penalty for tilt and for motor torque; -100 for a fall |
/// | start | on its feet at the left end, pushed at random |
/// | terminated | the hull touches the ground, or the walker leaves it at either end |
///
/// A reset without a seed continues with the same Box2D world, as in Gymnasium: the order in which contacts are solved, and
/// so the last digits, depends on earlier episodes. A reset with a seed starts a new world, like a new environment in
/// Gymnasium. Gymnasium itself keeps the old world in this case, so its episodes are not functions of their seeds.
pub type BipedalWalker = NativeEnv<BipedalWalkerDynamics>;

/// Rules and state of [`BipedalWalker`]: the walker and the ground in Box2D.
#[derive(Clone, Debug)]
pub struct BipedalWalkerDynamics {
    config: BipedalWalkerConfig,
    world: World,
    /// End points of the lidar rays relative to the hull, at full range.
    rays: [(f64, f64); RAYS],
    lidar: [f32; RAYS],
    /// Number of bodies of the ground; the walker's bodies follow them.
    ground: usize,
    heights: [f64; LENGTH],
    clouds: [Cloud; CLOUDS],
    game_over: bool,
    shin_contact: [bool; 2],
    shaping: Option<f64>,
    /// Number of pictures drawn so far, which decides the lidar ray in the next one.
    pictures: usize,
}

impl BipedalWalker {
    /// Creates a walker; call `reset` before the first step.
    pub fn new(config: BipedalWalkerConfig) -> Self {
        let ray = |i: usize| {
            let angle = 1.5 * i as f64 / 10.0;
            (angle.sin() * LIDAR_RANGE, angle.cos() * LIDAR_RANGE)
        };
        Self::of(BipedalWalkerDynamics {
            config,
            world: World::new(Vec2::new(0.0, -10.0)),
            rays: std::array::from_fn(ray),
            lidar: [1.0; RAYS],
            ground: 0,
            heights: [0.0; LENGTH],
            clouds: [[[0.0; 2]; 5]; CLOUDS],
            game_over: false,
            shin_contact: [false; 2],
            shaping: None,
            pictures: 0,
        })
    }

    /// Returns the bodies in Box2D's order: those of the ground, then the hull, then thigh and shin of each leg. There are
    /// none before the first reset.
    pub fn bodies(&self) -> impl Iterator<Item = BodyState> {
        self.dynamics.world.states()
    }
}

impl BipedalWalkerDynamics {
    fn was_reset(&self) -> bool {
        self.ground > 0
    }

    fn build(&mut self, random: &mut NpRandom) {
        let Self { world, ground, .. } = self;
        // The order in which Gymnasium destroys bodies decides where the next ones come in Box2D's tree.
        world.destroy_bodies((0..*ground).rev().chain(*ground..world.states().count()));
        world.reserve(MAX_FIXTURES);
        *ground = terrain::generate(world, random, self.config.hardcore, &mut self.heights);
        self.clouds = terrain::clouds(random);
        let x = TERRAIN_STEP * START_PAD as f64 / 2.0;
        let y = TERRAIN_HEIGHT + 2.0 * LEG_H;
        let corners = HULL.map(|(x, y)| point(x / SCALE, y / SCALE));
        let walker = |shape, density, friction| FixtureDef {
            shape,
            density,
            friction,
            category: WALKER,
            mask: GROUND,
        };
        let hull = world.create_body(BodyDef { is_dynamic: true, position: point(x, y), angle: 0.0 });
        world.create_fixture(walker(Shape::Polygon(Polygon::hull(&corners)), 5.0, 0.1));
        let push = random.uniform(-FIRST_PUSH, FIRST_PUSH);
        world.body_mut(hull).apply_force_to_center(point(push, 0.0));
        for i in [-1.0, 1.0] {
            let angle = (i * 0.05) as f32;
            let position = point(x, y - LEG_H / 2.0 - LEG_DOWN);
            let thigh = world.create_body(BodyDef { is_dynamic: true, position, angle });
            let shape = Polygon::rectangle((LEG_W / 2.0) as f32, (LEG_H / 2.0) as f32);
            world.create_fixture(walker(Shape::Polygon(shape), 1.0, 0.2));
            world.create_joint(RevoluteJointDef {
                bodies: [hull, thigh],
                local_anchors: [point(0.0, LEG_DOWN), point(0.0, LEG_H / 2.0)],
                lower_angle: -0.8,
                upper_angle: 1.1,
                max_motor_torque: MOTOR_TORQUE as f32,
                motor_speed: i as f32,
            });
            let position = point(x, y - LEG_H * 3.0 / 2.0 - LEG_DOWN);
            let shin = world.create_body(BodyDef { is_dynamic: true, position, angle });
            let shape = Polygon::rectangle((0.8 * LEG_W / 2.0) as f32, (LEG_H / 2.0) as f32);
            world.create_fixture(walker(Shape::Polygon(shape), 1.0, 0.2));
            world.create_joint(RevoluteJointDef {
                bodies: [thigh, shin],
                local_anchors: [point(0.0, -LEG_H / 2.0), point(0.0, LEG_H / 2.0)],
                lower_angle: -1.6,
                upper_angle: -0.1,
                max_motor_torque: MOTOR_TORQUE as f32,
                motor_speed: 1.0,
            });
        }
    }

    fn hear_contacts(&mut self) {
        for event in self.world.events() {
            self.game_over |= event.began && event.bodies.contains(&self.ground);
            for (contact, shin) in self.shin_contact.iter_mut().zip(SHINS) {
                if event.bodies.contains(&(self.ground + shin)) {
                    *contact = event.began;
                }
            }
        }
    }

    fn look(&mut self) {
        let from = self.world.body(self.ground).position();
        let x = f64::from(from.x);
        let y = f64::from(from.y);
        for (fraction, ray) in self.lidar.iter_mut().zip(self.rays) {
            let to = point(x + ray.0, y - ray.1);
            *fraction = self.world.ray_cast(from, to, GROUND).unwrap_or(1.0);
        }
    }

    fn step(&mut self, action: [f32; 4], obs: &mut [f32]) -> Step {
        for (joint, value) in action.into_iter().enumerate() {
            let speed = if joint % 2 == 0 { SPEED_HIP } else { SPEED_KNEE } * sign(f64::from(value));
            let torque = MOTOR_TORQUE as f32 * value.abs().clamp(0.0, 1.0);
            self.world.set_motor(joint, speed as f32, torque);
        }
        self.world.step((1.0 / FPS) as f32, 180, 60);
        self.hear_contacts();
        self.look();

        let hull = self.world.body(self.ground);
        let x = f64::from(hull.position().x);
        let velocity = hull.linear_velocity();
        let angle = f64::from(hull.angle());
        let contact = self.shin_contact.map(|contact| if contact { 1.0 } else { 0.0 });
        let [hip1, knee1, hip2, knee2] = [0, 1, 2, 3].map(|joint| {
            let (angle, speed) = self.world.joint_motion(joint);
            let (offset, unit) = if joint % 2 == 0 { (0.0, SPEED_HIP) } else { (1.0, SPEED_KNEE) };
            [f64::from(angle) + offset, f64::from(speed) / unit]
        });
        let state = [
            angle,
            2.0 * f64::from(hull.angular_velocity()) / FPS,
            0.3 * f64::from(velocity.x) * WIDTH / FPS,
            0.3 * f64::from(velocity.y) * HEIGHT / FPS,
            hip1[0],
            hip1[1],
            knee1[0],
            knee1[1],
            contact[0],
            hip2[0],
            hip2[1],
            knee2[0],
            knee2[1],
            contact[1],
        ];
        let (body, lidar) = obs.split_at_mut(state.len());
        for (obs, value) in body.iter_mut().zip(state) {
            *obs = value as f32;
        }
        lidar.copy_from_slice(&self.lidar);

        let shaping = 130.0 * x / SCALE - 5.0 * angle.abs();
        // Numpy computes these costs in single precision, and so the reward from here on.
        let mut reward = self.shaping.map_or(0.0, |before| shaping - before) as f32;
        self.shaping = Some(shaping);
        for value in action {
            reward -= (0.00035 * MOTOR_TORQUE) as f32 * value.abs().clamp(0.0, 1.0);
        }
        let fell = self.game_over || x < 0.0;
        let arrived = x > (LENGTH as f64 - GRASS as f64) * TERRAIN_STEP;
        Step {
            reward: if fell { -100.0 } else { f64::from(reward) },
            terminated: fell || arrived,
            truncated: false,
        }
    }
}

impl Dynamics for BipedalWalkerDynamics {
    type Obs = f32;
    type Act = f32;
    type Saved = Saved;

    fn name(&self) -> &str {
        "BipedalWalker"
    }

    fn observation_space(&self) -> Space {
        let leg = [PI, 5.0, PI, 5.0, 5.0];
        let high = [PI, 5.0, 5.0, 5.0].into_iter().chain(leg).chain(leg).chain([1.0; RAYS]);
        let high: Vec<f64> = high.map(|high| f64::from(high as f32)).collect();
        let mut low: Vec<f64> = high.iter().map(|high| -high).collect();
        // The lower bounds of the two leg contacts are -0.0 in Gymnasium.
        low[8] = -0.0;
        low[13] = -0.0;
        let shape = vec![high.len()];
        Space::Box { low, high, shape, dtype: DType::F32 }
    }

    fn action_space(&self) -> Space {
        Space::boxed(-1.0, 1.0, &[4])
    }

    fn takes(&self, action: &[f32]) -> bool {
        action.len() == 4 && action.iter().all(|value| value.is_finite())
    }

    /// Empties the world: an episode must not depend on what it remembers, only on its seed.
    fn forget(&mut self) {
        self.world.clear();
        self.ground = 0;
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [f32]) -> Result<()> {
        self.game_over = false;
        self.shin_contact = [false; 2];
        self.shaping = None;
        self.build(random);
        self.step([0.0; 4], obs);
        Ok(())
    }

    fn advance(&mut self, action: &[f32], _random: &mut NpRandom, obs: &mut [f32]) -> Step {
        self.step(std::array::from_fn(|joint| action[joint]), obs)
    }

    fn draw(&mut self) -> Option<Frame> {
        self.pictures += 1;
        self.picture()
    }

    fn fps(&self) -> f64 {
        FPS
    }

    fn save(&self) -> impl Serialize {
        let ground = (self.ground, &self.heights[..]);
        let flags = (self.game_over, self.shin_contact);
        (self.shaping, ground, &self.clouds, self.lidar, flags, &self.world)
    }

    fn load(&mut self, (shaping, ground, clouds, lidar, flags, world): Saved, running: bool) -> Result<()> {
        let damaged = || Error::state("it holds another number of bodies or of points; it is damaged");
        let (ground, heights) = ground;
        world.check()?;
        let (parts, joints) = if ground > 0 { (PARTS, PARTS - 1) } else { (0, 0) };
        if world.states().count().checked_sub(ground) != Some(parts)
            || world.joints() != joints
            || (running && ground == 0)
        {
            return Err(damaged());
        }
        self.heights = heights.try_into().map_err(|_| damaged())?;
        (self.game_over, self.shin_contact) = flags;
        (self.shaping, self.ground, self.clouds) = (shaping, ground, clouds);
        (self.lidar, self.world) = (lidar, world);
        Ok(())
    }
}

/// Fields of a saved state: last shaping, ground, clouds, lidar, flags, bodies.
type Saved = (Option<f64>, (usize, Vec<f64>), [Cloud; CLOUDS], [f32; RAYS], (bool, [bool; 2]), World);

fn point(x: f64, y: f64) -> Vec2 {
    Vec2::new(x as f32, y as f32)
}

/// Returns the registry entries of BipedalWalker.
pub(super) fn entries() -> Vec<Entry> {
    let make = |config| Ok(BipedalWalker::new(config));
    let summary = "walk on two legs over rough ground";
    let hardcore = "walk on two legs over stumps, stairs and pits";
    vec![
        single("BipedalWalker-v3", summary, Some(1600), Some(300.0), None, make),
        single(
            "BipedalWalkerHardcore-v3",
            hardcore,
            Some(2000),
            Some(300.0),
            Some(("hardcore", true.into())),
            make,
        ),
    ]
}
