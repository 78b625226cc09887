//! Rollout workers in processes: the contract of transports, equal runs, and workers that crash, hang and are left alone.
//!
//! Workers are this binary started once more, so what drives them is a process of its own too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pavlov::envs::{self, Env, Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::Device;
use pavlov::trainer::rng::episode_seed;
use pavlov::trainer::settings::WorkerTransport;
use pavlov::trainer::state::Weights;
use pavlov::trainer::workers::{
    Completion, Fault, ProcessPool, RayPool, Reply, Request, ThreadPool, WorkerPool, WorkerSpec,
    check_worker_pool,
};
use pavlov::trainer::{TrainerExt, WorkerSet, to_config};
use pavlov::tune::child_main;
use serde_json::json;

use crate::agents::changes::{grow, growing};
use crate::resume::assert_same_in_processes;
use crate::support::{Clockwork, number, refused, tiny_ppo, worker_spec};

const SEED: u64 = 11;

/// Long enough for any answer, on a machine that does other things besides.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn ppo_in_processes_is_ppo_on_threads_to_the_bit_and_goes_from_one_to_the_other() {
    assert_same_in_processes("ppo", 2);
}

#[test]
fn dqn_in_processes_is_dqn_on_threads_to_the_bit_and_goes_from_one_to_the_other() {
    assert_same_in_processes("dqn", 1);
    assert_same_in_processes("dqn", 3);
}

#[test]
fn filters_and_fragments_sampled_ahead_go_from_one_transport_to_the_other() {
    assert_same_in_processes("ppo_sampling_ahead", 2);
}

#[test]
fn several_agents_in_the_middle_of_board_games_go_from_one_transport_to_the_other() {
    assert_same_in_processes("ppo_in_the_middle_of_board_games", 2);
}

#[test]
fn evaluation_workers_in_processes_play_what_threads_play() {
    assert_same_in_processes("ppo_with_parallel_evaluation", 2);
}

/// A [`Clockwork`] that prints at every step, and at step 3 of the third episode of copy 0 does once what the file `how`
/// in the test's directory says.
#[derive(Clone)]
struct Unruly {
    inner: Clockwork,
    home: PathBuf,
}

impl Unruly {
    fn new() -> Self {
        Self { inner: Clockwork::terminating(5), home: home() }
    }
}

impl Env for Unruly {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.inner.observation_space()
    }
    fn action_space(&self) -> Space {
        self.inner.action_space()
    }
    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.inner.reset(seed, obs)
    }
    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        println!("PVLW what an environment prints is no frame");
        let step = self.inner.step(action, obs)?;
        if self.inner.t() == 3 && self.inner.seed() == episode_seed(SEED, 0, 2) {
            let how = fs::read_to_string(self.home.join("how")).unwrap_or_default();
            if !how.is_empty() && fs::File::create_new(self.home.join("done")).is_ok() {
                match &*how {
                    "abort" => std::process::abort(),
                    "exit" => std::process::exit(3),
                    "kill" => signal("KILL", std::process::id()),
                    "kill its actor" => signal("KILL", std::os::unix::process::parent_id()),
                    "stop" => signal("STOP", std::process::id()),
                    "sleep" => std::thread::sleep(Duration::from_secs_f64(1.5 * probe_timeout_s())),
                    "loop" => loop {
                        std::thread::sleep(Duration::from_millis(1));
                    },
                    other => panic!("{other}"),
                }
            }
        }
        Ok(step)
    }
}

pub(crate) fn signal(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(sent.expect("the program kill").success(), "{pid} is not running");
    // A signal to oneself may take a moment.
    std::thread::sleep(Duration::from_millis(100));
}

fn home() -> PathBuf {
    PathBuf::from(std::env::var("PAVLOV_TEST_HOME").expect("run by another test"))
}

/// What a worker failed at whose process does not answer probes.
pub(crate) const STOPPED: &str = "its process has stopped, or its machine is gone: it does not answer probes (`worker_health_probe_timeout_s`)";

/// Set by the tests of other modules, whose processes are on a Ray cluster.
pub(crate) const ON_RAY: &str = "PAVLOV_TEST_ON_RAY";

/// In which a worker must be ready, and its process answer a probe.
fn probe_timeout_s() -> f64 {
    if std::env::var_os(ON_RAY).is_some() { 15.0 } else { 6.0 }
}

/// Two processes with two copies each.
fn two_processes() -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 2;
    ppo.common.workers.transport = match std::env::var_os(ON_RAY) {
        None => WorkerTransport::Procs,
        Some(_) => WorkerTransport::Ray,
    };
    ppo.common.rollout_fragment_length = 8;
    ppo.common.seed = Some(SEED);
    ppo
}

