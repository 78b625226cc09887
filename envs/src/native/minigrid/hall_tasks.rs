//! Tasks in a hall with a single mission: remember an object, open doors in order, play.

use serde::{Deserialize, Serialize};

use super::{
    cell::{BALL, BLUE, CLOSED, Cell, GREEN, KEY, RED, THINGS},
    grid::Pos,
    settings::{MAX_SIDE, even, outside},
    task::{Missions, Task},
    world::{PATIENCE, World, action},
};
use crate::Result;

/// MiniGrid's `MemoryEnv`: remember an object and go to the matching one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Memory {
    size: i32,
    random_length: bool,
}

impl Default for Memory {
    fn default() -> Self {
        // MiniGrid's default is 8, which its own check rejects.
        Self { size: 7, random_length: false }
    }
}

impl Task for Memory {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 7..=MAX_SIDE).or_else(|| even("size", self.size))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::one("go to the matching object at the end of the hallway")
    }

    /// Builds a room with an object, and a hallway from it to two objects, one of which matches.
    fn build(&self, world: &mut World) -> Result<()> {
        let size = self.size;
        let middle = self.size / 2;
        world.grid.surround();
        let end = if self.random_length { world.rand_int(4, size - 2) } else { size - 3 };
        for (wall, inner) in [(middle - 2, middle - 1), (middle + 2, middle + 1)] {
            world.grid.horizontal((1, wall), 4, Cell::WALL);
            world.grid.set((4, inner), Cell::WALL);
            world.grid.horizontal((5, inner), end - 5, Cell::WALL);
        }
        for x in [end, end + 2] {
            let gap = world.grid.get((x, middle));
            world.grid.vertical((x, 0), size, Cell::WALL);
            if x == end {
                world.grid.set((x, middle), gap);
            }
        }
        world.agent = (world.rand_int(1, end + 1), middle);
        world.direction = 0;
        let shown = world.rand_elem(&[KEY, BALL]);
        world.grid.set((1, middle - 1), Cell::new(shown, GREEN));
        let upper = world.rand_elem(&[BALL, KEY]);
        let lower = if upper == BALL { KEY } else { BALL };
        world.grid.set((end + 1, middle - 2), Cell::new(upper, GREEN));
        world.grid.set((end + 1, middle + 2), Cell::new(lower, GREEN));
        // The first place is the one of success.
        world.places = [(end + 1, middle - 1), (end + 1, middle + 1)];
        if shown != upper {
            world.places.reverse();
        }
        Ok(())
    }

    /// Objects cannot be picked up: `PICKUP` acts like `TOGGLE`.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let step = world.act(if action == action::PICKUP { action::TOGGLE } else { action });
        match world.places.iter().position(|&place| place == world.agent) {
            Some(0) => (world.success(), true),
            Some(_) => (0.0, true),
            None => step,
        }
    }
}

/// MiniGrid's `RedBlueDoorEnv`: open the red door, then the blue one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RedBlueDoors {
    size: i32,
}

impl Default for RedBlueDoors {
    fn default() -> Self {
        Self { size: 8 }
    }
}

impl Task for RedBlueDoors {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 4..=MAX_SIDE)
    }

    fn size(&self) -> Pos {
        (2 * self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        20 * (self.size * self.size) as u32
    }

    fn missions(&self) -> Missions {
        Missions::one("open the red door then the blue door")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        let size = self.size;
        let left = self.size / 2;
        world.grid.surround();
        world.grid.wall_rect((left, 0), (size, size));
        world.place_agent_in((left, 0), (size, size), PATIENCE)?;
        let red = (left, world.rand_int(1, size - 1));
        world.grid.set(red, Cell::door(RED, CLOSED));
        let blue = (left + size - 1, world.rand_int(1, size - 1));
        world.grid.set(blue, Cell::door(BLUE, CLOSED));
        world.places = [red, blue];
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let open = |world: &World| world.places.map(|door| world.grid.get(door).is_open_door());
        let [red_before, blue_before] = open(world);
        let step = world.act(action);
        match open(world) {
            [_, true] if red_before => (world.success(), true),
            [_, true] => (0.0, true),
            [true, _] if blue_before => (0.0, true),
            _ => step,
        }
    }
}

/// MiniGrid's `PlaygroundEnv`: nine rooms full of objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Playground {}

const PLAYGROUND: i32 = 19;

impl Task for Playground {
    fn size(&self) -> Pos {
        (PLAYGROUND, PLAYGROUND)
    }

    fn max_steps(&self) -> u32 {
        100
    }

    /// The mission is empty: the task has no goal.
    fn missions(&self) -> Missions {
        Missions::one("")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        const ROOM: i32 = PLAYGROUND / 3;
        world.grid.surround();
        for (j, i) in (0..3).flat_map(|j| (0..3).map(move |i| (j, i))) {
            let left = i * ROOM;
            let top = j * ROOM;
            if i < 2 {
                world.grid.vertical((left + ROOM, top), ROOM, Cell::WALL);
                let door = (left + ROOM, world.rand_int(top + 1, top + ROOM - 1));
                let color = world.rand_color();
                world.grid.set(door, Cell::door(color, CLOSED));
            }
            if j < 2 {
                world.grid.horizontal((left, top + ROOM), ROOM, Cell::WALL);
                let door = (world.rand_int(left + 1, left + ROOM - 1), top + ROOM);
                let color = world.rand_color();
                world.grid.set(door, Cell::door(color, CLOSED));
            }
        }
        world.place_agent()?;
        for _ in 0..12 {
            let kind = world.rand_elem(&THINGS);
            let cell = Cell::new(kind, world.rand_color());
            world.place(cell)?;
        }
        Ok(())
    }
}
