//! What the time of an iteration went to.

use std::time::Duration;

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::trainer::settings::EvaluationDuration;

use crate::support::{at, going_on, number, quiet, scripted, tiny_ppo};

/// Phases of `time_breakdown`.
const PHASES: [&str; 8] =
    ["env_s", "act_s", "postprocess_s", "wait_s", "learn_s", "sync_s", "evaluate_s", "other_s"];

/// An iteration of 16 steps of two copies that sleep for a millisecond each.
fn asleep(change: impl FnOnce(&mut Common)) -> Metrics {
    let mut ppo = tiny_ppo();
    ppo.common.disable_env_checking = true;
    change(&mut ppo.common);
    let env = || {
        scripted(Space::discrete(2), |_, _, _: &[i64], _| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(going_on(1.0))
        })
    };
    quiet(ppo, env).and_then(|mut trainer| Ok(trainer.train()?)).expect("a result")
}

#[track_caller]
fn assert_adds_up(result: &Metrics) {
    let seconds = |key: &str| number(result, &format!("time_breakdown.{key}"));
    let sum: f64 = PHASES.iter().map(|phase| seconds(phase)).sum();
    // Nine numbers of whole nanoseconds.
    assert!((sum - seconds("total_s")).abs() < 2e-8, "{:?}", at(result, "time_breakdown"));
    assert!(seconds("total_s") <= number(result, "time_this_iter_s"));
}

#[test]
fn phases_add_up_and_a_slow_environment_stands_in_its_own() {
    let result = asleep(|_| {});
    assert_adds_up(&result);
    // One after the other: 16 x 2 ms.
    assert!(number(&result, "time_breakdown.env_s") >= 0.032);
    assert!(number(&result, "sampler_perf.mean_env_wait_ms") >= 2.0);
    assert!(number(&result, "timers.sample_time_ms") >= 32.0);
    for key in ["inference", "action_processing", "raw_obs_processing"] {
        assert!(number(&result, &format!("sampler_perf.mean_{key}_ms")) > 0.0, "{key}");
    }
    for key in ["act_s", "postprocess_s", "learn_s"] {
        assert!(number(&result, &format!("time_breakdown.{key}")) > 0.0, "{key}");
    }
    for key in ["sync_s", "evaluate_s"] {
        assert_eq!(number(&result, &format!("time_breakdown.{key}")), 0.0, "{key}");
    }
}

#[test]
fn workers_that_sample_side_by_side_count_as_their_mean() {
    let result = asleep(|common| {
        common.num_workers = 2;
        common.num_envs_per_worker = 1;
    });
    assert_adds_up(&result);
    // Each of them 16 x 1 ms.
    assert!(number(&result, "time_breakdown.env_s") >= 0.016);
    assert!(number(&result, "sampler_perf.mean_env_wait_ms") >= 1.0);
    assert!(number(&result, "time_breakdown.sync_s") > 0.0);
}

#[test]
fn evaluation_has_a_phase_of_its_own_and_does_not_count_as_sampling() {
    let mut ppo = tiny_ppo();
    ppo.common.evaluation_interval = Some(2);
    ppo.common.evaluation_duration = EvaluationDuration::Units(3);
    let mut trainer = quiet(ppo, "CartPole-v1").expect("a trainer");
    for evaluates in [false, true, false] {
        let result = trainer.train().expect("a result");
        assert_adds_up(&result);
        assert_eq!(number(&result, "time_breakdown.evaluate_s") > 0.0, evaluates);
    }
    // What happens between iterations belongs to none.
    trainer.evaluate().expect("an evaluation");
    assert_adds_up(&trainer.train().expect("a result"));
}
