//! Exploration strategies and schedules.

use pavlov::trainer::rng::Stream;
use pavlov::trainer::settings::{ExplorationConfig, per_worker_epsilon};
use pavlov::trainer::settings::{Piecewise, Schedule, exponential, polynomial};
use serde_json::{Value, json};

use crate::support::{assert_close, assert_frequency, refused};

fn config(value: Value) -> ExplorationConfig {
    serde_json::from_value(value).expect("an exploration_config")
}

/// How often each of the actions with these values is chosen.
fn choices(config: &ExplorationConfig, q: &[f32], epsilon: f64, explore: bool) -> Vec<usize> {
    let mut rng = Stream::new(3, "choose", 0);
    let mut counts = vec![0; q.len()];
    (0..DRAWS).for_each(|_| counts[config.choose(q, epsilon, explore, &mut rng) as usize] += 1);
    counts
}

const DRAWS: usize = 20_000;
const Q: [f32; 4] = [0.1, 0.7, 0.2, -3.0];

#[test]
fn epsilon_of_each_worker_follows_horgan() {
    let of = |workers: usize| (1..=workers).map(|i| per_worker_epsilon(i, workers)).collect::<Vec<_>>();
    assert_close(&of(1), &[0.4], 1e-12);
    assert_close(&of(4), &[0.4, 0.047156, 0.005559, 0.000655], 1e-6);
    let eight = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.001638, 0.000655];
    assert_close(&of(8), &eight, 1e-6);
    assert_eq!(per_worker_epsilon(0, 4), 0.0);
}

#[test]
fn epsilon_decays_linearly_after_the_warm_up() {
    let decay = config(json!({"type": "EpsilonGreedy", "final_epsilon": 0.02, "epsilon_timesteps": 10_000}));
    let at = [0, 2500, 5000, 9999, 10_000, 1_000_000].map(|t| decay.epsilon(t, 0, 0));
    assert_close(&at, &[1.0, 0.755, 0.51, 0.020098, 0.02, 0.02], 1e-9);
    let late = config(json!({
        "type": "EpsilonGreedy", "final_epsilon": 0.02, "epsilon_timesteps": 10_000, "warmup_timesteps": 1000
    }));
    assert_close(&[500, 1000, 3500, 11_000].map(|t| late.epsilon(t, 0, 0)), &[1.0, 1.0, 0.755, 0.02], 1e-9);
}

#[test]
fn an_epsilon_schedule_replaces_the_decay() {
    let schedule = config(json!({"type": "EpsilonGreedy", "epsilon_schedule": [[0, 0.8], [100, 0.2]]}));
    assert_close(&[0, 50, 100, 500].map(|t| schedule.epsilon(t, 0, 0)), &[0.8, 0.5, 0.2, 0.2], 1e-12);
}

#[test]
fn per_worker_epsilon_falls_back_to_the_decay_without_workers() {
    let per_worker = config(json!({
        "type": "PerWorkerEpsilonGreedy", "final_epsilon": 0.02, "epsilon_timesteps": 10_000
    }));
    assert_close(&[per_worker.epsilon(2500, 0, 0)], &[0.755], 1e-9);
    assert_close(&[per_worker.epsilon(2500, 2, 4)], &[0.047156], 1e-6);
    assert_eq!(per_worker.epsilon(2500, 0, 4), 0.0);
}

#[test]
fn epsilon_greedy_acts_at_random_with_probability_epsilon() {
    // Random actions may be the greedy one: 0.7 + 0.3 / 4.
    let greedy = config(json!({"type": "EpsilonGreedy"}));
    let counts = choices(&greedy, &Q, 0.3, true);
    for (action, p) in [(0, 0.075), (1, 0.775), (2, 0.075), (3, 0.075)] {
        assert_frequency(DRAWS, counts[action], p);
    }
}

#[test]
fn soft_q_samples_by_temperature() {
    // Weights exp(q / T) at T = 0.5: exp([0.2, 1.4, 0.4, -6]) = 1.221403, 4.055200, 1.491825, 0.002479.
    let soft = config(json!({"type": "SoftQ", "temperature": 0.5}));
    let counts = choices(&soft, &Q, 0.0, true);
    for (action, weight) in [(0, 1.221403), (1, 4.055200), (2, 1.491825), (3, 0.002479)] {
        assert_frequency(DRAWS, counts[action], weight / 6.770907);
    }
}

#[test]
fn random_is_uniform() {
    let counts = choices(&config(json!({"type": "Random"})), &Q, 0.0, true);
    counts.into_iter().for_each(|hits| assert_frequency(DRAWS, hits, 0.25));
}

#[test]
fn without_exploration_every_strategy_is_greedy_and_ties_go_to_the_first() {
    for kind in ["EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "Random"] {
        assert_eq!(choices(&config(json!({"type": kind})), &Q, 1.0, false), [0, DRAWS, 0, 0], "{kind}");
    }
    let tied = choices(&config(json!({"type": "EpsilonGreedy"})), &[0.5, 0.7, 0.7], 0.0, true);
    assert_eq!(tied, [0, DRAWS, 0]);
}

