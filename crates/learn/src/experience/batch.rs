//! Experience as named columns.

use crate::base::{Array, ArrayRef, Elsewhere, Error, Result, Scalar, State, Stream};
use crate::experience::columns::Column;
use crate::experience::trajectories;
use crate::experience::trajectories::Trajectory;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use std::cell::OnceCell;
use std::sync::Arc;

/// Experience as named columns of equal length: row `i` of all columns is one transition.
///
/// Slices and selections share the memory of the columns and store indices of rows. [`get`](Self::get) copies the
/// selected rows of a column; the fused engine of [`learner`](crate::learner) reads them without a copy.
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
    /// For a minibatch of whole sequences, the number of rows and of minibatches of its pass; else `None`.
    pass: Option<(usize, usize)>,
}

/// The trajectories of a batch's rows, and the observation after each trajectory that was cut.
#[derive(Debug)]
pub(crate) struct Cuts {
    pub(super) pieces: Vec<Trajectory>,
    /// One row for each trajectory that was cut, in order: the observation after the cut.
    pub(super) behind: SampleBatch,
}

/// A column of a batch: the array it is taken from, the number of scalars per row, and the rows that belong to it.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) base: &'a Array,
    pub(crate) cols: usize,
    pub(crate) rows: &'a Selection,
    /// Copies of the whole array, and of the rows that belong to the batch, in an engine's own memory.
    pub(crate) elsewhere: [&'a Elsewhere; 2],
}

/// The array that a column is taken from, which slices and selections share.
#[derive(Debug)]
struct Base {
    array: Array,
    elsewhere: Elsewhere,
}

#[derive(Debug)]
struct Stored {
    column: Column,
    /// Whether the column has one row per sequence instead of one per transition.
    per_sequence: bool,
    base: Arc<Base>,
    cols: usize,
    rows: Selection,
    /// The rows that belong to the batch as an array, made when they are first asked for.
    ready: OnceCell<Array>,
    elsewhere: Elsewhere,
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
    #[inline]
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
    fn new(column: Column, array: Array) -> Self {
        let rows = Selection::Range(0, array.len());
        let cols = array.lend().width();
        let base = Arc::new(Base { array, elsewhere: Elsewhere::default() });
        Self::of(column, base, cols, rows)
    }

    fn of(column: Column, base: Arc<Base>, cols: usize, rows: Selection) -> Self {
        let elsewhere = Elsewhere::default();
        Self { column, per_sequence: false, base, cols, rows, ready: OnceCell::new(), elsewhere }
    }

    fn with_rows(&self, rows: Selection) -> Self {
        let Self { column, per_sequence, cols, .. } = *self;
        Self { per_sequence, ..Self::of(column, Arc::clone(&self.base), cols, rows) }
    }

    /// Selects rows of this selection, by their positions `index` in it.
    fn at(&self, index: &Arc<[i64]>) -> Self {
        let rows = Selection::Index(Arc::clone(index), 0, index.len());
        if self.is_whole() {
            return self.with_rows(rows);
        }
        let chosen = Stored::new(self.column, self.array().clone());
        Self { per_sequence: self.per_sequence, ..chosen.with_rows(rows) }
    }

    /// Whether all rows of the array belong to the batch, in their order.
    #[inline]
    fn is_whole(&self) -> bool {
        matches!(self.rows, Selection::Range(0, len) if len == self.base.array.len())
    }

    #[inline]
    fn array(&self) -> &Array {
        let base = &self.base.array;
        match &self.rows {
            Selection::Range(..) if self.is_whole() => base,
            Selection::Range(start, len) => self.ready.get_or_init(|| base.rows(*start..start + len)),
            Selection::Index(list, start, len) => {
                self.ready.get_or_init(|| base.gather(&list[*start..start + len]))
            }
        }
    }
}

impl SampleBatch {
    /// The number of transitions.
    #[inline]
    pub fn rows(&self) -> usize {
        self.columns.iter().find(|c| !c.per_sequence).map_or(0, |c| c.rows.len())
    }

