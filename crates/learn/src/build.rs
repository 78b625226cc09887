//! The last step of building a network: parameters, optimizer and engine become a learner.

use crate::base::{Device, Error, Result, Stream};
use crate::engines::{Backend, Fused, libtorch};
use crate::kernels::check_arch;
use crate::learner::Learner;
use crate::nets::{NeedsTorch, NetBuilder};
use crate::params::{Group, Optimizer};
use std::sync::Arc;

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
            needs_torch,
            is_noisy,
            memory_width,
            memory_parts,
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
        let on_fused = spec.fused && needs_torch.is_none() && spec.device == Device::Cpu;
        let mut sets = vec![params.finish((!on_fused).then_some(spec.device))];
        if has_target {
            sets.push(sets[0].duplicate());
        }
        let optimizers = groups
            .iter()
            .map(|group| Optimizer::beside(group.rule.optimizer, sets[0].buffer(), group.range.len()))
            .collect();
        let backend: Box<dyn Backend> = if on_fused {
            check_arch()?;
            Box::new(Fused::new(&encoding))
        } else {
            libtorch(&sets, &encoding, || {
                let NeedsTorch { what, instead } = needs_torch.unwrap_or_else(|| by_settings(spec.device));
                (what, instead)
            })?
        };
        Ok(Learner {
            all: (0..groups.len()).map(Group).collect(),
            gradient: sets[0].buffer().zeros_beside(sets[0].layout().size()),
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
            memory_parts,
            max_seq_len: if memory_width > 0 { max_seq_len } else { 1 },
        })
    }
}

/// The setting that leaves a network to libtorch which the fused engine could compute.
fn by_settings(device: Device) -> NeedsTorch {
    if device == Device::Cpu {
        return NeedsTorch { what: "`model.fused` is false".into(), instead: "Set it to true" };
    }
    NeedsTorch { what: format!("the policy is to compute on {device:?}"), instead: "Set `num_gpus` to 0" }
}
