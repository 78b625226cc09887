//! LunarLander: land between two flags with a main engine and two side engines.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::engine::{BodyDef, BodyState, Edge, FixtureDef, Polygon, RevoluteJointDef, Shape, Vec2, World};
use crate::{
    DType, Error, Frame, NpRandom, Result, Space, Step,
    native::dynamics::{Dynamics, NativeEnv},
};

mod action;
mod entries;
mod picture;

pub use action::LunarLanderAction;
pub(super) use entries::entries;

const FPS: f64 = 50.0;
/// Pixels per meter.
const SCALE: f64 = 30.0;
const WIDTH: f64 = 600.0 / SCALE;
const HEIGHT: f64 = 400.0 / SCALE;
const MAIN_ENGINE_POWER: f64 = 13.0;
const SIDE_ENGINE_POWER: f64 = 0.6;
const MAIN_ENGINE_Y: f64 = 4.0;
const SIDE_ENGINE_HEIGHT: f64 = 14.0;
const SIDE_ENGINE_AWAY: f64 = 12.0;
/// Largest strength of the random push at the start, in newtons in either direction.
const FIRST_PUSH: f64 = 1000.0;
const LANDER: [(f64, f64); 6] =
    [(-14.0, 17.0), (-17.0, 0.0), (-17.0, -10.0), (17.0, -10.0), (17.0, 0.0), (14.0, 17.0)];
const LEG_AWAY: f64 = 20.0;
const LEG_DOWN: f64 = 18.0;
/// Half the width and height of a leg, in pixels.
const LEG_SIZE: (f64, f64) = (2.0, 8.0);
const LEG_TORQUE: f64 = 40.0;
const HELIPAD_Y: f64 = HEIGHT / 4.0;
/// Number of fixtures: the pieces of the ground and one below, the hull and two legs.
const FIXTURES: usize = CHUNKS + 3;
/// Number of points of the ground, one more than it has pieces.
const CHUNKS: usize = 11;
/// Indices of the bodies, in the order of their creation.
const MOON: usize = 0;
const HULL: usize = 1;
const LEGS: [usize; 2] = [2, 3];
/// Number of bodies in Box2D during an episode: the ground, the hull and two legs.
const BODIES: usize = LEGS[1] + 1;
const PURPLE: [u8; 3] = [128, 102, 230];
const DARK: [u8; 3] = [77, 77, 128];
const YELLOW: [u8; 3] = [204, 204, 0];
const WHITE: [u8; 3] = [255; 3];

/// Settings of LunarLander; the defaults are those of `LunarLander-v3`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LunarLanderConfig {
    /// Gravity in m/s^2, between -12 and 0.
    pub gravity: f64,
    /// Whether wind pushes and turns the lander until a leg touches the ground.
    pub enable_wind: bool,
    /// Largest force of the wind; 0 to 20 is recommended.
    pub wind_power: f64,
    /// Largest torque of the wind; 0 to 2 is recommended.
    pub turbulence_power: f64,
}

impl Default for LunarLanderConfig {
    fn default() -> Self {
        Self { gravity: -10.0, enable_wind: false, wind_power: 15.0, turbulence_power: 1.5 }
    }
}

/// A LunarLander environment, equal to Gymnasium's `LunarLander-v3`.
///
/// | | |
/// |---|---|
/// | observation | x and y from the pad, both velocities, angle, angular velocity, whether each leg touches the ground |
/// | action of `LunarLander<i64>` | 0 nothing, 1 left engine, 2 main engine, 3 right engine |
/// | action of `LunarLander<f32>` | throttle of the main engine (off up to 0), throttle of the side engines (off within 0.5 of 0) |
/// | reward | improvement in distance, speed and angle, minus fuel; -100 for a crash, 100 for coming to rest |
/// | start | at the top, pushed at random |
/// | terminated | the body touches the ground, the lander leaves the picture sideways, or it comes to rest |
pub type LunarLander<A = i64> = NativeEnv<LunarLanderDynamics<A>>;

