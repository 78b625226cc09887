//! Settings: Ray's defaults, Ray's keys, the rules with their words, batch arithmetic, seeds, sizes.

mod batches;
mod impala;
mod keys;
mod rules;
mod seeds;
mod sizes;

use pavlov::envs::{EnvCreator, IntoEnvCreator};
use pavlov::prelude::*;
use pavlov::trainer::policy::Spaces;
use pavlov::trainer::{resolve, validate};
use serde_json::Value;

use crate::support::discrete_spaces;

fn object(value: Value) -> Config {
    match value {
        Value::Object(object) => object.into(),
        other => panic!("{other} is no object"),
    }
}

fn cartpole() -> EnvCreator {
    "CartPole-v1".into_env_creator()
}

/// What a sweep, a file or `--set` goes through: overlay, decode, the common rules, the algorithm's rules.
fn configure<T: Trainer>(config: Value, spaces: &Spaces) -> Result<T> {
    let (mut settings, _) = resolve(&T::get_default_config(), &object(config), &cartpole())?;
    validate(&mut settings, spaces)?;
    Ok(settings)
}

fn ppo(config: Value) -> Result<Ppo> {
    configure(config, &discrete_spaces(4, 2))
}

fn dqn(config: Value) -> Result<Dqn> {
    configure(config, &discrete_spaces(4, 2))
}
