//! Evaluation: when, how much, by which workers, and what it may not disturb.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pavlov::envs::{IntoEnvCreator, Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::batch::SampleBatch;
use pavlov::trainer::policy::DEFAULT_POLICY;
use pavlov::trainer::settings::{DurationUnit, EvaluationDuration};
use pavlov::trainer::state::State;
use pavlov::trainer::workers::EvaluationTask;
use serde_json::{Value, json};

use crate::support::{
    Clockwork, at, clockwork, column, going_on, number, quiet, refused, rows, scripted, tiny_ddpg, tiny_ppo,
    tiny_td3, weights, worker_set,
};

fn trainer(env: impl IntoEnvCreator, change: impl FnOnce(&mut Common)) -> Driver<Algorithm<Ppo>> {
    let mut ppo = tiny_ppo();
    ppo.common.evaluation_interval = Some(1);
    change(&mut ppo.common);
    quiet(ppo, env).expect("a trainer")
}

/// Returns of the evaluation episodes of so many iterations of CartPole.
fn returns(iterations: usize, change: impl FnOnce(&mut Common)) -> Vec<Value> {
    let mut trainer = trainer("CartPole-v1", change);
    let mut evaluate = || {
        let result = trainer.train().expect("a result");
        at(&result, "evaluation.hist_stats.episode_reward").clone()
    };
    (0..iterations).map(|_| evaluate()).collect()
}

#[test]
fn evaluation_comes_every_so_many_iterations() {
    let mut seldom = trainer("CartPole-v1", |common| common.evaluation_interval = Some(2));
    let has = |result: Metrics| result.contains_key("evaluation");
    let evaluated: Vec<bool> = (0..4).map(|_| has(seldom.train().expect("a result"))).collect();
    assert_eq!(evaluated, [false, true, false, true]);
}

