//! The MiniGrid environment: a world, a task in it, and an observer.

use std::{marker::PhantomData, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use super::{
    grid::Grid,
    ids,
    observation::Observer,
    saved::SavedWorld,
    scalar::MiniGridObs,
    settings::Common,
    task::{Missions, Task},
    tiles::Tiles,
    world::{NOWHERE, World},
};
use crate::{
    AnyVectorEnv, EnvConfig, EnvCreator, EnvSpec, Error, Frame, NpRandom, Result, Space, Step,
    native::{
        dynamics::{Dynamics, NativeEnv},
        entry::Entry,
    },
    registry::common_settings::{split_threads, stepped},
};

/// A MiniGrid environment (`MiniGrid-*`), bit for bit equal to MiniGrid 3.2.
///
/// | | |
/// |---|---|
/// | observation | `direction` (0 right, 1 down, 2 left, 3 up), `image` (7 x 7 x 3 bytes: kind, colour and state of the fields ahead, columns first), `mission` (a number, see [`mission_text`](Self::mission_text)) |
/// | actions | 0 left, 1 right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done; `Dynamic-Obstacles` has only the first three |
/// | reward | 1 - 0.9 * steps / `max_steps` for success, otherwise 0; -1 for a collision in `Dynamic-Obstacles` |
/// | terminated | at success, in lava, and where the task ends the episode |
/// | truncated | after `max_steps` steps |
///
/// MiniGrid gives the mission as a text; here it is a number that counts the combinations of its `ordered_placeholders`,
/// the last placeholder fastest. [`info_value("mission")`](crate::Env::info_value) is the text.
///
/// A `MiniGrid<u8>` observes the image alone; an id makes one if `ImgObsWrapper` is the last of the setting `wrappers`.
///
/// Each id has the settings of MiniGrid's class under the same names. All ids have `max_steps`, `agent_view_size`,
/// `see_through_walls` (if MiniGrid's class accepts it), `highlight`, `tile_size`, `agent_pov` and `wrappers`: at most
/// one of `FullyObsWrapper`, `OneHotPartialObsWrapper`, `RGBImgObsWrapper(tile_size=8)` and
/// `RGBImgPartialObsWrapper(tile_size=8)`, optionally followed by `ImgObsWrapper`.
///
/// ```
/// use pavlov_envs::{Env, EnvConfig, native::MiniGrid};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env: MiniGrid = MiniGrid::new("MiniGrid-GoToDoor-5x5-v0", &EnvConfig::new())?;
/// let mut obs = vec![0; env.observation_space().width()];
/// env.reset(Some(0), &mut obs)?;
/// assert_eq!(env.mission_text(obs[148]).as_deref(), Some("go to the green door"));
/// # Ok(())
/// # }
/// ```
pub type MiniGrid<O = i64> = NativeEnv<MiniGridDynamics<O>>;

/// Rules and state of [`MiniGrid`]: a world, a task in it, and an observer.
#[derive(Clone, Debug)]
pub struct MiniGridDynamics<O: MiniGridObs> {
    id: Arc<str>,
    task: Arc<dyn Task>,
    missions: Arc<Missions>,
    world: World,
    observer: Observer,
    /// Tiles for the pictures of `render`.
    tiles: Arc<Tiles>,
    agent_pov: bool,
    of: PhantomData<O>,
}

impl<O: MiniGridObs> MiniGrid<O> {
    /// Creates an environment; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::UnknownEnv`] if MiniGrid has no such id, and [`Error::Config`] if a setting is unknown or out of
    /// range, or if `wrappers` ends with `ImgObsWrapper` and observations are `i64`.
    pub fn new(id: &str, config: &EnvConfig) -> Result<Self> {
        let (task, mut common) = ids::look_up(id, config)?;
        if take_image_wrapper(&mut common) && !O::IMAGE_ONLY {
            let message = "`wrappers` ends with ImgObsWrapper; use MiniGrid<u8> for the image alone".into();
            return Err(Error::Config { env: id.into(), message });
        }
        Self::of_task(id, task, &common)
    }

    fn of_task(id: &str, task: Arc<dyn Task>, common: &Common) -> Result<Self> {
        let refuse = |message: String| Error::Config { env: id.into(), message };
        if let Some(problem) = task.problem().or_else(|| common.problem()) {
            return Err(refuse(problem));
        }
        let see_through_walls = match (task.see_through_walls(), common.see_through_walls) {
            (Some(own), Some(given)) => {
                return Err(refuse(format!(
                    "`see_through_walls` is {given}, but this task is always played with {own}, as in MiniGrid; leave it out"
                )));
            }
            (own, given) => own.or(given).unwrap_or(false),
        };
        let observer = Observer::new(common, see_through_walls, O::IMAGE_ONLY).map_err(refuse)?;
        let (width, height) = task.size();
        let grid = Grid::new(width, height, common.agent_view_size as i32);
        let max_steps = common.max_steps.unwrap_or(task.max_steps());
        Ok(Self::of(MiniGridDynamics {
            id: id.into(),
            missions: Arc::new(task.missions()),
            world: World::new(grid, max_steps),
            observer,
            tiles: Tiles::lazy(common.tile_size),
            agent_pov: common.agent_pov,
            of: PhantomData,
            task,
        }))
    }

    /// Text of the mission with this number, as found in observations; `None` if there is no such mission.
    pub fn mission_text(&self, index: i64) -> Option<String> {
        self.dynamics.missions.text(index)
    }

    /// Number of missions of the task.
    pub fn num_missions(&self) -> i64 {
        self.dynamics.missions.len()
    }
}

impl<O: MiniGridObs> MiniGridDynamics<O> {
    /// Runs `work` on the task and the world, whose random stream is `random` until it returns.
    fn with_random<T>(&mut self, random: &mut NpRandom, work: impl FnOnce(&dyn Task, &mut World) -> T) -> T {
        std::mem::swap(&mut self.world.random, random);
        let done = work(&*self.task, &mut self.world);
        std::mem::swap(&mut self.world.random, random);
        done
    }
}

impl<O: MiniGridObs> Dynamics for MiniGridDynamics<O> {
    type Obs = O;
    type Act = i64;
    type Saved = SavedWorld;

    fn name(&self) -> &str {
        &self.id
    }

    fn observation_space(&self) -> Space {
        self.observer.space(self.task.size(), &self.missions)
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.task.num_actions())
    }

    fn takes(&self, action: &[i64]) -> bool {
        matches!(*action, [taken] if (0..self.task.num_actions()).contains(&taken))
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [O]) -> Result<()> {
        self.with_random(random, |task, world| {
            world.begin();
            task.build(world)
        })?;
        let start = self.world.agent;
        if !self.world.grid.get(start).can_overlap() {
            return Err(Error::other(format!(
                "the agent starts at [{}, {}], where something stands; set another start",
                start.0, start.1
            )));
        }
        self.observer.write(&self.world, obs);
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [O]) -> Step {
        let (reward, terminated) = self.with_random(random, |task, world| task.step(world, action[0]));
        self.observer.write(&self.world, obs);
        Step { reward, terminated, truncated: self.world.steps >= self.world.max_steps }
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.world.max_steps as usize)
    }

    /// `mission` is the text of the mission.
    fn info_value(&self, key: &str) -> Option<Value> {
        (key == "mission").then(|| self.missions.text(self.world.mission)).flatten().map(Value::from)
    }

    /// Draws MiniGrid's `rgb_array` picture, `tile_size` pixels per field; `None` before the first reset.
    fn draw(&mut self) -> Option<Frame> {
        if self.world.agent == NOWHERE {
            return None;
        }
        let (width, height, rgb) = self.observer.render(&self.world, &self.tiles, self.agent_pov);
        Some(Frame { width, height, rgb })
    }

    fn fps(&self) -> f64 {
        10.0
    }

    fn save(&self) -> impl Serialize {
        SavedWorld::of(&self.world)
    }

    fn load(&mut self, saved: SavedWorld, running: bool) -> Result<()> {
        saved.restore(&mut self.world, self.missions.len(), running)
    }
}

