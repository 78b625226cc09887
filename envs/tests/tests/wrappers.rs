//! Wrappers give what Gymnasium's give for the same rows, as recorded by `record_wrappers.py`.

use std::sync::{Arc, Mutex};

use pavlov_envs::{
    DType, Element, Env, Result, Space, Step, StepOut, SyncVectorEnv, VectorEnv,
    wrappers::{
        ClipAction, ClipReward, FlattenObservation, FrameStack, NormalizeObservation, NormalizeReward,
        Padding, RecordEpisodeStatistics, RescaleAction, TimeLimit, TransformObservation, TransformReward,
    },
};
use serde_json::Value;

use crate::{
    fixture::{Fixture, bits, f32s, f64s},
    rows::Rows,
};

/// One recorded episode: what went into the wrapper and what came out.
#[derive(Clone)]
pub(crate) struct Episode {
    pub(crate) obs: Vec<f32>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) terminated: bool,
    pub(crate) actions: Vec<f32>,
    pub(crate) outer_obs: Vec<f32>,
    pub(crate) outer_rewards: Vec<f64>,
    pub(crate) outer_actions: Vec<f32>,
    pub(crate) statistics: Option<(f64, u64)>,
}

impl Episode {
    fn steps(&self) -> usize {
        self.rewards.len()
    }
}

/// The recorded episodes of a wrapper, one list per recording.
pub(crate) fn recordings(wrapper: &str) -> Vec<(Value, Vec<Episode>)> {
    let numbers = |value: &Value| if value.is_null() { vec![] } else { f32s(value) };
    let episode = |row: &Value| Episode {
        obs: f32s(&row["obs"]),
        rewards: f64s(&row["rewards"]),
        terminated: row["terminated"].as_bool().unwrap(),
        actions: numbers(&row["actions"]),
        outer_obs: f32s(&row["outer_obs"]),
        outer_rewards: f64s(&row["outer_rewards"]),
        outer_actions: numbers(&row["outer_actions"]),
        statistics: row["l"].as_u64().map(|l| (f64s(&row["r"])[0], l)),
    };
    let found: Vec<_> = ["wrappers.jsonl", "more_wrappers.jsonl"]
        .into_iter()
        .flat_map(|file| Fixture::open(file).rows)
        .filter(|row| row["wrapper"] == wrapper)
        .map(|row| {
            let episodes = row["episodes"].as_array().map_or(vec![], |all| all.iter().map(episode).collect());
            (row, episodes)
        })
        .collect();
    assert!(!found.is_empty(), "no recording of {wrapper}");
    found
}

/// Gives recorded rows, whatever the actions are; the seed is the number of the episode.
pub(crate) struct Replay<O, A> {
    episodes: Vec<Episode>,
    space: Space,
    episode: usize,
    step: usize,
    /// Whether the last row ends the episode.
    ends: bool,
    pub(crate) actions: Arc<Mutex<Vec<f32>>>,
    of: std::marker::PhantomData<(O, A)>,
}

impl<O: Element, A: Element> Replay<O, A> {
    pub(crate) fn new(episodes: &[Episode], space: Space) -> Self {
        let actions = Arc::default();
        let of = std::marker::PhantomData;
        Self { episodes: episodes.to_vec(), space, episode: 0, step: 0, ends: true, actions, of }
    }

    fn show(&self, obs: &mut [O]) {
        let row = &self.episodes[self.episode].obs[self.step * obs.len()..][..obs.len()];
        obs.iter_mut().zip(row).for_each(|(obs, &x)| *obs = O::from_f64(f64::from(x)));
    }
}

impl<O: Element, A: Element> Env for Replay<O, A> {
    type Obs = O;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn action_space(&self) -> Space {
        if A::DTYPE == f32::DTYPE { Space::boxed(-2.0, 2.0, &[1]) } else { Space::discrete(4) }
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        self.episode = seed.unwrap() as usize;
        self.step = 0;
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, action: &[A], obs: &mut [O]) -> Result<Step> {
        self.actions.lock().unwrap().extend(action.iter().map(|a| a.to_f64() as f32));
        self.step += 1;
        self.show(obs);
        let episode = &self.episodes[self.episode];
        let end = self.ends && self.step == episode.steps();
        Ok(Step {
            reward: episode.rewards[self.step - 1],
            terminated: end && episode.terminated,
            truncated: end && !episode.terminated,
        })
    }
}