#[test]
fn illegal_actions_are_never_chosen_and_the_legal_ones_as_without_the_others() {
    let mask = [true, false, true, true];
    let chosen = |kind: &str, epsilon, explore| {
        let config = config(json!({"type": kind}));
        let mut rng = Stream::new(5, "choose", 0);
        let mut counts = vec![0; Q.len()];
        let mut choose = || config.choose_legal(&Q, Some(&mask), epsilon, explore, &mut rng) as usize;
        (0..DRAWS).for_each(|_| counts[choose()] += 1);
        counts
    };
    // The best is illegal: exp([0.1, 0.2, -3.0]) = 1.105171, 1.221403, 0.049787.
    for (kind, epsilon, p) in [
        ("EpsilonGreedy", 0.3, [0.1, 0.0, 0.8, 0.1]),
        ("Random", 0.0, [1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0]),
        ("SoftQ", 0.0, [0.465069, 0.0, 0.513980, 0.020951]),
    ] {
        let counts = chosen(kind, epsilon, true);
        assert_eq!(counts[1], 0, "{kind}");
        [0, 2, 3].into_iter().for_each(|action| assert_frequency(DRAWS, counts[action], p[action]));
        assert_eq!(chosen(kind, epsilon, false), [0, 0, DRAWS, 0], "{kind}");
    }
}

#[test]
fn gaussian_noise_shrinks_to_its_final_scale() {
    let noise = config(json!({"type": "GaussianNoise"}));
    assert_close(
        &[0, 5000, 10_000, 99_999].map(|t| noise.noise_scale(t, 0, 0)),
        &[1.0, 0.51, 0.02, 0.02],
        1e-12,
    );
}

#[test]
fn noise_per_worker_has_the_scale_of_the_worker_and_without_workers_the_schedule() {
    for kind in ["PerWorkerGaussianNoise", "PerWorkerOrnsteinUhlenbeckNoise"] {
        let noise = config(json!({"type": kind}));
        let of_workers = [0, 1, 2, 3, 4].map(|worker| noise.noise_scale(5000, worker, 4));
        assert_close(&of_workers, &[0.0, 0.4, 0.047156, 0.005559, 0.000655], 1e-6);
        assert_close(&[noise.noise_scale(5000, 0, 0)], &[0.51], 1e-12);
    }
}

#[test]
fn noise_that_would_grow_or_shrink_below_nothing_is_refused() {
    let drifting = |values: Value| {
        let mut full = json!({"type": "OrnsteinUhlenbeckNoise"});
        full.as_object_mut().expect("an object").extend(values.as_object().expect("an object").clone());
        config(full).validate()
    };
    for (values, text) in [
        (json!({"ou_theta": 1.5}), "`exploration_config.ou_theta` is 1.5, but it must be in 0..=1"),
        (json!({"ou_sigma": -1.0}), "`exploration_config.ou_sigma` is -1, but it must not be negative"),
        (
            json!({"ou_base_scale": -1.0}),
            "`exploration_config.ou_base_scale` is -1, but it must not be negative",
        ),
        (
            json!({"final_scale": -0.1}),
            "`exploration_config.final_scale` is -0.1, but it must not be negative",
        ),
    ] {
        assert_eq!(refused(drifting(values), &[]), text);
    }
    refused(
        config(json!({"type": "GaussianNoise", "stddev": -1.0})).validate(),
        &["`exploration_config.stddev`"],
    );
}

#[test]
fn defaults_are_rays() {
    let greedy = json!({
        "type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.05, "warmup_timesteps": 0,
        "epsilon_timesteps": 100_000, "epsilon_schedule": null
    });
    let noise = json!({
        "type": "GaussianNoise", "random_timesteps": 1000, "stddev": 0.1, "initial_scale": 1.0,
        "final_scale": 0.02, "scale_timesteps": 10_000
    });
    let drifting = json!({
        "type": "OrnsteinUhlenbeckNoise", "random_timesteps": 1000, "ou_base_scale": 0.1, "ou_theta": 0.15,
        "ou_sigma": 0.2, "initial_scale": 1.0, "final_scale": 0.02, "scale_timesteps": 10_000
    });
    let sampling = json!({"type": "StochasticSampling", "random_timesteps": 0});
    for full in [greedy, noise, drifting, sampling, json!({"type": "SoftQ", "temperature": 1.0})] {
        let bare = config(json!({"type": full["type"]}));
        assert_eq!(serde_json::to_value(bare).expect("a value"), full);
    }
}

#[test]
fn polynomial_and_exponential_schedules_match_the_golden_values() {
    let squared = [0, 50, 100, 200].map(|t| polynomial(t, 100, 1.0, 0.1, 2.0));
    assert_close(&squared, &[1.0, 0.325, 0.1, 0.1], 1e-12);
    let decay = [50, 100, 200].map(|t| exponential(t, 100, 1.0, 0.1));
    assert_close(&decay, &[0.316228, 0.1, 0.01], 1e-6);
}

#[test]
fn a_piecewise_schedule_is_linear_between_and_constant_outside() {
    let schedule = Piecewise(vec![(10, 1.0), (20, 0.5), (40, 0.1)]);
    let at = [0, 10, 15, 20, 30, 40, 99].map(|t| schedule.value(t));
    assert_close(&at, &[1.0, 1.0, 0.75, 0.5, 0.3, 0.1, 0.1], 1e-12);
    assert_eq!(Schedule::of(7.0, None).at(15), 7.0);
    assert_eq!(Schedule::of(7.0, Some(&schedule)).at(15), 0.75);
}
