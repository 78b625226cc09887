//! A function as trainable: it reports, saves its state, and goes on from it.

use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Config, Result, TrainableFactory, Tuner};
use serde_json::json;

fn climb(config: &Config) -> Result<()> {
    let state = session::get_checkpoint().map(|checkpoint| checkpoint.to_dict()).transpose()?;
    let mut x = state.and_then(|state| state["x"].as_f64()).unwrap_or(0.0);
    for _ in 0..20 {
        x += config.get_or("lr", 0.1)? * (3.0 - x);
        session::report(json!({"x": x}), Some(Checkpoint::from_dict(json!({"x": x}))))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let results = Tuner::new(TrainableFactory::function("climb", climb))
        .space(json!({"lr": {"uniform": [0.01, 0.5]}}))
        .fit()?;
    println!("{results}");
    Ok(())
}
