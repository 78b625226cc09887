//! The line of progress: its parts, and which of them a narrow terminal shows.

use serde_json::Value;

use crate::tune::Metrics;

/// A part's place in the line is its place in this list; a narrow terminal leaves out the least important parts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Steps,
    Return,
    Best,
    /// A statistic of the first policy, the more important ones first.
    Learner(u8),
    /// The statistics of another policy.
    OtherPolicy,
    Speed,
    TimeLeft,
}

impl Rank {
    /// The lower, the longer a part stays when there is little room.
    fn importance(self) -> u8 {
        match self {
            Rank::Return => 0,
            Rank::Learner(place) => 1 + place,
            Rank::Steps => 10,
            Rank::TimeLeft => 11,
            Rank::Speed => 12,
            Rank::Best => 13,
            Rank::OtherPolicy => 14,
        }
    }
}

/// A part of the line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    rank: Rank,
    text: String,
}

impl Part {
    pub(super) fn new(rank: Rank, text: String) -> Part {
        Part { rank, text }
    }
}

/// Joins the parts in the order of their ranks; as many of the less important ones are left out as `width` characters
/// require.
pub(super) fn fit(parts: &[Part], width: usize) -> String {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| part.rank);
    let length = |parts: &[&Part]| parts.iter().map(|part| part.text.chars().count() + 2).sum::<usize>();
    // The last part has no comma behind it.
    while parts.len() > 1 && length(&parts) > width.saturating_add(2) {
        let least = (0..parts.len()).max_by_key(|&at| parts[at].rank.importance()).unwrap_or_default();
        parts.remove(least);
    }
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ")
}

/// Keys of `learner_stats` that the progress line shows, each with its label; the most important come first.
const LEARNER: [(&str, &str); 4] =
    [("kl", "KL"), ("clip_fraction", "clipped"), ("vf_explained_var", "expl. var"), ("mean_q", "mean Q")];

/// The statistics of the policies that learned: of the first one each a part, of each other one a part together.
pub(super) fn of_learners(result: &Metrics) -> Vec<Part> {
    let policies = result.get("info").and_then(|info| info["learner"].as_object());
    let policies: Vec<(&String, &Value)> = policies.into_iter().flatten().collect();
    let named = policies.len() > 1;
    let mut parts = Vec::new();
    for (at, (id, policy)) in policies.iter().enumerate() {
        let mut shown = LEARNER.iter().zip(0..).filter_map(|((key, name), place)| {
            let value = policy["learner_stats"][key].as_f64()?;
            Some((place, format!("{name} {value:.3}")))
        });
        if at == 0 {
            let mut name = if named { format!("{id}: ") } else { String::new() };
            let part = |(place, text): (u8, String)| {
                Part::new(Rank::Learner(place), std::mem::take(&mut name) + &text)
            };
            parts.extend(shown.map(part));
        } else if let Some((_, first)) = shown.next() {
            let more = shown.fold(first, |all, (_, text)| format!("{all}, {text}"));
            parts.push(Part::new(Rank::OtherPolicy, format!("{id}: {more}")));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(learner: Value) -> Vec<Part> {
        let result = json!({"info": {"learner": learner}});
        of_learners(&serde_json::from_value(result).unwrap())
    }

    fn whole() -> Vec<Part> {
        let stats = json!({"kl": 0.01234, "clip_fraction": 0.1, "vf_explained_var": -0.5, "entropy": 1.0});
        let mut parts = vec![
            Part::new(Rank::Return, "mean return 25.0".into()),
            Part::new(Rank::Best, "best 30.2".into()),
            Part::new(Rank::Steps, "10,000 steps".into()),
            Part::new(Rank::Speed, "9,999 steps/s".into()),
            Part::new(Rank::TimeLeft, "ETA 00:01:41".into()),
        ];
        parts.extend(of(json!({"default_policy": {"learner_stats": stats}})));
        parts
    }

    /// The numbers of columns that a bar leaves in terminals of 80, 120 and 200 columns.
    #[test]
    fn eighty_columns_show_what_says_whether_it_learns_and_more_show_the_rest() {
        let parts = whole();
        assert_eq!(fit(&parts, 60), "mean return 25.0, KL 0.012, clipped 0.100, expl. var -0.500");
        assert_eq!(
            fit(&parts, 90),
            "10,000 steps, mean return 25.0, KL 0.012, clipped 0.100, expl. var -0.500, ETA 00:01:41"
        );
        assert_eq!(
            fit(&parts, 170),
            "10,000 steps, mean return 25.0, best 30.2, KL 0.012, clipped 0.100, expl. var -0.500, 9,999 steps/s, \
             ETA 00:01:41"
        );
        for width in 16..200 {
            assert!(fit(&parts, width).chars().count() <= width, "{width}");
        }
    }

    #[test]
    fn of_several_policies_each_has_its_name() {
        let one = |kl: f64| json!({"learner_stats": {"kl": kl, "clip_fraction": 0.1}});
        let parts = of(json!({"a": one(0.01), "b": one(0.02)}));
        assert_eq!(fit(&parts, usize::MAX), "a: KL 0.010, clipped 0.100, b: KL 0.020, clipped 0.100");
        assert_eq!(fit(&parts, 30), "a: KL 0.010, clipped 0.100");
        assert_eq!(of(json!({})), []);
    }
}
