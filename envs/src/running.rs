//! What steps copies of an environment: one after the other, on threads, or with several agents.

pub(crate) mod agents;
pub(crate) mod each_copy;
pub(crate) mod info_rows;
pub(crate) mod multi_agent_vector;
pub(crate) mod replay;
pub(crate) mod sync_vector;
pub(crate) mod thread_vector;
