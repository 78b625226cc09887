//! Generalised advantage estimation (Schulman et al. 2016, equations 11 to 16). A terminated episode is followed by
//! value 0, a truncated one by the value of its last observation.

/// Rewards, values and ends of episodes of one fragment, time-major `[T * N]`.
#[derive(Clone, Copy, Debug)]
pub struct Trajectories<'a> {
    /// Number of copies, N.
    pub num_envs: usize,
    /// Number of steps that each copy took, at most T; `None` if every copy took T.
    pub lengths: Option<&'a [usize]>,
    /// Rewards of the steps, `[T * N]`.
    pub rewards: &'a [f32],
    /// Critic's values of all observations, those after the last step included: `[(T + 1) * N]`.
    pub values: &'a [f32],
    /// Whether the episode terminated with the step, so that the value after it is 0.
    pub terminated: &'a [bool],
    /// Whether the episode was truncated after the step, so that the value after it is that of its last observation.
    pub truncated: &'a [bool],
    /// Indices `t * N + copy` of the steps at which an episode terminated or was truncated, ascending.
    pub ended: &'a [usize],
    /// Critic's values of the last observations of the episodes in `ended`.
    pub final_values: &'a [f32],
}

/// Advantages by GAE, one copy after the other: `[N * T]`, or `lengths[i]` numbers for copy `i`.
///
/// `delta_t = r_t + gamma V(s_{t+1}) - V(s_t)`; `A_t = delta_t + gamma lambda A_{t+1}` within an episode. A terminated
/// episode is followed by value 0, a truncated one by the value of its last observation.
pub fn advantages(f: Trajectories<'_>, gamma: f32, lambda: f32) -> Vec<f32> {
    let n = f.num_envs;
    let steps = f.rewards.len() / n;
    let length = |i: usize| f.lengths.map_or(steps, |lengths| lengths[i]);
    // Index of the first row of each copy.
    let starts: Vec<usize> =
        (0..n).scan(0, |end, i| Some(std::mem::replace(end, *end + length(i)))).collect();
    let mut out = vec![0.0; (0..n).map(length).sum()];
    let mut running = vec![0.0_f32; n];
    let mut next_ended = f.ended.len();
    for t in (0..steps).rev() {
        // `ended` is ascending: the endings of this step are the last ones not yet handled.
        let first = f.ended[..next_ended].partition_point(|&row| row < t * n);
        let mut endings = first..next_ended;
        next_ended = first;
        for (i, running) in running.iter_mut().enumerate().filter(|(i, _)| t < length(*i)) {
            let row = t * n + i;
            let (next_value, keep) = if f.terminated[row] || f.truncated[row] {
                let k = endings.next().unwrap_or_default();
                (if f.terminated[row] { 0.0 } else { f.final_values[k] }, 0.0)
            } else {
                (f.values[row + n], 1.0)
            };
            let delta = f.rewards[row] + gamma * next_value - f.values[row];
            *running = delta + gamma * lambda * keep * *running;
            out[starts[i] + t] = *running;
        }
    }
    out
}

/// For each number of `x` its discounted sum with all later numbers: `y_t = x_t + gamma y_{t+1}`. The sums are computed in
/// f32; `gamma` is a f64 as in the settings.
pub fn discount_cumsum(x: &[f32], gamma: f64) -> Vec<f32> {
    let gamma = gamma as f32;
    let mut sums = x.to_vec();
    for t in (1..sums.len()).rev() {
        sums[t - 1] += gamma * sums[t];
    }
    sums
}
