//! Saves the copies of a Python environment as the seeds and actions of their episodes, and loads them by replaying these.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    super::episode::{Episode, SavedEpisode},
    Bridge,
};
use crate::{Error, Result, contract::state};

/// What a saved state holds.
#[derive(Serialize, Deserialize)]
struct Saved {
    episodes: Vec<SavedEpisode>,
    /// Rows of all copies, by which it shows whether a replay came to the same point; empty if not known.
    obs: Vec<u8>,
}

impl Bridge {
    pub(in crate::python) fn save_state(&self) -> Result<Option<Vec<u8>>> {
        if self.hosted {
            return Ok(None);
        }
        self.healthy()?;
        let episodes = self.episodes.iter().map(Episode::save).collect::<Result<Vec<_>>>()?;
        Ok(Some(state::save(&self.tag(), &Saved { episodes, obs: self.shown() })))
    }

    /// The tag of saved states with observations. Those of older versions have none, and the name as their tag.
    fn tag(&self) -> String {
        format!("{} with observations", self.name())
    }

    /// The observations of all copies.
    fn shown(&self) -> Vec<u8> {
        let mut obs = vec![0; self.rows.num_envs * self.rows.obs_bytes()];
        self.memory.read(self.offsets.obs, &mut obs);
        obs
    }

    pub(in crate::python) fn load_state(&mut self, state: &[u8]) -> Result<()> {
        if self.hosted {
            return Err(Error::state(
                "a hosted vector environment cannot be brought back to the middle of episodes",
            ));
        }
        self.healthy()?;
        let Saved { episodes: saved, obs } = state::load(&self.tag(), state).or_else(|error| {
            let old = state::load(&self.name, state).map(|episodes| Saved { episodes, obs: vec![] });
            old.map_err(|_| error)
        })?;
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
        let mut failed = None;
        for index in (0..self.workers.len()).rev() {
            let answer = self.workers[index].line("replay");
            let answer = self.check(index, answer)?;
            failed = answer["failed"].as_str().map(str::to_owned).or(failed);
        }
        let row_bytes = self.rows.obs_bytes();
        let shown = self.shown();
        let mut rows = obs.chunks_exact(row_bytes).zip(shown.chunks_exact(row_bytes)).zip(&saved);
        let other = rows.find(|((saved, shown), _)| saved != shown);
        let other = other.map(|(_, episode)| {
            let (step, seed) = (episode.step(), episode.seed().unwrap_or(0));
            format!("after {step} steps of the episode with seed {seed} the observation is another")
        });
        self.read_infos();
        failed.or(other).map_or(Ok(()), |message| Err(Error::Replay { env: self.name.clone(), message }))
    }
}
