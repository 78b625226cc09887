//! Pendulum: swing a pendulum up and hold it there with a motor that is too weak to lift it at once.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::{
    classic::{Classic, ClassicControl, StartOptions, symmetric_box},
    classic_vector::ClassicVector,
};
use crate::native::dynamics::NativeEnv;
use crate::native::numpy_math::{square, square_f32};
use crate::render::draw;
use crate::{Error, Frame, NpRandom, Result, Space};

const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;
/// Simulated seconds per step.
const DT: f64 = 0.05;

/// Settings of Pendulum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendulumConfig {
    /// Gravity, in m/s^2.
    pub g: f64,
}

impl Default for PendulumConfig {
    fn default() -> Self {
        Self { g: 10.0 }
    }
}

/// Ranges of the first state of an episode, as in the `options` of Gymnasium's `reset`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendulumReset {
    /// Bound of the angle, in radians: it is drawn from `-x_init..x_init`.
    pub x_init: f64,
    /// Bound of the angular velocity, in rad/s: it is drawn from `-y_init..y_init`.
    pub y_init: f64,
}

impl StartOptions for PendulumReset {
    fn check(&self) -> Result<()> {
        let Self { x_init, y_init } = *self;
        let is_bound = |x: f64| x.is_finite() && x >= 0.0;
        if is_bound(x_init) && is_bound(y_init) {
            return Ok(());
        }
        let found = format!("{x_init} and {y_init}");
        Err(Error::shape("`x_init` and `y_init` of a reset", found, "finite numbers of 0 or more"))
    }
}

/// One Pendulum without a time limit; its mass is 1 kg, its length 1 m.
///
/// | | |
/// |---|---|
/// | observation | cos and sin of the angle (0 is upright), angular velocity in -8..8 |
/// | action | torque in -2..2; values outside are clipped |
/// | reward | -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), with angle and velocity before the step |
/// | start | angle uniform in -pi..pi, velocity in -1..1 |
/// | terminated | never |
///
/// The state is the angle (not wrapped), the angular velocity, and the last torque, which is only for rendering.
pub type Pendulum = NativeEnv<Classic<PendulumConfig, 3, 3>>;

/// Many Pendulums stepped together.
pub type PendulumVector = ClassicVector<PendulumConfig, 3, 3>;

impl ClassicControl<3, 3> for PendulumConfig {
    type Act = f32;
    const NAME: &'static str = "Pendulum";
    const RENDER_FPS: f64 = 30.0;

    fn observation_space(&self) -> Space {
        symmetric_box([1.0, 1.0, MAX_SPEED as f32])
    }

    fn action_space(&self) -> Space {
        Space::boxed(f64::from(-MAX_TORQUE), f64::from(MAX_TORQUE), &[1])
    }

    #[inline]
    fn takes(action: f32) -> bool {
        action.is_finite()
    }

    type ResetOptions = PendulumReset;
    const RESET_OPTIONS: PendulumReset = PendulumReset { x_init: PI, y_init: 1.0 };

    fn start(&self, options: PendulumReset, random: &mut NpRandom) -> [f64; 3] {
        let PendulumReset { x_init, y_init } = options;
        [random.uniform(-x_init, x_init), random.uniform(-y_init, y_init), 0.0]
    }

    #[inline]
    fn advance(&self, state: &mut [f64; 3], action: f32) -> (f64, bool) {
        let torque = action.clamp(-MAX_TORQUE, MAX_TORQUE);
        let [theta, speed, _] = *state;
        // numpy keeps the torque terms in single precision until they are added to the state.
        let cost = square(wrap(theta)) + 0.1 * square(speed) + f64::from(0.001 * square_f32(torque));
        let acceleration = 3.0 * self.g / 2.0 * theta.sin() + f64::from(3.0 * torque);
        let speed = (speed + acceleration * DT).clamp(-MAX_SPEED, MAX_SPEED);
        *state = [theta + speed * DT, speed, f64::from(torque)];
        (-cost, false)
    }

    fn observe(&self, &[theta, speed, _]: &[f64; 3]) -> [f32; 3] {
        [theta.cos() as f32, theta.sin() as f32, speed as f32]
    }

    fn draw(&self, &[theta, _, torque]: &[f64; 3]) -> Option<Frame> {
        draw_pendulum(theta as f32, torque as f32)
    }
}

/// Wraps an angle to -pi..pi with Python's `%`.
fn wrap(angle: f64) -> f64 {
    (angle + PI).rem_euclid(2.0 * PI) - PI
}

/// Draws Gymnasium's picture: 500 x 500 pixels, 4.4 m wide; the arc shows the torque.
fn draw_pendulum(theta: f32, torque: f32) -> Option<Frame> {
    const SIZE: f32 = 500.0;
    const RED: [u8; 3] = [204, 77, 77];
    let scale = SIZE / 4.4;
    let center = (SIZE / 2.0, SIZE / 2.0);
    let half_width = 0.1 * scale;
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
