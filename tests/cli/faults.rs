//! Runs of the command whose files were damaged, removed or moved, and runs that two processes want.

use std::fs::{self, File, OpenOptions};
use std::io::BufRead;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::cli::{
    after_three_results, checkpoints, command, finish, iterations, logged, pavlov, run, scratch, signal,
    start_endless, text, train,
};

const FOUR: &[&str] = &["--stop", "training_iteration=4", "--checkpoint-freq", "1", "--quiet"];

fn flip_a_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

fn cut(path: &Path, length: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(length).expect("cut");
}

#[test]
fn a_run_whose_newest_checkpoint_is_damaged_goes_on_past_it_and_keeps_it_under_another_name() {
    type Harm = fn(&Path);
    let harms: [Harm; 3] = [
        |checkpoint| cut(&checkpoint.join("manifest.json"), 0),
        |checkpoint| fs::remove_file(checkpoint.join("manifest.json")).expect("removed"),
        |checkpoint| flip_a_bit(&checkpoint.join("policies.safetensors"), 200),
    ];
    for harm in harms {
        let (_dir, out) = scratch();
        run(&mut train(&out, FOUR)).ok();
        harm(&out.join("checkpoint_000004"));
        let resumed = pavlov(&["resume", text(&out), "--json", "--stop", "training_iteration=5"]).ok();
        assert!(resumed.stderr.contains("checkpoint_000004.damaged"), "{}", resumed.stderr);
        assert_eq!(iterations(&resumed.lines()), [4, 5]);
        assert_eq!(iterations(&logged(&out)), [1, 2, 3, 4, 5]);
        assert!(out.join("checkpoint_000004.damaged/policies.safetensors").exists());
        pavlov(&["evaluate", text(&out.join("checkpoint_000004")), "--episodes", "1"]).ok();
    }
}

#[test]
fn a_run_without_any_whole_checkpoint_starts_again_and_keeps_the_damaged_ones_under_other_names() {
    let (_dir, out) = scratch();
    run(&mut train(&out, FOUR)).ok();
    for name in checkpoints(&out) {
        cut(&out.join(name).join("manifest.json"), 0);
    }
    let resumed = pavlov(&["resume", text(&out), "--json"]).ok();
    assert!(resumed.stderr.contains("starts again from the beginning"), "{}", resumed.stderr);
    assert_eq!(iterations(&resumed.lines()), [1, 2, 3, 4]);
    let damaged = checkpoints(&out).into_iter().filter(|name| name.ends_with(".damaged")).count();
    assert_eq!((damaged, checkpoints(&out).len()), (4, 8));
}

