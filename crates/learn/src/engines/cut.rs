//! Division of a batch into pieces. It depends on the rows alone, never on cores or threads.

use crate::experience::SampleBatch;

/// Starts and lengths of pieces of about `size` rows that cover `rows` rows; one piece if these are fewer than twice
/// `size`.
pub(crate) fn bounds(rows: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    even(rows, if rows < 2 * size { 1 } else { rows.div_ceil(size) })
}

/// Starts and lengths of pieces of about `size` rows of a batch. Sequences are never cut.
pub(crate) fn pieces(batch: &SampleBatch, size: usize) -> Vec<(usize, usize)> {
    let rows = batch.rows();
    match batch.sequences() {
        None => bounds(rows, size).collect(),
        Some(lengths) => sequence_parts(lengths, if rows < 2 * size { 1 } else { rows.div_ceil(size) }),
    }
}

/// Starts and lengths, in rows, of `parts` parts with almost equally many sequences; with fewer sequences than `parts`
/// each part is one sequence.
pub(crate) fn sequence_parts(lengths: &[usize], parts: usize) -> Vec<(usize, usize)> {
    let parts = parts.min(lengths.len());
    let mut start = 0;
    let piece = |(first, len): (usize, usize)| {
        let rows = lengths[first..first + len].iter().sum::<usize>();
        start += rows;
        (start - rows, rows)
    };
    even(lengths.len(), parts).map(piece).collect()
}

/// Starts and lengths of `parts` parts of almost equal length.
pub(crate) fn even(rows: usize, parts: usize) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone {
    (0..parts).map(move |i| (i * rows / parts, (i + 1) * rows / parts - i * rows / parts))
}
