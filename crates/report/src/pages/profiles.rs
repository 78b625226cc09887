//! Performance profiles: the share of a group's runs whose score is above a value, over all values.

use super::groups::Group;
use super::plot::{Frame, Plot, range};

/// Fewest groups for which profiles say more than the intervals do.
const FEWEST: usize = 3;

/// The profile of each group; an empty text if there are fewer than three.
pub(super) fn profiles(groups: &[&&Group<'_>], score: &str) -> String {
    let all: Vec<f64> = groups.iter().flat_map(|group| group.scores.iter().copied()).collect();
    let Some(x) = range(&all).filter(|(low, high)| groups.len() >= FEWEST && high > low) else {
        return String::new();
    };
    let frame = Frame::large(1060.0, 260.0).with_names(210.0);
    let mut plot = Plot::new(frame, x, (0.0, 1.0), score, "share of runs whose score is higher");
    let mut says = Vec::new();
    for group in groups {
        let points = steps(&group.scores, x);
        plot.line(&points, &group.class, None);
        // The names part where the profiles do: at the middle of each group's scores.
        let mut sorted = group.scores.clone();
        sorted.sort_by(f64::total_cmp);
        plot.end(sorted[sorted.len() / 2], 0.5, &group.name, &group.class);
        says.push(group.name.clone());
    }
    let says = format!("Performance profiles of {}.", says.join(", "));
    format!("<div class=\"plots\">{}</div>\n", plot.svg(&says))
}

/// The corners of a profile, from the lowest to the highest score of all groups.
fn steps(scores: &[f64], (low, high): (f64, f64)) -> Vec<(f64, f64)> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mut points = vec![(low, 1.0)];
    for (i, score) in sorted.iter().enumerate() {
        points.push((*score, 1.0 - i as f64 / n));
        points.push((*score, 1.0 - (i + 1) as f64 / n));
    }
    points.push((high, 0.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_falls_at_each_score_by_the_share_of_a_run() {
        let expected = [(0.0, 1.0), (1.0, 1.0), (1.0, 0.5), (3.0, 0.5), (3.0, 0.0), (4.0, 0.0)];
        assert_eq!(steps(&[3.0, 1.0], (0.0, 4.0)), expected);
    }
}