#[test]
fn a_run_whose_run_json_is_damaged_goes_on_with_the_settings_of_its_checkpoint() {
    for length in [0, 100] {
        let (_dir, out) = scratch();
        run(&mut train(&out, FOUR)).ok();
        cut(&out.join("run.json"), length);
        let resumed = pavlov(&["resume", text(&out), "--json", "--stop", "training_iteration=6"]).ok();
        for part in ["run.json is damaged", "run.json.damaged", "give them again with --stop"] {
            assert!(resumed.stderr.contains(part), "no {part:?} in: {}", resumed.stderr);
        }
        assert_eq!(iterations(&logged(&out)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(fs::metadata(out.join("run.json.damaged")).expect("it stays").len(), length);
        // From now on it is a run as any other.
        let resumed = pavlov(&["resume", text(&out)]).ok();
        assert!(resumed.stderr.contains("nothing to do: training_iteration is 6"), "{}", resumed.stderr);
        assert!(!resumed.stderr.contains("damaged"), "{}", resumed.stderr);
    }
    let (_dir, out) = scratch();
    run(&mut train(&out, &["--stop", "training_iteration=1", "--checkpoint-at-end", "false"])).ok();
    cut(&out.join("run.json"), 0);
    pavlov(&["resume", text(&out)]).refused("begin the run again in another directory");
}

#[test]
fn a_run_json_too_large_to_be_read_is_refused_and_an_empty_one_is_the_way_out() {
    let (_dir, out) = scratch();
    run(&mut train(&out, FOUR)).ok();
    // The end is a hole: it takes no room on the disk.
    cut(&out.join("run.json"), 300_000_000);
    let refused = pavlov(&["resume", text(&out)]);
    let newest = out.join("checkpoint_000004");
    let way_out = format!("or an empty file: then the settings of {} are used", newest.display());
    refused.refused(&format!(
        "cannot read {}: it has 300000000 bytes or more, but pavlov reads 268435456 at most and writes no larger \
         one; put a copy of the right file in its place, {way_out}",
        out.join("run.json").display()
    ));
    cut(&out.join("run.json"), 0);
    pavlov(&["resume", text(&out), "--quiet", "--stop", "training_iteration=5"]).ok();
}

#[test]
fn results_that_are_gone_are_told_and_the_run_goes_on_from_its_checkpoint() {
    let (_dir, out) = scratch();
    run(&mut train(&out, FOUR)).ok();
    let log = out.join("result.json");
    let lines = fs::read_to_string(&log).expect("results");
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    // As after a power cut: the end of the log is gone, or torn, the checkpoint is there.
    fs::write(&log, lines[..2].concat() + &lines[2][..50]).expect("written");
    let resumed = pavlov(&["resume", text(&out), "--json", "--stop", "training_iteration=5"]).ok();
    assert!(resumed.stderr.contains("result.json lacks the results 3 to 4"), "{}", resumed.stderr);
    assert_eq!(iterations(&resumed.lines()), [5]);
    assert_eq!(iterations(&logged(&out)), [1, 2, 5]);
}

#[test]
fn a_flipped_bit_in_an_old_result_does_not_stop_a_run() {
    let (_dir, out) = scratch();
    run(&mut train(&out, FOUR)).ok();
    flip_a_bit(&out.join("result.json"), 0);
    fs::remove_file(out.join("progress.csv")).expect("a file that can be made again");
    let resumed = pavlov(&["resume", text(&out), "--stop", "training_iteration=5"]).ok();
    assert!(resumed.stderr.contains("result.json: line 1 is not a JSON object"), "{}", resumed.stderr);
    let table = fs::read_to_string(out.join("progress.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1 + 4, "all rows but the damaged one");
}

#[test]
fn a_new_run_in_a_directory_that_another_process_has_just_taken_leaves_it_as_it_is() {
    let (_dir, out) = scratch();
    fs::create_dir(&out).expect("a directory");
    // This process stands for the one that was faster, in the moment before it writes its `run.json`.
    let winner = File::open(&out).expect("a directory");
    winner.lock().expect("locked");
    run(&mut train(&out, FOUR)).refused("another process is training in");
    assert_eq!(fs::read_dir(&out).expect("a directory").count(), 0);
}

#[test]
fn of_two_new_runs_in_one_directory_one_trains_and_the_other_is_refused() {
    let (_dir, out) = scratch();
    let start = || train(&out, FOUR).stderr(Stdio::piped()).spawn().expect("the binary");
    let both = [start(), start()].map(finish);
    let mut codes = both.map(|ran| ran.code);
    codes.sort();
    assert_eq!(codes, [Some(0), Some(2)]);
    assert_eq!(iterations(&logged(&out)), [1, 2, 3, 4]);
    assert!(pavlov(&["resume", text(&out)]).ok().stderr.contains("nothing to do"));
}

#[test]
fn a_run_whose_directory_is_moved_or_removed_stops_with_one_sentence_and_exit_code_1() {
    for moves in [true, false] {
        let (dir, out) = scratch();
        let rare = ["--stop", "training_iteration=1", "--checkpoint-freq", "200", "--quiet"];
        run(&mut train(&out, &rare)).ok();
        let endless = ["resume", text(&out), "--json", "--stop", "training_iteration=1000000000"];
        let (child, stdout) = after_three_results(&mut command(endless));
        let elsewhere = dir.path().join("elsewhere");
        if moves {
            fs::rename(&out, &elsewhere).expect("moved");
        } else {
            // Again if a file appears in it meanwhile.
            while out.exists() && fs::remove_dir_all(&out).is_err() {}
        }
        std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
        let ran = finish(child);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let found = if moves {
            format!("was moved to {0} during training", elsewhere.display())
        } else {
            "was removed during training, so nothing more is saved".into()
        };
        assert!(
            ran.stderr.contains(&format!("the run directory {} {found}", out.display())),
            "{}",
            ran.stderr
        );
        assert!(!out.exists(), "nothing is written where the run is no more");
        // Beside it lies the run with its last state.
        let place = dir.path().join("run.rescued");
        assert!(
            ran.stderr.contains(&format!("its last state was saved in {}", place.display())),
            "{}",
            ran.stderr
        );
        let last = logged(&place).len();
        assert_eq!(iterations(&logged(&place)), (1..=last as u64).collect::<Vec<_>>());
        let hint = format!(
            "the newest checkpoint is {}; go on from it with `pavlov resume {}`",
            place.join(format!("checkpoint_{last:06}")).display(),
            place.display()
        );
        assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
        let stop = format!("training_iteration={}", last + 1);
        pavlov(&["resume", text(&place), "--quiet", "--stop", &stop]).ok();
        assert_eq!(logged(&place).len(), last + 1);
    }
}

#[test]
fn a_run_whose_files_are_deleted_writes_them_again_with_one_warning_and_can_be_resumed() {
    let (_dir, out) = scratch();
    let every = ["--checkpoint-freq", "50"];
    let (child, mut stdout) = start_endless(&out, &every);
    let empty = || {
        for entry in fs::read_dir(&out).expect("a directory").flatten() {
            let path = entry.path();
            // Some of it may be gone by itself.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    };
    let parts = ["result.json", "progress.csv", "params.json", "run.json"];
    let mut line = String::new();
    for _ in 0..2 {
        // The program waits in the middle of a line when nobody reads and the pipe is full, so it looks for no file now.
        let length = || fs::metadata(out.join("result.json")).map_or(0, |file| file.len());
        let mut before = 0;
        while before == 0 || before != length() {
            before = length();
            std::thread::sleep(Duration::from_millis(300));
        }
        empty();
        while !parts.iter().all(|part| out.join(part).exists()) {
            line.clear();
            stdout.read_line(&mut line).expect("a line of JSON");
            assert!(!line.is_empty(), "the run ended by itself");
        }
    }
    signal(&child, "INT");
    std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
    let ran = finish(child);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("files were deleted in").count(), 1, "{}", ran.stderr);
    for part in parts.into_iter().chain(["with all results so far"]) {
        assert!(ran.stderr.contains(part), "no {part:?} in: {}", ran.stderr);
    }
    let last = logged(&out).len();
    assert_eq!(iterations(&logged(&out)), (1..=last as u64).collect::<Vec<_>>());
    let table = fs::read_to_string(out.join("progress.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1 + last);
    let stop = format!("training_iteration={}", last + 1);
    pavlov(&["resume", text(&out), "--quiet", "--stop", &stop]).ok();
    assert_eq!(logged(&out).len(), last + 1);
}
