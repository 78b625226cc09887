//! What exports read of a connector.

use crate::policy::Policy;
use crate::sample::connector::Connector;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::transforms::PolicyToEnv;
use pavlov_envs::NpRandom;
use pavlov_learn::base::Result;
use pavlov_learn::loss::Seen;

impl Connector {
    /// The conversion of the policy's actions to the environment's form.
    pub(crate) fn to_env(&self) -> &PolicyToEnv {
        &self.to_env
    }

    /// Number of flags of legal actions per copy; `None` without action masks.
    pub(crate) fn mask_width(&self) -> Option<usize> {
        self.masked.then(|| self.choices().iter().sum())
    }

    /// Number of options of each discrete choice; empty for continuous actions.
    pub(super) fn choices(&self) -> &[usize] {
        match &self.to_env {
            PolicyToEnv::Int { sizes, .. } => sizes,
            PolicyToEnv::Float { .. } => &[],
        }
    }

    /// Number of environment copies.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// What the connector keeps of the running episodes, to be restored later: the recurrent state of all copies, their
    /// exploration noise, and whether their next step begins an episode.
    pub(crate) fn running(&self) -> (Vec<f32>, Vec<f32>, Vec<bool>) {
        (self.memory.clone(), self.noise.clone(), self.resets.clone())
    }

    /// Restores what [`running`](Self::running) returned.
    pub(crate) fn set_running(&mut self, (memory, noise, resets): (Vec<f32>, Vec<f32>, Vec<bool>)) {
        self.memory = memory;
        self.noise = noise;
        self.resets = resets;
    }

    /// Draws random flags of legal actions of all copies, with a legal option in each choice.
    pub(crate) fn draw_masks(&self, masks: &mut [bool], random: &mut NpRandom) {
        let mut first = 0;
        for &n in self.choices().iter().cycle() {
            let Some(options) = masks.get_mut(first..first + n) else { return };
            first += n;
            options.fill_with(|| random.random() < 0.5);
            let legal = (random.random() * n as f64) as usize;
            options[legal.min(n - 1)] = true;
        }
    }

    /// The policy's outputs for the observations of row 0, and the recurrent state after them; the connector's own stays.
    pub(crate) fn outputs(
        &self,
        policy: &mut dyn Policy,
        steps: &mut RolloutBuffer,
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let RolloutBuffer { obs, masks, .. } = steps;
        let mut memory = self.memory.clone();
        let seen = Seen {
            obs: obs.row(0),
            mask: masks.as_mut().map(|masks| &*masks.row(0)),
            memory: &mut memory,
            resets: &self.resets,
            explore: false,
            timestep: u64::MAX,
        };
        let outputs = policy.outputs(seen)?;
        Ok((outputs, memory))
    }
}
