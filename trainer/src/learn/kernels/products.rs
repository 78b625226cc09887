//! Matrix products and elementwise passes over rows that lie side by side in vector lanes.
//!
//! A matrix here is feature-major: `[features][stride]`, the rows of a batch side by side, `stride` a multiple of
//! [`LANES`]. So every shape fills the vectors, however few features a layer has, a row's result does not depend on the
//! rows beside it, and observations, activations, logits and the columns of a loss have one layout. Instructions are
//! chosen when the program runs: AVX-512, AVX2 with FMA, NEON, or one number at a time.

use pulp::{Arch, Simd, WithSimd};

/// Number of rows per block; rows are computed in multiples of it.
pub(crate) const LANES: usize = 16;

/// Distance between features: the rows in whole vectors, an odd number of vectors if there are many, because
/// features that are a power of two apart share a few sets of the cache.
pub(crate) fn stride(rows: usize) -> usize {
    let vectors = rows.div_ceil(LANES).max(1);
    LANES * if vectors < 4 { vectors } else { vectors | 1 }
}

/// The left factor of a product: a weight matrix `[out, in]`, and whether the product adds to its output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left<'a> {
    /// Weights `[out, in]` and a bias: `in` features become `out`.
    Weight(&'a [f32], &'a [f32]),
    /// Weights `[out, in]` with the given distance between rows: the product is added to `out` features.
    Apart(&'a [f32], usize),
    /// Transposed weights: `out` features become `in`, or are added to them. Columns are stored in panels of `panel`
    /// columns, one after the other; see [`panels`].
    Transposed { weight: &'a [f32], panel: usize, add: bool },
}

/// `y = W x + b`, or `y = W^T x`, or `y += W^T x`; `x` is `[inputs][stride]`, `y` is `[outputs][stride]`.
pub(crate) fn product(arch: Arch, left: Left<'_>, x: &[f32], y: &mut [f32], rows: usize) {
    arch.dispatch(Product { left, x, y, rows, strides: [stride(rows); 2] });
}

/// Number of outputs per tile with the widest vectors, and of columns per panel.
const TILE: usize = 12;

/// Number of scalars of scratch memory for [`panels`]. Narrow layers need none: their weights are close enough in
/// memory to be read across.
pub(crate) fn panels_room(inputs: usize, outputs: usize) -> usize {
    if inputs.min(outputs) < 400 { 0 } else { inputs * outputs }
}

/// Prepares weights `[out, inputs]` for [`Left::Transposed`]: unchanged if `room` is empty, else with each tile's
/// columns side by side. The product has the same bits.
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

struct Product<'a> {
    left: Left<'a>,
    x: &'a [f32],
    y: &'a mut [f32],
    rows: usize,
    /// Distances between features of `x` and between features of `y`.
    strides: [usize; 2],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, x, y, rows, strides } = self;
        let strides = strides.map(|stride| stride / S::F32_LANES);
        let (x, y) = (S::as_simd_f32s(x).0, S::as_mut_simd_f32s(y).0);
        let shape = Shape { strides, inputs: x.len() / strides[0], outputs: y.len() / strides[1] };
        let vectors = rows.next_multiple_of(LANES) / S::F32_LANES;
        let mut at = 0;
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

/// Distances between features, in vectors, and numbers of features on both sides.
#[derive(Clone, Copy)]
struct Shape {
    strides: [usize; 2],
    inputs: usize,
    outputs: usize,
}

/// Computes all outputs of `V` vectors of rows.
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
    if S::F32_LANES == LANES {
        while m + TILE <= shape.outputs {
            tile::<S, TILE, V>(simd, left, x, y, m, at, shape);
            m += TILE;
        }
        while m + 8 <= shape.outputs {
            tile::<S, 8, V>(simd, left, x, y, m, at, shape);
            m += 8;
        }
    }
    while m + 4 <= shape.outputs {
        tile::<S, 4, V>(simd, left, x, y, m, at, shape);
        m += 4;
    }
    while m < shape.outputs {
        tile::<S, 1, V>(simd, left, x, y, m, at, shape);
        m += 1;
    }
}

