//! Where the vectors under test write.

use pavlov_envs::StepOut;

/// Rows of a vector environment.
pub(crate) struct Rows<O> {
    pub(crate) obs: Vec<O>,
    pub(crate) final_obs: Vec<O>,
    pub(crate) rewards: Vec<f32>,
    pub(crate) terminated: Vec<bool>,
    pub(crate) truncated: Vec<bool>,
}

impl<O: Default + Clone> Rows<O> {
    pub(crate) fn new(n: usize, width: usize) -> Self {
        Self::filled(n, width, O::default())
    }
}

impl<O: Clone> Rows<O> {
    pub(crate) fn filled(n: usize, width: usize, value: O) -> Self {
        Self {
            obs: vec![value.clone(); n * width],
            final_obs: vec![value; n * width],
            rewards: vec![f32::NAN; n],
            terminated: vec![false; n],
            truncated: vec![false; n],
        }
    }

    pub(crate) fn out(&mut self) -> StepOut<'_, O> {
        StepOut {
            obs: &mut self.obs,
            final_obs: &mut self.final_obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
        }
    }
}
