//! The arithmetic of batches: Ray's numbers where they are exact, a refusal with the nearest where Ray overshoots.

use pavlov::prelude::*;
use serde_json::json;

use super::dqn;
use crate::support::refused;

fn batch(train_batch: usize, workers: usize, envs: usize, fragment: usize) -> Result<Common> {
    let mut common = Common {
        train_batch_size: train_batch,
        num_workers: workers,
        num_envs_per_worker: envs,
        rollout_fragment_length: fragment,
        ..Common::default()
    };
    common.fit_fragments()?;
    Ok(common)
}

#[test]
fn batches_that_divide_exactly_have_rays_fragments() {
    // train batch, workers, envs, fragment given: fragment used, steps per round.
    for ((train_batch, workers, envs, given), (used, round)) in [
        ((4000, 2, 1, 200), (200, 400)),
        ((4000, 1, 1, 200), (200, 200)),
        ((5000, 10, 5, 100), (100, 5000)),
        ((65_536, 16, 16, 200), (256, 65_536)),
    ] {
        let common = batch(train_batch, workers, envs, given).expect("an exact batch");
        assert_eq!((common.rollout_fragment_length, common.steps_per_round()), (used, round));
        assert_eq!(train_batch % round, 0);
    }
}

#[test]
fn batches_that_ray_would_overshoot_are_refused_with_the_nearest() {
    for (train_batch, workers, envs, text) in [
        (
            4000,
            3,
            1,
            "`train_batch_size` is 4000, but it must be a multiple of the 3 environment copies (`num_workers` 3 x `num_envs_per_worker` 1); nearest: 3999 or 4002",
        ),
        (
            4000,
            7,
            1,
            "`train_batch_size` is 4000, but it must be a multiple of the 7 environment copies (`num_workers` 7 x `num_envs_per_worker` 1); nearest: 3997 or 4004",
        ),
        (
            512,
            0,
            20,
            "`train_batch_size` is 512, but it must be a multiple of the 20 environment copies (`num_workers` 1 x `num_envs_per_worker` 20); nearest: 500 or 520",
        ),
        (
            3,
            2,
            2,
            "`train_batch_size` is 3, but it must be a multiple of the 4 environment copies (`num_workers` 2 x `num_envs_per_worker` 2); nearest: 4",
        ),
    ] {
        assert_eq!(refused(batch(train_batch, workers, envs, 200), &[]), text);
    }
}

#[test]
fn the_batch_is_told_in_words() {
    let common = batch(4000, 2, 1, 200).expect("an exact batch");
    assert_eq!(
        common.batch_arithmetic(),
        "2 worker(s) x 1 env(s) x 200 steps = 400 steps per round; 10 round(s) = a batch of 4000"
    );
}

#[test]
fn n_step_does_not_change_the_length_of_fragments() {
    assert_eq!(dqn(json!({"n_step": 7})).expect("settings").common.rollout_fragment_length, 4);
    assert_eq!(dqn(json!({"n_step": 3})).expect("settings").common.rollout_fragment_length, 4);
}
