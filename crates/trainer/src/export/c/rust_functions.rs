//! Functions that an exported Rust file contains, so that it needs no library. They compute what those of the C file do.

/// Functions in the order in which they stand in a file: each uses only those before it.
pub(super) const RUST_FUNCTIONS: &[(&str, &str)] = &[
    ("policy_exp", EXP),
    ("policy_tanh", TANH),
    ("policy_sigmoid", SIGMOID),
    ("policy_sqrt", SQRT),
    ("policy_argmax", ARGMAX),
];

/// Splits x into n ln 2 and a rest of at most half of ln 2, of which the series has seven terms.
const EXP: &str = "\
fn policy_exp(x: f32) -> f32 {
    if x < -87.0 {
        return 0.0;
    }
    let x = if x > 88.0 { 88.0 } else { x };
    let n = x * 1.44269504;
    let k = (if n < 0.0 { n - 0.5 } else { n + 0.5 }) as i32;
    let r = x - k as f32 * 0.693359375;
    let r = r + k as f32 * 2.12194440e-4;
    let mut y = 1.0 + r * (1.0 + r * (0.5 + r * (0.166666672 + r * (4.16666679e-2 + r * (8.33333377e-3 + r * 1.38888892e-3)))));
    for _ in 0..k {
        y = y * 2.0;
    }
    for _ in k..0 {
        y = y * 0.5;
    }
    y
}
";

/// Near zero the series of an odd function, elsewhere by the exponential function.
const TANH: &str = "\
fn policy_tanh(x: f32) -> f32 {
    let a = if x < 0.0 { -x } else { x };
    if a < 0.625 {
        let s = x * x;
        let y = s * (-3.33332819e-1 + s * (1.33314422e-1 + s * (-5.37397155e-2 + s * (2.06390887e-2 + s * -5.70498872e-3))));
        return x + x * y;
    }
    let y = if a > 9.1 { 1.0 } else { 1.0 - 2.0 / (policy_exp(2.0 * a) + 1.0) };
    if x < 0.0 { -y } else { y }
}
";

const SIGMOID: &str = "\
fn policy_sigmoid(x: f32) -> f32 {
    if x < 0.0 { 1.0 - 1.0 / (1.0 + policy_exp(x)) } else { 1.0 / (1.0 + policy_exp(-x)) }
}
";

/// Newton's method from a start within a factor of two.
const SQRT: &str = "\
fn policy_sqrt(x: f32) -> f32 {
    if !(x > 0.0) || x == f32::INFINITY {
        return if x > 0.0 { x } else { 0.0 };
    }
    let mut x = x;
    let mut scale = 1.0;
    while x > 4.0 {
        x = x * 0.25;
        scale = scale * 2.0;
    }
    while x < 1.0 {
        x = x * 4.0;
        scale = scale * 0.5;
    }
    let mut y = 0.5 * (1.0 + x);
    for _ in 0..5 {
        y = 0.5 * (y + x / y);
    }
    y * scale
}
";

/// The first of equal ones.
const ARGMAX: &str = "\
fn policy_argmax(x: &[f32]) -> usize {
    let mut best = 0;
    for i in 1..x.len() {
        if x[i] > x[best] {
            best = i;
        }
    }
    best
}
";
