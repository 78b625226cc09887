//! Tic-tac-toe: three in a row on nine squares.

use super::board_game::{BoardGame, Rules};
use crate::Frame;
use crate::render::draw;

impl BoardGame {
    /// Makes the game Tic-tac-toe, `tictactoe_v3`: agents are `player_1` and `player_2`, and actions 0..9 are the squares.
    pub fn tictactoe() -> Self {
        Self::new(&RULES)
    }
}

static RULES: Rules = Rules {
    name: "tictactoe",
    agents: ["player_1", "player_2"],
    rows: 3,
    columns: 3,
    line: 3,
    actions: 9,
    square: |board, action| (board[action] == 0).then_some(action),
    draw: draw_board,
};

/// Draws 1000 x 1000 pixels, like PettingZoo; square `3 i + j` is in column `i` and row `j` from the top, and the first
/// player's marks are crosses.
fn draw_board(board: &[u8]) -> Option<Frame> {
    const SIZE: f32 = 1000.0;
    const WOOD: [u8; 3] = [217, 160, 54];
    const SEAM: [u8; 3] = [233, 196, 76];
    let mut canvas = draw::Canvas::new(1000, 1000)?;
    let rectangle = |(x, y): (f32, f32), width: f32, height: f32| {
        [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    };
    canvas.polygon(&rectangle((0.0, 0.0), SIZE, SIZE), SEAM);
    for (square, &mark) in board.iter().enumerate() {
        let column = (square / 3) as f32;
        let row = (square % 3) as f32;
        let center = (SIZE * (column + 0.5) / 3.0, SIZE * (2.5 - row) / 3.0);
        canvas.polygon(&rectangle((center.0 - 140.0, center.1 - 140.0), 280.0, 280.0), WOOD);
        match mark {
            0 => {}
            1 => {
                for angle in [0.25, 0.75].map(|turns: f32| turns * std::f32::consts::PI) {
                    let bar = rectangle((-130.0, -18.0), 260.0, 36.0);
                    canvas.polygon(&bar.map(|corner| draw::turn(corner, angle, center)), draw::BLACK);
                }
            }
            _ => {
                canvas.circle(center, 110.0, draw::BLACK);
                canvas.circle(center, 74.0, WOOD);
            }
        }
    }
    Some(canvas.into_frame())
}
