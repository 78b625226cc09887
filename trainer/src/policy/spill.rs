//! Policies that wait on disk while others are in use.

use crate::base::{Error, PolicyId, Result, State, Weights};
use crate::policy::Policy;
use crate::policy::policy_map::PolicyMap;
use pavlov_tune::internal::HeldFolder;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

#[derive(Debug)]
pub(crate) enum Place {
    Here { policy: Box<dyn Policy>, used: u64 },
    OnDisk { stem: String, weights: Weights },
}

/// Makes a policy as it is in the beginning.
type Make = dyn Fn(&str) -> Result<Box<dyn Policy>> + Send + Sync;

pub(crate) struct Spilling {
    capacity: usize,
    /// It is removed with the map, or by the next one where the process was killed.
    pub(crate) dir: HeldFolder,
    make: Arc<Make>,
}

impl fmt::Debug for Spilling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spilling")
            .field("capacity", &self.capacity)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl PolicyMap {
    /// An empty map that keeps at most `capacity` policies in memory, and the others in a new folder in `cache`, or in the
    /// machine's folder for temporary files. `make` makes a policy as it is in the beginning.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the folder cannot be made.
    pub(crate) fn with_capacity(
        capacity: usize,
        cache: Option<&Path>,
        make: impl Fn(&str) -> Result<Box<dyn Policy>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = |dir: &Path| {
            fs::create_dir_all(dir)?;
            HeldFolder::new(dir, "pavlov-policies-")
        };
        let dir = cache.map_or_else(std::env::temp_dir, Path::to_owned);
        let dir = folder(&dir).map_err(|error| {
            let rule = format!("policies cannot be kept there: {error}; name a folder that can be written");
            Error::config("multiagent.policy_map_cache", format_args!("{dir:?}"), rule)
        })?;
        Ok(Self { spilling: Some(Spilling { capacity, dir, make: Arc::new(make) }), ..Self::default() })
    }

    /// Has the policy in memory, and marks it as used.
    pub(crate) fn fetch(&mut self, id: &str) -> Result<()> {
        self.clock += 1;
        let (Some(place), Some(spilling)) = (self.policies.get_mut(id), &self.spilling) else {
            return Ok(());
        };
        match place {
            Place::Here { used, .. } => {
                *used = self.clock;
                return Ok(());
            }
            Place::OnDisk { stem, .. } => {
                let dir = spilling.dir.path();
                let mut policy = (spilling.make)(id)?;
                policy.set_state(&State::read(dir, stem)?).map_err(|error| error.within(id))?;
                if let Some(timestep) = self.timestep {
                    policy.on_global_var_update(timestep);
                }
                // What cannot be removed is removed with the folder.
                for ending in ["json", "safetensors"] {
                    let _ = fs::remove_file(dir.join(format!("{stem}.{ending}")));
                }
                *place = Place::Here { policy, used: self.clock };
            }
        }
        self.make_room()
    }

    /// Writes the policies that were not used for the longest time to disk, until there are no more in memory than there may be.
    ///
    /// # Errors
    /// Fails if a policy cannot save its state, or it cannot be written.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        let Some(spilling) = &self.spilling else { return Ok(()) };
        loop {
            let here = self.policies.iter_mut().filter_map(|(id, place)| match place {
                Place::Here { used, .. } => Some((*used, id.clone())),
                Place::OnDisk { .. } => None,
            });
            let mut here: Vec<(u64, PolicyId)> = here.collect();
            if here.len() <= spilling.capacity {
                return Ok(());
            }
            here.sort();
            let (used, id) = here.swap_remove(0);
            if let Some(place @ Place::Here { .. }) = self.policies.get_mut(&id)
                && let Place::Here { policy, .. } = &*place
            {
                let (stem, weights) = (used.to_string(), policy.get_weights());
                policy.get_state()?.write(spilling.dir.path(), &stem)?;
                *place = Place::OnDisk { stem, weights };
            }
        }
    }
}
