//! Gradients of a loss over many rows, on all cores, with the same result on any number of them.
//!
//! A minibatch of 2,048 rows or more is cut into pieces of about 1,024; each piece's gradient is taken by libtorch on
//! one intra-op thread, pieces in parallel, and the pieces' gradients are added in order. libtorch's own threads are
//! not used: they spin at barriers, and when another process holds one of the cores they run tens of times slower,
//! while pieces only wait. A piece also stays in the second-level cache.

use crate::{batch::SampleBatch, error::Result, models::Params};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tch::{Kind, Tensor};

/// Rows per piece, about.
const PIECE: usize = 1024;

/// Named statistics of a loss, each a scalar tensor that nobody has read yet.
pub type LossStats = Vec<(&'static str, Tensor)>;

/// A gradient and the statistics that came with it.
#[derive(Debug)]
pub struct Gradient {
    /// d loss / d parameters, `[total]`.
    pub flat: Tensor,
    /// The names of the statistics.
    pub names: Vec<&'static str>,
    /// Their values, `[names]`: means over the rows.
    pub stats: Tensor,
}

/// One set of autograd leaves per thread over the same parameters.
#[derive(Debug)]
pub struct Shards {
    shards: Vec<Mutex<Params>>,
}

impl Shards {
    /// Leaves for every thread of the pool.
    pub fn new(params: &Params) -> Self {
        let threads = rayon::current_num_threads().max(1);
        Self { shards: (0..threads).map(|_| Mutex::new(params.alias())).collect() }
    }

    /// The gradient of the mean of `loss` over the rows of `batch`.
    ///
    /// `loss` gets a piece of the rows and returns the mean over them; it must not depend on the other rows.
    pub fn gradient<F>(&self, batch: &SampleBatch, loss: F) -> Result<Gradient>
    where
        F: Fn(&Params, &SampleBatch) -> Result<(Tensor, LossStats)> + Sync,
    {
        let rows = batch.rows();
        let pieces = if rows < 2 * PIECE { 1 } else { rows.div_ceil(PIECE) };
        if pieces == 1 {
            let params = self.shards[0].lock().unwrap_or_else(PoisonError::into_inner);
            return piece(&params, batch, 1.0, &loss);
        }
        let bounds: Vec<usize> = (0..=pieces).map(|i| i * rows / pieces).collect();
        // Tensors are Send but not Sync: every piece owns its views.
        let inputs: Vec<Mutex<SampleBatch>> =
            bounds.windows(2).map(|b| Mutex::new(batch.slice(b[0], b[1] - b[0]))).collect();
        let outputs: Vec<Mutex<Option<Result<Gradient>>>> = (0..pieces).map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        rayon::scope(|scope| {
            for shard in self.shards.iter().take(pieces) {
                let (inputs, outputs, next, loss) = (&inputs, &outputs, &next, &loss);
                scope.spawn(move |_| {
                    let params = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    loop {
                        let i = next.fetch_add(1, Relaxed);
                        let Some(input) = inputs.get(i) else { break };
                        let input = input.lock().unwrap_or_else(PoisonError::into_inner);
                        let share = input.rows() as f64 / rows as f64;
                        let result = piece(&params, &input, share, loss);
                        *outputs[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    }
                });
            }
        });
        let mut sum: Option<Gradient> = None;
        for output in outputs {
            let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some(output) = output else { continue };
            let output = output?;
            match &mut sum {
                None => sum = Some(output),
                Some(sum) => {
                    let _ = sum.flat.g_add_(&output.flat);
                    let _ = sum.stats.g_add_(&output.stats);
                }
            }
        }
        Ok(sum.expect("at least two pieces"))
    }
}

fn piece<F>(params: &Params, batch: &SampleBatch, share: f64, loss: &F) -> Result<Gradient>
where
    F: Fn(&Params, &SampleBatch) -> Result<(Tensor, LossStats)>,
{
    let (loss, stats) = loss(params, batch)?;
    let loss = if share == 1.0 { loss } else { loss * share };
    let flat = params.gradient(&loss);
    let _guard = tch::no_grad_guard();
    let names = stats.iter().map(|(name, _)| *name).collect();
    let values: Vec<Tensor> =
        stats.into_iter().map(|(_, value)| value.detach().to_kind(Kind::Float)).collect();
    let mut stats = Tensor::stack(&values, 0);
    if share != 1.0 {
        let _ = stats.g_mul_scalar_(share);
    }
    Ok(Gradient { flat, names, stats })
}

/// `f` over the rows of `x`, in pieces on all cores when there are many; for acting and values, without gradients.
pub fn map_rows<F>(shards: &Shards, x: &Tensor, f: F) -> Result<Tensor>
where
    F: Fn(&Params, &Tensor) -> Tensor + Sync,
{
    let rows = x.size()[0] as usize;
    let on = |shard: &Mutex<Params>, x: &Tensor| {
        let _guard = tch::no_grad_guard();
        f(&shard.lock().unwrap_or_else(PoisonError::into_inner), x)
    };
    if rows < 2 * PIECE {
        return Ok(on(&shards.shards[0], x));
    }
    let pieces = rows.div_ceil(PIECE);
    let inputs: Vec<Mutex<Tensor>> = (0..pieces)
        .map(|i| (i * rows / pieces, (i + 1) * rows / pieces))
        .map(|(start, end)| Mutex::new(x.narrow(0, start as i64, (end - start) as i64)))
        .collect();
    let outputs: Vec<Mutex<Option<Tensor>>> = (0..pieces).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    rayon::scope(|scope| {
        for shard in shards.shards.iter().take(pieces) {
            let (inputs, outputs, next, on) = (&inputs, &outputs, &next, &on);
            scope.spawn(move |_| {
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    let Some(input) = inputs.get(i) else { break };
                    let output = on(shard, &input.lock().unwrap_or_else(PoisonError::into_inner));
                    *outputs[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
                }
            });
        }
    });
    let outputs: Vec<Tensor> =
        outputs.into_iter().filter_map(|o| o.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    Ok(Tensor::cat(&outputs, 0))
}
