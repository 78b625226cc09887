//! Critics that may learn quantiles of the return: their settings, their loss, and their common value and target.

use crate::base::{Result, rules};
use crate::loss::{Value, value};
use pavlov_envs::Space;
use serde::{Deserialize, Serialize};

/// The loss of a critic, as a function of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriticLoss {
    /// Huber's loss with threshold 1 (Ray).
    Huber,
    /// Half the squared error (the SAC paper, Stable-Baselines3, CleanRL).
    Mse,
}

/// Settings of critics that may learn quantiles of the return (TQC, Kuznetsov et al. 2020).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Number of critics; null: 2 with `twin_q`, otherwise 1.
    pub n_critics: Option<usize>,
    /// Number of quantiles of the return per critic. With 1 a critic learns the mean, as in SAC; with more the
    /// algorithm is TQC, typically with 25.
    pub n_quantiles: usize,
    /// Number of quantiles per critic that a target drops, the largest of all critics together: a higher number lowers
    /// the values. With one quantile per critic it has no effect.
    pub top_quantiles_to_drop_per_net: usize,
}

impl Default for Quantiles {
    fn default() -> Self {
        Self { n_critics: None, n_quantiles: 1, top_quantiles_to_drop_per_net: 2 }
    }
}

impl Quantiles {
    /// Refuses 0 critics or quantiles, a target that drops all quantiles, and several quantiles with discrete actions
    /// or with `critic_loss` `mse`.
    ///
    /// # Errors
    /// Fails as [`rules::all`] does, with [`Error::Config`](crate::base::Error::Config) for each setting that breaks its rule.
    pub fn validate(&self, actions: &Space, critic_loss: CriticLoss) -> Result<()> {
        let quantiles = self.n_quantiles;
        let dropped = self.top_quantiles_to_drop_per_net;
        rules::all([
            rules::at_least_one([("n_critics", self.n_critics.unwrap_or(1)), ("n_quantiles", quantiles)]),
            rules::refuse_if(
                quantiles > 1 && dropped >= quantiles,
                "top_quantiles_to_drop_per_net",
                dropped,
                format!("it must be below `n_quantiles` ({quantiles})"),
            ),
            rules::refuse_if(
                quantiles > 1 && matches!(actions, Space::Discrete { .. }),
                "n_quantiles",
                quantiles,
                "critics of discrete actions learn one number of each choice: leave it at 1",
            ),
            rules::refuse_if(
                quantiles > 1 && critic_loss == CriticLoss::Mse,
                "critic_loss",
                "mse",
                "quantiles learn by the quantile Huber loss: set it to \"huber\"",
            ),
        ])
    }

    /// Whether each critic learns several quantiles.
    fn are_several(&self) -> bool {
        self.n_quantiles > 1
    }

    /// The value that all critics together give an action, from the output of each (`said`): the smallest of their
    /// values, or the mean of all quantiles.
    pub fn worth<'t>(&self, said: Vec<Value<'t>>) -> Value<'t> {
        if !self.are_several() {
            return value::min(said);
        }
        let critics = said.len() as f64;
        said.into_iter().map(Value::mean_columns).sum::<Value<'t>>() / critics
    }

    /// Loss of each row for a critic's output `q` and the target `y`. Quantiles always use the quantile Huber loss.
    pub fn loss<'t>(&self, critic_loss: CriticLoss, q: Value<'t>, y: Value<'t>) -> Value<'t> {
        match critic_loss {
            _ if self.are_several() => q.quantile_huber(y),
            CriticLoss::Huber => (q - y).huber(),
            CriticLoss::Mse => (q - y).square() * 0.5,
        }
    }

    /// The part of a target that comes from the critics' outputs `said`: the smallest of their values, or the sorted
    /// quantiles of all critics without the largest.
    ///
    /// # Panics
    /// Panics if `said` is empty.
    pub fn target<'t>(&self, said: Vec<Value<'t>>) -> Value<'t> {
        if !self.are_several() {
            return value::min(said);
        }
        let kept = said.len() * (self.n_quantiles - self.top_quantiles_to_drop_per_net);
        said.into_iter().reduce(Value::cat).expect("at least one critic").sort_columns().narrow(0, kept)
    }
}
