//! Without libtorch there are no modules in tch.

/// The place of a module in tch: there is none.
#[derive(Debug)]
pub(crate) enum ModulePlace {}
