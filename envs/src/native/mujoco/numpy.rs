//! Sums and norms in numpy's order of operations, on which the last bits depend.

use std::ops::Add;

/// `np.sum` of `n` numbers: one after the other for fewer than 8, in eight partial sums up to 128, by halves above.
pub(super) fn sum<T: Copy + Default + Add<Output = T>>(n: usize, at: impl Fn(usize) -> T + Copy) -> T {
    if n < 8 {
        return (0..n).fold(T::default(), |sum, i| sum + at(i));
    }
    if n > 128 {
        let half = n / 2 - n / 2 % 8;
        return sum(half, at) + sum_from(half, n - half, at);
    }
    let mut sums: [T; 8] = std::array::from_fn(at);
    let whole = n - n % 8;
    for i in 8..whole {
        sums[i % 8] = sums[i % 8] + at(i);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    (whole..n).fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, i| sum + at(i))
}

fn sum_from<T: Copy + Default + Add<Output = T>>(from: usize, n: usize, at: impl Fn(usize) -> T + Copy) -> T {
    let at: &dyn Fn(usize) -> T = &|i| at(from + i);
    sum(n, at)
}

/// Sum of squares, `np.sum(np.square(values))`.
pub(super) fn sum_of_squares(values: &[f64]) -> f64 {
    sum(values.len(), |i| values[i] * values[i])
}

/// `weight * np.sum(np.square(action))` in single precision, to which numpy converts the weight.
pub(super) fn control_cost(weight: f64, action: &[f32]) -> f32 {
    weight as f32 * sum(action.len(), |i| action[i] * action[i])
}

/// `np.linalg.norm` of a short vector, with fused multiply-add. OpenBLAS fuses on some processors and not on others.
pub(super) fn norm(vector: &[f64]) -> f64 {
    vector.iter().fold(0.0_f64, |sum, &x| x.mul_add(x, sum)).sqrt()
}

/// `np.clip`, with the same results for NaN and for bounds in the wrong order.
pub(super) fn clip(value: f64, low: f64, high: f64) -> f64 {
    let value = if value < low { low } else { value };
    if value > high { high } else { value }
}

/// Python's `float(flag)`: 1 if true, else 0.
pub(super) fn one_if(flag: bool) -> f64 {
    f64::from(u8::from(flag))
}
