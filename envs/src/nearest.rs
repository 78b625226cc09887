//! The name somebody probably meant.

/// The candidate with the fewest edits from `name`, if less than half of it would change.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let (edits, best) = candidates
        .into_iter()
        .map(|candidate| (edits(&wanted, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate))
        .min()?;
    (2 * edits <= wanted.len().max(1)).then_some(best)
}

/// Insertions, deletions and replacements from `a` to `b`.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kitten_is_three_edits_from_sitting() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(edits(&chars("kitten"), &chars("sitting")), 3);
    }

    #[test]
    fn a_name_unlike_all_others_has_no_nearest() {
        assert_eq!(nearest("cartpole", ["CartPole-v1", "Pendulum-v1"]), Some("CartPole-v1"));
        assert_eq!(nearest("Humanoid-v5", ["CartPole-v1"]), None);
    }
}
