//! Several learners that compute the gradient of one batch together, each on some of its pieces.
//!
//! How a batch is cut depends on its rows alone, and the results of its pieces are added up in order, whichever
//! learner computed them. So the gradient has the same bits for any number of learners.

use crate::base::{Result, lock};
use bytemuck::{cast_slice, cast_slice_mut};
use pavlov_processes::Collective;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// One learner's connection to the others.
#[derive(Clone, Debug)]
pub struct Together {
    collective: Arc<dyn Collective>,
    /// The error that ended the connection to the other learners.
    lost: Arc<Mutex<Option<String>>>,
    /// Whether the warning about too small batches was given.
    warned: Arc<AtomicBool>,
}

impl Together {
    /// Makes the connection of one learner from what moves bytes between all of them.
    pub fn new(collective: Arc<dyn Collective>) -> Self {
        Self { collective, lost: Arc::default(), warned: Arc::default() }
    }

    /// Whether this is the trainer's own learner, which continues if the others are lost.
    pub(crate) fn leads(&self) -> bool {
        self.collective.rank() == 0
    }

    /// The error that ended the connection to the other learners, if it has ended.
    pub fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// The range of pieces, out of `pieces`, that this learner computes; `None` if there are fewer pieces than learners,
    /// so that each learner computes all pieces.
    pub(crate) fn own(&self, pieces: usize) -> Option<Range<usize>> {
        let rank = self.collective.rank();
        let learners = self.collective.world_size();
        let first = |rank: usize| rank * pieces / learners;
        if pieces < learners && self.leads() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a batch of {pieces} piece(s) is too small for {learners} learners (`num_learners`): each computes all of it. A \
                 piece has about 256 rows, or 1,024 where libtorch computes: raise `sgd_minibatch_size` or `train_batch_size`"
            );
        }
        (pieces >= learners).then(|| first(rank)..first(rank + 1))
    }

    /// Adds up the pieces of all learners, in order: `add` adds this learner's pieces to the sum of the pieces before.
    /// Every learner gets the whole sum in `sum`.
    pub(crate) fn add_up(&self, sum: &mut [f32], add: impl FnOnce(&mut [f32])) -> Result<()> {
        let rank = self.collective.rank();
        let mut add = Some(add);
        for turn in 0..self.collective.world_size() {
            if let Some(add) = add.take_if(|_| turn == rank) {
                add(sum);
            }
            self.noted(self.collective.broadcast(cast_slice_mut(sum), turn))?;
        }
        Ok(())
    }

    /// Collects the numbers `own` of every learner: one list per learner, in order of the learners.
    pub(crate) fn gather<T: bytemuck::Pod>(&self, own: &[T]) -> Result<Vec<Vec<T>>> {
        let all = self.noted(self.collective.all_gather(cast_slice(own)))?;
        let numbers =
            |bytes: &Vec<u8>| bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        Ok(all.iter().map(numbers).collect())
    }

    fn noted<R>(&self, result: pavlov_processes::Result<R>) -> Result<R> {
        if let Err(error) = &result {
            lock(&self.lost).get_or_insert(error.to_string());
        }
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Learner;
    use crate::base::Spaces;
    use crate::base::{Array, Device};
    use crate::experience::{Column, SampleBatch};
    use crate::layers::Activation;
    use crate::loss::Loss;
    use crate::loss::Rows;
    use crate::nets::{Init, NetBuilder, PolicySpec};
    use crate::params::Rule;
    use pavlov_envs::Space;
    use pavlov_processes::SocketCollective;
    use std::{sync::atomic::AtomicUsize, thread};

    fn batch(rows: i64) -> SampleBatch {
        let numbers: Vec<f32> = (0..rows * 3).map(|i| (i as f32).sin()).collect();
        SampleBatch::default().with(Column::OBS, Array::from_vec(numbers, &[rows, 3]))
    }

    /// The bits of a gradient and of its report, and the number of pieces that the learner computed.
    fn gradient(fused: bool, rows: i64, together: Option<Together>) -> (Vec<u32>, usize) {
        let spec = PolicySpec {
            spaces: Spaces { observation_space: Space::real(&[3]), action_space: Space::discrete(2) },
            own_obs: None,
            seed: 0,
            device: Device::Cpu,
            fused,
            custom_model: None,
            worker_index: 0,
            num_workers: 0,
        };
        let mut net = NetBuilder::new(&spec);
        let lay_out =
            |net: &mut NetBuilder<'_>| Ok(net.dense("out", 3, 2, Activation::Tanh, Init::Normc(1.0)));
        let (_, layer) = net.group("all", Rule::adam(1e-3, 1e-8), lay_out).expect("a group");
        let mut learner: Learner = net.finish().expect("a learner");
        learner.learn_with(together);
        let pieces = AtomicUsize::new(0);
        let report = learner
            .gradient(&batch(rows), |rows: &Rows<'_>| {
                pieces.fetch_add(1, Ordering::Relaxed);
                let out = layer.on(rows.online(), rows.obs()?.obs()).sum_columns();
                let loss = Loss::new(out.square().mean()).mean("mean", out.mean()).max("max", out);
                Ok(loss.explained_variance("explained", out.square(), out).td_errors(out))
            })
            .expect("a gradient");
        let mut all: Vec<f32> = learner.last_gradient().to_vec();
        all.extend(
            ["mean", "max", "explained"].map(|name| report.stats.read(name).expect("a number") as f32),
        );
        all.extend(report.td_errors.expect("errors").to_vec::<f32>());
        (all.into_iter().map(f32::to_bits).collect(), pieces.into_inner())
    }

    /// The results of `gradient` on each of several learners, in order.
    fn gradients(fused: bool, rows: i64, learners: usize) -> Vec<(Vec<u32>, usize)> {
        let world = SocketCollective::world(learners).expect("sockets");
        let take = |one| thread::spawn(move || gradient(fused, rows, Some(Together::new(Arc::new(one)))));
        let all: Vec<_> = world.into_iter().map(take).collect();
        all.into_iter().map(|learner| learner.join().expect("a gradient")).collect()
    }

    #[test]
    fn learners_compute_a_part_of_the_pieces_each_and_all_have_the_gradient_of_one() {
        // libtorch computes the first piece once more, to look for tensors that no group has.
        let engines = [(true, 7 * 256, 0), (false, 7 * 1024, 1)];
        for (fused, rows, more) in engines.into_iter().filter(|(fused, ..)| *fused || cfg!(feature = "torch"))
        {
            let (alone, all) = gradient(fused, rows, None);
            assert_eq!(all, 7 + more);
            let own = gradients(fused, rows, 3).into_iter().map(|(together, own)| {
                assert!(together == alone, "fused {fused}");
                own
            });
            assert_eq!(own.collect::<Vec<_>>(), [2, 2, 3].map(|pieces| pieces + more));
        }
    }

    #[test]
    fn fewer_pieces_than_learners_are_computed_by_each() {
        let (alone, _) = gradient(true, 2 * 256, None);
        assert!(gradients(true, 2 * 256, 3).iter().all(|(bits, pieces)| *bits == alone && *pieces == 2));
    }

    #[test]
    fn the_trainer_computes_what_a_learner_does_not_that_is_gone() {
        let (alone, _) = gradient(true, 7 * 256, None);
        let world = SocketCollective::world(2).expect("sockets");
        let [own, gone] = <[SocketCollective; 2]>::try_from(world).expect("two");
        drop(gone);
        let together = Together::new(Arc::new(own));
        assert!(gradient(true, 7 * 256, Some(together.clone())).0 == alone);
        assert!(together.lost().is_some_and(|reason| reason.contains("worker 1, which is gone")));
    }
}
