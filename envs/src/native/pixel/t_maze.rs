//! A T-maze: a cue at the start shows which end is the right one.

use serde::{Deserialize, Serialize};

use super::{
    Game, Outcome, PixelGame,
    screen::{BLACK, Color, Screen, WHITE},
};
use crate::NpRandom;

/// The game T-maze: remember a cue until the end of a corridor.
///
/// | | |
/// |---|---|
/// | actions | 0 up, 1 right, 2 down, 3 left; a move into a wall does nothing |
/// | reward | 1 at the right end, -1 at the wrong one, and -0.01 for every step |
/// | score of an episode | -2 to 0.93 in the 100 steps of `PixelTMaze-v0` |
/// | terminated | at either end |
///
/// The picture has 42 x 42 squares, 14 x 14 cells of 3. A corridor leads to the right; its length is drawn for each episode,
/// 5 to 10 cells. At its end an arm of three cells goes up and another one goes down. While the agent is in the first cell,
/// a cue is lit above or below it, on the side of the right end; from the second cell on, nothing shows the side. A policy
/// without memory therefore chooses an arm at random, and gets about -0.1: 0 minus the cost of its steps. A policy with
/// memory gets about 0.9.
pub type PixelTMaze = PixelGame<TMaze>;

const CELL: i32 = 3;
const CORRIDOR_ROW: i32 = 7;
const FIRST_COLUMN: i32 = 1;
const ARM: i32 = 3;
/// Shortest and longest corridor, in cells.
const LENGTHS: [i32; 2] = [5, 10];
const STEP_COST: f64 = 0.01;
/// Columns and rows of a move up, right, down and left.
const WAYS: [[i32; 2]; 4] = [[0, -1], [1, 0], [0, 1], [-1, 0]];

const FLOOR: Color = Color::new(80, 80, 80);
const END: Color = Color::new(80, 160, 80);
const CUE: Color = Color::new(230, 190, 90);

/// The rules and state of [`PixelTMaze`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TMaze {
    /// Column and row of the cell in which the agent is.
    agent: [i32; 2],
    length: i32,
    /// Whether the right end is the upper one.
    is_up: bool,
}

fn paint(screen: &mut Screen, [column, row]: [i32; 2], color: Color) {
    screen.fill([CELL * column, CELL * row], [CELL, CELL], color);
}

impl TMaze {
    fn last_column(&self) -> i32 {
        FIRST_COLUMN + self.length - 1
    }

    fn is_floor(&self, [column, row]: [i32; 2]) -> bool {
        let in_corridor = row == CORRIDOR_ROW && (FIRST_COLUMN..=self.last_column()).contains(&column);
        in_corridor || column == self.last_column() && (row - CORRIDOR_ROW).abs() <= ARM
    }

    fn is_end(&self, [_, row]: [i32; 2]) -> bool {
        (row - CORRIDOR_ROW).abs() == ARM
    }

    fn paint_cell(&self, screen: &mut Screen, cell: [i32; 2]) {
        paint(screen, cell, if self.is_end(cell) { END } else { FLOOR });
    }

    /// Paints the cue, which is visible only while the agent is in the first cell.
    fn paint_cue(&self, screen: &mut Screen) {
        let is_shown = self.agent == [FIRST_COLUMN, CORRIDOR_ROW];
        let side = if self.is_up { -1 } else { 1 };
        paint(screen, [FIRST_COLUMN, CORRIDOR_ROW + side], if is_shown { CUE } else { BLACK });
    }
}

impl Game for TMaze {
    const NAME: &'static str = "PixelTMaze";
    const ACTIONS: i64 = 4;

    fn start(random: &mut NpRandom) -> Self {
        let [shortest, longest] = LENGTHS.map(i64::from);
        let length = random.integers(shortest, longest + 1) as i32;
        Self { agent: [FIRST_COLUMN, CORRIDOR_ROW], length, is_up: random.integers(0, 2) == 1 }
    }

    fn draw(&self, screen: &mut Screen) {
        let last = self.last_column();
        let corridor = (FIRST_COLUMN..=last).map(|column| [column, CORRIDOR_ROW]);
        let arms = (-ARM..=ARM).map(|rows| [last, CORRIDOR_ROW + rows]);
        corridor.chain(arms).for_each(|cell| self.paint_cell(screen, cell));
        self.paint_cue(screen);
        paint(screen, self.agent, WHITE);
    }

    fn advance(&mut self, action: i64, _: &mut NpRandom, screen: &mut Screen) -> Outcome {
        self.paint_cell(screen, self.agent);
        let [columns, rows] = WAYS[action as usize];
        let ahead = [self.agent[0] + columns, self.agent[1] + rows];
        if self.is_floor(ahead) {
            self.agent = ahead;
        }
        self.paint_cue(screen);
        paint(screen, self.agent, WHITE);
        let is_at_end = self.is_end(self.agent);
        let is_right = (self.agent[1] < CORRIDOR_ROW) == self.is_up;
        let end = match (is_at_end, is_right) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Outcome { reward: end - STEP_COST, terminated: is_at_end }
    }

    fn is_sound(&self) -> bool {
        (LENGTHS[0]..=LENGTHS[1]).contains(&self.length) && self.is_floor(self.agent)
    }
}
