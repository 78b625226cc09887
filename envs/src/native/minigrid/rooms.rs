//! A grid of rooms of equal size, with doors between neighbours (MiniGrid's `RoomGrid`).

use super::{
    cell::{CLOSED, Cell, LOCKED, SORTED_COLORS, WALL},
    grid::{DIRECTIONS, Pos},
    room::Room,
    world::{NOWHERE, World},
};
use crate::{Error, Result};

/// Largest number of draws for a place in a room.
const TRIES: usize = 1001;
/// Largest number of draws for doors that connect all rooms.
const CONNECT_TRIES: usize = 5001;

/// Size and number of the rooms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooms {
    pub(super) room_size: i32,
    pub(super) rows: i32,
    pub(super) columns: i32,
}

/// Column and row of a room in the grid of rooms.
pub(super) type At = (i32, i32);

impl Rooms {
    pub(super) fn grid_size(self) -> Pos {
        let side = |rooms: i32| (self.room_size - 1) * rooms + 1;
        (side(self.columns), side(self.rows))
    }

    fn index(self, (i, j): At) -> usize {
        (j * self.columns + i) as usize
    }

    /// Returns the room on the other side of a wall.
    fn neighbour((i, j): At, wall: usize) -> At {
        (i + DIRECTIONS[wall].0, j + DIRECTIONS[wall].1)
    }

    /// Builds the walls, draws possible doors, and puts the agent in the middle.
    pub(super) fn build(self, world: &mut World) {
        let step = self.room_size - 1;
        world.scratch.rooms.clear();
        for j in 0..self.rows {
            for i in 0..self.columns {
                let top = (i * step, j * step);
                let size = (self.room_size, self.room_size);
                world.grid.wall_rect(top, size);
                world.scratch.rooms.push(Room { top, size, ..Room::default() });
            }
        }
        for j in 0..self.rows {
            for i in 0..self.columns {
                let left = i * step;
                let top = j * step;
                let mut doors = [None; 4];
                if i < self.columns - 1 {
                    doors[0] = Some((left + step, world.rand_int(top + 1, top + step)));
                }
                if j < self.rows - 1 {
                    doors[1] = Some((world.rand_int(left + 1, left + step), top + step));
                }
                let rooms = &mut world.scratch.rooms;
                if i > 0 {
                    doors[2] = rooms[self.index((i - 1, j))].doors[0];
                }
                if j > 0 {
                    doors[3] = rooms[self.index((i, j - 1))].doors[1];
                }
                rooms[self.index((i, j))].doors = doors;
            }
        }
        let middle = |rooms: i32| rooms / 2 * step + self.room_size / 2;
        world.agent = (middle(self.columns), middle(self.rows));
        world.direction = 0;
    }

    /// Places an object at a random field of a room that is not next to the agent.
    pub(super) fn place(self, world: &mut World, at: At, cell: Cell) -> Result<Pos> {
        let Room { top, size, .. } = world.scratch.rooms[self.index(at)];
        world.place_within(cell, top, size, TRIES, |world, at| at == world.agent || world.is_beside(at))
    }

    /// Places an object of random colour, marked as the object of the task, in a room.
    pub(super) fn place_colored(self, world: &mut World, at: At, kind: u8) -> Result<Cell> {
        let cell = Cell::new(kind, world.rand_color()).target();
        self.place(world, at, cell)?;
        Ok(cell)
    }

    /// Adds a door to a wall; a `color` of `None` draws one. Returns the colour and the position.
    pub(super) fn add_door(
        self,
        world: &mut World,
        at: At,
        wall: usize,
        color: Option<u8>,
        locked: bool,
    ) -> (u8, Pos) {
        let color = color.unwrap_or_else(|| world.rand_color());
        let door = self.open_wall(world, at, wall);
        world.scratch.rooms[self.index(at)].locked = locked;
        world.grid.set(door, Cell::door(color, if locked { LOCKED } else { CLOSED }));
        (color, door)
    }

    /// Marks a wall as open and returns the position of its door.
    fn open_wall(self, world: &mut World, at: At, wall: usize) -> Pos {
        let other = self.index(Self::neighbour(at, wall));
        world.scratch.rooms[other].open[(wall + 2) % 4] = true;
        let room = &mut world.scratch.rooms[self.index(at)];
        room.open[wall] = true;
        // Tasks only open walls between two rooms.
        room.doors[wall].unwrap_or(NOWHERE)
    }

    /// Removes the wall between a room and the one above it.
    pub(super) fn remove_upper_wall(self, world: &mut World, at: At) {
        const UP: usize = 3;
        self.open_wall(world, at, UP);
        let Room { top: (x, y), size: (width, _), .. } = world.scratch.rooms[self.index(at)];
        world.grid.horizontal((x + 1, y), width - 2, Cell::EMPTY);
    }

    /// Places the agent in a room so that it does not face an object.
    pub(super) fn place_agent(self, world: &mut World, at: At) -> Result<()> {
        let Room { top, size, .. } = world.scratch.rooms[self.index(at)];
        for _ in 0..TRIES {
            world.place_agent_in(top, size, TRIES)?;
            let ahead = world.grid.get(world.front());
            if ahead.is_empty() || ahead.kind() == WALL {
                return Ok(());
            }
        }
        Err(Error::other(
            "no field was found from where the agent sees no object at once; make the rooms larger",
        ))
    }

    /// Adds doors until every room is reachable from the agent's.
    pub(super) fn connect_all(self, world: &mut World) -> Result<()> {
        let step = self.room_size - 1;
        let start = self.index((world.agent.0 / step, world.agent.1 / step));
        for _ in 0..CONNECT_TRIES {
            if self.count_reachable(world, start) == world.scratch.rooms.len() {
                return Ok(());
            }
            let at = (world.rand_int(0, self.columns), world.rand_int(0, self.rows));
            let wall = world.rand_int(0, 4) as usize;
            let room = world.scratch.rooms[self.index(at)];
            if room.doors[wall].is_none() || room.open[wall] {
                continue;
            }
            if room.locked || world.scratch.rooms[self.index(Self::neighbour(at, wall))].locked {
                continue;
            }
            let color = world.rand_elem(&SORTED_COLORS);
            self.add_door(world, at, wall, Some(color), false);
        }
        Err(Error::other("some rooms could not be connected; reset with another seed"))
    }

    fn count_reachable(self, world: &mut World, start: usize) -> usize {
        let super::world::Scratch { rooms, flags, stack, .. } = &mut world.scratch;
        flags.clear();
        flags.resize(rooms.len(), false);
        stack.clear();
        stack.reserve(4 * rooms.len() + 1);
        stack.push(start);
        let mut count = 0;
        while let Some(index) = stack.pop() {
            if std::mem::replace(&mut flags[index], true) {
                continue;
            }
            count += 1;
            let at = (index as i32 % self.columns, index as i32 / self.columns);
            let open = (0..4).filter(|&wall| rooms[index].open[wall]);
            stack.extend(open.map(|wall| self.index(Self::neighbour(at, wall))));
        }
        count
    }
}
