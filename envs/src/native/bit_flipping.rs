//! Bit flipping: flip bits one by one until all are set, with a reward only at the end (Andrychowicz et al. 2017).

use serde::{Deserialize, Serialize};

use super::dynamics::{Dynamics, NativeEnv};
use super::entry::{Entry, spec};
use crate::registry::common_settings::{split_threads, stepped};
use crate::registry::env_config::decode_config;
use crate::render::board::Board;
use crate::{Element, EnvCreator, Error, Frame, NpRandom, Result, Space, Step};

/// Largest number of bits, which keeps a slip from taking all memory.
const MAX_BITS: usize = 1 << 16;

/// Settings of bit flipping; the names and defaults are those of Stable-Baselines3's `BitFlippingEnv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BitFlippingConfig {
    /// Number of bits.
    pub n_bits: usize,
    /// Number of steps after which an episode is truncated; null: as many as there are bits.
    pub max_steps: Option<usize>,
}

impl Default for BitFlippingConfig {
    fn default() -> Self {
        Self { n_bits: 10, max_steps: None }
    }
}

/// A bit-flipping environment, equal to Stable-Baselines3's `BitFlippingEnv` with its default observations.
///
/// | | |
/// |---|---|
/// | observation | a Dict of bits: `achieved_goal` and `observation` are the state, `desired_goal` is all ones |
/// | action of `BitFlipping<i64>` | the number of the bit to flip |
/// | action of `BitFlipping<f32>` | one number for each bit; a number above 0 flips its bit |
/// | reward | 0 if the state is the goal, otherwise -1 |
/// | start | random bits |
/// | terminated | when the state is the goal |
/// | truncated | after `max_steps` steps |
///
/// `info("is_success")` is 1 when the state is the goal.
pub type BitFlipping<A> = NativeEnv<BitFlippingDynamics<A>>;

/// Action types of [`BitFlipping`]: `i64` (discrete) and `f32` (continuous).
pub trait BitFlippingAction: Element + private::Flip {}

impl BitFlippingAction for i64 {}
impl BitFlippingAction for f32 {}

mod private {
    use super::Space;

    pub trait Flip: Sized + 'static {
        fn space(n_bits: usize) -> Space;

        fn is_valid(action: &[Self], n_bits: usize) -> bool;

        fn flip(action: &[Self], bits: &mut [u8]);
    }

    impl Flip for i64 {
        fn space(n_bits: usize) -> Space {
            Space::discrete(n_bits as i64)
        }

        fn is_valid(action: &[i64], n_bits: usize) -> bool {
            matches!(action, [bit] if (0..n_bits as i64).contains(bit))
        }

        fn flip(action: &[i64], bits: &mut [u8]) {
            bits[action[0] as usize] ^= 1;
        }
    }

    impl Flip for f32 {
        fn space(n_bits: usize) -> Space {
            Space::boxed(-1.0, 1.0, &[n_bits])
        }

        fn is_valid(action: &[f32], n_bits: usize) -> bool {
            action.len() == n_bits && action.iter().all(|number| number.is_finite())
        }

        fn flip(action: &[f32], bits: &mut [u8]) {
            bits.iter_mut().zip(action).for_each(|(bit, number)| *bit ^= u8::from(*number > 0.0));
        }
    }
}

/// Rules and state of [`BitFlipping`].
#[derive(Clone, Debug)]
pub struct BitFlippingDynamics<A> {
    /// The space of the state.
    space: Space,
    bits: Vec<u8>,
    max_steps: usize,
    step: usize,
    action: std::marker::PhantomData<A>,
}

impl<A: BitFlippingAction> BitFlipping<A> {
    /// Creates an environment; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `n_bits` is 0 or above 65536, or if `max_steps` is 0.
    pub fn new(config: &BitFlippingConfig) -> Result<Self> {
        let BitFlippingConfig { n_bits, max_steps } = *config;
        let refuse = |message| Err(Error::Config { env: "BitFlipping".into(), message });
        if n_bits == 0 || n_bits > MAX_BITS {
            return refuse(format!("`n_bits` is {n_bits}, but it must be in 1..={MAX_BITS}"));
        }
        if max_steps == Some(0) {
            return refuse("`max_steps` is 0, but it must be at least 1, or null".into());
        }
        Ok(Self::of(BitFlippingDynamics {
            space: Space::MultiBinary { shape: vec![n_bits] },
            bits: vec![0; n_bits],
            max_steps: max_steps.unwrap_or(n_bits),
            step: 0,
            action: std::marker::PhantomData,
        }))
    }
}

