//! `observation_filter = "MeanStdFilter"` with several policies: each has a filter of its own.

use pavlov::envs::{self, EnvCreator, MultiAgentEnv, MultiAgentOut, Space};
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::PolicyChange;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::rng::episode_seed;
use pavlov::trainer::settings::{ObservationFilter, PolicyMapping};
use pavlov::trainer::workers::{FilterStats, RunningStat};
use serde_json::json;

use super::settings::with;
use super::turns::{AtRandom, workers};
use crate::support::{assert_close, at, floats, number, quiet, tiny_ppo};

/// Steps of an episode.
const STEPS: u64 = 5;

/// `near` acts in every step, `far` in every second one, and what `far` sees is a thousand times as large.
#[derive(Default)]
struct Scales {
    kind: u64,
    t: u64,
}

/// What an agent sees in step `t` of an episode of one of three kinds.
fn obs(agent: usize, kind: u64, t: u64) -> [f32; 2] {
    let x = ((7 * t + 3 * kind) % 10) as f32 / 10.0;
    if agent == 0 { [x, 1.0 - t as f32] } else { [1000.0 * x, 5000.0 + 100.0 * t as f32] }
}

fn acts(agent: usize, t: u64) -> bool {
    t < STEPS && (agent == 0 || t.is_multiple_of(2))
}

impl Scales {
    fn creator() -> EnvCreator {
        EnvCreator::multi_agent(Self::default)
    }

    fn write(&self, out: MultiAgentOut<'_, f32>) {
        for agent in 0..2 {
            out.obs[2 * agent..][..2].copy_from_slice(&obs(agent, self.kind, self.t));
            out.terminated[agent] = self.t == STEPS;
            out.truncated[agent] = false;
            out.alive[agent] = self.t < STEPS;
            out.acting[agent] = acts(agent, self.t);
        }
    }
}

impl MultiAgentEnv for Scales {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["near".into(), "far".into()]
    }
    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[2])
    }
    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.kind = seed.unwrap_or_default() % 3;
        self.t = 0;
        out.rewards.fill(0.0);
        self.write(out);
        Ok(())
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        for agent in 0..2 {
            let acted = acts(agent, self.t);
            if acted {
                self.check_action(agent, &actions[agent..=agent])?;
            }
            // The sum of an episode says which actions were 1.
            out.rewards[agent] = if acted { (actions[agent] << self.t) as f64 } else { 0.0 };
        }
        self.t += 1;
        self.write(out);
        Ok(())
    }
    fn save_state(&self) -> Option<Vec<u8>> {
        Some(vec![self.kind as u8, self.t as u8])
    }
    fn load_state(&mut self, state: &[u8]) -> envs::Result<()> {
        self.kind = state[0].into();
        self.t = state[1].into();
        Ok(())
    }
}

/// Two policies with filters; fragments end in the middle of episodes.
fn filtered(num_workers: usize, copies: usize) -> Ppo {
    let policies = json!({"policies": ["near", "far"], "policy_mapping_fn": {"near": "near", "far": "far"}});
    let mut ppo = with(&tiny_ppo(), policies).expect("settings");
    let common = &mut ppo.common;
    common.num_workers = num_workers;
    common.num_envs_per_worker = copies / num_workers.max(1);
    common.rollout_fragment_length = 8;
    common.train_batch_size = 8 * copies;
    common.observation_filter = ObservationFilter::MeanStdFilter;
    ppo
}

/// All that the seats `by` of four copies see in so many steps, the first observations included; `by` gets the agent, the copy and
/// the episode. The last observation of an episode is looked at, but not learned from.
fn seen(steps: u64, by: impl Fn(usize, u64, u64) -> bool) -> Vec<[f32; 2]> {
    let mut rows = Vec::new();
    for (copy, step, agent) in (0..4).flat_map(|c| (0..=steps).flat_map(move |s| [(c, s, 0), (c, s, 1)])) {
        let episode = step / STEPS;
        let t = step % STEPS;
        if acts(agent, t) && by(agent, copy, episode) {
            rows.push(obs(agent, episode_seed(0, copy, episode) % 3, t));
        }
    }
    rows
}