    /// Number of rows of each sequence; `None` if the rows form no sequences.
    #[inline]
    pub fn sequences(&self) -> Option<&[usize]> {
        self.sequences.as_deref()
    }

    /// Declares that the batch is one of `minibatches` minibatches into which a pass over `rows` rows was cut.
    pub fn into_share_of(mut self, rows: usize, minibatches: usize) -> Self {
        self.pass = Some((rows, minibatches));
        self
    }

    /// The number by which a mean over the rows is divided: that of the rows, or the mean size of the minibatches of a
    /// pass over sequences, which need not be whole.
    #[inline]
    pub fn mean_rows(&self) -> f64 {
        self.pass.map_or(self.rows() as f64, |(rows, minibatches)| rows as f64 / minibatches as f64)
    }

    /// Declares that the rows form sequences of these lengths, and adds a column with one row per sequence.
    ///
    /// # Panics
    /// Panics if the lengths do not add up to the number of rows, or `data` has not one row per sequence.
    #[must_use]
    pub fn with_sequences(mut self, lengths: Vec<usize>, column: Column, data: impl Into<Array>) -> Self {
        let data = data.into();
        assert_eq!(lengths.iter().sum::<usize>(), self.rows(), "rows of all sequences");
        assert_eq!(lengths.len(), data.len(), "rows of `{}`", column.name());
        self.columns.push(Stored { per_sequence: true, ..Stored::new(column, data) });
        self.sequences = Some(lengths);
        self
    }

    /// Adds or replaces a column.
    pub fn set(&mut self, column: Column, data: impl Into<Array>) {
        let stored = Stored::new(column, data.into());
        match self.columns.iter_mut().find(|c| c.column == column) {
            Some(old) => *old = stored,
            None => self.columns.push(stored),
        }
    }

    /// Gives the column `from` the name `to`, if the batch has it.
    pub fn rename(&mut self, from: Column, to: Column) {
        self.columns.iter_mut().filter(|c| c.column == from).for_each(|c| c.column = to);
    }

    /// Adds a column and returns the batch, for chained calls.
    #[must_use]
    pub fn with(mut self, column: Column, data: impl Into<Array>) -> Self {
        self.set(column, data);
        self
    }

    /// Adds a column of one number per row and returns the batch, for chained calls.
    #[must_use]
    pub fn with_f32s(self, column: Column, data: &[f32]) -> Self {
        self.with(column, data)
    }

    /// Adds or replaces a column of one number per row.
    pub fn set_f32s(&mut self, column: Column, data: &[f32]) {
        self.set(column, data);
    }

    /// Adds or replaces a column of `width` standard normal numbers per row.
    pub fn set_noise(&mut self, column: Column, width: usize, rng: &mut Stream) {
        let rows = self.rows();
        let noise: Vec<f32> = (0..rows * width).map(|_| rng.normal()).collect();
        self.set(column, Array::from_vec(noise, &[rows as i64, width as i64]));
    }

    /// Sets a column to `width` standard normal numbers that all rows share.
    pub fn set_shared_noise(&mut self, column: Column, width: usize, rng: &mut Stream) {
        let rows = self.rows();
        let one: Vec<f32> = (0..width).map(|_| rng.normal()).collect();
        self.set(column, Array::from_vec(one.repeat(rows), &[rows as i64, width as i64]));
    }

    /// The column's array, `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if the batch has no such column.
    #[inline]
    pub fn get(&self, column: Column) -> Result<&Array> {
        self.stored(column).map(Stored::array)
    }

