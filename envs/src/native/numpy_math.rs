//! Functions of numpy that differ from the plain ones in the last bit.

/// `x ** 2` of a double: numpy takes the C library's `pow`, which differs from `x * x` now and then; the compiler
/// would turn a plain `powf(2.0)` into a product.
pub(super) fn square(x: f64) -> f64 {
    x.powf(std::hint::black_box(2.0))
}

/// `x ** 2` of a `np.float32`: likewise by the C library's `powf`.
pub(super) fn square_f32(x: f32) -> f32 {
    x.powf(std::hint::black_box(2.0))
}

/// `np.sin` and `np.cos` of a single-precision number below pi/4 on a machine with FMA: numpy's own polynomials
/// (loops_trigonometric, BSD-3-Clause, Copyright NumPy Developers).
pub(super) fn sin_cos_f32(x: f32) -> (f32, f32) {
    let xx = x * x;
    let sin = 2.840_409_7e-6_f32
        .mul_add(xx, -1.985_649_1e-4)
        .mul_add(xx, 8.333_397e-3)
        .mul_add(xx, -1.666_666_7e-1);
    let cos = 2.437_226_6e-5_f32
        .mul_add(xx, -1.388_652e-3)
        .mul_add(xx, 4.166_662e-2)
        .mul_add(xx, -0.5)
        .mul_add(xx, 1.0);
    ((sin * xx).mul_add(x, x), cos)
}
