//! The ball of Breakout and Pong, a square of 2 x 2, and how it bounces off paddles.

use serde::{Deserialize, Serialize};

use super::screen::{BLACK, Color, SIDE, Screen, WHITE};

/// Side of the ball, in squares.
pub(super) const BALL: i32 = 2;
/// Length of a paddle, in squares.
pub(super) const PADDLE: i32 = 8;
/// Number of moves by one square within a step.
pub(super) const MOVES: i32 = 2;
/// First row of the playing field; the rows above show lives or points.
pub(super) const CEILING: i32 = 3;

/// Color of the ball's trail, which shows its last place, so that one picture shows its direction.
const TRAIL: Color = Color::new(90, 90, 90);

/// Position in squares, and velocity in squares per step.
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

    /// Begins a step: the trail moves to the ball's current position.
    pub(super) fn leave_trail(&mut self) {
        self.before = self.at;
    }

    /// Distance that the ball moves along `axis` in move `of_step` of the step (from 0): a ball with speed 1 moves in the
    /// first of two moves only.
    pub(super) fn way(&self, axis: usize, of_step: i32) -> i32 {
        let speed = self.speed[axis];
        if speed.abs() > of_step { speed.signum() } else { 0 }
    }

    /// Position of the ball after a move by `way` along `axis`.
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

    /// Whether position and speed are possible in a game, for checking saved states.
    pub(super) fn is_sound(&self) -> bool {
        let near = |place: &i32| (-MOVES..=SIDE + MOVES).contains(place);
        let speeds = self.speed.iter().all(|speed| (1..=MOVES).contains(&speed.abs()));
        speeds && self.at.iter().chain(&self.before).all(near)
    }
}

/// New speed along the paddle of a ball that meets a paddle; `None` if the ball misses it. `ball` and `paddle` are their
/// positions along the paddle.
///
/// The outer squares of the paddle give the ball speed 2 towards their side, the inner ones 1; the middle keeps the
/// direction, with speed 1.
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

/// Draws marks for lives or points in the top row, from column `left` on.
pub(super) fn draw_marks(screen: &mut Screen, left: i32, marks: u32, color: Color) {
    (0..marks as i32).for_each(|mark| screen.fill([left + 4 * mark, 0], [BALL, 1], color));
}

/// Draws the line below the marks, off which balls bounce.
pub(super) fn draw_ceiling(screen: &mut Screen) {
    screen.fill([0, CEILING - 1], [SIDE, 1], TRAIL);
}
