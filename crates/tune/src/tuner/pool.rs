//! The pool of resources that trials share: total and free amounts.

use std::collections::BTreeMap;

use pavlov_processes::Bundle;

use crate::base::{Error, Resources, Result, gpu};

/// Tolerance in comparisons of amounts, so that ten times 0.1 fits into 1.
const SLACK: f64 = 1e-9;

/// Upper limit for the number of GPUs, far above that of any single machine.
const MAX_GPUS: usize = 1024;

/// Total and free amounts of each resource, and the free part of each GPU.
#[derive(Debug)]
pub(super) struct Pool {
    total: Bundle,
    free: Bundle,
    gpus: Vec<f64>,
    taken: BTreeMap<u64, (Bundle, Vec<(usize, f64)>)>,
    /// Whether a trial that asks for more cores than there are gets all of them, to be shared by its threads.
    shares_cores: bool,
}

impl Pool {
    /// Creates a pool of the amounts in `total`. With `None`, the pool has the cores and GPUs of this machine.
    pub(super) fn new(total: Option<Bundle>) -> Result<Self> {
        let shares_cores = total.is_none();
        let total = match total {
            Some(total) => total,
            None => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let gpus = gpu::count();
                Bundle::from([("CPU".into(), cores as f64), ("GPU".into(), gpus as f64)])
            }
        };
        Resources::new(vec![total.clone()])?;
        let gpus = total.get("GPU").map_or(0, |gpus| gpus.floor() as usize);
        if gpus > MAX_GPUS {
            let rule = format!("it must be at most {MAX_GPUS}, the GPUs of one machine");
            return Err(Error::config("total_resources.GPU", total["GPU"], rule));
        }
        Ok(Pool { free: total.clone(), gpus: vec![1.0; gpus], total, taken: BTreeMap::new(), shares_cores })
    }

    pub(super) fn total(&self) -> &Bundle {
        &self.total
    }

    /// Changes the total after machines have joined or left. Returns whether the total is different.
    pub(super) fn change(&mut self, total: Bundle) -> bool {
        if total == self.total {
            return false;
        }
        for (name, amount) in &total {
            *self.free.entry(name.clone()).or_default() += amount;
        }
        for (name, amount) in &self.total {
            *self.free.entry(name.clone()).or_default() -= amount;
        }
        // GPUs that are gone keep their entries; the smaller free amount keeps trials from using them.
        let gpus = total.get("GPU").map_or(0, |gpus| gpus.floor() as usize);
        self.gpus.resize(gpus.min(MAX_GPUS).max(self.gpus.len()), 1.0);
        self.total = total;
        true
    }

    /// Whether any amount of any resource is free.
    pub(super) fn has_any_free(&self) -> bool {
        self.free.values().any(|amount| *amount > SLACK)
    }

    /// Whether the request would fit into the pool if nothing else were running.
    pub(super) fn can_ever_fit(&self, request: &Resources) -> bool {
        covers(&self.total, &self.required(request))
    }

    /// If the request exceeds the cores and they are shared: the number of cores requested, and the number available.
    pub(super) fn too_few_cores(&self, request: &Resources) -> Option<(f64, f64)> {
        let cores = |bundle: &Bundle| bundle.get("CPU").copied().unwrap_or(0.0);
        let wanted = cores(&request.required());
        let there = cores(&self.total);
        (self.shares_cores && wanted > there + SLACK).then_some((wanted, there))
    }

    /// Amounts that the request takes out of the pool.
    fn required(&self, request: &Resources) -> Bundle {
        let mut required = request.required();
        if let Some((_, there)) = self.too_few_cores(request) {
            required.insert("CPU".into(), there);
        }
        required
    }

    pub(super) fn fits(&self, request: &Resources) -> bool {
        covers(&self.free, &self.required(request)) && self.choose_gpus(request).is_some()
    }

    /// Takes the request's resources out of the pool for `actor`. Returns the indices of its GPUs.
    pub(super) fn take(&mut self, actor: u64, request: &Resources) -> Vec<usize> {
        let required = self.required(request);
        let gpus = self.choose_gpus(request).unwrap_or_default();
        for (name, amount) in &required {
            *self.free.entry(name.clone()).or_default() -= amount;
        }
        for (gpu, amount) in &gpus {
            self.gpus[*gpu] -= amount;
        }
        let indices = gpus.iter().map(|(gpu, _)| *gpu).collect();
        self.taken.insert(actor, (required, gpus));
        indices
    }

    pub(super) fn give_back(&mut self, actor: u64) {
        let Some((amounts, gpus)) = self.taken.remove(&actor) else { return };
        for (name, amount) in amounts {
            *self.free.entry(name).or_default() += amount;
        }
        for (gpu, amount) in gpus {
            self.gpus[gpu] += amount;
        }
    }

    /// Chooses GPUs for the request. A whole GPU is exclusive; a fraction comes from the fullest GPU that has enough left.
    /// Returns indices and amounts, or `None` if the request does not fit.
    fn choose_gpus(&self, request: &Resources) -> Option<Vec<(usize, f64)>> {
        let mut free = self.gpus.clone();
        let mut chosen: Vec<(usize, f64)> = Vec::new();
        for bundle in request.bundles() {
            let mut wanted = bundle.get("GPU").copied().unwrap_or(0.0);
            while wanted > SLACK {
                let part = wanted.min(1.0);
                let gpu = (0..free.len())
                    .filter(|gpu| free[*gpu] + SLACK >= part)
                    .min_by(|a, b| free[*a].total_cmp(&free[*b]))?;
                free[gpu] -= part;
                match chosen.iter_mut().find(|(index, _)| *index == gpu) {
                    Some((_, amount)) => *amount += part,
                    None => chosen.push((gpu, part)),
                }
                wanted -= part;
            }
        }
        chosen.sort_by_key(|(gpu, _)| *gpu);
        Some(chosen)
    }
}

