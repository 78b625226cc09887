//! The wrapper that records episodes as GIF animations.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use super::{load, save};
use crate::{Env, Error, Frame, Result, Step, encode_gif};

const TAG: &str = "record_video";

/// Frames per second of a video if neither the caller nor the environment names a rate, as in Gymnasium.
const FPS: f64 = 30.0;

type Trigger = Box<dyn Fn(u64) -> bool + Send>;

/// Records episodes as GIF animations in a folder, as Gymnasium's wrapper of this name records films.
///
/// A video begins with the first picture of an episode for which [`episode_trigger`](Self::episode_trigger) is true, or with
/// the picture after a step for which [`step_trigger`](Self::step_trigger) is true. Its file is named
/// `rl-video-episode-N.gif` or `rl-video-step-N.gif`, where `N` counts episodes or steps from 0. A video ends with the
/// episode, or else after [`video_length`](Self::video_length) pictures. Its pictures are kept in memory until then. Dropping
/// the wrapper writes the video that is being recorded.
///
/// If neither trigger is set, the episodes 0, 1, 8, 27, and so on until 729, and then every thousandth are recorded.
///
/// In contrast to Gymnasium's, an existing file is kept: the new one gets a number behind its name, as in
/// `rl-video-episode-0-2.gif`. A saved state holds the number of the episode and of the step, but no pictures; a video that
/// is being recorded when a state is loaded is not written.
///
/// ```
/// use pavlov_envs::{Env, native::CartPole, wrappers::RecordVideo};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// let env = CartPole::new(Default::default());
/// let mut env = RecordVideo::new(env, folder)?.episode_trigger(|episode| episode % 2 == 0);
/// let mut obs = [0.0; 4];
/// for seed in 0..3 {
///     env.reset(Some(seed), &mut obs)?;
///     while !env.step(&[1], &mut obs)?.terminated {}
/// }
/// drop(env);
/// assert!(folder.join("rl-video-episode-2.gif").exists());
/// assert!(!folder.join("rl-video-episode-1.gif").exists());
/// # Ok(())
/// # }
/// ```
pub struct RecordVideo<E: Env> {
    env: E,
    video_folder: PathBuf,
    episode_trigger: Option<Trigger>,
    step_trigger: Option<Trigger>,
    /// Number of pictures after which a video ends; `None` if it ends with the episode.
    video_length: Option<usize>,
    name_prefix: String,
    fps: Option<f64>,
    /// Number of episodes begun, and of steps made in all of them.
    episodes: u64,
    steps: u64,
    /// Name and pictures of the video that is being recorded.
    recording: Option<(String, Vec<Frame>)>,
}

impl<E: Env> RecordVideo<E> {
    /// Wraps `env` and creates the folder.
    ///
    /// # Errors
    /// Returns [`Error::Other`] if the folder cannot be created.
    pub fn new(env: E, video_folder: impl Into<PathBuf>) -> Result<Self> {
        let video_folder = video_folder.into();
        fs::create_dir_all(&video_folder).map_err(|error| failed("create", &video_folder, error))?;
        Ok(Self {
            env,
            video_folder,
            episode_trigger: None,
            step_trigger: None,
            video_length: None,
            name_prefix: "rl-video".into(),
            fps: None,
            episodes: 0,
            steps: 0,
            recording: None,
        })
    }

    /// Records the episodes for whose number, counted from 0, `trigger` is true.
    #[must_use]
    pub fn episode_trigger(mut self, trigger: impl Fn(u64) -> bool + Send + 'static) -> Self {
        self.episode_trigger = Some(Box::new(trigger));
        self
    }

    /// Begins a video after each step for whose number `trigger` is true. Steps are counted from 0 over all episodes.
    #[must_use]
    pub fn step_trigger(mut self, trigger: impl Fn(u64) -> bool + Send + 'static) -> Self {
        self.step_trigger = Some(Box::new(trigger));
        self
    }

    /// Ends a video when it has more than `pictures` pictures, as in Gymnasium, also in the middle of an episode or in a
    /// later one. With 0, a video ends with its episode.
    #[must_use]
    pub fn video_length(mut self, pictures: usize) -> Self {
        self.video_length = (pictures > 0).then_some(pictures);
        self
    }

