//! Arithmetic with the CPUs and GPUs of bundles.

use crate::base::Bundle;

/// Numbers of CPUs and GPUs; other resources are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amounts {
    pub(super) cpus: f64,
    pub(super) gpus: f64,
}

impl Amounts {
    pub(super) fn of(bundle: &Bundle) -> Self {
        let amount = |name| bundle.get(name).copied().unwrap_or(0.0);
        Self { cpus: amount("CPU"), gpus: amount("GPU") }
    }

    pub(super) fn sum(bundles: &[Bundle]) -> Self {
        bundles.iter().map(Amounts::of).fold(Self::default(), |sum, bundle| sum.plus(bundle, 1.0))
    }

    /// Returns `self + times * other`.
    pub(super) fn plus(self, other: Self, times: f64) -> Self {
        Self { cpus: self.cpus + times * other.cpus, gpus: self.gpus + times * other.gpus }
    }

    pub(super) fn is_zero(self) -> bool {
        self.cpus == 0.0 && self.gpus == 0.0
    }

    fn at_least_zero(self) -> Self {
        Self { cpus: self.cpus.max(0.0), gpus: self.gpus.max(0.0) }
    }

    fn at_most(self, other: Self) -> Self {
        Self { cpus: self.cpus.min(other.cpus), gpus: self.gpus.min(other.gpus) }
    }

    /// Returns how many whole `unit`s fit, negative if resources are lacking. `unit` must not be zero.
    pub(super) fn units(self, unit: Self) -> i64 {
        let floor = |amount: f64, unit: f64| {
            let rest = amount.rem_euclid(unit);
            ((amount - rest) / unit).round() as i64
        };
        match (unit.cpus != 0.0, unit.gpus != 0.0) {
            (true, true) => floor(self.cpus, unit.cpus).min(floor(self.gpus, unit.gpus)),
            (false, true) => floor(self.gpus, unit.gpus),
            _ => floor(self.cpus, unit.cpus),
        }
    }
}

/// Resources that a trial has in addition to those with which it started.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Added {
    /// Additional bundles.
    Bundles(Vec<Bundle>),
    /// Additional amounts in the trial's single bundle.
    Amounts(Amounts),
}

impl Added {
    pub(super) fn amounts(&self) -> Amounts {
        match self {
            Added::Bundles(bundles) => Amounts::sum(bundles),
            Added::Amounts(amounts) => *amounts,
        }
    }

    /// Adds `units` of `unit`, or removes them if `units` is negative. After adding there are at most `limit` of them.
    pub(super) fn change(self, unit: &Bundle, units: i64, limit: Option<i64>) -> Self {
        let each = Amounts::of(unit);
        match self {
            Added::Bundles(mut bundles) => {
                let size = usize::try_from(bundles.len() as i64 + units).unwrap_or(0);
                let size = limit.filter(|_| units > 0).map_or(size, |limit| size.min(limit as usize));
                bundles.resize(size, unit.clone());
                Added::Bundles(bundles)
            }
            Added::Amounts(amounts) => {
                let changed = amounts.plus(each, units as f64);
                let most = limit.map(|limit| Amounts::default().plus(each, limit as f64));
                Added::Amounts(match (units, most) {
                    (1.., Some(most)) => changed.at_most(most),
                    (1.., None) => changed,
                    _ => changed.at_least_zero(),
                })
            }
        }
    }
}
