//! State-dependent noise (gSDE) against numbers of Stable-Baselines3.
//!
//! The numbers are what `StateDependentNoiseDistribution(2, full_std, use_expln, squash_output)` of Stable-Baselines3 2.9.2 gives for
//! the arguments below: after `proba_distribution(MEAN, LOG_STD, FEATURES)` they are `distribution.scale.log()`, `log_prob(ACTIONS)` and
//! `entropy()`; with `exploration_mat` set to `MATRIX * get_std(LOG_STD)`, `sample()` and `log_prob` of the sample. Without `full_std`
//! the first column of `LOG_STD` was given.

use pavlov::torch::Tensor;
use pavlov::trainer::Array;
use pavlov::trainer::models::{Rule, Sde, SdeNoise};
use pavlov::trainer::policy::{ActionDist, SdeShape};

use crate::support::{assert_close, learner, weights};

const FEATURES: [[f32; 3]; 2] = [[0.5, -1.0, 0.25], [1.5, 0.2, -0.7]];
const MEAN: [[f32; 2]; 2] = [[0.3, -0.4], [1.0, 0.1]];
const ACTIONS: [[f32; 2]; 2] = [[0.1, 0.9], [-0.6, 0.4]];
/// By component: there it is `[[-0.5, 0.3], [0.2, -1.0], [0.0, 0.6]]`.
const LOG_STD: [f32; 6] = [-0.5, 0.2, 0.0, 0.3, -1.0, 0.6];
/// By component: there it is `[[0.7, -0.2], [-1.1, 0.4], [0.5, 1.3]]`.
const MATRIX: [f32; 6] = [0.7, -1.1, 0.5, -0.2, 0.4, 1.3];

/// What was recorded for one choice of `full_std` and `use_expln`: of both rows, the log deviations, the log-probabilities of `ACTIONS`,
/// plain and squashed, and the entropies; actions and their log-probabilities, plain, then squashed.
struct Recorded {
    full_std: bool,
    use_expln: bool,
    log_std: [f64; 4],
    logp: [[f64; 2]; 2],
    entropy: [f64; 2],
    drawn: [[f64; 4]; 2],
    of_drawn: [[f64; 2]; 2],
}

const RECORDED: [Recorded; 4] = [
    Recorded {
        full_std: true,
        use_expln: false,
        log_std: [0.249264, -0.112589, 0.1601, 0.873036],
        logp: [[-3.045102, -3.808148], [-2.511101, -3.300147]],
        entropy: [2.974551, 3.871013],
        drawn: [[1.980829, -0.089949, 1.018149, -1.933655], [0.962648, -0.089707, 0.769111, -0.959028]],
        of_drawn: [[-2.892799, -3.23189], [-0.271665, 0.185851]],
    },
    Recorded {
        full_std: true,
        use_expln: true,
        log_std: [0.219887, -0.201147, 0.158734, 0.76841],
        logp: [[-3.132987, -3.706527], [-2.819261, -3.199129]],
        entropy: [2.856618, 3.765021],
        drawn: [[1.93784, -0.195637, 1.026746, -1.586983], [0.959362, -0.193179, 0.7726, -0.919685]],
        of_drawn: [[-2.751858, -3.071308], [-0.183397, -0.293076]],
    },
    Recorded {
        full_std: false,
        use_expln: false,
        log_std: [0.249264, 0.249264, 0.1601, 0.1601],
        logp: [[-2.861827, -3.120032], [-1.742311, -2.616098]],
        entropy: [3.336405, 3.158077],
        drawn: [[1.980829, -0.624214, 1.018149, -0.894247], [0.962648, -0.554055, 0.769111, -0.713485]],
        of_drawn: [[-3.209716, -2.517034], [-0.22997, -0.910261]],
    },
    Recorded {
        full_std: false,
        use_expln: true,
        log_std: [0.219887, 0.219887, 0.158734, 0.158734],
        logp: [[-2.834868, -3.119932], [-1.748712, -2.616317]],
        entropy: [3.277652, 3.155345],
        drawn: [[1.93784, -0.608582, 1.026746, -0.897373], [0.959362, -0.543128, 0.7726, -0.715017]],
        of_drawn: [[-3.15568, -2.517691], [-0.275711, -0.893196]],
    },
];

