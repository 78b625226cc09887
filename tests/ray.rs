//! Rollout workers on a Ray cluster: what [`processes`](crate::processes) says of processes, and what only a cluster has.
//!
//! They need a Python with Ray, which PAVLOV_TEST_RAY_PYTHON names, so they run when they are asked for: `cargo xtask test`
//! has a step for them. Every process that a test starts has the test's directory in its environment, which is how it is
//! found at the end.

mod learners;
#[cfg(feature = "cli")]
mod sweeps;
mod train;
#[cfg(feature = "cli")]
mod tune;

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use pavlov::prelude::*;
use pavlov::trainer::Builder;
use pavlov::tune::checkpoint;
use serde_json::{Value, json};

use crate::processes::{ON_RAY, STOPPED, child, is_running, signal, wait_for};
use crate::resume::assert_same_over;
use crate::support::number;

fn python() -> PathBuf {
    std::env::var_os("PAVLOV_TEST_RAY_PYTHON").expect("PAVLOV_TEST_RAY_PYTHON names a Python with Ray").into()
}

/// Workers of this process are on Ray, on a cluster of their own.
fn on_ray(command: &mut Command) {
    command.env("PAVLOV_PYTHON", python()).env(ON_RAY, "1").env_remove("RAY_ADDRESS");
}

/// A process that drives workers, and what it has said.
fn driver(case: &str, how: &str, home: &Path) -> Command {
    fs::write(home.join("how"), how).expect("written");
    let mut command = child(case, home);
    on_ray(&mut command);
    command
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("a child");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success(), "{command:?}: {}", said.concat());
    output
}

/// Processes that a test with this directory has started, itself not among them.
pub(crate) fn processes(home: &Path) -> BTreeSet<u32> {
    let mark = format!("PAVLOV_TEST_HOME={}", home.display()).into_bytes();
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark) && is_running(*pid)
        })
        .collect()
}

