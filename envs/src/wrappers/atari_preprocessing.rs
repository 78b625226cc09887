//! The usual preprocessing of Atari games (Machado et al. 2018).

use std::marker::PhantomData;

use super::{load, resize_area::ResizeArea, save};
use crate::{DType, Element, Env, Error, NpRandom, Result, Space, Step, contract::state};

const TAG: &str = "atari_preprocessing";

/// Settings of [`AtariPreprocessing`], as Gymnasium names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtariConfig {
    /// Largest number of no-op actions (0) at the start of an episode; 0: none.
    pub noop_max: i64,
    /// Number of frames per step; the last two are pooled by their maximum.
    pub frame_skip: usize,
    /// Height and width of observations, in pixels; at most those of a frame.
    pub screen_size: usize,
    /// Whether a lost life ends the episode; requires that the environment has `info("lives")`.
    pub terminal_on_life_loss: bool,
    /// Whether observations are greyscale instead of RGB.
    pub grayscale_obs: bool,
}

impl Default for AtariConfig {
    fn default() -> Self {
        Self {
            noop_max: 30,
            frame_skip: 4,
            screen_size: 84,
            terminal_on_life_loss: false,
            grayscale_obs: true,
        }
    }
}

/// Preprocesses frames of bytes, `[height, width, 3]` (RGB) or `[height, width]` (greyscale): no-op actions at the start,
/// frame skipping, max-pooling, conversion to greyscale, resizing by area. Observations are bytes, or `f32` in `0..=1` after
/// [`scale_obs`](Self::scale_obs).
///
/// The number of no-op actions is drawn from the wrapper's own random stream, seeded with the episode's seed. Gymnasium
/// draws it from the environment's stream; both agree if the environment's reset draws nothing. Greyscale is computed as in
/// the Arcade Learning Environment: 0.2989 red + 0.587 green + 0.114 blue.
#[derive(Clone, Debug)]
pub struct AtariPreprocessing<E: Env, O = u8> {
    env: E,
    config: AtariConfig,
    resize: ResizeArea,
    colours: usize,
    channels: usize,
    frame: Vec<u8>,
    /// Last frame of a step, pooled with the one before it when the step is observed.
    last: Vec<u8>,
    before: Vec<u8>,
    lives: f64,
    random: NpRandom,
    of: PhantomData<O>,
}

impl<E: Env<Obs = u8, Act = i64>> AtariPreprocessing<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the observations are not such frames, if the actions are not discrete from 0, or if a
    /// setting is out of its range.
    pub fn new(env: E, config: AtariConfig) -> Result<Self> {
        let space = env.observation_space();
        let (height, width, colours) = match &space {
            Space::Box { shape, dtype: DType::U8, .. } => match shape[..] {
                [height, width, 3] => (height, width, 3),
                [height, width] if config.grayscale_obs => (height, width, 1),
                _ => return Err(no_frames(&space, config.grayscale_obs)),
            },
            _ => return Err(no_frames(&space, config.grayscale_obs)),
        };
        if !matches!(env.action_space(), Space::Discrete { start: 0, .. }) {
            return Err(Error::shape("the action space", env.action_space(), "discrete from 0"));
        }
        if config.frame_skip == 0 {
            return Err(Error::shape("`frame_skip`", 0, "at least 1"));
        }
        if config.noop_max < 0 {
            return Err(Error::shape("`noop_max`", config.noop_max, "at least 0"));
        }
        let most = height.min(width);
        if config.screen_size == 0 || config.screen_size > most {
            let expected = format_args!("in 1..={most} (the frames are {height} x {width})");
            return Err(Error::shape("`screen_size`", config.screen_size, expected));
        }
        let channels = if config.grayscale_obs { 1 } else { 3 };
        Ok(Self {
            resize: ResizeArea::new([height, width], [config.screen_size; 2], channels),
            colours,
            channels,
            frame: vec![0; height * width * colours],
            last: vec![0; height * width * channels],
            before: vec![0; height * width * channels],
            lives: 0.0,
            random: NpRandom::from_entropy(),
            env,
            config,
            of: PhantomData,
        })
    }

    /// Converts observations to `f32` in `0..=1`.
    pub fn scale_obs(self) -> AtariPreprocessing<E, f32> {
        let Self { env, config, resize, colours, channels, frame, last, before, lives, random, .. } = self;
        let of = PhantomData;
        AtariPreprocessing { env, config, resize, colours, channels, frame, last, before, lives, random, of }
    }
}

