//! Environments written in Rust, equal to Gymnasium's step by step.

mod cartpole;
mod cartpole_vector;
mod draw;
mod pendulum;
#[cfg(target_arch = "x86_64")]
mod sincos;

pub use cartpole::{CartPole, CartPoleConfig};
pub use cartpole_vector::CartPoleVector;
pub use pendulum::{Pendulum, PendulumConfig};

use crate::{EnvCreator, EnvSpec, TimeLimit, creator::decode_config};

/// What the registry holds from the start.
pub(crate) fn entries() -> Vec<(EnvSpec, EnvCreator)> {
    vec![
        cartpole("CartPole-v0", 200, 195.0),
        cartpole("CartPole-v1", 500, 475.0),
        (
            EnvSpec {
                id: "Pendulum-v1".into(),
                summary: "swing a pendulum up and hold it there with little torque".into(),
                max_episode_steps: Some(200),
                reward_threshold: None,
            },
            EnvCreator::configured(|config: PendulumConfig| Ok(TimeLimit::new(Pendulum::new(config), 200))),
        ),
    ]
}

fn cartpole(id: &'static str, limit: usize, threshold: f64) -> (EnvSpec, EnvCreator) {
    let spec = EnvSpec {
        id: id.into(),
        summary: "balance a pole on a cart by pushing the cart left or right".into(),
        max_episode_steps: Some(limit),
        reward_threshold: Some(threshold),
    };
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let config: CartPoleConfig = decode_config(id, config)?;
        Ok(Box::new(CartPoleVector::new(num_envs, limit, config)))
    });
    (spec, creator)
}
