//! Settings that every MiniGrid environment has, beside those of its task.

use std::{fmt::Display, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use super::{cell::Cell, view::MOST_VIEW};
use crate::WrapperSpec;

/// What MiniGrid's base class takes, and the wrappers around it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Common {
    /// `None`: what the task says.
    pub(super) max_steps: Option<u32>,
    /// `None`: what the task says.
    pub(super) see_through_walls: Option<bool>,
    pub(super) agent_view_size: usize,
    pub(super) highlight: bool,
    pub(super) tile_size: usize,
    pub(super) agent_pov: bool,
    /// Names of wrappers, the innermost first.
    pub(super) wrappers: Vec<WrapperSpec>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            max_steps: None,
            see_through_walls: None,
            agent_view_size: 7,
            highlight: true,
            tile_size: 32,
            agent_pov: false,
            wrappers: Vec::new(),
        }
    }
}

impl Common {
    /// What is wrong with them, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        outside("agent_view_size", self.agent_view_size, 3..=MOST_VIEW)
            .or_else(|| even("agent_view_size", self.agent_view_size as i32))
            .or_else(|| outside("max_steps", self.max_steps.unwrap_or(1), 1..=u32::MAX))
            .or_else(|| outside("tile_size", self.tile_size, TILE_SIZES))
    }
}

/// The longest side of a grid.
pub(super) const MOST_SIDE: i32 = 255;
/// Pixels per side of a field.
pub(super) const TILE_SIZES: RangeInclusive<usize> = 1..=128;

/// What is wrong with a number that must be in a range, if anything is.
pub(super) fn outside<T: Copy + Display + PartialOrd>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Option<String> {
    let (least, most) = (range.start(), range.end());
    (!range.contains(&value)).then(|| format!("`{name}` is {value}, but it must be in {least}..={most}"))
}

/// What is wrong with a number that must be odd, if anything is.
pub(super) fn even(name: &str, value: i32) -> Option<String> {
    (value % 2 == 0).then(|| format!("`{name}` is {value}, but it must be odd"))
}

/// A task with the settings of every task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Settings<T> {
    #[serde(flatten)]
    pub(super) task: T,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// What stands between the agent and the goal.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Obstacle {
    #[default]
    Lava,
    Wall,
}

impl Obstacle {
    pub(super) fn cell(self) -> Cell {
        match self {
            Self::Lava => Cell::LAVA,
            Self::Wall => Cell::WALL,
        }
    }

    pub(super) fn mission(self) -> &'static str {
        match self {
            Self::Lava => "avoid the lava and get to the green goal square",
            Self::Wall => "find the opening and get to the green goal square",
        }
    }
}
