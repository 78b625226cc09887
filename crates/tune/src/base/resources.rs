//! Resources that a trial requests: bundles of CPUs, GPUs and named resources.

use pavlov_processes::{Bundle, PlacementStrategy};
use serde::{Deserialize, Serialize};

use crate::base::{Error, Result};

/// Resource request of a trial: the first bundle is for the trainable itself, the others are for its workers.
///
/// Ray calls it `PlacementGroupFactory`. A trial starts when the sum of its bundles is free. On a Ray cluster
/// (`executor = "ray"`) all bundles are placed on one machine, unless a [`strategy`](Self::strategy) is set, with which
/// the workers become actors of the cluster, too. The JSON form is the list of bundles or, with a strategy, an object
/// with both.
#[doc(alias = "PlacementGroupFactory")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Resources {
    bundles: Vec<Bundle>,
    strategy: Option<PlacementStrategy>,
}

/// JSON form of [`Resources`].
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Bundles(Vec<Bundle>),
    Placed { bundles: Vec<Bundle>, strategy: PlacementStrategy },
}

impl Resources {
    /// Makes a request of these bundles; amounts of 0 are removed. The first bundle may be empty if others are not: the
    /// trainable then shares the CPUs of others.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if an amount is negative, infinite or NaN, if nothing is requested at all, or if a
    /// bundle after the first is empty.
    pub fn new(mut bundles: Vec<Bundle>) -> Result<Self> {
        let request = format!("{bundles:?}");
        let refuse = |rule: &str| Err(Error::Resources { request: request.clone(), rule: rule.to_string() });
        if bundles
            .iter()
            .flat_map(|bundle| bundle.values())
            .any(|amount| !amount.is_finite() || *amount < 0.0)
        {
            return refuse("each amount must be a finite number, 0 or more");
        }
        for bundle in &mut bundles {
            bundle.retain(|_, amount| *amount != 0.0);
        }
        if bundles.iter().all(Bundle::is_empty) {
            return refuse("at least one bundle must ask for something");
        }
        if bundles.iter().skip(1).any(Bundle::is_empty) {
            return refuse("only the first bundle may be empty");
        }
        Ok(Resources { bundles, strategy: None })
    }

    /// Sets the strategy by which a Ray cluster places the workers as actors; `None` removes it.
    #[must_use]
    pub fn placed(self, strategy: impl Into<Option<PlacementStrategy>>) -> Self {
        Resources { strategy: strategy.into(), ..self }
    }

    /// Returns how a Ray cluster places the bundles on its machines; `None` means all on one machine.
    pub fn strategy(&self) -> Option<PlacementStrategy> {
        self.strategy
    }

    /// Makes a request of one bundle with these CPUs and GPUs.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if an amount is negative, infinite or NaN, or if both are 0.
    pub fn cpus_gpus(cpus: f64, gpus: f64) -> Result<Self> {
        Self::new(vec![Bundle::from([("CPU".into(), cpus), ("GPU".into(), gpus)])])
    }

    /// Reduces a request with a strategy to the trainable's own bundle, for a sweep that is not on the cluster of the
    /// workers.
    pub(crate) fn without_actors(self) -> Self {
        match (self.strategy, self.bundles.first()) {
            (Some(_), Some(own)) if !own.is_empty() => {
                Resources { bundles: vec![own.clone()], strategy: None }
            }
            _ => self,
        }
    }

    /// Returns the bundles; the first one is the trainable's own.
    pub fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    /// Returns the sum of every resource over all bundles.
    pub fn required(&self) -> Bundle {
        let mut sums = Bundle::new();
        for (name, amount) in self.bundles.iter().flatten() {
            *sums.entry(name.clone()).or_default() += amount;
        }
        sums
    }

    /// Returns the number of cores that the trainable itself may use: the CPUs of its bundle, rounded down, at least 1.
    pub fn num_threads(&self) -> usize {
        let cpus = self.bundles.first().and_then(|head| head.get("CPU"));
        cpus.map_or(1, |cpus| cpus.floor().max(1.0) as usize)
    }

    /// Returns the sum of one resource over all bundles.
    pub fn total(&self, resource: &str) -> f64 {
        self.bundles.iter().filter_map(|bundle| bundle.get(resource)).sum()
    }
}

impl TryFrom<Written> for Resources {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        match written {
            Written::Bundles(bundles) => Resources::new(bundles),
            Written::Placed { bundles, strategy } => Ok(Resources::new(bundles)?.placed(strategy)),
        }
    }
}

impl From<Resources> for Written {
    fn from(Resources { bundles, strategy }: Resources) -> Self {
        match strategy {
            None => Written::Bundles(bundles),
            Some(strategy) => Written::Placed { bundles, strategy },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(cpu: f64) -> Bundle {
        Bundle::from([("CPU".into(), cpu)])
    }

    #[test]
    fn zero_amounts_vanish_and_the_head_may_be_empty() {
        let resources = Resources::new(vec![bundle(0.0), bundle(1.0), bundle(2.0)]).unwrap();
        assert_eq!(resources.bundles(), [Bundle::new(), bundle(1.0), bundle(2.0)]);
        assert_eq!(resources.total("CPU"), 3.0);
        assert_eq!(resources.total("GPU"), 0.0);
    }

    #[test]
    fn a_request_with_actors_says_how_they_are_placed_and_elsewhere_they_ask_for_nothing() {
        let resources = Resources::new(vec![bundle(1.0), bundle(2.0)]).unwrap();
        let placed = resources.clone().placed(PlacementStrategy::Spread);
        for (resources, json) in [
            (&resources, r#"[{"CPU":1.0},{"CPU":2.0}]"#),
            (&placed, r#"{"bundles":[{"CPU":1.0},{"CPU":2.0}],"strategy":"SPREAD"}"#),
        ] {
            assert_eq!(serde_json::to_string(resources).unwrap(), json);
            assert_eq!(serde_json::from_str::<Resources>(json).unwrap(), *resources);
        }
        assert_eq!(resources.clone().without_actors(), resources);
        assert_eq!(placed.without_actors(), Resources::new(vec![bundle(1.0)]).unwrap());
    }

    #[test]
    fn empty_and_negative_requests_are_refused() {
        for bundles in [vec![], vec![bundle(0.0)], vec![bundle(-1.0)], vec![bundle(1.0), bundle(0.0)]] {
            assert!(Resources::new(bundles.clone()).is_err(), "{bundles:?}");
        }
        let message = Resources::cpus_gpus(-1.0, 0.0).unwrap_err().to_string();
        assert_eq!(
            message,
            r#"resource request [{"CPU": -1.0, "GPU": 0.0}]: each amount must be a finite number, 0 or more"#
        );
    }
}
