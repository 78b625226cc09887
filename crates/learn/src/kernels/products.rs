//! Matrix products and elementwise passes over rows that lie side by side in vector lanes.
//!
//! A matrix here is feature-major: `[features][stride]`, the rows of a batch side by side, `stride` a multiple of
//! [`LANES`]. So every shape fills the vectors, however few features a layer has, a row's result does not depend on the
//! rows beside it, and observations, activations, logits and the columns of a loss have one layout. Instructions are
//! chosen when the program runs: AVX-512, AVX2 with FMA, NEON, or one number at a time.

use pulp::{Arch, Simd, WithSimd};

/// Number of rows per block. Products compute whole blocks, so buffers have room for a multiple of it.
pub(crate) const LANES: usize = 16;

/// Distance between features in memory, in scalars: `rows` rounded up to a multiple of [`LANES`], and from 4 times
/// [`LANES`] on to an odd multiple, because features that are a power of two apart share a few sets of the cache.
pub(crate) fn stride(rows: usize) -> usize {
    let vectors = rows.div_ceil(LANES).max(1);
    LANES * if vectors < 4 { vectors } else { vectors | 1 }
}

/// The left factor of a product: a weight matrix `[out, in]`, and whether the product adds to its output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left<'a> {
    /// Weights `[out, in]` and biases `[out]`: the product reads `in` features and writes `out`.
    Weight(&'a [f32], &'a [f32]),
    /// Weights `[out, in]`, and the distance between their rows in memory: the product is added to `out` features.
    Apart(&'a [f32], usize),
    /// Weights that are transposed: the product reads `out` features and writes `in`, or with `add` adds to them. The
    /// `columns` of the weights are stored in panels of `panel` columns, one panel after the other; see [`panels`].
    Transposed { weight: &'a [f32], columns: usize, panel: usize, add: bool },
}

/// Computes `y = W x + b`, `y += W x`, `y = W^T x` or `y += W^T x`, as `left` says; `x` is `[inputs][stride]`, `y` is
/// `[outputs][stride]`.
pub(crate) fn product(arch: Arch, left: Left<'_>, x: &[f32], y: &mut [f32], rows: usize) {
    arch.dispatch(Product { left, x, y, rows, strides: [stride(rows); 2], relu: false });
}

/// Computes a [`product`] with 0 in place of negative results.
///
/// Results are compared while they are in registers: AVX2 code for a pass over `y` in place has masked stores, which
/// take 12 cycles per vector on AMD's processors.
pub(crate) fn product_relu(arch: Arch, left: Left<'_>, x: &[f32], y: &mut [f32], rows: usize) {
    arch.dispatch(Product { left, x, y, rows, strides: [stride(rows); 2], relu: true });
}

/// Number of outputs per tile with the widest vectors, and number of columns per panel.
const TILE: usize = 12;

/// Number of scalars of scratch memory for [`panels`]. Narrow layers need none: their rows are so short that columns can
/// be read across them.
pub(crate) fn panels_room(inputs: usize, outputs: usize) -> usize {
    if inputs.min(outputs) < 400 { 0 } else { inputs * outputs }
}

/// Prepares weights `[out, inputs]` for [`Left::Transposed`]; returns them and the width of their panels. They are
/// unchanged if `room` is empty, else each tile's columns lie side by side. The product has the same bits either way.
pub(crate) fn panels<'a>(weight: &'a [f32], inputs: usize, room: &'a mut [f32]) -> (&'a [f32], usize) {
    if room.is_empty() {
        return (weight, inputs);
    }
    for (first, panel) in (0..inputs).step_by(TILE).zip(room.chunks_mut(TILE * (weight.len() / inputs))) {
        let columns = TILE.min(inputs - first);
        for (to, row) in panel.chunks_exact_mut(columns).zip(weight.chunks_exact(inputs)) {
            to.copy_from_slice(&row[first..][..columns]);
        }
    }
    (room, TILE)
}

/// The operands of a product, and whether negative results become 0 (`relu`).
pub(super) struct Product<'a> {
    pub(super) left: Left<'a>,
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) rows: usize,
    /// Distances between features of `x` and between features of `y`.
    pub(super) strides: [usize; 2],
    pub(super) relu: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, x, y, rows, strides, relu } = self;
        let strides = strides.map(|stride| stride / S::F32_LANES);
        let x = S::as_simd_f32s(x).0;
        let y = S::as_mut_simd_f32s(y).0;
        let shape = Shape { strides, inputs: x.len() / strides[0], outputs: y.len() / strides[1], relu };
        let vectors = rows.next_multiple_of(LANES) / S::F32_LANES;
        let mut at = 0;
        // A head of two or three outputs has too few sums to keep the multipliers busy, unless it takes more rows at once.
        if shape.outputs < 4 {
            while at + 4 <= vectors {
                outputs::<S, 4>(simd, left, x, y, at, shape);
                at += 4;
            }
        }
        // Two vectors of every input stay in the first-level cache while all outputs are made from them.
        while at + 2 <= vectors {
            outputs::<S, 2>(simd, left, x, y, at, shape);
            at += 2;
        }
        if at < vectors {
            outputs::<S, 1>(simd, left, x, y, at, shape);
        }
    }
}

/// Sizes of the operands of a product: distances between features, in vectors, and numbers of features of `x` and `y`.
/// With `relu` negative results become 0.
#[derive(Clone, Copy)]
struct Shape {
    strides: [usize; 2],
    inputs: usize,
    outputs: usize,
    relu: bool,
}

