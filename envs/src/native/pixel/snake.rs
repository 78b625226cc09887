//! Snake: eat, grow, and do not bite yourself.

use std::{collections::VecDeque, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use super::{
    Game, Outcome, PixelGame,
    screen::{BLACK, Color, SIDE, Screen, WHITE},
};
use crate::NpRandom;

/// The game Snake: eat, grow, and do not bite yourself.
///
/// | | |
/// |---|---|
/// | actions | 0 up, 1 right, 2 down, 3 left; the opposite of the current direction keeps the direction |
/// | reward | 1 for food, -1 for death |
/// | score of an episode | -1 to 97 |
/// | terminated | when the snake dies, or fills the field |
///
/// The picture has 42 x 42 squares: a wall of 1 around a field of 10 x 10 cells, 4 squares wide each. The snake begins with
/// three cells in the middle, going right, and moves by one cell per step. Food lies in a random free cell. When the head
/// reaches the food, the snake grows by that cell, and new food appears; the snake dies when its head hits the wall or its
/// body. The tail moves first: its cell is free for the head.
pub type PixelSnake = PixelGame<Snake>;

const FIELD: i32 = 10;
const CELLS: usize = (FIELD * FIELD) as usize;
const CELL: i32 = 4;
/// Columns and rows of a move up, right, down and left.
const WAYS: [[i32; 2]; 4] = [[0, -1], [1, 0], [0, 1], [-1, 0]];
const RIGHT: usize = 1;
/// Cells of the body at the start: columns 3 to 5 of row 5.
const FIRST_BODY: RangeInclusive<u8> = 53..=55;

const WALL: Color = Color::new(80, 80, 80);
const BODY: Color = Color::new(80, 160, 80);
const FOOD: Color = Color::new(230, 190, 90);

/// The rules and state of [`PixelSnake`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snake {
    /// Cells of the body from the tail to the head, each `FIELD * row + column`.
    body: VecDeque<u8>,
    /// Cells of the body as a set: one bit per cell.
    taken: u128,
    /// Direction of the last step, an index into `WAYS`.
    way: usize,
    /// Cell of the food; `None` when the snake fills the field.
    food: Option<u8>,
}

fn bit(cell: u8) -> u128 {
    1 << cell
}

fn paint(screen: &mut Screen, cell: u8, color: Color) {
    let cell = i32::from(cell);
    screen.fill([1 + CELL * (cell % FIELD), 1 + CELL * (cell / FIELD)], [CELL, CELL], color);
}

impl Snake {
    fn head(&self) -> u8 {
        self.body.back().copied().unwrap_or_default()
    }

    /// The cell in front of the head; `None` if that is the wall.
    fn ahead(&self) -> Option<u8> {
        let head = i32::from(self.head());
        let [columns, rows] = WAYS[self.way];
        let column = head % FIELD + columns;
        let row = head / FIELD + rows;
        let is_inside = (0..FIELD).contains(&column) && (0..FIELD).contains(&row);
        is_inside.then_some((FIELD * row + column) as u8)
    }

    fn push_head(&mut self, cell: u8) {
        self.body.push_back(cell);
        self.taken |= bit(cell);
    }

    fn lay_food(&mut self, random: &mut NpRandom) {
        let free = CELLS - self.body.len();
        let choice = random.integers(0, free as i64) as usize;
        self.food = (0..CELLS as u8).filter(|&cell| self.taken & bit(cell) == 0).nth(choice);
    }

    fn draw_food(&self, screen: &mut Screen) {
        if let Some(food) = self.food {
            paint(screen, food, FOOD);
        }
    }
}

impl Game for Snake {
    const NAME: &'static str = "PixelSnake";
    const ACTIONS: i64 = 4;

    fn start(random: &mut NpRandom) -> Self {
        let mut snake = Self { body: VecDeque::new(), taken: 0, way: RIGHT, food: None };
        snake.restart(random);
        snake
    }

    fn restart(&mut self, random: &mut NpRandom) {
        self.body.clear();
        self.body.reserve(CELLS);
        self.taken = 0;
        self.way = RIGHT;
        FIRST_BODY.for_each(|cell| self.push_head(cell));
        self.lay_food(random);
    }

    fn draw(&self, screen: &mut Screen) {
        screen.fill([0, 0], [SIDE, SIDE], WALL);
        screen.fill([1, 1], [CELL * FIELD, CELL * FIELD], BLACK);
        self.draw_food(screen);
        self.body.iter().for_each(|&cell| paint(screen, cell, BODY));
        paint(screen, self.head(), WHITE);
    }

    fn advance(&mut self, action: i64, random: &mut NpRandom, screen: &mut Screen) -> Outcome {
        let action = action as usize;
        if action != (self.way + 2) % WAYS.len() {
            self.way = action;
        }
        let ahead = self.ahead();
        let eats = ahead.is_some() && ahead == self.food;
        if !eats && let Some(tail) = self.body.front().copied() {
            self.body.pop_front();
            self.taken &= !bit(tail);
            paint(screen, tail, BLACK);
        }
        let Some(cell) = ahead.filter(|&cell| self.taken & bit(cell) == 0) else {
            return Outcome { reward: -1.0, terminated: true };
        };
        paint(screen, self.head(), BODY);
        self.push_head(cell);
        paint(screen, cell, WHITE);
        if eats {
            self.lay_food(random);
            self.draw_food(screen);
        }
        Outcome { reward: if eats { 1.0 } else { 0.0 }, terminated: self.food.is_none() }
    }

    fn is_sound(&self) -> bool {
        let mut taken = 0;
        let mut inside = self.body.iter().chain(&self.food).all(|&cell| usize::from(cell) < CELLS);
        if inside {
            for &cell in &self.body {
                inside &= taken & bit(cell) == 0;
                taken |= bit(cell);
            }
        }
        inside
            && !self.body.is_empty()
            && self.taken == taken
            && self.way < WAYS.len()
            && self.food.is_none_or(|food| taken & bit(food) == 0)
    }
}
