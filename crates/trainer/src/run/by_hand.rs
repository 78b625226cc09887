//! The parts of a training iteration as methods, for a training loop of the user's own.

use crate::experience::TrainBatch;
use crate::plan::{LearnerInfo, prepared_minibatches};
use crate::run::algorithm::Algorithm;
use crate::run::trainer::Trainer;
use pavlov_learn::base::{Result, catch};
use pavlov_tune::Metrics;
use std::time::Instant;

/// The parts of a training iteration, for a training loop of your own in place of the algorithm's plan:
///
/// ```no_run
/// use pavlov_trainer::{Algorithm, Trainer, batch::DEFAULT_POLICY, prelude::*};
///
/// /// One iteration of PPO: 10 passes over 4,000 steps in minibatches of 128 rows.
/// fn iteration<T: Trainer>(trainer: &mut Algorithm<T>) -> Result<f64> {
///     let batch = standardize(Column::ADVANTAGES)(trainer.sample(4000)?)?;
///     let mut info = LearnerInfo::default();
///     'passes: for _ in 0..10 {
///         for minibatch in trainer.minibatches(&batch, 128)? {
///             info.merge(trainer.learn_on_batch(&minibatch)?);
///             if info.stops(DEFAULT_POLICY) {
///                 break 'passes;
///             }
///         }
///     }
///     Ok(trainer.finish_round(&batch, info)?.f64("episode_reward_mean")?)
/// }
/// ```
///
/// The counters and logs of a [`Driver`](pavlov_tune::Driver), such as `training_iteration`, count what `train` does and nothing
/// else. Asynchronous and off-policy algorithms have plans whose parts are in [`plan`](crate::plan).
impl<T: Trainer> Algorithm<T> {
    /// Samples with every worker, one fragment after the other, until there are at least `min_steps` environment steps, and
    /// returns their rows: with advantages and all else that the policy's postprocessing adds. With 0 every worker samples
    /// one fragment.
    ///
    /// # Errors
    /// Returns [`Error::Worker`](crate::Error::Worker) if a worker fails and no setting lets the run go on without it, and
    /// [`Error::State`](crate::Error::State) if the algorithm is not set up. Without rollout workers it fails if an
    /// environment, a policy or a hook does.
    pub fn sample(&mut self, min_steps: usize) -> Result<TrainBatch> {
        self.say_notices()?;
        let run = self.run_mut()?;
        run.begin_round();
        let workers = run.workers().clone();
        catch(
            || "sampling".to_owned(),
            || {
                let mut parts = vec![workers.sample()?];
                while parts.iter().map(|part| part.env_steps).sum::<u64>() < min_steps as u64 {
                    parts.push(workers.sample()?);
                }
                TrainBatch::concat(parts)
            },
        )
    }

    /// Cuts the rows of every policy into minibatches of about `size` rows (0: all rows in one), after the policy has
    /// prepared the rows and these were shuffled: one pass over the batch. Each pass is prepared and shuffled anew.
    ///
    /// # Errors
    /// Fails if a policy does. Returns [`Error::State`](crate::Error::State) if the algorithm is not set up.
    pub fn minibatches(&mut self, batch: &TrainBatch, size: usize) -> Result<Vec<TrainBatch>> {
        let learners = &self.run()?.workers().learners;
        let mut all = Vec::new();
        for (id, rows) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
            let minibatches = prepared_minibatches(learners, id, rows, size)?;
            all.extend(minibatches.into_iter().map(|rows| TrainBatch::of(id.clone(), rows, 0)));
        }
        Ok(all)
    }

    /// Takes one learning step of every policy that has rows in `batch`, on all of them.
    ///
    /// # Errors
    /// Fails if a policy or the hook `on_learn_on_batch` does. Returns [`Error::UnknownPolicy`](crate::Error::UnknownPolicy)
    /// if the batch names a policy that does not exist, and [`Error::State`](crate::Error::State) if the algorithm is not
    /// set up.
    pub fn learn_on_batch(&mut self, batch: &TrainBatch) -> Result<LearnerInfo> {
        let learners = &self.run()?.workers().learners;
        let mut info = LearnerInfo::default();
        for (id, rows) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
            let (learned, custom) =
                catch(|| "a learning step".to_owned(), || learners.learn_on_batch(id, rows))?;
            info.add(id, learned, custom);
        }
        Ok(info)
    }

    /// Ends the training on a batch: counts its steps as trained, lets policies adapt their coefficients to the statistics
    /// in `info`, and sends the weights to all workers. Returns what `train` returns of its iteration, without evaluation.
    ///
    /// # Errors
    /// Returns [`Error::NotFinite`](crate::Error::NotFinite) if a statistic is not finite,
    /// [`Error::Worker`](crate::Error::Worker) if a worker fails and no setting lets the run go on without it, and
    /// [`Error::State`](crate::Error::State) if the algorithm is not set up.
    pub fn finish_round(&mut self, batch: &TrainBatch, mut info: LearnerInfo) -> Result<Metrics> {
        let run = self.run_mut()?;
        let workers = run.workers().clone();
        batch.policies.iter().for_each(|(id, rows)| info.trained(id, rows.rows()));
        workers.ledger.trained(batch, workers.learners.published().version, Instant::now());
        for (id, learned) in info.policies() {
            workers.learners.after_training(id, &learned.means())?;
        }
        workers.sync_weights()?;
        run.end_round(&info)
    }
}
