//! Saved states of MiniGrid environments.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::{
    cell::Cell,
    grid::Pos,
    world::{NOWHERE, World},
};
use crate::{Error, NpRandom, Result, contract::state};

#[derive(Serialize, Deserialize)]
struct SavedWorld {
    running: bool,
    random: NpRandom,
    width: i32,
    height: i32,
    /// The fields inside the margin, row by row.
    cells: Vec<Cell>,
    agent: Pos,
    direction: usize,
    carrying: Option<Cell>,
    steps: u32,
    mission: i64,
    wanted: Cell,
    places: [Pos; 2],
    obstacles: Vec<Pos>,
}

pub(super) fn save(id: &str, world: &World, running: bool) -> Vec<u8> {
    let saved = SavedWorld {
        running,
        random: world.random.clone(),
        width: world.grid.width,
        height: world.grid.height,
        cells: world.grid.cells().map(|(_, cell)| cell).collect(),
        agent: world.agent,
        direction: world.direction,
        carrying: world.carrying,
        steps: world.steps,
        mission: world.mission,
        wanted: world.wanted,
        places: world.places,
        obstacles: world.obstacles.clone(),
    };
    state::save(id, &saved)
}

/// Loads a state written by [`save`]; returns whether an episode is running.
pub(super) fn load(id: &str, world: &mut World, missions: i64, state: &[u8]) -> Result<bool> {
    let saved: SavedWorld = state::load(id, state)?;
    let grid = &world.grid;
    state::check_count("columns", saved.width as usize, grid.width as usize)?;
    state::check_count("rows", saved.height as usize, grid.height as usize)?;
    state::check_count("fields", saved.cells.len(), (grid.width * grid.height) as usize)?;
    below("direction", saved.direction, 4)?;
    below("step", saved.steps, u32::MAX)?;
    below("mission", saved.mission as u64, missions as u64)?;
    below("number of balls", saved.obstacles.len(), saved.cells.len())?;
    for place in [saved.agent].iter().chain(&saved.places).chain(&saved.obstacles) {
        if *place != NOWHERE && !grid.contains(*place) {
            return Err(Error::state(format!(
                "a place is [{}, {}], which is outside the grid; it is damaged",
                place.0, place.1
            )));
        }
    }
    if saved.running && saved.agent == NOWHERE {
        return Err(Error::state("the agent is in no field; it is damaged"));
    }
    let width = grid.width;
    for (i, cell) in (0..).zip(saved.cells) {
        world.grid.set((i % width, i / width), cell);
    }
    world.random = saved.random;
    world.agent = saved.agent;
    world.direction = saved.direction;
    world.carrying = saved.carrying;
    world.steps = saved.steps;
    world.mission = saved.mission;
    world.wanted = saved.wanted;
    world.places = saved.places;
    world.obstacles = saved.obstacles;
    Ok(saved.running)
}

fn below<T: PartialOrd + Display>(what: &str, value: T, limit: T) -> Result<()> {
    if value < limit {
        return Ok(());
    }
    Err(Error::state(format!(
        "its {what} is {value}, but it must be below {limit} here; it is damaged or of other settings"
    )))
}
