//! CartPole: keep a pole upright on a cart by pushing the cart left or right.

use serde::{Deserialize, Serialize};

use super::draw;
use crate::{
    Env, Error, Frame, NpRandom, Result, Space, Step,
    state::{StateReader, StateWriter},
};

const TAG: &str = "cartpole";

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = 0.1 + 1.0;
const HALF_LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = POLE_MASS * HALF_LENGTH;
const FORCE: f64 = 10.0;
/// Seconds per step.
const TAU: f64 = 0.02;
const MOST_X: f64 = 2.4;
/// Twelve degrees.
pub(super) const MOST_THETA: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;

/// Settings of CartPole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CartPoleConfig {
    /// Rewards of Sutton and Barto's book: 0 per step and -1 for the fall, instead of 1 per step.
    pub sutton_barto_reward: bool,
}

impl CartPoleConfig {
    #[inline(always)]
    pub(super) fn reward(self, terminated: bool) -> f64 {
        match (self.sutton_barto_reward, terminated) {
            (false, _) => 1.0,
            (true, false) => 0.0,
            (true, true) => -1.0,
        }
    }
}

/// Cart position and velocity, pole angle and angular velocity.
pub(super) type State = [f64; 4];

/// One CartPole without a time limit.
///
/// | | |
/// |---|---|
/// | observation | cart position, cart velocity, pole angle (radians), pole angular velocity |
/// | actions | 0 pushes left, 1 pushes right |
/// | reward | 1 per step, the last included |
/// | start | each element uniform in -0.05..0.05 |
/// | terminated | position beyond 2.4 or angle beyond 12 degrees |
///
/// The state is kept in double precision; observations are rounded once.
#[derive(Clone, Debug)]
pub struct CartPole {
    config: CartPoleConfig,
    random: NpRandom,
    state: State,
    running: bool,
}

impl CartPole {
    /// A cart that waits for its first reset.
    pub fn new(config: CartPoleConfig) -> Self {
        Self { config, random: NpRandom::new(0), state: [0.0; 4], running: false }
    }

    /// The state in double precision, in the order of the observation.
    pub fn state(&self) -> [f64; 4] {
        self.state
    }

    /// Continues an episode from another state.
    pub fn set_state(&mut self, state: [f64; 4]) {
        self.state = state;
        self.running = true;
    }
}

impl Env for CartPole {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        observation_space()
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        self.state = start(&mut self.random);
        self.running = true;
        observe(&self.state, obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
        if !matches!(action, [0 | 1]) {
            return Err(Error::invalid_action("CartPole", action, &self.action_space()));
        }
        if !self.running {
            return Err(Error::other("CartPole was stepped outside an episode; call `reset` first"));
        }
        let (sin, cos) = self.state[2].sin_cos();
        self.state = advance(self.state, action[0], sin, cos);
        let terminated = has_fallen(&self.state);
        self.running = !terminated;
        observe(&self.state, obs);
        Ok(Step { reward: self.config.reward(terminated), terminated, truncated: false })
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(draw_cartpole(&self.state))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let mut state = StateWriter::new(TAG);
        write_state(&mut state, &self.state, &self.random);
        state.u64(u64::from(self.running));
        Some(state.finish())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut state = StateReader::new(TAG, state)?;
        (self.state, self.random) = read_state(&mut state)?;
        self.running = state.u64()? != 0;
        state.finish()
    }
}

/// Bounds of the observations: twice what ends an episode, so that its last observation is inside.
pub(super) fn observation_space() -> Space {
    let high =
        [2.0 * MOST_X, f64::INFINITY, 2.0 * MOST_THETA, f64::INFINITY].map(|high| f64::from(high as f32));
    Space::Box {
        low: high.map(|high| -high).to_vec(),
        high: high.to_vec(),
        shape: vec![4],
        dtype: crate::DType::F32,
    }
}

#[inline]
pub(super) fn start(random: &mut NpRandom) -> State {
    std::array::from_fn(|_| random.uniform(-0.05, 0.05))
}

/// The state 0.02 seconds later; operations in Gymnasium's order, so that every bit is the same.
#[inline(always)]
pub(super) fn advance([x, x_dot, theta, theta_dot]: State, action: i64, sin: f64, cos: f64) -> State {
    let force = if action == 1 { FORCE } else { -FORCE };
    let temp = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin) / TOTAL_MASS;
    let theta_acc =
        (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS));
    let x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
    [x + TAU * x_dot, x_dot + TAU * x_acc, theta + TAU * theta_dot, theta_dot + TAU * theta_acc]
}

#[inline(always)]
pub(super) fn has_fallen(&[x, _, theta, _]: &State) -> bool {
    // Not short-circuited: the loop over copies has no branches.
    (x.abs() > MOST_X) | (theta.abs() > MOST_THETA)
}

#[inline(always)]
pub(super) fn observe(state: &State, obs: &mut [f32]) {
    obs.copy_from_slice(&state.map(|value| value as f32));
}

pub(super) fn write_state(out: &mut StateWriter, state: &State, random: &NpRandom) {
    state.iter().for_each(|&value| out.f64(value));
    out.bytes(&random.to_bytes());
}

pub(super) fn read_state(input: &mut StateReader<'_>) -> Result<(State, NpRandom)> {
    let mut state = [0.0; 4];
    for value in &mut state {
        *value = input.f64()?;
    }
    let bytes = input.bytes()?.try_into().map_err(|_| Error::state("the random stream is damaged"))?;
    Ok((state, NpRandom::from_bytes(bytes)))
}

/// The picture Gymnasium draws: 600 x 400, the track at height 100.
pub(super) fn draw_cartpole(&[x, _, theta, _]: &State) -> Option<Frame> {
    const WIDTH: f32 = 600.0;
    let scale = WIDTH / (2.0 * MOST_X as f32);
    let (cart_x, cart_y, axle_y) = (x as f32 * scale + WIDTH / 2.0, 100.0, 107.5);
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
