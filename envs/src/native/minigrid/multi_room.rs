//! Tasks in rooms of different shapes: a chain of rooms, and one locked room among six.

use serde::{Deserialize, Serialize};

use super::{
    cell::{CLOSED, Cell, KEY, LOCKED, SORTED_COLORS, rank},
    grid::Pos,
    room::Room,
    settings::{MAX_SIDE, outside},
    task::{COLORS, Missions, Task},
    world::{PATIENCE, World},
};
use crate::{Error, Result};

/// MiniGrid's `MultiRoomEnv`: a chain of rooms connected by doors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(non_snake_case, reason = "settings have MiniGrid's names")]
pub(super) struct MultiRoom {
    minNumRooms: i32,
    maxNumRooms: i32,
    maxRoomSize: i32,
    width: i32,
    height: i32,
}

impl Default for MultiRoom {
    fn default() -> Self {
        Self { minNumRooms: 6, maxNumRooms: 6, maxRoomSize: 10, width: 25, height: 25 }
    }
}

const LEAST_ROOM: i32 = 4;
/// Largest number of attempts to draw a chain of rooms; each attempt makes dozens of draws.
const ROWS: usize = 100_000;

impl Task for MultiRoom {
    fn problem(&self) -> Option<String> {
        let Self { minNumRooms, maxNumRooms, maxRoomSize, width, height } = *self;
        outside("maxNumRooms", maxNumRooms, 1..=100)
            .or_else(|| outside("minNumRooms", minNumRooms, 1..=maxNumRooms))
            .or_else(|| outside("maxRoomSize", maxRoomSize, LEAST_ROOM..=MAX_SIDE))
            .or_else(|| outside("width", width, 5..=MAX_SIDE))
            .or_else(|| outside("height", height, 5..=MAX_SIDE))
    }

    fn size(&self) -> Pos {
        (self.width, self.height)
    }

    fn max_steps(&self) -> u32 {
        20 * self.maxNumRooms as u32
    }

    fn missions(&self) -> Missions {
        Missions::one("traverse the rooms to get to the goal")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        let count = world.rand_int(self.minNumRooms, self.maxNumRooms + 1);
        self.find_rooms(world, count as usize)?;
        let mut last_color = None;
        for i in 0..world.scratch.rooms.len() {
            let Room { top, size, doors, .. } = world.scratch.rooms[i];
            world.grid.wall_rect(top, size);
            if let (true, [Some(door), ..]) = (i > 0, doors) {
                let color = other_color(world, last_color);
                world.grid.set(door, Cell::door(color, CLOSED));
                last_color = Some(color);
            }
        }
        let first = world.scratch.rooms[0];
        let last = world.scratch.rooms[world.scratch.rooms.len() - 1];
        world.place_agent_in(first.top, first.size, PATIENCE)?;
        world.place_in(Cell::GOAL, last.top, last.size)?;
        Ok(())
    }
}

/// Draws a colour other than `last`.
fn other_color(world: &mut World, last: Option<u8>) -> u8 {
    let Some(last) = last else { return world.rand_color() };
    let drawn = world.rand_int(0, 5) as usize;
    SORTED_COLORS[if drawn < rank(last) { drawn } else { drawn + 1 }]
}

impl MultiRoom {
    /// Draws chains of rooms until one has `count` rooms, and leaves the longest one in `scratch.rooms`.
    fn find_rooms(&self, world: &mut World, count: usize) -> Result<()> {
        world.scratch.rooms.clear();
        world.scratch.other_rooms.clear();
        // Reserved once, so that later episodes do not allocate.
        world.scratch.rooms.reserve(self.maxNumRooms as usize);
        world.scratch.other_rooms.reserve(self.maxNumRooms as usize);
        for _ in 0..ROWS {
            let entry = (world.rand_int(0, self.width - 2), world.rand_int(0, self.width - 2));
            world.scratch.other_rooms.clear();
            self.add_room(world, count, 2, entry);
            if world.scratch.other_rooms.len() > world.scratch.rooms.len() {
                let super::world::Scratch { rooms, other_rooms, .. } = &mut world.scratch;
                std::mem::swap(rooms, other_rooms);
            }
            if world.scratch.rooms.len() >= count {
                return Ok(());
            }
        }
        Err(Error::other(format!(
            "no row of {count} rooms was found; make the grid larger, or the rooms smaller or fewer"
        )))
    }

