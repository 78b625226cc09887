//! Sweeps whose trials are actors: what they come to is what they come to in processes, whatever dies meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Cluster, all_end, named, on_ray, parent, processes, python};
use crate::cli::sweeps::{assert_same, background, folder, pavlov, results, succeeds, trials};
use crate::processes::{is_running, signal, wait_for};

/// Decides by what is there when a result comes, which is the same where one trial runs at a time.
const ASHA: &str = "scheduler = { type = \"ASHA\", grace_period = 1, max_t = 4, reduction_factor = 2 }\nmax_concurrent_trials = 1\n";

fn edit(home: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(home.join("sweep.toml")).expect("a sweep");
    assert!(text.contains(from), "{text}");
    fs::write(home.join("sweep.toml"), text.replace(from, to)).expect("written");
}

/// A sweep of `sweep.toml` in the folder with trials in processes, which has ended.
fn calm(home: &Path, more: &[&str]) {
    let text = fs::read_to_string(home.join("sweep.toml")).expect("a sweep");
    fs::write(home.join("calm.toml"), text.replace("\"ray\"", "\"processes\"")).expect("written");
    let args = ["tune", "calm.toml", "--out", "calm", "--quiet"];
    succeeds(&mut pavlov(args.into_iter().chain(more.iter().copied()), home));
}

#[track_caller]
fn assert_same_trials(home: &Path, number: usize) {
    let calm = trials(&home.join("calm"));
    let other = trials(&home.join("swept"));
    assert_eq!((calm.len(), other.len()), (number, number));
    for (calm, other) in calm.iter().zip(&other) {
        assert_same(&results(calm), &results(other));
    }
}