/// Rules and state of [`LunarLander`]: the lander and the ground in Box2D.
#[derive(Clone, Debug)]
pub struct LunarLanderDynamics<A: LunarLanderAction> {
    config: LunarLanderConfig,
    world: World,
    /// Positions in the patterns of the wind's force and of its torque.
    wind: [i64; 2],
    game_over: bool,
    leg_contact: [bool; 2],
    shaping: Option<f64>,
    action: std::marker::PhantomData<A>,
}

impl<A: LunarLanderAction> LunarLander<A> {
    /// Creates a lander; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `gravity` is not between -12 and 0, or if a power of the wind is not finite.
    pub fn new(config: LunarLanderConfig) -> Result<Self> {
        let LunarLanderConfig { gravity, wind_power, turbulence_power, .. } = config;
        let refuse = |message: String| Err(Error::Config { env: "LunarLander".into(), message });
        if !(gravity > -12.0 && gravity < 0.0) {
            return refuse(format!("`gravity` is {gravity}, but it must be between -12 and 0"));
        }
        for (name, power) in [("wind_power", wind_power), ("turbulence_power", turbulence_power)] {
            if !power.is_finite() {
                return refuse(format!("`{name}` is {power}, but it must be finite"));
            }
        }
        Ok(Self::of(LunarLanderDynamics {
            config,
            world: World::new(Vec2::new(0.0, gravity as f32)),
            wind: [0; 2],
            game_over: false,
            leg_contact: [false; 2],
            shaping: None,
            action: std::marker::PhantomData,
        }))
    }

    /// Returns the bodies in Box2D's order: the ground, the lander, its right leg, its left leg; none before the first
    /// reset.
    pub fn bodies(&self) -> impl Iterator<Item = BodyState> {
        self.dynamics.world.states()
    }
}

impl<A: LunarLanderAction> LunarLanderDynamics<A> {
    fn build(&mut self, random: &mut NpRandom) {
        let mut height: [f64; CHUNKS + 1] = std::array::from_fn(|_| random.uniform(0.0, HEIGHT / 2.0));
        let chunk_x: [f64; CHUNKS] = std::array::from_fn(|i| WIDTH / (CHUNKS - 1) as f64 * i as f64);
        height[CHUNKS / 2 - 2..=CHUNKS / 2 + 2].fill(HELIPAD_Y);
        // The point before the first is the last, because index -1 in Python is the last element.
        let smooth_y: [f64; CHUNKS] = std::array::from_fn(|i| {
            let before = if i == 0 { height[CHUNKS] } else { height[i - 1] };
            0.33 * (before + height[i] + height[i + 1])
        });
        let world = &mut self.world;
        world.clear();
        world.reserve(FIXTURES);
        world.create_body(BodyDef { is_dynamic: false, position: Vec2::default(), angle: 0.0 });
        world.create_fixture(FixtureDef::new(Shape::Edge(Edge::new(point(0.0, 0.0), point(WIDTH, 0.0)))));
        for i in 0..CHUNKS - 1 {
            let edge = Edge::new(point(chunk_x[i], smooth_y[i]), point(chunk_x[i + 1], smooth_y[i + 1]));
            world.create_fixture(FixtureDef { friction: 0.1, ..FixtureDef::new(Shape::Edge(edge)) });
        }
        let x = WIDTH / 2.0;
        let y = HEIGHT;
        world.create_body(BodyDef { is_dynamic: true, position: point(x, y), angle: 0.0 });
        let corners = LANDER.map(|(x, y)| point(x / SCALE, y / SCALE));
        world.create_fixture(FixtureDef {
            shape: Shape::Polygon(Polygon::hull(&corners)),
            density: 5.0,
            friction: 0.1,
            category: 0x10,
            mask: 0x1,
        });
        let mut push = || random.uniform(-FIRST_PUSH, FIRST_PUSH);
        let push = point(push(), push());
        world.body_mut(HULL).apply_force_to_center(push);
        if self.config.enable_wind {
            self.wind = [(); 2].map(|()| random.integers(-9999, 9999));
        }
        for i in [-1.0, 1.0] {
            let position = point(x - i * LEG_AWAY / SCALE, y);
            let leg = world.create_body(BodyDef { is_dynamic: true, position, angle: (i * 0.05) as f32 });
            let shape = Polygon::rectangle((LEG_SIZE.0 / SCALE) as f32, (LEG_SIZE.1 / SCALE) as f32);
            world.create_fixture(FixtureDef {
                density: 1.0,
                category: 0x20,
                mask: 0x1,
                ..FixtureDef::new(Shape::Polygon(shape))
            });
            let (lower, upper) = if i < 0.0 { (0.9 - 0.5, 0.9) } else { (-0.9, -0.9 + 0.5) };
            world.create_joint(RevoluteJointDef {
                bodies: [HULL, leg],
                local_anchors: [Vec2::default(), point(i * LEG_AWAY / SCALE, LEG_DOWN / SCALE)],
                lower_angle: lower as f32,
                upper_angle: upper as f32,
                max_motor_torque: LEG_TORQUE as f32,
                motor_speed: (0.3 * i) as f32,
            });
        }
    }

