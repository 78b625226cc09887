//! [`AtariPreprocessing`] against Gymnasium's on a game of arithmetic pictures.

use pavlov_envs::{
    Env, Result, Space, Step, check_env,
    wrappers::{AtariConfig, AtariPreprocessing},
};
use serde_json::Value;

use crate::fixture::{Fixture, f32s};

/// The twin of `Pictures` in `record_wrappers.py`.
#[derive(Clone, Debug, Default)]
struct Pictures {
    height: usize,
    width: usize,
    seed: usize,
    t: usize,
    moved: usize,
    /// The step in which the environment cuts the episode itself; 0 is none.
    cut_at: usize,
}

impl Pictures {
    fn show(&self, obs: &mut [u8]) {
        let frame = self.seed * 37 + self.t * 61 + self.moved * 11;
        for (i, byte) in obs.iter_mut().enumerate() {
            let y = i / 3 / self.width;
            let x = i / 3 % self.width;
            let c = i % 3;
            *byte = ((frame + y * y * 3 + x * x * 5 + x * y * 7 + c * 83) % 256) as u8;
        }
    }
}

impl Env for Pictures {
    type Obs = u8;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::image(&[self.height, self.width, 3])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [u8]) -> Result<()> {
        self.seed = seed.unwrap() as usize;
        self.t = 0;
        self.moved = 0;
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [u8]) -> Result<Step> {
        self.t += 1;
        self.moved += action[0] as usize;
        self.show(obs);
        Ok(Step {
            reward: (self.t % 3) as f64 - 0.5,
            terminated: self.t >= 36,
            truncated: self.t == self.cut_at,
        })
    }

    fn info(&self, key: &str) -> Option<f64> {
        (key == "lives").then_some(3.0 - (self.t / 13) as f64)
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(50)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some([self.seed, self.t, self.moved].iter().map(|&x| x as u8).collect())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.seed = state[0].into();
        self.t = state[1].into();
        self.moved = state[2].into();
        Ok(())
    }
}

fn config(row: &Value) -> AtariConfig {
    let given = &row["config"];
    let default = AtariConfig::default();
    AtariConfig {
        noop_max: given["noop_max"].as_i64().unwrap_or(default.noop_max),
        frame_skip: given["frame_skip"].as_u64().map_or(default.frame_skip, |n| n as usize),
        screen_size: given["screen_size"].as_u64().unwrap() as usize,
        terminal_on_life_loss: given["terminal_on_life_loss"].as_bool().unwrap_or_default(),
        grayscale_obs: given["grayscale_obs"].as_bool().unwrap_or(default.grayscale_obs),
    }
}

fn assert_equal<E: Env<Act = i64>>(mut env: E, row: &Value, read: impl Fn(&Value) -> Vec<E::Obs>) {
    for episode in row["episodes"].as_array().unwrap() {
        let expected = |t: usize| read(&episode["obs"][t]);
        let mut obs = expected(0);
        assert_eq!(obs.len(), env.observation_space().width());
        obs.fill(E::Obs::default());
        env.reset(Some(episode["seed"].as_u64().unwrap()), &mut obs).unwrap();
        let place = |t: usize| format!("{}, seed {}, step {t}", row["config"], episode["seed"]);
        assert_eq!(obs, expected(0), "{}", place(0));
        let steps = episode["rewards"].as_array().unwrap().len();
        for (t, action) in (1..=steps).zip([0, 1, 2, 2, 1, 1, 0, 2]) {
            let step = env.step(&[action], &mut obs).unwrap();
            assert_eq!(obs, expected(t), "{}", place(t));
            assert_eq!(episode["rewards"][t - 1], step.reward, "{}", place(t));
            assert_eq!(episode["terminated"][t - 1], step.terminated, "{}", place(t));
        }
    }
}

#[test]
fn prepared_pictures_equal_gymnasiums_byte_for_byte() {
    let mut lost_lives = 0;
    for row in &Fixture::open("atari_preprocessing.jsonl").rows {
        let size = |name: &str| row[name].as_u64().unwrap() as usize;
        let inner = Pictures { height: size("height"), width: size("width"), ..Pictures::default() };
        let env = AtariPreprocessing::new(inner, config(row)).unwrap();
        let ended =
            row["episodes"].as_array().unwrap().iter().filter(|e| e["obs"].as_array().unwrap().len() < 9);
        lost_lives += ended.count();
        if row["config"]["scale_obs"] == true {
            assert_equal(env.scale_obs(), row, f32s);
        } else {
            assert_equal(env, row, |hex| {
                let text = hex.as_str().unwrap();
                let byte = |i| u8::from_str_radix(&text[2 * i..][..2], 16).unwrap();
                (0..text.len() / 2).map(byte).collect()
            });
        }
    }
    assert!(lost_lives > 2, "{lost_lives} episodes ended early");
}

#[test]
fn an_episode_that_is_cut_when_a_life_is_lost_keeps_both_flags() {
    let game = Pictures { cut_at: 13, ..pictures(30, 24) };
    let config = AtariConfig {
        screen_size: 12,
        noop_max: 0,
        frame_skip: 1,
        terminal_on_life_loss: true,
        ..AtariConfig::default()
    };
    let mut env = AtariPreprocessing::new(game, config).unwrap();
    let mut obs = vec![0; env.observation_space().width()];
    env.reset(Some(1), &mut obs).unwrap();
    let last = (1..=13).map(|_| env.step(&[0], &mut obs).unwrap()).last().unwrap();
    assert!(last.terminated && last.truncated, "{last:?}");
}

fn pictures(height: usize, width: usize) -> Pictures {
    Pictures { height, width, ..Pictures::default() }
}

#[test]
fn prepared_pictures_keep_the_contract_and_count_their_limit_in_steps() {
    let config = AtariConfig { screen_size: 12, terminal_on_life_loss: true, ..AtariConfig::default() };
    let mut env = AtariPreprocessing::new(pictures(30, 24), config).unwrap();
    check_env(&mut env).unwrap();
    // 50 frames, four of them a step.
    assert_eq!(env.max_episode_steps(), Some(13));
    check_env(&mut env.scale_obs()).unwrap();
}

#[test]
fn settings_that_do_not_fit_the_frames_are_refused() {
    let message = |env, config| AtariPreprocessing::new(env, config).unwrap_err().to_string();
    assert_eq!(
        message(pictures(30, 24), AtariConfig::default()),
        "`screen_size` is 84, but it must be in 1..=24 (the frames are 30 x 24)"
    );
    let config = AtariConfig { frame_skip: 0, screen_size: 12, ..AtariConfig::default() };
    assert_eq!(message(pictures(30, 24), config), "`frame_skip` is 0, but it must be at least 1");
    let config = AtariConfig { noop_max: -1, screen_size: 12, ..AtariConfig::default() };
    assert_eq!(message(pictures(30, 24), config), "`noop_max` is -1, but it must be at least 0");
}
