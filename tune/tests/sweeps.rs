//! Sweeps as a whole: every trial to its end, failures, restores.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pavlov_tune::stoppers::Stopper;
use pavlov_tune::{
    CheckpointConfig, Error, FailureConfig, Metrics, Restore, Result, ResultGrid, RunConfig, Trainable, TrainableFactory,
    TrialContext, TrialStatus, TuneConfig, Tuner, difference,
};
use serde_json::json;

use crate::counter::{Counter, object};

/// Stops at so many iterations.
struct At(u64);

impl Stopper for At {
    fn should_stop(&mut self, _: &str, result: &Metrics) -> Result<bool> {
        Ok(result["training_iteration"].as_u64() >= Some(self.0))
    }
}

fn counters() -> TrainableFactory {
    TrainableFactory::new("counter", |_| Ok(Counter::default()))
}

fn tuner(trainable: TrainableFactory, home: &Path, num_samples: i64) -> Tuner {
    let mut tuner = Tuner::new(trainable, object(json!({"by": 3})));
    tuner.tune_config = TuneConfig {
        num_samples,
        metric: Some("total".into()),
        mode: Some(pavlov_tune::Mode::Max),
        total_resources: Some([("CPU".to_string(), 3.0)].into()),
        ..TuneConfig::default()
    };
    tuner.run_config = RunConfig {
        name: Some("sweep".into()),
        storage_path: Some(home.into()),
        stop: Some(Box::new(At(5))),
        verbose: 0,
        ..RunConfig::default()
    };
    tuner
}

#[test]
fn every_trial_runs_to_its_stop_condition_and_is_saved_there() {
    let home = tempfile::tempdir().unwrap();
    let grid = tuner(counters(), home.path(), 7).fit().unwrap();
    assert_eq!((grid.len(), grid.num_terminated(), grid.num_errors()), (7, 7, 0));
    for result in &grid {
        let metrics = result.metrics.as_ref().unwrap();
        assert_eq!((&metrics["total"], &metrics["training_iteration"]), (&json!(15), &json!(5)));
        assert_eq!(result.history().unwrap().len(), 5);
        assert_eq!(result.checkpoint.as_deref(), Some(&*result.path.join("checkpoint_000005")));
    }
}
