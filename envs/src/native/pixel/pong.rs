//! Pong: get the ball past an opponent.

use serde::{Deserialize, Serialize};

use super::{
    Game, Outcome, PixelGame,
    ball::{BALL, Ball, CEILING, MOVES, PADDLE, draw_ceiling, draw_marks, returned},
    screen::{BLACK, Color, SIDE, Screen},
};
use crate::NpRandom;

/// The game Pong: get the ball past an opponent that is slower than you.
///
/// | | |
/// |---|---|
/// | actions | 0 stay, 1 up, 2 down; a move is 2 squares |
/// | reward | 1 for a ball that the opponent missed, -1 for one that you missed |
/// | score of an episode | -5 to 5 |
/// | terminated | when one side has 5 points |
///
/// The picture has 42 x 42 squares. You are the paddle on the right, 8 high, with its face in column 38; the opponent's face
/// is in column 3. The opponent moves 1 square per step, always to bring the middle of its paddle to the ball. The ball is 2
/// x 2 and leaves a dim trail where it was a step ago. It moves 2 left or right in a step, and 1 or 2 up or down; it bounces
/// off the floor and the ceiling. Where it meets a paddle decides its new direction: the outer two squares at either end
/// send it 2 to their side, the inner ones 1, and the middle keeps its side. Balls come from the middle at a random height,
/// 1 up or down, towards the side that missed the last one; the first goes to a random side. Marks at the top show the
/// points. The opponent cannot keep up with a ball that moves 2 up or down.
pub type PixelPong = PixelGame<Pong>;

const POINTS: u32 = 5;
const OPPONENT: usize = 0;
const AGENT: usize = 1;
/// Speeds of the opponent's paddle and of the agent's, in squares per step.
const PADDLE_MOVES: [i32; 2] = [1, 2];
/// Left columns of the paddles, which are 2 wide: the opponent's, then the agent's.
const PADDLES_AT: [i32; 2] = [2, 38];
const COLORS: [Color; 2] = [Color::new(230, 110, 40), Color::new(100, 200, 255)];
const MARKS_AT: [i32; 2] = [1, 23];

/// The rules and state of [`PixelPong`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pong {
    ball: Ball,
    /// Top rows of the paddles: the opponent's, then the agent's.
    paddles: [i32; 2],
    points: [u32; 2],
}

/// A new ball that flies towards `side`.
fn serve(side: usize, random: &mut NpRandom) -> Ball {
    let y = random.integers(10, 31) as i32;
    let slope = if random.integers(0, 2) == 0 { -1 } else { 1 };
    let speed = if side == AGENT { MOVES } else { -MOVES };
    Ball::new([(SIDE - BALL) / 2, y], [speed, slope])
}

impl Pong {
    fn move_paddle(&mut self, side: usize, way: i32) {
        let way = way.signum() * PADDLE_MOVES[side];
        self.paddles[side] = (self.paddles[side] + way).clamp(CEILING, SIDE - PADDLE);
    }

    fn move_ball(&mut self, of_step: i32) {
        let way = self.ball.way(1, of_step);
        let along = self.ball.moved(1, way);
        if (CEILING..=SIDE - BALL).contains(&along[1]) {
            self.ball.at = along;
        } else {
            self.ball.turn(1);
        }

        let way = self.ball.way(0, of_step);
        let ahead = self.ball.moved(0, way);
        let side = if way > 0 { AGENT } else { OPPONENT };
        let meets_paddle =
            ahead[0] == if side == AGENT { PADDLES_AT[AGENT] + 1 - BALL } else { PADDLES_AT[OPPONENT] + 1 };
        if meets_paddle && let Some(speed) = returned(ahead[1], self.paddles[side], self.ball.speed[1]) {
            self.ball.speed = [-self.ball.speed[0], speed];
        } else {
            self.ball.at = ahead;
        }
    }

    fn paint_paddles(&self, screen: &mut Screen, colors: [Color; 2]) {
        for side in [OPPONENT, AGENT] {
            screen.fill([PADDLES_AT[side], self.paddles[side]], [2, PADDLE], colors[side]);
        }
    }

    fn draw_points(&self, screen: &mut Screen) {
        for side in [OPPONENT, AGENT] {
            draw_marks(screen, MARKS_AT[side], self.points[side], COLORS[side]);
        }
    }
}

impl Game for Pong {
    const NAME: &'static str = "PixelPong";
    const ACTIONS: i64 = 3;

    fn start(random: &mut NpRandom) -> Self {
        let side = random.integers(0, 2) as usize;
        Self { ball: serve(side, random), paddles: [(CEILING + SIDE - PADDLE) / 2; 2], points: [0; 2] }
    }

    fn draw(&self, screen: &mut Screen) {
        draw_ceiling(screen);
        self.draw_points(screen);
        self.ball.draw(screen);
        self.paint_paddles(screen, COLORS);
    }

    fn advance(&mut self, action: i64, random: &mut NpRandom, screen: &mut Screen) -> Outcome {
        self.ball.erase(screen);
        self.paint_paddles(screen, [BLACK; 2]);
        self.move_paddle(AGENT, [0, -1, 1][action as usize]);
        let ball_to_opponent = self.ball.at[1] + BALL / 2 - (self.paddles[OPPONENT] + PADDLE / 2);
        self.move_paddle(OPPONENT, ball_to_opponent);
        self.ball.leave_trail();
        (0..MOVES).for_each(|of_step| self.move_ball(of_step));
        let missed_by = match self.ball.at[0] {
            SIDE.. => Some(AGENT),
            x if x + BALL <= 0 => Some(OPPONENT),
            _ => None,
        };
        if let Some(side) = missed_by {
            self.points[1 - side] += 1;
            self.draw_points(screen);
            if self.points[1 - side] < POINTS {
                self.ball = serve(side, random);
            }
        }
        self.ball.draw(screen);
        self.paint_paddles(screen, COLORS);
        let reward = match missed_by {
            Some(AGENT) => -1.0,
            Some(_) => 1.0,
            None => 0.0,
        };
        Outcome { reward, terminated: self.points.contains(&POINTS) }
    }

    fn is_sound(&self) -> bool {
        self.ball.is_sound()
            && self.paddles.iter().all(|paddle| (CEILING..=SIDE - PADDLE).contains(paddle))
            && self.points.iter().all(|points| *points <= POINTS)
    }
}
