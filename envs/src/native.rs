//! Environments written in Rust, equal to Gymnasium's step by step.

mod board_game;
mod cartpole;
mod cartpole_vector;
mod connect_four;
mod draw;
mod pendulum;
mod simple_spread;
#[cfg(target_arch = "x86_64")]
mod sincos;
mod tictactoe;

pub use board_game::BoardGame;
pub use cartpole::{CartPole, CartPoleConfig};
pub use cartpole_vector::CartPoleVector;
pub use pendulum::{Pendulum, PendulumConfig};
pub use simple_spread::{SimpleSpread, SimpleSpreadAction, SimpleSpreadConfig};

use crate::{AnyMultiAgentEnv, EnvConfig, EnvCreator, EnvSpec, Result, TimeLimit, creator::decode_config};

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

type MakeMultiAgent = fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>>;

/// What the registry of multi-agent environments holds from the start.
pub(crate) fn multi_agent_entries() -> [(EnvSpec, MakeMultiAgent); 3] {
    let spec = |id: &str, summary: &str, max_episode_steps| EnvSpec {
        id: id.into(),
        summary: summary.into(),
        max_episode_steps,
        reward_threshold: None,
    };
    [
        (
            spec("simple_spread_v3", "cover landmarks together and keep off each other", Some(25)),
            simple_spread::make,
        ),
        (spec("tictactoe_v3", "three in a row, one move at a time", None), |config| {
            no_settings("tictactoe_v3", config)?;
            Ok(Box::new(BoardGame::tictactoe()))
        }),
        (spec("connect_four_v3", "four in a row, one move at a time", None), |config| {
            no_settings("connect_four_v3", config)?;
            Ok(Box::new(BoardGame::connect_four()))
        }),
    ]
}

fn no_settings(id: &str, config: &EnvConfig) -> Result<()> {
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    struct NoSettings {}
    decode_config::<NoSettings>(id, config).map(|_| ())
}
