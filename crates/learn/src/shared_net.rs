//! [`SharedNet`]: a network whose weights stay, which threads evaluate at the same time.

use crate::Learner;
use crate::base::{Result, Stream, lock};
use crate::engines::{Backend, Fused, libtorch};
use crate::loss::{Input, Net, Observed, Value, refusals};
use crate::params::{Encoding, Params};
use std::sync::{Arc, Mutex};

/// A network without gradients and optimizers, whose weights no longer change. Threads evaluate it at the same time: each
/// call takes an engine out of a pool and puts it back, so no lock is held while a call computes.
#[derive(Debug)]
pub struct SharedNet {
    encoding: Arc<Encoding>,
    memory_width: usize,
    memory_parts: usize,
    is_noisy: bool,
    pool: Mutex<Pool>,
}

/// Engines that no call uses at the moment.
#[derive(Debug)]
struct Pool {
    is_fused: bool,
    /// The weights that a further engine is made with.
    weights: Params,
    spare: Vec<Engine>,
}

/// An engine with the scratch memory of one call.
#[derive(Debug)]
struct Engine {
    /// The weights; all engines in plain memory share the numbers.
    sets: [Params; 1],
    backend: Box<dyn Backend>,
    out: Vec<f32>,
}

impl Learner {
    /// Turns the learner into a network that threads share.
    pub fn into_shared(self) -> SharedNet {
        let memory_width = self.memory_width();
        let is_noisy = self.is_noisy();
        let Self { mut sets, encoding, backend, memory_parts, .. } = self;
        sets.truncate(1);
        let is_fused = backend.name() == "fused";
        let weights = sets.remove(0);
        SharedNet {
            encoding,
            memory_width,
            memory_parts,
            is_noisy,
            pool: Mutex::new(Pool { is_fused, weights, spare: Vec::new() }),
        }
    }
}

impl SharedNet {
    /// Number of scalars of the recurrent state of one row; 0 without recurrent layers.
    #[inline]
    pub fn memory_width(&self) -> usize {
        self.memory_width
    }

    /// Number of equal parts of that state: 2 if it is that of one long short-term memory, else 1.
    #[inline]
    pub fn memory_parts(&self) -> usize {
        self.memory_parts
    }

    /// Whether any layer is noisy.
    #[inline]
    pub fn is_noisy(&self) -> bool {
        self.is_noisy
    }

    /// Computes `head` as [`Learner::evaluate`] does, with the same bits, and hands the numbers to `then`.
    pub fn evaluate<H, R>(
        &self,
        seen: Observed<'_>,
        noise: Option<Stream>,
        columns: usize,
        head: H,
        then: impl FnOnce(&[f32]) -> Result<R>,
    ) -> Result<R>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let rows = seen.obs.len();
        if rows == 0 {
            return then(&[]);
        }
        self.encoding.check(seen.obs.width())?;
        // An engine whose call panics is not put back.
        let mut engine = self.take()?;
        let Engine { sets, backend, out } = &mut engine;
        out.resize(rows * columns, 0.0);
        let done = refusals(|| backend.evaluate(sets, seen, noise, columns, &head, out));
        let done = done.and_then(|()| then(out));
        lock(&self.pool).spare.push(engine);
        done
    }

    fn take(&self) -> Result<Engine> {
        let mut pool = lock(&self.pool);
        if let Some(engine) = pool.spare.pop() {
            return Ok(engine);
        }
        let sets = [pool.weights.shared()];
        let backend: Box<dyn Backend> = if pool.is_fused {
            Box::new(Fused::new(&self.encoding))
        } else {
            // Libtorch built the network, so it is there.
            libtorch(&sets, &self.encoding, || ("the network".into(), "Load it in the default build"))?
        };
        Ok(Engine { sets, backend, out: Vec::new() })
    }
}
