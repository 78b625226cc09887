//! The last step of building a network: parameters, optimizer and engine become a learner.

use crate::base::{Error, Result, Stream};
use crate::learn::engines::{Backend, Fused, Torch};
use crate::learn::kernels::check_arch;
use crate::learn::learner::{Learner, part};
use crate::learn::nets::NetBuilder;
use crate::learn::params::{Group, Optimizer};
use std::sync::Arc;
use tch::Device;

impl NetBuilder<'_> {
    /// Turns the laid out network into a learner.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a parameter belongs to no group.
    pub fn finish(self) -> Result<Learner> {
        let spec = self.spec();
        let encoding = Arc::new(self.encoding());
        let Self {
            params,
            groups,
            has_target,
            target_in_workers,
            fits_fused,
            is_noisy,
            memory_width,
            max_seq_len,
            ..
        } = self;
        let starts = groups.iter().map(|group| group.range.start).chain([params.total()]);
        let ends = std::iter::once(0).chain(groups.iter().map(|group| group.range.end));
        if let Some((end, _)) = ends.zip(starts).find(|(end, start)| end < start) {
            let reason = "it is in no group; lay it out in `NetBuilder::group`, which says how it learns";
            return Err(Error::state(format!("the parameter `{}`", params.name_at(end)), reason));
        }
        let seed = spec.seed;
        let device = spec.device;
        let mut sets = vec![params.finish(device)];
        if has_target {
            sets.push(sets[0].duplicate());
        }
        let optimizers = groups
            .iter()
            .map(|group| Optimizer::new(group.rule.optimizer, &part(sets[0].flat(), group)))
            .collect();
        let backend: Box<dyn Backend> = if spec.fused && fits_fused && device == Device::Cpu {
            check_arch()?;
            Box::new(Fused::new(&encoding))
        } else {
            Box::new(Torch::new(&sets, &encoding))
        };
        Ok(Learner {
            all: (0..groups.len()).map(Group).collect(),
            gradient: sets[0].flat().zeros_like(),
            noise: is_noisy.then(|| Stream::new(seed, "noisy layers", 0)),
            rng: Stream::new(seed, "losses", 0),
            steps: 0,
            timestep: 0,
            out: Vec::new(),
            together: None,
            encoding,
            sets,
            groups,
            optimizers,
            backend,
            target_in_workers,
            memory_width,
            max_seq_len: if memory_width > 0 { max_seq_len } else { 1 },
        })
    }
}
