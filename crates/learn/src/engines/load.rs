//! Copies rows between plain memory and the tape.

use crate::base::Result;
use crate::engines::tape::Tape;
use crate::experience::{Column, SampleBatch, Selection};
use crate::params::{Encoding, Raw};
use pavlov_envs::Element;

/// Encodes observations from memory as a node of the tape.
pub(crate) fn encoded(tape: &Tape, encoding: &Encoding, from: Raw<'_>, rows: &Selection) -> usize {
    match from {
        // Encoding changes nothing: the row is copied.
        Raw::F32(from) if encoding.is_identity() => fill(tape, from, encoding.width(), rows, |x| x),
        Raw::F32(from) => encode(tape, encoding, from, rows),
        Raw::I64(from) => encode(tape, encoding, from, rows),
        Raw::U8(from) => encode(tape, encoding, from, rows),
    }
}

fn encode<T: Element>(tape: &Tape, encoding: &Encoding, from: &[T], rows: &Selection) -> usize {
    let stride = tape.stride();
    let count = tape.rows();
    tape.leaf(encoding.width(), |to| {
        match rows {
            Selection::Range(start, _) => {
                encoding.columns(from, |r| start + r, (count, stride), to);
            }
            Selection::Index(list, start, _) => {
                let list = &list[*start..start + count];
                encoding.columns(from, |r| list[r] as usize, (count, stride), to);
            }
        }
        for column in to.chunks_exact_mut(stride) {
            let (real, padding) = column.split_at_mut(count);
            padding.fill(real[count - 1]);
        }
    })
}

/// Copies rows from memory, `cols` numbers per row, to a feature-major node of the tape.
pub(crate) fn fill<T: Copy>(
    tape: &Tape,
    from: &[T],
    cols: usize,
    rows: &Selection,
    number: impl Fn(T) -> f32,
) -> usize {
    let stride = tape.stride();
    let count = tape.rows();
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

/// Copies the batch's sequences, if it has any, to the tape.
pub(crate) fn sequences(tape: &mut Tape, batch: &SampleBatch) -> Result<()> {
    let Some(lengths) = batch.sequences() else { return Ok(()) };
    let [memory, resets] = [Column::STATE_IN, Column::RESETS].map(|column| batch.get(column));
    let [memory, resets] = [memory?.to_f32(), resets?.to_f32()];
    tape.sequences.set(lengths.iter().copied(), &memory, resets.iter().map(|&reset| reset != 0.0));
    Ok(())
}

/// Copies a node of the tape to row-major memory.
pub(crate) fn scatter(tape: &Tape, id: usize, to: &mut [f32]) {
    let data = tape.data(id);
    let stride = tape.stride();
    let columns = data.len() / stride;
    assert_eq!(to.len(), columns * tape.rows(), "the head has {columns} columns");
    for (r, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        row.iter_mut().enumerate().for_each(|(c, x)| *x = data[c * stride + r]);
    }
}