pub(crate) fn pendulum(episodes: &[Episode]) -> Replay<f32, f32> {
    Replay::new(episodes, Space::bounded(&[-1.0, -1.0, -8.0], &[1.0, 1.0, 8.0]).unwrap())
}

fn cartpole(episodes: &[Episode]) -> Replay<f32, i64> {
    Replay::new(episodes, Space::boxed(-5.0, 5.0, &[4]))
}

/// Plays all recorded episodes and compares all bits of observations and rewards.
fn assert_equal<E: Env<Obs = f32>>(mut env: E, episodes: &[Episode], which: &str) {
    let mut obs = vec![f32::NAN; env.observation_space().width()];
    for (number, episode) in episodes.iter().enumerate() {
        env.reset(Some(number as u64), &mut obs).unwrap();
        let mut rows = obs.clone();
        let mut rewards = vec![];
        for t in 0..episode.steps() {
            let action = E::Act::from_f64(episode.outer_actions.get(t).map_or(0.0, |&a| f64::from(a)));
            let step = env.step(&[action], &mut obs).unwrap();
            let last = t + 1 == episode.steps();
            assert_eq!(
                (step.terminated, step.truncated),
                (last && episode.terminated, last && !episode.terminated)
            );
            rows.extend_from_slice(&obs);
            rewards.push(step.reward);
        }
        let same = rows.iter().map(|x| x.to_bits()).eq(episode.outer_obs.iter().map(|x| x.to_bits()));
        assert!(same, "{which}, episode {number}: {rows:?} against {:?}", episode.outer_obs);
        assert_eq!(bits(&rewards), bits(&episode.outer_rewards), "{which}, episode {number}");
    }
}

#[test]
fn clipped_and_transformed_rewards_equal_gymnasiums_bit_for_bit() {
    for (_, episodes) in recordings("ClipReward") {
        assert_equal(ClipReward::new(pendulum(&episodes), -5.0, -1.0).unwrap(), &episodes, "ClipReward");
    }
    for (_, episodes) in recordings("TransformReward") {
        assert_equal(
            TransformReward::new(pendulum(&episodes), |r| 0.5 * r + 1.0),
            &episodes,
            "TransformReward",
        );
    }
}

#[test]
fn transformed_and_flattened_observations_equal_gymnasiums_bit_for_bit() {
    for (_, episodes) in recordings("TransformObservation") {
        let double = |obs: &[f32], out: &mut [f32]| {
            out.iter_mut().zip(obs).for_each(|(out, x)| *out = 2.0 * x + 1.0);
        };
        let env = TransformObservation::new(pendulum(&episodes), Space::real(&[3]), double).unwrap();
        assert_equal(env, &episodes, "TransformObservation");
    }
    for (_, episodes) in recordings("FlattenObservation") {
        let cliff = Replay::<i64, i64>::new(&episodes, Space::discrete(48));
        assert_equal(FlattenObservation::new(cliff).unwrap(), &episodes, "FlattenObservation");
    }
}

#[test]
fn stacked_frames_equal_gymnasiums_bit_for_bit_with_each_padding() {
    let all = recordings("FrameStack");
    assert_eq!(all.len(), 3);
    for (row, episodes) in all {
        let padding = match row["padding"].as_str().unwrap() {
            "reset" => Padding::Reset,
            "zero" => Padding::Zero,
            _ => Padding::Custom(vec![1.0, -1.0, 0.0, 2.0]),
        };
        let env = FrameStack::new(cartpole(&episodes), 3, padding).unwrap();
        assert_eq!(env.observation_space().shape(), [3, 4]);
        assert_equal(env, &episodes, "FrameStack");
    }
}

#[test]
fn a_time_limit_cuts_where_gymnasiums_does() {
    for (_, episodes) in recordings("TimeLimit") {
        let env = Replay { ends: false, ..pendulum(&episodes) };
        assert_equal(TimeLimit::new(env, 9), &episodes, "TimeLimit");
    }
}

