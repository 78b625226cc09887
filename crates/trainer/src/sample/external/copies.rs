//! Copies of the policy for programs that choose actions themselves.
//!
//! Exports build on sampling, so sampling does not know them: whoever makes runs says how a policy is written.

use crate::policy::Policy;
use crate::sample::session::Inference;
use pavlov_learn::base::Result;
use std::sync::OnceLock;

/// A function that writes a policy as ONNX.
type CopyPolicy = fn(&Inference, &dyn Policy) -> Result<Vec<u8>>;

static COPY: OnceLock<CopyPolicy> = OnceLock::new();

/// Sets the function that writes copies of policies.
pub(crate) fn copy_policies_by(copy: CopyPolicy) {
    COPY.get_or_init(|| copy);
}

/// Writes a copy of a policy; `None` if no run was made in this process.
pub(super) fn copied(desk: &Inference, policy: &dyn Policy) -> Option<Result<Vec<u8>>> {
    COPY.get().map(|copy| copy(desk, policy))
}
