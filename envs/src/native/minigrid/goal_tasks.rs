//! Tasks with a green goal square: empty rooms, lava, walls, moving balls.

use serde::{Deserialize, Serialize};

use super::{
    cell::{BALL, BLUE, Cell, GOAL},
    grid::Pos,
    settings::{MAX_SIDE, Obstacle, even, outside},
    task::{Missions, Task},
    world::{World, action},
};
use crate::Result;

/// Builds walls around the grid and puts the goal in the lower right corner.
pub(super) fn room_with_goal(world: &mut World) {
    world.grid.surround();
    world.grid.set((world.grid.width - 2, world.grid.height - 2), Cell::GOAL);
}

/// Returns an error message if the agent's start position or direction is invalid.
fn bad_start(at: Option<Pos>, direction: usize, (width, height): Pos) -> Option<String> {
    if direction > 3 {
        return Some(format!(
            "`agent_start_dir` is {direction}, but it must be 0 (right), 1 (down), 2 (left) or 3 (up)"
        ));
    }
    let (x, y) = at?;
    let inside = (1..width - 1).contains(&x) && (1..height - 1).contains(&y);
    (!inside).then(|| {
        format!(
            "`agent_start_pos` is [{x}, {y}], but it must be between the walls: [1, 1] to [{}, {}]",
            width - 2,
            height - 2
        )
    })
}

/// MiniGrid's `EmptyEnv`: an empty room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Empty {
    size: i32,
    agent_start_pos: Option<Pos>,
    agent_start_dir: usize,
}

impl Default for Empty {
    fn default() -> Self {
        Self { size: 8, agent_start_pos: Some((1, 1)), agent_start_dir: 0 }
    }
}

const TO_THE_GOAL: &str = "get to the green goal square";

impl Task for Empty {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 4..=MAX_SIDE)
            .or_else(|| bad_start(self.agent_start_pos, self.agent_start_dir, self.size()))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        4 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        Missions::one(TO_THE_GOAL)
    }

    fn build(&self, world: &mut World) -> Result<()> {
        room_with_goal(world);
        world.start_agent(self.agent_start_pos, self.agent_start_dir)
    }
}

/// MiniGrid's `DynamicObstaclesEnv`: a room with moving balls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DynamicObstacles {
    size: i32,
    agent_start_pos: Option<Pos>,
    agent_start_dir: usize,
    n_obstacles: i32,
}

impl Default for DynamicObstacles {
    fn default() -> Self {
        Self { size: 8, agent_start_pos: Some((1, 1)), agent_start_dir: 0, n_obstacles: 4 }
    }
}

/// Largest number of draws for a free field: for a ball's first place, and in each step for its next one.
const BALL_TRIES: usize = 101;

impl Task for DynamicObstacles {
    fn problem(&self) -> Option<String> {
        outside("n_obstacles", self.n_obstacles, 0..=i32::MAX)
            .or_else(|| outside("size", self.size, 4..=MAX_SIDE))
            .or_else(|| bad_start(self.agent_start_pos, self.agent_start_dir, self.size()))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        4 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        Missions::one(TO_THE_GOAL)
    }

    /// The actions are left, right and forward.
    fn num_actions(&self) -> i64 {
        3
    }

    fn build(&self, world: &mut World) -> Result<()> {
        room_with_goal(world);
        world.start_agent(self.agent_start_pos, self.agent_start_dir)?;
        let few = f64::from(self.n_obstacles) <= f64::from(self.size) / 2.0 + 1.0;
        world.obstacles.clear();
        for _ in 0..if few { self.n_obstacles } else { self.size / 2 } {
            let width = world.grid.width;
            let height = world.grid.height;
            let ball = Cell::new(BALL, BLUE);
            let at = world.place_within(ball, (0, 0), (width, height), BALL_TRIES, |_, _| false)?;
            world.obstacles.push(at);
        }
        Ok(())
    }

    /// Moves the balls before the agent; walking into an obstacle that was ahead ends the episode with -1.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let ahead = world.grid.get(world.front());
        let blocked = !ahead.is_empty() && ahead.kind() != GOAL;
        for i in 0..world.obstacles.len() {
            let (x, y) = world.obstacles[i];
            // A ball stays where it is if no free field is found.
            if let Some(next) = world.find((x - 1, y - 1), (3, 3), BALL_TRIES, |_, _| false) {
                world.grid.set(next, Cell::new(BALL, BLUE));
                world.grid.set((x, y), Cell::EMPTY);
                world.obstacles[i] = next;
            }
        }
        let step = world.act(action);
        if action == action::FORWARD && blocked { (-1.0, true) } else { step }
    }
}

