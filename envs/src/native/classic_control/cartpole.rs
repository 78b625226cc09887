//! CartPole: keep a pole upright on a cart by pushing the cart left or right.

use serde::{Deserialize, Serialize};

#[cfg(target_arch = "x86_64")]
use super::sincos;
use super::{
    classic::{Classic, ClassicControl, ClassicRows, ResetBounds, symmetric_box},
    classic_vector::ClassicVector,
};
use crate::native::dynamics::NativeEnv;
use crate::render::draw;
use crate::{Frame, NpRandom, Space};

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = 0.1 + 1.0;
const HALF_LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = POLE_MASS * HALF_LENGTH;
const FORCE: f64 = 10.0;
/// Length of a step in seconds.
const TAU: f64 = 0.02;
const MAX_X: f64 = 2.4;
/// Largest pole angle: 12 degrees in radians.
const MAX_THETA: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;

/// Settings of CartPole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CartPoleConfig {
    /// Whether rewards follow Sutton and Barto's book: 0 per step and -1 for a fall, instead of 1 per step.
    pub sutton_barto_reward: bool,
}

impl CartPoleConfig {
    #[inline(always)]
    fn reward(self, terminated: bool) -> f64 {
        match (self.sutton_barto_reward, terminated) {
            (false, _) => 1.0,
            (true, false) => 0.0,
            (true, true) => -1.0,
        }
    }
}

/// Cart position and velocity, pole angle and angular velocity.
type State = [f64; 4];

/// A CartPole environment without a time limit.
///
/// | | |
/// |---|---|
/// | observation | cart position, cart velocity, pole angle (radians), pole angular velocity |
/// | actions | 0 pushes left, 1 pushes right |
/// | reward | 1 per step, the last included |
/// | start | each element uniform in -0.05..0.05 |
/// | terminated | position beyond 2.4 or angle beyond 12 degrees |
///
/// The state has double precision and the order of the observation; observations are rounded to single precision.
pub type CartPole = NativeEnv<Classic<CartPoleConfig, 4, 4>>;

/// A vector of CartPole copies; its loop uses AVX2 and FMA if the CPU has them.
pub type CartPoleVector = ClassicVector<CartPoleConfig, 4, 4>;

impl ClassicControl<4, 4> for CartPoleConfig {
    type Act = i64;
    const NAME: &'static str = "CartPole";
    const RENDER_FPS: f64 = 50.0;

