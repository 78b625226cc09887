//! Experience as named columns.

use crate::base::{Array, Error, Result, State, Stream, array, host};
use crate::experience::columns::Column;
use crate::experience::trajectories;
use crate::experience::trajectories::Trajectory;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use std::cell::OnceCell;
use std::sync::Arc;
use tch::{Device, Kind, Tensor, kind};

/// Experience as named columns of equal length: row `i` of all columns is one transition.
///
/// Slices and selections share the memory of the columns and store indices of rows. [`get`](Self::get) copies the
/// selected rows of a column; the fused engine of [`learner`](crate::learn::learner) reads them without a copy.
///
/// In batches of recurrent policies the rows form consecutive sequences, which [`slice`](Self::slice) and
/// [`select_sequences`](Self::select_sequences) never cut; some columns have one row per sequence.
#[derive(Debug, Default)]
pub struct SampleBatch {
    columns: Vec<Stored>,
    /// Number of rows of each sequence; `None` if the rows form no sequences.
    sequences: Option<Vec<usize>>,
    /// The trajectories of the rows, if they are known.
    pub(super) cuts: Option<Box<Cuts>>,
}

/// The trajectories of a batch's rows, and the observation after each trajectory that was cut.
#[derive(Debug)]
pub(crate) struct Cuts {
    pub(super) pieces: Vec<Trajectory>,
    /// One row for each trajectory that was cut, in order: the observation after the cut.
    pub(super) behind: SampleBatch,
}

/// A column of a batch: the tensor it is taken from, the number of scalars per row, and the rows that belong to it.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) base: &'a Tensor,
    pub(crate) cols: usize,
    pub(crate) rows: &'a Selection,
}

#[derive(Debug)]
struct Stored {
    column: Column,
    /// Whether the column has one row per sequence instead of one per transition.
    per_sequence: bool,
    base: Tensor,
    cols: usize,
    rows: Selection,
    /// The rows that belong to the batch as a tensor, made when they are first asked for.
    ready: OnceCell<Tensor>,
}

/// The rows of a column that belong to a batch.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// `Range(start, len)`: the rows `start..start + len` of the column.
    Range(usize, usize),
    /// `Index(list, start, len)`: the rows whose indices are `list[start..start + len]`.
    Index(Arc<[i64]>, usize, usize),
}

impl Selection {
    fn len(&self) -> usize {
        match self {
            Self::Range(_, len) | Self::Index(_, _, len) => *len,
        }
    }

    fn slice(&self, from: usize, len: usize) -> Self {
        assert!(from + len <= self.len(), "rows {from}..{} of {}", from + len, self.len());
        match self {
            Self::Range(start, _) => Self::Range(start + from, len),
            Self::Index(list, start, _) => Self::Index(Arc::clone(list), start + from, len),
        }
    }
}

impl Stored {
    fn new(column: Column, base: Tensor) -> Self {
        let shape = base.size();
        let rows = Selection::Range(0, shape[0] as usize);
        let cols = shape[1..].iter().product::<i64>() as usize;
        Self { column, per_sequence: false, base, cols, rows, ready: OnceCell::new() }
    }

    fn with_rows(&self, rows: Selection) -> Self {
        let Self { column, per_sequence, cols, .. } = *self;
        Self { column, per_sequence, base: self.base.shallow_clone(), cols, rows, ready: OnceCell::new() }
    }

    /// Selects rows of this selection, by their positions `index` in it.
    fn at(&self, index: &Arc<[i64]>) -> Self {
        let whole = Stored::new(self.column, self.tensor().shallow_clone());
        let rows = Selection::Index(Arc::clone(index), 0, index.len());
        Self { per_sequence: self.per_sequence, ..whole.with_rows(rows) }
    }

    fn tensor(&self) -> &Tensor {
        match &self.rows {
            Selection::Range(0, len) if *len == self.base.size()[0] as usize => &self.base,
            Selection::Range(start, len) => {
                self.ready.get_or_init(|| self.base.narrow(0, *start as i64, *len as i64))
            }
            Selection::Index(list, start, len) => self.ready.get_or_init(|| {
                let index = Tensor::from_slice(&list[*start..start + len]);
                self.base.index_select(0, &index.to_device(self.base.device()))
            }),
        }
    }
}

