//! The page of mistakes and answers.

use std::path::Path;
use std::process::Command;

use crate::cli::{command, run};

/// The command and the answer of a line of the table.
fn row(line: &str) -> Option<(String, String)> {
    let (typed, answer) = line.strip_prefix("| `pavlov ")?.split_once("` | ")?;
    Some((typed.to_owned(), answer.strip_suffix(" |")?.to_owned()))
}

/// Makes iterations short; says nothing else about the answers.
const QUICK: [&str; 4] = ["--set", "num_sgd_iter=1", "--set", "model.fcnet_hiddens=[8]"];

/// Runs the command in `dir`, and returns all that it prints. A run that the line gives no directory gets one.
fn answer(typed: &str, number: usize, dir: &Path) -> String {
    let mut pavlov: Command = command(typed.split(' '));
    if typed.contains("--stop training_iteration") {
        pavlov.args(QUICK);
    }
    if typed.starts_with("train") && !typed.contains("--out") {
        pavlov.arg("--out").arg(format!("runs/{number}"));
    }
    let done = pavlov.current_dir(dir).output().expect("it runs");
    [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat()
}

#[test]
fn every_command_of_the_page_gets_the_answer_that_stands_beside_it() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/mistakes.md")).expect("the page");
    let rows: Vec<(String, String)> = page.lines().filter_map(row).collect();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    let dir = tempfile::tempdir().expect("a directory");
    let mut first =
        command("train PPO --env CartPole-v1 --stop training_iteration=1 --out runs/first".split(' '));
    run(first.args(QUICK).current_dir(dir.path())).ok();
    for (number, (typed, wanted)) in rows.iter().enumerate() {
        let said = answer(typed, number, dir.path());
        assert!(said.contains(wanted), "pavlov {typed}\nsays\n{said}\nand not\n{wanted}");
    }
}
