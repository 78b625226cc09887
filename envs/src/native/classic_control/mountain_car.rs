//! MountainCar: drive out of a valley with a motor that is too weak to climb at once.

use serde::{Deserialize, Serialize};

use super::{
    classic::{Classic, ClassicControl, ResetBounds},
    classic_vector::ClassicVector,
    valley,
};
use crate::native::dynamics::NativeEnv;
use crate::{Frame, NpRandom, Space};

const GOAL: f64 = 0.5;
const FORCE: f64 = 0.001;

/// Settings of MountainCar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountainCarConfig {
    /// Minimum velocity of the car at the flag.
    pub goal_velocity: f64,
}

/// A MountainCar environment without a time limit.
///
/// | | |
/// |---|---|
/// | observation | position in -1.2..0.6, velocity in -0.07..0.07 |
/// | actions | 0 pushes left, 1 does nothing, 2 pushes right |
/// | reward | -1 per step |
/// | start | position uniform in -0.6..-0.4, at rest |
/// | terminated | at position 0.5 or beyond, with a velocity of at least `goal_velocity` |
///
/// The state has double precision and the order of the observation.
pub type MountainCar = NativeEnv<Classic<MountainCarConfig, 2, 2>>;

/// A vector of MountainCar copies.
pub type MountainCarVector = ClassicVector<MountainCarConfig, 2, 2>;

impl ClassicControl<2, 2> for MountainCarConfig {
    type Act = i64;
    const NAME: &'static str = "MountainCar";
    const RENDER_FPS: f64 = 30.0;

    fn observation_space(&self) -> Space {
        valley::observation_space()
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    #[inline]
    fn takes(action: i64) -> bool {
        (0..3).contains(&action)
    }

    type ResetOptions = ResetBounds;
    const RESET_OPTIONS: ResetBounds = ResetBounds { low: -0.6, high: -0.4 };

    fn start(&self, options: ResetBounds, random: &mut NpRandom) -> [f64; 2] {
        [random.uniform(options.low, options.high), 0.0]
    }

    #[inline]
    fn advance(&self, state: &mut [f64; 2], action: i64) -> (f64, bool) {
        let [position, velocity] = *state;
        let push = (action - 1) as f64 * FORCE + (3.0 * position).cos() * -valley::GRAVITY;
        let velocity = (velocity + push).clamp(-valley::MAX_SPEED, valley::MAX_SPEED);
        let position = (position + velocity).clamp(valley::LEFT, valley::RIGHT);
        let velocity = if position == valley::LEFT && velocity < 0.0 { 0.0 } else { velocity };
        *state = [position, velocity];
        (-1.0, position >= GOAL && velocity >= self.goal_velocity)
    }

    #[inline]
    fn observe(&self, state: &[f64; 2]) -> [f32; 2] {
        state.map(|value| value as f32)
    }

    fn draw(&self, state: &[f64; 2]) -> Option<Frame> {
        valley::draw(state[0] as f32, GOAL as f32)
    }
}
