//! numpy's functions whose results differ in the last bit from Rust's.

/// `x ** 2` of a double: numpy calls the C library's `pow`, which differs from `x * x` for some numbers. The compiler would
/// turn a plain `powf(2.0)` into a product.
pub(super) fn square(x: f64) -> f64 {
    x.powf(std::hint::black_box(2.0))
}

/// `x ** 2` of a `np.float32`: numpy calls the C library's `powf`, which differs from `x * x` for some numbers.
pub(super) fn square_f32(x: f32) -> f32 {
    x.powf(std::hint::black_box(2.0))
}

/// `np.sin` and `np.cos` of a single-precision number on a machine with FMA: numpy's own reduction and polynomials
/// (loops_trigonometric, BSD-3-Clause, Copyright NumPy Developers), valid for numbers below 70,000.
pub(super) fn sin_cos_f32(x: f32) -> (f32, f32) {
    let quadrant = (x * std::f32::consts::FRAC_2_PI).round_ties_even();
    // Pi / 2 split into three parts, for a reduction without loss.
    #[allow(clippy::approx_constant, reason = "only the first bits: the other two parts add the rest")]
    let x = quadrant.mul_add(-1.570_796, x);
    let x = quadrant.mul_add(-3.139_164_7e-7, x);
    let x = quadrant.mul_add(-5.390_302_5e-15, x);
    let xx = x * x;
    let sin = 2.840_409_7e-6_f32
        .mul_add(xx, -1.985_649_1e-4)
        .mul_add(xx, 8.333_397e-3)
        .mul_add(xx, -1.666_666_7e-1);
    let sin = (sin * xx).mul_add(x, x);
    let cos = 2.437_226_6e-5_f32
        .mul_add(xx, -1.388_652e-3)
        .mul_add(xx, 4.166_662e-2)
        .mul_add(xx, -0.5)
        .mul_add(xx, 1.0);
    match quadrant as i32 & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}
