//! Saved states of MiniGrid environments.

use super::{
    cell::Cell,
    grid::Pos,
    world::{NOWHERE, World},
};
use crate::{
    Error, Result,
    contract::state::{StateReader, StateWriter},
};

fn write_pos(out: &mut StateWriter, (x, y): Pos) {
    out.u64(x as u64);
    out.u64(y as u64);
}

pub(super) fn save(id: &str, world: &World, running: bool) -> Vec<u8> {
    let mut out = StateWriter::new(id);
    out.u64(u64::from(running));
    out.random(&world.random);
    out.u64(world.grid.width as u64);
    out.u64(world.grid.height as u64);
    world.grid.cells().for_each(|(_, cell)| out.u64(u64::from(cell.0)));
    write_pos(&mut out, world.agent);
    out.u64(world.direction as u64);
    out.option(world.carrying.map(|cell| u64::from(cell.0)));
    out.u64(u64::from(world.steps));
    out.u64(world.mission as u64);
    out.u64(u64::from(world.wanted.0));
    world.places.iter().for_each(|&place| write_pos(&mut out, place));
    out.u64(world.obstacles.len() as u64);
    world.obstacles.iter().for_each(|&place| write_pos(&mut out, place));
    out.finish()
}

/// Loads a state written by [`save`]; returns whether an episode is running.
pub(super) fn load(id: &str, world: &mut World, missions: i64, state: &[u8]) -> Result<bool> {
    let mut input = StateReader::new(id, state)?;
    let mut loaded = world.clone();
    let running = input.u64()? != 0;
    loaded.random = input.random()?;
    input.count("columns", world.grid.width as usize)?;
    input.count("rows", world.grid.height as usize)?;
    for y in 0..world.grid.height {
        for x in 0..world.grid.width {
            loaded.grid.set((x, y), read_cell(&mut input)?);
        }
    }
    loaded.agent = read_pos(&mut input, &loaded)?;
    loaded.direction = below("direction", input.u64()?, 4)? as usize;
    loaded.carrying = input.option()?.map(cell_of).transpose()?;
    loaded.steps = below("step", input.u64()?, u64::from(u32::MAX))? as u32;
    loaded.mission = below("mission", input.u64()?, missions as u64)? as i64;
    loaded.wanted = read_cell(&mut input)?;
    for place in 0..loaded.places.len() {
        loaded.places[place] = read_pos(&mut input, &loaded)?;
    }
    loaded.obstacles.clear();
    let fields = (world.grid.width * world.grid.height) as u64;
    for _ in 0..below("number of balls", input.u64()?, fields)? {
        let place = read_pos(&mut input, &loaded)?;
        loaded.obstacles.push(place);
    }
    input.finish()?;
    if running && !loaded.grid.contains(loaded.agent) {
        return Err(Error::state("the agent is in no field; it is damaged"));
    }
    *world = loaded;
    Ok(running)
}

fn read_cell(input: &mut StateReader<'_>) -> Result<Cell> {
    cell_of(input.u64()?)
}

fn cell_of(bits: u64) -> Result<Cell> {
    let cell = u32::try_from(bits).ok().and_then(Cell::from_bits);
    cell.ok_or_else(|| Error::state(format!("a field holds {bits:#x}, which is no object; it is damaged")))
}

fn read_pos(input: &mut StateReader<'_>, world: &World) -> Result<Pos> {
    let x = input.u64()? as i64;
    let y = input.u64()? as i64;
    let at = (x as i32, y as i32);
    if (i64::from(at.0), i64::from(at.1)) == (x, y) && (at == NOWHERE || world.grid.contains(at)) {
        return Ok(at);
    }
    Err(Error::state(format!("a place is [{x}, {y}], which is outside the grid; it is damaged")))
}

fn below(what: &str, value: u64, limit: u64) -> Result<u64> {
    if value < limit {
        return Ok(value);
    }
    Err(Error::state(format!(
        "its {what} is {value}, but it must be below {limit} here; it is damaged or of other settings"
    )))
}
