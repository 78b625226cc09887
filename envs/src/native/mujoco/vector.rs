//! Copies of a MuJoCo environment, stepped together on one `mjData`.

use std::{ffi::CString, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    batch::{Batch, Failure, Source},
    library, picture,
    shapes::Shapes,
    task::Task,
};
use crate::{
    AnyVectorEnv, DType, Error, Frame, NpRandom, Result, Space, StepOut, ThreadVectorEnv, VectorEnv,
    contract::state, contract::vector::check_actions,
};

/// Largest width and height of a picture, in pixels.
const MAX_PIXELS: u32 = 4096;

/// Copies of a MuJoCo environment, each equal to Gymnasium's bit for bit.
///
/// Values of `info` are those of the last step; if it ended an episode, they are the ended episode's.
#[derive(Debug)]
pub(super) struct MujocoVector {
    id: &'static str,
    task: Arc<dyn Task>,
    batch: Batch,
    /// Version of MuJoCo, for the tag of saved states.
    version: &'static str,
    observation_space: Space,
    action_space: Space,
    limit: u32,
    /// Simulated seconds per step of the environment.
    dt: f64,
    random: Vec<NpRandom>,
    /// Seed of each copy's running episode.
    seeds: Vec<Option<u64>>,
    steps: Vec<u32>,
    /// [`Task::position`] of each copy after the last step.
    positions: Vec<[f64; 2]>,
    /// Values of `info`: one row of `num_envs` per key.
    info: Vec<f64>,
    autoreset: bool,
    /// True after a reset, until an error.
    running: bool,
    shapes: Option<Shapes>,
    /// Buffers for one copy's values of `info`, observation and first state.
    info_row: Vec<f64>,
    obs_row: Vec<f64>,
    start_row: Vec<f64>,
}

/// What a saved state holds of each copy. Ant and Humanoid measure velocities from positions that the simulation's state
/// does not determine.
#[derive(Serialize, Deserialize)]
struct SavedCopy {
    simulation: Vec<f64>,
    position: [f64; 2],
    random: NpRandom,
    seed: Option<u64>,
    steps: u32,
}

/// Makes `num_envs` copies of `id`, divided among the number of threads in the settings.
pub(super) fn make(id: &'static str, task: Arc<dyn Task>, num_envs: usize) -> Result<Box<dyn AnyVectorEnv>> {
    let threads = task.common().num_threads;
    if threads == 0 || threads > num_envs {
        let message = format!("`num_threads` is {threads}, but it must be in 1..={num_envs} (copies)");
        return Err(Error::Config { env: id.into(), message });
    }
    let start = |block: usize| block * num_envs / threads;
    let mut blocks = (0..threads)
        .map(|block| MujocoVector::new(id, Arc::clone(&task), start(block + 1) - start(block)))
        .collect::<Result<Vec<_>>>()?;
    Ok(match blocks.pop() {
        Some(block) if blocks.is_empty() => Box::new(block),
        last => Box::new(ThreadVectorEnv::new(blocks.into_iter().chain(last).collect())?),
    })
}

