//! The cores on which Python environments run.

use pavlov_envs::{VectorEnv, python::PyVec};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde_json::json;

use crate::py::{Rows, config, python, test_env};

/// The cores that the calling thread may use.
fn cores() -> CpuSet {
    sched_getaffinity(None).unwrap()
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn turns_on_one_core_change_no_result() {
    let python = python();
    let before = cores();
    let count = f64::from(before.count());
    for num_workers in [1, 2] {
        let asked = json!({"info_keys": ["cores"], "num_workers": num_workers});
        let mut env = PyVec::<f32, i64>::new(&test_env("Cores"), &config(&python, asked.clone()), 2).unwrap();
        let mut rows = Rows::<f32>::new(2, 1);
        VectorEnv::reset(&mut env, None, &mut rows.obs).unwrap();
        // More than a cycle of `Turns`.
        for _ in 0..300 {
            VectorEnv::step(&mut env, &[0, 0], None, rows.out()).unwrap();
            assert_eq!(VectorEnv::info(&env, "cores"), Some(&[count, count][..]));
            assert_eq!(cores(), before);
        }
        // The first step of all is a turn.
        let mut env = PyVec::<f32, i64>::new(&test_env("Cores"), &config(&python, asked.clone()), 2).unwrap();
        VectorEnv::reset(&mut env, None, &mut rows.obs).unwrap();
        let error = VectorEnv::step(&mut env, &[0, 1], None, rows.out()).unwrap_err();
        assert!(error.to_string().contains("failed as asked"), "{error}");
        assert_eq!(cores(), before);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_worker_may_run_where_the_thread_may_that_starts_it() {
    let python = python();
    let cores_of_worker = || {
        let env = PyVec::<f32, i64>::new(&test_env("Fault"), &config(&python, json!({})), 1).unwrap();
        let pid = Pid::from_raw(env.worker_pids()[0] as i32);
        sched_getaffinity(pid).unwrap()
    };
    let pinned = || {
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|&core| cores().is_set(core)).unwrap());
        sched_setaffinity(None, &one).unwrap();
        assert_eq!(cores_of_worker(), one);
    };
    std::thread::scope(|scope| scope.spawn(pinned).join().unwrap());
    assert_eq!(cores_of_worker(), cores());
}
