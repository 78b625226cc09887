//! Sine and cosine of small angles, vectorisable and equal bit for bit to the platform's `sin` and `cos`.
//!
//! On x86-64 with FMA, glibc evaluates both for |x| < 0.855 as a short polynomial around the nearest k/128, whose sine and
//! cosine are in a table (and sine below 0.126 as one polynomial). This file does the same arithmetic, operation by
//! operation, for |x| < 0.246 without branches, so that a loop over many angles needs no calls. Whether it fits the machine
//! is decided at run time: [`fits_platform`] is false without AVX2 and FMA, or where the platform's functions give other
//! bits for any of some thousand angles. Callers then use `f64::sin_cos`.

use std::sync::LazyLock;

/// Bound of |x| for [`sin_cos`]: 31.5/128 minus a margin.
pub(super) const LIMIT: f64 = 0.246;

/// Returns `(sin(x), cos(x))` for `|x| < LIMIT`. Fast only inside a function with the feature `fma`.
#[inline(always)]
pub(super) fn sin_cos(x: f64) -> (f64, f64) {
    // Adding 1.5 * 2^45 rounds to the nearest multiple of 1/128, k/128, and leaves k in the lowest bits.
    const ROUND: f64 = 52_776_558_133_248.0;
    let angle = x.abs();
    let rounded = angle + ROUND;
    let [sin_k, sin_k_low, cos_k, cos_k_low] = TABLE[(rounded.to_bits() & 31) as usize];
    let r = angle - (rounded - ROUND);
    let rr = r * r;

    let cubic = 0.008_333_332_142_857_223_f64.mul_add(rr, -0.166_666_666_666_664_88);
    // One minus the cosine of r. The two sums for the sine of r below differ in one rounding.
    let one_minus_cos =
        rr * 0.001_388_888_740_079_376_f64.mul_add(rr, -0.041_666_666_666_666_44).mul_add(rr, 0.5);
    let sin_r = r + (r * rr) * cubic;
    let sin_r_fused = (r * rr).mul_add(cubic, r);

    let correction = cos_k_low.mul_add(sin_r, sin_k_low);
    let correction = (-one_minus_cos).mul_add(sin_k, correction);
    let table_sin = sin_k + sin_r.mul_add(cos_k, correction);

    let correction = (-sin_k_low).mul_add(sin_r_fused, cos_k_low);
    let correction = (-one_minus_cos).mul_add(cos_k, correction);
    let cos = cos_k + (-sin_r_fused).mul_add(sin_k, correction);

    let xx = angle * angle;
    let p = S5.mul_add(xx, S4).mul_add(xx, S3).mul_add(xx, S2).mul_add(xx, S1);
    let taylor_sin = angle + xx * (p * angle);
    let sin = if angle < 0.126 { taylor_sin } else { table_sin };
    (sin.copysign(x), cos)
}

/// Whether [`sin_cos`] is fast on this machine and gives the platform's bits.
pub(super) fn fits_platform() -> bool {
    static FITS: LazyLock<bool> = LazyLock::new(|| has_fma() && agrees(probes()));
    *FITS
}

fn has_fma() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

fn agrees(mut angles: impl Iterator<Item = f64>) -> bool {
    angles.all(|x| {
        let (sin, cos) = sin_cos(x);
        sin.to_bits() == x.sin().to_bits() && cos.to_bits() == x.cos().to_bits()
    })
}

/// Angles to compare with the platform's functions: they reach every table entry with both signs, in steps that share no
/// factor with the table's.
fn probes() -> impl Iterator<Item = f64> {
    (-4095..=4095).map(|i| f64::from(i) * (LIMIT / 4095.3))
}

// Coefficients of the polynomial for sines below 0.126.
const S1: f64 = -0.166_666_666_666_666_66;
const S2: f64 = 0.008_333_333_333_332_329;
const S3: f64 = -0.000_198_412_698_344_146_42;
const S4: f64 = 2.755_729_806_860_771e-6;
const S5: f64 = -2.502_201_484_831_839_8e-8;

