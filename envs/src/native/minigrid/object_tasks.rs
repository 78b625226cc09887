//! Tasks whose mission names objects or doors: fetch, go to, put near.

use serde::{Deserialize, Serialize};

use super::{
    cell::{BALL, CLOSED, Cell, KEY, THINGS, rank},
    grid::Pos,
    settings::{MAX_SIDE, outside},
    task::{COLORS, Missions, THING_NAMES, Task, Words},
    world::{PATIENCE, World, action},
};
use crate::Result;

/// Index of a kind in [`THINGS`].
fn thing(kind: u8) -> i64 {
    i64::from(kind - KEY)
}

/// Mission number of an object's colour and kind.
fn color_and_thing(cell: Cell) -> i64 {
    rank(cell.color()) as i64 * THINGS.len() as i64 + thing(cell.kind())
}

/// Whether two cells have the same kind and colour.
fn alike(a: Cell, b: Cell) -> bool {
    (a.kind(), a.color()) == (b.kind(), b.color())
}

/// Returns an error message if `size` or the number of objects is out of range.
fn bad_hall(size: i32, num_objs: usize, numbers: std::ops::RangeInclusive<usize>) -> Option<String> {
    outside("size", size, 5..=MAX_SIDE).or_else(|| outside("numObjs", num_objs, numbers))
}

/// Number of fields inside the walls, minus one for the agent.
fn free_fields(size: i32) -> usize {
    (size.clamp(3, MAX_SIDE) - 2).pow(2) as usize - 1
}

/// Places `count` different objects at random fields that `rejects` accepts, and lists them in `scratch.objects`.
fn scatter(world: &mut World, count: usize, rejects: impl Fn(&World, Pos) -> bool) -> Result<()> {
    world.scratch.objects.clear();
    while world.scratch.objects.len() < count {
        let kind = world.rand_elem(&THINGS);
        let cell = Cell::new(kind, world.rand_color());
        if world.scratch.objects.iter().all(|(other, _)| *other != cell) {
            let at = world.place_unless(cell, &rejects)?;
            world.scratch.objects.push((cell, at));
        }
    }
    Ok(())
}

/// MiniGrid's `FetchEnv`: pick up the object of the mission.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(non_snake_case, reason = "settings have MiniGrid's names")]
pub(super) struct Fetch {
    size: i32,
    numObjs: usize,
}

impl Default for Fetch {
    fn default() -> Self {
        Self { size: 8, numObjs: 3 }
    }
}

impl Task for Fetch {
    fn problem(&self) -> Option<String> {
        bad_hall(self.size, self.numObjs, 1..=free_fields(self.size))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        const ASKED: Words = &["get a", "go get a", "fetch a", "go fetch a", "you must fetch a"];
        Missions::of("{} {} {}", &[ASKED, COLORS, &["key", "ball"]])
    }

    fn build(&self, world: &mut World) -> Result<()> {
        world.grid.surround();
        world.scratch.objects.clear();
        for _ in 0..self.numObjs {
            let kind = world.rand_elem(&[KEY, BALL]);
            let cell = Cell::new(kind, world.rand_color());
            let at = world.place(cell)?;
            world.scratch.objects.push((cell, at));
        }
        world.place_agent()?;
        let chosen = world.rand_int(0, self.numObjs as i32) as usize;
        world.wanted = world.scratch.objects[chosen].0;
        let asked = i64::from(world.rand_int(0, 5));
        world.mission = (asked * 6 + rank(world.wanted.color()) as i64) * 2 + thing(world.wanted.kind());
        Ok(())
    }

    /// Picking up any object ends the episode.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let step = world.act(action);
        match world.carrying {
            Some(carried) if alike(carried, world.wanted) => (world.success(), true),
            Some(_) => (0.0, true),
            None => step,
        }
    }
}

/// Step of a task that ends with the action `DONE` beside the right field; `TOGGLE` ends it too, without a reward.
fn say_done(world: &mut World, action: i64) -> (f64, bool) {
    let step = world.act(action);
    match action {
        action::TOGGLE => (step.0, true),
        action::DONE if world.is_beside(world.places[0]) => (world.success(), true),
        action::DONE => (step.0, true),
        _ => step,
    }
}

/// MiniGrid's `GoToDoorEnv`: go to the door of the mission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GoToDoor {
    size: i32,
}

impl Default for GoToDoor {
    fn default() -> Self {
        Self { size: 5 }
    }
}

impl Task for GoToDoor {
    fn problem(&self) -> Option<String> {
        bad_hall(self.size, 1, 1..=1)
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
        Missions::of("go to the {} door", &[COLORS])
    }

