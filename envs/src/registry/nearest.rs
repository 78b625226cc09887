//! Suggests the known name that a misspelt name probably means.

/// The candidate with the fewest edits from `name`, ignoring case, if they are at most half as many as its characters.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let edits = |candidate: &str| strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase());
    let (edits, best) = candidates.into_iter().map(|candidate| (edits(candidate), candidate)).min()?;
    (2 * edits <= wanted.chars().count().max(1)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_unlike_all_others_has_no_nearest() {
        assert_eq!(nearest("cartpole", ["CartPole-v1", "Pendulum-v1"]), Some("CartPole-v1"));
        assert_eq!(nearest("Humanoid-v5", ["CartPole-v1"]), None);
    }
}
