//! Blocks of a vector environment stepped by rayon's threads.

use crate::{
    Env, Error, Frame, Result, Space, StepOut, SyncVectorEnv, VectorEnv,
    state::{StateReader, StateWriter},
    vector::check_len,
};

const TAG: &str = "thread_vector";

/// Steps blocks of copies in parallel; the results are those of one block, bit for bit.
///
/// Worth its while when a block's step takes longer than waking a thread: some ten microseconds.
#[derive(Debug)]
pub struct ThreadVectorEnv<V> {
    blocks: Vec<V>,
    num_envs: usize,
    obs_width: usize,
    act_width: usize,
}

impl<E: Env> ThreadVectorEnv<SyncVectorEnv<E>> {
    /// Spreads `num_envs` copies made by `make` over `num_blocks` blocks of nearly equal size.
    ///
    /// # Errors
    /// [`Error::Shape`] when `num_blocks` is 0 or above `num_envs`; those of [`SyncVectorEnv::new`].
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
        Self::new(blocks.collect::<Result<_>>()?)
    }
}

impl<V: VectorEnv> ThreadVectorEnv<V> {
    /// Joins blocks; their copies are counted through.
    ///
    /// # Errors
    /// [`Error::Shape`] when there is no block or their spaces differ.
    pub fn new(blocks: Vec<V>) -> Result<Self> {
        let Some(first) = blocks.first() else {
            return Err(Error::shape("`blocks`", "empty", "at least one block"));
        };
        let (obs_width, act_width) = (first.observation_space().width(), first.action_space().width());
        for block in &blocks {
            if block.observation_space() != first.observation_space()
                || block.action_space() != first.action_space()
            {
                let found = format!("{} to {}", block.observation_space(), block.action_space());
                let expected =
                    format!("{} to {}, as in the first", first.observation_space(), first.action_space());
                return Err(Error::shape("the spaces of a block", found, expected));
            }
        }
        let num_envs = blocks.iter().map(V::num_envs).sum();
        Ok(Self { blocks, num_envs, obs_width, act_width })
    }
}

impl<V: VectorEnv> VectorEnv for ThreadVectorEnv<V> {
    type Obs = V::Obs;
    type Act = V::Act;

    fn num_envs(&self) -> usize {
        self.num_envs
    }

    fn observation_space(&self) -> &Space {
        self.blocks[0].observation_space()
    }

    fn action_space(&self) -> &Space {
        self.blocks[0].action_space()
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [V::Obs]) -> Result<()> {
        check_len("`obs`", obs.len(), self.num_envs, self.obs_width)?;
        check_len("`seeds`", seeds.map_or(self.num_envs, <[u64]>::len), self.num_envs, 1)?;
        reset_blocks(&mut self.blocks, 0, seeds, obs)
    }

    fn step(
        &mut self,
        actions: &[V::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, V::Obs>,
    ) -> Result<()> {
        out.check(self.num_envs, self.obs_width)?;
        check_len("`actions`", actions.len(), self.num_envs, self.act_width)?;
        check_len("`reset_seeds`", reset_seeds.map_or(self.num_envs, <[u64]>::len), self.num_envs, 1)?;
        step_blocks(&mut self.blocks, 0, actions, reset_seeds, out)
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let mut state = StateWriter::new(TAG);
        state.u64(self.blocks.len() as u64);
        for block in &self.blocks {
            match block.save_state()? {
                Some(own) => state.bytes(&own),
                None => return Ok(None),
            }
        }
        Ok(Some(state.finish()))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut state = StateReader::new(TAG, state)?;
        state.count("blocks", self.blocks.len())?;
        for block in &mut self.blocks {
            block.load_state(state.bytes()?)?;
        }
        state.finish()
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        let mut first = 0;
        for block in &mut self.blocks {
            if copy < first + block.num_envs() {
                return block.render(copy - first);
            }
            first += block.num_envs();
        }
        Err(Error::no_copy(copy, self.num_envs))
    }
}

/// Halves the blocks and their rows until one is left. Splitting slices allocates nothing.
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
    let (obs_width, act_width) = (left[0].observation_space().width(), left[0].action_space().width());
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
    /// Copies in the left half.
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