impl MujocoVector {
    fn new(id: &'static str, task: Arc<dyn Task>, num_envs: usize) -> Result<Self> {
        let common = task.common();
        let refuse = |message: String| Error::Config { env: id.into(), message };
        if common.frame_skip == 0 {
            return Err(refuse("`frame_skip` is 0, but it must be at least 1".into()));
        }
        for (name, value) in [("width", common.width), ("height", common.height)] {
            if value == 0 || value > MAX_PIXELS {
                return Err(refuse(format!("`{name}` is {value}, but it must be in 1..={MAX_PIXELS}")));
            }
        }
        let library = library::find(common.python.as_deref());
        let library = library.map_err(|problem| Error::other(format!("{id}: {problem}")))?;
        let text = super::asset(&common.xml_file).and_then(|text| CString::new(text).ok());
        let source = text.as_deref().map_or(Source::File(&common.xml_file), Source::Text);
        let bad_model = |problem: String| refuse(format!("`xml_file` is {:?}: {problem}", common.xml_file));
        let mut batch =
            Batch::new(library, source, num_envs, task.fields(), &task.bodies()).map_err(bad_model)?;
        let facts = &batch.facts;
        let joints = facts.init_qpos.len().min(facts.init_qvel.len());
        let least = task.least_joints();
        if joints < least {
            let problem =
                format!("the model has {joints} degrees of freedom, but it must have at least {least}");
            return Err(bad_model(problem));
        }
        let dt = facts.timestep * common.frame_skip as f64;
        if facts.ctrl_range.is_empty() {
            return Err(bad_model("the model has no actuators, so there is nothing to decide".into()));
        }
        // In single precision, as in Gymnasium.
        let bounds = |side: usize| -> Vec<f64> {
            facts.ctrl_range.iter().skip(side).step_by(2).map(|&bound| f64::from(bound as f32)).collect()
        };
        let action_space = Space::bounded(&bounds(0), &bounds(1))?;
        let start_row = [facts.init_qpos.as_slice(), &facts.init_qvel].concat();
        batch.start(0, &start_row).map_err(|failure| bad_model(failure.message))?;
        task.check(&batch.sim(0)).map_err(refuse)?;
        let mut obs_row = vec![];
        task.observe(&batch.sim(0), &mut obs_row);
        let keys = task.info_keys().len();
        Ok(Self {
            id,
            version: library.layout.version,
            observation_space: Space::real(&[obs_row.len()]).with_dtype(DType::F64),
            action_space,
            limit: u32::MAX,
            dt,
            random: (0..num_envs).map(|_| NpRandom::from_entropy()).collect(),
            seeds: vec![None; num_envs],
            steps: vec![0; num_envs],
            positions: vec![[0.0; 2]; num_envs],
            info: vec![f64::NAN; keys * num_envs],
            autoreset: true,
            running: false,
            shapes: None,
            info_row: vec![f64::NAN; keys],
            obs_row,
            start_row,
            batch,
            task,
        })
    }

    fn reset_copy(&mut self, i: usize, seed: Option<u64>, obs: &mut [f64]) -> Result<()> {
        if let Some(seed) = seed {
            self.random[i] = NpRandom::new(seed);
        }
        self.seeds[i] = seed;
        self.steps[i] = 0;
        let facts = &self.batch.facts;
        let (qpos, qvel) = self.start_row.split_at_mut(facts.init_qpos.len());
        qpos.copy_from_slice(&facts.init_qpos);
        qvel.copy_from_slice(&facts.init_qvel);
        self.task.start(qpos, qvel, &mut self.random[i]);
        if let Err(failure) = self.batch.start(i, &self.start_row) {
            return Err(self.failed(failure, 0));
        }
        let sim = self.batch.sim(i);
        self.positions[i] = self.task.position(&sim);
        self.obs_row.clear();
        self.task.observe(&sim, &mut self.obs_row);
        obs.copy_from_slice(&self.obs_row);
        Ok(())
    }

    /// Copies `info_row` into column `i` of `info`.
    fn keep_info(&mut self, i: usize) {
        let num_envs = self.steps.len();
        for (row, value) in self.info.chunks_exact_mut(num_envs).zip(&self.info_row) {
            row[i] = *value;
        }
    }

    fn failed(&mut self, Failure { sim, message }: Failure, step: usize) -> Error {
        self.running = false;
        let source = Box::new(Error::other(format!("{}: {message}", self.id)));
        Error::Env { env: sim, seed: self.seeds[sim], step, source }
    }

    fn tag(&self) -> String {
        format!("{} on MuJoCo {}", self.id, self.version)
    }
}

impl VectorEnv for MujocoVector {
    type Obs = f64;
    type Act = f32;

