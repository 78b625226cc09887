//! Acting in some copies while the others wait: their agents take turns, or have left the environment, or another program
//! chooses the action itself.

use crate::policy::{Policy, StepColumns};
use crate::sample::acting_rows::ActingRows;
use crate::sample::connector::Connector;
use crate::sample::connector::choosing::Choices;
use crate::sample::rollout_buffer::RolloutBuffer;
use pavlov_learn::base::Result;
use pavlov_learn::experience::Column;
use std::ops::Range;

impl Connector {
    /// Like [`act`](Self::act), but only for the copies in `gathered`, each by the observation in its row `at[copy]`;
    /// the other copies wait.
    pub(crate) fn act_some(
        &mut self,
        policy: &mut dyn Policy,
        steps: &mut RolloutBuffer,
        gathered: &mut ActingRows,
        at: &[usize],
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let width = self.memory_width;
        let noise_width = self.noise_width;
        for i in 0..gathered.slots.len() {
            let copy = gathered.slots[i];
            std::mem::swap(&mut gathered.rngs[i], &mut self.rngs[copy]);
            gathered.memory[i * width..][..width].copy_from_slice(&self.memory[copy * width..][..width]);
            let noise = &self.noise[copy * noise_width..][..noise_width];
            gathered.noise[i * noise_width..][..noise_width].copy_from_slice(noise);
            if let (Some(own), Some(to)) = (&mut self.state_noise, &mut gathered.state_noise) {
                own.swap(copy, to, i);
            }
            gathered.resets[i] = std::mem::take(&mut self.resets[copy]);
            steps.lend_seen((at[copy], copy), &mut gathered.rows, i);
            if let Some(memories) = &mut steps.memories {
                let memory = &self.memory[copy * width..][..width];
                memories.store_one(at[copy], (copy, self.copies), memory, gathered.resets[i]);
            }
        }
        let acting = gathered.slots.len();
        let (rows, rngs, memory, noise, matrices, resets) = gathered.acting();
        let RolloutBuffer { obs, masks, actions, columns, .. } = rows;
        let actions = actions.bytes_mut(0);
        let bytes = actions.len() / self.copies * acting;
        let choices = Choices {
            mask: masks.as_mut().map(|masks| {
                let flags = masks.options() * acting;
                &masks.row(0)[..flags]
            }),
            memory,
            resets,
            rngs,
            noise,
            matrices,
            actions: &mut actions[..bytes],
            columns: StepColumns {
                names: &self.names,
                rows: columns,
                step: 0,
                acting: (acting, self.copies),
            },
            to_env: &self.to_env,
            worker: self.worker,
            explore,
            timestep,
            random_timesteps: self.random_timesteps,
        };
        let chose = choices.act(policy, obs.row(0).rows(0..acting));
        for i in 0..acting {
            let copy = gathered.slots[i];
            std::mem::swap(&mut gathered.rngs[i], &mut self.rngs[copy]);
            self.memory[copy * width..][..width].copy_from_slice(&gathered.memory[i * width..][..width]);
            let noise = &gathered.noise[i * noise_width..][..noise_width];
            self.noise[copy * noise_width..][..noise_width].copy_from_slice(noise);
            if let (Some(own), Some(from)) = (&mut self.state_noise, &mut gathered.state_noise) {
                own.swap(copy, from, i);
            }
            steps.take_choice((at[copy], copy), &mut gathered.rows, i);
        }
        chose
    }

    /// Makes the buffers for [`act_some`](Self::act_some), with room for all copies.
    pub(crate) fn gathered(&self) -> Result<ActingRows> {
        let rows = ActingRows::new(self.steps(1)?, self.copies, self.memory_width, self.noise_width);
        Ok(ActingRows { state_noise: self.state_noise.clone(), ..rows })
    }

    /// Stores the raw observation of one copy in that copy's part of row `t`; with `learn` the filter counts it, too, but for
    /// the components `absent`, which belong to agents that are not there.
    pub(crate) fn observe_one(
        &mut self,
        steps: &mut RolloutBuffer,
        (t, copy): (usize, usize),
        (raw, absent): (&[u8], &[Range<usize>]),
        learn: bool,
    ) -> Result<()> {
        let row = steps.obs.part_mut(t, copy, self.copies);
        self.preprocess.apply(raw, row)?;
        if let Some(filter) = &mut self.filter {
            filter.apply_one(bytemuck::cast_slice_mut(row), absent, learn);
        }
        Ok(())
    }

    /// The actions of row `t`, converted to the environment's form.
    pub(crate) fn taken<'a>(&'a mut self, steps: &'a mut RolloutBuffer, t: usize) -> &'a [u8] {
        self.to_env.apply(steps.actions.bytes_mut(t))
    }

    /// Index of one of the columns that the policy adds; `None` if it does not add this one.
    pub(crate) fn column(&self, name: Column) -> Option<usize> {
        self.names.iter().position(|&own| own == name)
    }

    /// Converts an action in the environment's form to the policy's form; both are bytes. Fails with a sentence if it is none
    /// of the action space.
    pub(crate) fn to_policy(&self, action: &[u8]) -> std::result::Result<Vec<u8>, String> {
        self.to_env.inverse(&self.spaces.action_space, action)
    }
}