/// This test binary again, to drive workers as the case says.
pub(crate) fn child(case: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "--ignored", "--nocapture", "processes::child_drives"])
        .env("PAVLOV_TEST_CASE", case)
        .env("PAVLOV_TEST_HOME", home)
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn drive(case: &str, how: &str) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("how"), how).expect("written");
    let output = child(case, home.path()).output().expect("a child");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success(), "{case} {how}: {}", said.concat());
    output
}

#[test]
#[ignore = "run in a process of its own by the other tests"]
fn child_drives() {
    let case = std::env::var("PAVLOV_TEST_CASE").expect("run by another test");
    let mut ppo = two_processes();
    let is_probed = ["replaced", "slow", "fails"].contains(&&*case);
    if is_probed {
        ppo.common.worker_health_probe_timeout_s = Some(probe_timeout_s());
    }
    // Where a probe is to find it first, this only ends a test that fails.
    ppo.common.worker_timeout_s = match &*case {
        "hangs" => Some(3.0),
        "slow" => None,
        _ => Some(600.0),
    };
    if case == "slow" {
        // Warnings are for the test to read.
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    ppo.common.recreate_failed_workers = ["replaced", "slow", "hangs"].contains(&&*case);
    ppo.common.ignore_worker_failures = case == "left_out";
    if let Ok(settings) = std::env::var("PAVLOV_TEST_SETTINGS") {
        crate::ray::set(&mut ppo, &settings);
    }
    let builder = ppo.clone().builder(Unruly::new).loggers(LoggerChoice::None);
    let agents = growing(ppo.common.workers.transport);
    if case != "not_known" {
        child_main(&[&builder.as_trainable(), &agents.as_trainable()]);
    }
    match &*case {
        "contract" => contract(&ppo),
        "spare" => spare(&mut ppo),
        "not_known" => {
            let parts = ["`workers` is \"procs\"", "begin with `child_main` and the trainable `PPO_Unruly`"];
            refused(builder.build(), &parts);
        }
        "other_code" => {
            struct Hooks;
            impl Callbacks for Hooks {}
            refused(builder.callbacks(|| Hooks).build(), &["it has other callbacks in a worker's process"]);
        }
        "replaced" | "hangs" | "slow" => {
            let mut trainer = builder.build().expect("a trainer");
            let steps: Vec<f64> =
                (0..3).map(|_| number(&trainer.train().expect("a result"), "timesteps_total")).collect();
            assert_eq!(steps, [32.0, 64.0, 96.0]);
            let result = trainer.train().expect("a result");
            assert_eq!(number(&result, "num_healthy_workers"), 2.0);
            let restarts = if case == "slow" { 0.0 } else { 1.0 };
            assert_eq!(number(&result, "num_remote_worker_restarts"), restarts);
        }
        "left_out" => {
            let mut trainer = builder.build().expect("a trainer");
            trainer.train().expect("a result");
            let result = trainer.train().expect("a result");
            assert_eq!(number(&result, "num_healthy_workers"), 1.0);
            assert_eq!(number(&result, "num_remote_worker_restarts"), 0.0);
        }
        "fails" => {
            let mut trainer = builder.build().expect("a trainer");
            trainer.train().expect("the first episodes are fine");
            let text = refused(trainer.train(), &[]);
            fs::write(home().join("error"), text).expect("written");
        }
        "grows" => assert_eq!(grow(agents), grow(growing(WorkerTransport::Threads))),
        "endless" => endless(&ppo),
        "refused" => {
            let text = refused(builder.build(), &[]);
            fs::write(home().join("error"), text).expect("written");
        }
        "saves" => crate::ray::saves(builder, &home()),
        other => panic!("no case {other}"),
    }
}

fn spec(ppo: &Ppo) -> WorkerSpec {
    let mut ppo = ppo.clone();
    ppo.common.workers.number = None;
    ppo.common.num_workers = 2;
    let mut spec = worker_spec(&ppo, Unruly::new).expect("a spec");
    let settings = to_config(&ppo).expect("an object");
    spec.names.trainable = Some("PPO_Unruly".into());
    spec.names.settings = settings;
    spec
}

/// Weights of the policies that `spec` makes.
fn weights(spec: &WorkerSpec) -> Weights {
    spec.policies(0, Device::Cpu).expect("policies").get_weights()
}

fn contract(ppo: &Ppo) {
    let spec = spec(ppo);
    let mut pool: Box<dyn WorkerPool> = match ppo.common.workers.transport {
        WorkerTransport::Ray => Box::new(RayPool::new(&spec, 2).expect("two actors")),
        _ => Box::new(ProcessPool::new(&spec, 2).expect("two processes")),
    };
    check_worker_pool(&mut *pool, &weights(&spec), PATIENCE).expect("a transport that keeps the contract");
}

/// Processes that this one has started.
fn children() -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| crate::ray::parent(*pid) == Some(std::process::id()))
        .collect()
}

