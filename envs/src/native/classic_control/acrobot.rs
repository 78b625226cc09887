//! Acrobot: swing the lower of two links up by a torque at the joint between them.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::{
    classic::{Classic, ClassicControl, ResetBounds, symmetric_box},
    classic_vector::ClassicVector,
};
use crate::native::dynamics::NativeEnv;
use crate::native::numpy_math::{sin_cos_f32, square};
use crate::render::draw;
use crate::{Frame, NpRandom, Space};

const GRAVITY: f64 = 9.8;
/// Distance from a link's joint to its centre of mass in m; links are 1 m long, weigh 1 kg and have a moment of inertia
/// of 1.
const CENTRE: f64 = 0.5;
/// Seconds per step.
const DT: f64 = 0.2;
const MAX_SPEED: [f64; 2] = [4.0 * PI, 9.0 * PI];

/// Settings of Acrobot; there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcrobotConfig {}

/// Angle of the upper link (0 hangs down), angle of the lower one relative to it, and their angular velocities.
type State = [f64; 4];

/// An Acrobot environment without a time limit, with the dynamics of Sutton and Barto's book.
///
/// | | |
/// |---|---|
/// | observation | cos and sin of the upper angle, cos and sin of the lower, both angular velocities |
/// | actions | torque on the joint: 0 gives -1, 1 gives 0, 2 gives 1 |
/// | reward | -1 per step, 0 for the last |
/// | start | each element of the state uniform in -0.1..0.1 |
/// | terminated | the tip is more than 1 m above the upper joint |
///
/// The state holds both angles in radians (0 hangs down; the lower one is relative to the upper) and their
/// velocities.
pub type Acrobot = NativeEnv<Classic<AcrobotConfig, 4, 6>>;

/// A vector of Acrobot copies.
pub type AcrobotVector = ClassicVector<AcrobotConfig, 4, 6>;

impl ClassicControl<4, 6> for AcrobotConfig {
    type Act = i64;
    const NAME: &'static str = "Acrobot";
    const RENDER_FPS: f64 = 15.0;

