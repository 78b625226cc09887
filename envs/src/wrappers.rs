//! Wrappers: environments around an environment, each of which changes one thing.
//!
//! | wrapper | around | Gymnasium's |
//! |---|---|---|
//! | [`TimeLimit`] | [`Env`] | `TimeLimit` |
//! | [`TimeAwareObservation`], [`RecordVideo`] (GIF files) | [`Env`] | the same |
//! | [`OrderEnforcing`] | [`Env`] | `OrderEnforcing` |
//! | [`RecordEpisodeStatistics`] | [`Env`] | `RecordEpisodeStatistics` |
//! | [`TransformReward`], [`ClipReward`] | [`Env`] or [`VectorEnv`](crate::VectorEnv) | the same |
//! | [`NormalizeReward`], [`NormalizeObservation`] | [`VectorEnv`](crate::VectorEnv) | those of `gymnasium.wrappers.vector` |
//! | [`TransformObservation`] | [`Env`] | the same |
//! | [`FlattenObservation`] | [`Env`] | the same; it makes discrete observations one-hot |
//! | [`FrameStack`] | [`Env`] | `FrameStackObservation` |
//! | [`AtariPreprocessing`] | [`Env`] | the same |
//! | [`MaxAndSkipObservation`] | [`Env`] | the same |
//! | [`GrayscaleObservation`], [`ResizeObservation`], [`ReshapeObservation`] | [`Env`] | the same |
//! | [`RescaleObservation`], [`DtypeObservation`], [`FilterObservation`] | [`Env`] | the same |
//! | [`ClipAction`], [`RescaleAction`], [`TransformAction`], [`StickyAction`] | [`Env`] | the same |
//! | [`ActionMask`] | [`Env`] | PettingZoo's `{"observation", "action_mask"}` |
//!
//! Settings can name most of these wrappers, see [`WrapperSpec`]. To write your own, implement [`Wrapper`];
//! [`register_wrapper`] gives it a name.
//!
//! A saved state of a wrapper holds its own state and that of the inner environment. If the inner environment cannot be
//! saved, neither can the wrapper; a vector environment then replays the episode.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Env, Result, contract::state};