    /// Begins the names of files with `prefix` in place of `rl-video`.
    #[must_use]
    pub fn name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.name_prefix = prefix.into();
        self
    }

    /// Shows `fps` pictures per second, in place of the environment's own rate or of 30.
    #[must_use]
    pub fn fps(mut self, fps: f64) -> Self {
        self.fps = Some(fps);
        self
    }

    /// Returns the inner environment, which is not recorded.
    pub fn inner(&self) -> &E {
        &self.env
    }

    fn begin(&mut self, name: String) -> Result<()> {
        self.end()?;
        self.recording = Some((name, Vec::new()));
        Ok(())
    }

    /// Adds the present picture to the video that is being recorded, if there is one.
    fn capture(&mut self) -> Result<()> {
        let Some((_, frames)) = &mut self.recording else { return Ok(()) };
        let Some(frame) = self.env.render()? else {
            self.recording = None;
            let message = "RecordVideo stands around an environment that draws no pictures; implement `render` for it, or \
                           leave the wrapper out";
            return Err(Error::other(message));
        };
        frames.push(frame);
        let is_full = self.video_length.is_some_and(|most| frames.len() > most);
        if is_full { self.end() } else { Ok(()) }
    }

    /// Writes the video that is being recorded, if there is one.
    fn end(&mut self) -> Result<()> {
        let Some((name, frames)) = self.recording.take() else { return Ok(()) };
        if frames.is_empty() {
            return Ok(());
        }
        let fps = self.fps.or_else(|| self.env.render_fps()).unwrap_or(FPS);
        write_new(&self.video_folder, &name, &encode_gif(&frames, Some(fps))?)
    }
}

/// Whether Gymnasium records an episode by default: cubes below a thousand, and every thousandth.
fn is_cube_or_thousandth(episode: u64) -> bool {
    let is_cube = || (0..10).any(|root: u64| root.pow(3) == episode);
    if episode < 1000 { is_cube() } else { episode.is_multiple_of(1000) }
}

/// Writes `content` to a new file, whose name gets a number if there is one of that name already.
fn write_new(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let mut path = folder.join(format!("{name}.gif"));
    for number in 2.. {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(content).map_err(|error| failed("write", &path, error)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                path = folder.join(format!("{name}-{number}.gif"));
            }
            Err(error) => return Err(failed("write", &path, error)),
        }
    }
    Ok(())
}

fn failed(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::other(format!(
        "RecordVideo cannot {action} {}: {error}; give another `video_folder`",
        path.display()
    ))
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for RecordVideo<E> {
    forward!(
        Obs,
        Act,
        observation_space,
        action_space,
        max_episode_steps,
        action_mask,
        set_task,
        goals,
        info,
        render
    );

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        self.env.reset(seed, obs)?;
        let episode = self.episodes;
        self.episodes += 1;
        if self.video_length.is_none() {
            self.end()?;
        }
        let records = match (&self.episode_trigger, &self.step_trigger) {
            (Some(trigger), _) => trigger(episode),
            (None, Some(_)) => false,
            (None, None) => is_cube_or_thousandth(episode),
        };
        if records {
            self.begin(format!("{}-episode-{episode}", self.name_prefix))?;
        }
        self.capture()
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let step = self.env.step(action, obs)?;
        let number = self.steps;
        self.steps += 1;
        if self.step_trigger.as_ref().is_some_and(|trigger| trigger(number)) {
            self.begin(format!("{}-step-{number}", self.name_prefix))?;
        }
        self.capture()?;
        Ok(step)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &(self.episodes, self.steps))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        (self.episodes, self.steps) = load(TAG, &mut self.env, state, |_| Ok(()))?;
        self.recording = None;
        Ok(())
    }
}

impl<E: Env> Drop for RecordVideo<E> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!("the last video is lost: {error}");
        }
    }
}

impl<E: Env + fmt::Debug> fmt::Debug for RecordVideo<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordVideo")
            .field("env", &self.env)
            .field("video_folder", &self.video_folder)
            .field("is_recording", &self.recording.is_some())
            .finish_non_exhaustive()
    }
}
