//! Who acts by which policy in evaluations (`evaluation_config.policy_mapping_fn`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pavlov::envs::EnvCreator;
use pavlov::prelude::*;
use pavlov::trainer::Episode;
use pavlov::trainer::settings::{EvaluationDuration, PolicyMapping};
use serde_json::json;

use super::settings::{spread, with};
use super::turns::Turns;
use crate::support::{at, quiet, refused, tiny_ppo};

/// All agents train `main`. In evaluations two of them act by `fixed`, which nothing trains.
fn settings(trained: serde_json::Value, evaluated: Option<PolicyMapping>) -> Ppo {
    let multi =
        json!({"policies": ["main", "fixed"], "policies_to_train": ["main"], "policy_mapping_fn": trained});
    let mut ppo = with(&spread(), multi).expect("settings");
    ppo.common.evaluation_config.policy_mapping_fn = evaluated;
    ppo
}

fn against_fixed() -> Option<PolicyMapping> {
    Some([("agent_0", "main"), ("*", "fixed")].into())
}

fn episodes(driver: &mut Driver<Algorithm<Ppo>>) -> Vec<Episode> {
    driver.play(4, 7, false, 0).expect("episodes").episodes
}

#[test]
fn an_evaluation_against_a_fixed_policy_is_that_of_a_run_in_which_it_always_plays() {
    let mut driver =
        quiet(settings(json!({"*": "main"}), against_fixed()), "simple_spread_v3").expect("a driver");
    let always = json!({"agent_0": "main", "*": "fixed"});
    let mut other = quiet(settings(always, None), "simple_spread_v3").expect("a driver");
    assert_eq!(episodes(&mut driver), episodes(&mut other));
    let names: Vec<String> =
        episodes(&mut driver)[0].agent_rewards.iter().map(|agent| agent.policy.clone()).collect();
    assert_eq!(names, ["main", "fixed", "fixed"]);
    let mut alone = quiet(
        settings(json!({"agent_0": "main", "*": "fixed"}), Some([("*", "main")].into())),
        "simple_spread_v3",
    )
    .expect("a driver");
    let unlike = episodes(&mut alone);
    assert!(unlike.iter().flat_map(|episode| &episode.agent_rewards).all(|agent| agent.policy == "main"));
    assert_ne!(unlike[0].total_reward, episodes(&mut other)[0].total_reward);
}

#[test]
fn training_and_checkpoints_are_not_changed_by_who_plays_in_evaluations() {
    let with_opponent = || settings(json!({"*": "main"}), against_fixed());
    let mut driver = quiet(with_opponent(), "simple_spread_v3").expect("a driver");
    let alone =
        with(&spread(), json!({"policies": ["main"], "policy_mapping_fn": {"*": "main"}})).expect("settings");
    let mut alone = quiet(alone, "simple_spread_v3").expect("a driver");
    let fixed = |driver: &Driver<Algorithm<Ppo>>| driver.get_weights_of(&["fixed"]).expect("weights");
    let before = fixed(&driver);
    for _ in 0..2 {
        let with = driver.train().expect("a result");
        let without = alone.train().expect("a result");
        assert_eq!(at(&with, "episode_reward_mean"), at(&without, "episode_reward_mean"));
        assert_eq!(at(&with, "info.learner"), at(&without, "info.learner"));
        let _ = episodes(&mut driver);
    }
    assert_eq!(fixed(&driver), before);
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoint = driver.save_to(dir.path()).expect("a checkpoint");
    let mut second = quiet(with_opponent(), "simple_spread_v3").expect("a driver");
    second.restore(&checkpoint).expect("it goes on");
    let results = [driver.train().expect("a result"), second.train().expect("a result")];
    assert_eq!(at(&results[0], "info.learner"), at(&results[1], "info.learner"));
    assert_eq!(episodes(&mut driver), episodes(&mut second));
}

#[test]
fn what_cannot_play_in_evaluations_says_so() {
    let made =
        |evaluated: PolicyMapping| quiet(settings(json!({"*": "main"}), Some(evaluated)), "simple_spread_v3");
    refused(
        made([("agent_0", "fixed"), ("*", "third")].into()),
        &[
            "`evaluation_config.policy_mapping_fn` is \"third\" for the agent `agent_1`",
            "there is fixed, main",
        ],
    );
    refused(
        made([("bob", "fixed")].into()),
        &["`evaluation_config.policy_mapping_fn.bob` is \"fixed\"", "there is agent_0, agent_1, agent_2"],
    );
    refused(
        made(PolicyMapping::Registered("no_such".into())),
        &["`evaluation_config.policy_mapping_fn` is \"no_such\""],
    );
    let mut learns = settings(json!({"*": "main"}), against_fixed());
    learns.common.multiagent.policies_to_train = None;
    refused(
        quiet(learns, "simple_spread_v3"),
        &[
            "`multiagent.policies.fixed`",
            "it learns, but only `evaluation_config.policy_mapping_fn` names it",
        ],
    );
}

#[test]
fn a_single_agent_is_evaluated_with_the_policy_that_the_setting_names() {
    let made = |policies: &[&str], evaluated: Option<&str>| {
        let trained = policies[0];
        let multi = json!({"policies": policies, "policies_to_train": [trained], "policy_mapping_fn": {"*": trained}});
        let mut ppo = with(&tiny_ppo(), multi).expect("settings");
        ppo.common.evaluation_config.policy_mapping_fn = evaluated.map(|id| [("*", id)].into());
        quiet(ppo, "CartPole-v1").expect("a driver")
    };
    let lengths = |mut driver: Driver<Algorithm<Ppo>>| -> Vec<u64> {
        episodes(&mut driver).iter().map(|episode| episode.length).collect()
    };
    // Before anything is learned.
    let [a, b] = ["a", "b"].map(|id| lengths(made(&[id], None)));
    assert_ne!(a, b);
    assert_eq!(lengths(made(&["a", "b"], Some("b"))), b);
    assert_eq!(lengths(made(&["b", "a"], Some("a"))), a);
}

#[test]
fn evaluations_of_as_many_episodes_play_on_the_environments_of_the_last() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let env = EnvCreator::multi_agent(move || {
        counter.fetch_add(1, Relaxed);
        Turns::default()
    });
    let mut ppo = tiny_ppo();
    ppo.common.evaluation_interval = Some(1);
    ppo.common.evaluation_duration = EvaluationDuration::Units(3);
    let mut driver = quiet(ppo, env).expect("a driver");
    let mut train = || {
        driver.train().expect("a result");
        made.load(Relaxed)
    };
    let first = train();
    assert_eq!([train(), train()], [first; 2]);
}