#[test]
fn returns_and_lengths_of_episodes_equal_gymnasiums_bit_for_bit() {
    for (_, episodes) in recordings("RecordEpisodeStatistics") {
        let mut env = RecordEpisodeStatistics::new(cartpole(&episodes), 2);
        let mut obs = [0.0; 4];
        for (number, episode) in episodes.iter().enumerate() {
            env.reset(Some(number as u64), &mut obs).unwrap();
            for t in 0..episode.steps() {
                env.step(&[0], &mut obs).unwrap();
                assert_eq!(env.info("episode/r").is_some(), t + 1 == episode.steps(), "step {t}");
            }
            let (r, l) = episode.statistics.unwrap();
            assert_eq!((env.info("episode/r"), env.info("episode/l")), (Some(r), Some(l as f64)));
            assert!(env.info("episode/t").unwrap() >= 0.0);
        }
        // Three episodes, and room for the last two.
        let last = |n: usize| episodes[n].statistics.unwrap();
        assert_eq!(env.episode_count(), 3);
        assert!(env.return_queue().iter().eq([&last(1).0, &last(2).0]));
        assert!(env.length_queue().iter().eq([&last(1).1, &last(2).1]));
    }
}

#[test]
fn actions_reach_the_environment_as_in_gymnasium_bit_for_bit() {
    fn check<E: Env<Obs = f32, Act = f32>>(wrapper: &str, wrap: impl Fn(Replay<f32, f32>) -> E) {
        for (_, episodes) in recordings(wrapper) {
            let inner = pendulum(&episodes);
            let seen = Arc::clone(&inner.actions);
            assert_equal(wrap(inner), &episodes, wrapper);
            let expected: Vec<f32> = episodes.iter().flat_map(|episode| episode.actions.clone()).collect();
            assert_eq!(*seen.lock().unwrap(), expected, "{wrapper}");
        }
    }
    check("ClipAction", |env| ClipAction::new(env).unwrap());
    check("RescaleAction", |env| RescaleAction::new(env, -1.0, 0.7).unwrap());
}

/// One copy, through several episodes, against Gymnasium's wrapper of one environment.
fn assert_normalized<E: Env<Obs = f32>>(make: impl Fn() -> E, episodes: &[Episode]) {
    let vector = SyncVectorEnv::new(1, || Ok(make())).unwrap();
    let mut env = NormalizeObservation::new(vector, 1e-8).unwrap();
    let width = env.observation_space().width();
    let mut rows = Rows::filled(1, width, f32::NAN);
    env.reset(Some(&[0]), &mut rows.obs).unwrap();
    for (number, episode) in episodes.iter().enumerate() {
        let next = [((number + 1) % episodes.len()) as u64];
        for (t, expected) in episode.outer_obs.chunks_exact(width).enumerate() {
            // The last step of an episode gives the next one's first observation too.
            if t > 0 {
                env.step(&[E::Act::default()], Some(&next), rows.out()).unwrap();
            }
            let found = if t == episode.steps() { &rows.final_obs } else { &rows.obs };
            let same = found.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits()));
            assert!(same, "episode {number}, step {t}: {found:?} against {expected:?}");
        }
    }
}

#[test]
fn normalized_observations_of_one_copy_equal_gymnasiums_bit_for_bit() {
    let all = recordings("NormalizeObservation");
    assert_normalized(|| pendulum(&all[0].1), &all[0].1);
    assert_normalized(|| cartpole(&all[1].1), &all[1].1);
    // One of them was cut, the other fell.
    assert!(!all[0].1[0].terminated && all[1].1[0].terminated);
}

/// Gives recorded rows of several copies.
struct ReplayVector {
    row: Value,
    copies: usize,
    space: Space,
    actions: Space,
    step: usize,
}

impl ReplayVector {
    fn new(row: Value, copies: usize, width: usize) -> Self {
        Self { row, copies, space: Space::real(&[width]), actions: Space::discrete(2), step: 0 }
    }

    fn show(&self, obs: &mut [f32]) {
        match self.row.get("obs") {
            Some(rows) => obs.copy_from_slice(&f32s(&rows[self.step])),
            None => obs.fill(0.0),
        }
    }

    fn flags(&self, name: &str) -> Vec<bool> {
        self.row[name][self.step - 1].as_array().unwrap().iter().map(|flag| flag.as_bool().unwrap()).collect()
    }
}

impl VectorEnv for ReplayVector {
    type Obs = f32;
    type Act = i64;

    fn num_envs(&self) -> usize {
        self.copies
    }

    fn observation_space(&self) -> &Space {
        &self.space
    }

    fn action_space(&self) -> &Space {
        &self.actions
    }

