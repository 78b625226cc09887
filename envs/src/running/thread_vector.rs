//! The vector environment that steps blocks of copies on rayon's threads.

use std::fmt;

use crate::{
    Env, Error, Frame, Result, Space, StepOut, SyncVectorEnv, VectorEnv,
    contract::state,
    contract::type_name::short_type_name,
    contract::vector::{check_actions, check_len, mask_width},
    running::info_rows::InfoRows,
};

const TAG: &str = "thread_vector";

/// A vector environment that steps blocks of copies in parallel; the results equal those of a single block, bit for bit.
///
/// Threads pay off if the step of a block takes longer than waking a thread, about ten microseconds. Every block writes
/// straight into the caller's rows.
///
/// A step itself allocates nothing, but rayon's queue allocates a block of memory for every 63 calls from outside its
/// threads.
pub struct ThreadVectorEnv<V: VectorEnv> {
    blocks: Vec<V>,
    info: InfoRows,
    /// Name of the environment, for error messages.
    name: String,
    observation_space: Space,
    action_space: Space,
    num_envs: usize,
    obs_width: usize,
}

impl<E: Env> ThreadVectorEnv<SyncVectorEnv<E>> {
    /// Makes `num_envs` copies with `make` and spreads them over `num_blocks` blocks of nearly equal size.
    ///
    /// # Errors
    /// Returns the error of `make`, or [`Error::Shape`] if `num_blocks` is 0 or above `num_envs`, if the spaces are not
    /// valid, if they differ between copies, or if they do not have the scalar types of `E`.
    pub fn of_env(num_envs: usize, num_blocks: usize, mut make: impl FnMut() -> Result<E>) -> Result<Self> {
        if num_blocks == 0 || num_blocks > num_envs {
            return Err(Error::shape(
                "`num_blocks`",
                num_blocks,
                format_args!("in 1..={num_envs} (`num_envs`)"),
            ));
        }
        let start = |block: usize| block * num_envs / num_blocks;
        let blocks =
            (0..num_blocks).map(|block| SyncVectorEnv::new(start(block + 1) - start(block), &mut make));
        Ok(Self { name: short_type_name::<E>(), ..Self::new(blocks.collect::<Result<_>>()?)? })
    }
}

impl<V: VectorEnv> ThreadVectorEnv<V> {
    /// Joins blocks into one vector environment; the copies are numbered block after block.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if there is no block, if a block has no copies, or if the spaces of blocks differ.
    pub fn new(blocks: Vec<V>) -> Result<Self> {
        let Some(first) = blocks.first() else {
            return Err(Error::shape("`blocks`", "empty", "at least one block"));
        };
        let obs_width = first.observation_space().width();
        for block in &blocks {
            if block.num_envs() == 0 {
                return Err(Error::shape("`num_envs` of a block", 0, "at least 1"));
            }
            if block.observation_space() != first.observation_space()
                || block.action_space() != first.action_space()
            {
                let found = format!("{} to {}", block.observation_space(), block.action_space());
                let expected =
                    format!("{} to {}, as in the first", first.observation_space(), first.action_space());
                return Err(Error::shape("the spaces of a block", found, expected));
            }
        }
        Ok(Self {
            num_envs: blocks.iter().map(V::num_envs).sum(),
            observation_space: first.observation_space().clone(),
            action_space: first.action_space().clone(),
            obs_width,
            blocks,
            info: InfoRows::default(),
            name: "the environment".into(),
        })
    }

    /// Lets every block `write` its masks. Returns false if the first block has none; another block without masks allows
    /// every action.
    fn masks(&self, masks: &mut [bool], write: impl Fn(&V, &mut [bool]) -> bool) -> bool {
        let Some(width) = mask_width(&self.action_space, self.num_envs, masks.len()) else { return false };
        let mut rest = masks;
        for (i, block) in self.blocks.iter().enumerate() {
            let (rows, after) = rest.split_at_mut(block.num_envs() * width);
            match write(block, rows) {
                true => {}
                false if i == 0 => return false,
                false => rows.fill(true),
            }
            rest = after;
        }
        true
    }

