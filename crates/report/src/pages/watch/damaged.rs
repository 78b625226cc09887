//! Files that are damaged, half written or full of strange numbers cannot break the screen, whatever its size.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::tests::result;
use super::tests::drawn;
use super::{Move, Watched};

/// Widths and heights of terminals.
const SIZES: [(u16, u16); 14] = [
    (1, 1),
    (1, 100),
    (2, 2),
    (3, 1),
    (5, 4),
    (10, 3),
    (20, 9),
    (40, 12),
    (80, 24),
    (99, 5),
    (100, 6),
    (120, 40),
    (300, 1),
    (300, 100),
];

/// Numbers as a file may have them. The last ones are no JSON, but what Python's `json` writes.
const NUMBERS: [&str; 14] = [
    "0",
    "-0.0",
    "1",
    "-1e308",
    "1.7976931348623157e308",
    "5e-324",
    "-3e-7",
    "18446744073709551615",
    "-9223372036854775808",
    "1e400",
    "null",
    "NaN",
    "Infinity",
    "\"text\"",
];

/// Draws what lies in the folder at every size, scrolled to both ends. A file that is refused is drawn as far as it was read.
fn draw_everywhere(watched: &mut Watched) {
    let _refused = watched.refresh();
    for (width, height) in SIZES {
        for moved in [Move::First, Move::Last, Move::Down(1), Move::Up(usize::MAX)] {
            watched.scroll(moved);
            assert_eq!(drawn(watched, width, height).len(), usize::from(height));
        }
    }
}

/// A result in which every number is `number`.
fn filled(value: &Value, number: &str) -> String {
    match value {
        Value::Number(_) => number.into(),
        Value::Object(inner) => {
            let members =
                inner.iter().map(|(key, value)| format!("{}:{}", json!(key), filled(value, number)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// A result with every number that a screen of a run shows.
fn rich(i: u64) -> Value {
    let mut result = result(i);
    result["evaluation"] = json!({"episode_reward_mean": 5.0});
    result["custom_metrics"] = json!({"own_mean": 1.0});
    result["policy_reward_mean"] = json!({"red": 1.0});
    for key in
        ["num_healthy_workers", "num_remote_worker_restarts", "num_healthy_learners", "num_learner_restarts"]
    {
        result[key] = json!(2);
    }
    result
}

/// A run whose `result.json` has this content.
fn run(content: &[u8]) -> (TempDir, Watched) {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("result.json"), content).unwrap();
    let stop = json!({"algorithm": "PPO", "env": "CartPole-v1", "stop": {"timesteps_total": 300}});
    fs::write(home.path().join("run.json"), stop.to_string()).unwrap();
    let watched = Watched::find(home.path()).expect("a run");
    (home, watched)
}

#[test]
fn no_number_of_a_result_breaks_the_screen_of_a_run() {
    for first in NUMBERS {
        for second in ["1", "-1.7976931348623157e308", first] {
            let lines = [first, second, first].map(|number| filled(&rich(1), number) + "\n");
            let (_home, mut watched) = run(lines.concat().as_bytes());
            draw_everywhere(&mut watched);
        }
    }
}

#[test]
fn no_damage_of_a_result_file_breaks_the_screen_of_a_run() {
    let whole = format!("{}\n{}\n", rich(1), rich(2));
    // An empty file, each stage of writing it, and bytes of another file in it.
    for end in (0..whole.len()).step_by(97).chain([whole.len()]) {
        let (_home, mut watched) = run(&whole.as_bytes()[..end]);
        draw_everywhere(&mut watched);
        let mut bytes = whole.clone().into_bytes();
        bytes[end.min(whole.len() - 3)..][..3].copy_from_slice(&[0xff, 0, b'\n']);
        let (_home, mut watched) = run(&bytes);
        draw_everywhere(&mut watched);
    }
    for content in
        ["\n\n\n", "null\n", "[]\n", "{}\n", "{\"info\": {\"learner\": 5}}\n{\"info\": 5}\n", "\u{feff}{}\n"]
    {
        let (_home, mut watched) = run(content.as_bytes());
        draw_everywhere(&mut watched);
    }
}

#[test]
fn no_journal_breaks_the_screen_of_a_sweep() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("journal.jsonl");
    let begin = json!({"event": "experiment", "format_version": 1, "trainable": "PPO", "metric": "score", "mode": "max", "name": "s"});
    for number in NUMBERS {
        let lines = [
            begin.to_string(),
            format!("{{\"event\": \"trial\", \"trial_id\": \"a\", \"drawn\": {{\"lr\": {number}}}}}"),
            json!({"event": "trial", "trial_id": "b\u{1b}[2J", "drawn": {"lr": 1}}).to_string(),
            format!(
                "{{\"event\": \"result\", \"trial_id\": \"a\", \"iteration\": {number}, \"elapsed\": {number}, \"verdict\": \"continue\", \"result\": {{\"timesteps_total\": {number}, \"score\": {number}}}}}"
            ),
            json!({"event": "result", "trial_id": "a", "iteration": 2, "result": {"timesteps_total": 2, "score": -1e308}}).to_string(),
            json!({"event": "result", "trial_id": "of no trial", "iteration": 2, "result": {"score": 1}}).to_string(),
        ];
        let whole = lines.map(|line| line + "\n").concat();
        for end in (0..whole.len()).step_by(71).chain([whole.len()]) {
            fs::write(&path, &whole.as_bytes()[..end]).unwrap();
            draw_everywhere(&mut Watched::find(home.path()).expect("a sweep"));
        }
    }
}
