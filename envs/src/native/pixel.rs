//! pavlov's own small games in pixels, easy enough to learn on a CPU. They compute in integers, so that every machine draws
//! the same pictures.

mod ball;
mod breakout;
mod freeway;
mod pong;
mod screen;
mod snake;
mod t_maze;

pub use breakout::PixelBreakout;
pub use freeway::PixelFreeway;
pub use pong::PixelPong;
pub use snake::PixelSnake;
pub use t_maze::PixelTMaze;

use std::fmt::Debug;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::dynamics::{Dynamics, NativeEnv};
use super::entry::{Entry, single};
use crate::{Error, Frame, NpRandom, Result, Space, Step};
use screen::{SIDE, Screen};

pub(crate) fn entries() -> Vec<Entry> {
    fn game<G: Game>(id: &'static str, summary: &str, limit: usize) -> Entry {
        single(id, summary, Some(limit), None, None, PixelGame::<G>::new)
    }
    vec![
        game::<breakout::Breakout>("PixelBreakout-v0", "break a wall of bricks with a ball, in pixels", 2000),
        game::<freeway::Freeway>("PixelFreeway-v0", "cross a road as often as you can, in pixels", 500),
        game::<pong::Pong>("PixelPong-v0", "get the ball past a slower opponent, in pixels", 2000),
        game::<snake::Snake>("PixelSnake-v0", "eat, grow, and do not bite yourself, in pixels", 1000),
        game::<t_maze::TMaze>(
            "PixelTMaze-v0",
            "remember a cue until the end of a corridor, in pixels: needs a policy with memory",
            100,
        ),
    ]
}

/// Settings of the games in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PixelConfig {
    /// Height and width of the picture in pixels: 42, or 84, where every square of the game is 2 x 2 pixels.
    pub size: usize,
    /// 1 for greyscale, 3 for RGB.
    pub channels: usize,
    /// Probability with which a step repeats the action of the step before instead of its own (ALE's sticky actions). The
    /// first action of an episode is never replaced.
    pub repeat_action_probability: f64,
}

impl Default for PixelConfig {
    fn default() -> Self {
        Self { size: SIDE as usize, channels: 1, repeat_action_probability: 0.0 }
    }
}

impl PixelConfig {
    fn check(&self) -> Result<()> {
        if self.size != SIDE as usize && self.size != 2 * SIDE as usize {
            return Err(Error::shape("`size`", self.size, "42 or 84"));
        }
        if self.channels != 1 && self.channels != 3 {
            return Err(Error::shape("`channels`", self.channels, "1 (greys) or 3 (colours)"));
        }
        if !(0.0..=1.0).contains(&self.repeat_action_probability) {
            return Err(Error::shape(
                "`repeat_action_probability`",
                self.repeat_action_probability,
                "in 0..=1",
            ));
        }
        Ok(())
    }
}

/// The rules of one game, and how it is drawn.
pub trait Game: Clone + Debug + Send + Serialize + DeserializeOwned + 'static {
    /// Name in error messages and at the beginning of saved states.
    const NAME: &'static str;
    /// Number of actions; they are the integers `0..ACTIONS`.
    const ACTIONS: i64;

    /// Starts a new episode.
    fn start(random: &mut NpRandom) -> Self;

    /// Starts a new episode in the memory of the last one.
    fn restart(&mut self, random: &mut NpRandom) {
        *self = Self::start(random);
    }

    /// Draws the whole game on a black screen.
    fn draw(&self, screen: &mut Screen);

    /// Advances the game by one step, and redraws the parts that changed.
    fn advance(&mut self, action: i64, random: &mut NpRandom, screen: &mut Screen) -> Outcome;

    /// A number of the game, as [`Env::info`](crate::Env::info) gives it; `None` if the key is unknown.
    fn info(&self, key: &str) -> Option<f64> {
        let _ = key;
        None
    }

    /// Whether the game, read from a saved state, is one that an episode can continue from.
    fn is_sound(&self) -> bool;
}

