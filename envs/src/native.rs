//! Environments written in Rust: Gymnasium's, equal step by step, and pavlov's own games.

mod acrobot;
mod ansi;
mod bipedal_walker;
mod blackjack;
mod board;
mod board_game;
mod box2d;
mod cartpole;
mod classic;
mod classic_vector;
mod cliff_walking;
mod connect_four;
mod draw;
mod entry;
mod frozen_lake;
mod go;
mod lunar_lander;
mod minigrid;
mod mountain_car;
mod mountain_car_continuous;
mod mpe;
mod mujoco;
mod numpy_math;
mod pendulum;
mod pixel;
#[cfg(target_arch = "x86_64")]
mod sincos;
mod stateless_cartpole;
mod table;
mod taxi;
mod tictactoe;
mod two_step_game;
mod valley;

pub use acrobot::{Acrobot, AcrobotConfig, AcrobotVector};
pub use bipedal_walker::{BipedalWalker, BipedalWalkerConfig};
pub use blackjack::{Blackjack, BlackjackConfig};
pub use board_game::BoardGame;
pub use box2d::BodyState;
pub use cartpole::{CartPole, CartPoleConfig, CartPoleVector};
pub use classic::ResetBounds;
pub use classic_vector::ClassicVector;
pub use cliff_walking::{CliffWalking, CliffWalkingConfig};
pub use frozen_lake::{FrozenLake, FrozenLakeConfig};
pub use go::{Go, GoConfig};
pub use lunar_lander::{LunarLander, LunarLanderAction, LunarLanderConfig};
pub use minigrid::{MiniGrid, MiniGridObs};
pub use mountain_car::{MountainCar, MountainCarConfig, MountainCarVector};
pub use mountain_car_continuous::{
    MountainCarContinuous, MountainCarContinuousConfig, MountainCarContinuousVector,
};
pub use mpe::{
    ParticleAction, ParticleEnv, Simple, SimpleAdversary, SimpleAdversaryConfig, SimpleConfig, SimpleCrypto,
    SimpleCryptoConfig, SimplePush, SimplePushConfig, SimpleReference, SimpleReferenceConfig,
    SimpleSpeakerListener, SimpleSpeakerListenerConfig, SimpleSpread, SimpleSpreadConfig, SimpleTag,
    SimpleTagConfig, SimpleWorldComm, SimpleWorldCommConfig,
};
pub use pendulum::{Pendulum, PendulumConfig, PendulumReset, PendulumVector};
pub use pixel::{PixelBreakout, PixelConfig, PixelFreeway, PixelGame, PixelPong, PixelSnake, PixelTMaze};
pub use taxi::{Taxi, TaxiConfig};
pub use two_step_game::TwoStepGame;

use crate::env_config::decode_config;
use entry::{Entry, MultiAgentEntry, classic, no_settings, single, spec};

/// Returns the single-agent environments that are registered from the start; limits and thresholds are Gymnasium's.
pub(crate) fn entries() -> Vec<Entry> {
    let cartpole = "balance a pole on a cart by pushing the cart left or right";
    let cliff = "walk along a cliff to the goal without falling";
    let lake = "cross a slippery lake without falling into a hole";
    let mut entries = vec![
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
        single(
            "StatelessCartPole-v1",
            "balance a pole on a cart without being told how fast they move: remember",
            Some(500),
            Some(475.0),
            None,
            stateless_cartpole::make,
        ),
        single("FrozenLake-v1", lake, Some(100), Some(0.7), None, FrozenLake::new),
        single(
            "FrozenLake8x8-v1",
            lake,
            Some(200),
            Some(0.85),
            Some(("map_name", "8x8".into())),
            FrozenLake::new,
        ),
        single(
            "Taxi-v4",
            "fetch a passenger and drive to the destination",
            Some(200),
            Some(8.0),
            None,
            Taxi::new,
        ),
        single("CliffWalking-v1", cliff, None, None, None, |config| Ok(CliffWalking::new(config))),
        single("CliffWalkingSlippery-v1", cliff, None, None, Some(("is_slippery", true.into())), |config| {
            Ok(CliffWalking::new(config))
        }),
        single(
            "Blackjack-v1",
            "come closer to 21 than the dealer, but not beyond",
            None,
            None,
            None,
            |config| Ok(Blackjack::new(config)),
        ),
    ];
    entries.extend(mujoco::entries());
    entries.extend(minigrid::entries());
    entries.extend(lunar_lander::entries());
    entries.extend(bipedal_walker::entries());
    entries.extend(pixel::entries());
    entries
}

/// Returns the multi-agent environments that are registered from the start.
pub(crate) fn multi_agent_entries() -> Vec<MultiAgentEntry> {
    let mut entries: Vec<MultiAgentEntry> = vec![
        (spec("tictactoe_v3", "three in a row, one move at a time", None, None), |config| {
            no_settings("tictactoe_v3", config)?;
            Ok(Box::new(BoardGame::tictactoe()))
        }),
        (spec("connect_four_v3", "four in a row, one move at a time", None, None), |config| {
            no_settings("connect_four_v3", config)?;
            Ok(Box::new(BoardGame::connect_four()))
        }),
        (spec("go_v5", "surround points with stones, one move at a time", None, None), |config| {
            Ok(Box::new(Go::new(decode_config("go_v5", config)?)?))
        }),
        (
            spec("two_step_game", "the first agent chooses which matrix pays both", None, Some(8.0)),
            |config| {
                no_settings("two_step_game", config)?;
                Ok(Box::new(TwoStepGame::new()))
            },
        ),
    ];
    entries.extend(mpe::entries());
    entries
}