/// Implements the named items of [`Env`] by forwarding to the field `env: E`; `info` stands for `info` and
/// `info_value`, `render` for `render`, `render_fps` and `render_ansi`, `set_task` for `set_task` and `set_reset_options`, `goals` for
/// `compute_rewards`, which `no_goals` hides where observations or rewards become others, and `state` for `save_state` and `load_state`. Wrappers
/// list all items that they do not change: `clippy::missing_trait_methods` refuses one that forgets an item.
macro_rules! forward {
    (@ Obs) => { type Obs = E::Obs; };
    (@ Act) => { type Act = E::Act; };
    (@ observation_space) => { crate::contract::forward::forward_to!(env: fn observation_space(&self) -> crate::Space;); };
    (@ action_space) => { crate::contract::forward::forward_to!(env: fn action_space(&self) -> crate::Space;); };
    (@ reset) => {
        crate::contract::forward::forward_to!(env: fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> crate::Result<()>;);
    };
    (@ max_episode_steps) => { crate::contract::forward::forward_to!(env: fn max_episode_steps(&self) -> Option<usize>;); };
    (@ action_mask) => { crate::contract::forward::forward_to!(env: fn action_mask(&self, mask: &mut [bool]) -> bool;); };
    (@ set_task) => {
        crate::contract::forward::forward_to! {
            env:
            fn set_task(&mut self, task: &serde_json::Value) -> crate::Result<()>;
            fn set_reset_options(&mut self, options: &crate::ResetOptions) -> crate::Result<()>;
        }
    };
    (@ goals) => {
        crate::contract::forward::forward_to! {
            env:
            fn compute_rewards(&mut self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> crate::Result<bool>;
        }
    };
    (@ no_goals) => {
        fn compute_rewards(&mut self, _: &[f64], _: &[f64], _: &mut [f64]) -> crate::Result<bool> {
            Ok(false)
        }
    };
    (@ info) => {
        crate::contract::forward::forward_to! {
            env:
            fn info(&self, key: &str) -> Option<f64>;
            fn info_value(&mut self, key: &str) -> crate::Result<Option<serde_json::Value>>;
        }
    };
    (@ render) => {
        crate::contract::forward::forward_to! {
            env:
            fn render(&mut self) -> crate::Result<Option<crate::Frame>>;
            fn render_fps(&self) -> Option<f64>;
            fn render_ansi(&mut self) -> crate::Result<Option<String>>;
        }
    };
    (@ state) => {
        crate::contract::forward::forward_to! {
            env:
            fn save_state(&self) -> Option<Vec<u8>>;
            fn load_state(&mut self, state: &[u8]) -> crate::Result<()>;
        }
    };
    ($($item:ident),+) => { $(forward!(@ $item);)+ };
}

/// Implements the named items of [`VectorEnv`](crate::VectorEnv) by forwarding to the field `env: V`.
macro_rules! forward_vector {
    (@ Obs) => { type Obs = V::Obs; };
    (@ Act) => { type Act = V::Act; };
    (@ num_envs) => { crate::contract::forward::forward_to!(env: fn num_envs(&self) -> usize;); };
    (@ observation_space) => { crate::contract::forward::forward_to!(env: fn observation_space(&self) -> &crate::Space;); };
    (@ action_space) => { crate::contract::forward::forward_to!(env: fn action_space(&self) -> &crate::Space;); };
    (@ reset) => {
        crate::contract::forward::forward_to!(env: fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [V::Obs]) -> crate::Result<()>;);
    };
    (@ limit_episodes) => {
        crate::contract::forward::forward_to! {
            env:
            fn max_episode_steps(&self) -> Option<usize>;
            fn limit_episodes(&mut self, steps: usize) -> bool;
        }
    };
    (@ set_autoreset) => { crate::contract::forward::forward_to!(env: fn set_autoreset(&mut self, autoreset: bool) -> bool;); };
    (@ set_task) => {
        crate::contract::forward::forward_to! {
            env:
            fn set_task(&mut self, task: &serde_json::Value) -> crate::Result<()>;
            fn set_reset_options(&mut self, options: &crate::ResetOptions) -> crate::Result<()>;
        }
    };
    (@ action_masks) => {
        crate::contract::forward::forward_to! {
            env:
            fn action_masks(&self, masks: &mut [bool]) -> bool;
            fn final_action_masks(&self, masks: &mut [bool]) -> bool;
        }
    };
    (@ goals) => {
        crate::contract::forward::forward_to! {
            env:
            fn compute_rewards(&mut self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> crate::Result<bool>;
        }
    };
    (@ info) => {
        crate::contract::forward::forward_to! {
            env:
            fn info(&self, key: &str) -> Option<&[f64]>;
            fn info_value(&mut self, copy: usize, key: &str) -> crate::Result<Option<serde_json::Value>>;
            fn remarks(&mut self) -> crate::Result<Vec<String>>;
        }
    };
    (@ state) => {
        crate::contract::forward::forward_to! {
            env:
            fn save_state(&self) -> crate::Result<Option<Vec<u8>>>;
            fn can_load_state(&self) -> bool;
            fn load_state(&mut self, state: &[u8]) -> crate::Result<()>;
        }
    };
    (@ render) => {
        crate::contract::forward::forward_to! {
            env:
            fn render(&mut self, copy: usize) -> crate::Result<Option<crate::Frame>>;
            fn render_fps(&self) -> Option<f64>;
            fn render_ansi(&mut self, copy: usize) -> crate::Result<Option<String>>;
        }
    };
    ($($item:ident),+) => { $(forward_vector!(@ $item);)+ };
}

mod action_mask;
mod arguments;
mod atari_preprocessing;
mod built_in;
pub(crate) mod by_name;
mod clip_action;
mod clip_reward;
mod copies_to_wrap;
mod dtype_observation;
mod filter_observation;
mod flatten_observation;
mod frame_stack;
mod grayscale_observation;
mod max_and_skip_observation;
mod named;
mod normalize_observation;
mod normalize_reward;
mod one_by_one;
mod one_copy;
mod order_enforcing;
mod record_episode_statistics;
mod record_video;
mod rescale_action;
mod rescale_observation;
mod reshape_observation;
mod resize_area;
mod resize_observation;
mod running_mean_std;
mod sticky_action;
mod time_aware_observation;
mod time_limit;
mod transform_action;
mod transform_observation;
mod transform_reward;
mod wrapped;
mod wrapped_vector;
mod wrapper;

pub use action_mask::ActionMask;
pub use atari_preprocessing::{AtariConfig, AtariPreprocessing};
pub use by_name::WrapperSpec;
pub use clip_action::ClipAction;
pub use clip_reward::ClipReward;
pub use copies_to_wrap::CopiesToWrap;
pub use dtype_observation::DtypeObservation;
pub use filter_observation::FilterObservation;
pub use flatten_observation::FlattenObservation;
pub use frame_stack::{FrameStack, Padding};
pub use grayscale_observation::GrayscaleObservation;
pub use max_and_skip_observation::MaxAndSkipObservation;
pub use named::register_wrapper;
pub use normalize_observation::NormalizeObservation;
pub use normalize_reward::NormalizeReward;
pub use order_enforcing::OrderEnforcing;
pub use record_episode_statistics::RecordEpisodeStatistics;
pub use record_video::RecordVideo;
pub use rescale_action::RescaleAction;
pub use rescale_observation::RescaleObservation;
pub use reshape_observation::ReshapeObservation;
pub use resize_observation::ResizeObservation;
pub use sticky_action::StickyAction;
pub use time_aware_observation::{TimeAwareConfig, TimeAwareObservation};
pub use time_limit::TimeLimit;
pub use transform_action::TransformAction;
pub use transform_observation::TransformObservation;
pub use transform_reward::TransformReward;
pub use wrapped::Wrapped;
pub use wrapped_vector::WrappedVector;
pub use wrapper::{AnyWrapper, Wrapper};

/// Saves the fields of a wrapper and the state of its environment; `None` if the environment cannot be saved.
fn save(tag: &str, env: &impl Env, own: &impl Serialize) -> Option<Vec<u8>> {
    Some(state::save(tag, &(own, env.save_state()?)))
}

/// Loads a state of [`save`]: checks the wrapper's fields, restores `env`, and returns the fields.
fn load<T: DeserializeOwned>(
    tag: &str,
    env: &mut impl Env,
    state: &[u8],
    check: impl FnOnce(&T) -> Result<()>,
) -> Result<T> {
    let (own, inner): (T, Vec<u8>) = state::load(tag, state)?;
    check(&own)?;
    env.load_state(&inner)?;
    Ok(own)
}