    fn reset(&mut self, _: Option<&[u64]>, obs: &mut [f32]) -> Result<()> {
        self.step = 0;
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, _: &[i64], _: Option<&[u64]>, out: StepOut<'_, f32>) -> Result<()> {
        self.step += 1;
        self.show(out.obs);
        out.final_obs.fill(0.0);
        let rewards = f64s(&self.row["rewards"][self.step - 1]);
        out.rewards.iter_mut().zip(rewards).for_each(|(to, reward)| *to = reward as f32);
        out.terminated.copy_from_slice(&self.flags("terminated"));
        out.truncated.copy_from_slice(&self.flags("truncated"));
        Ok(())
    }
}

#[test]
fn normalized_observations_of_several_copies_equal_gymnasiums_bit_for_bit_within_an_episode() {
    const COPIES: usize = 5;
    for (row, _) in recordings("VectorNormalizeObservation") {
        let mut env = NormalizeObservation::new(ReplayVector::new(row.clone(), COPIES, 3), 1e-8).unwrap();
        let mut rows = Rows::filled(COPIES, 3, f32::NAN);
        env.reset(None, &mut rows.obs).unwrap();
        for (t, expected) in row["outer_obs"].as_array().unwrap().iter().enumerate() {
            if t > 0 {
                env.step(&[0; COPIES], None, rows.out()).unwrap();
            }
            assert_eq!(rows.obs, f32s(expected), "step {t}");
        }
    }
}

/// Our rewards and Gymnasium's sums of them are `f32`, so their last digits differ.
#[test]
fn normalized_rewards_equal_gymnasiums_to_one_millionth() {
    const COPIES: usize = 3;
    let mut fell = 0;
    let mut cut = 0;
    for (row, _) in recordings("NormalizeReward") {
        let mut env = NormalizeReward::new(ReplayVector::new(row.clone(), COPIES, 1), 0.99, 1e-8).unwrap();
        let mut rows = Rows::filled(COPIES, 1, f32::NAN);
        env.reset(None, &mut rows.obs).unwrap();
        for (t, expected) in row["outer_rewards"].as_array().unwrap().iter().enumerate() {
            env.step(&[0; COPIES], None, rows.out()).unwrap();
            for (found, expected) in rows.rewards.iter().zip(f64s(expected)) {
                assert!(
                    (f64::from(*found) / expected - 1.0).abs() < 1e-6,
                    "step {t}: {found} against {expected}"
                );
            }
            fell += rows.terminated.iter().filter(|flag| **flag).count();
            cut += rows.truncated.iter().filter(|flag| **flag).count();
        }
    }
    assert!(fell > 3 && cut > 3, "{fell} episodes fell and {cut} were cut");
}

/// Shows the smallest members of a space of integers, and ends at once.
struct Smallest(Space);

impl Env for Smallest {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.0.clone()
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [i64]) -> Result<()> {
        obs.fill(0);
        Ok(())
    }

    fn step(&mut self, _: &[i64], obs: &mut [i64]) -> Result<Step> {
        obs.fill(0);
        Ok(Step { reward: 0.0, terminated: true, truncated: false })
    }
}

#[test]
fn stacks_of_integers_have_the_space_of_gymnasiums_batch_space() {
    // Gymnasium 1.4: `batch_space(space, 3)`.
    let boxed = |low: &[f64], high: &[f64], shape: &[usize]| Space::Box {
        low: low.repeat(3),
        high: high.repeat(3),
        shape: shape.to_vec(),
        dtype: DType::I64,
    };
    for (space, expected) in [
        (Space::discrete(4), Space::multi_discrete(&[4, 4, 4])),
        (Space::Discrete { n: 4, start: 2 }, Space::MultiDiscrete { nvec: vec![4; 3], start: vec![2; 3] }),
        (
            Space::MultiDiscrete { nvec: vec![2, 3], start: vec![0, 5] },
            boxed(&[0.0, 5.0], &[1.0, 7.0], &[3, 2]),
        ),
    ] {
        let stacked = FrameStack::new(Smallest(space.clone()), 3, Padding::Reset).unwrap();
        assert_eq!(stacked.observation_space(), expected, "{space}");
    }
}

#[test]
fn rewards_may_be_clipped_to_one_value() {
    let smallest = || Smallest(Space::discrete(2));
    assert!(ClipReward::new(smallest(), 1.0, 1.0).is_ok());
    assert!(ClipReward::new(smallest(), 1.0, 0.5).is_err());
}
