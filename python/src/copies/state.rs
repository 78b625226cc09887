//! Saved states of the copies of an environment.

use pavlov_envs::ResetOptions;

use super::Copies;
use crate::{
    blocks::{Next, shifted},
    fault::{Fault, Result},
    saved::{Reader, Writer},
};

impl Copies {
    /// Everything that later steps depend on, observations and random streams included. Copies that ended are reset first:
    /// an end has no state of its own.
    pub(crate) fn save_state(&mut self) -> Result<Vec<u8>> {
        if !self.is_running {
            return Err(Fault::state("there is no state before an episode; call `reset` first"));
        }
        let width = self.obs_row;
        let spare = self.final_obs.bytes();
        for (copy, next) in self.next.iter_mut().enumerate().filter(|(_, next)| **next == Next::Reset) {
            self.blocks[copy]
                .reset(None, &mut spare[copy * width..][..width])
                .map_err(|error| shifted(error, copy))?;
            *next = Next::Show;
        }
        let mut writer = Writer::new(&self.label());
        for block in &self.blocks {
            let Some(state) = block.save_state()? else {
                return Err(Fault::state(format!("{} saves no states", self.id)));
            };
            writer.part(&state);
        }
        writer.part(self.obs.bytes());
        writer.part(self.final_obs.bytes());
        let next: Vec<u8> = self.next.iter().map(|next| *next as u8).collect();
        writer.part(&next);
        Ok(writer.finish())
    }

    /// Goes on from what [`save_state`](Self::save_state) gave.
    pub(crate) fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut reader = Reader::new(&self.label(), state)?;
        let parts = self.blocks.iter().map(|_| reader.part()).collect::<Result<Vec<_>>>()?;
        let obs = reader.part_of(self.num_envs * self.obs_row)?;
        let final_obs = reader.part_of(self.num_envs * self.obs_row)?;
        let next = reader.part_of(self.num_envs)?.iter().map(|next| match next {
            0 => Ok(Next::Step),
            2 => Ok(Next::Show),
            other => Err(Fault::state(format!("the saved state is damaged: a copy is in phase {other}"))),
        });
        let next = next.collect::<Result<Vec<_>>>()?;
        reader.finish()?;
        if self.info_keys.is_empty() && !self.is_running {
            // Which numbers there are shows in a running episode.
            self.reset(None, None, &ResetOptions::new())?;
        }
        self.is_running = false;
        for (i, (block, part)) in self.blocks.iter_mut().zip(parts).enumerate() {
            block.load_state(part).map_err(|error| shifted(error, i * self.block_len))?;
        }
        self.obs.bytes().copy_from_slice(obs);
        self.final_obs.bytes().copy_from_slice(final_obs);
        self.next = next;
        self.is_running = true;
        Ok(())
    }
}