/// Computes `M` outputs of `V` vectors of rows, in registers.
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
    let Shape { strides: [stride, to_stride], inputs, outputs } = shape;
    let mut sums = [[simd.splat_f32s(0.0); V]; M];
    match left {
        Left::Weight(w, bias) => {
            for (sums, &bias) in sums.iter_mut().zip(&bias[m..m + M]) {
                *sums = [simd.splat_f32s(bias); V];
            }
            let w = std::array::from_fn(|i| &w[(m + i) * inputs..][..inputs]);
            add_rows::<S, M, V>(simd, w, x, at, stride, &mut sums);
        }
        Left::Apart(w, apart) => {
            for (i, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(&y[(m + i) * to_stride + at..][..V]);
            }
            let w = std::array::from_fn(|i| &w[(m + i) * apart..][..inputs]);
            add_rows::<S, M, V>(simd, w, x, at, stride, &mut sums);
        }
        Left::Transposed { weight: w, panel, add } => {
            if add {
                for (i, sums) in sums.iter_mut().enumerate() {
                    sums.copy_from_slice(&y[(m + i) * to_stride + at..][..V]);
                }
            }
            let first = m / panel * panel;
            let columns = panel.min(outputs - first);
            let w = &w[first * inputs..][..columns * inputs];
            for (w, x) in w.chunks_exact(columns).zip(x.chunks_exact(stride)) {
                let (w, x) = (&w[m - first..][..M], &x[at..at + V]);
                for i in 0..M {
                    let w = simd.splat_f32s(w[i]);
                    for v in 0..V {
                        sums[i][v] = simd.mul_add_e_f32s(w, x[v], sums[i][v]);
                    }
                }
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        y[(m + i) * to_stride + at..][..V].copy_from_slice(sums);
    }
}

/// Adds the products of `M` rows of weights with `V` vectors of rows.
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
        let x = &x[at..at + V];
        for i in 0..M {
            let w = simd.splat_f32s(w[i][k]);
            for v in 0..V {
                sums[i][v] = simd.mul_add_e_f32s(w, x[v], sums[i][v]);
            }
        }
    }
}

/// `dw[o][i] += sum over the rows of dy[o] x[i]` and `db[o] += sum of dy[o]`; `dw` is `[out, in]`. `room` has
/// [`outer_room`] numbers.
pub(crate) fn outer(
    arch: Arch,
    dy: &[f32],
    x: &[f32],
    (dw, db): (&mut [f32], &mut [f32]),
    rows: usize,
    room: &mut [f32],
) {
    arch.dispatch(Outer { dy, x, dw, db, rows, room });
}

/// Number of weights from which on [`outer`] transposes its operands, whatever the number of rows. (Narrow layers
/// would gain as well, but their numbers would change in the last digits.)
const WIDE: usize = 128 * 128;

/// Number of scalars of scratch memory for [`outer`].
///
/// Sums over rows that lie in a vector's lanes end with adding up the lanes, once per weight. With few rows and wide
/// layers it is faster to transpose: the product then has inputs in the lanes.
pub(crate) fn outer_room(rows: usize, inputs: usize, outputs: usize) -> usize {
    let (whole, is_wide) = (inputs.is_multiple_of(LANES), inputs * outputs >= WIDE);
    let turned = whole && (is_wide || rows < 128 && outputs.is_multiple_of(LANES));
    if turned { rows.next_multiple_of(LANES) * stride(inputs) } else { 0 }
}

struct Outer<'a> {
    dy: &'a [f32],
    x: &'a [f32],
    dw: &'a mut [f32],
    db: &'a mut [f32],
    rows: usize,
    room: &'a mut [f32],
}

