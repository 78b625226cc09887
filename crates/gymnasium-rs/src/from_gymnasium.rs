//! An environment of gymnasium-rs as one of pavlov's.

use std::{collections::HashMap, marker::PhantomData};

use gymnasium_rs::core::{self, Info};
use ndarray::Array3;
use pavlov_envs::{Env, Frame, Result, Space, Step};

use crate::{Native, native};

/// A `gymnasium_rs::core::Env` that pavlov can step; `FromGymnasium::<_, f32, i64>::new(env)` takes one whose
/// observations are a `Box` and whose actions are `Discrete`.
///
/// * Their seeds are 31 bits wide: a seed below 2^31 stays as it is, in others the upper bits are folded in.
/// * An end with both flags keeps both, as in Gymnasium.
/// * The numbers of their `info` are found under [`Env::info`].
/// * There is no limit on steps; [`pavlov_envs::wrappers::TimeLimit`] adds one.
/// * Dropping it calls their `close`.
#[derive(Debug)]
pub struct FromGymnasium<E, Obs: Native, Act: Native>
where
    E: core::Env<Obs::Value, Act::Value>,
{
    env: E,
    info: Info,
    scalars: PhantomData<fn() -> (Obs, Act)>,
}

impl<E, Obs: Native, Act: Native> FromGymnasium<E, Obs, Act>
where
    E: core::Env<Obs::Value, Act::Value>,
{
    /// Wraps `env`.
    pub fn new(env: E) -> Self {
        Self { env, info: Info::new(), scalars: PhantomData }
    }
}

impl<E, Obs: Native, Act: Native> Env for FromGymnasium<E, Obs, Act>
where
    E: core::Env<Obs::Value, Act::Value> + Send + 'static,
{
    type Obs = Obs;
    type Act = Act;

    fn observation_space(&self) -> Space {
        native::space(self.env.observation_space())
    }

    fn action_space(&self) -> Space {
        native::space(self.env.action_space())
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [Obs]) -> Result<()> {
        let (found, info) = self.env.reset(seed.map(pavlov_gymnasium_rs_macro::seed), HashMap::new());
        self.info = info;
        Obs::write(&found, obs)
    }

    fn step(&mut self, action: &[Act], obs: &mut [Obs]) -> Result<Step> {
        let (found, reward, terminated, truncated, info) = self.env.step(Act::value(action));
        self.info = info;
        Obs::write(&found, obs)?;
        Ok(Step { reward: reward.into(), terminated, truncated })
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.info.get(key)?.as_f64()
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        let frame = |image: Array3<u8>| pavlov_gymnasium_rs_macro::frame(image.dim(), image.iter().copied());
        self.env.render().map(frame).transpose()
    }
}

impl<E, Obs: Native, Act: Native> Drop for FromGymnasium<E, Obs, Act>
where
    E: core::Env<Obs::Value, Act::Value>,
{
    fn drop(&mut self) {
        self.env.close();
    }
}
