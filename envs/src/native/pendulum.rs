//! Pendulum: swing a pendulum up and hold it there with a motor that is too weak to lift it at once.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::draw;
use crate::{
    Env, Error, Frame, NpRandom, Result, Space, Step,
    state::{StateReader, StateWriter},
};

const TAG: &str = "pendulum";

const MOST_SPEED: f64 = 8.0;
const MOST_TORQUE: f32 = 2.0;
/// Seconds per step.
const DT: f64 = 0.05;

/// Settings of Pendulum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendulumConfig {
    /// Gravity, m/s^2.
    pub g: f64,
}

impl Default for PendulumConfig {
    fn default() -> Self {
        Self { g: 10.0 }
    }
}

/// One Pendulum without a time limit; mass 1 kg, length 1 m.
///
/// | | |
/// |---|---|
/// | observation | cos and sin of the angle (0 is upright), angular velocity in -8..8 |
/// | action | torque in -2..2; values outside are cut to that |
/// | reward | -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), all before the step |
/// | start | angle uniform in -pi..pi, velocity in -1..1 |
/// | terminated | never |
#[derive(Clone, Debug)]
pub struct Pendulum {
    config: PendulumConfig,
    random: NpRandom,
    /// Angle (not wrapped) and angular velocity.
    state: [f64; 2],
    last_torque: Option<f32>,
}

impl Pendulum {
    /// A pendulum that waits for its first reset.
    pub fn new(config: PendulumConfig) -> Self {
        Self { config, random: NpRandom::new(0), state: [PI, 0.0], last_torque: None }
    }

    /// Angle (not wrapped) and angular velocity in double precision.
    pub fn state(&self) -> [f64; 2] {
        self.state
    }

    /// Continues an episode from another state.
    pub fn set_state(&mut self, state: [f64; 2]) {
        self.state = state;
    }

    fn observe(&self, obs: &mut [f32]) {
        let [theta, speed] = self.state;
        obs.copy_from_slice(&[theta.cos() as f32, theta.sin() as f32, speed as f32]);
    }
}

impl Env for Pendulum {
    type Obs = f32;
    type Act = f32;

    fn observation_space(&self) -> Space {
        let high = vec![1.0, 1.0, MOST_SPEED];
        let low = high.iter().map(|high| -high).collect();
        Space::Box { low, high, shape: vec![3], dtype: crate::DType::F32 }
    }

    fn action_space(&self) -> Space {
        Space::boxed(f64::from(-MOST_TORQUE), f64::from(MOST_TORQUE), &[1])
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        self.state = [self.random.uniform(-PI, PI), self.random.uniform(-1.0, 1.0)];
        self.last_torque = None;
        self.observe(obs);
        Ok(())
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32]) -> Result<Step> {
        let torque = match *action {
            [torque] if !torque.is_nan() => torque.clamp(-MOST_TORQUE, MOST_TORQUE),
            _ => return Err(Error::invalid_action("Pendulum", action, &self.action_space())),
        };
        let [theta, speed] = self.state;
        // numpy keeps torque terms in single precision until they meet the state.
        let cost = square(wrap(theta)) + 0.1 * square(speed) + f64::from(0.001 * (torque * torque));
        let acceleration = 3.0 * self.config.g / 2.0 * theta.sin() + f64::from(3.0 * torque);
        let speed = (speed + acceleration * DT).clamp(-MOST_SPEED, MOST_SPEED);
        self.state = [theta + speed * DT, speed];
        self.last_torque = Some(torque);
        self.observe(obs);
        Ok(Step { reward: -cost, terminated: false, truncated: false })
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(draw_pendulum(self.state[0] as f32, self.last_torque.unwrap_or(0.0)))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let mut state = StateWriter::new(TAG);
        self.state.iter().for_each(|&value| state.f64(value));
        state.bytes(&self.random.to_bytes());
        state.seed(self.last_torque.map(|torque| u64::from(torque.to_bits())));
        Some(state.finish())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut state = StateReader::new(TAG, state)?;
        self.state = [state.f64()?, state.f64()?];
        let bytes = state.bytes()?.try_into().map_err(|_| Error::state("the random stream is damaged"))?;
        self.random = NpRandom::from_bytes(bytes);
        self.last_torque = state.seed()?.map(|bits| f32::from_bits(bits as u32));
        state.finish()
    }
}

/// The angle in -pi..pi, by Python's `%`.
fn wrap(angle: f64) -> f64 {
    (angle + PI).rem_euclid(2.0 * PI) - PI
}

/// numpy squares a double with the C library's `pow`, which differs from `x * x` in the last bit now
/// and then; the compiler would turn a plain `powf(2.0)` into a product.
fn square(x: f64) -> f64 {
    x.powf(std::hint::black_box(2.0))
}

/// The picture Gymnasium draws: 500 x 500, 4.4 m wide; the arc shows the torque.
fn draw_pendulum(theta: f32, torque: f32) -> Option<Frame> {
    const SIZE: f32 = 500.0;
    const RED: [u8; 3] = [204, 77, 77];
    let scale = SIZE / 4.4;
    let (center, half_width) = ((SIZE / 2.0, SIZE / 2.0), 0.1 * scale);
    let up = theta + std::f32::consts::FRAC_PI_2;
    let mut canvas = draw::Canvas::new(500, 500)?;
    let rod = [(0.0, -half_width), (0.0, half_width), (scale, half_width), (scale, -half_width)];
    canvas.polygon(&rod.map(|corner| draw::turn(corner, up, center)), RED);
    canvas.circle(center, half_width.trunc(), RED);
    canvas.circle(draw::turn((scale, 0.0), up, center), half_width.trunc(), RED);
    if torque != 0.0 {
        canvas.turning_arrow(center, scale * torque.abs() / 4.0, torque > 0.0, draw::BLACK);
    }
    canvas.circle(center, (0.05 * scale).trunc(), draw::BLACK);
    Some(canvas.into_frame())
}