fn spare(ppo: &mut Ppo) {
    ppo.common.recreate_failed_workers = true;
    let mut pool = ProcessPool::new(&spec(ppo), 2).expect("two processes");
    for worker in [0, 1] {
        let working: BTreeSet<u32> = pool.pids().into_iter().collect();
        let spare: Vec<u32> = children().difference(&working).copied().collect();
        assert_eq!(spare.len(), 1, "one process waits: {working:?}");
        pool.respawn(worker).expect("a process");
        assert_eq!(pool.pids()[worker], spare[0]);
        wait_for("the end of the old process", || (children().len() == 3).then_some(()));
    }
}

#[test]
fn processes_keep_the_contract_of_a_transport_whatever_their_environments_print() {
    drive("contract", "");
}

#[test]
fn threads_keep_the_contract_of_a_transport() {
    let (mut pool, weights) = threads();
    check_worker_pool(&mut pool, &weights, PATIENCE).expect("a transport that keeps the contract");
}

fn threads() -> (ThreadPool, Weights) {
    let mut ppo = tiny_ppo();
    ppo.common.seed = Some(SEED);
    let spec = worker_spec(&ppo, || Clockwork::terminating(5)).expect("a spec");
    (ThreadPool::new(spec.clone(), 2).expect("two threads"), weights(&spec))
}

/// What a [`Broken`] transport does with every fifth answer of worker 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breaks {
    Loses,
    Repeats,
    Delays,
    Forges,
}

/// A transport that breaks the contract now and then; one that only delays does not.
#[derive(Debug)]
struct Broken {
    inner: ThreadPool,
    how: Breaks,
    answers: u64,
    again: Option<Completion>,
}

impl WorkerPool for Broken {
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.inner.submit(worker, request)
    }
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        if let Some(again) = self.again.take() {
            return Ok(Some(again));
        }
        let Some(mut next) = self.inner.next(timeout)? else { return Ok(None) };
        self.answers += u64::from(next.worker == 1);
        if next.worker != 1 || !self.answers.is_multiple_of(5) {
            return Ok(Some(next));
        }
        match self.how {
            Breaks::Loses => return self.next(timeout),
            Breaks::Repeats => {
                let Completion { worker, incarnation, request, .. } = next;
                let result = Ok(Reply::Done);
                self.again = Some(Completion { worker, incarnation, request, result });
            }
            Breaks::Delays => std::thread::sleep(Duration::from_millis(50)),
            Breaks::Forges => next.result = Err(Fault::Dead("it is not".into())),
        }
        Ok(Some(next))
    }
    fn respawn(&mut self, worker: usize) -> Result<u64> {
        self.inner.respawn(worker)
    }
    fn incarnation(&self, worker: usize) -> u64 {
        self.inner.incarnation(worker)
    }
}

#[test]
fn the_check_finds_a_transport_that_loses_repeats_or_forges_answers_and_passes_one_that_is_slow() {
    for (how, found) in [
        (Breaks::Loses, Some("")),
        (Breaks::Repeats, Some("or it is answered twice")),
        (Breaks::Forges, Some("is answered with what another asks for")),
        (Breaks::Delays, None),
    ] {
        let (inner, weights) = threads();
        let mut pool = Broken { inner, how, answers: 0, again: None };
        let checked = check_worker_pool(&mut pool, &weights, Duration::from_secs(2));
        match found {
            Some(part) => drop(refused(checked, &["the worker pool: ", part])),
            None => checked.expect("slow is no fault"),
        }
    }
}

#[test]
fn a_run_goes_on_over_a_transport_that_loses_repeats_or_forges_answers() {
    for how in [Breaks::Loses, Breaks::Repeats, Breaks::Forges, Breaks::Delays] {
        let mut ppo = tiny_ppo();
        ppo.common.num_workers = 2;
        ppo.common.seed = Some(SEED);
        ppo.common.recreate_failed_workers = true;
        ppo.common.worker_timeout_s = Some(0.5);
        ppo.common.worker_health_probe_timeout_s = Some(0.5);
        let spec = worker_spec(&ppo, || Clockwork::terminating(5)).expect("a spec");
        let inner = ThreadPool::new(spec.clone(), 2).expect("workers");
        let pool = Broken { inner, how, answers: 0, again: None };
        let workers = WorkerSet::over(&spec, Device::Cpu, Box::new(pool)).expect("workers");
        for _ in 0..10 {
            let batch = workers.sample().and_then(|batch| batch.single()).expect("fragments of both");
            assert_eq!(batch.rows(), 2 * 2 * 16, "{how:?}");
        }
        let loses = [Breaks::Loses, Breaks::Forges].contains(&how);
        assert_eq!(workers.num_worker_restarts() > 0, loses, "{how:?}");
    }
}