    fn num_envs(&self) -> usize {
        self.steps.len()
    }

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f64]) -> Result<()> {
        self.check_reset(seeds, obs)?;
        let width = self.observation_space.width();
        for (i, row) in obs.chunks_exact_mut(width).enumerate() {
            self.reset_copy(i, seeds.map(|seeds| seeds[i]), row)?;
            self.info_row.fill(f64::NAN);
            self.task.reset_info(&self.batch.sim(i), &mut self.info_row);
            self.keep_info(i);
        }
        self.running = true;
        Ok(())
    }

    fn step(&mut self, actions: &[f32], reset_seeds: Option<&[u64]>, out: StepOut<'_, f64>) -> Result<()> {
        let obs_width = self.observation_space.width();
        let act_width = self.action_space.width();
        out.check(self.steps.len(), obs_width)?;
        check_actions(&self.action_space, self.steps.len(), actions, reset_seeds, || self.id)?;
        if !self.running {
            return Err(Error::other(format!(
                "{} was stepped before an episode; call `reset` first",
                self.id
            )));
        }
        for (i, action) in actions.chunks_exact(act_width).enumerate() {
            let ctrl = self.batch.ctrl_mut(i);
            ctrl.iter_mut().zip(action).for_each(|(ctrl, action)| *ctrl = f64::from(*action));
        }
        if let Err(failure) = self.batch.step(self.task.common().frame_skip) {
            let step = self.steps[failure.sim] as usize + 1;
            return Err(self.failed(failure, step));
        }
        for (i, action) in actions.chunks_exact(act_width).enumerate() {
            let sim = self.batch.sim(i);
            let position = self.task.position(&sim);
            let before = std::mem::replace(&mut self.positions[i], position);
            let velocity = [0, 1].map(|axis| (position[axis] - before[axis]) / self.dt);
            let (reward, terminated) = self.task.reward(&sim, velocity, action, &mut self.info_row);
            self.obs_row.clear();
            self.task.observe(&sim, &mut self.obs_row);
            self.keep_info(i);
            self.steps[i] += 1;
            let truncated = self.steps[i] >= self.limit;
            out.rewards[i] = reward as f32;
            out.terminated[i] = terminated;
            out.truncated[i] = truncated;
            let row = i * obs_width..(i + 1) * obs_width;
            if terminated || truncated {
                out.final_obs[row.clone()].copy_from_slice(&self.obs_row);
            }
            if (terminated || truncated) && self.autoreset {
                self.reset_copy(i, reset_seeds.map(|seeds| seeds[i]), &mut out.obs[row])?;
            } else {
                out.obs[row].copy_from_slice(&self.obs_row);
            }
        }
        Ok(())
    }

    fn info(&self, key: &str) -> Option<&[f64]> {
        let key = self.task.info_keys().iter().position(|known| *known == key)?;
        Some(&self.info[key * self.steps.len()..][..self.steps.len()])
    }

    fn max_episode_steps(&self) -> Option<usize> {
        (self.limit < u32::MAX).then_some(self.limit as usize)
    }

    fn limit_episodes(&mut self, steps: usize) -> bool {
        self.limit = self.limit.min(u32::try_from(steps).unwrap_or(u32::MAX));
        true
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        self.autoreset = autoreset;
        true
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let copy = |i: usize| SavedCopy {
            simulation: self.batch.state(i).to_vec(),
            position: self.positions[i],
            random: self.random[i].clone(),
            seed: self.seeds[i],
            steps: self.steps[i],
        };
        let copies: Vec<_> = (0..self.steps.len()).map(copy).collect();
        Ok(Some(state::save(&self.tag(), &(copies, &self.info, self.running))))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (copies, info, running): (Vec<SavedCopy>, Vec<f64>, bool) = state::load(&self.tag(), state)?;
        state::check_count("copies", copies.len(), self.steps.len())?;
        state::check_count("numbers of info", info.len(), self.info.len())?;
        for (i, SavedCopy { simulation, steps, .. }) in copies.iter().enumerate() {
            let numbers = self.batch.state(i).len();
            if simulation.len() != numbers || !simulation.iter().all(|value| value.is_finite()) {
                return Err(Error::state(format!(
                    "copy {i} has no {numbers} finite numbers of a simulation; it is damaged or of another model"
                )));
            }
            state::check_step(&format!("copy {i}"), *steps as usize, self.limit as usize)?;
        }
        for (i, SavedCopy { simulation, position, random, seed, steps }) in copies.into_iter().enumerate() {
            self.batch.state_mut(i).copy_from_slice(&simulation);
            self.positions[i] = position;
            self.random[i] = random;
            self.seeds[i] = seed;
            self.steps[i] = steps;
        }
        self.info = info;
        self.running = running;
        Ok(())
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        if copy >= self.steps.len() {
            return Err(Error::no_copy(copy, self.steps.len()));
        }
        let failed = |problem: String| Error::other(format!("a picture of {}: {problem}", self.id));
        let shapes = match &mut self.shapes {
            Some(shapes) => shapes,
            none => none.insert(self.batch.shapes().map_err(failed)?),
        };
        let places = shapes.places(self.batch.state(copy)).map_err(failed)?;
        let common = self.task.common();
        let camera = common.default_camera_config.over(self.task.camera(), &places.bodies);
        Ok(Some(picture::draw(shapes, &places, camera, common.width as usize, common.height as usize)))
    }

    fn render_fps(&self) -> Option<f64> {
        Some((1.0 / self.dt).round())
    }
}