    /// A column's memory as an array in the column's shape, without a copy: its first axis is the row.
    /// Integers keep their type, so `T` is `u8` for images, `i64` for discrete actions, else `f32`.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if the batch has no such column, and [`Error::State`] if the column holds
    /// scalars of another type.
    #[inline]
    pub fn array<T: Pod + Scalar>(&self, column: Column) -> Result<ArrayViewD<'_, T>> {
        self.get(column)?.view(column.0)
    }

    #[inline]
    fn stored(&self, column: Column) -> Result<&Stored> {
        self.columns.iter().find(|c| c.column == column).ok_or_else(|| {
            let have = self.columns.iter().map(|c| c.column.0).collect::<Vec<_>>().join(", ");
            Error::MissingColumn { wanted: column.0.to_owned(), have }
        })
    }

    /// The array that a column is taken from, and those of its rows that belong to this batch.
    pub(crate) fn source(&self, column: Column) -> Result<Source<'_>> {
        self.stored(column).map(|c| Source {
            base: &c.base.array,
            cols: c.cols,
            rows: &c.rows,
            elsewhere: [&c.base.elsewhere, &c.elsewhere],
        })
    }

    /// The numbers of a column as f32, row after row, and the column's shape `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if the batch has no such column.
    pub fn to_f32(&self, column: Column) -> Result<(Vec<f32>, Vec<i64>)> {
        let source = self.source(column)?;
        let whole = source.base.to_f32();
        let numbers = match source.rows {
            Selection::Range(start, len) => whole[start * source.cols..][..len * source.cols].to_vec(),
            Selection::Index(list, start, len) => {
                let rows = list[*start..start + len].iter();
                rows.flat_map(|&i| &whole[i as usize * source.cols..][..source.cols]).copied().collect()
            }
        };
        let row = source.base.shape()[1..].iter().copied();
        Ok((numbers, std::iter::once(self.rows() as i64).chain(row).collect()))
    }

    /// Whether the batch has the column.
    #[inline]
    pub fn has(&self, column: Column) -> bool {
        self.columns.iter().any(|c| c.column == column)
    }

    /// The columns with their arrays, in the order in which they were added.
    #[inline]
    pub fn columns(&self) -> impl Iterator<Item = (Column, &Array)> {
        self.columns.iter().map(|c| (c.column, c.array()))
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
        Self { columns: columns.collect(), sequences: Some(sequences), cuts: None, pass: None }
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
            return Self { columns: columns.collect(), sequences: None, cuts, pass: self.pass };
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
        Self {
            columns: columns.collect(),
            sequences: Some(lengths[first..last].to_vec()),
            cuts,
            pass: self.pass,
        }
    }

    /// Adds the batch to the state of a checkpoint.
    pub fn save(&self, state: &mut State) -> Result<()> {
        let names = |per_sequence: bool| -> Vec<&str> {
            let those = self.columns.iter().filter(|c| c.per_sequence == per_sequence);
            those.map(|c| c.column.name()).collect()
        };
        state.set("columns", &names(false))?;
        if let Some(lengths) = &self.sequences {
            state.set("sequences", lengths)?;
            state.set("columns_of_sequences", &names(true))?;
        }
        if let Some(pass) = &self.pass {
            state.set("pass", pass)?;
        }
        self.columns().for_each(|(column, data)| state.push_array(column.name().to_owned(), data.clone()));
        if let Some(cuts) = &self.cuts {
            let mut behind = State::default();
            cuts.behind.save(&mut behind)?;
            state.set("trajectories", &cuts.pieces)?;
            state.nest("behind", behind);
        }
        Ok(())
    }

    /// Reads the batch that [`save`](Self::save) added to a checkpoint.
    pub fn saved(state: &mut State) -> Result<Self> {
        let mut rows = Self::default();
        for name in state.get::<Vec<String>>("columns")? {
            rows.set(Column::named(&name), state.take_array(&name)?);
        }
        if state.has("sequences") {
            for name in state.get::<Vec<String>>("columns_of_sequences")? {
                let data = state.take_array(&name)?;
                rows = rows.with_sequences(state.get("sequences")?, Column::named(&name), data);
            }
        }
        if state.has("pass") {
            rows.pass = state.get("pass")?;
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
            let joined = Stored::new(c.column, Array::concat(parts));
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
pub fn env_major<'a>(rows: impl Into<ArrayRef<'a>>) -> Array {
    rows.into().env_major()
}

/// The numbers of an f32 array, without a copy.
///
/// # Errors
/// Returns [`Error::State`] if the array is of another type.
pub fn read_f32(array: &Array) -> Result<&[f32]> {
    array
        .numbers()
        .ok_or_else(|| Error::state("an array", format!("it holds {:?}, but f32 is needed", array.kind())))
}
