//! Initial weights in plain arithmetic, so that every processor draws the same: LAPACK chooses its code by processor.

use crate::learn::kernels::arch;

/// Lanes of a sum in double precision.
const LANES: usize = 8;

/// Scales `row` to the Euclidean norm `norm`.
pub(crate) fn normalise(row: &mut [f32], norm: f64) {
    let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = norm / square.sqrt();
    row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
}

/// Makes the rows of `drawn` (`[out, inputs]`, or its columns if there are fewer of them) orthonormal, times `gain`.
///
/// Modified Gram-Schmidt in double precision: what it loses beside Householder's way, about the condition number times
/// 1e-16, is far below the last digit of an f32.
pub(crate) fn orthogonal(drawn: &[f32], out: usize, inputs: usize, gain: f64) -> Vec<f32> {
    // The fewer vectors of the longer side: normal numbers fill them in the order of the taller matrix's rows.
    let [count, length] = [out.min(inputs), out.max(inputs)];
    let mut vectors: Vec<Vec<f64>> =
        (0..count).map(|v| (0..length).map(|i| f64::from(drawn[i * count + v])).collect()).collect();
    arch().dispatch(|| {
        for v in 0..count {
            let (head, rest) = vectors.split_at_mut(v + 1);
            let unit = &mut head[v];
            let norm = dot(unit, unit).sqrt();
            unit.iter_mut().for_each(|x| *x /= norm);
            for other in rest {
                let share = dot(unit, other);
                other.iter_mut().zip(&*unit).for_each(|(x, u)| *x -= share * u);
            }
        }
    });
    let of = |o: usize, i: usize| if out < inputs { vectors[o][i] } else { vectors[i][o] };
    (0..out * inputs).map(|at| (of(at / inputs, at % inputs) * gain) as f32).collect()
}

/// The scalar product, added up in [`LANES`] lanes.
#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            sums[l] += a[l] * b[l];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}
