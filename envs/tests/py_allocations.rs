//! No allocation per step in the parent of Python environments. A program of its own, because it counts every allocation
//! of the thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io::Write,
};

use pavlov_envs::{EnvConfig, PyVec, StepOut, VectorEnv};
use serde_json::json;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_and_autoresets_of_python_environments_allocate_nothing_here() {
    let Ok(python) = std::env::var("PAVLOV_TEST_PYTHON") else {
        let note = b"skipped: set PAVLOV_TEST_PYTHON to a Python that has gymnasium\n";
        let _ = std::io::stderr().write_all(note);
        return;
    };
    const N: usize = 4;
    let config = json!({"python": python, "num_workers": 2, "info_keys": ["none"]});
    let config: EnvConfig = serde_json::from_value(config).unwrap();
    let mut env = PyVec::<f32, i64>::new("py:CartPole-v1", &config, N).unwrap();
    let (mut obs, mut final_obs, mut rewards) = ([0.0; 4 * N], [0.0; 4 * N], [0.0; N]);
    let (mut terminated, mut truncated) = ([false; N], [false; N]);
    env.reset(Some(&[0, 1, 2, 3]), &mut obs).unwrap();
    let mut ended = 0;
    let before = ALLOCATIONS.get();
    for step in 0..500 {
        let out = StepOut {
            obs: &mut obs,
            final_obs: &mut final_obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(&[0, 1, step / 2 % 2, 1], Some(&[4, 5, 6, 7]), out).unwrap();
        ended += terminated.iter().filter(|ended| **ended).count();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(ended > 100, "only {ended} episodes ended");
}
