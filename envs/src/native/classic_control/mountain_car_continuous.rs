//! MountainCarContinuous: drive out of a valley with a weak motor that costs reward.

use serde::{Deserialize, Serialize};

use super::{
    classic::{Classic, ClassicControl, ResetBounds},
    classic_vector::ClassicVector,
    valley,
};
use crate::native::dynamics::NativeEnv;
use crate::{Frame, NpRandom, Space};

const GOAL: f64 = 0.45;
const POWER: f32 = 0.0015;

/// Settings of MountainCarContinuous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountainCarContinuousConfig {
    /// Minimum velocity of the car at the flag.
    pub goal_velocity: f64,
}

/// A MountainCarContinuous environment without a time limit.
///
/// | | |
/// |---|---|
/// | observation | position in -1.2..0.6, velocity in -0.07..0.07 |
/// | action | force in -1..1; values outside are clipped |
/// | reward | -0.1 * action^2 with the unclipped action, plus 100 at the flag |
/// | start | position uniform in -0.6..-0.4, at rest |
/// | terminated | at position 0.45 or beyond, with a velocity of at least `goal_velocity` |
///
/// The state holds position, velocity, and a flag that is 1 after the first step, from which on Gymnasium rounds
/// the state to single precision.
pub type MountainCarContinuous = NativeEnv<Classic<MountainCarContinuousConfig, 3, 2>>;

/// A vector of MountainCarContinuous copies.
pub type MountainCarContinuousVector = ClassicVector<MountainCarContinuousConfig, 3, 2>;

impl ClassicControl<3, 2> for MountainCarContinuousConfig {
    type Act = f32;
    const NAME: &'static str = "MountainCarContinuous";
    const RENDER_FPS: f64 = 30.0;

    fn observation_space(&self) -> Space {
        valley::observation_space()
    }

    fn action_space(&self) -> Space {
        Space::boxed(-1.0, 1.0, &[1])
    }

    #[inline]
    fn takes(action: f32) -> bool {
        action.is_finite()
    }

    type ResetOptions = ResetBounds;
    const RESET_OPTIONS: ResetBounds = ResetBounds { low: -0.6, high: -0.4 };

    fn start(&self, options: ResetBounds, random: &mut NpRandom) -> [f64; 3] {
        [random.uniform(options.low, options.high), 0.0, 0.0]
    }

    /// Rounds where numpy does: a clipped force is a Python float, an unclipped one is single-precision, and so is the
    /// state after the first step.
    #[inline]
    fn advance(&self, state: &mut [f64; 3], action: f32) -> (f64, bool) {
        let [position, velocity, rounded] = *state;
        let round = |x: f64| if rounded == 0.0 { x } else { f64::from(x as f32) };
        let pull = valley::GRAVITY * round(3.0 * position).cos();
        let push = if action.abs() <= 1.0 {
            f64::from(action * POWER - pull as f32)
        } else {
            f64::from(action.signum()) * 0.0015 - pull
        };
        let most_speed = round(valley::MAX_SPEED);
        let velocity = round(velocity + round(push)).clamp(-most_speed, most_speed);
        let left = round(valley::LEFT);
        let right = round(valley::RIGHT);
        let position = round(position + velocity).clamp(left, right);
        let velocity = if position == left && velocity < 0.0 { 0.0 } else { velocity };
        let terminated = position >= round(GOAL) && velocity >= round(self.goal_velocity);
        *state = [f64::from(position as f32), f64::from(velocity as f32), 1.0];
        let bonus = if terminated { 100.0 } else { 0.0 };
        (bonus - f64::from(action) * f64::from(action) * 0.1, terminated)
    }

    fn observe(&self, &[position, velocity, _]: &[f64; 3]) -> [f32; 2] {
        [position as f32, velocity as f32]
    }

    fn draw(&self, state: &[f64; 3]) -> Option<Frame> {
        valley::draw(state[0] as f32, GOAL as f32)
    }
}
