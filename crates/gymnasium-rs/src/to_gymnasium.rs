//! An environment of pavlov's as one of gymnasium-rs.

use std::cell::RefCell;

use gymnasium_rs::core::{self, Info, Options, Reward};
use ndarray::Array3;
use pavlov_envs::{Env, Error, Frame, Result, Step};

use crate::Native;

/// A [`pavlov_envs::Env`] that speaks gymnasium-rs: `Array1<f32>` for `f32` rows, `i32` for discrete ones.
///
/// * An episode is cut after [`Env::max_episode_steps`], as pavlov's vector environments do.
/// * Seeds are taken as they are; a negative one as its 32 bits. `options` are not read.
/// * Discrete actions must be in the space, others finite, as pavlov's vector environments ask.
/// * gymnasium-rs has no errors: an error of the environment, or an action that it cannot take, ends the
///   episode as truncated with reward 0 and the last observation, and `info["error"]` holds its text.
///
/// ```
/// use gymnasium_rs::core::Env;
/// use pavlov_envs::native::CartPole;
/// use pavlov_gymnasium_rs::ToGymnasium;
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env = ToGymnasium::new(CartPole::new(Default::default()))?;
/// // Gymnasium's CartPole-v1 starts here too with seed 42.
/// let (obs, _info) = env.reset_seed(42);
/// assert_eq!(obs.to_vec(), [0.027395604, -0.006112156, 0.035859793, 0.019736802]);
/// let (_obs, reward, terminated, truncated, _info) = env.step(1);
/// assert_eq!((reward, terminated, truncated), (1.0, false, false));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ToGymnasium<E: Env> {
    /// Rendering takes `&mut self` there and `&self` here.
    env: RefCell<E>,
    action_space: pavlov_envs::Space,
    spaces: [core::Space; 2],
    obs: Vec<E::Obs>,
    action: Vec<E::Act>,
    step: usize,
}

impl<E: Env> ToGymnasium<E>
where
    E::Obs: Native,
    E::Act: Native,
{
    /// Wraps `env`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a space that gymnasium-rs has no word for: it knows `Box` and `Discrete` from 0.
    pub fn new(env: E) -> Result<Self> {
        let observation_space = env.observation_space();
        let action_space = env.action_space();
        let unsupported = |space: &pavlov_envs::Space| Error::Unsupported {
            env: "gymnasium-rs".into(),
            what: "space like that of this environment",
            way_out: if matches!(space, pavlov_envs::Space::Box { .. }) {
                "use rows of f32"
            } else {
                "it knows Box and Discrete from 0"
            },
        };
        let spaces = [
            E::Obs::space(&observation_space).ok_or_else(|| unsupported(&observation_space))?,
            E::Act::space(&action_space).ok_or_else(|| unsupported(&action_space))?,
        ];
        Ok(Self {
            obs: vec![E::Obs::default(); observation_space.width()],
            action: vec![E::Act::default(); action_space.width()],
            env: RefCell::new(env),
            action_space,
            spaces,
            step: 0,
        })
    }

    fn try_step(&mut self, action: &<E::Act as Native>::Value) -> Result<Step> {
        E::Act::write(action, &mut self.action)?;
        let env = self.env.get_mut();
        if !self.action_space.takes(&self.action) {
            let action = match &self.action[..] {
                [one] => format!("{one:?}"),
                many => format!("{many:?}"),
            };
            let space = Box::new(self.action_space.clone());
            return Err(Error::InvalidAction { env: "gymnasium-rs".into(), action, space });
        }
        let step = env.step(&self.action, &mut self.obs)?;
        self.step += 1;
        let limit = env.max_episode_steps().is_some_and(|limit| self.step >= limit);
        Ok(Step { truncated: step.truncated || limit, ..step })
    }
}

impl<E: Env> core::Env<<E::Obs as Native>::Value, <E::Act as Native>::Value> for ToGymnasium<E>
where
    E::Obs: Native,
    E::Act: Native,
{
    fn observation_space(&self) -> core::Space {
        self.spaces[0].clone()
    }

    fn action_space(&self) -> core::Space {
        self.spaces[1].clone()
    }

    fn reset(&mut self, seed: Option<i32>, _options: Options) -> (<E::Obs as Native>::Value, Info) {
        self.step = 0;
        let done = self.env.get_mut().reset(seed.map(|seed| u64::from(seed as u32)), &mut self.obs);
        (E::Obs::value(&self.obs), info(done.err()))
    }

    fn step(
        &mut self,
        action: <E::Act as Native>::Value,
    ) -> (<E::Obs as Native>::Value, Reward, bool, bool, Info) {
        let (step, error) = match self.try_step(&action) {
            Ok(step) => (step, None),
            Err(error) => (Step { truncated: true, ..Step::default() }, Some(error)),
        };
        let Step { reward, terminated, truncated } = step;
        (E::Obs::value(&self.obs), reward as Reward, terminated, truncated, info(error))
    }

    fn render(&self) -> Option<Array3<u8>> {
        let Frame { width, height, rgb } = self.env.borrow_mut().render().ok()??;
        Array3::from_shape_vec((height, width, 3), rgb).ok()
    }

    fn close(&mut self) {}
}

fn info(error: Option<Error>) -> Info {
    error.map(|error| ("error".to_owned(), error.to_string().into())).into_iter().collect()
}