/// Reward and termination of one step of a game.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    reward: f64,
    terminated: bool,
}

/// One game in pixels without a time limit; the rules are those of [`PixelBreakout`], [`PixelFreeway`], [`PixelPong`],
/// [`PixelSnake`] or [`PixelTMaze`].
///
/// An observation is a picture of bytes, `[size, size, channels]`, row by row from the top; see [`PixelConfig`]. Games
/// compute in integers and draw from [`NpRandom`]: a seed gives the same pictures on every machine.
pub type PixelGame<G> = NativeEnv<PixelGameDynamics<G>>;

/// Rules and state of a [`PixelGame`]: a game and its screen.
#[derive(Clone, Debug)]
pub struct PixelGameDynamics<G> {
    config: PixelConfig,
    screen: Screen,
    /// The game of this episode; `None` before the first reset.
    game: Option<G>,
    /// Action of the last step; `None` before the first step of an episode.
    last_action: Option<i64>,
}

impl<G: Game> PixelGame<G> {
    /// Makes a game that needs a reset before its first step.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a setting has a value that is not allowed.
    pub fn new(config: PixelConfig) -> Result<Self> {
        config.check()?;
        let screen = Screen::new(config.size / SIDE as usize, config.channels);
        Ok(Self::of(PixelGameDynamics { screen, config, game: None, last_action: None }))
    }
}

impl<G: Game> PixelGameDynamics<G> {
    fn redraw(&mut self) {
        self.screen.clear();
        if let Some(game) = &self.game {
            game.draw(&mut self.screen);
        }
    }
}

impl<G: Game> Dynamics for PixelGameDynamics<G> {
    type Obs = u8;
    type Act = i64;
    type Saved = (Option<i64>, Option<G>);

    fn name(&self) -> &str {
        G::NAME
    }

    fn observation_space(&self) -> Space {
        Space::image(&[self.config.size, self.config.size, self.config.channels])
    }

    fn action_space(&self) -> Space {
        Space::discrete(G::ACTIONS)
    }

    fn takes(&self, action: &[i64]) -> bool {
        matches!(*action, [taken] if (0..G::ACTIONS).contains(&taken))
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [u8]) -> Result<()> {
        match &mut self.game {
            Some(game) => game.restart(random),
            None => self.game = Some(G::start(random)),
        }
        self.last_action = None;
        self.redraw();
        obs.copy_from_slice(self.screen.pixels());
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [u8]) -> Step {
        let probability = self.config.repeat_action_probability;
        let mut taken = action[0];
        // Without sticky actions no random number is drawn here.
        if probability > 0.0
            && let Some(last) = self.last_action
            && random.random() < probability
        {
            taken = last;
        }
        self.last_action = Some(taken);
        let game = self.game.as_mut().expect("an episode runs");
        let Outcome { reward, terminated } = game.advance(taken, random, &mut self.screen);
        obs.copy_from_slice(self.screen.pixels());
        Step { reward, terminated, truncated: false }
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.game.as_ref()?.info(key)
    }

    /// Draws 420 x 420 pixels in RGB, whatever the settings.
    fn draw(&mut self) -> Option<Frame> {
        let mut screen = Screen::new(10, 3);
        if let Some(game) = &self.game {
            game.draw(&mut screen);
        }
        Some(screen.into_frame())
    }

    fn fps(&self) -> f64 {
        15.0
    }

    fn save(&self) -> impl Serialize {
        (self.last_action, &self.game)
    }

    fn load(&mut self, (last_action, game): (Option<i64>, Option<G>), running: bool) -> Result<()> {
        let is_sound = last_action.is_none_or(|action| (0..G::ACTIONS).contains(&action))
            && game.as_ref().is_none_or(G::is_sound)
            && (game.is_some() || !running);
        if !is_sound {
            return Err(Error::state(format!("{game:?} is no game of {}; it is damaged", G::NAME)));
        }
        self.last_action = last_action;
        self.game = game;
        self.redraw();
        Ok(())
    }
}
