//! What a rule found in a run.

use std::fmt;

use serde::Serialize;

/// How sure a rule is that what it found keeps the run from learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// Nothing else explains the number.
    Certain,
    /// Something else explains the number seldom.
    Likely,
    /// The number is often harmless.
    Possible,
}

/// What a rule found in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// How sure the rule is.
    pub sure: Sure,
    /// The number, with the name that it has in results or settings.
    pub number: String,
    /// Why that keeps a policy from learning.
    pub reason: String,
    /// The setting to change.
    pub change: String,
}

impl Finding {
    pub(crate) fn new(
        rule: &'static str,
        sure: Sure,
        number: impl Into<String>,
        reason: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Finding { rule, sure, number: number.into(), reason: reason.into(), change: change.into() }
    }
}

/// Writes the finding as one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sure = format!("{:?}", self.sure).to_lowercase();
        write!(f, "{sure}: {}: {}; {}", self.number, self.reason, self.change)
    }
}