    /// Builds a room, possibly smaller than the grid, with a door in each wall.
    fn build(&self, world: &mut World) -> Result<()> {
        let width = world.rand_int(5, self.size + 1);
        let height = world.rand_int(5, self.size + 1);
        world.grid.wall_rect((0, 0), (width, height));
        let doors = [
            (world.rand_int(2, width - 2), 0),
            (world.rand_int(2, width - 2), height - 1),
            (0, world.rand_int(2, height - 2)),
            (width - 1, world.rand_int(2, height - 2)),
        ];
        let mut colors = [u8::MAX; 4];
        let mut count = 0;
        while count < colors.len() {
            let color = world.rand_color();
            if !colors.contains(&color) {
                colors[count] = color;
                count += 1;
            }
        }
        for (door, color) in doors.into_iter().zip(colors) {
            world.grid.set(door, Cell::door(color, CLOSED));
        }
        world.place_agent_in((0, 0), (width, height), PATIENCE)?;
        let chosen = world.rand_int(0, 4) as usize;
        world.places[0] = doors[chosen];
        world.mission = rank(colors[chosen]) as i64;
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        say_done(world, action)
    }
}

/// MiniGrid's `GoToObjectEnv`: go to the object of the mission.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(non_snake_case, reason = "settings have MiniGrid's names")]
pub(super) struct GoToObject {
    size: i32,
    numObjs: usize,
}

impl Default for GoToObject {
    fn default() -> Self {
        Self { size: 6, numObjs: 2 }
    }
}

/// Number of different objects: all kinds in all colours.
const MAX_DIFFERENT: usize = 18;

impl Task for GoToObject {
    fn problem(&self) -> Option<String> {
        bad_hall(self.size, self.numObjs, 1..=MAX_DIFFERENT.min(free_fields(self.size)))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        Missions::of("go to the {} {}", &[COLORS, THING_NAMES])
    }

    fn build(&self, world: &mut World) -> Result<()> {
        world.grid.surround();
        scatter(world, self.numObjs, |_, _| false)?;
        world.place_agent()?;
        let chosen = world.rand_int(0, self.numObjs as i32) as usize;
        let (cell, at) = world.scratch.objects[chosen];
        world.places[0] = at;
        world.mission = color_and_thing(cell);
        Ok(())
    }

    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        say_done(world, action)
    }
}

/// MiniGrid's `PutNearEnv`: put one object near another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(non_snake_case, reason = "settings have MiniGrid's names")]
pub(super) struct PutNear {
    size: i32,
    numObjs: usize,
}

impl Default for PutNear {
    fn default() -> Self {
        Self { size: 6, numObjs: 2 }
    }
}

fn are_near(a: Pos, b: Pos) -> bool {
    (a.0 - b.0).abs() <= 1 && (a.1 - b.1).abs() <= 1
}

impl Task for PutNear {
    fn problem(&self) -> Option<String> {
        // Each object keeps the fields around it free.
        let most = ((self.size.clamp(3, MAX_SIDE) - 1) / 2).pow(2) as usize;
        bad_hall(self.size, self.numObjs, 2..=MAX_DIFFERENT.min(most))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * self.size as u32
    }

    fn see_through_walls(&self) -> Option<bool> {
        Some(true)
    }

    fn missions(&self) -> Missions {
        Missions::of("put the {} {} near the {} {}", &[COLORS, THING_NAMES, COLORS, THING_NAMES])
    }

    fn build(&self, world: &mut World) -> Result<()> {
        world.grid.surround();
        scatter(world, self.numObjs, |world, at| {
            world.scratch.objects.iter().any(|(_, other)| are_near(at, *other))
        })?;
        world.place_agent()?;
        let count = self.numObjs as i32;
        let moved = world.rand_int(0, count);
        let target = loop {
            let target = world.rand_int(0, count);
            if target != moved {
                break target;
            }
        };
        let (moved, _) = world.scratch.objects[moved as usize];
        let (target, at) = world.scratch.objects[target as usize];
        world.wanted = moved;
        world.places[0] = at;
        world.mission = color_and_thing(moved) * MAX_DIFFERENT as i64 + color_and_thing(target);
        Ok(())
    }

    /// Picking up a wrong object ends the episode, and so does `DROP` while carrying one.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let before = world.carrying;
        let (reward, terminated) = world.act(action);
        match action {
            action::PICKUP => {
                let wrong = world.carrying.is_some_and(|carried| !alike(carried, world.wanted));
                (reward, terminated || wrong)
            }
            action::DROP if before.is_some() => {
                let near = world.carrying.is_none() && are_near(world.front(), world.places[0]);
                (if near { world.success() } else { reward }, true)
            }
            _ => (reward, terminated),
        }
    }
}
