//! A trainable: Newton's method for square roots, three trials at a time.

use std::path::Path;

use pavlov_tune::{Config, Error, Metrics, Result, Trainable, TrainableFactory, TrialContext, Tuner};
use serde_json::json;

#[derive(Default)]
struct Newton {
    target: f64,
    x: f64,
}

impl Trainable for Newton {
    fn setup(&mut self, config: &Config, _: &TrialContext) -> Result<()> {
        self.target = config["target"].as_f64().unwrap_or(2.0);
        self.x = 1.0;
        Ok(())
    }
    fn step(&mut self) -> Result<Metrics> {
        self.x = (self.x + self.target / self.x) / 2.0;
        let error = (self.x * self.x - self.target).abs();
        Ok(Metrics::from([("root", self.x), ("error", error)]))
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        std::fs::write(dir.join("x.json"), json!(self.x).to_string()).map_err(Error::io("write", dir))
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        let text = std::fs::read(dir.join("x.json")).map_err(Error::io("read", dir))?;
        self.x = serde_json::from_slice(&text).map_err(Error::other)?;
        Ok(())
    }
}

fn main() -> Result<()> {
    let newton = TrainableFactory::new("newton", |_| Ok(Newton::default()));
    let results = Tuner::new(newton)
        .space(json!({"target": {"grid_search": [2.0, 9.0, 50.0]}}))
        .stop("training_iteration", 8)
        .fit()?;
    println!("{results}");
    Ok(())
}
