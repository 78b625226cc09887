//! What the check of an environment found, and which of it makes learning impossible.

use crate::{Error, Result};

/// A rule of the contract that an environment breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, as listed at [`check_env`](crate::check_env).
    pub rule: &'static str,
    /// Copy and step of the violation, the expected value and the value found.
    pub message: String,
    /// Whether nothing right can be learned, so that a trainer refuses the environment. Otherwise a promise does not hold,
    /// such as that a run can be repeated, and the environment can be trained as it is.
    pub is_refused: bool,
}

/// What [`examine_vector_env`](crate::examine_vector_env) found in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The rules that the environment breaks, each once.
    pub findings: Vec<Finding>,
    /// Number of steps that were played in each run.
    pub steps: usize,
}

impl Examination {
    /// Returns an error that lists all broken rules, if there are any.
    ///
    /// # Errors
    /// Returns [`Error::Contract`] with the name of the first rule.
    pub fn strict(&self) -> Result<()> {
        listed(self.findings.iter())
    }

    /// Returns an error that lists the broken rules with which nothing right can be learned, if there are any.
    ///
    /// # Errors
    /// Returns [`Error::Contract`] with the name of the first rule.
    pub fn lenient(&self) -> Result<()> {
        listed(self.findings.iter().filter(|finding| finding.is_refused))
    }

    /// Takes note of a result, and returns whether it was good. Other errors than broken rules are passed on.
    pub(super) fn take(&mut self, checked: Result<()>) -> Result<bool> {
        match checked {
            Ok(()) => Ok(true),
            Err(Error::Contract { check, message }) => {
                let is_refused = !matches!(check, "deterministic" | "independent_copies" | "state");
                self.add(check, message, is_refused);
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }

    /// Takes note of a broken rule, unless the rule is known to be broken in this way.
    pub(super) fn add(&mut self, rule: &'static str, message: String, is_refused: bool) {
        if !self.findings.iter().any(|finding| finding.rule == rule && finding.is_refused == is_refused) {
            self.findings.push(Finding { rule, message, is_refused });
        }
    }
}

impl Finding {
    /// What does not hold, if the environment can be trained all the same.
    pub fn remark(&self) -> String {
        let Self { rule, message, .. } = self;
        let meaning = match *rule {
            "deterministic" => {
                "the environment is not repeatable under a seed, so a run cannot be repeated, and one that is resumed goes on \
                 with new episodes"
            }
            "independent_copies" => {
                "copies of the environment depend on each other, so a run depends on their number"
            }
            "state" => {
                "an episode does not go on from a saved state as it did before, so a resumed run differs from one that was not \
                 stopped"
            }
            "form" => "what is given in another form than the space says is used as it is",
            _ => "observations are beyond the bounds of their space, and are used as they are",
        };
        format!("{meaning} ({rule}: {message})")
    }
}

fn listed<'a>(mut findings: impl Iterator<Item = &'a Finding>) -> Result<()> {
    let Some(first) = findings.next() else { return Ok(()) };
    let mut message = first.message.clone();
    for Finding { rule, message: more, .. } in findings {
        message.push_str(&format!("\ncontract `{rule}` is broken: {more}"));
    }
    Err(Error::Contract { check: first.rule, message })
}
