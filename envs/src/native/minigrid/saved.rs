//! Saved states of MiniGrid environments.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::{
    cell::Cell,
    grid::Pos,
    world::{NOWHERE, World},
};
use crate::{Error, Result, contract::state};

/// The world of an episode as a saved state holds it.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedWorld {
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

impl SavedWorld {
    pub(super) fn of(world: &World) -> Self {
        Self {
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
        }
    }

    /// Writes the saved world into `world`, which has as many `missions`.
    ///
    /// # Errors
    /// Returns [`Error::State`], and changes nothing, if the saved world is damaged or of other settings.
    pub(super) fn restore(self, world: &mut World, missions: i64, running: bool) -> Result<()> {
        let grid = &world.grid;
        state::check_count("columns", self.width as usize, grid.width as usize)?;
        state::check_count("rows", self.height as usize, grid.height as usize)?;
        state::check_count("fields", self.cells.len(), (grid.width * grid.height) as usize)?;
        below("direction", self.direction, 4)?;
        below("step", self.steps, u32::MAX)?;
        below("mission", self.mission as u64, missions as u64)?;
        below("number of balls", self.obstacles.len(), self.cells.len())?;
        for place in [self.agent].iter().chain(&self.places).chain(&self.obstacles) {
            if *place != NOWHERE && !grid.contains(*place) {
                return Err(Error::state(format!(
                    "a place is [{}, {}], which is outside the grid; it is damaged",
                    place.0, place.1
                )));
            }
        }
        if running && self.agent == NOWHERE {
            return Err(Error::state("the agent is in no field; it is damaged"));
        }
        let width = grid.width;
        for (i, cell) in (0..).zip(self.cells) {
            world.grid.set((i % width, i / width), cell);
        }
        world.agent = self.agent;
        world.direction = self.direction;
        world.carrying = self.carrying;
        world.steps = self.steps;
        world.mission = self.mission;
        world.wanted = self.wanted;
        world.places = self.places;
        world.obstacles = self.obstacles;
        Ok(())
    }
}

fn below<T: PartialOrd + Display>(what: &str, value: T, limit: T) -> Result<()> {
    if value < limit {
        return Ok(());
    }
    Err(Error::state(format!(
        "its {what} is {value}, but it must be below {limit} here; it is damaged or of other settings"
    )))
}
