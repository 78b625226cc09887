//! What environments promise: the traits for one copy, for many and for several agents, their spaces, errors and states.

pub(crate) mod any_vector;
pub(crate) mod element;
pub(crate) mod env;
pub(crate) mod error;
pub mod external;
pub(crate) mod forward;
pub(crate) mod multi_agent;
pub(crate) mod space;
pub(crate) mod state;
pub(crate) mod type_name;
pub(crate) mod typed_vector;
pub(crate) mod vector;
