//! Learners of an algorithm, on a cluster.

use serde_json::json;

use super::on_ray;
use crate::learners::learn;
use crate::resume::assert_same_with;

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn learners_on_a_cluster_are_the_trainer_alone_to_the_bit_and_runs_go_on_with_them() {
    let alone = json!({"workers": "threads:0"});
    for (name, carriers) in [
        ("ppo_of_large_batches", json!({"workers": "threads:0", "learners": "ray:3"})),
        (
            "sac_of_large_batches",
            json!({"workers": "threads:0", "learners": "ray:2", "placement_strategy": "SPREAD"}),
        ),
    ] {
        let learners: usize = carriers["learners"].as_str().expect("text")[4..].parse().expect("a number");
        assert_same_with(name, (&alone, &carriers), ("num_learners", json!(learners)), on_ray);
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_learner_on_a_cluster_that_dies_or_stands_still_changes_nothing_in_what_is_learned() {
    let calm = learn("calm", &json!({"learners": "procs:2"}), |_| ());
    for how in ["KILL", "STOP"] {
        let settings = json!({"learners": "ray:2", "recreate_failed_workers": true, "worker_health_probe_timeout_s": 15});
        let outcome = learn(how, &settings, on_ray);
        assert_eq!(outcome["healthy"], json!(2.0), "{how}");
        // A machine that is busy may need more than one attempt.
        assert!(outcome["restarts"].as_f64() >= Some(1.0), "{how}");
        assert!(outcome["weights"] == calm["weights"], "{how}");
    }
}
