//! A sweep with TPE and ASHA, in trial processes; run again after it was killed, it goes on.

use pavlov_tune::schedulers::{AsyncHyperBandConfig, AsyncHyperBandScheduler};
use pavlov_tune::search::{TpeConfig, TpeSearch, uniform};
use pavlov_tune::{
    Config, ExecutorKind, Mode, Restore, Result, Scope, TrainableFactory, Tuner, child_main, session,
};
use serde_json::json;

fn branin(config: &Config) -> Result<()> {
    let at = |key: &str| config[key].as_f64().unwrap_or_default();
    let (x, y, pi) = (at("x"), at("y"), std::f64::consts::PI);
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
    let mut tuner = Tuner::new(branin, json!({"x": uniform(-5.0, 10.0), "y": uniform(0.0, 15.0)}));
    tuner.tune_config.metric = Some("loss".into());
    tuner.tune_config.mode = Some(Mode::Min);
    tuner.tune_config.num_samples = 40;
    tuner.tune_config.search_alg = Some(Box::new(TpeSearch::new(TpeConfig::default())));
    tuner.tune_config.scheduler =
        Some(Box::new(AsyncHyperBandScheduler::new(AsyncHyperBandConfig::default())?));
    tuner.tune_config.executor = ExecutorKind::Processes;
    let home = std::env::temp_dir().join("pavlov-example");
    (tuner.run_config.name, tuner.run_config.storage_path) = (Some("branin".into()), Some(home.clone()));
    let dir = home.join("branin");
    let grid = match Tuner::can_restore(&dir) {
        Ok(()) => tuner.restore(&dir, Restore::default()),
        Err(_) => tuner.fit(),
    }?;
    let best = grid.get_best_result(None, None, Scope::Last)?;
    println!("{grid}\nbest: {}", best.experiment_tag);
    Ok(())
}