impl WithSimd for Outer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { dy, x, dw, db, rows, room } = self;
        let apart = stride(rows);
        let stride = apart / S::F32_LANES;
        let vectors = rows.next_multiple_of(LANES) / S::F32_LANES;
        for (db, dy) in db.iter_mut().zip(S::as_simd_f32s(dy).0.chunks_exact(stride)) {
            let sum = dy[..vectors].iter().fold(simd.splat_f32s(0.0), |sum, &v| simd.add_f32s(sum, v));
            *db += simd.reduce_sum_f32s(sum);
        }
        if !room.is_empty() {
            let inputs = x.len() / apart;
            let across = self::stride(inputs);
            transpose(x, apart, room, across);
            let left = Left::Apart(dy, apart);
            let x = &room[..rows * across];
            return Product { left, x, y: dw, rows: inputs, strides: [across, inputs] }.with_simd(simd);
        }
        let (dy, x) = (S::as_simd_f32s(dy).0, S::as_simd_f32s(x).0);
        let shape = Shape { strides: [stride; 2], inputs: x.len() / stride, outputs: dy.len() / stride };
        let mut o = 0;
        while o + 4 <= shape.outputs {
            weights_of::<S, 4>(simd, dy, x, dw, o, vectors, shape);
            o += 4;
        }
        while o < shape.outputs {
            weights_of::<S, 1>(simd, dy, x, dw, o, vectors, shape);
            o += 1;
        }
    }
}

/// Transposes `x` from `[inputs][apart]` to `[rows][across]`.
#[inline(always)]
fn transpose(x: &[f32], apart: usize, to: &mut [f32], across: usize) {
    for (i, x) in x.chunks_exact(LANES * apart).enumerate() {
        for (b, to) in to.chunks_exact_mut(LANES * across).enumerate() {
            let row = |k: usize| x[k * apart + b * LANES..].first_chunk().expect("whole vectors");
            let block: [&[f32; LANES]; LANES] = std::array::from_fn(row);
            for (r, to) in to.chunks_exact_mut(across).enumerate() {
                let to = &mut to[i * LANES..][..LANES];
                to.iter_mut().zip(block).for_each(|(to, row)| *to = row[r]);
            }
        }
    }
}

/// Computes the gradients of all weights of `M` outputs.
#[inline(always)]
fn weights_of<S: Simd, const M: usize>(
    simd: S,
    dy: &[S::f32s],
    x: &[S::f32s],
    dw: &mut [f32],
    o: usize,
    vectors: usize,
    shape: Shape,
) {
    let mut i = 0;
    if S::F32_LANES == LANES {
        while i + 4 <= shape.inputs {
            dots::<S, M, 4>(simd, dy, x, dw, (o, i), vectors, shape);
            i += 4;
        }
    }
    while i + 2 <= shape.inputs {
        dots::<S, M, 2>(simd, dy, x, dw, (o, i), vectors, shape);
        i += 2;
    }
    if i < shape.inputs {
        dots::<S, M, 1>(simd, dy, x, dw, (o, i), vectors, shape);
    }
}

/// Computes `M` by `N` sums over the rows, in registers.
#[inline(always)]
fn dots<S: Simd, const M: usize, const N: usize>(
    simd: S,
    dy: &[S::f32s],
    x: &[S::f32s],
    dw: &mut [f32],
    (o, i): (usize, usize),
    vectors: usize,
    shape: Shape,
) {
    let mut sums = [[simd.splat_f32s(0.0); N]; M];
    let dy: [&[S::f32s]; M] = std::array::from_fn(|m| &dy[(o + m) * shape.strides[0]..][..vectors]);
    let x: [&[S::f32s]; N] = std::array::from_fn(|n| &x[(i + n) * shape.strides[0]..][..vectors]);
    for v in 0..vectors {
        let x: [S::f32s; N] = std::array::from_fn(|n| x[n][v]);
        for m in 0..M {
            for n in 0..N {
                sums[m][n] = simd.mul_add_e_f32s(dy[m][v], x[n], sums[m][n]);
            }
        }
    }
    for m in 0..M {
        for n in 0..N {
            dw[(o + m) * shape.inputs + i + n] += simd.reduce_sum_f32s(sums[m][n]);
        }
    }
}
