//! A policy class: the function that builds a policy, and its name.

use crate::policy::Policy;
use pavlov_learn::base::Result;
use pavlov_learn::nets::PolicySpec;

/// Builds policies of one kind: Ray's `get_default_policy_class`, as a function because Rust has no class objects.
///
/// The function is called once for the learner and once per worker, always with the same seed, so that all start with
/// equal weights.
#[derive(Clone)]
pub struct PolicyClass {
    name: &'static str,
    #[allow(clippy::type_complexity)]
    make: std::sync::Arc<dyn Fn(&PolicySpec) -> Result<Box<dyn Policy>> + Send + Sync>,
}

impl PolicyClass {
    /// Makes a policy class from its name and a constructor of policies.
    pub fn new<P: Policy + 'static>(
        name: &'static str,
        make: impl Fn(&PolicySpec) -> Result<P> + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: std::sync::Arc::new(move |spec| Ok(Box::new(make(spec)?))) }
    }

    /// Returns the same class under another name. Checkpoints name the class: one of another name is refused when they
    /// are restored.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Builds a policy.
    ///
    /// # Errors
    /// Fails if the constructor does.
    pub fn build(&self, spec: &PolicySpec) -> Result<Box<dyn Policy>> {
        (self.make)(spec)
    }

    /// The name of the policy class.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl std::fmt::Debug for PolicyClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyClass").field("name", &self.name).finish_non_exhaustive()
    }
}
