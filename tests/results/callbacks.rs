//! Hooks: their order, their number, and what they put into results.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pavlov::prelude::*;
use pavlov::trainer::Episode;
use pavlov::trainer::StepView;
use pavlov::trainer::batch::{SampleBatch, TrainBatch};
use serde_json::json;

use crate::support::{Clockwork, at, clockwork, number, refused, tiny_ppo};

/// Writes down every call and leaves a mark wherever one may be left.
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, call: String) -> Result<()> {
        self.0.lock().expect("no panic while it is held").push(call);
        Ok(())
    }
}

impl Callbacks for Recorder {
    fn on_sub_environment_created(&mut self, worker_index: usize, num_envs: usize) -> Result<()> {
        self.note(format!("created {num_envs} on {worker_index}"))
    }

    fn on_trainer_init(&mut self) -> Result<()> {
        self.note("init".into())
    }

    fn on_episode_start(&mut self, episode: &mut Episode) -> Result<()> {
        assert_eq!((episode.length, episode.total_reward), (0, 0.0));
        self.note(format!("start {}.{}", episode.env_index, episode.number))
    }

    fn on_episode_step(&mut self, episode: &mut Episode, step: StepView<'_>) -> Result<()> {
        // A Clockwork's reward is its step; the observation is the one after the step, the last one included.
        assert_eq!(step.reward, episode.length as f32);
        assert_eq!(step.obs[1], step.reward);
        assert_eq!(step.terminated, episode.length == 8);
        self.note(format!("step {}.{}.{}", episode.env_index, episode.number, episode.length))
    }

    fn on_episode_end(&mut self, episode: &mut Episode) -> Result<()> {
        episode.custom_metrics.insert("number".into(), episode.number as f64);
        if episode.number == 0 {
            episode.custom_metrics.insert("strange".into(), f64::NAN);
        }
        episode.hist_data.insert("copies".into(), vec![episode.env_index as f64; 2]);
        self.note(format!("end {}.{}", episode.env_index, episode.number))
    }

    fn on_postprocess_trajectory(&mut self, policy_id: &str, batch: &mut SampleBatch) -> Result<()> {
        self.note(format!("postprocess {} of {policy_id}", batch.rows()))
    }

    fn on_sample_end(&mut self, worker_index: usize, samples: &mut TrainBatch) -> Result<()> {
        self.note(format!("sampled {} on {worker_index}", samples.rows()))
    }

    fn on_learn_on_batch(
        &mut self,
        policy_id: &str,
        train_batch: &SampleBatch,
        result: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        result.insert("rows".into(), train_batch.rows() as f64);
        self.note(format!("learn {policy_id}"))
    }

    fn on_train_result(&mut self, result: &mut Metrics) -> Result<()> {
        result.insert("callback_ok".into(), json!(true));
        self.note("result".into())
    }
}

/// Two copies, episodes of 8 steps, fragments of 16, minibatches of 16 rows.
fn recorded(change: impl FnOnce(&mut Common)) -> (Driver<Algorithm<Ppo>>, Arc<Mutex<Vec<String>>>) {
    let mut ppo = tiny_ppo();
    change(&mut ppo.common);
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let shared = Arc::clone(&calls);
    let trainer = ppo
        .builder(clockwork(Clockwork::terminating(8)))
        .loggers(LoggerChoice::None)
        .callbacks(move || Recorder(Arc::clone(&shared)))
        .build()
        .expect("a trainer");
    (trainer, calls)
}

fn taken(calls: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *calls.lock().expect("no panic while it is held"))
}

#[test]
fn every_hook_is_called_in_order() {
    let (mut trainer, calls) = recorded(|_| {});
    assert_eq!(taken(&calls), ["created 2 on 0", "start 0.0", "start 1.0", "init"]);
    for iteration in 0..2 {
        trainer.train().expect("a result");
        let mut wanted = Vec::new();
        for step in 0..16 {
            let (number, length) = (2 * iteration + step / 8, step % 8 + 1);
            for copy in 0..2 {
                wanted.push(format!("step {copy}.{number}.{length}"));
                if length == 8 {
                    wanted.push(format!("end {copy}.{number}"));
                    wanted.push(format!("start {copy}.{}", number + 1));
                }
            }
        }
        let after = [
            "postprocess 32 of default_policy",
            "sampled 32 on 0",
            "learn default_policy",
            "learn default_policy",
        ];
        wanted.extend(after.map(String::from));
        wanted.push("result".into());
        assert_eq!(taken(&calls), wanted);
    }
}

#[test]
fn every_worker_has_hooks_of_its_own() {
    let (mut trainer, calls) = recorded(|common| {
        (common.num_workers, common.num_envs_per_worker) = (2, 1);
    });
    trainer.train().expect("a result");
    let calls = taken(&calls);
    let count = |call: &str| calls.iter().filter(|c| c.starts_with(call)).count();
    for once in ["created 1 on 1", "created 1 on 2", "init", "sampled 16 on 1", "sampled 16 on 2", "result"] {
        assert_eq!(count(once), 1, "{once} in {calls:?}");
    }
    assert_eq!((count("created"), count("step"), count("end"), count("start")), (2, 32, 4, 6));
}

#[test]
fn custom_metrics_arrive_as_mean_min_and_max() {
    let (mut trainer, _) = recorded(|_| {});
    let result = trainer.train().expect("a result");
    // Episodes 0 and 1 of two copies; NaN is left out, and nothing is left of `strange`.
    let wanted = json!({"number_mean": 0.5, "number_min": 0.0, "number_max": 1.0});
    assert_eq!(at(&result, "custom_metrics"), &wanted);
    let copies = at(&result, "hist_stats.copies");
    assert_eq!(copies, &json!([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]));
}

#[test]
fn custom_metrics_arrive_per_episode_when_asked() {
    let (mut trainer, _) = recorded(|common| common.keep_per_episode_custom_metrics = true);
    let result = trainer.train().expect("a result");
    assert_eq!(at(&result, "custom_metrics"), &json!({"number": [0.0, 0.0, 1.0, 1.0]}));
}

#[test]
fn what_hooks_add_while_learning_and_to_results_arrives() {
    let (mut trainer, _) = recorded(|_| {});
    let result = trainer.train().expect("a result");
    assert_eq!(at(&result, "callback_ok"), &json!(true));
    assert_eq!(number(&result, "info.learner.default_policy.custom_metrics.rows"), 16.0);
}

/// Fails when an episode ends.
struct Strict;

impl Callbacks for Strict {
    fn on_episode_end(&mut self, episode: &mut Episode) -> Result<()> {
        Err(Error::config("length", episode.length, "it must be 7"))
    }
}

#[test]
fn an_error_of_a_hook_is_an_error_of_the_iteration() {
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 1;
    let mut trainer = ppo
        .builder(clockwork(Clockwork::terminating(8)))
        .loggers(LoggerChoice::None)
        .callbacks(|| Strict)
        .build()
        .expect("a trainer");
    refused(trainer.train(), &["worker 1 failed: `length` is 8, but it must be 7"]);
}
