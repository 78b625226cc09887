//! How policies explore: the `exploration_config` setting, with the names of Ray's strategies.

use crate::settings::noise::Noise;
use pavlov_learn::base::{Error, Piecewise, Result, Stream, rules};
use serde::{Deserialize, Serialize};

/// The `exploration_config` setting; its key `type` is the name of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
#[non_exhaustive]
pub enum ExplorationConfig {
    /// Actions are sampled from the policy's own distribution.
    StochasticSampling {
        /// Number of environment steps at the start of a run in which actions are random.
        #[serde(default)]
        random_timesteps: u64,
    },
    /// Actions are random with probability epsilon, and otherwise greedy.
    EpsilonGreedy {
        /// Epsilon at step 0.
        #[serde(default = "one")]
        initial_epsilon: f64,
        /// Epsilon after the decay.
        #[serde(default = "d_final_epsilon")]
        final_epsilon: f64,
        /// Number of environment steps with `initial_epsilon` before the decay starts.
        #[serde(default)]
        warmup_timesteps: u64,
        /// Number of environment steps of the decay from `initial_epsilon` to `final_epsilon`.
        #[serde(default = "d_epsilon_timesteps")]
        epsilon_timesteps: u64,
        /// The schedule of epsilon, `[[step, epsilon], ...]`; it replaces the other settings.
        #[serde(default)]
        epsilon_schedule: Option<Piecewise>,
    },
    /// Worker `i` of `N` has the constant epsilon `0.4^(1 + 7 (i - 1) / (N - 1))` (Horgan et al. 2018); the local
    /// worker has 0.
    PerWorkerEpsilonGreedy {
        /// Epsilon at step 0, used only without rollout workers, as in [`EpsilonGreedy`](Self::EpsilonGreedy).
        #[serde(default = "one")]
        initial_epsilon: f64,
        /// Epsilon after the decay, used only without rollout workers.
        #[serde(default = "d_final_epsilon")]
        final_epsilon: f64,
        /// Number of environment steps with `initial_epsilon` before the decay starts, used only without rollout
        /// workers.
        #[serde(default)]
        warmup_timesteps: u64,
        /// Number of environment steps of the decay of epsilon, used only without rollout workers.
        #[serde(default = "d_epsilon_timesteps")]
        epsilon_timesteps: u64,
    },
    /// Actions are sampled from softmax(Q / temperature).
    SoftQ {
        /// The temperature: the higher, the more random are actions.
        #[serde(default = "one")]
        temperature: f64,
    },
    /// Actions are drawn uniformly from all actions.
    Random {},
    /// Deterministic actions get Gaussian noise, and are clipped to the bounds.
    GaussianNoise {
        /// Number of environment steps at the start of a run in which actions are random.
        #[serde(default = "d_random_timesteps")]
        random_timesteps: u64,
        /// Standard deviation of the noise at scale 1, for actions in [-1, 1].
        #[serde(default = "d_stddev")]
        stddev: f64,
        /// Scale of the noise at step 0.
        #[serde(default = "one")]
        initial_scale: f64,
        /// Scale of the noise after the decay.
        #[serde(default = "d_final_scale")]
        final_scale: f64,
        /// Number of environment steps of the decay from `initial_scale` to `final_scale`.
        #[serde(default = "d_scale_timesteps")]
        scale_timesteps: u64,
    },
    /// Deterministic actions get Gaussian noise. Worker `i` has a constant scale, equal to its epsilon in
    /// [`PerWorkerEpsilonGreedy`](Self::PerWorkerEpsilonGreedy); the local worker adds no noise.
    PerWorkerGaussianNoise {
        /// Number of environment steps at the start of a run in which actions are random.
        #[serde(default = "d_random_timesteps")]
        random_timesteps: u64,
        /// Standard deviation of the noise at scale 1, for actions in [-1, 1].
        #[serde(default = "d_stddev")]
        stddev: f64,
        /// Scale of the noise at step 0, used only without rollout workers.
        #[serde(default = "one")]
        initial_scale: f64,
        /// Scale of the noise after the decay, used only without rollout workers.
        #[serde(default = "d_final_scale")]
        final_scale: f64,
        /// Number of environment steps of the decay from `initial_scale` to `final_scale`, used only without rollout
        /// workers.
        #[serde(default = "d_scale_timesteps")]
        scale_timesteps: u64,
    },
    /// Deterministic actions get noise that is correlated from step to step (Uhlenbeck and Ornstein 1930), and are
    /// clipped to the bounds. The noise of each copy starts at 0 in every episode.
    OrnsteinUhlenbeckNoise {
        /// Number of environment steps at the start of a run in which actions are random.
        #[serde(default = "d_random_timesteps")]
        random_timesteps: u64,
        /// Fraction of the range of actions by which noise of 1 moves an action at scale 1.
        #[serde(default = "d_ou_base_scale")]
        ou_base_scale: f64,
        /// Fraction of the noise that decays in each step.
        #[serde(default = "d_ou_theta")]
        ou_theta: f64,
        /// Standard deviation of the random number that each step adds to the noise.
        #[serde(default = "d_ou_sigma")]
        ou_sigma: f64,
        /// Scale of the noise at step 0.
        #[serde(default = "one")]
        initial_scale: f64,
        /// Scale of the noise after the decay.
        #[serde(default = "d_final_scale")]
        final_scale: f64,
        /// Number of environment steps of the decay from `initial_scale` to `final_scale`.
        #[serde(default = "d_scale_timesteps")]
        scale_timesteps: u64,
    },
    /// Deterministic actions get noise that is correlated from step to step. Worker `i` has a constant scale, equal to
    /// its epsilon in [`PerWorkerEpsilonGreedy`](Self::PerWorkerEpsilonGreedy); the local worker adds no noise.
    PerWorkerOrnsteinUhlenbeckNoise {
        /// Number of environment steps at the start of a run in which actions are random.
        #[serde(default = "d_random_timesteps")]
        random_timesteps: u64,
        /// Fraction of the range of actions by which noise of 1 moves an action at scale 1.
        #[serde(default = "d_ou_base_scale")]
        ou_base_scale: f64,
        /// Fraction of the noise that decays in each step.
        #[serde(default = "d_ou_theta")]
        ou_theta: f64,
        /// Standard deviation of the random number that each step adds to the noise.
        #[serde(default = "d_ou_sigma")]
        ou_sigma: f64,
        /// Scale of the noise at step 0, used only without rollout workers.
        #[serde(default = "one")]
        initial_scale: f64,
        /// Scale of the noise after the decay, used only without rollout workers.
        #[serde(default = "d_final_scale")]
        final_scale: f64,
        /// Number of environment steps of the decay from `initial_scale` to `final_scale`, used only without rollout
        /// workers.
        #[serde(default = "d_scale_timesteps")]
        scale_timesteps: u64,
    },
}

