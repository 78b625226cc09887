//! Functions of every number of a buffer, and sums over a buffer.

use crate::kernels::arch;
use crate::kernels::products::LANES;
use pulp::{Arch, Simd, WithSimd};

/// Replaces every number of `x` by its hyperbolic tangent.
///
/// A rational approximation (degrees 13 and 6 in x, as Eigen's) computes it within 4 units in the last place.
pub(crate) fn tanh(arch: Arch, x: &mut [f32]) {
    struct Op<'a>(&'a mut [f32]);
    impl WithSimd for Op<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for x in S::as_mut_simd_f32s(self.0).0 {
                *x = tanh_of(simd, *x);
            }
        }
    }
    arch.dispatch(Op(x));
}

#[inline(always)]
fn tanh_of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const P: [f32; 7] = [
        -2.760_768_5e-16,
        2.000_188e-13,
        -8.604_672e-11,
        5.122_297e-8,
        1.485_722_4e-5,
        6.372_619_3e-4,
        4.893_525e-3,
    ];
    const Q: [f32; 4] = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let bound = simd.splat_f32s(7.905_311);
    // By comparisons: processors disagree about what `min` and `max` make of NaN, which must stay NaN.
    let x = simd.select_f32s(simd.less_than_f32s(bound, x), bound, x);
    let bound = simd.neg_f32s(bound);
    let x = simd.select_f32s(simd.less_than_f32s(x, bound), bound, x);
    let x2 = simd.mul_f32s(x, x);
    let mut p = simd.splat_f32s(P[0]);
    for &c in &P[1..] {
        p = simd.mul_add_f32s(p, x2, simd.splat_f32s(c));
    }
    let mut q = simd.splat_f32s(Q[0]);
    for &c in &Q[1..] {
        q = simd.mul_add_f32s(q, x2, simd.splat_f32s(c));
    }
    simd.div_f32s(simd.mul_f32s(x, p), q)
}

/// Computes `e^x` within 2 units in the last place (Cephes' polynomial). A loop over it is vectorised.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer that stands in the low bits.
    let low = if x < -87.0 { -87.0 } else { x };
    let t = low * std::f32::consts::LOG2_E + MAGIC;
    let n = t - MAGIC;
    let r = low - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        p = p * r + c;
    }
    let y = p * r * r + r + 1.0;
    let scale = f32::from_bits((t.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127)) << 23);
    if x > 88.0 { f32::INFINITY } else { y * scale }
}

/// Computes the natural logarithm within 2 units in the last place (Cephes' polynomial). A loop over it is vectorised.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let small = (bits & 0x007f_ffff) < 0x0035_04f3; // mantissa below sqrt(2)
    let exponent = (bits >> 23) as i32 - if small { 127 } else { 126 };
    let m = f32::from_bits((bits & 0x007f_ffff) | if small { 0x3f80_0000 } else { 0x3f00_0000 }) - 1.0;
    let mut p = 7.037_683_6e-2;
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = p * m + c;
    }
    let e = exponent as f32;
    let y = m * m * m * p + e * -2.121_944_4e-4 - 0.5 * m * m + m + e * 0.693_359_4;
    if x > 0.0 && x < f32::INFINITY {
        y
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else if x > 0.0 {
        x
    } else {
        f32::NAN
    }
}

/// Moves every number of `to` towards that of `from`: `to += rate * (from - to)`. Both have the same length.
pub(crate) fn approach(to: &mut [f32], from: &[f32], rate: f32) {
    arch().dispatch(|| to.iter_mut().zip(from).for_each(|(to, &from)| *to += rate * (from - *to)));
}

/// Sums `f(x)` over all numbers of a buffer: in f32 lanes, which are then added in double precision.
pub fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    arch().dispatch(|| {
        let mut sums = [0.0_f32; LANES];
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(s, &x)| *s += f(x));
        }
        let rest: f32 = rest.iter().map(|&x| f(x)).sum();
        sums.iter().map(|&x| f64::from(x)).sum::<f64>() + f64::from(rest)
    })
}

/// The Euclidean norm of a buffer.
pub(crate) fn norm(x: &[f32]) -> f64 {
    sum(x, |x| x * x).sqrt()
}
