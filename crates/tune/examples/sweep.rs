//! A sweep with TPE and ASHA, in trial processes; run again after it was killed, it goes on.

use pavlov_tune::schedulers::{AsyncHyperBandConfig, AsyncHyperBandScheduler};
use pavlov_tune::search::{TpeConfig, TpeSearch, uniform};
use pavlov_tune::{Config, ExecutorKind, Restore, Result, TrainableFactory, Tuner, child_main, session};
use serde_json::json;

fn branin(config: &Config) -> Result<()> {
    let at = |key: &str| config[key].as_f64().unwrap_or_default();
    let x = at("x");
    let y = at("y");
    let pi = std::f64::consts::PI;
    let bowl = (y - 5.1 / (4.0 * pi * pi) * x * x + 5.0 / pi * x - 6.0).powi(2);
    let value = bowl + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * x.cos() + 10.0;
    for step in 1..=27 {
        session::report(json!({"loss": value + 10.0 / f64::from(step)}), None)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let branin = TrainableFactory::function("branin", branin);
    child_main(&[&branin]);
    let home = std::env::temp_dir().join("pavlov-example");
    let tuner = Tuner::new(branin)
        .space(json!({"x": uniform(-5.0, 10.0), "y": uniform(0.0, 15.0)}))
        .minimize("loss")
        .samples(40)
        .search_alg(TpeSearch::new(TpeConfig::default()))
        .scheduler(AsyncHyperBandScheduler::new(AsyncHyperBandConfig::default())?)
        .executor(ExecutorKind::Processes)
        .name("branin")
        .storage_path(&home);
    let dir = home.join("branin");
    let results = match Tuner::can_restore(&dir) {
        Ok(()) => tuner.restore(&dir, Restore::default()),
        Err(_) => tuner.fit(),
    }?;
    println!("{results}\nbest: {}", results.best()?.experiment_tag);
    Ok(())
}