/// MiniGrid's `DistShiftEnv`: a room with two strips of lava.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DistShift {
    width: i32,
    height: i32,
    agent_start_pos: Option<Pos>,
    agent_start_dir: usize,
    strip2_row: i32,
}

impl Default for DistShift {
    fn default() -> Self {
        Self { width: 9, height: 7, agent_start_pos: Some((1, 1)), agent_start_dir: 0, strip2_row: 2 }
    }
}

impl Task for DistShift {
    fn problem(&self) -> Option<String> {
        let Self { width, height, strip2_row, .. } = *self;
        outside("width", width, 6..=MAX_SIDE)
            .or_else(|| outside("height", height, 4..=MAX_SIDE))
            .or_else(|| outside("strip2_row", strip2_row, 1..=height - 2))
            .or_else(|| bad_start(self.agent_start_pos, self.agent_start_dir, self.size()))
    }

    fn size(&self) -> Pos {
        (self.width, self.height)
    }

    fn max_steps(&self) -> u32 {
        4 * (self.width * self.height) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        Missions::one(TO_THE_GOAL)
    }

    fn build(&self, world: &mut World) -> Result<()> {
        world.grid.surround();
        world.grid.set((self.width - 2, 1), Cell::GOAL);
        for row in [1, self.strip2_row] {
            world.grid.horizontal((3, row), self.width - 6, Cell::LAVA);
        }
        world.start_agent(self.agent_start_pos, self.agent_start_dir)
    }
}

/// MiniGrid's `LavaGapEnv`: a strip of lava or wall with one gap.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LavaGap {
    size: i32,
    obstacle_type: Obstacle,
}

impl Task for LavaGap {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 5..=MAX_SIDE)
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        4 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::one(self.obstacle_type.mission())
    }

    fn build(&self, world: &mut World) -> Result<()> {
        room_with_goal(world);
        world.agent = (1, 1);
        world.direction = 0;
        let gap = (world.rand_int(2, self.size - 2), world.rand_int(1, self.size - 1));
        world.grid.vertical((gap.0, 1), self.size - 2, self.obstacle_type.cell());
        world.grid.set(gap, Cell::EMPTY);
        Ok(())
    }
}

/// MiniGrid's `CrossingEnv`: rivers of lava or walls to cross.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Crossing {
    size: i32,
    num_crossings: usize,
    obstacle_type: Obstacle,
}

impl Default for Crossing {
    fn default() -> Self {
        Self { size: 9, num_crossings: 1, obstacle_type: Obstacle::Lava }
    }
}

impl Task for Crossing {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 5..=MAX_SIDE).or_else(|| even("size", self.size))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        4 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(false)
    }

    fn missions(&self) -> Missions {
        Missions::one(self.obstacle_type.mission())
    }

    /// Builds rivers across the grid and one gap in each, so that a path leads to the goal.
    fn build(&self, world: &mut World) -> Result<()> {
        room_with_goal(world);
        world.agent = (1, 1);
        world.direction = 0;
        let size = self.size;
        let World { random, grid, scratch, .. } = world;
        let [rivers, columns, rows, path] = &mut scratch.numbers;
        // Rivers along columns are positive numbers, those along rows negative ones.
        rivers.clear();
        rivers.extend((2..size - 2).step_by(2));
        rivers.extend((2..size - 2).step_by(2).map(|row| -row));
        random.shuffle(rivers);
        rivers.truncate(self.num_crossings);
        for (limits, sign) in [(&mut *columns, 1), (&mut *rows, -1)] {
            limits.clear();
            limits.reserve(size as usize);
            limits.push(0);
            limits.extend(rivers.iter().map(|river| sign * river).filter(|&at| at > 0));
            limits.push(size - 1);
            limits.sort_unstable();
        }
        let inner = |limits: &[i32]| limits.len() - 2;
        for &row in &rows[1..=inner(rows)] {
            grid.horizontal((1, row), size - 2, self.obstacle_type.cell());
        }
        for &column in &columns[1..=inner(columns)] {
            grid.vertical((column, 1), size - 2, self.obstacle_type.cell());
        }
        // In the path, 0 crosses a column and 1 a row.
        path.clear();
        path.resize(inner(columns), 0);
        path.resize(inner(columns) + inner(rows), 1);
        random.shuffle(path);
        let mut i = 0;
        let mut j = 0;
        for &way in &*path {
            let mut draw = |low: i32, high: i32| random.integers(i64::from(low) + 1, i64::from(high)) as i32;
            let gap = if way == 0 {
                i += 1;
                (columns[i], draw(rows[j], rows[j + 1]))
            } else {
                j += 1;
                (draw(columns[i], columns[i + 1]), rows[j])
            };
            grid.set(gap, Cell::EMPTY);
        }
        Ok(())
    }
}
