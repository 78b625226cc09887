//! Choice of the number of worker processes.

use std::thread::available_parallelism;

/// Microseconds of work per vector step that make a worker worthwhile. A wake-up costs some ten microseconds of CPU on both
/// sides together, a twentieth of this.
const LEAST_WORK_US: f64 = 200.0;

/// Returns the number of workers for `num_envs` copies that each take `step_us` microseconds per step, and the reason in
/// words.
pub(super) fn choose_workers(num_envs: usize, step_us: f64) -> (usize, String) {
    let cores = available_parallelism().map_or(1, |cores| cores.get());
    let workers = workers_for(num_envs, step_us, cores);
    let reason = format!(
        "a step of one copy takes {step_us:.1} us; {LEAST_WORK_US} us per vector step make a worker worth its wake-up; {cores} cores"
    );
    (workers, reason)
}

fn workers_for(num_envs: usize, step_us: f64, cores: usize) -> usize {
    // The cast saturates, and gives 0 for NaN.
    let worthwhile = (num_envs as f64 * step_us / LEAST_WORK_US) as usize;
    worthwhile.clamp(1, cores.min(num_envs))
}

#[cfg(test)]
mod tests {
    use super::workers_for;

    #[test]
    fn light_environments_share_a_worker_and_heavy_ones_take_every_core() {
        // 16 copies of 4 us are 64 us of work; of 25 us, 400 us; of 800 us, 12,800 us.
        assert_eq!(workers_for(16, 4.0, 8), 1);
        assert_eq!(workers_for(16, 25.0, 8), 2);
        assert_eq!(workers_for(16, 800.0, 8), 8);
    }

    #[test]
    fn there_are_never_more_workers_than_copies_or_cores_and_never_none() {
        assert_eq!(workers_for(3, 1e9, 8), 3);
        assert_eq!(workers_for(100, f64::INFINITY, 2), 2);
        assert_eq!(workers_for(1, f64::NAN, 8), 1);
    }
}