/// The filter has the count, the means and the variances of these rows.
#[track_caller]
fn assert_seen(found: &RunningStat, rows: &[[f32; 2]]) {
    assert_eq!(found.count(), rows.len() as u64);
    for i in 0..2 {
        let column: Vec<f64> = rows.iter().map(|row| f64::from(row[i])).collect();
        let n = column.len() as f64;
        let mean = column.iter().sum::<f64>() / n;
        let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        assert_close(&[found.mean()[i]], &[mean], 1e-9 * (1.0 + mean.abs()));
        assert_close(&[found.variance(i)], &[variance], 1e-9 * variance);
    }
}

fn filters(driver: &Driver<Algorithm<Ppo>>) -> FilterStats {
    driver.workers().expect("workers").filters()
}

fn train(driver: &mut Driver<Algorithm<Ppo>>, times: usize) -> Metrics {
    (0..times).map(|_| driver.train().expect("a result")).last().expect("at least one")
}

#[test]
fn each_policys_filter_knows_the_rows_of_its_own_agents_once_whatever_the_number_of_workers() {
    for num_workers in [0, 1, 2] {
        let policies = Policies::new(["near", "far"].map(|id| (id, AtRandom::class(2))), str::to_owned);
        let common = filtered(num_workers, 4).common;
        let workers = workers(&common, policies, &Scales::creator()).expect("workers");
        for fragments in 1..4 {
            workers.sample().expect("a fragment");
            workers.sync_filters().expect("filters of one width");
            let filters = workers.filters();
            assert_eq!(filters.keys().collect::<Vec<_>>(), ["far", "near"]);
            assert_seen(&filters["near"], &seen(8 * fragments, |agent, _, _| agent == 0));
            assert_seen(&filters["far"], &seen(8 * fragments, |agent, _, _| agent == 1));
        }
    }
}

#[test]
fn policies_that_take_turns_in_all_seats_learn_the_rows_that_they_play() {
    for num_workers in [0, 2] {
        let mut ppo = filtered(num_workers, 4);
        ppo.common.multiagent.rotate_policies = true;
        let mut driver = quiet(ppo, Scales::creator()).expect("a driver");
        let result = train(&mut driver, 3);
        for (place, id) in ["near", "far"].into_iter().enumerate() {
            let key = format!("info.learner.{id}.learner_stats.vf_loss");
            assert!(number(&result, &key).is_finite());
            let by = |agent, copy, episode| (agent as u64 + copy + episode) % 2 == place as u64;
            assert_seen(&filters(&driver)[id], &seen(24, by));
        }
    }
}

#[test]
fn a_worker_that_keeps_its_own_filters_learns_what_a_run_without_workers_does() {
    let [alone, on_worker] = [0, 1].map(|num_workers| {
        let mut ppo = filtered(num_workers, 4);
        // Merged statistics are rounded in other places.
        ppo.common.synchronize_filters = false;
        let mut driver = quiet(ppo, Scales::creator()).expect("a driver");
        train(&mut driver, 3);
        driver.get_weights().expect("weights")
    });
    assert_eq!(on_worker, alone);
}

#[test]
fn a_run_with_filters_of_several_policies_goes_on_in_mid_episode_bit_for_bit() {
    for (num_workers, rotate, share) in
        [(0, false, true), (0, true, true), (2, false, true), (2, true, false)]
    {
        let mut ppo = filtered(num_workers, 4);
        ppo.common.multiagent.rotate_policies = rotate;
        ppo.common.synchronize_filters = share;
        let mut straight = quiet(ppo.clone(), Scales::creator()).expect("a driver");
        train(&mut straight, 2);
        let dir = tempfile::tempdir().expect("a directory");
        let checkpoint = straight.save_to(dir.path()).expect("a checkpoint");
        let mut second = quiet(ppo.clone(), Scales::creator()).expect("a driver");
        second.restore(&checkpoint).expect("it goes on");
        assert_eq!(filters(&second), filters(&straight));
        train(&mut straight, 2);
        train(&mut second, 2);
        assert_eq!(filters(&second), filters(&straight));
        assert_eq!(second.get_weights().expect("weights"), straight.get_weights().expect("weights"));

        // The policies alone go to whatever number of workers.
        ppo.common.num_workers = 2 - num_workers;
        let mut other = quiet(ppo, Scales::creator()).expect("a driver");
        other.restore_policies(&checkpoint).expect("the policies");
        let saved = quiet(straight.settings().clone(), Scales::creator()).and_then(|mut driver| {
            driver.restore(&checkpoint)?;
            Ok(filters(&driver))
        });
        assert_eq!(filters(&other), saved.expect("it goes on"));
    }
}

