//! Faults of Python environments: each is an error with place and traceback, and nothing is left behind.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use pavlov_envs::{
    Error, Result, VectorEnv, check_vector_env, check_vector_env_within, make_vec, python::PyVec, spec,
};
use serde_json::{Value, json};

use crate::py::{Rows, config, python, test_env};

type FaultVec = PyVec<f32, i64>;

/// Four copies on two workers with seeds 10 to 13, of which the one with seed 12 fails.
fn faulty(python: &str, fault: &str, at: Value) -> Result<FaultVec> {
    let more = json!({
        "kwargs": {"fault": fault, "at": at, "seed": 12}, "num_workers": 2,
        "timeout_s": if fault == "hang" { 1.0 } else { 60.0 },
    });
    FaultVec::new(&test_env("Fault"), &config(python, more), 4)
}

/// Resets and steps until something fails; that nothing is left behind is checked.
fn play_to_the_fault(mut env: FaultVec) -> Error {
    let pids = env.worker_pids();
    assert!(pids.len() == 2 && pids.iter().all(|&pid| is_running(pid)), "{pids:?}");
    let mut rows = Rows::<f32>::new(4, 1);
    let mut play = || {
        env.reset(Some(&[10, 11, 12, 13]), &mut rows.obs)?;
        (0..9).try_for_each(|_| env.step(&[0; 4], Some(&[20, 21, 12, 23]), rows.out()))
    };
    let error = play().unwrap_err();
    for again in [env.step(&[0; 4], None, rows.out()), env.reset(None, &mut rows.obs)] {
        assert_eq!(again.unwrap_err().to_string(), error.to_string(), "poisoned");
    }
    for pid in pids {
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "worker {pid} is still there");
    }
    error
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
}

