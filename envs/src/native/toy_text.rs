//! Gymnasium's toy texts: four small environments with a finite number of states.

mod ansi;
mod blackjack;
mod cliff_walking;
mod frozen_lake;
mod table;
mod taxi;

pub use blackjack::{Blackjack, BlackjackConfig};
pub use cliff_walking::{CliffWalking, CliffWalkingConfig};
pub use frozen_lake::{FrozenLake, FrozenLakeConfig};
pub use taxi::{Taxi, TaxiConfig};

use super::entry::{Entry, single};

/// Returns the registry entries of the toy texts.
pub(super) fn entries() -> Vec<Entry> {
    let cliff = "walk along a cliff to the goal without falling";
    let lake = "cross a slippery lake without falling into a hole";
    vec![
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
    ]
}
