//! A grid with an agent in it: what tasks build at a reset and change in a step.

use super::{
    cell::{Cell, GOAL, LAVA, SORTED_COLORS},
    grid::{DIRECTIONS, Grid, Pos},
};
use crate::{Error, NpRandom, Result};

/// What an agent does, by MiniGrid's numbers.
pub(super) mod action {
    pub(in super::super) const LEFT: i64 = 0;
    pub(in super::super) const RIGHT: i64 = 1;
    pub(in super::super) const FORWARD: i64 = 2;
    pub(in super::super) const PICKUP: i64 = 3;
    pub(in super::super) const DROP: i64 = 4;
    pub(in super::super) const TOGGLE: i64 = 5;
    pub(in super::super) const DONE: i64 = 6;
}

/// Where there is no agent yet.
pub(super) const NOWHERE: Pos = (-1, -1);

/// Draws after which a place counts as not to be found, where MiniGrid would draw forever.
pub(super) const PATIENCE: usize = 1_000_000;

/// A grid, its agent, and what the task notes about the episode.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) grid: Grid,
    pub(super) agent: Pos,
    pub(super) direction: usize,
    pub(super) carrying: Option<Cell>,
    pub(super) random: NpRandom,
    /// Steps of the episode, and how many it may have.
    pub(super) steps: u32,
    pub(super) max_steps: u32,
    /// The index of the mission.
    pub(super) mission: i64,
    /// Kind and colour that the mission asks for.
    pub(super) wanted: Cell,
    /// Fields that decide about success; the task says how.
    pub(super) places: [Pos; 2],
    /// Balls that move by themselves.
    pub(super) obstacles: Vec<Pos>,
    pub(super) scratch: Scratch,
}

/// Lists that a task fills while it builds a grid, kept so that a reset allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub(super) numbers: [Vec<i32>; 4],
    pub(super) objects: Vec<(Cell, Pos)>,
    pub(super) rooms: Vec<super::rooms::Room>,
    pub(super) other_rooms: Vec<super::rooms::Room>,
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

    /// Forgets the last episode, for a task to build the next one.
    pub(super) fn begin(&mut self) {
        self.grid.clear();
        (self.agent, self.direction) = (NOWHERE, 0);
        (self.carrying, self.steps) = (None, 0);
    }

    /// Uniform in `low..high`.
    pub(super) fn rand_int(&mut self, low: i32, high: i32) -> i32 {
        self.random.integers(i64::from(low), i64::from(high)) as i32
    }

    pub(super) fn rand_elem<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.integers(0, of.len() as i64) as usize]
    }

    pub(super) fn rand_color(&mut self) -> u8 {
        self.rand_elem(&SORTED_COLORS)
    }

    /// A field of a rectangle that is empty, without the agent, and not rejected; `None` after `tries` draws.
    pub(super) fn find(
        &mut self,
        top: Pos,
        size: Pos,
        tries: usize,
        rejects: impl Fn(&Self, Pos) -> bool,
    ) -> Option<Pos> {
        let (left, top) = (top.0.max(0), top.1.max(0));
        let (right, bottom) = ((left + size.0).min(self.grid.width), (top + size.1).min(self.grid.height));
        for _ in 0..tries {
            let at = (self.rand_int(left, right), self.rand_int(top, bottom));
            if self.grid.get(at).is_empty() && at != self.agent && !rejects(self, at) {
                return Some(at);
            }
        }
        None
    }

    /// Puts an object on a field as of [`find`](Self::find), and says where it is.
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

    /// Puts an object on an empty field anywhere.
    pub(super) fn place(&mut self, cell: Cell) -> Result<Pos> {
        self.place_in(cell, (0, 0), (self.grid.width, self.grid.height))
    }

    /// Puts an object on an empty field of a rectangle.
    pub(super) fn place_in(&mut self, cell: Cell, top: Pos, size: Pos) -> Result<Pos> {
        self.place_within(cell, top, size, PATIENCE, |_, _| false)
    }

    /// Puts an object on an empty field anywhere that is not rejected.
    pub(super) fn place_unless(&mut self, cell: Cell, rejects: impl Fn(&Self, Pos) -> bool) -> Result<Pos> {
        self.place_within(cell, (0, 0), (self.grid.width, self.grid.height), PATIENCE, rejects)
    }

    /// Puts the agent on an empty field of a rectangle, looking anywhere.
    pub(super) fn place_agent_in(&mut self, top: Pos, size: Pos, tries: usize) -> Result<()> {
        self.agent = NOWHERE;
        self.agent = self.find(top, size, tries, |_, _| false).ok_or_else(no_room)?;
        self.direction = self.rand_int(0, 4) as usize;
        Ok(())
    }

    /// Puts the agent on an empty field anywhere.
    pub(super) fn place_agent(&mut self) -> Result<()> {
        self.place_agent_in((0, 0), (self.grid.width, self.grid.height), PATIENCE)
    }

    /// Puts the agent where settings say, or anywhere.
    pub(super) fn start_agent(&mut self, at: Option<Pos>, direction: usize) -> Result<()> {
        match at {
            None => self.place_agent(),
            Some(at) => {
                (self.agent, self.direction) = (at, direction);
                Ok(())
            }
        }
    }

    /// The field ahead of the agent.
    #[inline]
    pub(super) fn front(&self) -> Pos {
        let (dx, dy) = DIRECTIONS[self.direction];
        (self.agent.0 + dx, self.agent.1 + dy)
    }

    /// Whether the agent stands beside a field, not across a corner.
    pub(super) fn is_beside(&self, (x, y): Pos) -> bool {
        (self.agent.0 - x).abs() + (self.agent.1 - y).abs() == 1
    }

    /// What success is worth: less with every step.
    pub(super) fn success(&self) -> f64 {
        1.0 - 0.9 * (f64::from(self.steps) / f64::from(self.max_steps))
    }

    /// What every task does in a step: the reward, and whether the episode terminated.
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
