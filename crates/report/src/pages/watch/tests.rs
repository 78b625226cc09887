//! What stands on the screen, at several sizes of the terminal.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::tests::{result, write};
use super::{Live, Move, Watched};

/// The screen as lines of text.
pub(super) fn drawn(watched: &mut Watched, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| watched.draw(frame, "q leaves")).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

/// A run with these results that goes on.
fn run(dir: &Path, results: &[Value]) -> Watched {
    write(dir, results);
    let mut watched = Watched::find(dir).expect("a run");
    watched.refresh().unwrap();
    let Live::Run(live) = &mut watched.0 else { panic!("a run is a run") };
    live.is_held = Some(true);
    live.age = Some(Duration::from_secs(2));
    watched
}

#[test]
fn a_run_shows_its_numbers_its_curve_its_statistics_its_time_and_its_workers() {
    let home = TempDir::new().unwrap();
    let results: Vec<Value> = (1..=2)
        .map(|i| {
            let mut result = result(i);
            result["num_healthy_workers"] = 4.into();
            result["num_remote_worker_restarts"] = 1.into();
            result["evaluation"] = json!({"episode_reward_mean": 33.0});
            result
        })
        .collect();
    for (width, height) in [(80, 24), (120, 40)] {
        let lines = drawn(&mut run(home.path(), &results), width, height);
        for said in [
            "PPO on CartPole-v1  /",
            "training, last result 2 s ago",
            "iteration 2, 200 steps, mean return 20, 100 steps/s, 66 %, 1 s left",
            "mean return of an episode, evaluations as dots, now 33",
            "200 steps of the environment",
            "KL                          0.02 ▁█",
            "time: environment 25 %, learning 75 %",
            "4 workers well (started again 1 times)",
        ] {
            assert!(has(&lines, said), "{said}\n{}", lines.join("\n"));
        }
        assert_eq!(lines[usize::from(height) - 1], "q leaves");
        let is_drawn = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c);
        assert!(lines.iter().any(|line| line.contains(is_drawn)), "a curve\n{}", lines.join("\n"));
    }
}

#[test]
fn small_terminals_show_the_first_lines_and_none_panics() {
    let home = TempDir::new().unwrap();
    let mut watched = run(home.path(), &[result(1), result(2)]);
    let lines = drawn(&mut watched, 40, 12);
    assert!(lines[2].starts_with("iteration 2, 200 steps, mean return 20"), "{lines:?}");
    for width in [1, 2, 5, 11, 33, 99, 100, 300] {
        for height in 1..30 {
            drawn(&mut watched, width, height);
        }
    }
}

#[test]
fn results_are_added_and_the_end_is_said() {
    let home = TempDir::new().unwrap();
    let mut watched = run(home.path(), &[]);
    let lines = drawn(&mut watched, 80, 24);
    assert!(has(&lines, "training, no result yet") && has(&lines, "no number yet"), "{lines:?}");
    write(home.path(), &[result(1), result(2), result(3)]);
    watched.refresh().unwrap();
    let lines = drawn(&mut watched, 80, 24);
    assert!(has(&lines, "ended: timesteps_total has reached its limit"), "{lines:?}");
    assert!(has(&lines, "iteration 3, 300 steps"), "{lines:?}");
}

#[test]
fn a_killed_run_and_a_number_that_is_none_any_more_are_said() {
    let home = TempDir::new().unwrap();
    let mut bad = result(2);
    bad["info"]["learner"]["default_policy"]["learner_stats"]["kl"] = Value::Null;
    let mut watched = run(home.path(), &[result(1), bad]);
    let lines = drawn(&mut watched, 80, 24);
    assert!(lines[1].contains("; kl is no number since result 2"), "{lines:?}");
    let Live::Run(live) = &mut watched.0 else { panic!("a run is a run") };
    live.is_held = Some(false);
    let lines = drawn(&mut watched, 120, 24);
    assert!(lines[1].starts_with("no process of this machine trains it, last result 2 s ago"), "{lines:?}");
}

#[test]
fn what_a_stranger_wrote_cannot_steer_the_terminal() {
    let home = TempDir::new().unwrap();
    let mut strange = result(1);
    strange["custom_metrics"] = json!({"\u{1b}[2J\u{7}own": 1.0});
    strange["info"] = json!({"learner": {"\u{1b}]0;title\u{7}": {"learner_stats": {"kl": 1.0}}}});
    let lines = drawn(&mut run(home.path(), &[strange]), 120, 40);
    assert!(has(&lines, "own") && !lines.concat().contains(char::is_control), "{lines:?}");
}

