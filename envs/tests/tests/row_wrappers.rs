//! Wrappers of single observations and actions give what Gymnasium's give, as recorded by `record_more_wrappers.py`.

use std::sync::{Arc, Mutex};

use pavlov_envs::{
    Element, Env, Space, check_env,
    native::Pendulum,
    wrappers::{
        DtypeObservation, FilterObservation, GrayscaleObservation, MaxAndSkipObservation, RescaleAction,
        RescaleObservation, ReshapeObservation, ResizeObservation, StickyAction, TimeLimit, TransformAction,
    },
};

use crate::{
    fixture::bits,
    wrappers::{Episode, Replay, pendulum, recordings},
};

fn picture(episodes: &[Episode]) -> Replay<u8, i64> {
    Replay::new(episodes, Space::image(&[3, 4, 3]))
}

/// Plays all recorded episodes and compares all bits of observations, of rewards and, if they were kept, of the actions that
/// reached the environment.
pub(crate) fn assert_rows<E: Env>(
    mut env: E,
    seen: Option<&Mutex<Vec<f32>>>,
    episodes: &[Episode],
    which: &str,
) {
    let mut obs = vec![E::Obs::default(); env.observation_space().width()];
    let width = env.action_space().width();
    for (number, episode) in episodes.iter().enumerate() {
        let numbers = |obs: &[E::Obs]| obs.iter().map(|x| (x.to_f64() as f32).to_bits()).collect::<Vec<_>>();
        env.reset(Some(number as u64), &mut obs).unwrap();
        let mut rows = numbers(&obs);
        let mut rewards = vec![];
        for action in episode.outer_actions.chunks_exact(width) {
            let action: Vec<E::Act> = action.iter().map(|&a| E::Act::from_f64(f64::from(a))).collect();
            let step = env.step(&action, &mut obs).unwrap();
            rows.extend(numbers(&obs));
            rewards.push(step.reward);
            let last = rewards.len() == episode.outer_rewards.len();
            assert_eq!(
                (step.terminated, step.truncated),
                (last && episode.terminated, last && !episode.terminated)
            );
        }
        let expected: Vec<u32> = episode.outer_obs.iter().map(|x| x.to_bits()).collect();
        assert_eq!(rows, expected, "{which}, episode {number}");
        assert_eq!(bits(&rewards), bits(&episode.outer_rewards), "{which}, episode {number}");
    }
    if let Some(seen) = seen {
        let expected: Vec<f32> = episodes.iter().flat_map(|episode| episode.actions.clone()).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "{which}");
    }
}

#[test]
fn grey_and_reshaped_pictures_equal_gymnasiums_byte_for_byte() {
    let all = recordings("GrayscaleObservation");
    assert_eq!(all.len(), 2);
    for (row, episodes) in all {
        let keep_dim = row["keep_dim"].as_bool().unwrap();
        let env = GrayscaleObservation::new(picture(&episodes), keep_dim).unwrap();
        assert_eq!(env.observation_space(), Space::image(if keep_dim { &[3, 4, 1] } else { &[3, 4] }));
        assert_rows(env, None, &episodes, "GrayscaleObservation");
    }
    for (_, episodes) in recordings("ReshapeObservation") {
        let env = ReshapeObservation::new(picture(&episodes), &[4, 9]).unwrap();
        assert_eq!(env.observation_space(), Space::image(&[4, 9]));
        assert_rows(env, None, &episodes, "ReshapeObservation");
    }
}

/// OpenCV's bits are in the recordings of `AtariPreprocessing`, which resizes by the same code.
#[test]
fn a_picture_of_half_the_size_has_the_means_of_four_pixels() {
    let episode = Episode {
        obs: (0..16).map(|x| x as f32 * 10.0).collect(),
        rewards: vec![],
        terminated: false,
        actions: vec![],
        outer_obs: vec![],
        outer_rewards: vec![],
        outer_actions: vec![],
        statistics: None,
    };
    let inner = || Replay::<u8, i64>::new(std::slice::from_ref(&episode), Space::image(&[4, 4]));
    let mut env = ResizeObservation::new(inner(), [2, 2]).unwrap();
    assert_eq!(env.observation_space(), Space::image(&[2, 2]));
    let mut obs = [0; 4];
    env.reset(Some(0), &mut obs).unwrap();
    // (0 + 10 + 40 + 50) / 4, and so on.
    assert_eq!(obs, [25, 45, 105, 125]);
    // Colours stay apart: the mean of 10 y + 3 x + c over 2 x 2 pixels ends in a half, which is rounded up.
    let colored = (0..48).map(|i| (10 * (i / 12) + 3 * (i / 3 % 4) + i % 3) as f32).collect();
    let colored = Episode { obs: colored, ..episode.clone() };
    let inner_colored = Replay::<u8, i64>::new(std::slice::from_ref(&colored), Space::image(&[4, 4, 3]));
    let mut env = ResizeObservation::new(inner_colored, [2, 2]).unwrap();
    let mut obs = [0; 12];
    env.reset(Some(0), &mut obs).unwrap();
    assert_eq!(obs, std::array::from_fn(|i| (20 * (i / 6) + 6 * (i / 3 % 2) + i % 3 + 7) as u8));
    let larger = ResizeObservation::new(inner(), [5, 2]).err().expect("an error").to_string();
    assert!(larger.contains("`shape` is 5 x 2, but it must be at least 1 x 1 and at most 4 x 4"), "{larger}");
}

