//! Initial weights, computed without LAPACK so that they are equal on all processors: LAPACK's code depends on the
//! processor.

use crate::kernels::arch;

/// Number of partial sums that [`dot`] keeps.
const LANES: usize = 8;

/// Scales `row` to the Euclidean norm `norm`.
pub(crate) fn normalise(row: &mut [f32], norm: f64) {
    let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = norm / square.sqrt();
    row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
}

/// Makes a matrix `[out, inputs]` of the numbers in `drawn`, with orthonormal rows (or columns, if there are fewer of
/// these), times `gain`.
///
/// The method is modified Gram-Schmidt in double precision. It is less exact than Householder's, but its error, about
/// the condition number times 1e-16, is far below the last digit of an f32.
pub(crate) fn orthogonal(drawn: &[f32], out: usize, inputs: usize, gain: f64) -> Vec<f32> {
    // `drawn` is read as a matrix `[length, count]`, whose columns are the vectors.
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

/// The scalar product of `a` and `b`, added up in [`LANES`] partial sums.
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