const PLAIN: ActionDist = ActionDist::DiagGaussian { dim: 2 };
const SQUASHED: ActionDist = ActionDist::SquashedGaussian { dim: 2, log_std_min: -20.0 };

/// Per row: the log deviations, both log-probabilities of `ACTIONS`, the entropy, the deviations of the matrix, and the log-probability
/// of the action that the matrix gives, squashed.
fn computed(recorded: &Recorded, fused: bool) -> Vec<Vec<f64>> {
    let Recorded { full_std, use_expln, .. } = *recorded;
    let settings = Sde { use_sde: true, full_std, use_expln, ..Sde::default() };
    let (mut learner, sde) = learner(13, fused, Rule::adam(1e-3, 1e-8), |net| {
        SdeNoise::new(net, "log_std", &settings, (3, 2), 0.0, true)
    });
    let numbers = if full_std { 6 } else { 3 };
    learner.set_weights(&weights(&[("log_std", Tensor::from_slice(&LOG_STD[..numbers]))])).expect("weights");
    let rows = [0, 1].map(|i| [&FEATURES[i][..], &MEAN[i], &ACTIONS[i], &MATRIX].concat());
    let obs = Array::from_vec(rows.concat(), &[2, 13]);
    let columns = 2 + 3 + numbers + 1;
    let found = learner.evaluate(&obs, None, columns, |net, x| {
        let x = x.obs();
        let (features, mean, actions) = (x.narrow(0, 3), x.narrow(3, 2), x.narrow(5, 2));
        let inputs = sde.dist_inputs(net, mean, features);
        let plain = PLAIN.at(inputs);
        let noise = sde.noise(features, sde.deviations(net), x.narrow(7, 6));
        let squashed = SQUASHED.at_unbounded(inputs);
        let (_, of_drawn) = squashed.rsample_by(noise, 1e-6);
        inputs
            .narrow(2, 2)
            .cat(plain.logp(actions))
            .cat(squashed.logp(actions))
            .cat(plain.entropy())
            .cat(sde.deviations(net))
            .cat(of_drawn)
    });
    let found = found.expect("numbers");
    found.chunks(columns).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

#[test]
fn variance_log_probability_entropy_and_noise_of_gsde_are_those_of_stable_baselines3() {
    for recorded in &RECORDED {
        for fused in [true, false] {
            for (i, row) in computed(recorded, fused).iter().enumerate() {
                assert_close(&row[..2], &recorded.log_std[2 * i..][..2], 2e-6);
                assert_close(&row[2..3], &[recorded.logp[0][i]], 1e-5);
                assert_close(&row[3..4], &[recorded.logp[1][i]], 1e-5);
                assert_close(&row[4..5], &[recorded.entropy[i]], 1e-5);
                assert_close(&row[row.len() - 1..], &[recorded.of_drawn[1][i]], 2e-5);
            }
        }
    }
}

#[test]
fn an_action_by_a_matrix_is_that_of_stable_baselines3_with_its_log_probability() {
    for recorded in &RECORDED {
        let full_std = recorded.full_std;
        let shape = SdeShape { features: 3, actions: 2, full_std, sample_freq: None };
        let deviations = if full_std { 6 } else { 3 };
        for (i, row) in computed(recorded, true).iter().enumerate() {
            let own: Vec<f32> = row[5..][..deviations].iter().map(|&x| x as f32).collect();
            let log_std = [row[0] as f32, row[1] as f32];
            let outputs = [&MEAN[i][..], &log_std, &FEATURES[i], &own].concat();
            assert_eq!(outputs.len(), shape.columns());
            for (at, dist) in [PLAIN, SQUASHED].iter().enumerate() {
                let mut action = [0.0_f32; 2];
                let logp = dist.act_by_sde(shape, &outputs, &MATRIX, &mut action);
                assert_close(&action.map(f64::from), &recorded.drawn[at][2 * i..][..2], 2e-6);
                assert_close(&[f64::from(logp)], &[recorded.of_drawn[at][i]], 2e-5);
            }
        }
    }
}