/// The best action of a policy for a row that these statistics normalise.
fn best(driver: &Driver<Algorithm<Ppo>>, id: &str, filter: &RunningStat, row: [f32; 2]) -> i64 {
    let normal =
        [0, 1].map(|i| ((f64::from(row[i]) - filter.mean()[i]) / (filter.variance(i).sqrt() + 1e-6)) as f32);
    let rows = Tensor::from_slice(&normal).view([1, 2]);
    let logits = driver.get_policy(id, |policy| policy.forward(&rows)).expect("a policy");
    let logits = floats(&logits.expect("logits"));
    i64::from(logits[1] > logits[0])
}

#[test]
fn evaluations_and_sessions_normalise_by_the_filter_of_the_policy_that_acts() {
    for num_workers in [0, 2] {
        let mut ppo = filtered(num_workers, 4);
        ppo.lr = 1e-4;
        ppo.common.evaluation_num_workers = num_workers;
        let mut driver = quiet(ppo, Scales::creator()).expect("a driver");
        train(&mut driver, 2);
        let filters = filters(&driver);
        // By the kind of the episode: which actions a policy chooses with that filter, as the reward says it.
        let chosen = |driver: &Driver<Algorithm<Ppo>>, agent: usize, filter: &str| {
            [0, 1, 2].map(|kind| {
                let id = ["near", "far"][agent];
                let of = |t| best(driver, id, &filters[filter], obs(agent, kind, t)) << t;
                (0..STEPS).filter(|&t| acts(agent, t)).map(of).sum::<i64>()
            })
        };
        let wanted = [chosen(&driver, 0, "near"), chosen(&driver, 1, "far")];
        for (agent, filter) in [(0, "far"), (1, "near")] {
            assert_ne!(chosen(&driver, agent, filter), wanted[agent], "the other filter changes nothing");
        }

        for episode in driver.play(9, 3, false, 0).expect("episodes").episodes {
            for (agent, wanted) in wanted.iter().enumerate() {
                let reward = episode.agent_rewards[agent].reward;
                assert_eq!(reward, wanted[(episode.seed % 3) as usize] as f64);
            }
        }
        let result = driver.evaluate().expect("an evaluation");
        for (id, wanted) in ["near", "far"].into_iter().zip(&wanted) {
            let rewards = at(&result, &format!("hist_stats.policy_{id}_reward")).as_array().expect("rewards");
            let known =
                |reward: &serde_json::Value| wanted.iter().any(|&sum| Some(sum as f64) == reward.as_f64());
            assert!(!rewards.is_empty() && rewards.iter().all(known), "{rewards:?}, {wanted:?}");
        }

        let dir = tempfile::tempdir().expect("a directory");
        let checkpoint = driver.save_to(dir.path()).expect("a checkpoint");
        for (agent, id) in ["near", "far"].into_iter().enumerate() {
            let mut loaded = pavlov::load_policy(&checkpoint, Some(id), 1).expect("a session");
            let mut own = driver.session_of(id, 1).expect("a session");
            for (kind, t) in (0..3).flat_map(|kind| (0..STEPS).map(move |t| (kind, t))) {
                let row = obs(agent, kind, t);
                let wanted = Action::Int(vec![best(&driver, id, &filters[id], row)]);
                assert_eq!(loaded.act(&row).expect("an action"), wanted);
                assert_eq!(own.act(&row).expect("an action"), wanted);
                assert_eq!(driver.compute_actions_of(id, &row, false).expect("actions"), [wanted]);
            }
        }
    }
}

