//! Seeds, and the settings that results carry.

use serde_json::{Value, json};

use crate::support::{at, number, quiet, tiny_ppo};

/// Returns, lengths and losses of two iterations: everything but the clock.
fn two_iterations(seed: Option<u64>) -> (Value, u64) {
    let mut ppo = tiny_ppo();
    ppo.common.seed = seed;
    let mut trainer = quiet(ppo, "CartPole-v1").expect("a trainer");
    trainer.train().expect("a result");
    let result = trainer.train().expect("a result");
    let told = json!([at(&result, "hist_stats"), at(&result, "info.learner")]);
    (told, trainer.get_config()["seed"].as_u64().expect("a seed"))
}

#[test]
fn seed_zero_is_a_seed() {
    let (zero, recorded) = two_iterations(Some(0));
    assert_eq!(recorded, 0);
    assert_eq!(two_iterations(Some(0)).0, zero);
    assert_ne!(two_iterations(Some(1)).0, zero);
}

#[test]
fn an_absent_seed_is_drawn_and_recorded_so_that_the_run_can_be_repeated() {
    let (told, seed) = two_iterations(None);
    assert_ne!(seed, two_iterations(None).1);
    assert_eq!(two_iterations(Some(seed)), (told, seed));
}

#[test]
fn the_resolved_config_is_in_every_result() {
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let result = trainer.train().expect("a result");
    assert_eq!(at(&result, "config.env"), "CartPole-v1");
    assert_eq!(number(&result, "config.train_batch_size"), 32.0);
    assert_eq!(number(&result, "config.lambda"), 1.0);
}