impl<A> BitFlippingDynamics<A> {
    /// Writes the parts of the Dict in the order of their names.
    fn show(&self, obs: &mut [u8]) {
        let (achieved, rest) = obs.split_at_mut(self.bits.len());
        let (desired, observation) = rest.split_at_mut(self.bits.len());
        achieved.copy_from_slice(&self.bits);
        desired.fill(1);
        observation.copy_from_slice(&self.bits);
    }

    fn is_reached(&self) -> bool {
        self.bits.iter().all(|bit| *bit == 1)
    }
}

impl<A: BitFlippingAction> Dynamics for BitFlippingDynamics<A> {
    type Obs = u8;
    type Act = A;
    type Saved = (Vec<u8>, usize);

    fn name(&self) -> &str {
        "BitFlipping"
    }

    fn observation_space(&self) -> Space {
        Space::dict(["achieved_goal", "desired_goal", "observation"].map(|name| (name, self.space.clone())))
    }

    fn action_space(&self) -> Space {
        A::space(self.bits.len())
    }

    fn takes(&self, action: &[A]) -> bool {
        A::is_valid(action, self.bits.len())
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [u8]) -> Result<()> {
        self.step = 0;
        self.space.sample(random, &mut self.bits);
        self.show(obs);
        Ok(())
    }

    fn advance(&mut self, action: &[A], _random: &mut NpRandom, obs: &mut [u8]) -> Step {
        A::flip(action, &mut self.bits);
        self.step += 1;
        self.show(obs);
        let terminated = self.is_reached();
        let reward = if terminated { 0.0 } else { -1.0 };
        Step { reward, terminated, truncated: self.step >= self.max_steps }
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.max_steps)
    }

    fn compute_rewards(&self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> bool {
        let n_bits = self.bits.len();
        let goals = achieved_goals.chunks_exact(n_bits).zip(desired_goals.chunks_exact(n_bits));
        for (reward, (achieved, desired)) in rewards.iter_mut().zip(goals) {
            *reward = if achieved == desired { 0.0 } else { -1.0 };
        }
        true
    }

    fn info(&self, key: &str) -> Option<f64> {
        (key == "is_success" && self.step > 0).then(|| f64::from(u8::from(self.is_reached())))
    }

    /// Draws a row of fields, one for each bit, light where the bit is set.
    fn draw(&mut self) -> Option<Frame> {
        let mut board = Board::new(1, self.bits.len(), (32, 32))?;
        for (column, bit) in self.bits.iter().enumerate() {
            board.tile((0, column), if *bit == 1 { [236, 226, 190] } else { [60, 66, 82] });
        }
        Some(board.into_frame())
    }

    fn fps(&self) -> f64 {
        4.0
    }

    fn text(&self) -> Option<String> {
        let bits: String = self.bits.iter().map(|bit| if *bit == 1 { '1' } else { '0' }).collect();
        Some(bits + "\n")
    }

    fn save(&self) -> impl Serialize {
        (&self.bits, self.step)
    }

    fn load(&mut self, (bits, step): Self::Saved, _running: bool) -> Result<()> {
        if bits.len() != self.bits.len() || bits.iter().any(|bit| *bit > 1) || step > self.max_steps {
            let message = format!(
                "it is of {} bits at step {step}, but this environment has {} and {} steps",
                bits.len(),
                self.bits.len(),
                self.max_steps
            );
            return Err(Error::State { message });
        }
        (self.bits, self.step) = (bits, step);
        Ok(())
    }
}

/// What `env_config` holds: the settings, and the kind of actions, a type parameter in Rust.
#[derive(Default, Serialize, Deserialize)]
struct Settings {
    continuous: bool,
    #[serde(flatten)]
    bits: BitFlippingConfig,
}

/// Returns the registry entry of bit flipping.
pub(super) fn entries() -> Vec<Entry> {
    let id = "BitFlippingEnv-v0";
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let (config, num_threads) = split_threads::<Settings>(id, config)?;
        let Settings { continuous, bits } = decode_config(id, &config)?;
        if continuous {
            let env = BitFlipping::<f32>::new(&bits)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        } else {
            let env = BitFlipping::<i64>::new(&bits)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        }
    });
    vec![(spec(id, "flip bits until all are set, with a reward only there", None, None), creator)]
}
