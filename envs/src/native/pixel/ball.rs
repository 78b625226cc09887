//! The ball of Breakout and Pong, a square of 2 x 2, and how paddles send it back.

use serde::{Deserialize, Serialize};

use super::screen::{BLACK, Color, SIDE, Screen, WHITE};

/// Squares along each side of the ball.
pub(super) const BALL: i32 = 2;
/// Length of a paddle.
pub(super) const PADDLE: i32 = 8;
/// The ball moves by single squares, so often in a step.
pub(super) const MOVES: i32 = 2;
/// The rows above it show lives or points.
pub(super) const CEILING: i32 = 3;

/// Where the ball was before the last step: one picture shows where it goes.
const TRAIL: Color = Color::new(90, 90, 90);

/// Place and speed in squares and squares per step.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ball {
    pub(super) at: [i32; 2],
    pub(super) speed: [i32; 2],
    before: [i32; 2],
}

impl Ball {
    pub(super) fn new(at: [i32; 2], speed: [i32; 2]) -> Self {
        Self { at, speed, before: at }
    }

    /// Begins a step.
    pub(super) fn leave_trail(&mut self) {
        self.before = self.at;
    }

    /// By how much the ball moves along `axis` in the move `of_step`, from 0: a speed of 1 is one of two moves.
    pub(super) fn way(&self, axis: usize, of_step: i32) -> i32 {
        let speed = self.speed[axis];
        if speed.abs() > of_step { speed.signum() } else { 0 }
    }

    /// Where the ball would be after a move along `axis`.
    pub(super) fn moved(&self, axis: usize, way: i32) -> [i32; 2] {
        let mut at = self.at;
        at[axis] += way;
        at
    }

    pub(super) fn turn(&mut self, axis: usize) {
        self.speed[axis] = -self.speed[axis];
    }

    pub(super) fn erase(&self, screen: &mut Screen) {
        screen.fill(self.before, [BALL, BALL], BLACK);
        screen.fill(self.at, [BALL, BALL], BLACK);
    }

    pub(super) fn draw(&self, screen: &mut Screen) {
        screen.fill(self.before, [BALL, BALL], TRAIL);
        screen.fill(self.at, [BALL, BALL], WHITE);
    }

    /// Whether the numbers are such as a game makes them.
    pub(super) fn is_sound(&self) -> bool {
        let near = |place: &i32| (-MOVES..=SIDE + MOVES).contains(place);
        let speeds = self.speed.iter().all(|speed| (1..=MOVES).contains(&speed.abs()));
        speeds && self.at.iter().chain(&self.before).all(near)
    }
}

/// The speed of a ball along a paddle after the paddle returned it, if it does: `None` where the two do not meet. The
/// ball is at `ball` along the paddle, the paddle at `paddle`.
///
/// The outer squares of the paddle send the ball off at 2, the inner ones at 1, to their side; the middle keeps the side.
pub(super) fn returned(ball: i32, paddle: i32, speed: i32) -> Option<i32> {
    let off_middle = ball + BALL / 2 - (paddle + PADDLE / 2);
    match off_middle {
        -4..=-3 => Some(-2),
        -2..=-1 => Some(-1),
        0 => Some(speed.signum()),
        1..=2 => Some(1),
        3..=4 => Some(2),
        _ => None,
    }
}

/// Marks above the ceiling from `left` on: lives or points.
pub(super) fn draw_marks(screen: &mut Screen, left: i32, marks: u32, color: Color) {
    (0..marks as i32).for_each(|mark| screen.fill([left + 4 * mark, 0], [BALL, 1], color));
}

/// The line that balls do not pass.
pub(super) fn draw_ceiling(screen: &mut Screen) {
    screen.fill([0, CEILING - 1], [SIDE, 1], TRAIL);
}