    /// The bounds are twice the limits that end an episode, so that an episode's last observation lies inside.
    fn observation_space(&self) -> Space {
        symmetric_box([(2.0 * MAX_X) as f32, f32::INFINITY, (2.0 * MAX_THETA) as f32, f32::INFINITY])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    #[inline]
    fn takes(action: i64) -> bool {
        action & !1 == 0
    }

    type ResetOptions = ResetBounds;
    const RESET_OPTIONS: ResetBounds = ResetBounds { low: -0.05, high: 0.05 };

    fn start(&self, options: ResetBounds, random: &mut NpRandom) -> State {
        std::array::from_fn(|_| random.uniform(options.low, options.high))
    }

    #[inline]
    fn advance(&self, state: &mut State, action: i64) -> (f64, bool) {
        let (sin, cos) = state[2].sin_cos();
        *state = advance(*state, action, sin, cos);
        let fallen = has_fallen(state);
        (self.reward(fallen), fallen)
    }

    #[inline]
    fn observe(&self, state: &State) -> [f32; 4] {
        state.map(|value| value as f32)
    }

    fn goes_on(&self, state: &State) -> bool {
        state.iter().all(|value| value.is_finite()) && !has_fallen(state)
    }

    fn draw(&self, state: &State) -> Option<Frame> {
        draw_cartpole(state)
    }

    /// Runs the fastest loop that this CPU supports.
    fn advance_all(&self, actions: &[i64], rows: ClassicRows<'_, 4, 4>) {
        #[cfg(target_arch = "x86_64")]
        if sincos::fits_platform() {
            // SAFETY: `fits_platform` is true only if the CPU has AVX2 and FMA.
            return unsafe { advance_all_fma(*self, actions, rows) };
        }
        advance_all(*self, actions, rows, f64::sin_cos);
    }
}

/// Number of copies per block; the rows of a block fit the first-level cache.
const BLOCK: usize = 128;

/// Moves all copies with several short loops over blocks that fit the first-level cache; short loops vectorise, one
/// long loop does not.
#[inline(always)]
fn advance_all(
    config: CartPoleConfig,
    actions: &[i64],
    rows: ClassicRows<'_, 4, 4>,
    sin_cos: impl Fn(f64) -> (f64, f64),
) {
    let mut sin = [0.0; BLOCK];
    let mut cos = [0.0; BLOCK];
    let [all_x, all_x_dot, all_theta, all_theta_dot] = rows.state;
    for first in (0..actions.len()).step_by(BLOCK) {
        let n = BLOCK.min(actions.len() - first);
        let block = first..first + n;
        let x = &mut all_x[block.clone()];
        let x_dot = &mut all_x_dot[block.clone()];
        let theta = &mut all_theta[block.clone()];
        let theta_dot = &mut all_theta_dot[block.clone()];
        let sin = &mut sin[..n];
        let cos = &mut cos[..n];
        for i in 0..n {
            (sin[i], cos[i]) = sin_cos(theta[i]);
        }
        let actions = &actions[block.clone()];
        for i in 0..n {
            let state = [x[i], x_dot[i], theta[i], theta_dot[i]];
            [x[i], x_dot[i], theta[i], theta_dot[i]] = advance(state, actions[i], sin[i], cos[i]);
        }
        let obs = &mut rows.obs[block.clone()];
        for i in 0..n {
            obs[i] = [x[i] as f32, x_dot[i] as f32, theta[i] as f32, theta_dot[i] as f32];
        }
        let rewards = &mut rows.rewards[block.clone()];
        let terminated = &mut rows.terminated[block];
        for i in 0..n {
            terminated[i] = has_fallen(&[x[i], x_dot[i], theta[i], theta_dot[i]]);
        }
        for i in 0..n {
            rewards[i] = config.reward(terminated[i]) as f32;
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn advance_all_fma(config: CartPoleConfig, actions: &[i64], rows: ClassicRows<'_, 4, 4>) {
    advance_all(config, actions, rows, sincos::sin_cos);
}

// The fast sine must cover every pole angle that does not end an episode.
#[cfg(target_arch = "x86_64")]
const _: () = assert!(MAX_THETA < sincos::LIMIT);

/// Returns the state 0.02 seconds later, in Gymnasium's order of operations, for equal bits.
#[inline(always)]
fn advance([x, x_dot, theta, theta_dot]: State, action: i64, sin: f64, cos: f64) -> State {
    let force = if action == 1 { FORCE } else { -FORCE };
    let temp = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin) / TOTAL_MASS;
    let theta_acc =
        (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS));
    let x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
    [x + TAU * x_dot, x_dot + TAU * x_acc, theta + TAU * theta_dot, theta_dot + TAU * theta_acc]
}

#[inline(always)]
fn has_fallen(&[x, _, theta, _]: &State) -> bool {
    // Not short-circuited, so that the loop over copies has no branches.
    (x.abs() > MAX_X) | (theta.abs() > MAX_THETA)
}

/// Draws Gymnasium's picture: 600 x 400 pixels, with the track 100 pixels above the lower edge.
fn draw_cartpole(&[x, _, theta, _]: &State) -> Option<Frame> {
    const WIDTH: f32 = 600.0;
    let scale = WIDTH / (2.0 * MAX_X as f32);
    let cart_x = x as f32 * scale + WIDTH / 2.0;
    let cart_y = 100.0;
    let axle_y = 107.5;
    let mut canvas = draw::Canvas::new(600, 400)?;
    canvas.polygon(
        &[(-25.0, -15.0), (-25.0, 15.0), (25.0, 15.0), (25.0, -15.0)]
            .map(|(dx, dy)| (cart_x + dx, cart_y + dy)),
        draw::BLACK,
    );
    let top = scale * (2.0 * HALF_LENGTH as f32) - 5.0;
    let pole = [(-5.0, -5.0), (-5.0, top), (5.0, top), (5.0, -5.0)];
    canvas.polygon(&pole.map(|corner| draw::turn(corner, -theta as f32, (cart_x, axle_y))), [202, 152, 101]);
    canvas.circle((cart_x.trunc(), axle_y.trunc()), 5.0, [129, 132, 203]);
    canvas.horizontal_line(100.0, draw::BLACK);
    Some(canvas.into_frame())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines without AVX2 and FMA run the loop with the platform's functions, so its results must be the same.
    #[test]
    fn the_fast_loop_and_the_plain_one_give_equal_bits() {
        const N: usize = 300;
        let config = CartPoleConfig::default();
        let mut random = NpRandom::new(1);
        let mut obs = [[0.0; 4]; N];
        let mut rewards = [0.0; N];
        let mut terminated = [false; N];
        let mut fast: [Vec<f64>; 4] = Default::default();
        for _ in 0..N {
            for (column, value) in
                fast.iter_mut().zip(config.start(CartPoleConfig::RESET_OPTIONS, &mut random))
            {
                column.push(value);
            }
        }
        for _ in 0..300 {
            let actions: Vec<i64> = (0..N).map(|_| random.integers(0, 2)).collect();
            let mut plain = fast.clone();
            let mut rows = |state: &mut [Vec<f64>; 4], fast: bool| {
                let state = state.each_mut().map(Vec::as_mut_slice);
                let rows =
                    ClassicRows { state, obs: &mut obs, rewards: &mut rewards, terminated: &mut terminated };
                if fast {
                    config.advance_all(&actions, rows);
                } else {
                    advance_all(config, &actions, rows, f64::sin_cos);
                }
                terminated
            };
            let fallen = rows(&mut plain, false);
            assert_eq!(rows(&mut fast, true), fallen);
            assert_eq!(fast, plain);
            for i in (0..N).filter(|&i| fallen[i]) {
                for (column, value) in
                    fast.iter_mut().zip(config.start(CartPoleConfig::RESET_OPTIONS, &mut random))
                {
                    column[i] = value;
                }
            }
        }
    }
}
