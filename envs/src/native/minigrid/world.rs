//! A grid with an agent: tasks build it in `reset` and change it in `step`.

use super::{
    cell::{Cell, GOAL, LAVA, SORTED_COLORS},
    grid::{DIRECTIONS, Grid, Pos},
    room::Room,
};
use crate::{Error, NpRandom, Result};

/// Actions, with MiniGrid's numbers.
pub(super) mod action {
    pub(in super::super) const LEFT: i64 = 0;
    pub(in super::super) const RIGHT: i64 = 1;
    pub(in super::super) const FORWARD: i64 = 2;
    pub(in super::super) const PICKUP: i64 = 3;
    pub(in super::super) const DROP: i64 = 4;
    pub(in super::super) const TOGGLE: i64 = 5;
    pub(in super::super) const DONE: i64 = 6;
}

/// Position of an agent that has not been placed.
pub(super) const NOWHERE: Pos = (-1, -1);

/// Number of draws after which no place is assumed to exist; MiniGrid would draw for ever.
pub(super) const PATIENCE: usize = 1_000_000;

/// A grid, its agent, and the state of the episode.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) grid: Grid,
    pub(super) agent: Pos,
    pub(super) direction: usize,
    pub(super) carrying: Option<Cell>,
    /// The episode's random stream during a reset or a step; a placeholder between them.
    pub(super) random: NpRandom,
    /// Steps taken in the episode, and their maximum.
    pub(super) steps: u32,
    pub(super) max_steps: u32,
    /// Number of the mission.
    pub(super) mission: i64,
    /// Object that the mission asks for; only kind and colour count.
    pub(super) wanted: Cell,
    /// Fields on which success depends; their meaning is up to the task.
    pub(super) places: [Pos; 2],
    /// Positions of the moving balls.
    pub(super) obstacles: Vec<Pos>,
    pub(super) scratch: Scratch,
}

/// Buffers that tasks use while they build a grid, kept so that a reset does not allocate.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub(super) numbers: [Vec<i32>; 4],
    pub(super) objects: Vec<(Cell, Pos)>,
    pub(super) rooms: Vec<Room>,
    pub(super) other_rooms: Vec<Room>,
    pub(super) flags: Vec<bool>,
    pub(super) stack: Vec<usize>,
}

impl World {
    pub(super) fn new(grid: Grid, max_steps: u32) -> Self {
        Self {
            grid,
            agent: NOWHERE,
            direction: 0,
            carrying: None,
            random: NpRandom::new(0),
            steps: 0,
            max_steps,
            mission: 0,
            wanted: Cell::EMPTY,
            places: [NOWHERE; 2],
            obstacles: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Clears the world before a task builds the next episode.
    pub(super) fn begin(&mut self) {
        self.grid.clear();
        self.agent = NOWHERE;
        self.direction = 0;
        self.carrying = None;
        self.steps = 0;
    }

    /// Draws an integer uniformly from `low..high`.
    pub(super) fn rand_int(&mut self, low: i32, high: i32) -> i32 {
        self.random.integers(i64::from(low), i64::from(high)) as i32
    }

    pub(super) fn rand_elem<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.integers(0, of.len() as i64) as usize]
    }

    pub(super) fn rand_color(&mut self) -> u8 {
        self.rand_elem(&SORTED_COLORS)
    }

    /// Draws fields of a rectangle until one is empty, without the agent, and not rejected; `None` after `tries` draws.
    pub(super) fn find(
        &mut self,
        top: Pos,
        size: Pos,
        tries: usize,
        rejects: impl Fn(&Self, Pos) -> bool,
    ) -> Option<Pos> {
        let left = top.0.max(0);
        let top = top.1.max(0);
        let right = (left + size.0).min(self.grid.width);
        let bottom = (top + size.1).min(self.grid.height);
        for _ in 0..tries {
            let at = (self.rand_int(left, right), self.rand_int(top, bottom));
            if self.grid.get(at).is_empty() && at != self.agent && !rejects(self, at) {
                return Some(at);
            }
        }
        None
    }

