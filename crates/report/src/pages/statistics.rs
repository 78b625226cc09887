//! Interquartile means with stratified bootstrap intervals, as rliable defines them.

/// Number of bootstrap draws of an interval.
pub(super) const DRAWS: usize = 2000;

/// A fixed stream of random numbers (SplitMix64), so that the same runs give the same page.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a whole number from 0 to `n - 1` at random.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Mean of the middle half of the numbers: a quarter of them is left out at each end, rounded down.
pub(super) fn iqm(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> f64 {
    let cut = sorted.len() / 4;
    mean(&sorted[cut..sorted.len() - cut])
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation with divisor n.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// The value below which a share of the sorted numbers lies, by linear interpolation, as in numpy's `percentile`.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// The 95 % interval of the interquartile mean over all numbers. Runs are drawn with replacement within each stratum, a
/// task of its own.
pub(super) fn interval(strata: &[&[f64]]) -> (f64, f64) {
    let mut stream = Stream(0);
    let mut drawn = Vec::with_capacity(strata.iter().map(|stratum| stratum.len()).sum());
    let mut draws: Vec<f64> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.clear();
        for stratum in strata {
            drawn.extend((0..stratum.len()).map(|_| stratum[stream.below(stratum.len())]));
        }
        drawn.sort_by(f64::total_cmp);
        draws.push(middle(&drawn));
    }
    draws.sort_by(f64::total_cmp);
    (quantile(&draws, 0.025), quantile(&draws, 0.975))
}

/// The share of pairs of runs in which the first group is better; equal runs count half.
pub(super) fn probability_of_improvement(of: &[f64], over: &[f64]) -> f64 {
    let better = |x: &f64, y: &f64| match x.total_cmp(y) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let pairs = of.iter().flat_map(|x| over.iter().map(move |y| better(x, y)));
    pairs.sum::<f64>() / (of.len() * over.len()) as f64
}

/// How much of the spread of `scores` a setting explains, from 0 to 1. The trials are parted into groups of equal or near
/// values; the number is epsilon squared of Kruskal and Wallis: the share of the variance of the scores' ranks that lies
/// between the groups, less what chance alone would put there.
pub(super) fn importance(groups: &[usize], scores: &[f64]) -> f64 {
    let ranks = ranks(scores);
    let n = ranks.len() as f64;
    let middle = mean(&ranks);
    let total: f64 = ranks.iter().map(|rank| (rank - middle).powi(2)).sum();
    let count = groups.iter().max().map_or(0, |most| most + 1);
    let mut sums = vec![(0.0, 0.0); count];
    for (group, rank) in groups.iter().zip(&ranks) {
        sums[*group].0 += 1.0;
        sums[*group].1 += rank;
    }
    let filled = sums.iter().filter(|(size, _)| *size > 0.0);
    let between: f64 = filled.clone().map(|(size, sum)| size * (sum / size - middle).powi(2)).sum();
    let k = filled.count() as f64;
    if total <= 0.0 || n <= k {
        return 0.0;
    }
    let within = (total - between) / (n - k);
    ((between - (k - 1.0) * within) / total).clamp(0.0, 1.0)
}

/// The place of each number among all, from 1; equal numbers share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let equal = order[from..].iter().take_while(|i| values[**i] == values[order[from]]).count().max(1);
        let shared = from as f64 + (equal as f64 + 1.0) / 2.0;
        order[from..from + equal].iter().for_each(|i| ranks[*i] = shared);
        from += equal;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: [f64; 5] = [0.569, 0.664, 0.566, 0.239, 0.681];
    const TEN: [f64; 10] = [0.538, 0.395, 0.417, 0.012, 0.86, 0.729, 0.435, 0.655, 0.556, 0.389];
    const TASKS: [[f64; 5]; 3] = [
        [0.908, 0.386, 0.096, 1.165, 0.444],
        [0.489, 0.909, 0.954, 1.045, 0.866],
        [1.584, 1.457, 1.327, 1.429, 1.289],
    ];

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!((found.0 - expected.0).abs() < 1e-7 && (found.1 - expected.1).abs() < 1e-7, "{found:?}");
    }

    /// Numbers of rliable 1.2.0 (`aggregate_iqm`, `get_interval_estimates` with 2,000 draws), whose random numbers were
    /// replaced by this stream, and of a numpy script that follows rliable's definition; the two agree. With numpy's own
    /// random numbers rliable's ends differ by up to 5e-3 from these, as they do from each other.
    #[test]
    fn means_and_intervals_are_rliables_on_the_same_draws() {
        assert!((iqm(&FIVE) - 0.599_666_666_7).abs() < 1e-9);
        assert!((iqm(&TEN) - 0.499_333_333_3).abs() < 1e-9);
        assert!((iqm(&TASKS.concat()) - 0.994_666_666_7).abs() < 1e-9);
        near(interval(&[&FIVE]), (0.348, 0.675_333_33));
        near(interval(&[&TEN]), (0.364_983_33, 0.643_666_67));
        near(interval(&TASKS.each_ref().map(|task| task.as_slice())), (0.819_922_22, 1.118_113_89));
    }

    #[test]
    fn one_run_has_an_interval_without_width() {
        assert_eq!((iqm(&[3.0]), interval(&[&[3.0]])), (3.0, (3.0, 3.0)));
    }

    /// rliable's `probability_of_improvement` of the same numbers.
    #[test]
    fn the_probability_of_improvement_is_rliables() {
        assert!((probability_of_improvement(&FIVE, &TEN[..5]) - 0.68).abs() < 1e-12);
        assert!((probability_of_improvement(&[1.0], &[1.0]) - 0.5).abs() < 1e-12);
    }

    /// H of scipy's `kruskal` is 9.253491; epsilon squared is (H - k + 1) / (n - k).
    #[test]
    fn importance_is_epsilon_squared_of_kruskal_and_wallis() {
        let groups = [2, 2, 0, 2, 1, 1, 1, 0, 2, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 2];
        let scores = [
            1.7, 0.2, -1.0, 3.0, 0.9, -1.0, 0.6, -1.2, 0.8, -0.5, -0.7, 1.3, 0.6, 0.1, 0.4, 0.8, -1.6, -0.3,
            -1.0, 1.2,
        ];
        assert!((importance(&groups, &scores) - 0.426_675_947_3).abs() < 1e-9);
        let (groups, equal) = ([0, 1, 2, 0, 1, 2], [7.0; 6]);
        assert!(importance(&groups, &equal).abs() < 1e-12);
    }

    /// Deviations -2, 0, 2: variance 8/3.
    #[test]
    fn the_deviation_has_divisor_n() {
        assert!((deviation(&[1.0, 3.0, 5.0]) - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
