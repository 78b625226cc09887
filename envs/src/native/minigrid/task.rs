//! The [`Task`] trait and the missions of a task.

use std::fmt::Debug;

use super::{grid::Pos, world::World};
use crate::Result;

/// A task: builds the grid and rewards the steps.
pub(super) trait Task: Debug + Send + Sync {
    /// Returns an error message if a setting is invalid.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Width and height of the grid, in fields.
    fn size(&self) -> Pos;

    /// Maximum number of steps of an episode.
    fn max_steps(&self) -> u32;

    /// Whether the agent sees through walls; `None` if this is a setting in MiniGrid.
    fn see_through_walls(&self) -> Option<bool> {
        None
    }

    /// All missions of the task.
    fn missions(&self) -> Missions;

    /// Number of available actions, the first ones of MiniGrid's seven.
    fn num_actions(&self) -> i64 {
        7
    }

    /// Builds an episode on an empty grid without an agent.
    ///
    /// # Errors
    /// Returns an error if no place is found for an object or the agent.
    fn build(&self, world: &mut World) -> Result<()>;

    /// Applies an action; returns the reward and whether the episode terminated.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        world.act(action)
    }
}

/// Alternative words for one placeholder of a mission.
pub(super) type Words = &'static [&'static str];

/// All missions of a task: a sentence, and the alternative words for each `{}` in it.
///
/// A mission's number counts the combinations of words; the last placeholder runs fastest.
#[derive(Clone, Debug)]
pub(super) struct Missions {
    sentence: &'static str,
    words: Vec<Words>,
}

/// Names of the colours, sorted.
pub(super) const COLORS: Words = &["blue", "green", "grey", "purple", "red", "yellow"];
/// Names of the kinds in [`THINGS`](super::cell::THINGS).
pub(super) const THING_NAMES: Words = &["key", "ball", "box"];

impl Missions {
    pub(super) fn one(sentence: &'static str) -> Self {
        Self { sentence, words: Vec::new() }
    }

    pub(super) fn of(sentence: &'static str, words: &[Words]) -> Self {
        Self { sentence, words: words.to_vec() }
    }

    pub(super) fn len(&self) -> i64 {
        self.words.iter().map(|words| words.len() as i64).product()
    }

    /// Text of mission number `index`; `None` if there is no such mission.
    pub(super) fn text(&self, index: i64) -> Option<String> {
        if !(0..self.len()).contains(&index) {
            return None;
        }
        let mut below = self.len();
        let mut rest = index;
        let mut parts = self.sentence.split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, words) in parts.zip(&self.words) {
            below /= words.len() as i64;
            text += words[(rest / below) as usize];
            rest %= below;
            text += part;
        }
        Some(text)
    }
}
