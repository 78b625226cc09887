//! Gymnasium's classic control: five environments, one copy or a struct of arrays, and a CartPole without velocities.

mod acrobot;
mod cartpole;
pub(super) mod classic;
pub(super) mod classic_vector;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;
#[cfg(target_arch = "x86_64")]
mod sincos;
mod stateless_cartpole;
mod valley;

pub use acrobot::{Acrobot, AcrobotConfig, AcrobotVector};
pub use cartpole::{CartPole, CartPoleConfig, CartPoleVector};
pub use classic::ResetBounds;
pub use classic_vector::ClassicVector;
pub use mountain_car::{MountainCar, MountainCarConfig, MountainCarVector};
pub use mountain_car_continuous::{
    MountainCarContinuous, MountainCarContinuousConfig, MountainCarContinuousVector,
};
pub use pendulum::{Pendulum, PendulumConfig, PendulumReset, PendulumVector};

use super::entry::{Entry, classic};

/// Returns the registry entries of classic control.
pub(super) fn entries() -> Vec<Entry> {
    let cartpole = "balance a pole on a cart by pushing the cart left or right";
    vec![
        classic("CartPole-v0", cartpole, 200, Some(195.0), CartPoleVector::new),
        classic("CartPole-v1", cartpole, 500, Some(475.0), CartPoleVector::new),
        classic(
            "MountainCar-v0",
            "drive out of a valley with a motor that is too weak to climb at once",
            200,
            Some(-110.0),
            MountainCarVector::new,
        ),
        classic(
            "MountainCarContinuous-v0",
            "drive out of a valley with a weak motor, and pay for what it does",
            999,
            Some(90.0),
            MountainCarContinuousVector::new,
        ),
        classic(
            "Pendulum-v1",
            "swing a pendulum up and hold it there with little torque",
            200,
            None,
            PendulumVector::new,
        ),
        classic(
            "Acrobot-v1",
            "swing the lower of two links up by a torque at the joint between them",
            500,
            Some(-100.0),
            AcrobotVector::new,
        ),
        stateless_cartpole::entry(),
    ]
}
