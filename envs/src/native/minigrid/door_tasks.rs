//! Tasks with a green goal square behind doors: four rooms, a locked door.

use serde::{Deserialize, Serialize};

use super::{
    cell::{Cell, KEY, LOCKED, YELLOW},
    goal_tasks::room_with_goal,
    grid::Pos,
    settings::{MAX_SIDE, outside},
    task::{Missions, Task},
    world::{PATIENCE, World},
};
use crate::Result;

/// MiniGrid's `FourRoomsEnv`: four rooms connected by gaps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FourRooms {
    agent_pos: Option<Pos>,
    goal_pos: Option<Pos>,
}

const FOUR_ROOMS: i32 = 19;

impl Task for FourRooms {
    fn problem(&self) -> Option<String> {
        let all = [("agent_pos", self.agent_pos), ("goal_pos", self.goal_pos)];
        all.into_iter().find_map(|(name, at)| {
            let (x, y) = at.filter(|(x, y)| x.min(y) < &1 || x.max(y) > &(FOUR_ROOMS - 2))?;
            Some(format!("`{name}` is [{x}, {y}], but it must be between the walls: [1, 1] to [17, 17]"))
        })
    }

    fn size(&self) -> Pos {
        (FOUR_ROOMS, FOUR_ROOMS)
    }

    fn max_steps(&self) -> u32 {
        100
    }

    fn missions(&self) -> Missions {
        Missions::one("reach the goal")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        const ROOM: i32 = FOUR_ROOMS / 2;
        world.grid.surround();
        for (j, i) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let left = i * ROOM;
            let top = j * ROOM;
            if i == 0 {
                world.grid.vertical((left + ROOM, top), ROOM, Cell::WALL);
                let gap = (left + ROOM, world.rand_int(top + 1, top + ROOM));
                world.grid.set(gap, Cell::EMPTY);
            }
            if j == 0 {
                world.grid.horizontal((left, top + ROOM), ROOM, Cell::WALL);
                let gap = (world.rand_int(left + 1, left + ROOM), top + ROOM);
                world.grid.set(gap, Cell::EMPTY);
            }
        }
        match self.agent_pos {
            Some(at) => {
                world.grid.set(at, Cell::EMPTY);
                world.agent = at;
                world.direction = world.rand_int(0, 4) as usize;
            }
            None => world.place_agent()?,
        }
        match self.goal_pos {
            Some(at) => world.grid.set(at, Cell::GOAL),
            None => drop(world.place(Cell::GOAL)?),
        }
        Ok(())
    }
}

/// MiniGrid's `DoorKeyEnv`: a goal behind a locked door.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DoorKey {
    size: i32,
}

impl Default for DoorKey {
    fn default() -> Self {
        Self { size: 8 }
    }
}

impl Task for DoorKey {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 5..=MAX_SIDE)
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        10 * (self.size * self.size) as u32
    }

    fn missions(&self) -> Missions {
        Missions::one("use the key to open the door and then get to the goal")
    }

    /// Builds a wall with a locked door; the agent and the key are to the left of it.
    fn build(&self, world: &mut World) -> Result<()> {
        room_with_goal(world);
        let size = self.size;
        let wall = world.rand_int(2, size - 2);
        world.grid.vertical((wall, 0), size, Cell::WALL);
        world.place_agent_in((0, 0), (wall, size), PATIENCE)?;
        let door = world.rand_int(1, size - 2);
        world.grid.set((wall, door), Cell::door(YELLOW, LOCKED));
        world.place_in(Cell::new(KEY, YELLOW), (0, 0), (wall, size))?;
        Ok(())
    }
}
