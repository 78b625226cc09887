//! A binary tree of sums and minima over a fixed number of leaves.

/// Priorities with their sum and minimum, each change in logarithmic time.
#[derive(Clone, Debug)]
pub struct SumTree {
    leaves: usize,
    sums: Vec<f64>,
    minima: Vec<f64>,
}

impl SumTree {
    /// Makes a tree of `capacity` leaves with priority 0.
    pub fn new(capacity: usize) -> Self {
        let leaves = capacity.next_power_of_two();
        Self { leaves, sums: vec![0.0; 2 * leaves], minima: vec![f64::INFINITY; 2 * leaves] }
    }

    /// Changes the priority of a leaf.
    pub fn set(&mut self, leaf: usize, priority: f64) {
        let mut i = leaf + self.leaves;
        self.sums[i] = priority;
        self.minima[i] = priority;
        while i > 1 {
            i /= 2;
            self.sums[i] = self.sums[2 * i] + self.sums[2 * i + 1];
            self.minima[i] = self.minima[2 * i].min(self.minima[2 * i + 1]);
        }
    }

    /// The priority of a leaf.
    pub fn get(&self, leaf: usize) -> f64 {
        self.sums[leaf + self.leaves]
    }

    /// The sum of all priorities.
    pub fn total(&self) -> f64 {
        self.sums[1]
    }

    /// The smallest priority; leaves that were never set do not count.
    pub fn min(&self) -> f64 {
        self.minima[1]
    }

    /// The leaf at which the running sum of priorities exceeds `mass`, which must be below [`total`](Self::total).
    pub fn find(&self, mut mass: f64) -> usize {
        let mut i = 1;
        while i < self.leaves {
            i *= 2;
            // By rounding, `mass` may exceed the left sum where the right one is 0: a leaf of priority 0 must not be
            // found.
            if mass >= self.sums[i] && self.sums[i + 1] > 0.0 {
                mass -= self.sums[i];
                i += 1;
            }
        }
        i - self.leaves
    }
}
