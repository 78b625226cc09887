//! A curriculum: a corridor that doubles as soon as the policy walks straight through it.
//!
//! Shows `Callbacks::on_train_result`, which sees every result and tells the run what to do next, and `Env::set_task`,
//! by which all copies of the environment hear of it. Checkpoints keep the task. Run it with
//! `cargo run --example curriculum`.

use pavlov::{envs, prelude::*};
use serde_json::Value;

/// Walk to the right end; every step costs 1.
struct Corridor {
    length: i64,
    next_length: i64,
    at: i64,
}

impl Corridor {
    fn new() -> Self {
        Self { length: 4, next_length: 4, at: 0 }
    }
}

impl Env for Corridor {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.length = self.next_length;
        self.at = 0;
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.at = (self.at + 2 * action[0] - 1).max(0);
        obs[0] = self.at as f32 / self.length as f32;
        Ok(Step { reward: -1.0, terminated: self.at == self.length, truncated: false })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(200)
    }

    fn set_task(&mut self, task: &Value) -> envs::Result<()> {
        let length = task.as_i64().filter(|length| *length > 0);
        self.next_length = length
            .ok_or_else(|| envs::Error::other(format!("the length is {task}, but it must be above 0")))?;
        Ok(())
    }
}

/// Doubles the corridor when an episode takes at most half as many steps again as it must.
struct Doubling;

impl Callbacks for Doubling {
    fn on_train_result(&mut self, run: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        let length = run.task().and_then(Value::as_i64).unwrap_or(4);
        if result["episode_len_mean"].as_f64().is_some_and(|steps| steps <= 1.5 * length as f64) {
            run.set_task(2 * length);
        }
        result.insert("corridor".into(), length.into());
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 10, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 2, train_batch_size: 2000, seed: Some(0), ..ppo.common };
    ppo.common.metrics_num_episodes_for_smoothing = 10;
    let builder = ppo.builder(Corridor::new).callbacks(|| Doubling);
    let mut trainer = builder.loggers(LoggerChoice::None).build()?;
    for _ in 0..20 {
        let result = trainer.train()?;
        println!("a corridor of {}: {} steps", result["corridor"], result["episode_len_mean"]);
    }
    Ok(())
}
