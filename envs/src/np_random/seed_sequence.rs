//! numpy's `SeedSequence(seed).generate_state(4, uint64)` for one 64-bit integer.

const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;

/// Generates four words that depend on every bit of the seed.
#[inline]
pub(super) fn generate(seed: u64) -> [u64; 4] {
    // numpy stores a seed below 2^32 as one word and pads with zeros, which gives the same pool as two words.
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut constant = INIT_A;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(MULT_A);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mut pool = entropy.map(&mut hash);
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                let mixed =
                    MIX_LEFT.wrapping_mul(pool[to]).wrapping_sub(MIX_RIGHT.wrapping_mul(hash(pool[from])));
                pool[to] = mixed ^ mixed >> 16;
            }
        }
    }
    let mut constant = INIT_B;
    let mut word = |i: usize| {
        let value = pool[i % 4] ^ constant;
        constant = constant.wrapping_mul(MULT_B);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> 16)
    };
    let mut out = [0; 4];
    for (i, out) in out.iter_mut().enumerate() {
        let low = word(2 * i);
        *out = low | word(2 * i + 1) << 32;
    }
    out
}
