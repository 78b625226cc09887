//! Rounding to a step, and the normal distribution function and its inverse.

/// Rounds to the nearest multiple of `q`, without floating-point noise: 3 steps of 0.1 are 0.3, not 0.30000000000000004.
pub(super) fn round_to(value: f64, q: f64) -> f64 {
    let steps = (value / q).round();
    let per_unit = (1.0 / q).round();
    if (per_unit * q - 1.0).abs() < 1e-12 { steps / per_unit } else { steps * q }
}

/// Quantile of the standard normal distribution to nine digits: P. J. Acklam's rational approximation (2003).
pub(super) fn normal_quantile(u: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383_577_518_672_69e2,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1.0];
    const TAIL: f64 = 0.02425;
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |u: f64| {
        let x = (-2.0 * u.ln()).sqrt();
        polynomial(&C, x) / polynomial(&D, x)
    };
    let u = u.clamp(1e-16, 1.0 - 1e-16);
    if u < TAIL {
        tail(u)
    } else if u > 1.0 - TAIL {
        -tail(1.0 - u)
    } else {
        let x = u - 0.5;
        x * polynomial(&A, x * x) / polynomial(&B, x * x)
    }
}

/// Cumulative probability of the standard normal distribution to seven digits: Abramowitz and Stegun (1964), 7.1.26.
pub(super) fn normal_cdf(z: f64) -> f64 {
    const TERMS: [f64; 6] = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.3275911 * x);
    let tail = 0.5 * TERMS.iter().fold(0.0, |sum, term| sum * t + term) * (-x * x).exp();
    if z < 0.0 { tail } else { 1.0 - tail }
}
