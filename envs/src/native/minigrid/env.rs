//! The MiniGrid environment: a world, a task in it, and an observer.

use std::{marker::PhantomData, sync::Arc};

use super::{
    grid::Grid,
    ids,
    observation::Observer,
    saved,
    scalar::MiniGridObs,
    settings::Common,
    task::{Missions, Task},
    tiles::Tiles,
    world::World,
};
use crate::{
    AnyVectorEnv, Env, EnvConfig, EnvCreator, EnvSpec, Error, Frame, NpRandom, Result, Space, Step,
    native::entry::Entry,
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
/// the last placeholder fastest. A `MiniGrid<u8>` observes the image alone; an id makes one if `ImgObsWrapper` is the last of
/// the setting `wrappers`.
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
#[derive(Clone, Debug)]
pub struct MiniGrid<O: MiniGridObs = i64> {
    id: Arc<str>,
    task: Arc<dyn Task>,
    missions: Arc<Missions>,
    world: World,
    observer: Observer,
    /// Tiles for the pictures of `render`.
    tiles: Arc<Tiles>,
    agent_pov: bool,
    /// Whether an episode was started by `reset`.
    running: bool,
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
        Ok(Self {
            id: id.into(),
            missions: Arc::new(task.missions()),
            world: World::new(grid, max_steps),
            observer,
            tiles: Tiles::lazy(common.tile_size),
            agent_pov: common.agent_pov,
            running: false,
            of: PhantomData,
            task,
        })
    }

    /// Text of the mission with this number, as found in observations; `None` if there is no such mission.
    pub fn mission_text(&self, index: i64) -> Option<String> {
        self.missions.text(index)
    }

    /// Number of missions of the task.
    pub fn num_missions(&self) -> i64 {
        self.missions.len()
    }
}

impl<O: MiniGridObs> Env for MiniGrid<O> {
    type Obs = O;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.observer.space(self.task.size(), &self.missions)
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.task.num_actions())
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        match seed {
            Some(seed) => self.world.random = NpRandom::new(seed),
            // Seeded here, not in `new`, so that clones do not share a random stream.
            None if !self.running => self.world.random = NpRandom::from_entropy(),
            None => {}
        }
        self.running = false;
        self.world.begin();
        self.task.build(&mut self.world)?;
        let start = self.world.agent;
        if !self.world.grid.get(start).can_overlap() {
            return Err(Error::other(format!(
                "the agent starts at [{}, {}], where something stands; set another start",
                start.0, start.1
            )));
        }
        self.running = true;
        self.observer.write(&self.world, obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [O]) -> Result<Step> {
        let taken = match *action {
            [taken] if (0..self.task.num_actions()).contains(&taken) => taken,
            _ => return Err(Error::invalid_action(&self.id, action, &self.action_space())),
        };
        if !self.running {
            return Err(Error::other(format!(
                "{} was stepped before an episode; call `reset` first",
                self.id
            )));
        }
        let (reward, terminated) = self.task.step(&mut self.world, taken);
        self.observer.write(&self.world, obs);
        Ok(Step { reward, terminated, truncated: self.world.steps >= self.world.max_steps })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.world.max_steps as usize)
    }

    fn render_fps(&self) -> Option<f64> {
        Some(10.0)
    }

    /// Draws MiniGrid's `rgb_array` picture, `tile_size` pixels per field; `None` before the first reset.
    fn render(&mut self) -> Result<Option<Frame>> {
        if !self.running {
            return Ok(None);
        }
        let (width, height, rgb) = self.observer.render(&self.world, &self.tiles, self.agent_pov);
        Ok(Some(Frame { width, height, rgb }))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(saved::save(&self.id, &self.world, self.running))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.running = saved::load(&self.id, &mut self.world, self.missions.len(), state)?;
        Ok(())
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
