//! The native environments, family by family. Those of Gymnasium, PettingZoo and MiniGrid equal the originals.

mod bit_flipping;
mod board_games;
mod box2d;
mod classic_control;
mod dynamics;
mod entry;
mod minigrid;
mod mpe;
mod mujoco;
mod numpy_math;
mod pixel;
mod toy_text;

pub use bit_flipping::{BitFlipping, BitFlippingAction, BitFlippingConfig};
pub use board_games::{BoardGame, Go, GoConfig, TwoStepGame};
pub use box2d::{
    BipedalWalker, BipedalWalkerConfig, BodyState, LunarLander, LunarLanderAction, LunarLanderConfig,
};
pub use classic_control::{
    Acrobot, AcrobotConfig, AcrobotVector, CartPole, CartPoleConfig, CartPoleVector, ClassicVector,
    MountainCar, MountainCarConfig, MountainCarContinuous, MountainCarContinuousConfig,
    MountainCarContinuousVector, MountainCarVector, Pendulum, PendulumConfig, PendulumReset, PendulumVector,
    ResetBounds,
};
pub use dynamics::NativeEnv;
pub use minigrid::{MiniGrid, MiniGridObs};
pub use mpe::{
    ParticleAction, ParticleEnv, Simple, SimpleAdversary, SimpleAdversaryConfig, SimpleConfig, SimpleCrypto,
    SimpleCryptoConfig, SimplePush, SimplePushConfig, SimpleReference, SimpleReferenceConfig,
    SimpleSpeakerListener, SimpleSpeakerListenerConfig, SimpleSpread, SimpleSpreadConfig, SimpleTag,
    SimpleTagConfig, SimpleWorldComm, SimpleWorldCommConfig,
};
pub use pixel::{PixelBreakout, PixelConfig, PixelFreeway, PixelGame, PixelPong, PixelSnake, PixelTMaze};
pub use toy_text::{
    Blackjack, BlackjackConfig, CliffWalking, CliffWalkingConfig, FrozenLake, FrozenLakeConfig, Taxi,
    TaxiConfig,
};

use entry::{Entry, MultiAgentEntry};

/// Returns the environments with one agent that are registered from the start; limits and thresholds are Gymnasium's.
pub(crate) fn entries() -> Vec<Entry> {
    let families = [
        classic_control::entries(),
        toy_text::entries(),
        box2d::entries(),
        mujoco::entries(),
        minigrid::entries(),
        pixel::entries(),
        bit_flipping::entries(),
    ];
    families.into_iter().flatten().collect()
}

/// Returns the environments with several agents that are registered from the start.
pub(crate) fn multi_agent_entries() -> Vec<MultiAgentEntry> {
    [board_games::entries(), mpe::entries()].into_iter().flatten().collect()
}