/// Computes all outputs for `V` vectors of rows, from vector `at` on.
///
/// A tile has as many sums as registers hold beside the `V` inputs and one weight: AVX-512 and NEON have 32 registers,
/// AVX2 has 16.
#[inline(always)]
fn outputs<S: Simd, const V: usize>(
    simd: S,
    left: Left<'_>,
    x: &[S::f32s],
    y: &mut [S::f32s],
    at: usize,
    shape: Shape,
) {
    let mut m = 0;
    if V <= 2 {
        if S::F32_LANES == LANES {
            while m + TILE <= shape.outputs {
                tile::<S, TILE, V>(simd, left, x, y, m, at, shape);
                m += TILE;
            }
            while m + 8 <= shape.outputs {
                tile::<S, 8, V>(simd, left, x, y, m, at, shape);
                m += 8;
            }
        } else {
            while m + 6 <= shape.outputs {
                tile::<S, 6, V>(simd, left, x, y, m, at, shape);
                m += 6;
            }
        }
        while m + 4 <= shape.outputs {
            tile::<S, 4, V>(simd, left, x, y, m, at, shape);
            m += 4;
        }
    }
    while m + 2 <= shape.outputs {
        tile::<S, 2, V>(simd, left, x, y, m, at, shape);
        m += 2;
    }
    if m < shape.outputs {
        tile::<S, 1, V>(simd, left, x, y, m, at, shape);
    }
}

/// Computes the `M` outputs from `m` on for `V` vectors of rows, with all sums in registers.
#[expect(clippy::needless_range_loop, reason = "an iterator over the sums would keep them in memory")]
#[inline(always)]
fn tile<S: Simd, const M: usize, const V: usize>(
    simd: S,
    left: Left<'_>,
    x: &[S::f32s],
    y: &mut [S::f32s],
    m: usize,
    at: usize,
    shape: Shape,
) {
    let Shape { strides: [stride, to_stride], inputs, relu, .. } = shape;
    let mut sums = [[simd.splat_f32s(0.0); V]; M];
    match left {
        Left::Weight(w, bias) => {
            let bias: &[f32; M] = bias[m..].first_chunk().expect("a tile lies in the outputs");
            sums = std::array::from_fn(|i| [simd.splat_f32s(bias[i]); V]);
            let w = std::array::from_fn(|i| &w[(m + i) * inputs..][..inputs]);
            add_rows::<S, M, V>(simd, w, x, at, stride, &mut sums);
        }
        Left::Apart(w, apart) => {
            load(&mut sums, y, m, at, to_stride);
            let w = std::array::from_fn(|i| &w[(m + i) * apart..][..inputs]);
            add_rows::<S, M, V>(simd, w, x, at, stride, &mut sums);
        }
        Left::Transposed { weight: w, columns, panel, add } => {
            if add {
                load(&mut sums, y, m, at, to_stride);
            }
            // A panel has `TILE` columns, which tiles of 12 or 6 fill exactly. Smaller tiles come last, in the last panel.
            let first = m / panel * panel;
            let w = &w[first * inputs..];
            // The last row of weights may be cut off behind the last output.
            for (w, x) in w.chunks(panel.min(columns - first)).zip(x.chunks_exact(stride)) {
                let w: &[f32; M] = w[m - first..].first_chunk().expect("a tile lies in one panel");
                let x: &[S::f32s; V] = x[at..].first_chunk().expect("whole vectors");
                for i in 0..M {
                    let w = simd.splat_f32s(w[i]);
                    for v in 0..V {
                        sums[i][v] = simd.mul_add_f32s(w, x[v], sums[i][v]);
                    }
                }
            }
        }
    }
    if relu {
        let zero = simd.splat_f32s(0.0);
        for i in 0..M {
            for v in 0..V {
                // Not `max`: NaN must stay NaN.
                let negative = simd.less_than_f32s(sums[i][v], zero);
                sums[i][v] = simd.select_f32s(negative, zero, sums[i][v]);
            }
        }
    }
    for i in 0..M {
        let to: &mut [S::f32s; V] = y[(m + i) * to_stride + at..].first_chunk_mut().expect("whole vectors");
        *to = sums[i];
    }
}

/// Reads the sums of a tile from `y`, for a product that is added to it.
#[inline(always)]
fn load<V: Copy, const M: usize, const N: usize>(
    sums: &mut [[V; N]; M],
    y: &[V],
    m: usize,
    at: usize,
    stride: usize,
) {
    // By index: an iterator over the sums would keep them in memory.
    for i in 0..M {
        sums[i] = *y[(m + i) * stride + at..].first_chunk().expect("whole vectors");
    }
}

/// Adds the products of `M` rows of weights with `V` vectors of rows to `sums`.
#[inline(always)]
fn add_rows<S: Simd, const M: usize, const V: usize>(
    simd: S,
    w: [&[f32]; M],
    x: &[S::f32s],
    at: usize,
    stride: usize,
    sums: &mut [[S::f32s; V]; M],
) {
    for (k, x) in x.chunks_exact(stride).enumerate().take(w[0].len()) {
        let x: &[S::f32s; V] = x[at..].first_chunk().expect("whole vectors");
        for i in 0..M {
            let w = simd.splat_f32s(w[i][k]);
            for v in 0..V {
                sums[i][v] = simd.mul_add_f32s(w, x[v], sums[i][v]);
            }
        }
    }
}
