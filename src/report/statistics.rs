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

    /// A number from 0 to below `n`.
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
