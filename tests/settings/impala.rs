//! IMPALA's rules, word for word, and how its batches are told.

use pavlov::prelude::*;
use pavlov::registry;
use pavlov::tune::config::Layer;
use serde_json::{Value, json};

use super::{cartpole, configure, object};
use crate::support::{discrete_spaces, refused};

fn impala(config: Value) -> Result<Impala> {
    configure(config, &discrete_spaces(4, 2))
}

#[test]
fn impalas_rules_name_field_value_and_rule() {
    for (config, text) in [
        (
            json!({"num_envs_per_worker": 3}),
            "`train_batch_size` is 500, but it must be whole fragments of 150 steps (`rollout_fragment_length` x \
             `num_envs_per_worker`); next: 600",
        ),
        (
            json!({"sample_async": true}),
            "`sample_async` is true, but workers always sample while the trainer learns: leave it out",
        ),
        (
            json!({"max_sample_requests_in_flight_per_worker": 0}),
            "`max_sample_requests_in_flight_per_worker` is 0, but it must be at least 1",
        ),
        (json!({"minibatch_buffer_size": 0}), "`minibatch_buffer_size` is 0, but it must be at least 1"),
        (json!({"broadcast_interval": 0}), "`broadcast_interval` is 0, but it must be at least 1"),
        (
            json!({"replay_proportion": 0.5}),
            "`replay_proportion` is 0.5, but nothing is kept that could be replayed: set `replay_buffer_num_slots` to \
             at least 1",
        ),
        (
            json!({"exploration_config": {"type": "EpsilonGreedy"}}),
            "only {\"type\": \"StochasticSampling\"} gives it",
        ),
        (json!({"sample_order": "any"}), "`sample_order` is \"any\", but it must be "),
        (
            json!({"learner_queue_timeout": 300}),
            "`learner_queue_timeout` is 300, but this setting of Ray's has no meaning here: ",
        ),
    ] {
        refused(impala(config), &[text]);
    }
    impala(json!({"num_envs_per_worker": 3, "batch_mode": "complete_episodes"}))
        .expect("episodes have any length");
}

#[test]
fn a_batch_of_fragments_is_told_in_words() {
    let entry = registry::algorithm("impala").expect("it is registered");
    let values = object(json!({"num_workers": 3, "num_envs_per_worker": 2}));
    let resolved = entry.resolve(vec![Layer { origin: "test".into(), values }]).expect("settings");
    let effective = entry.effective(&resolved, &cartpole()).expect("settings that can be");
    assert_eq!(
        effective.batch_arithmetic.expect("it is not off-policy"),
        "2 env(s) x 50 steps = 100 steps per fragment; 5 fragment(s) = a batch of 500"
    );
}
