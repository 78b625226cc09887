//! [`DataParallelTrainer`]: runs one training loop in several processes, each with its share of the data.
//!
//! Workers are processes, so that each has its own libtorch threads and environment, and a crash of one does not kill the
//! trial's process. [`ScalingConfig`](super::ScalingConfig) sets their number; a single worker is a process, too. Without
//! `num_workers` the trial itself is the only worker: it starts at once and can be debugged.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use pavlov_data::Dataset;
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Config, Error, Result, TrainableFactory};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{BaseTrainer, TrainContext, Training};
use pavlov_processes::{Collective, SocketCollective, WorkerPlace, sockets};

/// A training loop that several workers run at the same time; as for a [`BaseTrainer`], its fields are its settings.
///
/// # Contract
///
/// * Workers communicate through [`WorkerContext::collective`]; all make the same calls in the same order.
/// * All workers call [`session::report`] equally often. Each call waits for all workers. The metrics and the checkpoint of
///   worker 0 are reported; a checkpoint of another worker is an error.
pub trait TrainLoop: Serialize + DeserializeOwned + Send + 'static {
    /// Dotted names of the settings that are maps: a sweep may add keys to them, as for [`BaseTrainer::OPEN_KEYS`].
    const OPEN_KEYS: &'static [&'static str] = &[];

    /// Returns the name of the loop in experiments, checkpoints and trial processes, as [`BaseTrainer::name`] does.
    fn name() -> String {
        TrainableFactory::name_of::<Self>()
    }

    /// Transforms the datasets in each worker, before the worker's share is taken; see
    /// [`BaseTrainer::preprocess_datasets`].
    ///
    /// # Errors
    /// An error in one worker fails the trial and ends the other workers.
    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Trains as one of several workers; each worker calls this function once.
    ///
    /// # Errors
    /// An error in one worker fails the trial and ends the other workers.
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()>;

    /// Restores the training whose experiment is `dir`, as [`BaseTrainer::restore`] does.
    ///
    /// # Errors
    /// Fails in the same cases as [`BaseTrainer::restore`].
    fn restore(dir: impl AsRef<Path>) -> Result<Training<DataParallelTrainer<Self>>> {
        DataParallelTrainer::<Self>::restore(dir)
    }

    /// Checks that `dir` holds a training of this loop, as [`BaseTrainer::can_restore`] does.
    ///
    /// # Errors
    /// Fails if there is no training of this loop in `dir`, and in the other cases of [`BaseTrainer::can_restore`].
    fn can_restore(dir: impl AsRef<Path>) -> Result<()> {
        DataParallelTrainer::<Self>::can_restore(dir)
    }
}

/// Runs a [`TrainLoop`] on several workers.
///
/// The workers are `scaling_config.num_workers` processes of this executable, whose `main` calls
/// [`child_main`](pavlov_tune::child_main) first; without `num_workers` the loop runs in the trial itself. If
/// `scaling_config.workers` is `"ray"`, the processes are actors of a Ray cluster, on one or several machines. Their sums
/// go over TCP and equal those on one machine bit for bit. All machines must see the trial's directory.
///
/// If a worker fails or its process dies, the trial fails and all other workers end; `FailureConfig` sets how often the
/// trial is tried again from its newest checkpoint. Workers end with their trial, for whatever reason it ends.
///
/// Each worker gets as many threads (`OMP_NUM_THREADS` and similar variables) as `scaling_config.resources_per_worker` has
/// CPUs. With `use_gpu` it also gets its share of the `CUDA_VISIBLE_DEVICES` of the trial's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DataParallelTrainer<L> {
    train_loop: L,
}

impl<L: TrainLoop> DataParallelTrainer<L> {
    /// Makes a trainer that runs `train_loop` in its workers.
    pub fn new(train_loop: L) -> Self {
        DataParallelTrainer { train_loop }
    }
}

impl<L: TrainLoop> BaseTrainer for DataParallelTrainer<L> {
    const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] = &[
        "trainer_resources",
        "num_workers",
        "workers",
        "placement_strategy",
        "use_gpu",
        "resources_per_worker",
    ];
    const OPEN_KEYS: &'static [&'static str] = L::OPEN_KEYS;

    fn name() -> String {
        L::name()
    }

    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        self.train_loop.preprocess_datasets(context)
    }

    fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
        let session = session::current();
        if let Some(worker) = session.as_ref().and_then(|session| session.worker.as_ref()) {
            let collective = Arc::new(SocketCollective::new(worker.rank, worker.peers.take())?);
            let reporting = collective.clone();
            worker.before_report.replace(Some(Rc::new(move || Ok(reporting.enter_report()?))));
            let place = (worker.local_rank, worker.node_rank);
            let outcome =
                self.train_loop.train_loop_per_worker(&WorkerContext::new(context, collective, place)?);
            worker.before_report.take();
            return outcome;
        }
        let scaling = &context.scaling_config;
        let Some(num_workers) = scaling.world_size() else {
            let alone = Arc::new(SocketCollective::alone());
            return self.train_loop.train_loop_per_worker(&WorkerContext::new(context, alone, (0, 0))?);
        };
        if num_workers == 0 {
            let rule = "it must be 1 or more, or absent for a trial that trains by itself";
            return Err(Error::config("scaling_config.num_workers", 0, rule));
        }
        let session = session.ok_or_else(|| {
            Error::other("workers belong to a trial: start the trainer by `fit` or in a `Tuner`")
        })?;
        let place = if scaling.is_on_ray() {
            WorkerPlace::Ray {
                number: num_workers,
                resources: scaling.worker_bundle(),
                strategy: scaling.placement_strategy.unwrap_or_default(),
            }
        } else {
            let visible = env::var("CUDA_VISIBLE_DEVICES").ok();
            WorkerPlace::Here {
                sockets: sockets(num_workers)?,
                gpus: share_gpus(scaling.num_gpus_per_worker(), num_workers, visible.as_deref()),
            }
        };
        let num_threads = scaling.num_cpus_per_worker().floor().max(1.0) as usize;
        let mut workers =
            session.start_workers(&Self::name(), place, num_threads, context.checkpoint.as_ref())?;
        while let Some((metrics, checkpoint)) = workers.next_report()? {
            if let Err(error) = session::report(metrics, checkpoint) {
                workers.stop();
                return Err(error);
            }
            workers.go_on();
        }
        Ok(())
    }
}

