//! Settings that all MiniGrid environments have besides those of their task.

use std::{fmt::Display, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use super::{cell::Cell, view::MAX_VIEW};
use crate::WrapperSpec;

/// Settings of MiniGrid's base class, and the wrappers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Common {
    /// Maximum number of steps of an episode; `None` for the task's own.
    pub(super) max_steps: Option<u32>,
    /// Whether the agent sees through walls; `None` for the task's own setting.
    pub(super) see_through_walls: Option<bool>,
    pub(super) agent_view_size: usize,
    pub(super) highlight: bool,
    pub(super) tile_size: usize,
    pub(super) agent_pov: bool,
    /// Wrappers, the innermost first.
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
    /// Returns an error message if a setting is invalid.
    pub(super) fn problem(&self) -> Option<String> {
        outside("agent_view_size", self.agent_view_size, 3..=MAX_VIEW)
            .or_else(|| even("agent_view_size", self.agent_view_size as i32))
            .or_else(|| outside("max_steps", self.max_steps.unwrap_or(1), 1..=u32::MAX))
            .or_else(|| outside("tile_size", self.tile_size, TILE_SIZES))
    }
}

/// Largest width and height of a grid, in fields.
pub(super) const MAX_SIDE: i32 = 255;
/// Range of the setting `tile_size`, in pixels per side of a field.
pub(super) const TILE_SIZES: RangeInclusive<usize> = 1..=128;

/// Returns an error message if `value` is outside `range`.
pub(super) fn outside<T: Copy + Display + PartialOrd>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Option<String> {
    let least = range.start();
    let most = range.end();
    (!range.contains(&value)).then(|| format!("`{name}` is {value}, but it must be in {least}..={most}"))
}

/// Returns an error message if `value` is even.
pub(super) fn even(name: &str, value: i32) -> Option<String> {
    (value % 2 == 0).then(|| format!("`{name}` is {value}, but it must be odd"))
}

/// Settings of a task together with the common ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Settings<T> {
    #[serde(flatten)]
    pub(super) task: T,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// Kind of obstacle between the agent and the goal.
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
