//! Tasks about objects and doors in one hall: fetch, go to, put near, remember, open in order, play.

use serde::{Deserialize, Serialize};

use super::{
    cell::{BALL, BLUE, CLOSED, Cell, GREEN, KEY, RED, THINGS, rank},
    grid::Pos,
    settings::{MOST_SIDE, even, outside},
    task::{COLORS, Missions, THING_NAMES, Task, Words},
    world::{PATIENCE, World, action},
};
use crate::Result;

/// The place of a kind among [`THINGS`].
fn thing(kind: u8) -> i64 {
    i64::from(kind - KEY)
}

/// The number of a colour's name and a thing's.
fn color_and_thing(cell: Cell) -> i64 {
    rank(cell.color()) as i64 * THINGS.len() as i64 + thing(cell.kind())
}

/// Whether two cells are alike in kind and colour.
fn alike(a: Cell, b: Cell) -> bool {
    (a.kind(), a.color()) == (b.kind(), b.color())
}

/// What is wrong with a number of objects in a hall of `size`, if anything is.
fn bad_hall(size: i32, num_objs: usize, numbers: std::ops::RangeInclusive<usize>) -> Option<String> {
    outside("size", size, 5..=MOST_SIDE).or_else(|| outside("numObjs", num_objs, numbers))
}

/// Fields within the walls but one, which is the agent's.
fn free_fields(size: i32) -> usize {
    (size.clamp(3, MOST_SIDE) - 2).pow(2) as usize - 1
}

/// Objects that differ, at random places that are not rejected; they lie in `scratch.objects` then.
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

/// `FetchEnv`.
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

    fn see_through_walls(&self) -> bool {
        true
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

    /// Whatever is picked up ends the episode.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let step = world.act(action);
        match world.carrying {
            Some(carried) if alike(carried, world.wanted) => (world.success(), true),
            Some(_) => (0.0, true),
            None => step,
        }
    }
}

/// The end of a task that is done by saying so beside the right field: toggling anything ends it too.
fn say_done(world: &mut World, action: i64) -> (f64, bool) {
    let step = world.act(action);
    match action {
        action::TOGGLE => (step.0, true),
        action::DONE if world.is_beside(world.places[0]) => (world.success(), true),
        action::DONE => (step.0, true),
        _ => step,
    }
}

/// `GoToDoorEnv`.
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

    fn see_through_walls(&self) -> bool {
        true
    }

    fn missions(&self) -> Missions {
        Missions::of("go to the {} door", &[COLORS])
    }

    /// A room that may be smaller than the grid, with a door in each wall.
    fn build(&self, world: &mut World) -> Result<()> {
        let (width, height) = (world.rand_int(5, self.size + 1), world.rand_int(5, self.size + 1));
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

/// `GoToObjectEnv`.
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

/// All kinds in all colours.
const MOST_DIFFERENT: usize = 18;

impl Task for GoToObject {
    fn problem(&self) -> Option<String> {
        bad_hall(self.size, self.numObjs, 1..=MOST_DIFFERENT.min(free_fields(self.size)))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * (self.size * self.size) as u32
    }

    fn see_through_walls(&self) -> bool {
        true
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

/// `PutNearEnv`.
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
        // Objects keep a field free around themselves.
        let most = ((self.size.clamp(3, MOST_SIDE) - 1) / 2).pow(2) as usize;
        bad_hall(self.size, self.numObjs, 2..=MOST_DIFFERENT.min(most))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * self.size as u32
    }

    fn see_through_walls(&self) -> bool {
        true
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
        world.mission = color_and_thing(moved) * MOST_DIFFERENT as i64 + color_and_thing(target);
        Ok(())
    }

    /// The wrong object in the hand ends the episode, and so does a drop.
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

/// `MemoryEnv`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Memory {
    size: i32,
    random_length: bool,
}

impl Default for Memory {
    fn default() -> Self {
        // MiniGrid's default is 8, which its own check refuses.
        Self { size: 7, random_length: false }
    }
}

impl Task for Memory {
    fn problem(&self) -> Option<String> {
        outside("size", self.size, 7..=MOST_SIDE).or_else(|| even("size", self.size))
    }

    fn size(&self) -> Pos {
        (self.size, self.size)
    }

    fn max_steps(&self) -> u32 {
        5 * (self.size * self.size) as u32
    }

    fn missions(&self) -> Missions {
        Missions::one("go to the matching object at the end of the hallway")
    }

    /// A room with an object, and a hallway from it to two objects, one of which matches.
    fn build(&self, world: &mut World) -> Result<()> {
        let (size, middle) = (self.size, self.size / 2);
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
        // Success first.
        world.places = [(end + 1, middle - 1), (end + 1, middle + 1)];
        if shown != upper {
            world.places.reverse();
        }
        Ok(())
    }

    /// Nothing can be picked up.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        let step = world.act(if action == action::PICKUP { action::TOGGLE } else { action });
        match world.places.iter().position(|&place| place == world.agent) {
            Some(0) => (world.success(), true),
            Some(_) => (0.0, true),
            None => step,
        }
    }
}

/// `RedBlueDoorEnv`.
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
        outside("size", self.size, 4..=MOST_SIDE)
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
        let (size, left) = (self.size, self.size / 2);
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

/// `PlaygroundEnv`.
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

    /// There is nothing to do.
    fn missions(&self) -> Missions {
        Missions::one("")
    }

    fn build(&self, world: &mut World) -> Result<()> {
        const ROOM: i32 = PLAYGROUND / 3;
        world.grid.surround();
        for (j, i) in (0..3).flat_map(|j| (0..3).map(move |i| (j, i))) {
            let (left, top) = (i * ROOM, j * ROOM);
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