    /// Adds a room with its entry at `entry` in wall `wall` (right, down, left, up), and up to `left - 1` rooms behind
    /// it; returns whether the room fits.
    fn add_room(&self, world: &mut World, left: usize, wall: usize, entry: Pos) -> bool {
        let width = world.rand_int(LEAST_ROOM, self.maxRoomSize + 1);
        let height = world.rand_int(LEAST_ROOM, self.maxRoomSize + 1);
        let (x, y) = entry;
        let top = match wall {
            _ if world.scratch.other_rooms.is_empty() => entry,
            0 => (x - width + 1, world.rand_int(y - height + 2, y)),
            1 => (world.rand_int(x - width + 2, x), y - height + 1),
            2 => (x, world.rand_int(y - height + 2, y)),
            _ => (world.rand_int(x - width + 2, x), y),
        };
        if top.0 < 0 || top.1 < 0 || top.0 + width > self.width || top.1 + height >= self.height {
            return false;
        }
        // The previous room is left out because it shares a wall with this one.
        let others = &world.scratch.other_rooms[..world.scratch.other_rooms.len().saturating_sub(1)];
        let free = others.iter().all(|other| {
            top.0 + width < other.top.0
                || other.top.0 + other.size.0 <= top.0
                || top.1 + height < other.top.1
                || other.top.1 + other.size.1 <= top.1
        });
        if !free {
            return false;
        }
        world.scratch.other_rooms.push(Room::new(top, (width, height), entry));
        if left == 1 {
            return true;
        }
        for _ in 0..8 {
            let drawn = world.rand_int(0, 3) as usize;
            let exit_wall = if drawn < wall { drawn } else { drawn + 1 };
            let exit = match exit_wall {
                0 => (top.0 + width - 1, top.1 + world.rand_int(1, height - 1)),
                1 => (top.0 + world.rand_int(1, width - 1), top.1 + height - 1),
                2 => (top.0, top.1 + world.rand_int(1, height - 1)),
                _ => (top.0 + world.rand_int(1, width - 1), top.1),
            };
            if self.add_room(world, left - 1, (exit_wall + 2) % 4, exit) {
                break;
            }
        }
        true
    }
}

/// MiniGrid's `LockedRoomEnv`: find the key of a locked room among six.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LockedRoom {
    size: i32,
}

impl Default for LockedRoom {
    fn default() -> Self {
        Self { size: 19 }
    }
}

impl Task for LockedRoom {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 13..=MAX_SIDE)
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        10 * self.size as u32
    }

    fn missions(&self) -> Missions {
        Missions::of("get the {} key from the {} room, unlock the {} door and go to the goal", &[COLORS; 3])
    }

    /// Builds a hallway with three rooms on either side.
    fn build(&self, world: &mut World) -> Result<()> {
        let size = self.size;
        world.grid.surround();
        let left = size / 2 - 2;
        let right = size / 2 + 2;
        let height = size / 3;
        world.grid.vertical((left, 0), size, Cell::WALL);
        world.grid.vertical((right, 0), size, Cell::WALL);
        let mut rooms = [(0, 0); 6];
        for n in 0..3 {
            let y = n * height;
            world.grid.horizontal((0, y), left, Cell::WALL);
            world.grid.horizontal((right, y), size - right, Cell::WALL);
            rooms[2 * n as usize] = (0, y);
            rooms[2 * n as usize + 1] = (right, y);
        }
        let inside = |world: &mut World, room: usize| {
            let (x, y) = rooms[room];
            (world.rand_int(x + 1, x + left), world.rand_int(y + 1, y + height))
        };
        let locked = world.rand_int(0, 6) as usize;
        let goal = inside(world, locked);
        world.grid.set(goal, Cell::GOAL);
        // The remaining colours stay sorted, as in MiniGrid.
        let mut colors = SORTED_COLORS;
        for room in 0..rooms.len() {
            let drawn = room + world.rand_int(0, (rooms.len() - room) as i32) as usize;
            colors[room..=drawn].rotate_right(1);
            let x = if room % 2 == 0 { left } else { right };
            let state = if room == locked { LOCKED } else { CLOSED };
            world.grid.set((x, rooms[room].1 + 3), Cell::door(colors[room], state));
        }
        let with_key = loop {
            let room = world.rand_int(0, 6) as usize;
            if room != locked {
                break room;
            }
        };
        let key = inside(world, with_key);
        world.grid.set(key, Cell::new(KEY, colors[locked]));
        world.place_agent_in((left, 0), (right - left, size), PATIENCE)?;
        let locked = rank(colors[locked]) as i64;
        let with_key = rank(colors[with_key]) as i64;
        world.mission = (locked * 6 + with_key) * 6 + locked;
        Ok(())
    }
}
