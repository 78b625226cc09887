//! The encoding of an environment's observations as numbers for a network.

use crate::base::{
    Array, ArrayRef, Error, ImagePart, Kind, Result, channels_first, has_all_bytes, image, images_in_parts,
};
use pavlov_envs::{DType, Element, Layout, Space};
use std::ops::Range;

/// Converts rows of a space to numbers for a network. Rows are stored as the environment writes them (raw); a network
/// encodes rows when it reads them.
///
/// The numbers are those of [`Space::flatten_into`]: boxes and bits unchanged, each integer of a discrete space
/// one-hot. Boxes of three dimensions get the channels first, and bytes from 0 to 255 become 0 to 1, as in Stable-Baselines3;
/// bytes with other bounds stay as they are. Inside a Dict or a Tuple this is so of [images](images_in_parts), and other boxes stay as
/// they are. The channels are the last dimension, or the first if that is the smallest, as
/// [`FrameStack`](pavlov_envs::wrappers::FrameStack) stacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    pub(super) parts: Vec<Part>,
    /// Shape of a raw row.
    shape: Vec<i64>,
    /// Number of scalars of a raw row.
    pub raw_width: usize,
    /// Type of the scalars of a raw row.
    kind: Kind,
    /// Number of scalars of an encoded row.
    width: usize,
}

/// A part of a raw row, and the columns of the encoded row that it becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Numbers that stay as they are.
    Numbers {
        /// Index of the first scalar in the raw row.
        from: usize,
        /// Index of the first column in the encoded row.
        to: usize,
        /// Number of scalars, which is also that of columns.
        len: usize,
    },
    /// One-hot: 1 in the integer's column, 0 in the others; all 0 if the integer is out of range.
    OneHot {
        /// Index of the integer in the raw row.
        from: usize,
        /// Index of the first column in the encoded row.
        to: usize,
        /// Number of columns, one for each integer of the space.
        n: usize,
        /// The smallest integer of the space, which the first column stands for.
        start: i64,
    },
    /// The pixels of an image, of which the encoded row has the channels first.
    Image {
        /// Index of the first scalar in the raw row.
        from: usize,
        /// Index of the first column in the encoded row.
        to: usize,
        /// Number of pixels of each channel.
        pixels: usize,
        /// Number of channels, which the raw row has last; 1 if it has them first, so that nothing moves.
        channels: usize,
        /// Factor of every number: 1/255 for bytes from 0 to 255, else 1.
        scale: f32,
    },
}

impl Encoding {
    /// The parts of a raw row, in order.
    #[inline]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Number of scalars of a raw row.
    #[inline]
    pub fn raw_width(&self) -> usize {
        self.raw_width
    }

    /// The encoding of rows of `space`.
    pub fn of(space: &Space) -> Self {
        if let Some([_, _, channels]) = image(space) {
            let mut encoding = Self::without_parts(space);
            let scale = if has_all_bytes(space) { 1.0 / 255.0 } else { 1.0 };
            encoding.add_image(0..encoding.width, 0, channels, &space.shape(), scale);
            return encoding;
        }
        Self::of_parts(space, images_in_parts(space))
    }

    /// The encoding of rows of a space as the numbers of [`Space::flatten_into`]: images inside a Dict or a Tuple stay as they are.
    pub fn flat(space: &Space) -> Self {
        Self::of_parts(space, Vec::new())
    }

    fn without_parts(space: &Space) -> Self {
        Self {
            parts: Vec::new(),
            shape: space.shape().into_iter().map(|n| n as i64).collect(),
            raw_width: space.width(),
            kind: stored_kind(space.dtype()),
            width: space.flat_width(),
        }
    }

    /// Adds an image; one with the channels first counts as one channel of more pixels.
    fn add_image(&mut self, row: Range<usize>, to: usize, channels: usize, shape: &[usize], scale: f32) {
        let channels = if channels_first(shape) { 1 } else { channels };
        self.parts.push(Part::Image { from: row.start, to, pixels: row.len() / channels, channels, scale });
    }

    fn of_parts(space: &Space, images: Vec<ImagePart>) -> Self {
        let mut encoding = Self::without_parts(space);
        for leaf in Layout::new(space).leaves {
            let mut from = leaf.row.start;
            let mut to = leaf.flat.start;
            if let Some(part) = images.iter().find(|part| part.row == leaf.row) {
                encoding.add_image(leaf.row, to, part.image[2], &part.shape, 1.0 / 255.0);
                continue;
            }
            match leaf.space {
                Space::Discrete { n, start } => {
                    encoding.parts.push(Part::OneHot { from, to, n: n as usize, start })
                }
                Space::MultiDiscrete { nvec, start } => {
                    for (i, n) in nvec.into_iter().map(|n| n as usize).enumerate() {
                        let start = start.get(i).copied().unwrap_or(0);
                        encoding.parts.push(Part::OneHot { from, to, n, start });
                        from += 1;
                        to += n;
                    }
                }
                _ => match encoding.parts.last_mut() {
                    Some(Part::Numbers { len, .. }) => *len += leaf.row.len(),
                    _ => encoding.parts.push(Part::Numbers { from, to, len: leaf.row.len() }),
                },
            }
        }
        encoding
    }

