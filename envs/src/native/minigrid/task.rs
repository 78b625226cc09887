//! What a task says about itself, and its missions.

use std::fmt::Debug;

use super::{grid::Pos, world::World};
use crate::Result;

/// A task: how a grid is built, and what a step is worth.
pub(super) trait Task: Debug + Send + Sync {
    /// What is wrong with the settings, if anything is.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Columns and rows of the grid.
    fn size(&self) -> Pos;

    /// Steps that an episode may have.
    fn max_steps(&self) -> u32;

    /// Whether walls hide nothing, where MiniGrid's class says so itself: then it is no setting.
    fn see_through_walls(&self) -> Option<bool> {
        None
    }

    /// What the agent can be asked to do.
    fn missions(&self) -> Missions;

    /// How many of the seven actions there are.
    fn num_actions(&self) -> i64 {
        7
    }

    /// Builds an episode on an empty grid without an agent.
    ///
    /// # Errors
    /// Where no place is found for an object.
    fn build(&self, world: &mut World) -> Result<()>;

    /// Takes an action: the reward, and whether the episode terminated.
    fn step(&self, world: &mut World, action: i64) -> (f64, bool) {
        world.act(action)
    }
}

/// Words that stand for one another at a place of a mission.
pub(super) type Words = &'static [&'static str];

/// All missions of a task: a sentence, and the words for each `{}` of it.
///
/// Missions are counted with the last place running fastest.
#[derive(Clone, Debug)]
pub(super) struct Missions {
    sentence: &'static str,
    words: Vec<Words>,
}

/// Names of colours, sorted.
pub(super) const COLORS: Words = &["blue", "green", "grey", "purple", "red", "yellow"];
/// Names of [`THINGS`](super::cell::THINGS).
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

    /// The mission of that number.
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