fn assert_contains(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_exception_is_told_with_worker_row_seed_step_and_traceback() {
    let python = python();
    let error = play_to_the_fault(faulty(&python, "raise", json!(3)).unwrap());
    assert!(matches!(error, Error::Env { env: 2, seed: Some(12), step: 3, .. }), "{error:?}");
    let parts = ["environment 2 failed at step 3 of the episode with seed 12", "worker 1", "in step"];
    assert_contains(&error, &parts);
    assert_contains(&error, &["Traceback", "KeyError: 'no such key'", "tests/py/envs.py"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_close_that_raises_ends_nothing() {
    let python = python();
    // The copies are closed at the end.
    let mut env = FaultVec::new(&test_env("Closes"), &config(&python, json!({"num_workers": 1})), 2).unwrap();
    let mut rows = Rows::<f32>::new(2, 1);
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    env.step(&[0, 0], None, rows.out()).unwrap();
    assert_eq!(rows.obs, [1.0, 1.0]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_slow_environment_is_checked_for_about_the_time_that_there_is() {
    let python = python();
    let mut env = make_vec(&test_env("Slow"), &config(&python, json!({"num_workers": 2})), 2).unwrap();
    // 300 steps would take a minute, and the whole check five.
    let steps = check_vector_env_within(&mut *env, Duration::from_secs(3)).unwrap();
    assert!((2..=4).contains(&steps), "{steps}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_exception_in_a_reset_is_told_with_the_seed_of_the_episode_that_did_not_begin() {
    let python = python();
    let error = play_to_the_fault(faulty(&python, "raise", json!("reset")).unwrap());
    assert!(matches!(error, Error::Env { env: 2, seed: Some(12), step: 0, .. }), "{error:?}");
    // In an autoreset too: only the second episode of copy 2 has the bad seed.
    let more = json!({"kwargs": {"fault": "raise", "at": "reset", "seed": 99}, "num_workers": 1});
    let mut env = FaultVec::new(&test_env("Fault"), &config(&python, more), 3).unwrap();
    let mut rows = Rows::<f32>::new(3, 1);
    env.reset(Some(&[10, 11, 12]), &mut rows.obs).unwrap();
    let error = (0..5).find_map(|_| env.step(&[0; 3], Some(&[20, 21, 99]), rows.out()).err()).unwrap();
    assert!(matches!(error, Error::Env { env: 2, seed: Some(99), step: 0, .. }), "{error:?}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn texts_of_exceptions_are_told_whatever_is_in_them() {
    let python = python();
    let error = play_to_the_fault(faulty(&python, "undecodable", json!(2)).unwrap());
    assert_contains(&error, &["ValueError: \\udc80"]);
    let error = play_to_the_fault(faulty(&python, "old_seed", json!(2)).unwrap());
    assert_contains(&error, &["Seed must be between 0 and 2**32 - 1", "or take `seed % 2**32`"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_in_info_is_no_number_or_no_mask_is_named() {
    let python = python();
    let asked = json!({"info_keys": ["action_mask"]});
    let mut env = make_vec(&test_env("Masked"), &config(&python, asked), 1).unwrap();
    let error = env.reset(None, &mut [0; 8]).unwrap_err();
    assert_contains(&error, &["info['action_mask'] is array(", "which is no number"]);
    let mut env = make_vec(&test_env("ShortMask"), &config(&python, json!({})), 1).unwrap();
    let error = check_vector_env(&mut *env).unwrap_err();
    assert_contains(&error, &["info['action_mask'] has 2 flags, but there are 3 actions"]);
}

/// The first one fails when it is reset or stepped, too: that is not what its author must mend first.
#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_space_that_nothing_can_be_trained_on_is_named_before_the_environment_is_stepped() {
    let python = python();
    let make = |name: &str, more: Value| make_vec(&test_env(name), &config(&python, more), 2).unwrap_err();
    let error = make("Talker", json!({"kwargs": {"fault": "raise", "at": "reset"}}));
    assert_contains(&error, &["Text, whose members are texts"]);
    assert!(!error.to_string().contains("KeyError"), "{error}");
    let error = make("Spaceless", json!({}));
    assert_contains(&error, &["self.action_space of", "is None, but it must be a space of gymnasium.spaces"]);
    let error = make_vec("py:tests.py.envs:Nowhere", &config(&python, json!({})), 1).unwrap_err();
    assert_contains(&error, &["NameNotFound", "a class of that name in the module"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn an_exception_while_a_copy_is_made_is_told_with_its_traceback() {
    let python = python();
    let error = faulty(&python, "raise", json!("make")).unwrap_err();
    assert_contains(&error, &["worker 0", "KeyError: 'no such key'", "in __init__"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn ends_of_the_process_are_told_with_their_kind_and_place() {
    let python = python();
    for (fault, expected) in [
        ("exit", &["exited with code 7"][..]),
        ("sys_exit", &["SystemExit: 3", "Traceback"]),
        ("kill", &["was killed by signal 9"]),
        ("segfault", &["was killed by signal 11 (segmentation fault)", "in string_at", "envs.py"]),
        ("hang", &["did not answer to \"step\" within 1 s (see `timeout_s`)", "envs.py", "in maybe"]),
    ] {
        let error = play_to_the_fault(faulty(&python, fault, json!(2)).unwrap());
        assert!(matches!(error, Error::Env { env: 2, seed: Some(12), step: 2, .. }), "{fault}: {error:?}");
        assert_contains(&error, expected);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_worker_killed_between_steps_is_told() {
    let python = python();
    let mut env = faulty(&python, "raise", json!("never")).unwrap();
    let mut rows = Rows::<f32>::new(4, 1);
    env.reset(None, &mut rows.obs).unwrap();
    let pid = env.worker_pids()[1];
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    wait_until("the worker is dead", || !is_running(pid));
    let error = env.step(&[0; 4], None, rows.out()).unwrap_err();
    assert_contains(&error, &["worker 1", "was killed by signal 9"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_hang_in_a_constructor_is_told() {
    let python = python();
    let more = json!({"kwargs": {"fault": "hang", "at": "make"}, "timeout_s": 0.4});
    let error = FaultVec::new(&test_env("Fault"), &config(&python, more), 1).unwrap_err();
    assert_contains(&error, &["did not answer to \"describe\" within 2 s", "most recent call first"]);
}

#[test]
fn an_interpreter_that_prints_without_end_is_told() {
    let script = script("noise.sh", "#!/bin/sh\nwhile :; do echo noise; done\n");
    let error = make_vec("py:CartPole-v1", &config(&script, json!({"timeout_s": 0.05})), 1).unwrap_err();
    assert_contains(&error, &["did not answer to \"start\" within 0.25 s"]);
}

/// The path of a script that can be run.
fn script(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_an_environment_prints_or_reads_disturbs_no_call() {
    let python = python();
    let mut env = FaultVec::new(&test_env("Noise"), &config(&python, json!({"num_workers": 1})), 2).unwrap();
    let mut rows = Rows::<f32>::new(2, 1);
    env.reset(None, &mut rows.obs).unwrap();
    for step in 1..5 {
        env.step(&[0, 1], None, rows.out()).unwrap();
        assert_eq!(rows.obs, [step as f32; 2]);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn processes_that_an_environment_started_end_with_its_worker() {
    let python = python();
    let mut env = PyVec::<f64, i64>::new(&test_env("Parent"), &config(&python, json!({})), 1).unwrap();
    let mut rows = Rows::<f64>::new(1, 1);
    // Of these, one lives on while its parent dies, with the worker's pipe in its hands.
    env.reset(None, &mut rows.obs).unwrap();
    let child = rows.obs[0] as u32;
    assert!(is_running(child));
    let error = env.step(&[0], None, rows.out()).unwrap_err();
    assert_contains(&error, &["exited with code 7"]);
    wait_until("its child is dead", || !is_running(child));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_missing_interpreter_package_or_environment_is_told_with_the_way_out() {
    let python = python();
    let error = make_vec("py:CartPole-v1", &config("/no/such/python", json!({})), 1).unwrap_err();
    assert_contains(&error, &["\"/no/such/python\"", "`python` in the env_config", "PAVLOV_PYTHON"]);
    let error = make_vec("py:no_such_package:Env-v0", &config(&python, json!({})), 1).unwrap_err();
    assert_contains(&error, &["No module named 'no_such_package'", "-m pip install no_such_package"]);
    let error = make_vec("py:CartPol-v1", &config(&python, json!({})), 1).unwrap_err();
    assert_contains(&error, &["py:CartPol-v1", "CartPol` doesn't exist", "CartPole"]);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn spaces_that_are_no_rows_and_rows_that_are_not_of_the_space_are_refused() {
    let python = python();
    let error = make_vec(&test_env("Wordy"), &config(&python, json!({})), 1).unwrap_err();
    assert_contains(&error, &["its observation space: it has the space Text", "show each text as a number"]);
    let spaces =
        [("Sequence", "pad them to a Box"), ("Graph", "pad nodes and edges"), ("OneOf", "show a Tuple of")];
    for (space, way_out) in spaces {
        let config = config(&python, json!({ "kwargs": { "space": space } }));
        let error = make_vec(&test_env("Strange"), &config, 1).unwrap_err();
        let space = format!("it has the space {space}, whose members");
        assert_contains(&error, &[&space, way_out, "has Box, Discrete, MultiDiscrete, MultiBinary"]);
    }
    let error = make_vec(&test_env("Long"), &config(&python, json!({})), 1).unwrap_err();
    assert_contains(&error, &["it has the space Box of float", "has Box, Discrete"]);
    let mut env = make_vec(&test_env("Stretched"), &config(&python, json!({})), 1).unwrap();
    let error = env.reset(None, &mut [0; 12]).unwrap_err();
    assert_contains(&error, &["has shape (1,), but its space says (3,)"]);
    let mut env = PyVec::<f32, i64>::new(&test_env("Shrinking"), &config(&python, json!({})), 1).unwrap();
    let mut rows = Rows::<f32>::new(1, 3);
    VectorEnv::reset(&mut env, None, &mut rows.obs).unwrap();
    let error = VectorEnv::step(&mut env, &[0], None, rows.out()).unwrap_err();
    assert_contains(&error, &["the observation at a has shape (1,), but its space says (3,)"]);
}

#[test]
fn settings_that_do_not_fit_are_refused_before_python_starts() {
    for (more, expected) in [
        (json!({"num_workers": 0}), "`num_workers` is 0, but it must be at least 1"),
        (json!({"timeout_s": 0.0}), "`timeout_s` is 0, but it must be above 0 and at most 1000000000"),
        (json!({"timeout_s": 1e19}), "`timeout_s` is 10000000000000000000, but it must be above 0"),
        (json!({"timeout": 1.0}), "no setting `timeout`; nearest: `timeout_s`"),
        (json!({"vectorization": "async"}), "unknown variant `async`"),
    ] {
        let error = make_vec("py:CartPole-v1", &config("/no/such/python", more), 2).unwrap_err();
        assert!(matches!(error, Error::Config { .. } | Error::UnknownSetting { .. }), "{error:?}");
        assert_contains(&error, &["py:CartPole-v1", expected]);
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn workers_die_with_their_parent_also_when_the_environment_hangs() {
    let python = python();
    // Directly, and by a script that stays between.
    let script = script("python.sh", &format!("#!/bin/sh\n\"{python}\" \"$@\"\nexit $?\n"));
    thread::scope(|scope| {
        for interpreter in [python.as_str(), &script] {
            scope.spawn(move || workers_die_with_their_parent(interpreter));
        }
    });
}

/// Starts this program once more to run an ignored test, and waits for the numbers of processes that it prints.
fn start_parent(test: &str, interpreter: &str) -> (Child, Vec<u32>) {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("PAVLOV_TEST_PYTHON", interpreter)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pids: Vec<u32> = lines
        .filter_map(|line| line.split_once("processes ").map(|(_, pids)| pids.to_owned()))
        .next()
        .unwrap()
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    (parent, pids)
}

fn workers_die_with_their_parent(interpreter: &str) {
    let (mut parent, pids) = start_parent("py_faults::child_that_is_killed", interpreter);
    assert_eq!(pids.len(), 2);
    for pid in pids.iter().chain([&parent.id()]) {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let shared: Vec<_> = files
            .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
            .filter(|target| target.starts_with("/dev/shm"))
            .collect();
        assert!(shared.is_empty(), "{shared:?} would be left behind");
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("all workers are dead", || !pids.iter().any(|&pid| is_running(pid)));
}

/// The parent in the test above.
#[test]
#[ignore = "is killed by the test above"]
fn child_that_is_killed() {
    let python = python();
    let more = json!({"kwargs": {"fault": "hang", "at": 1, "seed": 10}, "num_workers": 2});
    // On a thread that ends before the workers do: they must not end with it.
    let made = thread::spawn(move || FaultVec::new(&test_env("Fault"), &config(&python, more), 2).unwrap());
    let mut env = made.join().unwrap();
    let mut rows = Rows::<f32>::new(2, 1);
    env.reset(Some(&[10, 11]), &mut rows.obs).unwrap();
    let pids: Vec<String> = env.worker_pids().iter().map(u32::to_string).collect();
    // Worker 0 hangs in its step, worker 1 waits for the next.
    thread::spawn(move || env.step(&[0, 0], None, rows.out()));
    thread::sleep(Duration::from_millis(50));
    println!("\nprocesses {}", pids.join(" "));
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn processes_that_an_environment_started_end_with_a_killed_parent() {
    let python = python();
    // Directly, and by a script that stays between.
    let script = script("between.sh", &format!("#!/bin/sh\n\"{python}\" \"$@\"\nexit $?\n"));
    for interpreter in [python.as_str(), &script] {
        let test = "py_faults::child_that_is_killed_with_the_processes_of_its_environment";
        let (mut parent, pids) = start_parent(test, interpreter);
        assert!(pids.len() == 2 && pids.iter().all(|&pid| is_running(pid)), "{pids:?}");
        parent.kill().unwrap();
        parent.wait().unwrap();
        wait_until("worker and child are dead", || !pids.iter().any(|&pid| is_running(pid)));
    }
}

/// The parent in the test above.
#[test]
#[ignore = "is killed by the test above"]
fn child_that_is_killed_with_the_processes_of_its_environment() {
    let python = python();
    let mut env = PyVec::<f64, i64>::new(&test_env("Parent"), &config(&python, json!({})), 1).unwrap();
    let mut rows = Rows::<f64>::new(1, 1);
    env.reset(None, &mut rows.obs).unwrap();
    println!("\nprocesses {} {}", env.worker_pids()[0], rows.obs[0]);
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn python_is_asked_what_it_knows_about_an_id() {
    // `spec` takes no settings: the interpreter is PAVLOV_PYTHON, so it is asked in a process of its own.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "py_faults::child_that_asks_about_an_id", "--ignored", "--nocapture"])
        .env("PAVLOV_PYTHON", python())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("py:CartPole-v1 500 475"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a part of the test above, in a process of its own"]
fn child_that_asks_about_an_id() {
    let spec = spec("py:CartPole-v1").unwrap();
    println!("{} {} {}", spec.id, spec.max_episode_steps.unwrap(), spec.reward_threshold.unwrap());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_file_of_the_current_directory_is_imported_only_where_the_id_names_it() {
    let python = python();
    // Python runs in a directory with a `json.py` and with an environment.
    let dir = tempfile::tempdir().unwrap();
    let script =
        script("elsewhere.sh", &format!("#!/bin/sh\ncd {}\nexec {python} \"$@\"\n", dir.path().display()));
    fs::write(dir.path().join("json.py"), "open('imported', 'w')\n").unwrap();
    fs::write(dir.path().join("local_env.py"), include_str!("../py/envs.py")).unwrap();
    make_vec("py:CartPole-v1", &config(&script, json!({})), 1).unwrap();
    make_vec("py:local_env:Fault-v0", &config(&script, json!({})), 1).unwrap();
    assert!(!dir.path().join("imported").exists());
}