/// Returns the registry entries of all MiniGrid ids.
pub(crate) fn entries() -> Vec<Entry> {
    let entry = |spec: EnvSpec| {
        let id = spec.id.clone();
        let creator = EnvCreator::new(id.clone(), move |config, num_envs| make(&id, config, num_envs));
        (spec, creator)
    };
    ids::specs().into_iter().map(entry).collect()
}

fn make(id: &str, config: &EnvConfig, num_envs: usize) -> Result<Box<dyn AnyVectorEnv>> {
    let (config, num_threads) = split_threads::<()>(id, config)?;
    let (task, mut common) = ids::look_up(id, &config)?;
    if take_image_wrapper(&mut common) {
        let env = MiniGrid::<u8>::of_task(id, task, &common)?;
        return stepped(num_envs, num_threads, || Ok(env.clone()));
    }
    let env = MiniGrid::<i64>::of_task(id, task, &common)?;
    stepped(num_envs, num_threads, || Ok(env.clone()))
}

/// Removes `ImgObsWrapper` from the end of the setting `wrappers`. Returns whether it stood there, which means that
/// observations are the image alone.
fn take_image_wrapper(common: &mut Common) -> bool {
    common.wrappers.pop_if(|last| last.name() == "ImgObsWrapper").is_some()
}
