//! Tasks in rooms of equal size: unlock a door, fetch an object behind it, find a ball in a maze of obstructed doors.

use serde::{Deserialize, Serialize};

use super::{
    cell::{BALL, BLUE, BOX, Cell, GREEN, GREY, KEY, SORTED_COLORS, rank},
    grid::{DIRECTIONS, Pos},
    rooms::{At, Rooms},
    settings::outside,
    task::{COLORS, Missions, Task},
    world::{World, action},
};
use crate::Result;

/// Step of a task that ends with success when the marked object is picked up.
fn pick_up_target(world: &mut World, action: i64) -> (f64, bool) {
    let step = world.act(action);
    let done = action == action::PICKUP && world.carrying.is_some_and(Cell::is_target);
    if done { (world.success(), true) } else { step }
}

/// Side of a room in tasks without a setting for it.
const ROOM: i32 = 6;
const TWO_ROOMS: Rooms = Rooms { room_size: ROOM, rows: 1, columns: 2 };

/// MiniGrid's `UnlockEnv`: unlock a door.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Unlock {}

impl Task for Unlock {
    fn size(&self) -> Pos {
        TWO_ROOMS.grid_size()
    }

    fn max_steps(&self) -> u32 {
        8 * (ROOM * ROOM) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::one("open the door")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        TWO_ROOMS.build(world);
        let (color, door) = TWO_ROOMS.add_door(world, (0, 0), 0, None, true);
        TWO_ROOMS.place(world, (0, 0), Cell::new(KEY, color))?;
        TWO_ROOMS.place_agent(world, (0, 0))?;
        world.places[0] = door;
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let step = world.act(action);
        let done = action == action::TOGGLE && world.grid.get(world.places[0]).is_open_door();
        if done { (world.success(), true) } else { step }
    }
}

/// MiniGrid's `UnlockPickupEnv`: unlock a door and pick up a box.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct UnlockPickup {}

impl Task for UnlockPickup {
    fn size(&self) -> Pos {
        TWO_ROOMS.grid_size()
    }

    fn max_steps(&self) -> u32 {
        8 * (ROOM * ROOM) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::of("pick up the {} box", &[COLORS])
    }

    fn build(&self, world: &mut World) -> Result<()> {
        TWO_ROOMS.build(world);
        let target = TWO_ROOMS.place_colored(world, (1, 0), BOX)?;
        let (color, _) = TWO_ROOMS.add_door(world, (0, 0), 0, None, true);
        TWO_ROOMS.place(world, (0, 0), Cell::new(KEY, color))?;
        TWO_ROOMS.place_agent(world, (0, 0))?;
        world.mission = rank(target.color()) as i64;
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        pick_up_target(world, action)
    }
}

/// MiniGrid's `BlockedUnlockPickupEnv`: move a ball away, unlock a door and pick up a box.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BlockedUnlockPickup {}

impl Task for BlockedUnlockPickup {
    fn size(&self) -> Pos {
        TWO_ROOMS.grid_size()
    }

    fn max_steps(&self) -> u32 {
        16 * (ROOM * ROOM) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::of("pick up the {} {}", &[COLORS, &["box", "key"]])
    }

    /// Builds two rooms; a ball blocks the door between them.
    fn build(&self, world: &mut World) -> Result<()> {
        TWO_ROOMS.build(world);
        let target = TWO_ROOMS.place_colored(world, (1, 0), BOX)?;
        let (color, (x, y)) = TWO_ROOMS.add_door(world, (0, 0), 0, None, true);
        let ball = world.rand_color();
        world.grid.set((x - 1, y), Cell::new(BALL, ball));
        TWO_ROOMS.place(world, (0, 0), Cell::new(KEY, color))?;
        TWO_ROOMS.place_agent(world, (0, 0))?;
        world.mission = 2 * rank(target.color()) as i64;
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        pick_up_target(world, action)
    }
}

