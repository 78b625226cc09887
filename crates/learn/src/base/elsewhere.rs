//! A copy of an array in the memory of an engine or a device, made when it is first asked for.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// A place for one such copy. Which type it has is the engine's business.
#[derive(Default)]
pub(crate) struct Elsewhere(OnceLock<Box<dyn Any + Send + Sync>>);

impl Elsewhere {
    /// The copy, made by `make` if there is none; `None` if there is one of another type.
    pub(crate) fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elsewhere({})", self.0.get().is_some())
    }
}
