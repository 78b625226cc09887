//! The wrappers that count steps and that record videos, as recorded by `record_more_wrappers.py`.

use std::{collections::BTreeMap, fs, path::Path};

use pavlov_envs::{
    Element, Env, EnvConfig, EnvCreator, Frame, Result, Space, Step, StepOut, WrapperSpec, check_env,
    wrappers::{RecordVideo, TimeAwareConfig, TimeAwareObservation, TimeLimit},
};
use serde_json::{Value, json};

use crate::{
    counter::Counter,
    row_wrappers::assert_rows,
    wrappers::{Episode, Replay, pendulum, recordings},
};

fn assert_time<O: Element, A: Element, T: Element>(
    row: &Value,
    episodes: &[Episode],
    space: Space,
    limit: usize,
) {
    let config: TimeAwareConfig = serde_json::from_value(row["arguments"].clone()).unwrap();
    let which = format!("{} {}", row["around"], row["arguments"]);
    assert_eq!(config.dtype(&space, limit).unwrap(), T::DTYPE, "{which}");
    let inner = TimeLimit::new(Replay::<O, A>::new(episodes, space), limit);
    assert_rows(TimeAwareObservation::<_, T>::new(inner, config).unwrap(), None, episodes, &which);
}

#[test]
fn observations_with_the_time_equal_gymnasiums_bit_for_bit() {
    let part = |width: usize| Space::boxed(0.0, 255.0, &[width]);
    let parts = Space::dict([("a", part(2)), ("b", part(1)), ("c", part(3))]);
    let tuple = Space::Tuple(vec![part(2), part(1), part(3)]);
    let mut seen = 0;
    for (row, episodes) in recordings("TimeAwareObservation") {
        let is_real = row["arguments"]["flatten"] == true || row["arguments"]["normalize_time"] == true;
        match (row["around"].as_str().unwrap(), is_real) {
            ("pendulum", _) => {
                let space = pendulum(&episodes).observation_space();
                assert_time::<f32, f32, f32>(&row, &episodes, space, 12);
            }
            ("cliff", true) => assert_time::<i64, i64, f32>(&row, &episodes, Space::discrete(48), 12),
            ("cliff", false) => assert_time::<i64, i64, i64>(&row, &episodes, Space::discrete(48), 12),
            ("picture", true) => assert_time::<u8, i64, f32>(&row, &episodes, Space::image(&[2, 2]), 20),
            ("picture", false) => assert_time::<u8, i64, i64>(&row, &episodes, Space::image(&[2, 2]), 20),
            ("dict", _) => assert_time::<f32, i64, f32>(&row, &episodes, parts.clone(), 20),
            ("tuple", _) => assert_time::<f32, i64, f32>(&row, &episodes, tuple.clone(), 20),
            other => panic!("no space of {other:?}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 20);
}

#[test]
fn a_clock_needs_a_limit_and_a_name_of_its_own() {
    let refused = |id: &str, wrapper: Value| {
        let wrappers: Vec<WrapperSpec> = serde_json::from_value(json!([wrapper])).unwrap();
        let env = EnvCreator::from(id).wrapped(&wrappers);
        env.make_vec(&EnvConfig::new(), 1).expect_err("an error").to_string()
    };
    let error = refused("Blackjack-v1", json!("TimeAwareObservation"));
    assert!(error.contains("put a `TimeLimit` around the environment first"), "{error}");
    let taken = json!({ "name": "TimeAwareObservation", "dict_time_key": "direction" });
    let error = refused("MiniGrid-Empty-5x5-v0", taken);
    assert!(error.contains("`dict_time_key` is \"direction\""), "{error}");
}

#[test]
fn a_clock_is_saved_with_the_environment() {
    let config = TimeAwareConfig::default;
    let env = || TimeLimit::new(pavlov_envs::native::Pendulum::new(Default::default()), 20);
    check_env(&mut TimeAwareObservation::<_, f32>::new(env(), config()).unwrap()).unwrap();
    let mut env = TimeAwareObservation::<_, f32>::new(env(), config()).unwrap();
    let mut obs = [0.0; 4];
    env.reset(Some(0), &mut obs).unwrap();
    env.step(&[0.0], &mut obs).unwrap();
    let state = env.save_state().unwrap();
    env.step(&[0.0], &mut obs).unwrap();
    let expected = obs;
    assert_eq!(obs[3], 2.0);
    env.load_state(&state).unwrap();
    env.step(&[0.0], &mut obs).unwrap();
    assert_eq!(obs, expected);
}

/// Episodes of 3 to 6 steps, whose only pixel shows their seed and their step.
#[derive(Default)]
struct Painter {
    seed: u64,
    step: u64,
}

impl Env for Painter {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::discrete(1)
    }

    fn action_space(&self) -> Space {
        Space::discrete(1)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        self.seed = seed.unwrap_or(self.seed + 1);
        self.step = 0;
        obs[0] = 0;
        Ok(())
    }

    fn step(&mut self, _action: &[i64], obs: &mut [i64]) -> Result<Step> {
        self.step += 1;
        obs[0] = 0;
        Ok(Step { reward: 0.0, terminated: self.step == 3 + self.seed % 4, truncated: false })
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(Some(Frame { width: 1, height: 1, rgb: vec![self.seed as u8, self.step as u8, 0] }))
    }

    fn render_fps(&self) -> Option<f64> {
        Some(20.0)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some([self.seed.to_le_bytes(), self.step.to_le_bytes()].concat())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let number = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().unwrap());
        (self.seed, self.step) = (number(0), number(8));
        Ok(())
    }
}

/// The pictures of a video by its name: seed and step of each, and hundredths of a second between them.
type Videos = BTreeMap<String, (Vec<[u8; 2]>, u16)>;

fn videos_in(folder: &Path) -> Videos {
    let read = |path: &Path| {
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(fs::File::open(path).unwrap()).unwrap();
        let mut frames = vec![];
        let mut delay = 0;
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            frames.push([frame.buffer[0], frame.buffer[1]]);
            delay = frame.delay;
        }
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), (frames, delay))
    };
    fs::read_dir(folder).unwrap().map(|entry| read(&entry.unwrap().path())).collect()
}