/// Sine and cosine of k/128, each as a double and the rest that this double leaves out: `[sin, rest, cos, rest]`.
#[rustfmt::skip]
static TABLE: [[f64; 4]; 32] = [
    [0.0, 0.0, 1.0, 0.0],
    [0.0078124205273828315, -4.102755709382617e-19, 0.9999694825770951, 5.427791428371788e-17],
    [0.015624364224883372, -1.2650937552759816e-19, 0.9998779321710066, 3.216122229972341e-17],
    [0.02343535429172257, 1.0500785515068913e-19, 0.9997253543694995, 4.666714544113391e-17],
    [0.03124491398532608, -1.562781562225433e-18, 0.9995117584851364, -3.418806487972947e-17],
    [0.03905256665042215, 1.1342467037138512e-18, 0.999237157554709, 1.1089280858439994e-17],
    [0.04685783574813424, -2.3419368365610254e-18, 0.9989015683384429, -2.1425557800399754e-17],
    [0.05466024488506646, 3.373831935351774e-19, 0.9985050113189741, 1.779930870620664e-17],
    [0.0624593178423802, -2.040259504585711e-18, 0.9980475107000991, 3.3232291674141346e-17],
    [0.07025457860486005, -6.773890900301373e-18, 0.9975290944052978, 5.112086057887235e-18],
    [0.07804555138996731, -5.449443782005793e-18, 0.9969497940760287, -1.2467075728553626e-17],
    [0.08583176067687935, -3.490037167231825e-18, 0.996309645069798, -1.1743657041590172e-18],
    [0.09361273123551289, 1.4628632005878733e-18, 0.9956086864580017, 3.312922430932991e-17],
    [0.10138798815552964, 3.99242856835807e-18, 0.9948469610235406, -8.198278333258706e-18],
    [0.10915705687532236, 6.6284699502736666e-18, 0.9940245152582091, 1.3287985046260087e-17],
    [0.11691946321097965, -2.283412536970096e-18, 0.9931413993598577, 2.8553964189785565e-17],
    [0.12467473338522769, -2.925947496057858e-18, 0.992197667229329, 4.754870575189364e-17],
    [0.13242239405634718, 1.2801053067990684e-17, 0.9911933764671682, 3.1426138811726996e-17],
    [0.1401619723470637, -9.946847113883478e-18, 0.9901285883701071, -4.589906353553811e-18],
    [0.14789299587340962, -1.3140968557128452e-17, 0.9890033679273229, 1.7676104005868335e-18],
    [0.15561499277355603, 8.886053372342288e-18, 0.9878177838164719, 4.91917302237681e-17],
    [0.16332749173661285, 5.483569430347159e-18, 0.9865719083994976, -1.0327444588275446e-17],
    [0.17103002203139503, -9.954774726452923e-18, 0.9852658177182139, -4.925721262944555e-17],
    [0.17872211353515366, -1.624040590107388e-20, 0.983899591489664, -2.1647988531644275e-17],
    [0.18640329676226988, 2.3493796901281573e-18, 0.9824733131012553, -3.919920375420088e-17],
    [0.1940731028929098, -7.832741210198615e-18, 0.9809870696056692, 1.967841180870303e-17],
    [0.2017310638016388, 5.587232815460113e-18, 0.9794409517155483, 1.3108769521526758e-17],
    [0.20937671208599365, -5.536403693172163e-18, 0.9778350537979598, 2.9910028492769484e-17],
    [0.21700958109501015, 1.1170071073364376e-17, 0.9761694738686353, -7.850690609285027e-18],
    [0.2246292049577053, -1.058590416432903e-17, 0.9744443135859889, 4.990128834921396e-17],
    [0.23223511861151147, -8.318080852687206e-18, 0.9726596782449127, 2.3920264546490165e-17],
    [0.23982685783066157, -7.260810660979712e-18, 0.9708156767703494, 5.1285792532153653e-17],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_angles_have_the_bits_of_the_platform() {
        assert_agreement(1_000_000);
    }

    #[test]
    #[ignore = "a minute: run it with `-- --ignored` after a change to this file"]
    fn a_hundred_million_angles_have_the_bits_of_the_platform() {
        assert_agreement(100_000_000);
    }

    fn assert_agreement(angles: usize) {
        if !fits_platform() {
            return;
        }
        let mut random = crate::NpRandom::new(7);
        assert!(agrees((0..angles).map(|_| random.uniform(-LIMIT, LIMIT))));
        let edges = [0.0, -0.0, 1e-300, 1e-9, 0.126, -0.126, 0.126f64.next_down(), 0.126f64.next_up()];
        assert!(agrees(edges.into_iter()));
    }

    #[test]
    fn the_fast_path_is_taken_where_glibc_has_it() {
        if cfg!(target_env = "gnu") && has_fma() {
            assert!(fits_platform());
        }
    }

    #[test]
    fn the_table_holds_sines_and_cosines() {
        for (k, [sin, _, cos, _]) in TABLE.iter().enumerate() {
            let x = k as f64 / 128.0;
            assert!((sin - x.sin()).abs() < 1e-15 && (cos - x.cos()).abs() < 1e-15, "k = {k}");
        }
    }
}
