//! What happens to observations on the way to the policy and to actions on the way back.

use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::{Arc, Mutex};

use pavlov::envs::{self, Env, Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::Kind;
use pavlov::trainer::batch::Column;
use pavlov::trainer::rng::episode_seed;
use pavlov::trainer::unsquash;
use pavlov::trainer::{settings::ObservationFilter, workers::RunningStat};

use crate::support::{
    Clockwork, assert_close, clockwork, clockwork_obs, going_on, numbers, scripted, tiny_ppo, worker_set,
};

/// The actions that the policy chose and those that the environment got, with bounds 300 and 500.
fn continuous(change: impl FnOnce(&mut Common)) -> (Vec<f64>, Vec<f64>) {
    let seen: Arc<Mutex<Vec<f32>>> = Arc::default();
    let mut ppo = tiny_ppo();
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = 64;
    change(&mut ppo.common);
    let record = Arc::clone(&seen);
    let env = move || {
        let record = Arc::clone(&record);
        scripted(Space::boxed(300.0, 500.0, &[1]), move |_, t, action: &[f32], obs: &mut [f32]| {
            record.lock().expect("no panic while it is held").push(action[0]);
            obs[0] = t as f32;
            Ok(going_on(0.0))
        })
    };
    let batch = worker_set(&ppo, env).and_then(|workers| workers.sample()?.single()).expect("a fragment");
    let got = seen.lock().expect("no panic while it is held").iter().map(|&a| f64::from(a)).collect();
    (numbers(&batch, Column::ACTIONS), got)
}

#[test]
fn actions_are_stretched_to_the_bounds() {
    let (chosen, got) = continuous(|_| {});
    assert!(chosen.iter().any(|a| a.abs() > 1.0) && chosen.iter().any(|a| a.abs() < 1.0), "{chosen:?}");
    let wanted: Vec<f64> = chosen.iter().map(|&a| f64::from(unsquash(a as f32, 300.0, 500.0))).collect();
    assert_eq!(got, wanted);
}

#[test]
fn actions_are_clipped_or_left_alone_when_asked() {
    let (chosen, got) = continuous(|common| {
        common.normalize_actions = false;
        common.clip_actions = true;
    });
    assert!(chosen.iter().all(|a| *a < 300.0));
    assert_eq!(got, vec![300.0; 64]);
    let (chosen, got) = continuous(|common| common.normalize_actions = false);
    assert_eq!(got, chosen);
}

/// Observes 2 + t mod 4, takes actions 5, 6, 7 and keeps them.
struct Shifted(usize, Arc<Mutex<Vec<i64>>>);

impl Env for Shifted {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::Discrete { n: 4, start: 2 }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: 3, start: 5 }
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [i64]) -> envs::Result<()> {
        self.0 = 0;
        obs[0] = 2;
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [i64]) -> envs::Result<Step> {
        self.1.lock().expect("no panic while it is held").push(action[0]);
        self.0 += 1;
        obs[0] = 2 + self.0 as i64 % 4;
        Ok(going_on(0.0))
    }
}

#[test]
fn discrete_observations_are_kept_as_they_are_and_discrete_actions_start_where_the_space_does() {
    let seen: Arc<Mutex<Vec<i64>>> = Arc::default();
    let mut ppo = tiny_ppo();
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = 64;
    let record = Arc::clone(&seen);
    let env = move || Shifted(0, Arc::clone(&record));
    let batch = worker_set(&ppo, env).and_then(|workers| workers.sample()?.single()).expect("a fragment");
    let obs = batch.get(Column::OBS).expect("the column");
    assert_eq!((obs.kind(), obs.size()), (Kind::I64, vec![64]));
    assert_eq!(numbers(&batch, Column::OBS), (0..64).map(|t| f64::from(2 + t % 4)).collect::<Vec<_>>());
    let chosen = numbers(&batch, Column::ACTIONS);
    assert!([0.0, 1.0, 2.0].iter().all(|a| chosen.contains(a)), "{chosen:?}");
    let got: Vec<f64> = seen.lock().expect("no panic while it is held").iter().map(|&a| a as f64).collect();
    assert_eq!(got, chosen.iter().map(|a| a + 5.0).collect::<Vec<_>>());
}

const SEED: u64 = 11;

/// All that so many steps of copies 0 to 3 show, the first observations included, with episodes of 3 steps. The last
/// observation of an episode is looked at, but not learned from.
fn seen(steps: usize) -> RunningStat {
    let mut stat = RunningStat::new(2);
    for copy in 0..4 {
        for step in 0..=steps {
            let seed = episode_seed(SEED, copy, step as u64 / 3);
            stat.push(&clockwork_obs(seed, step % 3));
        }
    }
    stat
}

#[track_caller]
fn assert_same(found: &RunningStat, wanted: &RunningStat) {
    assert_eq!(found.count(), wanted.count());
    assert_close(found.mean(), wanted.mean(), 1e-9);
    for i in 0..2 {
        let wanted = wanted.variance(i);
        assert_close(&[found.variance(i)], &[wanted], 1e-9 * wanted);
    }
}

#[test]
fn merged_filters_of_workers_know_all_observations_once() {
    for num_workers in [0, 2] {
        let mut ppo = tiny_ppo();
        ppo.common.num_workers = num_workers;
        ppo.common.num_envs_per_worker = 4 / num_workers.max(1);
        ppo.common.rollout_fragment_length = 7;
        ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
        ppo.common.seed = Some(SEED);
        let workers = worker_set(&ppo, clockwork(Clockwork::terminating(3))).expect("workers");
        for fragments in [2, 3] {
            let before = workers.counters().num_env_steps_sampled / 28;
            (before..fragments)
                .for_each(|_| drop(workers.sample().and_then(|batch| batch.single()).expect("a fragment")));
            workers.sync_filters().expect("filters of one width");
            assert_same(&workers.filters()["default_policy"], &seen(7 * fragments as usize));
        }
    }
}

#[test]
fn filtered_observations_are_normalised_by_what_was_seen_until_then() {
    let mut ppo = tiny_ppo();
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = 4;
    ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    let workers = worker_set(&ppo, clockwork(Clockwork::terminating(9))).expect("workers");
    let obs = numbers(&workers.sample().and_then(|batch| batch.single()).expect("a fragment"), Column::OBS);
    // t: 0, 1, 2, 3. Means 0, 0.5, 1, 1.5; deviations 0, sqrt(0.5), 1, sqrt(5/3).
    let t: Vec<f64> = obs.iter().skip(1).step_by(2).copied().collect();
    assert_close(&t, &[0.0, FRAC_1_SQRT_2, 1.0, 1.161894], 1e-5);
}