fn one() -> f64 {
    1.0
}
fn d_final_epsilon() -> f64 {
    0.05
}
fn d_epsilon_timesteps() -> u64 {
    100_000
}
fn d_random_timesteps() -> u64 {
    1000
}
fn d_stddev() -> f64 {
    0.1
}
fn d_final_scale() -> f64 {
    0.02
}
fn d_scale_timesteps() -> u64 {
    10_000
}
fn d_ou_base_scale() -> f64 {
    0.1
}
fn d_ou_theta() -> f64 {
    0.15
}
fn d_ou_sigma() -> f64 {
    0.2
}

impl ExplorationConfig {
    /// The name of the strategy, as the key `type` has it in settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::StochasticSampling { .. } => "StochasticSampling",
            Self::EpsilonGreedy { .. } => "EpsilonGreedy",
            Self::PerWorkerEpsilonGreedy { .. } => "PerWorkerEpsilonGreedy",
            Self::SoftQ { .. } => "SoftQ",
            Self::Random {} => "Random",
            Self::GaussianNoise { .. } => "GaussianNoise",
            Self::PerWorkerGaussianNoise { .. } => "PerWorkerGaussianNoise",
            Self::OrnsteinUhlenbeckNoise { .. } => "OrnsteinUhlenbeckNoise",
            Self::PerWorkerOrnsteinUhlenbeckNoise { .. } => "PerWorkerOrnsteinUhlenbeckNoise",
        }
    }

    /// Returns an error for probabilities, temperatures, standard deviations and scales outside their ranges.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a probability or `ou_theta` is not in 0..=1, `temperature` is not above 0, a
    /// standard deviation or a scale is negative, or [`Piecewise::validate`] refuses `epsilon_schedule`. Fails as
    /// [`rules::all`] does if several settings of noise break a rule.
    pub fn validate(&self) -> Result<()> {
        let probability = |key: &str, p: f64| {
            let key = format!("exploration_config.{key}");
            if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(Error::config(key, p, "it must be in 0..=1")) }
        };
        match self {
            Self::EpsilonGreedy { initial_epsilon, final_epsilon, epsilon_schedule, .. } => {
                probability("initial_epsilon", *initial_epsilon)?;
                probability("final_epsilon", *final_epsilon)?;
                epsilon_schedule
                    .as_ref()
                    .map_or(Ok(()), |s| s.validate("exploration_config.epsilon_schedule"))
            }
            Self::PerWorkerEpsilonGreedy { initial_epsilon, final_epsilon, .. } => {
                probability("initial_epsilon", *initial_epsilon)?;
                probability("final_epsilon", *final_epsilon)
            }
            Self::SoftQ { temperature } if *temperature <= 0.0 => {
                Err(Error::config("exploration_config.temperature", temperature, "it must be above 0"))
            }
            _ => rules::all([
                self.noise().map_or(Ok(()), Noise::validate),
                self.scales().map_or(Ok(()), |(initial, last, _)| {
                    rules::not_negative([
                        ("exploration_config.initial_scale", initial),
                        ("exploration_config.final_scale", last),
                    ])
                }),
            ]),
        }
    }

    /// Whether the strategy adds noise to deterministic actions.
    pub fn is_noise(&self) -> bool {
        self.noise().is_some()
    }

    /// The noise that the strategy adds to deterministic actions; `None` if it adds none.
    pub(crate) fn noise(&self) -> Option<Noise> {
        match *self {
            Self::GaussianNoise { stddev, .. } | Self::PerWorkerGaussianNoise { stddev, .. } => {
                Some(Noise::Gaussian { stddev })
            }
            Self::OrnsteinUhlenbeckNoise { ou_base_scale, ou_theta, ou_sigma, .. }
            | Self::PerWorkerOrnsteinUhlenbeckNoise { ou_base_scale, ou_theta, ou_sigma, .. } => {
                Some(Noise::OrnsteinUhlenbeck { ou_base_scale, ou_theta, ou_sigma })
            }
            _ => None,
        }
    }

    /// Scale of the noise before the decay, scale after it, and number of steps of the decay; `None` without noise.
    fn scales(&self) -> Option<(f64, f64, u64)> {
        match *self {
            Self::GaussianNoise { initial_scale, final_scale, scale_timesteps, .. }
            | Self::PerWorkerGaussianNoise { initial_scale, final_scale, scale_timesteps, .. }
            | Self::OrnsteinUhlenbeckNoise { initial_scale, final_scale, scale_timesteps, .. }
            | Self::PerWorkerOrnsteinUhlenbeckNoise { initial_scale, final_scale, scale_timesteps, .. } => {
                Some((initial_scale, final_scale, scale_timesteps))
            }
            _ => None,
        }
    }

    /// The probability of a random action at environment step `timestep`; 0 for strategies without such a probability.
    pub fn epsilon(&self, timestep: u64, worker_index: usize, num_workers: usize) -> f64 {
        match self {
            Self::EpsilonGreedy { epsilon_schedule: Some(schedule), .. } => schedule.value(timestep),
            Self::PerWorkerEpsilonGreedy { .. } if num_workers > 0 => {
                per_worker_epsilon(worker_index, num_workers)
            }
            Self::EpsilonGreedy {
                initial_epsilon,
                final_epsilon,
                warmup_timesteps,
                epsilon_timesteps,
                ..
            }
            | Self::PerWorkerEpsilonGreedy {
                initial_epsilon,
                final_epsilon,
                warmup_timesteps,
                epsilon_timesteps,
            } => {
                let t = timestep.saturating_sub(*warmup_timesteps);
                if t >= *epsilon_timesteps {
                    *final_epsilon
                } else {
                    initial_epsilon + (final_epsilon - initial_epsilon) * t as f64 / *epsilon_timesteps as f64
                }
            }
            _ => 0.0,
        }
    }

    /// Number of environment steps at the start of a run in which actions are random; 0 for strategies without any.
    pub fn random_timesteps(&self) -> u64 {
        match self {
            Self::StochasticSampling { random_timesteps }
            | Self::GaussianNoise { random_timesteps, .. }
            | Self::PerWorkerGaussianNoise { random_timesteps, .. }
            | Self::OrnsteinUhlenbeckNoise { random_timesteps, .. }
            | Self::PerWorkerOrnsteinUhlenbeckNoise { random_timesteps, .. } => *random_timesteps,
            _ => 0,
        }
    }

    /// Chooses an action by the Q-values of all actions, and returns its index; of equal values the first is chosen.
    pub fn choose(&self, q_values: &[f32], epsilon: f64, explore: bool, rng: &mut Stream) -> i64 {
        self.choose_legal(q_values, None, epsilon, explore, rng)
    }

    /// Chooses a legal action by the Q-values of all actions, and returns its index; without a mask all actions are
    /// legal.
    pub fn choose_legal(
        &self,
        q_values: &[f32],
        mask: Option<&[bool]>,
        epsilon: f64,
        explore: bool,
        rng: &mut Stream,
    ) -> i64 {
        let legal = |i: usize| mask.is_none_or(|mask| mask[i]);
        let greedy = || {
            let mut best = None;
            for (i, &q) in q_values.iter().enumerate().filter(|(i, _)| legal(*i)) {
                if best.is_none_or(|best: usize| q > q_values[best]) {
                    best = Some(i);
                }
            }
            best.unwrap_or_default() as i64
        };
        if !explore {
            return greedy();
        }
        match self {
            Self::SoftQ { temperature } => {
                let values = || q_values.iter().enumerate().filter(|(i, _)| legal(*i));
                let max = values().map(|(_, &q)| q).fold(f32::NEG_INFINITY, f32::max);
                let weights = || values().map(|(i, q)| (i, libm::exp(f64::from(q - max) / temperature)));
                let mut left = rng.uniform_f64() * weights().map(|(_, w)| w).sum::<f64>();
                for (i, w) in weights() {
                    if left < w {
                        return i as i64;
                    }
                    left -= w;
                }
                greedy()
            }
            Self::Random {} => any(q_values.len(), mask, rng),
            _ => {
                if epsilon > 0.0 && rng.uniform_f64() < epsilon {
                    any(q_values.len(), mask, rng)
                } else {
                    greedy()
                }
            }
        }
    }

    /// The scale of the noise at environment step `timestep`; 0 for strategies without noise.
    pub fn noise_scale(&self, timestep: u64, worker_index: usize, num_workers: usize) -> f64 {
        let of_workers = matches!(
            self,
            Self::PerWorkerGaussianNoise { .. } | Self::PerWorkerOrnsteinUhlenbeckNoise { .. }
        );
        match self.scales() {
            Some(_) if of_workers && num_workers > 0 => per_worker_epsilon(worker_index, num_workers),
            Some((initial, last, steps)) => Piecewise::linear(initial, last, steps.max(1)).value(timestep),
            None => 0.0,
        }
    }
}

/// Draws the index of one of `n` actions uniformly, from the legal ones if there is a mask; 0 if none is legal.
pub(crate) fn any(n: usize, mask: Option<&[bool]>, rng: &mut Stream) -> i64 {
    let Some(mask) = mask else { return rng.below(n as u64) as i64 };
    let legal = || (0..n).filter(|&i| mask[i]);
    match legal().count() {
        0 => 0,
        count => legal().nth(rng.below(count as u64) as usize).unwrap_or_default() as i64,
    }
}

/// Epsilon of a worker: `0.4^(1 + 7 (i - 1) / (N - 1))` for worker `i` of `N`, and 0 for the local worker, which has
/// index 0.
pub fn per_worker_epsilon(worker_index: usize, num_workers: usize) -> f64 {
    if worker_index == 0 {
        return 0.0;
    }
    let exponent =
        if num_workers > 1 { 7.0 * (worker_index - 1) as f64 / (num_workers - 1) as f64 } else { 0.0 };
    libm::pow(0.4, 1.0 + exponent)
}
