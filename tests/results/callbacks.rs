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

    fn on_train_result(&mut self, _: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
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
            let number = 2 * iteration + step / 8;
            let length = step % 8 + 1;
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
        common.num_workers = 2;
        common.num_envs_per_worker = 1;
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
    refused(trainer.train(), &["`length` is 8, but it must be 7"]);
}

/// Pays its task with every step, for episodes of 8 steps.
#[derive(Default)]
struct Levels {
    level: i64,
    next: i64,
    step: i64,
}

impl Env for Levels {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> pavlov::envs::Result<()> {
        self.level = self.next;
        self.step = 0;
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> pavlov::envs::Result<Step> {
        self.step += 1;
        obs[0] = self.step as f32;
        Ok(Step { reward: self.level as f64, terminated: self.step == 8, truncated: false })
    }

    fn set_task(&mut self, task: &serde_json::Value) -> pavlov::envs::Result<()> {
        self.next = task.as_i64().ok_or_else(|| pavlov::envs::Error::other(format!("{task} is no level")))?;
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some([self.level, self.next, self.step].map(i64::to_le_bytes).concat())
    }

    fn load_state(&mut self, state: &[u8]) -> pavlov::envs::Result<()> {
        let numbers: Vec<i64> = state.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        self.level = numbers[0];
        self.next = numbers[1];
        self.step = numbers[2];
        Ok(())
    }
}

/// Raises the level after every iteration.
struct Climbing;

impl Callbacks for Climbing {
    fn on_train_result(&mut self, run: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        let level = run.task().and_then(|task| task.as_i64()).unwrap_or(0);
        result.insert("level".into(), json!(level));
        run.set_task(level + 1);
        Ok(())
    }
}

fn climbing(workers: usize) -> Driver<Algorithm<Ppo>> {
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = workers;
    ppo.common.num_envs_per_worker = 2 / workers.max(1);
    let builder = ppo.builder(Levels::default).loggers(LoggerChoice::None).callbacks(|| Climbing);
    builder.build().expect("a trainer")
}

#[test]
fn a_hook_changes_the_task_of_all_environments_from_their_next_episodes_on() {
    for workers in [0, 2] {
        let mut trainer = climbing(workers);
        let levels: Vec<f64> = (0..3).map(|_| number(&trainer.train().expect("a result"), "level")).collect();
        assert_eq!(levels, [0.0, 1.0, 2.0]);
        let result = trainer.train().expect("a result");
        let mut returns: Vec<f64> =
            serde_json::from_value(at(&result, "hist_stats.episode_reward").clone()).expect("returns");
        returns.sort_by(f64::total_cmp);
        // Two copies with two episodes in each of four iterations; the first of an iteration has begun before the hook.
        let wanted = [0, 0, 0, 1, 1, 2, 2, 3].map(|level| [8.0 * f64::from(level); 2]).concat();
        assert_eq!(returns, wanted, "{workers} workers");
    }
}

#[test]
fn a_restored_run_goes_on_with_the_task_of_its_checkpoint() {
    for workers in [0, 2] {
        let home = tempfile::tempdir().expect("a directory");
        let mut trainer = climbing(workers);
        trainer.train().expect("a result");
        trainer.train().expect("a result");
        let checkpoint = trainer.save_to(home.path()).expect("a checkpoint");
        let mut restored = climbing(workers);
        restored.restore(&checkpoint).expect("its own checkpoint");
        for _ in 0..2 {
            let result = trainer.train().expect("one");
            let again = restored.train().expect("another");
            assert_eq!(number(&again, "level"), number(&result, "level"));
            assert_eq!(at(&again, "hist_stats"), at(&result, "hist_stats"));
        }
    }
}

#[test]
fn an_environment_with_one_task_says_so_when_it_is_given_another() {
    let builder = tiny_ppo().builder(clockwork(Clockwork::terminating(8)));
    let mut trainer = builder.loggers(LoggerChoice::None).callbacks(|| Climbing).build().expect("a trainer");
    refused(trainer.train(), &["no tasks to choose from", "implement `set_task`"]);
}
