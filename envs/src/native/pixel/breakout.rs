//! Breakout: break a wall of bricks with a ball that must not be lost.

use serde::{Deserialize, Serialize};

use super::{
    Game, Outcome, PixelGame,
    ball::{BALL, Ball, CEILING, MOVES, PADDLE, draw_ceiling, draw_marks, returned},
    screen::{BLACK, Color, SIDE, Screen},
};
use crate::NpRandom;

/// The game Breakout: break a wall of bricks with a ball that must not be lost.
///
/// | | |
/// |---|---|
/// | actions | 0 stay, 1 left, 2 right; a move is 3 squares |
/// | reward | 1 per brick |
/// | score of an episode | 0 to 42 |
/// | terminated | after the third lost ball, or when no brick is left |
/// | `info("lives")` | balls left, the one in play included |
///
/// The picture has 42 x 42 squares. Six rows of seven bricks, each of 6 x 2, begin in row 8; the paddle is 8 wide and moves
/// along row 38. The ball is 2 x 2 and leaves a dim trail where it was a step ago. It moves 2 up or down in a step, and 1 or
/// 2 to a side; it bounces off the sides, the ceiling and bricks, which break. Where it meets the paddle decides its new
/// direction: the outer two squares at either end send it 2 to their side, the inner ones 1, and the middle keeps its side.
/// A ball that leaves at the bottom is lost; the next one falls from row 22 at a random place, 1 to a random side. Marks at
/// the top show the lives. A perfect game breaks all bricks.
pub type PixelBreakout = PixelGame<Breakout>;

const LIVES: u32 = 3;
const BRICK: [i32; 2] = [6, 2];
const COLUMNS: i32 = SIDE / BRICK[0];
const ROWS: i32 = 6;
const WALL_TOP: i32 = 8;
const WHOLE_WALL: u64 = (1 << (ROWS * COLUMNS)) - 1;
const PADDLE_TOP: i32 = 38;
const PADDLE_MOVE: i32 = 3;
const SERVED_FROM: i32 = 22;

const BRICKS: [Color; 2] = [Color::new(200, 72, 72), Color::new(180, 122, 48)];
const PADDLE_COLOR: Color = Color::new(100, 200, 255);

/// The rules and state of [`PixelBreakout`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Breakout {
    ball: Ball,
    paddle: i32,
    /// Remaining bricks: bit `COLUMNS * row + column` for each.
    bricks: u64,
    lives: u32,
}

fn serve(random: &mut NpRandom) -> Ball {
    let x = random.integers(0, i64::from(SIDE - BALL) + 1) as i32;
    let side = if random.integers(0, 2) == 0 { -1 } else { 1 };
    Ball::new([x, SERVED_FROM], [side, MOVES])
}

/// Index and top left corner of the brick whose place includes a square, broken or not.
fn brick_at([x, y]: [i32; 2]) -> Option<(i32, [i32; 2])> {
    let row = (y - WALL_TOP).div_euclid(BRICK[1]);
    let column = x.div_euclid(BRICK[0]);
    let is_there = (0..ROWS).contains(&row) && (0..COLUMNS).contains(&column);
    is_there.then(|| (COLUMNS * row + column, [column * BRICK[0], WALL_TOP + row * BRICK[1]]))
}

impl Breakout {
    /// Breaks the bricks that a ball at `[x, y]` touches; returns their number.
    fn break_bricks(&mut self, [x, y]: [i32; 2], screen: &mut Screen) -> u32 {
        let mut broken = 0;
        for corner in [[x, y], [x + BALL - 1, y], [x, y + BALL - 1], [x + BALL - 1, y + BALL - 1]] {
            if let Some((brick, place)) = brick_at(corner)
                && self.bricks & 1 << brick != 0
            {
                self.bricks ^= 1 << brick;
                screen.fill(place, BRICK, BLACK);
                broken += 1;
            }
        }
        broken
    }

    /// Makes move `of_step` of the ball within a step; returns the number of broken bricks.
    fn move_ball(&mut self, of_step: i32, screen: &mut Screen) -> u32 {
        let way = self.ball.way(0, of_step);
        let aside = self.ball.moved(0, way);
        let mut broken = self.break_bricks(aside, screen);
        if broken > 0 || !(0..=SIDE - BALL).contains(&aside[0]) {
            self.ball.turn(0);
        } else {
            self.ball.at = aside;
        }

        let way = self.ball.way(1, of_step);
        let ahead = self.ball.moved(1, way);
        let broken_ahead = self.break_bricks(ahead, screen);
        broken += broken_ahead;
        let meets_paddle = way > 0 && ahead[1] + BALL - 1 == PADDLE_TOP;
        if broken_ahead > 0 || ahead[1] < CEILING {
            self.ball.turn(1);
        } else if meets_paddle && let Some(speed) = returned(ahead[0], self.paddle, self.ball.speed[0]) {
            self.ball.speed = [speed, -MOVES];
        } else {
            self.ball.at = ahead;
        }
        broken
    }
}

impl Game for Breakout {
    const NAME: &'static str = "PixelBreakout";
    const ACTIONS: i64 = 3;

    fn start(random: &mut NpRandom) -> Self {
        Self { ball: serve(random), paddle: (SIDE - PADDLE) / 2, bricks: WHOLE_WALL, lives: LIVES }
    }

    fn draw(&self, screen: &mut Screen) {
        draw_ceiling(screen);
        draw_marks(screen, 1, self.lives, PADDLE_COLOR);
        for brick in (0..ROWS * COLUMNS).filter(|brick| self.bricks & 1 << brick != 0) {
            let row = brick / COLUMNS;
            let column = brick % COLUMNS;
            let place = [column * BRICK[0], WALL_TOP + row * BRICK[1]];
            screen.fill(place, BRICK, BRICKS[((row + column) % 2) as usize]);
        }
        self.ball.draw(screen);
        screen.fill([self.paddle, PADDLE_TOP], [PADDLE, 2], PADDLE_COLOR);
    }

    fn advance(&mut self, action: i64, random: &mut NpRandom, screen: &mut Screen) -> Outcome {
        self.ball.erase(screen);
        screen.fill([self.paddle, PADDLE_TOP], [PADDLE, 2], BLACK);
        let way = [0, -PADDLE_MOVE, PADDLE_MOVE][action as usize];
        self.paddle = (self.paddle + way).clamp(0, SIDE - PADDLE);
        self.ball.leave_trail();
        let broken: u32 = (0..MOVES).map(|of_step| self.move_ball(of_step, screen)).sum();
        if self.ball.at[1] >= SIDE {
            self.lives -= 1;
            screen.fill([0, 0], [SIDE, 1], BLACK);
            draw_marks(screen, 1, self.lives, PADDLE_COLOR);
            if self.lives > 0 {
                self.ball = serve(random);
            }
        }
        self.ball.draw(screen);
        screen.fill([self.paddle, PADDLE_TOP], [PADDLE, 2], PADDLE_COLOR);
        Outcome { reward: f64::from(broken), terminated: self.lives == 0 || self.bricks == 0 }
    }

    fn info(&self, key: &str) -> Option<f64> {
        (key == "lives").then_some(f64::from(self.lives))
    }

    fn is_sound(&self) -> bool {
        self.ball.is_sound()
            && (0..=SIDE - PADDLE).contains(&self.paddle)
            && self.bricks & !WHOLE_WALL == 0
            && self.lives <= LIVES
    }
}