    fn blow(&mut self) {
        let strength = |index: i64, power: f64| {
            let index = index as f64;
            ((0.02 * index).sin() + (PI * 0.01 * index).sin()).tanh() * power
        };
        let [push, torque] = self.wind;
        let lander = self.world.body_mut(HULL);
        lander.apply_force_to_center(point(strength(push, self.config.wind_power), 0.0));
        lander.apply_torque(strength(torque, self.config.turbulence_power) as f32);
        self.wind = [push.wrapping_add(1), torque.wrapping_add(1)];
    }

    /// Fires the engines; returns the power of the main engine and of the side engine.
    fn fire(&mut self, action: &[A], random: &mut NpRandom) -> (f64, f64) {
        let lander = self.world.body_mut(HULL);
        let angle = f64::from(lander.angle());
        let tip = (angle.sin(), angle.cos());
        let side = (-tip.1, tip.0);
        let dispersion = [(); 2].map(|()| random.uniform(-1.0, 1.0) / SCALE);
        let position = lander.position();
        let x = f64::from(position.x);
        let y = f64::from(position.y);
        let main = A::main_power(action);
        if main > 0.0 {
            let down = MAIN_ENGINE_Y / SCALE + 2.0 * dispersion[0];
            let ox = tip.0 * down + side.0 * dispersion[1];
            let oy = -tip.1 * down - side.1 * dispersion[1];
            let impulse = point(-ox * MAIN_ENGINE_POWER * main, -oy * MAIN_ENGINE_POWER * main);
            lander.apply_linear_impulse(impulse, point(x + ox, y + oy));
        }
        let (direction, power) = A::side_power(action);
        if power > 0.0 {
            let away = 3.0 * dispersion[1] + direction * SIDE_ENGINE_AWAY / SCALE;
            let ox = tip.0 * dispersion[0] + side.0 * away;
            let oy = -tip.1 * dispersion[0] - side.1 * away;
            // 17 and 14 are Gymnasium's numbers: the engine moves a little when the lander turns.
            let at = point(x + ox - tip.0 * 17.0 / SCALE, y + oy + tip.1 * SIDE_ENGINE_HEIGHT / SCALE);
            let impulse = point(-ox * SIDE_ENGINE_POWER * power, -oy * SIDE_ENGINE_POWER * power);
            lander.apply_linear_impulse(impulse, at);
        }
        (main, power)
    }

    fn hear_contacts(&mut self) {
        for event in self.world.events() {
            self.game_over |= event.began && event.bodies.contains(&HULL);
            for (contact, leg) in self.leg_contact.iter_mut().zip(LEGS) {
                if event.bodies.contains(&leg) {
                    *contact = event.began;
                }
            }
        }
    }
}

