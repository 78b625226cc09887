//! Games of two agents: PettingZoo's board games, and the two-step game of the paper on QMIX.

mod board_game;
mod connect_four;
mod go;
mod tictactoe;
mod two_step_game;

pub use board_game::BoardGame;
pub use go::{Go, GoConfig};
pub use two_step_game::TwoStepGame;

use super::entry::{MultiAgentEntry, no_settings, spec};
use crate::registry::env_config::decode_config;

/// Returns the registry entries of the games.
pub(super) fn entries() -> Vec<MultiAgentEntry> {
    vec![
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
    ]
}
