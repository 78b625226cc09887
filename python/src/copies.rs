//! Copies of an environment in one row of blocks, and when those that ended start anew.

mod state;

use pavlov_envs::{AnyVectorEnv, DType, EnvConfig, Frame, ResetOptions, Space, StepOut};
use rayon::prelude::*;

use crate::{
    blocks::{Autoreset, INFO_KEYS, Job, Next, limit_episodes, native, shifted},
    fault::{Fault, Result},
    memory::Memory,
};

/// More copies than any machine steps: a number above it is a slip, and their memory could not be had.
const MAX_COPIES: usize = 1 << 24;

/// Copies of one environment, and the rows that they write.
pub(crate) struct Copies {
    id: String,
    autoreset: Autoreset,
    /// All of one size but the last; of one copy unless copies are reset in the same step.
    blocks: Vec<Box<dyn AnyVectorEnv>>,
    block_len: usize,
    num_envs: usize,
    obs_row: usize,
    act_row: usize,
    next: Vec<Next>,
    threads: Option<Threads>,
    is_running: bool,
    info_keys: Vec<&'static str>,
    pub(crate) obs: Memory,
    /// Last observations; where copies are not reset in the same step, room for new ones.
    pub(crate) final_obs: Memory,
    pub(crate) rewards: Memory,
    pub(crate) terminated: Memory,
    pub(crate) truncated: Memory,
}

struct Threads {
    pool: rayon::ThreadPool,
    /// The process that has them: they do not survive a fork.
    process: u32,
}