impl SampleBatch {
    /// The number of transitions.
    pub fn rows(&self) -> usize {
        self.columns.iter().find(|c| !c.per_sequence).map_or(0, |c| c.rows.len())
    }

    /// Number of rows of each sequence; `None` if the rows form no sequences.
    pub fn sequences(&self) -> Option<&[usize]> {
        self.sequences.as_deref()
    }

    /// Declares that the rows form sequences of these lengths, and adds a column with one row per sequence.
    ///
    /// # Panics
    /// Panics if the lengths do not add up to the number of rows, or `data` has not one row per sequence.
    #[must_use]
    pub fn with_sequences(mut self, lengths: Vec<usize>, column: Column, data: Tensor) -> Self {
        assert_eq!(lengths.iter().sum::<usize>(), self.rows(), "rows of all sequences");
        assert_eq!(lengths.len() as i64, data.size()[0], "rows of `{}`", column.name());
        self.columns.push(Stored { per_sequence: true, ..Stored::new(column, data) });
        self.sequences = Some(lengths);
        self
    }

    /// Adds or replaces a column.
    pub fn set(&mut self, column: Column, data: Tensor) {
        let stored = Stored::new(column, data);
        match self.columns.iter_mut().find(|c| c.column == column) {
            Some(old) => *old = stored,
            None => self.columns.push(stored),
        }
    }

    /// Gives the column `from` the name `to`, if the batch has it.
    pub(crate) fn rename(&mut self, from: Column, to: Column) {
        self.columns.iter_mut().filter(|c| c.column == from).for_each(|c| c.column = to);
    }

    /// Adds a column and returns the batch, for chained calls.
    #[must_use]
    pub fn with(mut self, column: Column, data: Tensor) -> Self {
        self.set(column, data);
        self
    }

    /// Adds a column of one number per row and returns the batch, for chained calls.
    #[must_use]
    pub fn with_f32s(self, column: Column, data: &[f32]) -> Self {
        self.with(column, host::tensor_of(data, &[data.len() as i64]))
    }

    /// Adds or replaces a column of one number per row.
    pub fn set_f32s(&mut self, column: Column, data: &[f32]) {
        let device = self.columns.first().map_or(Device::Cpu, |c| c.base.device());
        self.set(column, Tensor::from_slice(data).to_device(device));
    }

    /// Adds or replaces a column of `width` standard normal numbers per row.
    pub fn set_noise(&mut self, column: Column, width: usize, rng: &mut Stream) {
        let rows = self.rows();
        let device = self.columns.first().map_or(Device::Cpu, |c| c.base.device());
        let noise: Vec<f32> = (0..rows * width).map(|_| rng.normal()).collect();
        self.set(column, Tensor::from_slice(&noise).view([rows as i64, width as i64]).to_device(device));
    }

    /// The column's tensor, `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if the batch has no such column.
    pub fn get(&self, column: Column) -> Result<&Tensor> {
        self.stored(column).map(Stored::tensor)
    }