    /// Number of scalars of an encoded row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Shape of a raw row.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Type of the scalars of raw rows.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns an error unless a raw row of this encoding has `scalars` scalars.
    pub(crate) fn check(&self, scalars: usize) -> Result<()> {
        if scalars == self.raw_width {
            return Ok(());
        }
        let reason = format!(
            "a row has {scalars} scalars, but the space's have {} (shape {:?}); give rows as the environment writes them, behind a filter flattened",
            self.raw_width, self.shape
        );
        Err(Error::state("an observation", reason))
    }

    /// Makes `rows` raw rows of zeros.
    pub(crate) fn zeros(&self, rows: usize) -> Array {
        let shape: Vec<i64> = std::iter::once(rows as i64).chain(self.shape.iter().copied()).collect();
        Array::zeros(self.kind, &shape)
    }

    /// Whether encoding changes at most the type of the numbers.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.parts.as_slice(), [] | [Part::Numbers { .. }])
    }

    /// Encodes `rows` rows of `raw` column by column: number `c` of encoded row `r` goes to `to[c * stride + r]`.
    /// `place` maps `r` to the index of the row in `raw`.
    pub(crate) fn columns<T: Element>(
        &self,
        raw: &[T],
        place: impl Fn(usize) -> usize,
        (rows, stride): (usize, usize),
        to: &mut [f32],
    ) {
        let at = |r: usize| place(r) * self.raw_width;
        for part in &self.parts {
            match *part {
                Part::Numbers { from, to: first, len } => {
                    for (c, column) in to[first * stride..].chunks_exact_mut(stride).take(len).enumerate() {
                        let column = column[..rows].iter_mut().enumerate();
                        column.for_each(|(r, x)| *x = raw[at(r) + from + c].to_f64() as f32);
                    }
                }
                Part::OneHot { from, to: first, n, start } => {
                    to[first * stride..][..n * stride].fill(0.0);
                    for r in 0..rows {
                        let index = raw[at(r) + from].to_f64() - start as f64;
                        if index >= 0.0 && index < n as f64 {
                            to[(first + index as usize) * stride + r] = 1.0;
                        }
                    }
                }
                Part::Image { from: first, to: at_column, pixels, channels, scale } => {
                    let columns = to[at_column * stride..].chunks_exact_mut(stride).take(pixels * channels);
                    for (c, column) in columns.enumerate() {
                        let from = first + c % pixels * channels + c / pixels;
                        let column = column[..rows].iter_mut().enumerate();
                        column.for_each(|(r, x)| *x = raw[at(r) + from].to_f64() as f32 * scale);
                    }
                }
            }
        }
    }

    /// Encodes one raw row, given as bytes.
    pub fn row(&self, raw: &[u8], to: &mut [f32]) {
        match self.kind {
            Kind::U8 => self.columns(raw, |_| 0, (1, 1), to),
            Kind::I64 => self.columns::<i64>(bytemuck::cast_slice(raw), |_| 0, (1, 1), to),
            _ => self.columns::<f32>(bytemuck::cast_slice(raw), |_| 0, (1, 1), to),
        }
    }
}

/// The type in which numbers of `dtype` are stored: integers keep their type, floats become f32.
fn stored_kind(dtype: DType) -> Kind {
    match dtype {
        DType::U8 => Kind::U8,
        DType::I64 => Kind::I64,
        DType::F32 | DType::F64 => Kind::F32,
    }
}

/// Rows as the environment writes them, in plain memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    F32(&'a [f32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
}

impl<'a> Raw<'a> {
    /// The rows of an array that [`readable`] made.
    pub(crate) fn of(array: ArrayRef<'a>) -> Self {
        match array.kind() {
            Kind::F32 => Self::F32(array.read()),
            Kind::I64 => Self::I64(array.read()),
            _ => Self::U8(array.bytes()),
        }
    }
}

/// Makes an array readable by [`Raw`]: copies it to `own` only if it is of type f64.
pub(crate) fn readable<'a>(array: ArrayRef<'a>, own: &'a mut Option<Array>) -> ArrayRef<'a> {
    if array.kind() != Kind::F64 {
        return array;
    }
    own.insert(array.copied().to_kind(Kind::F32)).lend()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `preprocess_obs` of Stable-Baselines3, which asks `is_image_space` for the bounds.
    #[test]
    fn bytes_of_three_dimensions_are_divided_by_255_only_where_their_bounds_are_0_and_255() {
        let read = |highest: f64| {
            let space = Space::Box {
                low: vec![0.0; 8],
                high: vec![highest; 8],
                shape: vec![2, 2, 2],
                dtype: DType::U8,
            };
            let mut row = [0.0; 8];
            Encoding::of(&space).row(&[1, 0, 1, 0, 0, 1, 0, 1], &mut row);
            row
        };
        // Fields of the first plane, then those of the second.
        let planes = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(read(1.0), planes);
        assert_eq!(read(255.0), planes.map(|field: f32| field * (1.0 / 255.0)));
    }
}
