//! How a policy is made: the function that builds it, under a name.

use crate::base::Result;
use crate::learn::nets::PolicySpec;
use crate::policy::Policy;

/// How a policy is built: Ray's `get_default_policy_class`, as a function because Rust has no class objects.
///
/// It is called once for the learner and once per worker, always with the same seed, so all start equal.
#[derive(Clone)]
pub struct PolicyClass {
    name: &'static str,
    #[allow(clippy::type_complexity)]
    make: std::sync::Arc<dyn Fn(&PolicySpec) -> Result<Box<dyn Policy>> + Send + Sync>,
}

impl PolicyClass {
    /// A class of that name, with its constructor.
    pub fn new<P: Policy + 'static>(
        name: &'static str,
        make: impl Fn(&PolicySpec) -> Result<P> + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: std::sync::Arc::new(move |spec| Ok(Box::new(make(spec)?))) }
    }

    /// Builds a policy.
    ///
    /// # Errors
    /// Fails if the constructor does.
    pub fn build(&self, spec: &PolicySpec) -> Result<Box<dyn Policy>> {
        (self.make)(spec)
    }

    /// The name of the class.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl std::fmt::Debug for PolicyClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyClass").field("name", &self.name).finish_non_exhaustive()
    }
}