    /// A column's memory as an array in the column's shape, without a copy: its first axis is the row.
    /// Integers keep their type, so `T` is `u8` for images, `i64` for discrete actions, else `f32`.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if the batch has no such column, and [`Error::State`] if the column holds
    /// scalars of another type, is on a GPU, or is not contiguous.
    pub fn array<T: Pod + kind::Element>(&self, column: Column) -> Result<ArrayViewD<'_, T>> {
        array::view(self.get(column)?, column.0)
    }

    fn stored(&self, column: Column) -> Result<&Stored> {
        self.columns.iter().find(|c| c.column == column).ok_or_else(|| {
            let have = self.columns.iter().map(|c| c.column.0).collect::<Vec<_>>().join(", ");
            Error::MissingColumn { wanted: column.0.to_owned(), have }
        })
    }

    /// The tensor that a column is taken from, and those of its rows that belong to this batch.
    pub(crate) fn source(&self, column: Column) -> Result<Source<'_>> {
        self.stored(column).map(|c| Source { base: &c.base, cols: c.cols, rows: &c.rows })
    }

    /// Whether the batch has the column.
    pub fn has(&self, column: Column) -> bool {
        self.columns.iter().any(|c| c.column == column)
    }

    /// The columns with their tensors, in the order in which they were added.
    pub fn columns(&self) -> impl Iterator<Item = (Column, &Tensor)> {
        self.columns.iter().map(|c| (c.column, c.tensor()))
    }

    /// Makes a batch of the rows at `index`, in that order, without sequences and trajectories.
    #[must_use]
    pub fn select(&self, index: &Arc<[i64]>) -> Self {
        let of_rows = self.columns.iter().filter(|c| !c.per_sequence);
        Self { columns: of_rows.map(|c| c.at(index)).collect(), ..Self::default() }
    }

    /// Makes a batch of the sequences with the indices `order`, in that order. If the rows form no sequences, `order`
    /// gives rows.
    #[must_use]
    pub fn select_sequences(&self, order: Vec<i64>) -> Self {
        let Some(lengths) = &self.sequences else { return self.select(&order.into()) };
        let mut starts = vec![0];
        for length in lengths {
            starts.push(starts[starts.len() - 1] + *length as i64);
        }
        let rows: Arc<[i64]> =
            order.iter().flat_map(|&s| starts[s as usize]..starts[s as usize + 1]).collect();
        let sequences = order.iter().map(|&s| lengths[s as usize]).collect();
        let order = order.into();
        let columns = self.columns.iter().map(|c| c.at(if c.per_sequence { &order } else { &rows }));
        Self { columns: columns.collect(), sequences: Some(sequences), cuts: None }
    }

    /// Makes a batch of the rows `start..start + len`. It keeps the trajectories, unless a border of the slice cuts one.
    ///
    /// # Panics
    /// Panics if the batch has fewer rows, or if a sequence would be cut.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let cuts = self.cuts.as_ref().and_then(|cuts| {
            let (pieces, behind) = trajectories::within(&cuts.pieces, &(start..start + len))?;
            Some(Box::new(Cuts { pieces, behind: cuts.behind.slice(behind.start, behind.len()) }))
        });
        let Some(lengths) = &self.sequences else {
            let columns = self.columns.iter().map(|c| c.with_rows(c.rows.slice(start, len)));
            return Self { columns: columns.collect(), sequences: None, cuts };
        };
        let at = |row: usize| {
            let firsts = lengths.iter().scan(0, |next, length| Some(std::mem::replace(next, *next + length)));
            firsts.chain([self.rows()]).position(|first| first == row)
        };
        let (Some(first), Some(last)) = (at(start), at(start + len)) else {
            panic!("rows {start}..{} would cut a sequence", start + len);
        };
        let columns = self.columns.iter().map(|c| {
            c.with_rows(if c.per_sequence {
                c.rows.slice(first, last - first)
            } else {
                c.rows.slice(start, len)
            })
        });
        Self { columns: columns.collect(), sequences: Some(lengths[first..last].to_vec()), cuts }
    }

    /// Copies the batch to `device`; columns that are there already are shared.
    #[must_use]
    pub fn to_device(&self, device: Device) -> Self {
        let columns = self.columns.iter().map(|c| {
            if c.base.device() == device {
                c.with_rows(c.rows.clone())
            } else {
                let moved = Stored::new(c.column, c.tensor().to_device(device));
                Stored { per_sequence: c.per_sequence, ..moved }
            }
        });
        let cuts = self.cuts.as_ref().map(|cuts| {
            let behind = cuts.behind.to_device(device);
            Box::new(Cuts { pieces: cuts.pieces.clone(), behind })
        });
        Self { columns: columns.collect(), sequences: self.sequences.clone(), cuts }
    }

    /// Adds the batch to the state of a checkpoint. `keep` makes arrays of the columns.
    pub(crate) fn save(&self, state: &mut State, keep: fn(&Tensor) -> Array) -> Result<()> {
        let names = |per_sequence: bool| -> Vec<&str> {
            let those = self.columns.iter().filter(|c| c.per_sequence == per_sequence);
            those.map(|c| c.column.name()).collect()
        };
        state.set("columns", &names(false))?;
        if let Some(lengths) = &self.sequences {
            state.set("sequences", lengths)?;
            state.set("columns_of_sequences", &names(true))?;
        }
        self.columns().for_each(|(column, data)| state.push_array(column.name().to_owned(), keep(data)));
        if let Some(cuts) = &self.cuts {
            let mut behind = State::default();
            cuts.behind.save(&mut behind, keep)?;
            state.set("trajectories", &cuts.pieces)?;
            state.nest("behind", behind);
        }
        Ok(())
    }

    /// Reads the batch that [`save`](Self::save) added to a checkpoint.
    pub(crate) fn saved(state: &mut State) -> Result<Self> {
        let mut rows = Self::default();
        for name in state.get::<Vec<String>>("columns")? {
            rows.set(Column::named(&name), state.take_tensor(&name)?);
        }
        if state.has("sequences") {
            for name in state.get::<Vec<String>>("columns_of_sequences")? {
                let data = state.take_tensor(&name)?;
                rows = rows.with_sequences(state.get("sequences")?, Column::named(&name), data);
            }
        }
        if state.has("trajectories") {
            let behind = Self::saved(&mut state.take_nested("behind")?)?;
            rows = rows.with_trajectories(state.get("trajectories")?, behind);
        }
        Ok(rows)
    }

    /// Appends the rows of all batches, in order. The result has the columns of the first batch, and trajectories if all
    /// batches have them.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if a later batch lacks a column of the first.
    pub fn concat(mut batches: Vec<Self>) -> Result<Self> {
        if batches.len() == 1 {
            return Ok(batches.remove(0));
        }
        let mut out = Self::default();
        let Some(first) = batches.first() else { return Ok(out) };
        for c in &first.columns {
            let parts = batches.iter().map(|b| b.get(c.column)).collect::<Result<Vec<_>>>()?;
            let joined = Stored::new(c.column, Tensor::cat(&parts, 0));
            out.columns.push(Stored { per_sequence: c.per_sequence, ..joined });
        }
        if first.sequences.is_some() {
            let lengths = batches.iter().flat_map(|b| b.sequences.iter().flatten());
            out.sequences = Some(lengths.copied().collect());
        }
        if batches.iter().all(|b| b.cuts.is_some()) {
            let cuts = || batches.iter().filter_map(|b| Some((b.rows(), b.cuts.as_ref()?)));
            let pieces = trajectories::joined(cuts().map(|(rows, cuts)| (rows, cuts.pieces.as_slice())));
            // The `behind` of a batch without a cut has no columns, so it must not come first.
            let behind = cuts().map(|(_, cuts)| &cuts.behind).filter(|behind| behind.rows() > 0);
            let behind = Self::concat(behind.map(|behind| behind.slice(0, behind.rows())).collect())?;
            out.cuts = Some(Box::new(Cuts { pieces, behind }));
        }
        Ok(out)
    }
}