/// Kind of the object behind the locked door.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Thing {
    Key,
    #[default]
    Ball,
    Box,
}

/// MiniGrid's `KeyCorridorEnv`: find a key, and an object behind a locked door.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeyCorridor {
    num_rows: i32,
    obj_type: Thing,
    room_size: i32,
}

impl Default for KeyCorridor {
    fn default() -> Self {
        Self { num_rows: 3, obj_type: Thing::Ball, room_size: 6 }
    }
}

impl KeyCorridor {
    fn rooms(&self) -> Rooms {
        Rooms { room_size: self.room_size, rows: self.num_rows, columns: 3 }
    }
}

impl Task for KeyCorridor {
    fn problem(&self) -> Option<String> {
        outside("room_size", self.room_size, 3..=16).or_else(|| outside("num_rows", self.num_rows, 1..=16))
    }

    fn size(&self) -> Pos {
        self.rooms().grid_size()
    }

    fn max_steps(&self) -> u32 {
        30 * (self.room_size * self.room_size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::of(
            match self.obj_type {
                Thing::Key => "pick up the {} key",
                Thing::Ball => "pick up the {} ball",
                Thing::Box => "pick up the {} box",
            },
            &[COLORS],
        )
    }

    /// Builds a corridor with rooms on both sides: the key is on the left, the locked room on the right.
    fn build(&self, world: &mut World) -> Result<()> {
        let rooms = self.rooms();
        rooms.build(world);
        for j in 1..rooms.rows {
            rooms.remove_upper_wall(world, (1, j));
        }
        let row = world.rand_int(0, rooms.rows);
        let (color, _) = rooms.add_door(world, (2, row), 2, None, true);
        let kind = [KEY, BALL, BOX][self.obj_type as usize];
        let target = rooms.place_colored(world, (2, row), kind)?;
        let row = world.rand_int(0, rooms.rows);
        rooms.place(world, (0, row), Cell::new(KEY, color))?;
        rooms.place_agent(world, (1, rooms.rows / 2))?;
        rooms.connect_all(world)?;
        world.mission = rank(target.color()) as i64;
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        pick_up_target(world, action)
    }
}

/// Colours of the ball to find, of the balls in the way, and of the boxes with keys.
const WANTED: u8 = BLUE;
const BLOCKING: u8 = GREEN;
const BOXES: u8 = GREY;

/// Returns all colours in random order.
fn shuffled_colors(world: &mut World) -> [u8; 6] {
    let mut left = SORTED_COLORS;
    for drawn in 0..left.len() {
        let at = drawn + world.rand_int(0, (left.len() - drawn) as i32) as usize;
        left[drawn..=at].rotate_right(1);
    }
    left
}

/// Adds a locked door; if `blocked`, a ball lies in front of it.
fn add_locked_door(world: &mut World, rooms: Rooms, at: At, wall: usize, color: u8, blocked: bool) {
    let (_, (x, y)) = rooms.add_door(world, at, wall, Some(color), true);
    if blocked {
        let (dx, dy) = DIRECTIONS[wall];
        world.grid.set((x - dx, y - dy), Cell::new(BALL, BLOCKING));
    }
}

fn add_key(world: &mut World, rooms: Rooms, at: At, color: u8, in_box: bool) -> Result<()> {
    let cell = if in_box { Cell::box_with_key(BOXES, color) } else { Cell::new(KEY, color) };
    rooms.place(world, at, cell).map(drop)
}

/// MiniGrid's `ObstructedMaze_1Dlhb`: two rooms with an obstructed, locked door.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ObstructedPair {
    key_in_box: bool,
    blocked: bool,
}

impl Default for ObstructedPair {
    fn default() -> Self {
        Self { key_in_box: true, blocked: true }
    }
}

/// Number of steps allowed per room that is visited.
const STEPS_PER_ROOM: u32 = 4 * (ROOM * ROOM) as u32;
const FIND_THE_BALL: &str = "pick up the blue ball";

