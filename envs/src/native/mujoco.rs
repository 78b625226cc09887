//! Gymnasium's MuJoCo environments on libmujoco, which is opened at run time.
//!
//! pavlov does not link to MuJoCo and compiles nothing for it: [`library`] opens an installed version that [`layout`] knows.
//! The copies of a vector share one `mjData` ([`batch`], on [`raw`]), and rendering has one more simulation ([`shapes`]); no
//! other file reads MuJoCo's memory. A [`task::Task`], in safe code, gives an environment's start, observation and reward.
//! The models under `assets` are Gymnasium's.

mod ant;
mod arms;
mod batch;
mod humanoid;
mod layout;
mod library;
mod numpy;
mod pendulums;
mod picture;
mod planar;
mod raw;
mod settings;
mod shapes;
mod sim;
mod task;
mod vector;

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::entry::{Entry, limited, spec};
use crate::{EnvConfig, EnvCreator, Error, Result, registry::env_config::decode_config};
use task::Task;

/// The built-in MuJoCo environments, with Gymnasium's time limits and reward thresholds.
pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry::<planar::HalfCheetah>("HalfCheetah-v5", "run in a plane on two legs", 1000, Some(4800.0)),
        entry::<planar::Hopper>("Hopper-v5", "hop forward on one leg without falling", 1000, Some(3800.0)),
        entry::<planar::Walker2d>("Walker2d-v5", "walk in a plane on two legs without falling", 1000, None),
        entry::<planar::Swimmer>("Swimmer-v5", "swim forward by bending two joints", 1000, Some(360.0)),
        entry::<ant::Ant>("Ant-v5", "run on four legs", 1000, Some(6000.0)),
        entry::<humanoid::Humanoid>("Humanoid-v5", "walk on two legs without falling", 1000, None),
        entry::<humanoid::HumanoidStandup>("HumanoidStandup-v5", "stand up from the floor", 1000, None),
        entry::<pendulums::InvertedPendulum>(
            "InvertedPendulum-v5",
            "balance a pole by pushing the cart below it",
            1000,
            Some(950.0),
        ),
        entry::<pendulums::InvertedDoublePendulum>(
            "InvertedDoublePendulum-v5",
            "balance a pole on a pole by pushing the cart below them",
            1000,
            Some(9100.0),
        ),
        entry::<arms::Reacher>("Reacher-v5", "reach a point with an arm of two links", 50, Some(-3.75)),
        entry::<arms::Pusher>("Pusher-v5", "push a cylinder to a goal with an arm", 100, Some(0.0)),
    ]
}

fn entry<T>(id: &'static str, summary: &str, limit: usize, reward_threshold: Option<f64>) -> Entry
where
    T: Task + Default + Serialize + DeserializeOwned + 'static,
{
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let task: T = decode_config(id, config)?;
        refuse_negative_noise(id, config)?;
        vector::make(id, Arc::new(task), num_envs)
    });
    limited(spec(id, &format!("{summary} (MuJoCo)"), Some(limit), reward_threshold), creator)
}

/// Refuses a negative `reset_noise_scale`: numpy does not draw between bounds in the wrong order.
fn refuse_negative_noise(id: &str, config: &EnvConfig) -> Result<()> {
    match config.get("reset_noise_scale").and_then(Value::as_f64) {
        Some(scale) if scale < 0.0 => {
            let message = format!("`reset_noise_scale` is {scale}, but it must be 0 or more");
            Err(Error::Config { env: id.into(), message })
        }
        _ => Ok(()),
    }
}

/// XML text of a model that comes with Gymnasium, by its file name there.
fn asset(name: &str) -> Option<&'static str> {
    macro_rules! assets {
        ($($name:literal),*) => {
            match name {
                $($name => Some(include_str!(concat!("mujoco/assets/", $name))),)*
                _ => None,
            }
        };
    }
    assets!(
        "ant.xml",
        "half_cheetah.xml",
        "hopper.xml",
        "humanoid.xml",
        "humanoidstandup.xml",
        "inverted_double_pendulum.xml",
        "inverted_pendulum.xml",
        "pusher_v5.xml",
        "reacher.xml",
        "swimmer.xml",
        "walker2d_v5.xml"
    )
}
