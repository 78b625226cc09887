//! How the rows of a batch are cut: at places that depend on the rows alone, never on cores or threads.

/// Starts and lengths of pieces of about `size` rows; one piece for less than two.
pub(crate) fn bounds(rows: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    even(rows, if rows < 2 * size { 1 } else { rows.div_ceil(size) })
}

/// Starts and lengths of so many parts of almost equal length.
pub(crate) fn even(rows: usize, parts: usize) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone {
    (0..parts).map(move |i| (i * rows / parts, (i + 1) * rows / parts - i * rows / parts))
}
