//! An environment in Python trains as the native one that equals it.

use pavlov::prelude::*;
use pavlov::trainer::state::Weights;
use pavlov::tune::difference;
use serde_json::json;

use crate::support::{quiet, tiny_dqn, tiny_ppo};

/// Results of 100 iterations, and the weights after them.
fn run<T: Trainer>(mut settings: T, env: &str) -> (Vec<Metrics>, Weights) {
    if let (true, Some(python)) = (env.starts_with("py:"), std::env::var_os("PAVLOV_TEST_PYTHON")) {
        let python = python.to_string_lossy().into_owned();
        let config = json!({"python": python, "num_workers": 1});
        settings.common_mut().env_config = config.as_object().cloned().expect("an object");
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

fn learns_the_same<T: Trainer>(settings: &T) {
    if std::env::var_os("PAVLOV_TEST_PYTHON").is_none() {
        eprintln!("skipped: PAVLOV_TEST_PYTHON names no Python with gymnasium");
        return;
    }
    let (native, native_weights) = run(settings.clone(), "CartPole-v1");
    let (bridged, bridged_weights) = run(settings.clone(), "py:CartPole-v1");
    for (native, bridged) in native.iter().zip(&bridged) {
        assert_eq!(difference(native, bridged), None);
    }
    assert!(native.iter().any(|result| result["episodes_total"].as_u64() > Some(20)), "episodes ended");
    assert!(native_weights == bridged_weights, "weights differ");
}

#[test]
fn ppo_on_the_bridges_cartpole_gives_the_native_ones_results_and_weights_bit_for_bit() {
    learns_the_same(&tiny_ppo());
}

#[test]
fn dqn_on_the_bridges_cartpole_gives_the_native_ones_results_and_weights_bit_for_bit() {
    learns_the_same(&tiny_dqn());
}