#[test]
fn a_policy_that_is_added_begins_a_filter_and_those_that_stay_keep_theirs() {
    for num_workers in [0, 2] {
        let mut ppo = filtered(num_workers, 4);
        let all = json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}});
        ppo.common.multiagent = with(&tiny_ppo(), all).expect("settings").common.multiagent;
        let mut driver = quiet(ppo, Scales::creator()).expect("a driver");
        train(&mut driver, 2);
        let before = filters(&driver);
        let mapped = |pairs: &[(&str, &str)]| PolicyChange {
            policy_mapping_fn: Some(PolicyMapping::from_iter(pairs.iter().copied())),
            ..PolicyChange::default()
        };
        let change = mapped(&[("near", "first"), ("far", "third")]);
        driver.add_policy("third", Config::new(), change).expect("it fits");
        assert_eq!(filters(&driver)["first"], before["first"]);
        train(&mut driver, 1);
        let third = &filters(&driver)["third"];
        // Four copies begin new episodes; `far` acts in the steps 0, 2 and 4 of each, and step 8 is step 3 of the second.
        assert_eq!(third.count(), 4 * 5);
        assert!(third.mean()[1] > 5000.0 && third.mean()[1] < 5500.0, "{third:?}");
        let first = filters(&driver)["first"].clone();
        driver.remove_policy("third", mapped(&[("*", "first")])).expect("no agent needs it");
        assert_eq!(filters(&driver), FilterStats::from([("first".into(), first)]));
    }
}

/// `long` is there for ten steps, `short` for the first only; both see 4, 6, 4, ...
#[derive(Default)]
struct Fading {
    t: u64,
}

impl Fading {
    fn write(&self, out: MultiAgentOut<'_, f32>) {
        for (agent, end) in [10, 1].into_iter().enumerate() {
            out.obs[agent] = if self.t <= end { 4.0 + 2.0 * (self.t % 2) as f32 } else { 0.0 };
            out.terminated[agent] = self.t == end;
            out.alive[agent] = self.t < end;
            out.acting[agent] = self.t < end;
        }
        out.truncated.fill(false);
        out.rewards.fill(0.0);
    }
}

impl MultiAgentEnv for Fading {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["long".into(), "short".into()]
    }
    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[1])
    }
    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t = 0;
        self.write(out);
        Ok(())
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        let acting = if self.t < 1 { 2 } else { 1 };
        (0..acting).try_for_each(|agent| self.check_action(agent, &actions[agent..=agent]))?;
        self.t += 1;
        self.write(out);
        Ok(())
    }
}

#[test]
fn filters_of_teams_and_of_states_do_not_count_the_zeros_of_those_who_are_not_there() {
    // Three episodes, and the first observation of the fourth. `long` is seen at t = 0 to 9: 4 and 6 in turn; `short` acts
    // at t = 0 only, and a team sees its last observation at t = 1.
    let plain = EnvCreator::multi_agent(Fading::default);
    let team = plain.with_agent_groups(|_| Some("team".into()));
    let state = plain.with_global_state();
    let of_long = [4.0, 6.0].repeat(15).into_iter().chain([4.0]).collect::<Vec<f64>>();
    let of_team = [4.0, 6.0].repeat(3).into_iter().chain([4.0]).collect::<Vec<f64>>();
    let cases = [
        // Components: `long`, then `short`.
        (team, vec![of_long.clone(), of_team]),
        // `long` and `short` have one policy: its own observation, then the state. Whoever sees, `short` is in it at t = 0.
        (
            state,
            vec![[of_long.clone(), vec![4.0; 4]].concat(), [of_long, vec![4.0; 4]].concat(), vec![4.0; 8]],
        ),
    ];
    for (env, components) in cases {
        let mut common = tiny_ppo().common;
        common.num_envs_per_worker = 1;
        common.rollout_fragment_length = 30;
        common.observation_filter = ObservationFilter::MeanStdFilter;
        let policies = Policies::new([("all", AtRandom::class(2))], |_| "all");
        let workers = workers(&common, policies, &env).expect("workers");
        workers.sample().expect("a fragment");
        workers.sync_filters().expect("filters of one width");
        let filters = workers.filters();
        let filter = &filters["all"];
        for (i, seen) in components.iter().enumerate() {
            let n = seen.len() as f64;
            let mean = seen.iter().sum::<f64>() / n;
            let variance = seen.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            assert_close(&[filter.mean()[i], filter.variance(i)], &[mean, variance], 1e-9);
        }
    }
}
