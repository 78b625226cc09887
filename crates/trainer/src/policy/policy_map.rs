//! The policies of a run by id; policies that were not used for long may be kept on disk.

use crate::base::PolicyId;
use crate::policy::Policy;
use pavlov_learn::base::{Error, Result, State, Weights};
use pavlov_processes::HeldFolder;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

/// Policies by id. Single-agent runs have one, [`DEFAULT_POLICY`](crate::base::DEFAULT_POLICY).
///
/// With a capacity (`multiagent.policy_map_capacity`) the map keeps that many policies in memory, and the states of
/// the others in files. A policy on disk is loaded when it is used, and the least recently used policy in memory is
/// written to disk instead. The weights of all policies stay in memory, as they are sent to workers.
#[derive(Debug, Default)]
pub struct PolicyMap {
    pub(crate) policies: BTreeMap<PolicyId, Place>,
    pub(crate) spilling: Option<Spilling>,
    /// Number of uses so far, to find the least recently used policy.
    pub(crate) clock: u64,
    /// Number of environment steps of the run that the policies were last told.
    pub(crate) timestep: Option<u64>,
}

impl PolicyMap {
    /// Adds or replaces a policy.
    pub fn insert(&mut self, id: impl Into<String>, policy: Box<dyn Policy>) {
        self.clock += 1;
        self.policies.insert(id.into(), Place::Here { policy, used: self.clock });
    }

    /// The policy `id`, loaded from disk if it is there.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no policy has that id. Fails if a policy cannot be written to disk or
    /// read.
    pub fn get_mut(&mut self, id: &str) -> Result<&mut Box<dyn Policy>> {
        if !self.policies.contains_key(id) {
            let have = self.policies.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownPolicy { id: id.to_owned(), have });
        }
        if self.spilling.is_some() {
            self.fetch(id)?;
        }
        match self.policies.get_mut(id) {
            Some(Place::Here { policy, .. }) => Ok(policy),
            _ => unreachable!("it was just fetched"),
        }
    }

    /// All policies, if the map keeps all of them in memory.
    pub(crate) fn all_in_memory(&self) -> Option<impl Iterator<Item = (&PolicyId, &dyn Policy)>> {
        fn here<'a>((id, place): (&'a PolicyId, &'a Place)) -> Option<(&'a PolicyId, &'a dyn Policy)> {
            match place {
                Place::Here { policy, .. } => Some((id, &**policy)),
                Place::OnDisk { .. } => None,
            }
        }
        self.spilling.is_none().then(|| self.policies.iter().filter_map(here))
    }

    /// Takes the policy `id` out of the map.
    ///
    /// # Errors
    /// Fails whenever [`get_mut`](Self::get_mut) does.
    pub(crate) fn take(mut self, id: &str) -> Result<Box<dyn Policy>> {
        self.get_mut(id)?;
        match self.policies.remove(id) {
            Some(Place::Here { policy, .. }) => Ok(policy),
            _ => unreachable!("it was just fetched"),
        }
    }

    /// Tells all policies the number of environment steps that the run has sampled.
    pub(crate) fn on_global_var_update(&mut self, timestep: u64) {
        self.timestep = Some(timestep);
        for place in self.policies.values_mut() {
            if let Place::Here { policy, .. } = place {
                policy.on_global_var_update(timestep);
            }
        }
    }

    /// The weights of all policies, nested by id.
    pub fn get_weights(&self) -> Weights {
        let mut all = State::default();
        for (id, place) in &self.policies {
            let weights = match place {
                Place::Here { policy, .. } => policy.get_weights(),
                Place::OnDisk { weights, .. } => Arc::clone(weights),
            };
            all.nest(id, (*weights).clone());
        }
        Arc::new(all)
    }

    /// Returns the weights of some policies, nested by id.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] for an id that no policy has, and fails as [`get_mut`](Self::get_mut) does.
    pub fn get_weights_of(&mut self, ids: &[&str]) -> Result<Weights> {
        let mut some = State::default();
        for id in ids {
            some.nest(id, (*self.get_mut(id)?.get_weights()).clone());
        }
        Ok(Arc::new(some))
    }

    /// Replaces the weights of the policies that `weights` names, nested by id. Other policies keep their weights.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] for an id that no policy has, and [`Error::State`] if `weights` names no
    /// policy or the weights of one do not fit. Fails as [`get_mut`](Self::get_mut) does. After an error, policies
    /// before the failed one have the new weights.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        if weights.nests().next().is_none() {
            let reason = "they are of no policy; give them nested by id, as `get_weights` does";
            return Err(Error::state("the weights", reason));
        }
        for id in weights.nests() {
            let own = Arc::new(weights.nested(id)?);
            match self.policies.get(id) {
                // Most policies on disk already have these weights.
                Some(Place::OnDisk { weights, .. }) if *weights == own => {}
                _ => self.get_mut(id)?.set_weights(&own)?,
            }
        }
        Ok(())
    }

    /// The states of all policies, nested by id.
    ///
    /// # Errors
    /// Fails if a policy's own [`get_state`](Policy::get_state) does, or one on disk cannot be read.
    pub fn get_state(&self) -> Result<State> {
        let mut all = State::default();
        for (id, place) in &self.policies {
            let state = match (place, &self.spilling) {
                (Place::Here { policy, .. }, _) => policy.get_state()?,
                (Place::OnDisk { stem, .. }, Some(spilling)) => State::read(spilling.dir.path(), stem)?,
                (Place::OnDisk { .. }, None) => unreachable!("there is no disk"),
            };
            all.nest(id, state);
        }
        Ok(all)
    }

    /// Restores the states that [`get_state`](Self::get_state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` lacks a policy or does not fit one. Fails as [`get_mut`](Self::get_mut)
    /// does. After an error, policies before the failed one are restored.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        for id in self.policies.keys().cloned().collect::<Vec<_>>() {
            self.get_mut(&id)?.set_state(&state.nested(&id)?)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) enum Place {
    Here { policy: Box<dyn Policy>, used: u64 },
    OnDisk { stem: String, weights: Weights },
}

/// A function that builds the policy of an id with its initial weights.
type Make = dyn Fn(&str) -> Result<Box<dyn Policy>> + Send + Sync;

pub(crate) struct Spilling {
    capacity: usize,
    /// The folder of the policies on disk; removed with the map, or by the next map if the process was killed.
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
    /// Makes an empty map that keeps at most `capacity` policies in memory, and the others in a new folder in `cache`
    /// (by default in the machine's temporary folder). `make` builds a policy with its initial weights.
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

    /// Loads the policy `id` if it is on disk, and marks it as the most recently used.
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
                // A file that cannot be removed now is removed with the folder.
                for ending in ["json", "safetensors"] {
                    let _ = fs::remove_file(dir.join(format!("{stem}.{ending}")));
                }
                *place = Place::Here { policy, used: self.clock };
            }
        }
        self.make_room()
    }

    /// Writes the least recently used policies to disk until at most `capacity` of them are in memory.
    ///
    /// # Errors
    /// Fails if a policy cannot save its state, or a file cannot be written.
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
                let stem = used.to_string();
                let weights = policy.get_weights();
                policy.get_state()?.write(spilling.dir.path(), &stem)?;
                *place = Place::OnDisk { stem, weights };
            }
        }
    }
}