#[track_caller]
fn all_end(home: &Path) {
    wait_for("the end of all processes", || processes(home).is_empty().then_some(()));
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// What a process of these started with this command line.
fn named<'a>(pids: &'a BTreeSet<u32>, part: &'a str) -> impl Iterator<Item = u32> + 'a {
    let has = move |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(part)
    };
    pids.iter().copied().filter(has)
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_cluster_keeps_the_contract_of_a_transport_and_nothing_of_it_is_left() {
    let home = tempfile::tempdir().expect("a directory");
    succeeds(&mut driver("contract", "", home.path()));
    all_end(home.path());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn ppo_and_dqn_on_a_cluster_are_those_on_threads_to_the_bit_and_go_from_one_to_the_other() {
    assert_same_over("ray", "ppo", 2, on_ray);
    assert_same_over("ray", "dqn", 3, on_ray);
    // Weights of more than 100 kB go by the object store.
    assert_same_over("ray", "ppo_of_wide_networks", 2, on_ray);
    // Evaluation workers share the cluster.
    assert_same_over("ray", "ppo_with_parallel_evaluation", 2, on_ray);
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_worker_whose_process_or_actor_dies_or_stops_is_replaced_and_one_that_is_slow_is_not() {
    for (case, how) in [
        ("replaced", "kill"),
        ("replaced", "kill its actor"),
        ("replaced", "stop"),
        ("slow", "sleep"),
        ("hangs", "loop"),
    ] {
        let home = tempfile::tempdir().expect("a directory");
        succeeds(&mut driver(case, how, home.path()));
        all_end(home.path());
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn the_error_says_how_a_process_on_a_cluster_died() {
    for (how, reason) in [
        ("kill", "its process was killed (signal 9), by hand or because the machine ran out of memory"),
        ("exit", "its process exited with code 3"),
        ("kill its actor", "its actor is gone: "),
        ("stop", STOPPED),
    ] {
        let home = tempfile::tempdir().expect("a directory");
        succeeds(&mut driver("fails", how, home.path()));
        let error = fs::read_to_string(home.path().join("error")).expect("an error");
        assert!(error.starts_with(&format!("worker 1 failed: {reason}")), "{error}");
        assert!(
            error.ends_with("; set `recreate_failed_workers` or `ignore_worker_failures` to carry on"),
            "{error}"
        );
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_driver_that_is_killed_leaves_no_worker_and_no_cluster() {
    let home = tempfile::tempdir().expect("a directory");
    let mut driver: Child = driver("endless", "", home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    wait_for("the first fragment", || home.path().join("pids").exists().then_some(()));
    let started = processes(home.path());
    assert_eq!(named(&started, "gcs_server").count(), 1, "{started:?}");
    driver.kill().expect("it runs");
    driver.wait().expect("it ended");
    all_end(home.path());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn nothing_of_a_cluster_stays_when_its_engine_is_killed_and_a_new_engine_removes_a_folder_that_stayed() {
    let home = tempfile::tempdir().expect("a directory");
    let folders = || {
        let all = fs::read_dir(home.path()).expect("a directory").flatten();
        let found = all.filter(|entry| entry.file_name().to_string_lossy().starts_with("pavlov-"));
        found.map(|entry| entry.metadata().expect("a folder").mode() & 0o777).collect::<Vec<_>>()
    };
    let mut begun = driver("endless", "", home.path());
    begun.env("TMPDIR", home.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut begun = begun.spawn().expect("a child");
    wait_for("the first fragment", || home.path().join("pids").exists().then_some(()));
    assert_eq!(folders(), [0o700], "no other user can enter it");
    let started = processes(home.path());
    named(&started, "The process between a run and Ray.").for_each(|engine| signal("KILL", engine));
    assert!(!begun.wait().expect("it ended").success(), "it had an engine");
    all_end(home.path());
    assert!(folders().is_empty(), "another process removed it at once, and not Ray's own a minute later");

    // As an engine leaves it whose cleaner was killed, too.
    fs::DirBuilder::new().mode(0o700).create(home.path().join("pavlov-ray-left")).expect("a folder");
    succeeds(driver("contract", "", home.path()).env("TMPDIR", home.path()));
    assert!(folders().is_empty());
}

#[test]
#[cfg(feature = "cli")]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn the_command_trains_on_a_cluster_prints_results_alone_and_goes_on_with_threads() {
    use crate::cli::{command, run};
    let home = tempfile::tempdir().expect("a directory");
    let out = home.path().join("run");
    let mut begun = command(["train", "PPO", "--env", "CartPole-v1", "--workers", "ray:2", "--json"]);
    begun.args(["--set", "train_batch_size=64", "--set", "sgd_minibatch_size=32"]);
    begun.args(["--set", "placement_strategy=SPREAD", "--stop", "training_iteration=2", "--out"]).arg(&out);
    on_ray(&mut begun);
    let results = run(&mut begun).ok().lines();
    assert_eq!(results.len(), 2, "workers and Ray print nothing here");
    assert_eq!(
        (&results[1]["config"]["workers"], &results[1]["num_healthy_workers"]),
        (&json!("ray"), &json!(2))
    );
    let mut resumed = command(["resume", "--workers", "threads", "--json", "--stop", "training_iteration=3"]);
    let results = run(resumed.arg(&out)).ok().lines();
    assert_eq!(results[0]["config"]["workers"], "threads");
}

/// What `builder.build` is refused with, in a process with these settings and variables.
#[track_caller]
fn refusal(settings: &Value, change: impl FnOnce(&mut Command)) -> String {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = driver("refused", "", home.path());
    command.env("PAVLOV_TEST_SETTINGS", settings.to_string());
    change(&mut command);
    succeeds(&mut command);
    all_end(home.path());
    fs::read_to_string(home.path().join("error")).expect("an error")
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_python_without_ray_another_ray_and_a_cluster_that_is_not_there_are_refused_with_the_way_out() {
    let packages = tempfile::tempdir().expect("a directory");
    let package = |file: &str, text: &str| {
        let path = packages.path().join("ray").join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    package("__init__.py", "raise ImportError('no module here')");
    let here = |command: &mut Command| _ = command.env("PYTHONPATH", packages.path());
    let none = refusal(&json!({}), here);
    assert!(
        none.starts_with("`workers` is \"ray\", but ")
            && none.contains(" cannot import Ray (no module here): install it"),
        "{none}"
    );
    package("__init__.py", "__version__ = '2.44.1'");
    package("util/__init__.py", "");
    package("util/scheduling_strategies.py", "PlacementGroupSchedulingStrategy = None");
    package("exceptions.py", "RayError = Exception");
    let old = refusal(&json!({}), here);
    assert!(old.contains(" has Ray 2.44.1, and workers need Ray 2.60 or a later 2.x: install one"), "{old}");
    for (address, said) in [
        ("127.0.0.1:1", "there is no Ray cluster to join at RAY_ADDRESS=127.0.0.1:1 ("),
        (
            "ray://127.0.0.1:1",
            "RAY_ADDRESS is ray://127.0.0.1:1, and a run must be on a machine of the cluster",
        ),
    ] {
        let error = refusal(&json!({}), |command| _ = command.env("RAY_ADDRESS", address));
        assert!(error.contains(said), "{error}");
    }
    let error = refusal(&json!({}), |command| _ = command.env("PAVLOV_PYTHON", "/no/such/python"));
    assert!(error.contains("the interpreter \"/no/such/python\" cannot be started ("), "{error}");
}

/// A cluster of machines with a core each, as far as one machine can be several. All but the first have what is
/// `elsewhere`, and the label `tier`.
struct Cluster {
    home: tempfile::TempDir,
    address: String,
    machines: Vec<Child>,
}

impl Cluster {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let free = TcpListener::bind("127.0.0.2:0").expect("an address of this machine");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let mut cluster = Self { home, address: format!("127.0.0.2:{port}"), machines: Vec::new() };
        let folder = cluster.home.path().join("r").display().to_string();
        let head = ["--head", "--node-ip-address=127.0.0.2", "--include-dashboard=false"].map(str::to_owned);
        cluster.ray(head.into_iter().chain([format!("--port={port}"), format!("--temp-dir={folder}")]));
        wait_for("the head", || TcpStream::connect(&cluster.address).ok());
        cluster.join(3);
        cluster
    }

    /// A machine more, at 127.0.0.`number`.
    fn join(&mut self, number: u8) {
        let address = format!("--address={}", self.address);
        let own = format!("--node-ip-address=127.0.0.{number}");
        let other = [&own, "--resources={\"elsewhere\": 2}", "--labels=tier=simulators", &address];
        self.ray(other.map(str::to_owned).into_iter());
    }

    /// Processes of the `number`th machine, which was started as that.
    fn machine(&self, number: usize) -> BTreeSet<u32> {
        let mut found = BTreeSet::from([self.machines[number].id()]);
        let all = processes(self.home.path());
        loop {
            let known = found.len();
            found.extend(
                all.iter()
                    .filter(|pid| parent(**pid).is_some_and(|parent| found.contains(&parent)))
                    .copied()
                    .collect::<Vec<_>>(),
            );
            if found.len() == known {
                return found;
            }
        }
    }

    fn ray(&mut self, arguments: impl Iterator<Item = String>) {
        let mut command = Command::new(python());
        command.args([
            "-c",
            "from ray.scripts.scripts import main; main()",
            "start",
            "--block",
            "--num-cpus=1",
        ]);
        command.arg("--object-store-memory=1000000000").args(arguments);
        self.belongs(&mut command);
        self.machines.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Ray"));
    }

    /// Sets what all processes of the cluster have, its drivers included.
    fn belongs(&self, command: &mut Command) {
        command
            .env("PAVLOV_TEST_HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("RAY_AUTH_MODE", "token")
            .env("RAY_AUTH_TOKEN", "0123456789abcdef".repeat(4))
            .env("RAY_USAGE_STATS_ENABLED", "0")
            .env("RAY_worker_niceness", "0")
            .env("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
            // A machine that says nothing is given up sooner than after a minute.
            .env("RAY_health_check_period_ms", "1000")
            .env("RAY_health_check_timeout_ms", "3000")
            .env("RAY_health_check_failure_threshold", "4");
    }

    /// [`driver`](Self::driver) at work; what it and its workers say goes to a file.
    fn drives(&self, case: &str, settings: &Value) -> Child {
        let said = fs::File::create(self.file("said")).expect("a file");
        let error = said.try_clone().expect("a file");
        self.driver(case, settings).stdout(said).stderr(error).spawn().expect("a child")
    }

    /// Iterations of the newest checkpoint, and workers that were replaced until then.
    fn progress(&self) -> Option<(u64, u64)> {
        let newest = checkpoint::latest(&self.file("run")).ok().flatten()?;
        let restarts = fs::read_to_string(self.file("restarts")).ok()?.parse().ok()?;
        Some((checkpoint::metadata(&newest).ok()?.iteration, restarts))
    }

    /// A process that drives workers here.
    fn driver(&self, case: &str, settings: &Value) -> Command {
        let mut command = driver(case, "", self.home.path());
        self.belongs(&mut command);
        command.env("RAY_ADDRESS", &self.address).env("PAVLOV_TEST_SETTINGS", settings.to_string());
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // One that has ended meanwhile cannot be ended.
        for pid in processes(self.home.path()) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        self.machines.iter_mut().for_each(|machine| _ = machine.wait());
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn workers_go_where_their_resources_are_with_the_executable() {
    let cluster = Cluster::start();
    // Nothing of the executable is on the other machine before.
    let elsewhere = json!({
        "num_cpus_per_worker": 0, "custom_resources_per_worker": {"elsewhere": 1}, "placement_strategy": "SPREAD",
    });
    succeeds(&mut cluster.driver("contract", &elsewhere));
    let user = fs::metadata("/proc/self").expect("Linux").uid();
    let shipped =
        fs::read_dir(cluster.file(&format!("pavlov-workers-{user}"))).expect("a folder of executables");
    assert_eq!(shipped.count(), 1);

    #[cfg(feature = "cli")]
    {
        let mut doctor = crate::cli::command(["doctor", "--json"]);
        cluster.belongs(doctor.env("PAVLOV_PYTHON", python()).env("RAY_ADDRESS", &cluster.address));
        let [lines] = crate::cli::run(&mut doctor).ok().lines().try_into().expect("one list");
        let found = |what: &str| {
            let line = lines.as_array().expect("a list").iter().find(|line| line["what"] == what);
            line.expect("a line")["found"].as_str().expect("text").to_owned()
        };
        assert!(found("Ray").contains(" in "), "{lines}");
        let all = format!("2 machine(s) at {}, all with libtorch", cluster.address);
        assert_eq!(found("Ray cluster"), all);
    }

    let much = json!({"num_cpus_per_worker": 2, "worker_health_probe_timeout_s": 3});
    succeeds(&mut cluster.driver("refused", &much));
    let error = fs::read_to_string(cluster.file("error")).expect("an error");
    let said = "`workers` is \"ray\", but 2 workers by PACK need 4 CPU (the cluster has 2, ";
    assert!(
        error.starts_with(said) && error.contains("ask for fewer workers, for less per worker"),
        "{error}"
    );

    let labelled = |tier: &str| {
        let mut settings = elsewhere.clone();
        settings["label_selector_per_worker"] = json!({"tier": tier});
        settings["worker_health_probe_timeout_s"] = json!(if tier == "none" { 3 } else { 60 });
        settings
    };
    succeeds(&mut cluster.driver("contract", &labelled("simulators")));
    succeeds(&mut cluster.driver("refused", &labelled("none")));
    let error = fs::read_to_string(cluster.file("error")).expect("an error");
    assert!(
        error.contains(" on machines with the labels {\"tier\": \"none\"}, and the cluster did not"),
        "{error}"
    );

    // One that Ray does not understand, and another version of Ray.
    succeeds(&mut cluster.driver("refused", &labelled("in(none")));
    let error = fs::read_to_string(cluster.file("error")).expect("an error");
    assert!(error.starts_with("`workers` is \"ray\", but Ray refuses to make room: "), "{error}");
    let site = cluster.file("site");
    fs::create_dir(&site).expect("a folder");
    fs::write(site.join("sitecustomize.py"), "import ray\nray.__version__ = '2.99.0'\n").expect("written");
    succeeds(cluster.driver("refused", &json!({})).env("PYTHONPATH", &site));
    let error = fs::read_to_string(cluster.file("error")).expect("an error");
    assert!(error.contains("Ray: 2.99.0") && error.contains("with the cluster's versions"), "{error}");
}

#[cfg(feature = "cli")]
#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_run_that_has_saved_nothing_keeps_what_it_learned_when_the_head_of_its_cluster_dies() {
    let cluster = Cluster::start();
    let run = cluster.file("run");
    let command = |args: &[&str]| {
        let mut command = crate::cli::command(args.iter().copied());
        cluster.belongs(command.env("PAVLOV_PYTHON", python()));
        command
    };
    let out = run.to_str().expect("text");
    let mut train = command(&["train", "PPO", "--env", "CartPole-v1", "--workers", "ray:2", "--out", out]);
    train.env("RAY_ADDRESS", &cluster.address).args(["--set", "train_batch_size=512"]);
    let said = fs::File::create(cluster.file("said")).expect("a file");
    let mut training = train.stdout(Stdio::null()).stderr(said).spawn().expect("a child");
    wait_for("results", || {
        let results = fs::read_to_string(run.join("result.json")).ok()?;
        (results.lines().count() > 3).then_some(())
    });
    assert!(checkpoint::latest(&run).expect("a readable run").is_none());
    named(&processes(cluster.home.path()), "gcs_server").for_each(|head| signal("KILL", head));
    let ended = training.wait().expect("it ended");
    let said = fs::read_to_string(cluster.file("said")).expect("text");
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(
        said.contains("Ray: the process that reaches it has ended")
            && said.contains("the newest checkpoint is"),
        "{said}"
    );

    let results = fs::read_to_string(run.join("result.json")).expect("results").lines().count() as u64;
    let iteration = || {
        let newest = checkpoint::latest(&run).expect("a readable run").expect("a checkpoint");
        checkpoint::metadata(&newest).expect("metadata").iteration
    };
    assert_eq!(iteration(), results);
    for (more, workers) in [(1, "threads"), (2, "ray")] {
        let stop = format!("training_iteration={}", results + more);
        // On a cluster of its own.
        let resumed = &mut command(&["resume", out, "--workers", workers, "--stop", &stop]);
        succeeds(resumed.env_remove("RAY_ADDRESS"));
        assert_eq!(iteration(), results + more);
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_run_goes_on_when_a_machine_of_its_cluster_dies_and_when_one_freezes() {
    let mut cluster = Cluster::start();
    let settings = json!({
        "num_cpus_per_worker": 0, "custom_resources_per_worker": {"elsewhere": 1}, "recreate_failed_workers": true,
        "num_consecutive_worker_failures_tolerance": 100, "worker_health_probe_timeout_s": 15,
    });
    let mut driver = cluster.drives("saves", &settings);
    wait_for("a checkpoint", || cluster.progress());
    for (number, how) in [(4, "KILL"), (5, "STOP")] {
        cluster.join(number);
        // The workers are all on the machine before, which is the last one.
        let machine = cluster.machine(cluster.machines.len() - 2);
        let (before, restarts) = cluster.progress().expect("a checkpoint");
        match how {
            "KILL" => named(&machine, "raylet/raylet ").for_each(|raylet| signal(how, raylet)),
            _ => machine.iter().for_each(|pid| signal(how, *pid)),
        }
        wait_for("the workers of the other machine", || {
            let (iteration, restarted) = cluster.progress()?;
            (restarted >= restarts + 2 && iteration > before + 2).then_some(())
        });
    }
    driver.kill().expect("it runs");
    driver.wait().expect("it ended");
}

/// Trains until what it trains with is gone; saves after every result, and says the error.
pub(crate) fn saves(builder: Builder<Ppo>, home: &Path) {
    let run = home.join("run");
    let mut trainer = builder.logdir(&run).resume(Resume::IfThere).build().expect("a checkpoint that fits");
    loop {
        // There need not be thousands of checkpoints.
        std::thread::sleep(Duration::from_millis(100));
        match trainer.train().and_then(|result| trainer.save().map(|_| result)) {
            Ok(result) => {
                let restarts = number(&result, "num_remote_worker_restarts").to_string();
                // Whole at any time for one who reads it.
                fs::write(home.join("fresh"), restarts).expect("written");
                fs::rename(home.join("fresh"), home.join("restarts")).expect("renamed");
            }
            Err(error) => return fs::write(home.join("error"), error.to_string()).expect("written"),
        }
    }
}

/// Lays settings of another process over.
pub(crate) fn set(ppo: &mut Ppo, settings: &str) {
    let settings: Value = serde_json::from_str(settings).expect("settings");
    let mut all = json!(ppo.common);
    for (key, value) in settings.as_object().expect("an object") {
        all[key] = value.clone();
    }
    ppo.common = serde_json::from_value(all).expect("settings that can be");
}