#[test]
fn the_same_pictures_are_recorded_as_by_gymnasium() {
    for (row, _) in recordings("RecordVideo") {
        let folder = tempfile::tempdir().unwrap();
        let mut wrapper = row["arguments"].clone();
        wrapper["name"] = "RecordVideo".into();
        wrapper["video_folder"] = folder.path().to_str().unwrap().into();
        let wrapper: WrapperSpec = serde_json::from_value(wrapper).unwrap();
        let creator = EnvCreator::configured(|_: Empty| Ok(Painter::default())).wrapped(&[wrapper]);
        // The second copy is not recorded.
        let mut env = creator.make_vec(&EnvConfig::new(), 2).unwrap();
        let mut next = 0;
        let mut obs = [0_i64; 2];
        let mut final_obs = [0_i64; 2];
        env.reset(Some(&[0, 0]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
        while next < 30 {
            let mut terminated = [false; 2];
            let out = StepOut {
                obs: bytemuck::cast_slice_mut(&mut obs),
                final_obs: bytemuck::cast_slice_mut(&mut final_obs),
                rewards: &mut [0.0; 2],
                terminated: &mut terminated,
                truncated: &mut [false; 2],
            };
            env.step(bytemuck::cast_slice(&[0_i64; 2]), Some(&[next + 1, 0]), out).unwrap();
            next += u64::from(terminated[0]);
        }
        drop(env);
        let fps = row["arguments"]["fps"].as_f64().unwrap_or(20.0);
        let expected: Videos = row["videos"]
            .as_array()
            .unwrap()
            .iter()
            .map(|video| {
                assert_eq!(video["fps"].as_f64(), Some(fps));
                let frames = serde_json::from_value(video["frames"].clone()).unwrap();
                (video["name"].as_str().unwrap().to_owned(), (frames, (100.0 / fps) as u16))
            })
            .collect();
        assert!(!expected.is_empty());
        let mut found = videos_in(folder.path());
        // The vector has begun episode 30 in the step that ended episode 29.
        found.remove("rl-video-episode-30");
        for (frames, _) in found.values_mut() {
            frames.retain(|frame| frame[0] != 30);
        }
        assert_eq!(found, expected, "{}", row["arguments"]);
    }
}

/// No settings.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Empty {}

#[test]
fn a_second_recorder_keeps_the_files_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    for seed in [0, 2] {
        let mut env = RecordVideo::new(Painter::default(), folder.path()).unwrap();
        env.reset(Some(seed), &mut [0]).unwrap();
        env.step(&[0], &mut [0]).unwrap();
    }
    let expected = [("rl-video-episode-0", 0), ("rl-video-episode-0-2", 2)];
    let expected = expected.map(|(name, seed)| (name.to_owned(), (vec![[seed, 0], [seed, 1]], 5)));
    assert_eq!(videos_in(folder.path()), expected.into_iter().collect());
}

#[test]
fn a_recorder_refuses_an_environment_without_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = RecordVideo::new(Counter::default(), folder.path()).unwrap();
    let error = env.reset(Some(0), &mut [0; 2]).expect_err("no pictures").to_string();
    assert!(
        error.contains("draws no pictures; implement `render` for it, or leave the wrapper out"),
        "{error}"
    );
    check_env(&mut RecordVideo::new(Painter::default(), folder.path()).unwrap().episode_trigger(|_| false))
        .unwrap();
}

#[test]
fn a_restored_recorder_counts_on_and_cubes_below_a_thousand_and_every_thousandth_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let short = || TimeLimit::new(Painter::default(), 1);
    let mut env = RecordVideo::new(short(), folder.path()).unwrap();
    let episode = |env: &mut RecordVideo<TimeLimit<Painter>>| {
        env.reset(Some(0), &mut [0]).unwrap();
        env.step(&[0], &mut [0]).unwrap();
    };
    (0..700).for_each(|_| episode(&mut env));
    let state = env.save_state().expect("a state");
    drop(env);
    let mut env = RecordVideo::new(short(), folder.path()).unwrap();
    env.load_state(&state).unwrap();
    (700..1002).for_each(|_| episode(&mut env));
    drop(env);
    let recorded: Vec<String> = videos_in(folder.path()).into_keys().collect();
    let mut expected =
        [0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000].map(|number| format!("rl-video-episode-{number}"));
    expected.sort();
    assert_eq!(recorded, expected);
}