impl Copies {
    pub(crate) fn new(
        id: &str,
        config: &EnvConfig,
        num_envs: usize,
        autoreset: Autoreset,
        threads: usize,
        limit: Option<usize>,
    ) -> Result<Self> {
        if num_envs == 0 || num_envs > MAX_COPIES {
            return Err(Fault::config(format!(
                "`num_envs` is {num_envs}, but it must be in 1..={MAX_COPIES}"
            )));
        }
        if threads == 0 || threads > num_envs {
            return Err(Fault::config(format!(
                "`threads` is {threads}, but it must be in 1..={num_envs} (copies)"
            )));
        }
        let block_len = if autoreset == Autoreset::SameStep { num_envs.div_ceil(threads) } else { 1 };
        let spec = native(id)?;
        let make = |first: usize| -> Result<_> {
            let mut block = pavlov_envs::make_vec(id, config, block_len.min(num_envs - first))?;
            if autoreset != Autoreset::SameStep && !block.set_autoreset(false) {
                return Err(Fault::config(format!(
                    "{id} knows no `autoreset_mode` but \"SameStep\"; take that"
                )));
            }
            if let Some(limit) = limit {
                limit_episodes(id, &mut *block, spec.max_episode_steps, limit)?;
            }
            Ok(block)
        };
        let blocks = (0..num_envs).step_by(block_len).map(make).collect::<Result<Vec<_>>>()?;
        let obs_row = blocks[0].observation_space().width() * blocks[0].obs_dtype().size();
        let act_row = blocks[0].action_space().width() * blocks[0].act_dtype().size();
        let pool = |threads| -> Result<_> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool =
                pool.map_err(|error| Fault::config(format!("{threads} `threads` cannot be had: {error}")))?;
            Ok(Threads { pool, process: std::process::id() })
        };
        Ok(Self {
            id: id.to_owned(),
            autoreset,
            block_len,
            num_envs,
            obs_row,
            act_row,
            next: vec![Next::Step; num_envs],
            threads: (threads > 1).then(|| pool(threads)).transpose()?,
            is_running: false,
            info_keys: Vec::new(),
            obs: Memory::new(num_envs * obs_row),
            final_obs: Memory::new(num_envs * obs_row),
            rewards: Memory::new(num_envs * size_of::<f32>()),
            terminated: Memory::new(num_envs),
            truncated: Memory::new(num_envs),
            blocks,
        })
    }

    pub(crate) fn observation_space(&self) -> &Space {
        self.blocks[0].observation_space()
    }

    pub(crate) fn action_space(&self) -> &Space {
        self.blocks[0].action_space()
    }

    pub(crate) fn obs_dtype(&self) -> DType {
        self.blocks[0].obs_dtype()
    }

    pub(crate) fn act_dtype(&self) -> DType {
        self.blocks[0].act_dtype()
    }

    pub(crate) fn render_fps(&self) -> Option<f64> {
        self.blocks[0].render_fps()
    }

    /// Starts episodes in all copies, or in those of `mask`. A copy without a seed continues its own random stream. The
    /// options hold for these episodes only.
    pub(crate) fn reset(
        &mut self,
        seeds: Option<&[Option<u64>]>,
        mask: Option<&[bool]>,
        options: &ResetOptions,
    ) -> Result<()> {
        self.check_process()?;
        for (what, len) in [("`seed`", seeds.map(<[_]>::len)), ("`reset_mask`", mask.map(<[_]>::len))] {
            if len.is_some_and(|len| len != self.num_envs) {
                let problem = format!("{what} has {} entries for {} copies", len.unwrap_or(0), self.num_envs);
                return Err(Fault::config(format!("{problem}; give one for each")));
            }
        }
        if mask.is_some() && self.autoreset == Autoreset::SameStep {
            return Err(Fault::config(
                "`reset_mask` is given, but with `autoreset_mode` \"SameStep\" copies are reset together; make the environment \
                 with \"NextStep\" or \"Disabled\"",
            ));
        }
        if mask.is_some() && !self.is_running {
            return Err(Fault::reset_needed(
                "`reset_mask` is given before the first `reset`, which starts all copies",
            ));
        }
        let none_or_all =
            |seeds: &[Option<u64>]| seeds.iter().all(Option::is_none) || seeds.iter().all(Option::is_some);
        if let Some(seeds) = seeds
            && !seeds.chunks(self.block_len).all(none_or_all)
        {
            return Err(Fault::config("`seed` is None for some copies; give a seed for all or for none"));
        }
        let width = self.obs_row;
        let block_len = self.block_len;
        self.is_running &= mask.is_some();
        let obs = self.obs.bytes();
        let spare = self.final_obs.bytes();
        for (i, block) in self.blocks.iter_mut().enumerate() {
            let first = i * block_len;
            if mask.is_some_and(|mask| !mask[first]) {
                continue;
            }
            let copies = first..first + block.num_envs();
            let bytes = copies.start * width..copies.end * width;
            let seeds: Option<Vec<u64>> =
                seeds.and_then(|seeds| seeds[copies.clone()].iter().copied().collect());
            if seeds.is_none() && options.is_empty() && self.next[first] == Next::Show {
                obs[bytes.clone()].copy_from_slice(&spare[bytes]);
            } else {
                if !options.is_empty() {
                    block.set_reset_options(options)?;
                }
                block.reset(seeds.as_deref(), &mut obs[bytes]).map_err(|error| shifted(error, first))?;
                if !options.is_empty() {
                    block.set_reset_options(&ResetOptions::new())?;
                }
            }
            self.next[copies.clone()].fill(Next::Step);
            self.rewards.floats()[copies.clone()].fill(0.0);
            self.terminated.bools()[copies.clone()].fill(false);
            self.truncated.bools()[copies].fill(false);
        }
        self.is_running = true;
        if self.info_keys.is_empty() {
            self.info_keys = INFO_KEYS.into_iter().filter(|key| self.blocks[0].info(key).is_some()).collect();
        }
        Ok(())
    }

    /// Moves all copies; says whether an episode ended.
    pub(crate) fn step(&mut self, actions: &[u8]) -> Result<bool> {
        self.check_process()?;
        if !self.is_running {
            return Err(Fault::reset_needed(format!(
                "{} is stepped before an episode; call `reset` first",
                self.id
            )));
        }
        if self.autoreset == Autoreset::Disabled
            && let Some(copy) = self.next.iter().position(|next| *next != Next::Step)
        {
            let which = if self.num_envs == 1 { String::new() } else { format!(" of copy {copy}") };
            return Err(Fault::reset_needed(format!(
                "the episode{which} has ended; call `reset` before the next step"
            )));
        }
        if self.blocks.len() > 1 {
            self.check_actions(actions)?;
        }
        let block_len = self.block_len;
        let obs_row = self.obs_row;
        let act_row = self.act_row;
        let same_step = self.autoreset == Autoreset::SameStep;
        let rows = block_len * obs_row;
        let mut jobs = self
            .blocks
            .iter_mut()
            .zip(self.obs.bytes().chunks_mut(rows))
            .zip(self.final_obs.bytes().chunks_mut(rows))
            .zip(self.rewards.floats().chunks_mut(block_len))
            .zip(self.terminated.bools().chunks_mut(block_len))
            .zip(self.truncated.bools().chunks_mut(block_len))
            .zip(self.next.chunks_mut(block_len))
            .zip(actions.chunks(block_len * act_row))
            .enumerate()
            .map(
                |(i, (((((((block, obs), final_obs), rewards), terminated), truncated), next), actions))| {
                    Job {
                        block,
                        first: i * block_len,
                        actions,
                        next,
                        out: StepOut { obs, final_obs, rewards, terminated, truncated },
                    }
                },
            );
        let done = match &self.threads {
            None => jobs.try_for_each(|job| job.run(same_step)),
            Some(threads) => {
                let jobs: Vec<_> = jobs.collect();
                let least = jobs.len().div_ceil(threads.pool.current_num_threads());
                let run = || jobs.into_par_iter().with_min_len(least).try_for_each(|job| job.run(same_step));
                threads.pool.install(run)
            }
        };
        if let Err(error) = done {
            let fault = Fault::from(error);
            self.is_running &= fault.is_refusal();
            return Err(fault);
        }
        Ok(self.terminated.bools().contains(&true) || self.truncated.bools().contains(&true))
    }

    /// Refuses an action that a copy cannot take before any copy moves.
    fn check_actions(&self, actions: &[u8]) -> Result<()> {
        let bad = match self.act_dtype() {
            DType::U8 => self.bad_action::<u8>(actions),
            DType::I64 => self.bad_action::<i64>(actions),
            DType::F32 => self.bad_action::<f32>(actions),
            DType::F64 => self.bad_action::<f64>(actions),
        };
        match bad {
            None => Ok(()),
            Some((copy, action)) => {
                let space = self.action_space();
                Err(Fault::config(format!("action {action} of copy {copy} is not in {space} of {}", self.id)))
            }
        }
    }

    fn bad_action<T: pavlov_envs::Element>(&self, actions: &[u8]) -> Option<(usize, String)> {
        let space = self.action_space();
        let rows = bytemuck::cast_slice::<u8, T>(actions).chunks(space.width());
        let (copy, row) =
            rows.enumerate().find(|(copy, row)| self.next[*copy] == Next::Step && !space.takes(row))?;
        let action = if let [one] = row { format!("{one:?}") } else { format!("{row:?}") };
        Some((copy, action))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether there are masks, also before the first reset.
    pub(crate) fn has_action_masks(&self) -> bool {
        let block = &self.blocks[0];
        block.action_masks(&mut vec![false; block.num_envs() * self.action_space().flat_width()])
    }

    /// Writes which actions are legal, one flag per copy and action; `false` where there are no masks.
    pub(crate) fn action_masks(&self, masks: &mut [bool]) -> bool {
        self.each_mask(masks, |block, masks| block.action_masks(masks))
    }

    /// The masks of the last observations of the episodes that ended in the last step.
    pub(crate) fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        self.each_mask(masks, |block, masks| block.final_action_masks(masks))
    }

    fn each_mask(&self, masks: &mut [bool], write: impl Fn(&dyn AnyVectorEnv, &mut [bool]) -> bool) -> bool {
        let rows = self.block_len * self.action_space().flat_width();
        self.is_running
            && self.blocks.iter().zip(masks.chunks_mut(rows)).all(|(block, masks)| write(&**block, masks))
    }

    /// The names of the numbers in `info`; known after the first reset.
    pub(crate) fn info_keys(&self) -> Vec<&'static str> {
        self.info_keys.clone()
    }

    /// A number of `info` for every copy, NaN for one that has none.
    pub(crate) fn info(&self, key: &str) -> Vec<f64> {
        let rows = self.blocks.iter().map(|block| (block.num_envs(), block.info(key)));
        let rows = rows.map(|(len, row)| row.map_or_else(|| vec![f64::NAN; len], <[f64]>::to_vec));
        rows.collect::<Vec<_>>().concat()
    }

    pub(crate) fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        let (block, copy) = self.block_of(copy)?;
        Ok(block.render(copy)?)
    }

    pub(crate) fn render_ansi(&mut self, copy: usize) -> Result<Option<String>> {
        let (block, copy) = self.block_of(copy)?;
        Ok(block.render_ansi(copy)?)
    }

    fn block_of(&mut self, copy: usize) -> Result<(&mut dyn AnyVectorEnv, usize)> {
        if !self.is_running {
            return Err(Fault::reset_needed(
                "there is nothing to draw before an episode; call `reset` first",
            ));
        }
        let block_len = self.block_len;
        match self.blocks.get_mut(copy / block_len) {
            Some(block) => Ok((&mut **block, copy % block_len)),
            None => Err(Fault::config(format!("there is no copy {copy}, only {}", self.num_envs))),
        }
    }

    fn label(&self) -> String {
        format!(
            "{} with {} copies, {} blocks, {:?}",
            self.id,
            self.num_envs,
            self.blocks.len(),
            self.autoreset
        )
    }

    fn check_process(&self) -> Result<()> {
        match &self.threads {
            Some(threads) if threads.process != std::process::id() => Err(Fault::config(
                "this environment was made before a fork, which its `threads` did not survive; make it in the new process, or \
                 start that by \"spawn\"",
            )),
            _ => Ok(()),
        }
    }
}