/// Processes of trials: the children of actors.
fn of_trials(home: &Path) -> Vec<u32> {
    let is_actor = |pid: u32| named(&BTreeSet::from([pid]), "ray::Actor").next().is_some();
    processes(home).into_iter().filter(|pid| parent(*pid).is_some_and(is_actor)).collect()
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_sweep_on_a_cluster_of_its_own_decides_as_one_in_processes_and_leaves_no_process() {
    let dir = folder(&format!("executor = \"ray\"\n{ASHA}"));
    let home = dir.path();
    // Drawn rates differ from the first result on.
    edit(home, "episode_reward_mean", "info/learner/default_policy/learner_stats/cur_lr");
    edit(home, "\"max\"", "\"min\"");
    calm(home, &[]);
    let mut swept = pavlov(["tune", "sweep.toml", "--out", "swept", "--quiet"], home);
    on_ray(swept.env("PAVLOV_TEST_HOME", home));
    succeeds(&mut swept);
    all_end(home);
    assert_same_trials(home, 4);
    let lengths: BTreeSet<usize> = trials(&home.join("swept")).iter().map(|dir| results(dir).len()).collect();
    assert!(lengths.len() > 1, "ASHA ended some: {lengths:?}");
}

/// A cluster that has both machines: a sweep shares out what is there when it begins.
fn two_machines() -> Cluster {
    let cluster = Cluster::start();
    wait_for("the other machine", || {
        let mut doctor = pavlov(["doctor", "--json"], cluster.home.path());
        cluster.belongs(doctor.env("PAVLOV_PYTHON", python()).env("RAY_ADDRESS", &cluster.address));
        let said = doctor.output().expect("run").stdout;
        String::from_utf8_lossy(&said).contains("2 machine(s)").then_some(())
    });
    cluster
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn trials_on_a_cluster_wait_for_cores_and_end_as_undisturbed_ones_when_actors_and_the_driver_are_killed() {
    let cluster = two_machines();
    let dir = folder(
        "executor = \"ray\"\nfailure = { max_failures = 3 }\ncheckpoint = { checkpoint_frequency = 1, num_to_keep = 2 }\n",
    );
    let home = dir.path();
    edit(home, "training_iteration = 4", "training_iteration = 100");
    calm(home, &["--num-samples", "3"]);
    let on_cluster = |args: &[&str]| {
        let mut command = pavlov(args.iter().copied(), home);
        on_ray(&mut command);
        cluster.belongs(&mut command);
        command.env("RAY_ADDRESS", &cluster.address);
        command
    };
    let begin = ["tune", "sweep.toml", "--out", "swept", "--num-samples", "3", "--quiet"];
    let mut driver = background(on_cluster(&begin));

    let two = || Some(of_trials(cluster.home.path())).filter(|trials| trials.len() == 2);
    let trial = wait_for("two trials", two)[0];
    wait_for("results", || (count(home) >= 8).then_some(()));
    signal("KILL", parent(trial).expect("an actor"));
    wait_for("the end of the trial's process", || (!is_running(trial)).then_some(()));
    let again = wait_for("two trials again", two);
    assert!(!again.contains(&trial));

    let before = count(home);
    wait_for("more results", || (count(home) > before + 4).then_some(()));
    driver.kill().expect("it runs");
    driver.wait().expect("it ended");
    wait_for("the end of all trials", || of_trials(cluster.home.path()).is_empty().then_some(()));

    let mut resumed = background(on_cluster(&["tune", "--resume", "swept", "--quiet"]));
    let mut most = 0;
    let ended = wait_for("the end of the sweep", || {
        most = most.max(of_trials(cluster.home.path()).len());
        resumed.try_wait().expect("a child")
    });
    assert!(ended.success());
    assert!(most <= 2, "{most} trials on two cores");
    assert_same_trials(home, 6);
    let journal = fs::read_to_string(home.join("swept/journal.jsonl")).expect("a journal");
    let events = |event: &str| journal.lines().filter(|line| line.contains(event)).count();
    assert_eq!((events("\"completed\""), events("\"failed\"")), (6, 1));
    let user = fs::metadata("/proc/self").expect("Linux").uid();
    let shipped = format!("pavlov-workers-{user}");
    assert!(cluster.file(&shipped).exists(), "a trial was on the other machine");
}

/// How many results the trials of the sweep have.
fn count(home: &Path) -> usize {
    let trials = fs::read_dir(home.join("swept")).into_iter().flatten().flatten();
    let results =
        trials.map(|trial| fs::read_to_string(trial.path().join("result.json")).unwrap_or_default());
    results.map(|results| results.lines().count()).sum()
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_directory_that_a_machine_does_not_see_and_a_trial_that_no_machine_can_hold_end_the_sweep() {
    let cluster = two_machines();
    let refused = |more: &str, out: &str, workers: &str| {
        let dir = folder(&format!("executor = \"ray\"\n{more}\n"));
        edit(dir.path(), "num_workers = 0", workers);
        let mut command = pavlov(["tune", "sweep.toml", "--out", out, "--quiet"], dir.path());
        on_ray(&mut command);
        cluster.belongs(command.env("RAY_ADDRESS", &cluster.address));
        let output = command.output().expect("run");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let refusal = |more: &str, out: &str| refused(more, out, "num_workers = 0");
    // For each process it is another directory.
    let unseen = refusal("resources = { elsewhere = 1 }", "/proc/self/cwd/swept");
    assert!(unseen.contains("`executor` is \"ray\", but node "), "{unseen}");
    assert!(unseen.contains(" does not see the trial's directory /proc/self/cwd/swept/"), "{unseen}");
    let large = refusal("resources = { CPU = 2 }", "swept");
    assert!(
        large.contains("a trial needs 2 CPU on one machine, and no machine of the cluster has that"),
        "{large}"
    );
    let packed = refused("", "swept", "workers = \"ray:1\"\nplacement_strategy = \"STRICT_PACK\"");
    assert!(packed.contains("a trial needs 2 CPU on one machine"), "{packed}");
    let none = refusal("resources = { CPU = 3 }", "swept");
    assert!(none.contains("can never run: the sweep has {\"CPU\": 2.0"), "{none}");
    assert!(of_trials(cluster.home.path()).is_empty());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_sweep_takes_the_cores_of_a_machine_that_joins_its_cluster() {
    let mut cluster = two_machines();
    let dir = folder("executor = \"ray\"\n");
    edit(dir.path(), "training_iteration = 4", "training_iteration = 1000000");
    let mut sweep = pavlov(["tune", "sweep.toml", "--out", "swept", "--quiet"], dir.path());
    on_ray(&mut sweep);
    cluster.belongs(sweep.env("RAY_ADDRESS", &cluster.address));
    let mut sweep = background(sweep);
    let trials = |cluster: &Cluster| of_trials(cluster.home.path()).len();
    wait_for("two trials", || (trials(&cluster) == 2).then_some(()));
    cluster.join(4);
    wait_for("a third trial", || (trials(&cluster) == 3).then_some(()));
    sweep.kill().expect("it runs");
    sweep.wait().expect("it ended");
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn workers_of_a_trial_have_a_part_of_its_room_each_and_what_they_come_to_is_what_threads_come_to() {
    let mut cluster = two_machines();
    cluster.join(4);
    let dir = folder(
        "executor = \"ray\"\nfailure = { max_failures = 1 }\ncheckpoint = { checkpoint_frequency = 1 }\n",
    );
    let home = dir.path();
    edit(home, "training_iteration = 4", "training_iteration = 60");
    edit(home, "num_workers = 0", "workers = \"threads:2\"");
    calm(home, &["--num-samples", "1"]);
    edit(home, "threads:2", "ray:2");
    let mut sweep = pavlov(["tune", "sweep.toml", "--out", "swept", "--num-samples", "1", "--quiet"], home);
    on_ray(&mut sweep);
    cluster.belongs(sweep.env("RAY_ADDRESS", &cluster.address));
    let mut sweep = background(sweep);
    // A machine has one core, and so has a trial, and each of its workers.
    let spread = || {
        let here = of_trials(cluster.home.path());
        let machines =
            (0..3).filter(|&machine| here.iter().any(|pid| cluster.machine(machine).contains(pid)));
        (here.len() == 3 && machines.count() == 3).then_some(here)
    };
    let all = wait_for("a trial and its workers", spread);
    wait_for("results", || (count(home) >= 8).then_some(()));
    let is_trial = |pid: &&u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"PAVLOV_TRIAL_OF="))
    };
    let trial = *all.iter().find(is_trial).expect("a trial");
    signal("KILL", parent(trial).expect("an actor"));
    wait_for("its end and that of its workers", || (!all.iter().any(|pid| is_running(*pid))).then_some(()));
    let journal = || fs::read_to_string(home.join("swept/journal.jsonl")).expect("a journal");
    assert!(sweep.wait().expect("it ended").success(), "{}", journal());
    let without_workers = |mut results: Vec<pavlov::tune::Metrics>| {
        for result in &mut results {
            result.get_mut("config").and_then(|config| config.as_object_mut()?.shift_remove("workers"));
        }
        results
    };
    let calm = trials(&home.join("calm"));
    let swept = trials(&home.join("swept"));
    assert_eq!((calm.len(), swept.len()), (2, 2));
    for (calm, swept) in calm.iter().zip(&swept) {
        let [calm, swept] = [calm, swept].map(|trial| without_workers(results(trial)));
        assert_same(&calm, &swept);
    }
    wait_for("the end of all", || of_trials(cluster.home.path()).is_empty().then_some(()));
}
