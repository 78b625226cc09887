//! Settings that every MiniGrid environment has, beside those of its task.

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
        let size = self.agent_view_size;
        if size % 2 == 0 || !(3..=MOST_VIEW).contains(&size) {
            return Some(format!("`agent_view_size` is {size}, but it must be odd, from 3 to {MOST_VIEW}"));
        }
        if self.max_steps == Some(0) {
            return Some("`max_steps` is 0, but it must be at least 1".into());
        }
        bad_tile_size(self.tile_size)
    }
}

/// What is wrong with the pixels per side of a field, if anything is.
pub(super) fn bad_tile_size(size: usize) -> Option<String> {
    (!(1..=128).contains(&size)).then(|| format!("`tile_size` is {size}, but it must be in 1..=128"))
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