#[test]
fn a_worker_whose_process_dies_is_replaced_and_training_goes_on() {
    for how in ["abort", "exit", "kill", "the simulator fell over"] {
        drive("replaced", how);
    }
}

#[test]
fn a_worker_whose_environment_hangs_is_noticed_by_the_deadline_and_replaced() {
    drive("hangs", "loop");
}

#[test]
fn a_worker_whose_process_is_stopped_is_noticed_by_a_probe_and_one_that_is_slow_is_left_alone_with_a_warning()
{
    drive("replaced", "stop");
    let said = drive("slow", "sleep");
    let said = String::from_utf8_lossy(&said.stderr);
    let warning = "worker 1 has not answered for 6 s, but its process has not stopped; if no answer takes so long, its \
                   environment hangs, which `worker_timeout_s` would end";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}

#[test]
fn a_worker_that_is_replaced_gets_a_process_that_was_there_before() {
    drive("spare", "");
}

#[test]
fn a_worker_whose_process_dies_is_left_out_where_that_is_asked_for() {
    drive("left_out", "kill");
}

#[test]
fn the_error_says_how_a_process_died_or_which_copy_seed_and_step_panicked() {
    let seed = episode_seed(SEED, 0, 2);
    let panic =
        format!("environment 0 failed at step 3 of the episode with seed {seed}: panic: it fell over");
    for (how, reason) in [
        ("kill", "its process was killed (signal 9), by hand or because the machine ran out of memory"),
        ("abort", "its process died of signal 6, an abort"),
        ("exit", "its process exited with code 3"),
        ("stop", STOPPED),
        ("it fell over", &*panic),
    ] {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("how"), how).expect("written");
        let output = child("fails", home.path()).env("RUST_BACKTRACE", "1").output().expect("a child");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let way_out = "; set `recreate_failed_workers` or `ignore_worker_failures` to carry on";
        let error = fs::read_to_string(home.path().join("error")).expect("an error");
        assert_eq!(error, format!("worker 1 failed: {reason}{way_out}"));
        if how == "it fell over" {
            assert_eq!(stderr.matches("thread 'worker-1'").count(), 1, "{stderr}");
            assert_eq!(stderr.matches("stack backtrace:").count(), 1, "{stderr}");
        }
    }
}

#[test]
fn processes_are_refused_where_main_does_not_know_the_trainable_or_gives_other_code() {
    drive("not_known", "");
    drive("other_code", "");
}

#[test]
fn a_policy_that_is_added_and_a_function_by_episode_are_there_in_processes_too() {
    drive("grows", "");
}

/// Samples for ever; says in files which processes work, and that they do.
fn endless(ppo: &Ppo) {
    let spec = spec(ppo);
    let (workers, pids) = match ppo.common.workers.transport {
        WorkerTransport::Ray => (WorkerSet::new(&spec, Device::Cpu), json!([])),
        _ => {
            let pool = ProcessPool::new(&spec, 2).expect("two processes");
            let pids = json!(pool.pids());
            (WorkerSet::over(&spec, Device::Cpu, Box::new(pool)), pids)
        }
    };
    let workers = workers.expect("workers");
    let pids = pids.to_string();
    loop {
        workers.sample().expect("fragments");
        fs::write(home().join("pids"), &pids).expect("written");
    }
}

/// Waits for what takes a moment.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + 3 * PATIENCE;
    loop {
        if let Some(found) = f() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    // A process that has ended and was not waited for counts as gone too.
    state.is_some_and(|state| state != 'Z')
}

#[test]
#[cfg(target_os = "linux")]
fn no_worker_outlives_its_driver_however_that_ends_and_whatever_the_worker_does() {
    for stopped in [false, true] {
        let home = tempfile::tempdir().expect("a directory");
        let mut driver: Child = child("endless", home.path()).stdout(Stdio::null()).spawn().expect("a child");
        let pids: Vec<u32> = wait_for("the first fragment", || {
            serde_json::from_str(&fs::read_to_string(home.path().join("pids")).ok()?).ok()
        });
        assert!(pids.len() == 2 && pids.iter().all(|&pid| is_running(pid)), "{pids:?}");
        if stopped {
            signal("STOP", pids[0]);
        }
        driver.kill().expect("it runs");
        driver.wait().expect("it ended");
        wait_for("the end of the workers", || (!pids.iter().any(|&pid| is_running(pid))).then_some(()));
    }
}