fn covers(have: &Bundle, want: &Bundle) -> bool {
    want.iter().all(|(name, amount)| have.get(name).copied().unwrap_or(0.0) + SLACK >= *amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(cpus: f64, gpus: f64) -> Pool {
        Pool::new(Some(Bundle::from([("CPU".into(), cpus), ("GPU".into(), gpus)]))).unwrap()
    }

    #[test]
    fn ten_tenths_fit_into_one_and_no_eleventh() {
        let mut pool = pool(1.0, 0.0);
        let tenth = Resources::cpus_gpus(0.1, 0.0).unwrap();
        for actor in 0..10 {
            assert!(pool.fits(&tenth), "{actor}");
            pool.take(actor, &tenth);
        }
        assert!(!pool.fits(&tenth));
        pool.give_back(3);
        assert!(pool.fits(&tenth));
    }

    #[test]
    fn a_trial_that_wants_more_cores_than_the_machine_has_gets_all_of_them() {
        let mut pool = Pool::new(None).unwrap();
        let cores = pool.total()["CPU"];
        let greedy = Resources::cpus_gpus(cores + 1.0, 0.0).unwrap();
        assert_eq!(pool.too_few_cores(&greedy), Some((cores + 1.0, cores)));
        assert!(pool.can_ever_fit(&greedy) && pool.fits(&greedy));
        pool.take(1, &greedy);
        assert!(!pool.fits(&Resources::cpus_gpus(1.0, 0.0).unwrap()));
        pool.give_back(1);
        assert!(pool.fits(&greedy));
        // A configured total is a hard limit.
        let said = Pool::new(Some(Bundle::from([("CPU".into(), cores)]))).unwrap();
        assert!(!said.can_ever_fit(&greedy) && said.too_few_cores(&greedy).is_none());
    }

    #[test]
    fn what_joins_is_free_and_what_leaves_is_not() {
        let mut pool = pool(1.0, 0.0);
        let one = Resources::cpus_gpus(1.0, 0.0).unwrap();
        pool.take(1, &one);
        assert!(!pool.fits(&one));
        let two = Bundle::from([("CPU".into(), 2.0), ("GPU".into(), 1.0)]);
        assert!(pool.change(two.clone()) && !pool.change(two));
        let with_gpu = Resources::cpus_gpus(1.0, 1.0).unwrap();
        assert_eq!(pool.take(2, &with_gpu), [0]);
        assert!(pool.change(Bundle::from([("CPU".into(), 1.0)])));
        pool.give_back(2);
        assert!(!pool.fits(&one) && !pool.fits(&with_gpu));
        pool.give_back(1);
        assert!(pool.fits(&one) && !pool.fits(&with_gpu));
    }

    #[test]
    fn fractions_share_a_gpu_and_whole_ones_do_not() {
        let mut pool = pool(8.0, 2.0);
        let half = Resources::cpus_gpus(1.0, 0.5).unwrap();
        let whole = Resources::cpus_gpus(1.0, 1.0).unwrap();
        assert_eq!(pool.take(1, &half), [0]);
        assert_eq!(pool.take(2, &half), [0]);
        assert_eq!(pool.take(3, &whole), [1]);
        assert!(!pool.fits(&half));
        pool.give_back(2);
        assert!(pool.fits(&half) && !pool.fits(&whole));
    }

    #[test]
    fn two_halves_of_different_gpus_are_no_whole_one() {
        let mut pool = pool(8.0, 2.0);
        pool.take(1, &Resources::cpus_gpus(1.0, 0.6).unwrap());
        pool.take(2, &Resources::cpus_gpus(1.0, 0.6).unwrap());
        let whole = Resources::cpus_gpus(1.0, 0.8).unwrap();
        assert!(pool.can_ever_fit(&whole) && !pool.fits(&whole));
    }
}
