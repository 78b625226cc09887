//! Connect four: chips fall to the lowest free row of a column; four in a row win.

use super::board_game::{BoardGame, Rules};
use crate::Frame;
use crate::render::draw;

const COLUMNS: usize = 7;

impl BoardGame {
    /// The game Connect four, `connect_four_v3`: agents `player_0` and `player_1`; actions 0..7 are the columns of a
    /// board with 6 rows.
    pub fn connect_four() -> Self {
        Self::new(&RULES)
    }
}

static RULES: Rules = Rules {
    name: "connect_four",
    agents: ["player_0", "player_1"],
    rows: 6,
    columns: COLUMNS,
    line: 4,
    actions: COLUMNS,
    square: |board, column| (0..board.len()).rev().find(|i| i % COLUMNS == column && board[*i] == 0),
    draw: draw_board,
};

/// Draws 891 x 774 pixels as PettingZoo does: row 0 is at the top, and the first player's chips are red.
fn draw_board(board: &[u8]) -> Option<Frame> {
    const BLUE: [u8; 3] = [26, 66, 174];
    const RED: [u8; 3] = [211, 35, 35];
    const WHITE: [u8; 3] = [255, 255, 255];
    let width = 891.0;
    let height = 774.0;
    let tile = width * (91.0 / 99.0) / 7.0;
    let mut canvas = draw::Canvas::new(891, 774)?;
    canvas.polygon(&[(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)], BLUE);
    for (square, &mark) in board.iter().enumerate() {
        let column = (square % COLUMNS) as f32;
        let row = (square / COLUMNS) as f32;
        let at = |index: f32| tile * (index + 10.5 / 13.0);
        let color = [WHITE, RED, draw::BLACK][usize::from(mark.min(2))];
        canvas.circle((at(column), height - at(row)), tile * 4.5 / 13.0, color);
    }
    Some(canvas.into_frame())
}