    /// Calls `draw` with the block of a copy and the copy's index within that block.
    fn in_block<T>(&mut self, copy: usize, ask: impl FnOnce(&mut V, usize) -> Result<T>) -> Result<T> {
        let mut first = 0;
        for block in self.blocks.iter_mut() {
            if copy < first + block.num_envs() {
                return ask(block, copy - first);
            }
            first += block.num_envs();
        }
        Err(Error::no_copy(copy, self.num_envs))
    }

    /// Checks the actions of all blocks first: no block may step if another one would refuse its actions.
    fn check_inputs(&self, actions: &[V::Act], reset_seeds: Option<&[u64]>) -> Result<()> {
        check_actions(&self.action_space, self.num_envs, actions, reset_seeds, || &self.name)
    }

    fn refresh_info(&mut self) {
        let blocks = &self.blocks;
        self.info.refresh(|key, row| fill_info(blocks, key, row));
    }
}

impl<V: VectorEnv + 'static> VectorEnv for ThreadVectorEnv<V> {
    type Obs = V::Obs;
    type Act = V::Act;

    fn num_envs(&self) -> usize {
        self.num_envs
    }

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [V::Obs]) -> Result<()> {
        check_len("`obs`", obs.len(), self.num_envs, self.obs_width)?;
        check_len("`seeds`", seeds.map_or(self.num_envs, <[u64]>::len), self.num_envs, 1)?;
        reset_blocks(&mut self.blocks, 0, seeds, obs)?;
        self.refresh_info();
        Ok(())
    }

    fn step(
        &mut self,
        actions: &[V::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, V::Obs>,
    ) -> Result<()> {
        out.check(self.num_envs, self.obs_width)?;
        self.check_inputs(actions, reset_seeds)?;
        step_blocks(&mut self.blocks, 0, actions, reset_seeds, out)?;
        self.refresh_info();
        Ok(())
    }

    fn action_masks(&self, masks: &mut [bool]) -> bool {
        self.masks(masks, |block, rows| block.action_masks(rows))
    }

    fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        self.masks(masks, |block, rows| block.final_action_masks(rows))
    }

    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        self.in_block(0, |block, _| block.compute_rewards(achieved_goals, desired_goals, rewards))
    }

    fn info(&self, key: &str) -> Option<&[f64]> {
        self.info.get(key, self.num_envs, |key, row| fill_info(&self.blocks, key, row))
    }

    fn info_value(&mut self, copy: usize, key: &str) -> Result<Option<serde_json::Value>> {
        self.in_block(copy, |block, copy| block.info_value(copy, key))
    }

    fn remarks(&mut self) -> Result<Vec<String>> {
        let all = self.blocks.iter_mut().map(V::remarks).collect::<Result<Vec<_>>>()?;
        Ok(all.concat())
    }

    fn max_episode_steps(&self) -> Option<usize> {
        self.blocks.first()?.max_episode_steps()
    }

    fn limit_episodes(&mut self, steps: usize) -> bool {
        self.blocks.iter_mut().all(|block| block.limit_episodes(steps))
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        self.blocks.iter_mut().all(|block| block.set_autoreset(autoreset))
    }

    fn set_task(&mut self, task: &serde_json::Value) -> Result<()> {
        self.blocks.iter_mut().try_for_each(|block| block.set_task(task))
    }

    fn set_reset_options(&mut self, options: &crate::ResetOptions) -> Result<()> {
        self.blocks.iter_mut().try_for_each(|block| block.set_reset_options(options))
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let blocks = self.blocks.iter().map(V::save_state).collect::<Result<Option<Vec<_>>>>()?;
        Ok(blocks.map(|blocks| state::save(TAG, &blocks)))
    }

    fn can_load_state(&self) -> bool {
        self.blocks.iter().all(VectorEnv::can_load_state)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let saved: Vec<&[u8]> = state::load(TAG, state)?;
        state::check_count("blocks", saved.len(), self.blocks.len())?;
        self.blocks.iter_mut().zip(saved).try_for_each(|(block, saved)| block.load_state(saved))?;
        self.refresh_info();
        Ok(())
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        self.in_block(copy, V::render)
    }

    fn render_fps(&self) -> Option<f64> {
        self.blocks.first()?.render_fps()
    }

    fn render_ansi(&mut self, copy: usize) -> Result<Option<String>> {
        self.in_block(copy, V::render_ansi)
    }
}

