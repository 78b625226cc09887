//! What a loss sees: the rows of a piece, the network on them, and how both engines load and hand out numbers.

use crate::{
    base::{
        batch::{Column, SampleBatch, Selection},
        error::{Error, Result},
        host,
        rng::Stream,
        stats::Stats,
    },
    learn::{
        engines::tape::Tape,
        nets::{HostWeights, Net, Outputs, Params},
        value::Value,
    },
};
use std::cell::RefCell;
use tch::{Kind, Tensor};

/// What a loss says about a piece of a batch; means over its rows.
#[derive(Debug)]
pub struct Loss<'t> {
    /// What is made smaller.
    pub total: Value<'t>,
    /// Named statistics, each one number: means over the rows, but the least of `min_...` and the largest of `max_...`.
    pub stats: Vec<(&'static str, Value<'t>)>,
    /// The error of each row, for prioritised replay.
    pub td_errors: Option<Value<'t>>,
}

/// What came with a gradient.
#[derive(Debug)]
pub struct Report {
    /// The loss's statistics over all rows.
    pub stats: Stats,
    /// The error of each row.
    pub td_errors: Option<Tensor>,
}

/// A piece of a batch, and the network on it.
#[derive(Debug)]
pub struct Rows<'t> {
    pub(crate) net: &'t Net,
    pub(crate) batch: &'t SampleBatch,
    pub(crate) way: Way<'t>,
}

#[derive(Debug)]
pub(crate) enum Way<'t> {
    Torch { sets: &'t [Params], noise: Option<&'t RefCell<Stream>> },
    Host { weights: &'t [HostWeights<'t>], tape: &'t Tape },
}

impl<'t> Rows<'t> {
    /// A column.
    pub fn get(&self, column: Column) -> Result<Value<'t>> {
        Ok(match self.way {
            Way::Torch { .. } => Value::torch(self.batch.get(column)?.shallow_clone()),
            Way::Host { tape, .. } => Value::host(tape, load(tape, self.batch, column)?),
        })
    }

    /// Whether there is such a column.
    pub fn has(&self, column: Column) -> bool {
        self.batch.has(column)
    }

    /// The network on a column of observations, differentiated.
    pub fn net(&self, column: Column) -> Result<Outputs<'t>> {
        self.outputs(0, column, true)
    }

    /// The network on a column of observations, not differentiated.
    pub fn frozen(&self, column: Column) -> Result<Outputs<'t>> {
        self.outputs(0, column, false)
    }

    /// The target network on a column of observations; an error if the learner has none.
    pub fn target(&self, column: Column) -> Result<Outputs<'t>> {
        let sets = match self.way {
            Way::Torch { sets, .. } => sets.len(),
            Way::Host { weights, .. } => weights.len(),
        };
        if sets < 2 {
            let reason = "it has no target network: make it with `Learner::with_target`";
            return Err(Error::state("the learner", reason));
        }
        self.outputs(1, column, false)
    }

    fn outputs(&self, set: usize, column: Column, learn: bool) -> Result<Outputs<'t>> {
        Ok(match self.way {
            Way::Torch { sets, noise } => {
                self.net.on_torch(&sets[set], self.batch.get(column)?, noise, learn)
            }
            Way::Host { weights, tape } => {
                self.net.on_host(weights[set], tape, load(tape, self.batch, column)?, learn)
            }
        })
    }
}

/// A column's rows, feature by feature.
pub(crate) fn load(tape: &Tape, batch: &SampleBatch, column: Column) -> Result<usize> {
    let source = batch.source(column)?;
    let (cols, rows) = (source.cols, source.rows);
    let contiguous;
    let base = if source.base.is_contiguous() {
        source.base
    } else {
        contiguous = source.base.contiguous();
        &contiguous
    };
    Ok(match base.kind() {
        Kind::Float => fill(tape, host::read::<f32>(base), cols, rows, |x| x),
        Kind::Int64 => fill(tape, host::read::<i64>(base), cols, rows, |x| x as f32),
        _ => fill(tape, host::read::<f32>(&base.to_kind(Kind::Float)), cols, rows, |x| x),
    })
}

/// The same from memory, `cols` numbers per row.
pub(crate) fn fill<T: Copy>(
    tape: &Tape,
    from: &[T],
    cols: usize,
    rows: &Selection,
    number: fn(T) -> f32,
) -> usize {
    let (stride, count) = (tape.stride(), tape.rows());
    tape.leaf(cols, |to: &mut [f32]| {
        for (c, column) in to.chunks_exact_mut(stride).enumerate() {
            let (real, padding) = column.split_at_mut(count);
            match rows {
                Selection::Range(start, _) => {
                    let from = from[start * cols..].chunks_exact(cols.max(1));
                    real.iter_mut().zip(from).for_each(|(to, row)| *to = number(row[c]));
                }
                Selection::Index(list, start, _) => {
                    let list = &list[*start..start + count];
                    real.iter_mut().zip(list).for_each(|(to, &i)| *to = number(from[i as usize * cols + c]));
                }
            }
            padding.fill(real[count - 1]);
        }
    })
}

/// A value of the fused engine, row by row.
pub(crate) fn scatter(value: &Value<'_>, to: &mut [f32]) {
    let (tape, id) = value.as_host().expect("a value of the fused engine");
    let (data, stride) = (tape.data(id), tape.stride());
    let columns = data.len() / stride;
    assert_eq!(to.len(), columns * tape.rows(), "the head has {columns} columns");
    for (r, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        row.iter_mut().enumerate().for_each(|(c, x)| *x = data[c * stride + r]);
    }
}

/// A value of the libtorch engine.
pub(crate) fn tensor(value: &Value<'_>) -> Tensor {
    value.as_torch().map(Tensor::shallow_clone).expect("a value of the libtorch engine")
}