impl Task for ObstructedPair {
    fn size(&self) -> Pos {
        TWO_ROOMS.grid_size()
    }

    fn max_steps(&self) -> u32 {
        2 * STEPS_PER_ROOM
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::one(FIND_THE_BALL)
    }

    fn build(&self, world: &mut World) -> Result<()> {
        TWO_ROOMS.build(world);
        let colors = shuffled_colors(world);
        add_locked_door(world, TWO_ROOMS, (0, 0), 0, colors[0], self.blocked);
        add_key(world, TWO_ROOMS, (0, 0), colors[0], self.key_in_box)?;
        TWO_ROOMS.place(world, (1, 0), Cell::new(BALL, WANTED).target())?;
        TWO_ROOMS.place_agent(world, (0, 0))
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        pick_up_target(world, action)
    }
}

/// MiniGrid's `ObstructedMaze_Full`: nine rooms with obstructed, locked doors. `KEYS_LAST` makes it
/// `ObstructedMaze_Full_V1`, which places keys after all doors of a room, so that no ball replaces a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ObstructedMaze<const KEYS_LAST: bool> {
    agent_room: At,
    key_in_box: bool,
    blocked: bool,
    num_quarters: usize,
    num_rooms_visited: u32,
}

impl<const KEYS_LAST: bool> Default for ObstructedMaze<KEYS_LAST> {
    fn default() -> Self {
        Self { agent_room: (1, 1), key_in_box: true, blocked: true, num_quarters: 4, num_rooms_visited: 25 }
    }
}

const NINE_ROOMS: Rooms = Rooms { room_size: ROOM, rows: 3, columns: 3 };

impl<const KEYS_LAST: bool> Task for ObstructedMaze<KEYS_LAST> {
    fn problem(&self) -> Option<String> {
        let (i, j) = self.agent_room;
        if !(0..3).contains(&i) || !(0..3).contains(&j) {
            return Some(format!("`agent_room` is [{i}, {j}], but it must be between [0, 0] and [2, 2]"));
        }
        outside("num_quarters", self.num_quarters, 1..=4)
            .or_else(|| outside("num_rooms_visited", self.num_rooms_visited, 1..=u32::MAX))
    }

    fn size(&self) -> Pos {
        NINE_ROOMS.grid_size()
    }

    fn max_steps(&self) -> u32 {
        self.num_rooms_visited.saturating_mul(STEPS_PER_ROOM)
    }

    fn missions(&self) -> Missions {
        Missions::one(FIND_THE_BALL)
    }

    /// Builds nine rooms: doors lead from the middle to the sides, and locked doors from there to the corners. The ball
    /// is in one of the corners.
    fn build(&self, world: &mut World) -> Result<()> {
        NINE_ROOMS.build(world);
        let colors = shuffled_colors(world);
        for i in 0..self.num_quarters {
            let side = [(2, 1), (1, 2), (0, 1), (1, 0)][i];
            NINE_ROOMS.add_door(world, (1, 1), i, Some(colors[i]), false);
            // The two walls next to the one towards the middle.
            let locked = [((i + 3) % 4, colors[(i + 5) % 6]), ((i + 1) % 4, colors[(i + 1) % 6])];
            for (wall, color) in locked {
                add_locked_door(world, NINE_ROOMS, side, wall, color, self.blocked);
                if !KEYS_LAST {
                    add_key(world, NINE_ROOMS, side, color, self.key_in_box)?;
                }
            }
            if KEYS_LAST {
                locked
                    .into_iter()
                    .try_for_each(|(_, color)| add_key(world, NINE_ROOMS, side, color, self.key_in_box))?;
            }
        }
        let corner = world.rand_elem(&[(2, 0), (2, 2), (0, 2), (0, 0)][..self.num_quarters]);
        NINE_ROOMS.place(world, corner, Cell::new(BALL, WANTED).target())?;
        NINE_ROOMS.place_agent(world, self.agent_room)
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        pick_up_target(world, action)
    }
}