impl<V: VectorEnv> fmt::Debug for ThreadVectorEnv<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadVectorEnv")
            .field("num_envs", &self.num_envs)
            .field("observation_space", &self.observation_space)
            .field("action_space", &self.action_space)
            .finish_non_exhaustive()
    }
}

fn fill_info<V: VectorEnv>(blocks: &[V], key: &str, row: &mut [f64]) -> bool {
    let mut rest = row;
    let mut any = false;
    for block in blocks {
        let (rows, after) = rest.split_at_mut(block.num_envs());
        match block.info(key) {
            Some(found) => {
                rows.copy_from_slice(found);
                any = true;
            }
            None => rows.fill(f64::NAN),
        }
        rest = after;
    }
    any
}

/// Resets the blocks in parallel by halving them and their rows until one is left. Splitting slices does not allocate.
fn reset_blocks<V: VectorEnv>(
    blocks: &mut [V],
    first: usize,
    seeds: Option<&[u64]>,
    obs: &mut [V::Obs],
) -> Result<()> {
    if let [block] = blocks {
        return block.reset(seeds, obs).map_err(|error| error.shift_env(first));
    }
    let Halves { left, right, rows } = halve(blocks);
    let width = left[0].observation_space().width();
    let (seeds_left, seeds_right) = split(seeds, rows);
    let (obs_left, obs_right) = obs.split_at_mut(rows * width);
    let (done_left, done_right) = rayon::join(
        || reset_blocks(left, first, seeds_left, obs_left),
        || reset_blocks(right, first + rows, seeds_right, obs_right),
    );
    done_left.and(done_right)
}

fn step_blocks<V: VectorEnv>(
    blocks: &mut [V],
    first: usize,
    actions: &[V::Act],
    reset_seeds: Option<&[u64]>,
    out: StepOut<'_, V::Obs>,
) -> Result<()> {
    if let [block] = blocks {
        return block.step(actions, reset_seeds, out).map_err(|error| error.shift_env(first));
    }
    let Halves { left, right, rows } = halve(blocks);
    let obs_width = left[0].observation_space().width();
    let act_width = left[0].action_space().width();
    let (actions_left, actions_right) = actions.split_at(rows * act_width);
    let (seeds_left, seeds_right) = split(reset_seeds, rows);
    let (out_left, out_right) = out.split_at(rows, obs_width);
    let (done_left, done_right) = rayon::join(
        || step_blocks(left, first, actions_left, seeds_left, out_left),
        || step_blocks(right, first + rows, actions_right, seeds_right, out_right),
    );
    done_left.and(done_right)
}

struct Halves<'a, V> {
    left: &'a mut [V],
    right: &'a mut [V],
    /// Number of copies in the left half.
    rows: usize,
}

fn halve<V: VectorEnv>(blocks: &mut [V]) -> Halves<'_, V> {
    let (left, right) = blocks.split_at_mut(blocks.len() / 2);
    let rows = left.iter().map(V::num_envs).sum();
    Halves { left, right, rows }
}

fn split(seeds: Option<&[u64]>, rows: usize) -> (Option<&[u64]>, Option<&[u64]>) {
    seeds.map(|seeds| seeds.split_at(rows)).unzip()
}