#[test]
fn rescaled_cast_and_filtered_observations_equal_gymnasiums_bit_for_bit() {
    for (_, episodes) in recordings("RescaleObservation") {
        let env = RescaleObservation::new(pendulum(&episodes), -0.3, 1.7).unwrap();
        assert_eq!(env.observation_space(), Space::boxed(-0.3, 1.7, &[3]));
        assert_rows(env, None, &episodes, "RescaleObservation");
    }
    let all = recordings("DtypeObservation");
    let env = DtypeObservation::<_, f32>::new(picture(&all[0].1)).unwrap();
    assert_eq!(env.observation_space(), Space::boxed(0.0, 255.0, &[3, 4, 3]));
    assert_rows(env, None, &all[0].1, "DtypeObservation");
    let cliff = Replay::<i64, i64>::new(&all[1].1, Space::discrete(48));
    let env = DtypeObservation::<_, f32>::new(cliff).unwrap();
    assert_eq!(env.observation_space(), Space::boxed(0.0, 47.0, &[]));
    assert_rows(env, None, &all[1].1, "DtypeObservation");
    for (_, episodes) in recordings("FilterObservation") {
        let part = |width: usize| Space::boxed(0.0, 255.0, &[width]);
        let parts = Space::dict([("a", part(2)), ("b", part(1)), ("c", part(3))]);
        let inner = || Replay::<f32, i64>::new(&episodes, parts.clone());
        let env = FilterObservation::new(inner(), &["c", "a"]).unwrap();
        assert_eq!(env.observation_space(), Space::dict([("a", part(2)), ("c", part(3))]));
        assert_rows(env, None, &episodes, "FilterObservation");
        let missing = FilterObservation::new(inner(), &["d"]).err().expect("an error").to_string();
        assert!(missing.contains("is \"d\", but it must be a part of the observation: a, b, c"), "{missing}");
    }
}

#[test]
fn transformed_and_sticky_actions_equal_gymnasiums_bit_for_bit() {
    for (_, episodes) in recordings("TransformAction") {
        let inner = pendulum(&episodes);
        let seen = Arc::clone(&inner.actions);
        let halve = |action: &[f32], torque: &mut [f32]| torque[0] = 0.5 * action[0];
        let env = TransformAction::new(inner, Space::boxed(-2.0, 2.0, &[1]), halve).unwrap();
        assert_rows(env, Some(&seen), &episodes, "TransformAction");
    }
    for (row, episodes) in recordings("StickyAction") {
        let inner = Replay::<f32, i64>::new(&episodes, Space::boxed(0.0, 255.0, &[1]));
        let seen = Arc::clone(&inner.actions);
        let duration = [0, 1].map(|i| row["duration"][i].as_i64().unwrap());
        let env = StickyAction::new(inner, row["probability"].as_f64().unwrap(), duration).unwrap();
        assert_rows(env, Some(&seen), &episodes, "StickyAction");
    }
}

#[test]
fn pooled_and_skipped_observations_equal_gymnasiums_bit_for_bit() {
    let all = recordings("MaxAndSkipObservation");
    assert_eq!(all.len(), 2);
    for (_, episodes) in all {
        let inner = pendulum(&episodes);
        let seen = Arc::clone(&inner.actions);
        let env = MaxAndSkipObservation::new(inner, 3).unwrap();
        assert_rows(env, Some(&seen), &episodes, "MaxAndSkipObservation");
    }
}

#[test]
fn wrappers_with_a_memory_keep_the_contract() {
    let pendulum = || TimeLimit::new(Pendulum::new(Default::default()), 20);
    check_env(&mut StickyAction::new(pendulum(), 0.5, [1, 4]).unwrap()).unwrap();
    check_env(&mut MaxAndSkipObservation::new(pendulum(), 4).unwrap()).unwrap();
}

#[test]
fn what_cannot_be_rescaled_resized_or_repeated_is_refused() {
    let seen = |space: Space| Replay::<f32, f32>::new(&[], space);
    let halves = || seen(Space::boxed(0.0, 2.0, &[2]));
    assert!(RescaleObservation::new(halves(), -1.0, 1.0).is_ok());
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::MIN, f64::MAX), (f64::NEG_INFINITY, 0.0)] {
        assert!(RescaleObservation::new(halves(), low, high).is_err(), "observations to {low}..{high}");
        assert!(
            RescaleAction::new(Pendulum::new(Default::default()), low, high).is_err(),
            "actions to {low}..{high}"
        );
    }
    for space in [Space::boxed(1.0, 1.0, &[2]), Space::real(&[2])] {
        assert!(RescaleObservation::new(seen(space.clone()), -1.0, 1.0).is_err(), "{space}");
        let env = TransformAction::new(Pendulum::new(Default::default()), space.clone(), |_, _| {}).unwrap();
        assert!(RescaleAction::new(env, -1.0, 1.0).is_err(), "{space}");
    }
    let bytes = || Replay::<u8, i64>::new(&[], Space::image(&[4, 4]));
    assert!(RescaleObservation::new(bytes(), 0.0, 1.0).is_err(), "bytes");
    assert!(ResizeObservation::new(bytes(), [4, 4]).is_ok(), "the size that it has");
    for duration in [[0, 1], [3, 2], [0, 0]] {
        assert!(StickyAction::new(bytes(), 0.5, duration).is_err(), "{duration:?}");
    }
    assert!(StickyAction::new(bytes(), 0.5, [2, 2]).is_ok());
}
