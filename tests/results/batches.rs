//! `log_batches`: the first learning steps of a run as files.

use std::fs;
use std::path::Path;

use pavlov::prelude::*;
use pavlov::tune::LoggerChoice;
use serde_json::Value;

use crate::support::tiny_ppo;

fn run(dir: &Path, updates: u64) -> Result<()> {
    let mut settings = tiny_ppo();
    settings.common.log_batches = updates;
    let mut run = settings.builder("CartPole-v1").logdir(dir).loggers(LoggerChoice::None).build()?;
    run.train()?;
    Ok(())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn the_first_learning_steps_are_written_with_the_state_around_them() {
    let home = tempfile::tempdir().expect("a folder");
    run(home.path(), 2).expect("a run");
    let batches = home.path().join("batches");
    for update in ["update-000001", "update-000002"] {
        let rows = fs::read(batches.join(format!("{update}.parquet"))).expect("rows");
        assert!(rows.starts_with(b"PAR1") && rows.ends_with(b"PAR1"), "{update} is no Parquet file");
        for name in ["obs", "actions", "action_logp", "advantages", "value_targets"] {
            let has = rows.windows(name.len()).any(|bytes| bytes == name.as_bytes());
            assert!(has, "{update} has no column {name}");
        }
        let report = json(&batches.join(format!("{update}.json")));
        assert!(report["statistics"]["total_loss"].is_f64(), "{report}");
        assert!(report["values"]["cur_lr"].is_f64(), "{report}");
        let [before, after] =
            ["before", "after"].map(|when| fs::read(batches.join(format!("{update}-{when}.safetensors"))));
        assert_ne!(before.expect("weights"), after.expect("weights"), "{update} changes no weight");
    }
    assert!(!batches.join("update-000003.parquet").exists(), "only two learning steps are asked for");
}

#[test]
fn no_batch_is_written_by_default() {
    let home = tempfile::tempdir().expect("a folder");
    run(home.path(), 0).expect("a run");
    assert!(!home.path().join("batches").exists());
}