    /// Places an object on a field drawn by [`find`](Self::find), and returns the position.
    pub(super) fn place_within(
        &mut self,
        cell: Cell,
        top: Pos,
        size: Pos,
        tries: usize,
        rejects: impl Fn(&Self, Pos) -> bool,
    ) -> Result<Pos> {
        let at = self.find(top, size, tries, rejects).ok_or_else(no_room)?;
        self.grid.set(at, cell);
        Ok(at)
    }

    /// Places an object on a random empty field of the grid.
    pub(super) fn place(&mut self, cell: Cell) -> Result<Pos> {
        self.place_in(cell, (0, 0), (self.grid.width, self.grid.height))
    }

    /// Places an object on a random empty field of a rectangle.
    pub(super) fn place_in(&mut self, cell: Cell, top: Pos, size: Pos) -> Result<Pos> {
        self.place_within(cell, top, size, PATIENCE, |_, _| false)
    }

    /// Places an object on a random empty field of the grid that `rejects` does not reject.
    pub(super) fn place_unless(&mut self, cell: Cell, rejects: impl Fn(&Self, Pos) -> bool) -> Result<Pos> {
        self.place_within(cell, (0, 0), (self.grid.width, self.grid.height), PATIENCE, rejects)
    }

    /// Places the agent on a random empty field of a rectangle, with a random direction.
    pub(super) fn place_agent_in(&mut self, top: Pos, size: Pos, tries: usize) -> Result<()> {
        self.agent = NOWHERE;
        self.agent = self.find(top, size, tries, |_, _| false).ok_or_else(no_room)?;
        self.direction = self.rand_int(0, 4) as usize;
        Ok(())
    }

    /// Places the agent on a random empty field of the grid, with a random direction.
    pub(super) fn place_agent(&mut self) -> Result<()> {
        self.place_agent_in((0, 0), (self.grid.width, self.grid.height), PATIENCE)
    }

    /// Places the agent at `at` with the given direction; a position of `None` draws both.
    pub(super) fn start_agent(&mut self, at: Option<Pos>, direction: usize) -> Result<()> {
        match at {
            None => self.place_agent(),
            Some(at) => {
                self.agent = at;
                self.direction = direction;
                Ok(())
            }
        }
    }

    /// Position of the field ahead of the agent.
    #[inline]
    pub(super) fn front(&self) -> Pos {
        let (dx, dy) = DIRECTIONS[self.direction];
        (self.agent.0 + dx, self.agent.1 + dy)
    }

    /// Whether the agent is next to a field, not diagonally.
    pub(super) fn is_beside(&self, (x, y): Pos) -> bool {
        (self.agent.0 - x).abs() + (self.agent.1 - y).abs() == 1
    }

    /// Reward of success, which falls with every step.
    pub(super) fn success(&self) -> f64 {
        1.0 - 0.9 * (f64::from(self.steps) / f64::from(self.max_steps))
    }

    /// Applies an action as all tasks do; returns the reward and whether the episode terminated.
    #[inline]
    pub(super) fn act(&mut self, action: i64) -> (f64, bool) {
        self.steps += 1;
        let ahead = self.front();
        let cell = self.grid.get(ahead);
        match action {
            action::LEFT => self.direction = (self.direction + 3) % 4,
            action::RIGHT => self.direction = (self.direction + 1) % 4,
            action::FORWARD => {
                if cell.can_overlap() {
                    self.agent = ahead;
                }
                match cell.kind() {
                    GOAL => return (self.success(), true),
                    LAVA => return (0.0, true),
                    _ => {}
                }
            }
            action::PICKUP if cell.can_pickup() && self.carrying.is_none() => {
                self.carrying = Some(cell);
                self.grid.set(ahead, Cell::EMPTY);
            }
            action::DROP if cell.is_empty() => {
                if let Some(carried) = self.carrying.take() {
                    self.grid.set(ahead, carried);
                }
            }
            action::TOGGLE => self.grid.set(ahead, cell.toggled(self.carrying)),
            _ => {}
        }
        (0.0, false)
    }
}

fn no_room() -> Error {
    Error::other(
        "no empty field was found for an object or the agent; make the grid larger or the objects fewer",
    )
}
