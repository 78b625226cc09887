//! Functions that an exported C file contains, so that it needs no library.

/// Functions in the order in which they stand in a file: each uses only those before it.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[
    ("policy_exp", EXP),
    ("policy_tanh", TANH),
    ("policy_sigmoid", SIGMOID),
    ("policy_sqrt", SQRT),
    ("policy_argmax", ARGMAX),
];

/// Splits x into n ln 2 and a rest of at most half of ln 2, of which the series has seven terms.
const EXP: &str = "\
static float policy_exp(float x)
{
    float n, r, y;
    int i, k;
    if (x > 88.0f) x = 88.0f;
    if (x < -87.0f) return 0.0f;
    n = x * 1.44269504f;
    k = (int)(n < 0.0f ? n - 0.5f : n + 0.5f);
    r = x - (float)k * 0.693359375f;
    r = r + (float)k * 2.12194440e-4f;
    y = 1.0f + r * (1.0f + r * (0.5f + r * (0.166666672f + r * (4.16666679e-2f + r * (8.33333377e-3f + r * 1.38888892e-3f)))));
    for (i = 0; i < k; i++) y = y * 2.0f;
    for (i = 0; i > k; i--) y = y * 0.5f;
    return y;
}
";

/// Near zero the series of an odd function, elsewhere by the exponential function.
const TANH: &str = "\
static float policy_tanh(float x)
{
    float a = x < 0.0f ? -x : x, s, y;
    if (a < 0.625f) {
        s = x * x;
        y = s * (-3.33332819e-1f + s * (1.33314422e-1f + s * (-5.37397155e-2f + s * (2.06390887e-2f + s * -5.70498872e-3f))));
        return x + x * y;
    }
    y = a > 9.1f ? 1.0f : 1.0f - 2.0f / (policy_exp(2.0f * a) + 1.0f);
    return x < 0.0f ? -y : y;
}
";

const SIGMOID: &str = "\
static float policy_sigmoid(float x)
{
    return x < 0.0f ? 1.0f - 1.0f / (1.0f + policy_exp(x)) : 1.0f / (1.0f + policy_exp(-x));
}
";

/// Newton's method from a start within a factor of two.
const SQRT: &str = "\
static float policy_sqrt(float x)
{
    float scale = 1.0f, y;
    int i;
    if (x <= 0.0f) return 0.0f;
    while (x > 4.0f) { x = x * 0.25f; scale = scale * 2.0f; }
    while (x < 1.0f) { x = x * 4.0f; scale = scale * 0.5f; }
    y = 0.5f * (1.0f + x);
    for (i = 0; i < 5; i++) y = 0.5f * (y + x / y);
    return y * scale;
}
";

/// The first of equal ones.
const ARGMAX: &str = "\
static int policy_argmax(const float *x, int n)
{
    int i, best = 0;
    for (i = 1; i < n; i++) if (x[i] > x[best]) best = i;
    return best;
}
";
