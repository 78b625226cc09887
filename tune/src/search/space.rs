//! What a sweep draws from: settings in which some values are distributions.

/// Settings with domains in them, as JSON: `{"lr": {"loguniform": [1e-4, 1e-2]}, "gamma": 0.99}`.
#[derive(Clone, Debug, Default)]
pub struct SearchSpace {
    pub(crate) tree: crate::Config,
}

impl From<crate::Config> for SearchSpace {
    fn from(tree: crate::Config) -> Self {
        Self { tree }
    }
}