#[test]
fn td3_and_ddpg_are_evaluated_without_their_noise() {
    /// The returns of an untrained policy that explores like this.
    fn returns<T: Trainer>(mut settings: T, exploration: Value) -> Value {
        settings.common_mut().exploration_config = serde_json::from_value(exploration).expect("a strategy");
        let result = quiet(settings, "Pendulum-v1").and_then(|mut trainer| trainer.evaluate());
        at(&result.expect("an evaluation"), "hist_stats.episode_reward").clone()
    }
    let strong = || json!({"type": "GaussianNoise", "random_timesteps": 0, "stddev": 20.0});
    let drifting = || json!({"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 0, "ou_sigma": 20.0});
    let none = || json!({"type": "GaussianNoise", "random_timesteps": 0, "stddev": 0.0});
    assert_eq!(returns(tiny_td3(), strong()), returns(tiny_td3(), none()));
    assert_eq!(returns(tiny_ddpg(), drifting()), returns(tiny_ddpg(), none()));
}

#[test]
fn the_last_evaluation_is_repeated_when_asked() {
    let mut always = trainer("CartPole-v1", |common| {
        common.evaluation_interval = Some(2);
        common.always_attach_evaluation_results = true;
    });
    let mut train = || always.train().expect("a result").get("evaluation").cloned();
    let found: Vec<Option<Value>> = (0..4).map(|_| train()).collect();
    assert_eq!(found[0], None);
    assert!(found[1].is_some());
    assert_eq!(found[2], found[1]);
    assert_ne!(found[3], found[2]);
}

#[test]
fn duration_counts_episodes_or_timesteps() {
    // Episodes of 4 steps.
    let evaluated = |duration, unit| {
        let mut trainer = trainer(clockwork(Clockwork::terminating(4)), |common| {
            common.evaluation_duration = EvaluationDuration::Units(duration);
            common.evaluation_duration_unit = unit;
        });
        let result = trainer.train().expect("a result");
        ["episodes_this_iter", "timesteps_this_iter"].map(|key| number(&result, &format!("evaluation.{key}")))
    };
    assert_eq!(evaluated(3, DurationUnit::Episodes), [3.0, 12.0]);
    // More than are played at a time.
    assert_eq!(evaluated(37, DurationUnit::Episodes), [37.0, 148.0]);
    assert_eq!(evaluated(100, DurationUnit::Timesteps), [25.0, 100.0]);
}

#[test]
fn any_number_of_evaluation_workers_gives_equal_returns() {
    let alone = returns(2, |_| {});
    assert_eq!(alone[0].as_array().map(Vec::len), Some(10));
    assert_ne!(alone[0], alone[1]);
    for workers in [1, 2, 3] {
        assert_eq!(returns(2, |common| common.evaluation_num_workers = workers), alone, "{workers} workers");
    }
}

#[test]
fn evaluation_does_not_disturb_training() {
    let mut evaluated = trainer("CartPole-v1", |_| {});
    let mut plain = trainer("CartPole-v1", |common| common.evaluation_interval = None);
    for _ in 0..2 {
        let with = evaluated.train().expect("a result");
        let without = plain.train().expect("a result");
        assert_eq!(at(&with, "hist_stats"), at(&without, "hist_stats"));
        assert_eq!(at(&with, "info.learner"), at(&without, "info.learner"));
        assert_eq!(number(&with, "timesteps_total"), number(&without, "timesteps_total"));
    }
}

#[test]
fn evaluation_in_parallel_plays_with_the_weights_from_before_the_iteration() {
    let parallel = returns(1, |common| {
        common.evaluation_num_workers = 2;
        common.evaluation_parallel_to_training = true;
    });
    let untrained = trainer("CartPole-v1", |_| {}).evaluate().expect("an evaluation");
    assert_eq!(&parallel[0], at(&untrained, "hist_stats.episode_reward"));
}

/// Evaluation by two workers, beside training and for as long.
fn auto(common: &mut Common) {
    common.evaluation_num_workers = 2;
    common.evaluation_parallel_to_training = true;
    common.evaluation_duration = EvaluationDuration::Auto;
}

/// Episodes that ended anywhere, and who waits for more of them.
#[derive(Default)]
struct Ended(Mutex<u64>, Condvar);

/// A learner that stays at work until ten more episodes have ended.
struct SlowLearner(Arc<Ended>);

impl Callbacks for SlowLearner {
    fn on_learn_on_batch(&mut self, _: &str, _: &SampleBatch, _: &mut BTreeMap<String, f64>) -> Result<()> {
        let Ended(count, more) = &*self.0;
        let count = count.lock().expect("no panic while it is held");
        let enough = *count + 10;
        let waited = more.wait_timeout_while(count, Duration::from_secs(60), |count| *count < enough);
        assert!(!waited.expect("no panic while it is held").1.timed_out(), "evaluation stopped too early");
        Ok(())
    }
}

#[test]
fn auto_evaluates_until_training_is_over() {
    let ended = Arc::new(Ended::default());
    let in_env = Arc::clone(&ended);
    let in_learner = ended;
    let env = move || {
        let ended = Arc::clone(&in_env);
        scripted(Space::discrete(2), move |_, t, _: &[i64], obs: &mut [f32]| {
            obs[0] = 0.0;
            if t == 4 {
                *ended.0.lock().expect("no panic while it is held") += 1;
                ended.1.notify_all();
            }
            Ok(Step { terminated: t == 4, ..going_on(1.0) })
        })
    };
    let mut ppo = tiny_ppo();
    ppo.common.evaluation_interval = Some(1);
    auto(&mut ppo.common);
    let learner = move || SlowLearner(Arc::clone(&in_learner));
    let trainer = ppo.builder(env).callbacks(learner).loggers(LoggerChoice::None).build();
    let result = trainer.expect("a trainer").train().expect("a result");
    // While the learner waited no other worker played; two workers play two at a time.
    let played = number(&result, "evaluation.episodes_this_iter");
    assert!(played >= 10.0 && played % 2.0 == 0.0, "{played} episodes");
    assert_eq!(number(&result, "evaluation.timesteps_this_iter"), 4.0 * played);
}

#[test]
fn only_the_number_of_episodes_of_auto_depends_on_the_machine() {
    let train = |change: fn(&mut Common)| trainer("CartPole-v1", change).train().expect("a result");
    let found = train(auto);
    let fixed = train(|common| common.evaluation_interval = None);
    assert_eq!(at(&found, "hist_stats"), at(&fixed, "hist_stats"));
    assert_eq!(at(&found, "info.learner"), at(&fixed, "info.learner"));
    let played = at(&found, "evaluation.hist_stats.episode_reward");
    let as_many = returns(1, |common| {
        auto(common);
        let units = number(&found, "evaluation.episodes_this_iter") as u64;
        common.evaluation_duration = EvaluationDuration::Units(units);
    });
    assert_eq!(played, &as_many[0]);
}

#[test]
fn auto_without_training_beside_it_is_one_episode_per_worker() {
    let evaluated = trainer("CartPole-v1", auto).evaluate().expect("an evaluation");
    assert_eq!(number(&evaluated, "episodes_this_iter"), 2.0);
}

/// A learner that fails.
struct Failing(bool);

impl Callbacks for Failing {
    fn on_learn_on_batch(&mut self, _: &str, _: &SampleBatch, _: &mut BTreeMap<String, f64>) -> Result<()> {
        assert!(!self.0, "the learner fell over");
        Err(Error::state("the learner", "it gave up"))
    }
}

#[test]
fn training_that_fails_ends_the_evaluation_beside_it() {
    for (panics, text) in [(false, "the learner: it gave up"), (true, "the learner fell over")] {
        let mut ppo = tiny_ppo();
        ppo.common.evaluation_interval = Some(1);
        auto(&mut ppo.common);
        let failing = ppo.builder("CartPole-v1").callbacks(move || Failing(panics));
        let mut trainer = failing.loggers(LoggerChoice::None).build().expect("a trainer");
        refused(trainer.train(), &[text]);
    }
}

#[test]
fn evaluation_is_greedy_unless_told_to_explore() {
    // The reward is the action; action 1 has probability 0.6 whatever is observed; ten steps.
    let env = || {
        scripted(Space::discrete(2), |_, t, action: &[i64], obs: &mut [f32]| {
            obs[0] = 0.0;
            Ok(Step { terminated: t == 10, ..going_on(action[0] as f64) })
        })
    };
    let evaluate = |explore| {
        let mut trainer = trainer(env, |common| {
            common.model.fcnet_hiddens = vec![];
            common.evaluation_config.explore = explore;
        });
        let flat = weights(&[
            ("actor.out.weight", rows(&[[0.0], [0.0]])),
            ("actor.out.bias", column(&[0.0, 1.5_f32.ln()])),
            ("critic.out.weight", rows(&[[0.0]])),
            ("critic.out.bias", column(&[0.0])),
        ]);
        let mut all = State::default();
        all.nest(DEFAULT_POLICY, (*flat).clone());
        trainer.set_weights(&Arc::new(all)).expect("weights that fit");
        trainer.evaluate().expect("an evaluation")
    };
    assert_eq!(number(&evaluate(false), "episode_reward_min"), 10.0);
    // All 100 actions are 1 with probability 0.6^100.
    assert!(number(&evaluate(true), "episode_reward_min") < 10.0);
}

#[test]
fn evaluation_may_have_other_settings_of_the_environment() {
    let mut trainer = trainer("CartPole-v1", |common| {
        common.evaluation_config.env_config.insert("sutton_barto_reward".into(), true.into());
    });
    let evaluated = trainer.evaluate().expect("an evaluation");
    // -1 for the fall and nothing else.
    assert_eq!(number(&evaluated, "episode_reward_mean"), -1.0);
    assert!(number(&evaluated, "episode_len_mean") > 1.0);
}

#[test]
fn play_is_a_function_of_its_seed() {
    let mut trainer = trainer("CartPole-v1", |_| {});
    let mut play = |seed| {
        let episodes = trainer.play(20, seed, false, 0).expect("an evaluation").episodes;
        episodes.iter().map(|e| (e.number, e.seed, e.total_reward)).collect::<Vec<_>>()
    };
    let first = play(5);
    assert_eq!(play(5), first);
    assert_ne!(play(6), first);
    assert_eq!(first.iter().map(|e| e.0).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}

#[test]
fn an_episode_is_the_same_however_many_are_played() {
    let workers = worker_set(&tiny_ppo(), "CartPole-v1").expect("workers");
    let play = |episodes: Vec<u64>| {
        let task = EvaluationTask { episodes, seed: 3, explore: true, timestep: 0, frames: 0 };
        workers.evaluate(&task).expect("an evaluation").episodes
    };
    let all = play((0..40).collect());
    for (found, k) in play(vec![7, 33, 39]).iter().zip([7, 33, 39]) {
        assert_eq!(found, &all[k]);
    }
}

#[test]
fn a_run_that_renders_keeps_an_animation_of_each_evaluation_and_learns_the_same() {
    let home = tempfile::tempdir().expect("a directory");
    let run = |render_env, workers| {
        let mut ppo = tiny_ppo();
        ppo.common.evaluation_interval = Some(2);
        ppo.common.evaluation_num_workers = workers;
        ppo.common.render_env = render_env;
        let dir = home.path().join(format!("{render_env}-{workers}"));
        let mut trainer = ppo.builder("CartPole-v1").logdir(&dir).build().expect("a trainer");
        let results: Vec<_> = (0..2).map(|_| trainer.train().expect("a result")).collect();
        (dir, results, trainer.get_weights().expect("weights"))
    };
    let (_, _, plain) = run(false, 0);
    let mut animations = Vec::new();
    for workers in [0, 2] {
        let (dir, results, learned) = run(true, workers);
        assert_eq!(learned, plain);
        assert!(results[0].get("evaluation").is_none());
        assert_eq!(at(&results[1], "evaluation.video"), "videos/iteration_000002.gif");
        let animation = std::fs::read(dir.join("videos/iteration_000002.gif")).expect("an animation");
        let length = at(&results[1], "evaluation.hist_stats.episode_lengths")[0].as_u64().expect("a length");
        let mut decoder = gif::DecodeOptions::new().read_info(animation.as_slice()).expect("a GIF");
        let frames = std::iter::from_fn(|| decoder.read_next_frame().expect("a picture").map(drop)).count();
        assert_eq!(frames as u64, length);
        let mut files = std::fs::read_dir(&dir).expect("the run").map(|file| file.expect("a file"));
        let events =
            files.find(|file| file.file_name().to_string_lossy().starts_with("events.out")).expect("events");
        let events = std::fs::read(events.path()).expect("events");
        let holds = |part: &[u8]| events.windows(part.len()).any(|window| window == part);
        assert!(holds(b"eval/video") && holds(&animation));
        animations.push(animation);
    }
    assert!(animations[0] == animations[1]);
}

#[test]
fn an_environment_that_draws_nothing_is_named_where_pictures_are_wanted() {
    let mut silent = trainer(clockwork(Clockwork::terminating(5)), |common| common.render_env = true);
    refused(silent.train(), &["iteration_000001.gif", "draws no pictures"]);
    refused(
        quiet(Ppo { common: Common { render_env: true, ..tiny_ppo().common }, ..tiny_ppo() }, "CartPole-v1"),
        &["`render_env` is true, but pictures are of evaluations: set `evaluation_interval` too"],
    );
}