impl<A: LunarLanderAction> Dynamics for LunarLanderDynamics<A> {
    type Obs = f32;
    type Act = A;
    type Saved = Saved;

    fn name(&self) -> &str {
        "LunarLander"
    }

    fn observation_space(&self) -> Space {
        let high = [2.5, 2.5, 10.0, 10.0, 2.0 * PI, 10.0].map(|high| f64::from(high as f32));
        let low = high.iter().map(|high| -high).chain([-0.0, -0.0]).collect();
        let high = high.into_iter().chain([1.0, 1.0]).collect();
        Space::Box { low, high, shape: vec![8], dtype: DType::F32 }
    }

    fn action_space(&self) -> Space {
        A::space()
    }

    fn takes(&self, action: &[A]) -> bool {
        A::is_valid(action)
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [f32]) -> Result<()> {
        self.game_over = false;
        self.leg_contact = [false; 2];
        self.shaping = None;
        self.build(random);
        self.advance(A::NOTHING, random, obs);
        Ok(())
    }

    fn advance(&mut self, action: &[A], random: &mut NpRandom, obs: &mut [f32]) -> Step {
        if self.config.enable_wind && !self.leg_contact.contains(&true) {
            self.blow();
        }
        let (main, side) = self.fire(action, random);
        self.world.step((1.0 / FPS) as f32, 180, 60);
        self.hear_contacts();
        let lander = self.world.body(HULL);
        let position = lander.position();
        let velocity = lander.linear_velocity();
        let leg = self.leg_contact.map(|contact| if contact { 1.0 } else { 0.0 });
        let state = [
            (f64::from(position.x) - WIDTH / 2.0) / (WIDTH / 2.0),
            (f64::from(position.y) - (HELIPAD_Y + LEG_DOWN / SCALE)) / (HEIGHT / 2.0),
            f64::from(velocity.x) * (WIDTH / 2.0) / FPS,
            f64::from(velocity.y) * (HEIGHT / 2.0) / FPS,
            f64::from(lander.angle()),
            20.0 * f64::from(lander.angular_velocity()) / FPS,
            leg[0],
            leg[1],
        ];
        let shaping = -100.0 * (state[0] * state[0] + state[1] * state[1]).sqrt()
            - 100.0 * (state[2] * state[2] + state[3] * state[3]).sqrt()
            - 100.0 * state[4].abs()
            + 10.0 * state[6]
            + 10.0 * state[7];
        let mut reward = self.shaping.map_or(0.0, |before| shaping - before);
        self.shaping = Some(shaping);
        reward -= main * 0.30;
        reward -= side * 0.03;
        let mut terminated = false;
        if self.game_over || state[0].abs() >= 1.0 {
            terminated = true;
            reward = -100.0;
        }
        if !lander.is_awake() {
            terminated = true;
            reward = 100.0;
        }
        for (obs, value) in obs.iter_mut().zip(state) {
            *obs = value as f32;
        }
        Step { reward, terminated, truncated: false }
    }

    fn draw(&mut self) -> Option<Frame> {
        self.picture()
    }

    fn fps(&self) -> f64 {
        FPS
    }

    fn save(&self) -> impl Serialize {
        (self.wind, self.shaping, (self.game_over, self.leg_contact), &self.world)
    }

    fn load(&mut self, (wind, shaping, flags, world): Saved, running: bool) -> Result<()> {
        world.check()?;
        match world.states().count() {
            0 if !running => {}
            BODIES => {}
            _ => return Err(Error::state("it holds another number of bodies; it is damaged")),
        }
        (self.game_over, self.leg_contact) = flags;
        (self.wind, self.shaping, self.world) = (wind, shaping, world);
        Ok(())
    }
}

/// Fields of a saved state: places in the patterns of the wind, last shaping, flags, bodies.
type Saved = ([i64; 2], Option<f64>, (bool, [bool; 2]), World);

fn point(x: f64, y: f64) -> Vec2 {
    Vec2::new(x as f32, y as f32)
}