    fn observation_space(&self) -> Space {
        let [upper, lower] = MAX_SPEED.map(|speed| speed as f32);
        symmetric_box([1.0, 1.0, 1.0, 1.0, upper, lower])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    #[inline]
    fn takes(action: i64) -> bool {
        (0..3).contains(&action)
    }

    type ResetOptions = ResetBounds;
    const RESET_OPTIONS: ResetBounds = ResetBounds { low: -0.1, high: 0.1 };

    /// Draws the first state in single precision, as Gymnasium does; later states have double precision.
    fn start(&self, options: ResetBounds, random: &mut NpRandom) -> State {
        std::array::from_fn(|_| f64::from(random.uniform(options.low, options.high) as f32))
    }

    #[inline]
    fn advance(&self, state: &mut State, action: i64) -> (f64, bool) {
        let [upper, lower, upper_speed, lower_speed] = integrate(*state, (action - 1) as f64);
        let [most_upper, most_lower] = MAX_SPEED;
        *state = [
            wrap(upper),
            wrap(lower),
            upper_speed.clamp(-most_upper, most_upper),
            lower_speed.clamp(-most_lower, most_lower),
        ];
        let terminated = -state[0].cos() - (state[1] + state[0]).cos() > 1.0;
        (if terminated { 0.0 } else { -1.0 }, terminated)
    }

    fn observe(&self, &[upper, lower, upper_speed, lower_speed]: &State) -> [f32; 6] {
        [upper.cos(), upper.sin(), lower.cos(), lower.sin(), upper_speed, lower_speed]
            .map(|value| value as f32)
    }

    /// Numpy holds the starting angles in single precision, so their sines and cosines are single-precision ones too.
    fn observe_start(&self, state: &State) -> [f32; 6] {
        let [upper, lower, upper_speed, lower_speed] = state.map(|value| value as f32);
        let (upper_sin, upper_cos) = sin_cos_f32(upper);
        let (lower_sin, lower_cos) = sin_cos_f32(lower);
        [upper_cos, upper_sin, lower_cos, lower_sin, upper_speed, lower_speed]
    }

    /// Whether the angles are in `-PI..=PI` and the speeds within their bounds, as every step leaves them.
    fn goes_on(&self, state: &State) -> bool {
        let [most_upper, most_lower] = MAX_SPEED;
        state.iter().zip([PI, PI, most_upper, most_lower]).all(|(value, most)| value.abs() <= most)
    }

    fn draw(&self, state: &State) -> Option<Frame> {
        draw_acrobot(state)
    }
}

/// Makes one step of the fourth-order Runge-Kutta method, in Gymnasium's order of operations, for equal bits.
fn integrate(state: State, torque: f64) -> State {
    let ahead = |seconds: f64, slope: &State| std::array::from_fn(|i| state[i] + seconds * slope[i]);
    let first = derivative(&state, torque);
    let second = derivative(&ahead(DT / 2.0, &first), torque);
    let third = derivative(&ahead(DT / 2.0, &second), torque);
    let fourth = derivative(&ahead(DT, &third), torque);
    std::array::from_fn(|i| state[i] + DT / 6.0 * (first[i] + 2.0 * second[i] + 2.0 * third[i] + fourth[i]))
}

/// The equations of motion of Sutton and Barto's book, with its names (first edition, section 11.3).
fn derivative(&[theta1, theta2, dtheta1, dtheta2]: &State, torque: f64) -> State {
    let (sin2, cos2) = theta2.sin_cos();
    let d1 = CENTRE * CENTRE + (1.0 + CENTRE * CENTRE + 2.0 * CENTRE * cos2) + 1.0 + 1.0;
    let d2 = CENTRE * CENTRE + CENTRE * cos2 + 1.0;
    let phi2 = CENTRE * GRAVITY * (theta1 + theta2 - PI / 2.0).cos();
    let phi1 = -CENTRE * square(dtheta2) * sin2 - 2.0 * CENTRE * dtheta2 * dtheta1 * sin2
        + (CENTRE + 1.0) * GRAVITY * (theta1 - PI / 2.0).cos()
        + phi2;
    let ddtheta2 = (torque + d2 / d1 * phi1 - CENTRE * square(dtheta1) * sin2 - phi2)
        / (CENTRE * CENTRE + 1.0 - square(d2) / d1);
    let ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
    [dtheta1, dtheta2, ddtheta1, ddtheta2]
}

/// Wraps an angle to -pi..=pi.
fn wrap(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

/// Draws Gymnasium's picture: 500 x 500 pixels, 4.4 m wide, with a line at the height to reach.
fn draw_acrobot(&[upper, lower, _, _]: &State) -> Option<Frame> {
    const SIZE: f32 = 500.0;
    const BLUE: [u8; 3] = [0, 204, 204];
    const YELLOW: [u8; 3] = [204, 204, 0];
    let scale = SIZE / 4.4;
    let upper = upper as f32;
    let lower = lower as f32;
    let top = (SIZE / 2.0, SIZE / 2.0);
    let down = -std::f32::consts::FRAC_PI_2;
    let joint = draw::turn((scale, 0.0), upper + down, top);
    let half_width = 0.1 * scale;
    let mut canvas = draw::Canvas::new(500, 500)?;
    canvas.horizontal_line((scale + SIZE / 2.0).trunc(), draw::BLACK);
    for (from, angle) in [(top, upper + down), (joint, upper + lower + down)] {
        let link = [(0.0, -half_width), (0.0, half_width), (scale, half_width), (scale, -half_width)];
        canvas.polygon(&link.map(|corner| draw::turn(corner, angle, from)), BLUE);
        canvas.circle((from.0.trunc(), from.1.trunc()), half_width.trunc(), YELLOW);
    }
    Some(canvas.into_frame())
}
