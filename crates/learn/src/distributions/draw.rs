//! How actions are drawn from distributions while acting.
//!
//! Acting on small networks is dominated by the cost per libtorch operation, so a step asks the network for the
//! distribution's parameters only; an action and its log-probability are plain arithmetic on a few numbers per copy.
//! Functions such as `exp` are those of the fused engine and the crate libm, which give the same bits on every
//! processor; those of the C library do not.

use crate::base::Stream;
use crate::distributions::{ActionDist, HALF_LN_TAU, LOG_STD_MAX};
use crate::kernels::{exp, ln};
use crate::loss::MASKED;

/// The buffer that the actions of several environment copies are written to.
#[derive(Debug)]
pub enum ActionRows<'a> {
    /// Discrete actions, `[copies, components]`: the index of one choice per component.
    Int(&'a mut [i64]),
    /// Continuous actions, `[copies, components]`.
    Float(&'a mut [f32]),
}

impl ActionDist {
    /// Draws one action per copy, or takes the most likely one if `explore` is false; writes the log-probabilities to
    /// `logp`.
    ///
    /// `inputs` is `[copies, num_inputs]`. The action of copy `i` is drawn from `rngs[i]` only.
    pub fn sample(
        &self,
        inputs: &[f32],
        rngs: &mut [Stream],
        explore: bool,
        actions: ActionRows<'_>,
        logp: &mut [f32],
    ) {
        self.draw(inputs, None, rngs, explore, actions, |copy, x| logp[copy] = x);
    }

    /// Draws as [`sample`](Self::sample) does, among legal actions only (`mask` is `[copies, num_inputs]`); calls `logp`
    /// with each copy and the log-probability of its action.
    pub fn draw(
        &self,
        inputs: &[f32],
        mask: Option<&[bool]>,
        rngs: &mut [Stream],
        explore: bool,
        actions: ActionRows<'_>,
        mut logp: impl FnMut(usize, f32),
    ) {
        let width = self.num_inputs();
        let rows = inputs.chunks_exact(width).zip(rngs).enumerate();
        match (self, actions) {
            (Self::Categorical { .. }, ActionRows::Int(actions)) => {
                for ((copy, (x, rng)), action) in rows.zip(actions) {
                    let (chosen, lp) = choose(x, mask.map(|m| &m[copy * width..][..width]), rng, explore);
                    *action = chosen;
                    logp(copy, lp);
                }
            }
            (Self::MultiCategorical { nvec }, ActionRows::Int(actions)) => {
                for ((copy, (x, rng)), action) in rows.zip(actions.chunks_exact_mut(nvec.len())) {
                    let mut sum = 0.0;
                    let mut start = 0;
                    for (&n, a) in nvec.iter().zip(action) {
                        let mask = mask.map(|m| &m[copy * width + start..][..n]);
                        let (chosen, lp) = choose(&x[start..][..n], mask, rng, explore);
                        *a = chosen;
                        sum += lp;
                        start += n;
                    }
                    logp(copy, sum);
                }
            }
            (Self::DiagGaussian { dim } | Self::SquashedGaussian { dim, .. }, ActionRows::Float(actions)) => {
                let least = match self {
                    Self::SquashedGaussian { log_std_min, .. } => Some(*log_std_min),
                    _ => None,
                };
                for ((copy, (x, rng)), action) in rows.zip(actions.chunks_exact_mut(*dim)) {
                    let (mean, log_std) = x.split_at(*dim);
                    let mut sum = 0.0;
                    for ((a, &mean), &log_std) in action.iter_mut().zip(mean).zip(log_std) {
                        let log_std = least.map_or(log_std, |least| log_std.clamp(least, LOG_STD_MAX));
                        let noise = if explore { rng.normal() } else { 0.0 };
                        sum -= 0.5 * noise * noise + log_std + HALF_LN_TAU as f32;
                        *a = mean + exp(log_std) * noise;
                        if least.is_some() {
                            *a = libm::tanhf(*a);
                            sum -= ln(1.0 - *a * *a + 1e-6);
                        }
                    }
                    logp(copy, sum);
                }
            }
            (dist, _) => panic!("{dist:?} does not write this kind of action"),
        }
    }
}

/// Draws an index from softmax(`logits`), or takes that of the largest logit if `explore` is false; returns it with its
/// log-probability. Logits of illegal actions count as [`MASKED`].
fn choose(logits: &[f32], mask: Option<&[bool]>, rng: &mut Stream, explore: bool) -> (i64, f32) {
    match mask {
        None => choose_by(|i| logits[i], logits.len(), rng, explore),
        Some(mask) => choose_by(|i| if mask[i] { logits[i] } else { MASKED }, logits.len(), rng, explore),
    }
}

fn choose_by(logit: impl Fn(usize) -> f32, n: usize, rng: &mut Stream, explore: bool) -> (i64, f32) {
    let mut best = 0;
    for i in 0..n {
        if logit(i) > logit(best) {
            best = i;
        }
    }
    let max = logit(best);
    let total: f32 = (0..n).map(|i| exp(logit(i) - max)).sum();
    let mut chosen = best;
    if explore {
        let mut left = rng.uniform() * total;
        for i in 0..n {
            let p = exp(logit(i) - max);
            if left < p {
                chosen = i;
                break;
            }
            left -= p;
        }
    }
    (chosen as i64, logit(chosen) - max - ln(total))
}