#[test]
fn rows_scroll_and_stop_at_both_ends() {
    let home = TempDir::new().unwrap();
    let mut many = result(1);
    let own: serde_json::Map<String, Value> =
        (10..60).map(|i| (format!("own {i}"), Value::from(i))).collect();
    many["custom_metrics"] = own.into();
    let mut watched = run(home.path(), &[many]);
    assert!(!has(&drawn(&mut watched, 80, 24), "own 59"));
    watched.scroll(Move::Last);
    assert!(has(&drawn(&mut watched, 80, 24), "own 59"));
    watched.scroll(Move::Up(1));
    let lines = drawn(&mut watched, 80, 24);
    assert!(has(&lines, "own 58") && !has(&lines, "own 59"), "{lines:?}");
    watched.scroll(Move::First);
    assert!(has(&drawn(&mut watched, 80, 24), "entropy"));
}

/// A journal of a sweep with trials that ended in every way.
fn journal(trials: usize) -> String {
    let mut events = vec![json!({"event": "experiment", "format_version": 1, "pavlov": "0.1.0",
        "trainable": "PPO", "metric": "score", "mode": "max", "name": "s"})];
    for i in 0..trials {
        let id = format!("t{i:03}");
        events.push(json!({"event": "trial", "trial_id": id, "drawn": {"lr": 0.001 * (i + 1) as f64}}));
        for iteration in 1..=3 {
            events.push(json!({"event": "result", "trial_id": id, "iteration": iteration, "elapsed": 1.0, "verdict":
                if iteration == 3 && i == 0 { "done" } else if iteration == 3 && i == 1 { "stop" } else { "continue" },
                "result": {"timesteps_total": 100 * iteration, "score": (i * iteration) as f64}}));
        }
    }
    events.iter().map(|event| format!("{event}\n")).collect()
}

#[test]
fn a_sweep_shows_its_trials_from_best_to_worst() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("journal.jsonl");
    fs::write(&path, journal(4) + "{\"event\": \"given_up\", \"trial").unwrap();
    let mut watched = Watched::find(home.path()).expect("a sweep");
    watched.refresh().unwrap();
    let Live::Sweep(sweep) = &mut watched.0 else { panic!("a sweep is a sweep") };
    sweep.is_held = Some(true);
    for (width, height) in [(80, 24), (120, 40)] {
        let lines = drawn(&mut watched, width, height);
        for said in [
            "Sweep of PPO  /",
            "4 trials, 2 running, 1 finished, 1 stopped early",
            "best score 9: t003, lr 0.004",
            "t003   running               3          9  lr 0.004",
            "t001   stopped early         3          3  lr 0.002",
        ] {
            assert!(has(&lines, said), "{said}\n{}", lines.join("\n"));
        }
        let place = |id: &str| lines.iter().rposition(|line| line.starts_with(id));
        assert!(place("t003") < place("t002") && place("t002") < place("t000"), "{lines:?}");
    }
    // The line that was half written is whole now.
    let failed = json!({"event": "failed", "trial_id": "t002", "message": "it broke"});
    let given_up = json!({"event": "given_up", "trial_id": "t002"});
    fs::write(&path, journal(4) + &format!("{failed}\n{given_up}\n")).unwrap();
    watched.refresh().unwrap();
    assert!(has(&drawn(&mut watched, 80, 24), "t002   failed                3          6  it broke"));
}

#[test]
fn a_table_of_many_trials_scrolls() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("journal.jsonl"), journal(100)).unwrap();
    let mut watched = Watched::find(home.path()).expect("a sweep");
    watched.refresh().unwrap();
    assert!(!has(&drawn(&mut watched, 80, 24), "t000"));
    watched.scroll(Move::Last);
    assert!(has(&drawn(&mut watched, 80, 24), "t000"));
    for height in 1..30 {
        drawn(&mut watched, 30, height);
    }
}

#[test]
fn a_journal_of_another_version_and_a_folder_without_a_run_are_refused() {
    let home = TempDir::new().unwrap();
    assert!(Watched::find(home.path()).is_none());
    let event = json!({"event": "experiment", "format_version": 99});
    fs::write(home.path().join("journal.jsonl"), format!("{event}\n")).unwrap();
    let refused = Watched::find(home.path()).expect("a sweep").refresh().unwrap_err().to_string();
    assert!(refused.contains("format version 99"), "{refused}");
}