/// Returns the `CUDA_VISIBLE_DEVICES` of each worker, taken from the trial's GPUs `visible`; workers with a fraction of a
/// GPU share it with their neighbours. `None` if workers get no GPU.
fn share_gpus(each: f64, num_workers: usize, visible: Option<&str>) -> Option<Vec<String>> {
    if each <= 0.0 {
        return None;
    }
    let visible: Option<Vec<&str>> = visible.map(|ids| ids.split(',').filter(|id| !id.is_empty()).collect());
    let id = |index: usize| match &visible {
        Some(ids) => ids.get(index).map(|id| id.to_string()),
        None => Some(index.to_string()),
    };
    let of = |rank: usize| {
        let first = (rank as f64 * each).floor() as usize;
        let end = ((rank + 1) as f64 * each).ceil() as usize;
        (first..end).filter_map(id).collect::<Vec<_>>().join(",")
    };
    Some((0..num_workers).map(of).collect())
}

/// Context of a worker of a [`DataParallelTrainer`]: its rank, its share of the datasets, and the checkpoint to continue
/// from. The names are those of Ray's `train.get_context()`.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    collective: Arc<dyn Collective>,
    local_rank: usize,
    node_rank: usize,
    shards: BTreeMap<String, Dataset>,
    metadata: Config,
    checkpoint: Option<Checkpoint>,
}

impl WorkerContext {
    fn new(
        context: &TrainContext,
        collective: Arc<dyn Collective>,
        (local_rank, node_rank): (usize, usize),
    ) -> Result<Self> {
        let rank = collective.rank();
        let world_size = collective.world_size();
        let shard =
            |(name, dataset): (&String, &Dataset)| Ok((name.clone(), dataset.equal_shard(rank, world_size)?));
        Ok(WorkerContext {
            shards: context.datasets.iter().map(shard).collect::<Result<_>>()?,
            metadata: context.metadata.clone(),
            checkpoint: context.checkpoint.clone(),
            collective,
            local_rank,
            node_rank,
        })
    }

    /// Returns this worker's number, from 0.
    pub fn get_world_rank(&self) -> usize {
        self.collective.rank()
    }

    /// Returns the number of workers.
    pub fn get_world_size(&self) -> usize {
        self.collective.world_size()
    }

    /// Returns this worker's number among the workers of its machine, from 0.
    pub fn get_local_rank(&self) -> usize {
        self.local_rank
    }

    /// Returns the number of this worker's machine among the machines with workers; 0 unless the workers are on Ray.
    pub fn get_node_rank(&self) -> usize {
        self.node_rank
    }

    /// Returns this worker's share of the dataset `name`: of `n` workers, worker `r` has the rows `r`, `r + n`, `r + 2n`,
    /// ...
    ///
    /// All workers have the same number of rows, and so the same number of batches; up to `n - 1` rows at the end belong to
    /// no worker. With batches of `b` rows, batch `i` of all workers together are the rows from `i b n` up to `(i + 1) b n`.
    ///
    /// # Errors
    /// Returns [`Error::Config`], which lists the existing names, if there is no dataset `name`.
    pub fn get_dataset_shard(&self, name: &str) -> Result<&Dataset> {
        self.shards.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.shards.keys().map(String::as_str).collect();
            Error::config("datasets", format!("{known:?}"), format!("the loop asks for {name:?}"))
        })
    }

    /// Returns the metadata of the training.
    pub fn get_metadata(&self) -> &Config {
        &self.metadata
    }

    /// Returns the checkpoint to continue from, the same in all workers; `None` to start from the beginning.
    pub fn get_checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// Returns the collective with which this worker makes calls together with the others: sums, copies, barriers.
    pub fn collective(&self) -> &dyn Collective {
        &*self.collective
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_gpus_of_their_trial() {
        let share = |each, workers, visible| share_gpus(each, workers, visible).unwrap_or_default();
        assert_eq!(share_gpus(0.0, 2, Some("0,1")), None);
        assert_eq!(share(1.0, 2, Some("5,GPU-7f5e")), ["5", "GPU-7f5e"]);
        assert_eq!(share(2.0, 2, None), ["0,1", "2,3"]);
        assert_eq!(share(0.5, 3, Some("4,6")), ["4", "4", "6"]);
        // The trial has one GPU too few.
        assert_eq!(share(1.0, 2, Some("0")), ["0", ""]);
    }
}
