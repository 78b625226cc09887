//! Gradients of a layer's weights and biases: sums over the rows of products.

use crate::kernels::products::{LANES, Left, Product, stride};
use pulp::{Arch, Simd, WithSimd};

/// Adds a layer's gradients: `dw[o][i] += sum over the rows of dy[o] x[i]` and `db[o] += sum of dy[o]`. `dw` is
/// `[out, in]`; `room` is scratch memory of [`outer_room`] numbers.
pub(crate) fn outer(
    arch: Arch,
    dy: &[f32],
    x: &[f32],
    dw: &mut [f32],
    db: &mut [f32],
    rows: usize,
    room: &mut [f32],
) {
    arch.dispatch(Outer { dy, x, dw, db, rows, room });
}

/// Number of weights from which on [`outer`] transposes its operands, whatever the number of rows. (Narrow layers
/// would gain as well, but their numbers would change in the last digits.)
const WIDE: usize = 128 * 128;

/// Number of scalars of scratch memory that [`outer`] needs; 0 if it does not transpose.
///
/// With the rows in a vector's lanes, each sum over rows ends with adding up the lanes, once per weight. With few rows
/// and wide layers it is faster to transpose `x`, so that its inputs lie in the lanes.
pub(crate) fn outer_room(rows: usize, inputs: usize, outputs: usize) -> usize {
    let whole = inputs.is_multiple_of(LANES);
    let is_wide = inputs * outputs >= WIDE;
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
        match LANES / S::F32_LANES {
            1 => self.with_parts::<S, 1>(simd),
            2 => self.with_parts::<S, 2>(simd),
            4 => self.with_parts::<S, 4>(simd),
            _ => self.with_parts::<S, LANES>(simd),
        }
    }
}

impl Outer<'_> {
    /// Computes all gradients. Every sum runs in [`LANES`] lanes, which fill `H` vectors of this processor.
    ///
    /// Every processor adds the same numbers in the same order, so gradients have the same bits with all vectors.
    #[inline(always)]
    fn with_parts<S: Simd, const H: usize>(self, simd: S) {
        let Self { dy, x, dw, db, rows, room } = self;
        let apart = stride(rows);
        let stride = apart / S::F32_LANES;
        let blocks = rows.div_ceil(LANES);
        for (db, dy) in db.iter_mut().zip(S::as_simd_f32s(dy).0.chunks_exact(stride)) {
            let mut sums = [simd.splat_f32s(0.0); H];
            for dy in dy[..blocks * H].chunks_exact(H) {
                for h in 0..H {
                    sums[h] = simd.add_f32s(sums[h], dy[h]);
                }
            }
            *db += total(simd, sums);
        }
        if !room.is_empty() {
            let inputs = x.len() / apart;
            let across = self::stride(inputs);
            transpose(x, apart, room, across);
            let left = Left::Apart(dy, apart);
            let x = &room[..rows * across];
            let strides = [across, inputs];
            return Product { left, x, y: dw, rows: inputs, strides, relu: false }.with_simd(simd);
        }
        let dy = S::as_simd_f32s(dy).0;
        let x = S::as_simd_f32s(x).0;
        let shape = Shape { stride, blocks, inputs: x.len() / stride, outputs: dy.len() / stride };
        let mut o = 0;
        while o + 4 <= shape.outputs {
            weights_of::<S, 4, H>(simd, dy, x, dw, o, shape);
            o += 4;
        }
        while o + 2 <= shape.outputs {
            weights_of::<S, 2, H>(simd, dy, x, dw, o, shape);
            o += 2;
        }
        if o < shape.outputs {
            weights_of::<S, 1, H>(simd, dy, x, dw, o, shape);
        }
    }
}

/// Sizes of the operands: distance between features in vectors, blocks of [`LANES`] rows, and numbers of features.
#[derive(Clone, Copy)]
struct Shape {
    stride: usize,
    blocks: usize,
    inputs: usize,
    outputs: usize,
}

/// The sum of [`LANES`] lanes, in a fixed order: lanes i and i + 8 are added first, then i + 4, i + 2 and i + 1.
#[inline(always)]
fn total<S: Simd, const H: usize>(simd: S, mut sums: [S::f32s; H]) -> f32 {
    let mut n = H;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            sums[i] = simd.add_f32s(sums[i], sums[i + n]);
        }
    }
    simd.reduce_sum_f32s(sums[0])
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

/// Computes the gradients of all weights of the `M` outputs from `o` on.
#[inline(always)]
fn weights_of<S: Simd, const M: usize, const H: usize>(
    simd: S,
    dy: &[S::f32s],
    x: &[S::f32s],
    dw: &mut [f32],
    o: usize,
    shape: Shape,
) {
    let mut i = 0;
    // As many sums as registers hold: AVX-512 has 32 of them, AVX2 has 16.
    if H == 1 {
        while i + 4 <= shape.inputs {
            dots::<S, M, 4, H>(simd, dy, x, dw, [o, i], shape);
            i += 4;
        }
    } else {
        while i + 3 <= shape.inputs {
            dots::<S, M, 3, H>(simd, dy, x, dw, [o, i], shape);
            i += 3;
        }
    }
    while i + 2 <= shape.inputs {
        dots::<S, M, 2, H>(simd, dy, x, dw, [o, i], shape);
        i += 2;
    }
    if i < shape.inputs {
        dots::<S, M, 1, H>(simd, dy, x, dw, [o, i], shape);
    }
}

/// Computes the gradients of the weights from `N` inputs to `M` outputs. The `H` vectors of a block are summed one after
/// the other, so that the sums stay in registers.
#[expect(clippy::needless_range_loop, reason = "an iterator over the sums would keep them in memory")]
#[inline(always)]
fn dots<S: Simd, const M: usize, const N: usize, const H: usize>(
    simd: S,
    dy: &[S::f32s],
    x: &[S::f32s],
    dw: &mut [f32],
    [o, i]: [usize; 2],
    shape: Shape,
) {
    let length = shape.blocks * H;
    let dy: [&[S::f32s]; M] = std::array::from_fn(|m| &dy[(o + m) * shape.stride..][..length]);
    let x: [&[S::f32s]; N] = std::array::from_fn(|n| &x[(i + n) * shape.stride..][..length]);
    let mut all = [[[simd.splat_f32s(0.0); H]; N]; M];
    for h in 0..H {
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        let mut v = h;
        while v < length {
            let x: [S::f32s; N] = std::array::from_fn(|n| x[n][v]);
            for m in 0..M {
                for n in 0..N {
                    sums[m][n] = simd.mul_add_f32s(dy[m][v], x[n], sums[m][n]);
                }
            }
            v += H;
        }
        for m in 0..M {
            for n in 0..N {
                all[m][n][h] = sums[m][n];
            }
        }
    }
    for m in 0..M {
        for n in 0..N {
            dw[(o + m) * shape.inputs + i + n] += total(simd, all[m][n]);
        }
    }
}
