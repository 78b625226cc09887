//! Saves the copies of a Python environment as the seeds and actions of their episodes, and loads them by replaying these.

use serde_json::json;

use super::{
    super::episode::{Episode, SavedEpisode},
    Bridge,
};
use crate::{Error, Result, contract::state};

impl Bridge {
    pub(in crate::python) fn save_state(&self) -> Result<Option<Vec<u8>>> {
        if self.hosted {
            return Ok(None);
        }
        self.healthy()?;
        let episodes = self.episodes.iter().map(Episode::save).collect::<Result<Vec<_>>>()?;
        Ok(Some(state::save(self.name(), &episodes)))
    }

    pub(in crate::python) fn load_state(&mut self, state: &[u8]) -> Result<()> {
        if self.hosted {
            return Err(Error::state(
                "a hosted vector environment cannot be brought back to the middle of episodes",
            ));
        }
        self.healthy()?;
        let saved: Vec<SavedEpisode> = state::load(&self.name, state)?;
        state::check_count("copies", saved.len(), self.rows.num_envs)?;
        let act_bytes = self.rows.act_bytes();
        let saved = saved.into_iter().map(|saved| Episode::load(saved, act_bytes));
        let saved = saved.collect::<Result<Vec<_>>>()?;
        for (episode, saved) in self.episodes.iter_mut().zip(&saved) {
            episode.clone_from(saved);
        }
        let seeds: Vec<u64> = saved.iter().map(|episode| episode.seed().unwrap_or(0)).collect();
        self.memory.write(self.offsets.seeds, bytemuck::cast_slice(&seeds));
        // All workers replay at the same time.
        for index in 0..self.workers.len() {
            let rows = self.first_row(index)..self.first_row(index + 1);
            let episodes: Vec<_> = saved[rows].iter().enumerate().collect();
            let actions: Vec<u8> =
                episodes.iter().flat_map(|(_, episode)| episode.actions()).copied().collect();
            let list: Vec<_> = episodes
                .iter()
                .map(|(row, episode)| {
                    json!([row, episode.seed(), episode.step(), episode.options().as_deref()])
                })
                .collect();
            let request = json!({"do": "replay", "episodes": list, "size": actions.len()});
            let worker = &mut self.workers[index];
            let written = worker.request(&request).and_then(|()| worker.write(&actions));
            self.check(index, written)?;
        }
        self.wait("replay")?;
        self.read_infos();
        Ok(())
    }
}
