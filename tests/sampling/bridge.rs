//! An environment in Python trains as the native one that equals it.

use pavlov::prelude::*;
use pavlov::trainer::state::Weights;
use pavlov::tune::difference;
use serde_json::json;

use crate::support::{quiet, tiny_dqn, tiny_ppo};

/// Results of 100 iterations, and the weights after them.
fn run<T: Trainer>(mut settings: T, env: &str) -> (Vec<Metrics>, Weights) {
    let bridged = env.starts_with("py:") || env.starts_with("pz:");
    if let (true, Some(python)) = (bridged, std::env::var_os("PAVLOV_TEST_PYTHON")) {
        let python = python.to_string_lossy().into_owned();
        let mut config = json!({"python": python});
        if env.starts_with("py:") {
            config["num_workers"] = json!(1);
        }
        settings.common_mut().env_config = config.as_object().cloned().expect("an object").into();
    }
    let mut driver = quiet(settings, env).expect("a trainer");
    let results = (0..100).map(|_| {
        let mut result = driver.train().expect("a result");
        // It names the environment.
        result.remove("config");
        result
    });
    let results = results.collect();
    (results, driver.get_weights().expect("weights"))
}

fn learns_the_same<T: Trainer>(settings: &T, native: &str, bridged: &str) {
    if std::env::var_os("PAVLOV_TEST_PYTHON").is_none() {
        eprintln!("skipped: PAVLOV_TEST_PYTHON names no Python with gymnasium and mpe2");
        return;
    }
    let (native, native_weights) = run(settings.clone(), native);
    let (bridged, bridged_weights) = run(settings.clone(), bridged);
    for (native, bridged) in native.iter().zip(&bridged) {
        assert_eq!(difference(native, bridged), None);
    }
    assert!(native.iter().any(|result| result["episodes_total"].as_u64() > Some(20)), "episodes ended");
    assert!(native_weights == bridged_weights, "weights differ");
}

#[test]
fn ppo_on_the_bridges_cartpole_gives_the_native_ones_results_and_weights_bit_for_bit() {
    learns_the_same(&tiny_ppo(), "CartPole-v1", "py:CartPole-v1");
}

#[test]
fn dqn_on_the_bridges_cartpole_gives_the_native_ones_results_and_weights_bit_for_bit() {
    learns_the_same(&tiny_dqn(), "CartPole-v1", "py:CartPole-v1");
}

#[test]
fn two_policies_on_the_bridges_simple_spread_learn_bit_for_bit_what_they_do_on_the_native_one() {
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 25;
    ppo.common.train_batch_size = 50;
    let multi = &mut ppo.common.multiagent;
    multi.policies = ["first", "others"].map(|id| (id.to_owned(), Config::new())).into();
    multi.policy_mapping_fn = [("agent_0", "first"), ("agent_*", "others")].into();
    learns_the_same(&ppo, "simple_spread_v3", "pz:mpe2.simple_spread_v3");
}