/// Reorders time-major rows `[T, N, ...]` to batch rows `[N * T, ...]`, one environment copy after the other.
///
/// Copies are ordered as in the run, whichever worker stepped them, so batches are equal for any number of workers.
pub fn env_major(t: &Tensor) -> Tensor {
    let size = t.size();
    let rows: Vec<i64> = std::iter::once(size[0] * size[1]).chain(size[2..].iter().copied()).collect();
    if size[0] != 1 && size[1] != 1 {
        return t.transpose(0, 1).reshape(&rows);
    }
    // The order is the same already: copying the bytes is faster than libtorch's views.
    if t.device() == Device::Cpu && t.is_contiguous() {
        host::tensor_of_bytes(host::bytes(t), &rows, t.kind())
    } else {
        t.reshape(&rows).copy()
    }
}

/// The numbers of a contiguous f32 tensor on the CPU, without a copy.
///
/// # Errors
/// Returns [`Error::State`] if the tensor is of another type, on another device, or not contiguous.
pub fn read_f32(tensor: &Tensor) -> Result<&[f32]> {
    if tensor.kind() != Kind::Float || tensor.device() != Device::Cpu || !tensor.is_contiguous() {
        let reason = format!(
            "it is {:?} on {:?}; contiguous f32 on the CPU is needed",
            tensor.kind(),
            tensor.device()
        );
        return Err(Error::state("a tensor", reason));
    }
    Ok(crate::base::read(tensor))
}