impl<E: Env, O> AtariPreprocessing<E, O> {
    /// Returns the inner environment, which observes whole frames.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

fn no_frames(space: &Space, grey: bool) -> Error {
    let expected = if grey {
        "frames of bytes, [height, width, 3] or [height, width]"
    } else {
        "frames of bytes, [height, width, 3]"
    };
    Error::shape("the observation space", space, expected)
}

/// Copies a frame to `to`, as it is or converted to greyscale.
fn take(frame: &[u8], colours: usize, to: &mut [u8]) {
    if to.len() == frame.len() {
        return to.copy_from_slice(frame);
    }
    for (to, pixel) in to.iter_mut().zip(frame.chunks_exact(colours)) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f64::from);
        *to = (r * 0.2989 + g * 0.587 + b * 0.114).round() as u8;
    }
}

impl<E: Env<Obs = u8, Act = i64>, O: Element> AtariPreprocessing<E, O> {
    fn start(&mut self, seed: Option<u64>) -> Result<()> {
        self.env.reset(seed, &mut self.frame)?;
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        let most = self.config.noop_max;
        let noops = if most > 0 { self.random.integers(1, most + 1) } else { 0 };
        for _ in 0..noops {
            let step = self.env.step(&[0], &mut self.frame)?;
            if step.terminated || step.truncated {
                self.env.reset(seed, &mut self.frame)?;
            }
        }
        self.lives = self.count_lives()?;
        take(&self.frame, self.colours, &mut self.last);
        self.before.fill(0);
        Ok(())
    }

    fn count_lives(&self) -> Result<f64> {
        match self.env.info("lives") {
            Some(lives) => Ok(lives),
            None if !self.config.terminal_on_life_loss => Ok(0.0),
            None => Err(Error::other(
                "`terminal_on_life_loss` is true, but the environment gives no `info(\"lives\")`; set it to false",
            )),
        }
    }

    fn show(&mut self, obs: &mut [O]) {
        if self.config.frame_skip > 1 {
            self.last.iter_mut().zip(&self.before).for_each(|(last, before)| *last = (*last).max(*before));
        }
        let scale = O::DTYPE.is_float();
        self.resize.resize(&self.last, |i, byte| {
            let byte = f32::from(byte);
            obs[i] = O::from_f64(f64::from(if scale { byte / 255.0 } else { byte }));
        });
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env<Obs = u8, Act = i64>, O: Element> Env for AtariPreprocessing<E, O> {
    type Obs = O;

    forward!(Act, action_space, action_mask, set_task, no_goals, info, render);

    fn observation_space(&self) -> Space {
        let size = self.config.screen_size;
        let shape = &[size, size, self.channels][..if self.channels == 1 { 2 } else { 3 }];
        if O::DTYPE.is_float() {
            Space::boxed(0.0, 1.0, shape).with_dtype(O::DTYPE)
        } else {
            Space::image(shape)
        }
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        self.start(seed)?;
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [O]) -> Result<Step> {
        let mut total = Step::default();
        for t in 1..=self.config.frame_skip {
            let step = self.env.step(action, &mut self.frame)?;
            total = Step { reward: total.reward + step.reward, ..step };
            if self.config.terminal_on_life_loss {
                let lives = self.count_lives()?;
                total.terminated |= lives < self.lives;
                self.lives = lives;
            }
            if total.terminated || total.truncated {
                break;
            }
            if t + 1 == self.config.frame_skip {
                take(&self.frame, self.colours, &mut self.before);
            } else if t == self.config.frame_skip {
                take(&self.frame, self.colours, &mut self.last);
            }
        }
        self.show(obs);
        Ok(total)
    }

    /// Converts the inner environment's limit from frames to steps.
    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.env.max_episode_steps()?.div_ceil(self.config.frame_skip))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &(&self.last, &self.before, self.lives, &self.random))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let here = self.last.len();
        let check = |(last, before, ..): &(Vec<u8>, Vec<u8>, f64, NpRandom)| {
            state::check_count("bytes of a frame", last.len(), here)?;
            state::check_count("bytes of a frame", before.len(), here)
        };
        (self.last, self.before, self.lives, self.random) = load(TAG, &mut self.env, state, check)?;
        Ok(())
    }
}
