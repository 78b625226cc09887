//! CliffWalking: walk along a cliff to the goal without falling.

use serde::{Deserialize, Serialize};

use super::table::{Outcome, SavedWalk, Table, Walk};
use crate::native::dynamics::{Dynamics, NativeEnv};
use crate::render::board::{self, Board};
use crate::{Frame, NpRandom, Result, Space, Step};

const ROWS: usize = 4;
const COLUMNS: usize = 12;
const START: usize = (ROWS - 1) * COLUMNS;
const GOAL: usize = ROWS * COLUMNS - 1;

/// Settings of CliffWalking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CliffWalkingConfig {
    /// Whether a step goes to either side with a probability of 1/3 each.
    pub is_slippery: bool,
}

/// A CliffWalking environment: example 6.6 of Sutton and Barto's book, 4 rows of 12 fields, without a time limit.
///
/// | | |
/// |---|---|
/// | observation | the number of the field, 12 * row + column |
/// | actions | 0 up, 1 right, 2 down, 3 left |
/// | reward | -1 per step; -100 for a fall, which returns the agent to the start |
/// | start | the field at the bottom left |
/// | terminated | at the goal, the field at the bottom right |
///
/// `info("prob")` is the probability of the last transition.
pub type CliffWalking = NativeEnv<CliffWalkingDynamics>;

/// Rules and state of [`CliffWalking`]: a walk in the table of its fields.
#[derive(Clone, Debug)]
pub struct CliffWalkingDynamics {
    walk: Walk,
}

impl CliffWalking {
    /// Creates an environment; call `reset` before the first step.
    pub fn new(config: CliffWalkingConfig) -> Self {
        let starts: [bool; ROWS * COLUMNS] = std::array::from_fn(|state| state == START);
        let table = Table::new(4, &starts, |state, action| {
            let moves = if config.is_slippery {
                vec![(action + 3) % 4, action, (action + 1) % 4]
            } else {
                vec![action]
            };
            let probability = 1.0 / moves.len() as f64;
            moves.into_iter().map(move |action| {
                let state = neighbour(state, action);
                if is_cliff(state) {
                    Outcome { probability, state: START, reward: -100.0, terminated: false }
                } else {
                    Outcome { probability, state, reward: -1.0, terminated: state == GOAL }
                }
            })
        });
        Self::of(CliffWalkingDynamics { walk: Walk::new(table) })
    }
}

fn neighbour(state: usize, action: usize) -> usize {
    let row = state / COLUMNS;
    let column = state % COLUMNS;
    let (row, column) = match action {
        0 => (row.saturating_sub(1), column),
        1 => (row, (column + 1).min(COLUMNS - 1)),
        2 => ((row + 1).min(ROWS - 1), column),
        _ => (row, column.saturating_sub(1)),
    };
    row * COLUMNS + column
}

fn is_cliff(state: usize) -> bool {
    START < state && state < GOAL
}

impl Dynamics for CliffWalkingDynamics {
    type Obs = i64;
    type Act = i64;
    type Saved = SavedWalk;

    fn name(&self) -> &str {
        "CliffWalking"
    }

    fn observation_space(&self) -> Space {
        self.walk.observation_space()
    }

    fn action_space(&self) -> Space {
        self.walk.action_space()
    }

    fn takes(&self, action: &[i64]) -> bool {
        self.walk.takes(action)
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [i64]) -> Result<()> {
        self.walk.start(random, obs);
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [i64]) -> Step {
        self.walk.advance(action, random, obs)
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.walk.info(key)
    }

    /// Draws 768 x 256 pixels, Gymnasium's size, in pavlov's own style.
    fn draw(&mut self) -> Option<Frame> {
        let mut board = Board::new(ROWS, COLUMNS, (64, 64))?;
        for state in 0..ROWS * COLUMNS {
            let color = if is_cliff(state) { [94, 63, 52] } else { [139, 172, 80] };
            board.tile((state / COLUMNS, state % COLUMNS), color);
        }
        board.flag((GOAL / COLUMNS, GOAL % COLUMNS));
        if let Some(state) = self.walk.state {
            board.disc((state / COLUMNS, state % COLUMNS), 0.3, board::AGENT);
        }
        Some(board.into_frame())
    }

    fn fps(&self) -> f64 {
        4.0
    }

    fn text(&self) -> Option<String> {
        let here = self.walk.state?;
        let letter = |state| match state {
            _ if state == here => "x",
            GOAL => "T",
            _ if is_cliff(state) => "C",
            _ => "o",
        };
        let row = |row| {
            let letters: Vec<_> = (row * COLUMNS..(row + 1) * COLUMNS).map(letter).collect();
            letters.join("  ") + "\n"
        };
        Some((0..ROWS).map(row).collect::<String>() + "\n")
    }

    fn save(&self) -> impl Serialize {
        self.walk.save()
    }

    fn load(&mut self, saved: SavedWalk, running: bool) -> Result<()> {
        self.walk.load(saved, running)
    }
}
