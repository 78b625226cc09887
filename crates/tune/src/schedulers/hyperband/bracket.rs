//! One HyperBand bracket: trials that go through successive halving together.

use super::HyperBandConfig;

/// Bracket of trials that are compared with each other at each milestone.
#[derive(Debug)]
pub(super) struct Bracket {
    /// Trials that have not ended, in the order in which they joined.
    live: Vec<Member>,
    /// Number of trials with which the bracket is full.
    size: usize,
    /// Time up to which the trials run before the next halving.
    milestone: f64,
    /// Number of halvings still to come.
    halvings: usize,
    max_t: f64,
    factor: f64,
    stop_last_trials: bool,
    total_work: f64,
    done_work: f64,
}

/// A trial of the bracket with its newest result.
#[derive(Clone, Debug)]
struct Member {
    trial_id: String,
    /// Time of its newest result; 0 without one.
    time: f64,
    /// Score of its newest result, higher is better; NaN without one.
    score: f64,
}

impl Bracket {
    /// Makes bracket number `s` of a band with `brackets` brackets; `None` if its first milestone would be 0.
    pub(super) fn new(config: &HyperBandConfig, brackets: usize, s: usize) -> Option<Self> {
        let factor = config.reduction_factor;
        let size = (brackets as f64 / (s as f64 + 1.0) * factor.powf(s as f64)).ceil();
        let milestone = (config.max_t * factor.powf(-(s as f64))).trunc();
        (milestone > 0.0).then(|| Self {
            live: Vec::new(),
            size: size as usize,
            milestone,
            halvings: s,
            max_t: config.max_t,
            factor,
            stop_last_trials: config.stop_last_trials,
            total_work: total_work(size, milestone, s, factor, config.max_t),
            done_work: 0.0,
        })
    }

    pub(super) fn add(&mut self, trial_id: &str) {
        self.live.push(Member { trial_id: trial_id.into(), time: 0.0, score: f64::NAN });
    }

    /// Removes a trial; returns whether the bracket contained it.
    pub(super) fn remove(&mut self, trial_id: &str) -> bool {
        let before = self.live.len();
        self.live.retain(|member| member.trial_id != trial_id);
        self.live.len() < before
    }

    /// Stores the newest result of a trial.
    pub(super) fn update(&mut self, trial_id: &str, time: f64, score: f64) {
        if let Some(member) = self.live.iter_mut().find(|member| member.trial_id == trial_id) {
            self.done_work += time - member.time;
            member.time = time;
            member.score = score;
        }
    }

    /// Returns the ids of the trials that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = &str> {
        self.live.iter().map(|member| member.trial_id.as_str())
    }

    /// Whether the bracket is full.
    pub(super) fn filled(&self) -> bool {
        self.live.len() == self.size
    }

    /// Whether every trial has reached the milestone.
    pub(super) fn all_there(&self) -> bool {
        self.live.iter().all(|member| member.time >= self.milestone)
    }

    /// Whether every trial has reached the last milestone, at which all of them end.
    pub(super) fn finished(&self) -> bool {
        self.stop_last_trials && self.halvings == 0 && self.all_there()
    }

    /// Whether the trial may continue without waiting for the others.
    pub(super) fn goes_on(&self, trial_id: &str) -> bool {
        !self.stop_last_trials && self.halvings == 0
            || self.live.iter().any(|member| member.trial_id == trial_id && member.time < self.milestone)
    }

    /// Sets the next milestone, and returns the ids of the trials that stay and of those that end, each list from worst
    /// to best.
    pub(super) fn halve(&mut self) -> (Vec<String>, Vec<String>) {
        if self.halvings == 0 {
            return (self.live().map(String::from).collect(), Vec::new());
        }
        self.halvings -= 1;
        self.size = (self.size as f64 / self.factor).ceil() as usize;
        self.milestone = (self.milestone * self.factor).min(self.max_t).trunc();
        let mut ranking: Vec<&Member> = self.live.iter().collect();
        let key = |member: &Member| if member.score.is_nan() { f64::NEG_INFINITY } else { member.score };
        ranking.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let (bad, good) = ranking.split_at(ranking.len().saturating_sub(self.size));
        let ids = |members: &[&Member]| members.iter().map(|member| member.trial_id.clone()).collect();
        (ids(good), ids(bad))
    }

    /// Returns the share of the bracket's work that is done, at most 1.
    pub(super) fn progress(&self) -> f64 {
        if self.finished() { 1.0 } else { (self.done_work / self.total_work).min(1.0) }
    }
}

impl std::fmt::Display for Bracket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let live = self.live.len();
        let size = self.size;
        let milestone = self.milestone;
        write!(f, "{live} of {size} to {milestone}, {:.0}% done", 100.0 * self.progress())
    }
}

/// Total work of a bracket, as Ray computes it: number of trials times time, summed over the halvings.
fn total_work(mut size: f64, first: f64, halvings: usize, factor: f64, max_t: f64) -> f64 {
    let mut work = 0.0;
    let mut time = first;
    for _ in 0..=halvings {
        work += size * time;
        size = (size / factor).ceil();
        time = (time * factor).min(max_t - first).trunc();
    }
    work
}
