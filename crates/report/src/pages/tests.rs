//! Tests of whole pages, made of files that stand for a run's.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Known, RecordedSweep, Run, of_run, of_runs, of_sweep};

/// Text that would run a script, end a picture or leave an attribute, were it not escaped.
const STRANGER: &str = "\"'></script></svg><script>window.stranger=1</script><img src=x onerror=stranger()>";

/// A result of iteration `i`, of 100 steps and one second.
pub(super) fn result(i: u64) -> Value {
    json!({
        "training_iteration": i, "timesteps_total": 100 * i, "time_total_s": i, "time_this_iter_s": 1.0,
        "timesteps_this_iter": 100, "episodes_total": 3 * i, "episode_reward_mean": 10.0 * i as f64,
        "episode_len_mean": 20.0, "iterations_since_restore": i, "date": "2026-01-02_03-04-05", "hostname": "here",
        "policy_reward_mean": {}, "time_breakdown": {"env_s": 0.25, "learn_s": 0.75},
        "info": {"learner": {"default_policy": {"engine": "fused", "learner_stats": {"kl": 0.01 * i as f64, "entropy": 0.5}}}},
        "config": {"lr": 0.001, "seed": 0},
    })
}

pub(super) fn write(dir: &Path, results: &[Value]) {
    fs::create_dir_all(dir).unwrap();
    let lines: String = results.iter().map(|result| format!("{result}\n")).collect();
    fs::write(dir.join("result.json"), lines).unwrap();
    let run = json!({"pavlov": "0.1.0", "algorithm": "PPO", "env": "CartPole-v1", "stop": {"timesteps_total": 300}});
    fs::write(dir.join("run.json"), run.to_string()).unwrap();
}

/// The page of a run with these results.
fn page_of(results: &[Value]) -> String {
    let dir = TempDir::new().unwrap();
    write(dir.path(), results);
    of_run(&Run::read(dir.path()).unwrap(), &Known::default())
}

/// Fails if the page has a tag or a number that no browser accepts.
fn check(page: &str) {
    assert_eq!(page.matches("<script").count(), 1, "one script, the page's own");
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    assert!(!page.contains("<img src=x") && !page.contains("'></"), "a tag of a stranger");
    let body = page.split("<script>").next().unwrap();
    for bad in ["NaN", "inf", "\"\" d=", "http://", "https://", "src=\"//"] {
        assert!(!body.contains(bad), "{bad} is in the page");
    }
}

#[test]
fn a_finished_run_says_what_came_out_where_its_time_went_and_how_it_is_run() {
    let page = page_of(&[result(1), result(2), result(3)]);
    check(&page);
    for said in [
        "Not solved: mean return 30 over the last episodes of training, where 475 counts as solved, after 300 steps and 3 s of training.</p>",
        "mean return of an episode goes from 10 to 30 over 300 steps of the environment.",
        "environment 25.0 %",
        "learning 75.0 %",
        "KL, now 0.03",
        "The same throughout: entropy 0.5.",
        "<dt>pavlov</dt><dd>0.1.0</dd>",
        "<dt>stops at</dt><dd>timesteps_total 300</dd>",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
}

#[test]
fn evaluations_are_dots_and_decide_what_came_out() {
    let mut last = result(3);
    last["evaluation"] = json!({"episode_reward_mean": 480.0, "episodes_this_iter": 10});
    last["config"]["evaluation_config"] = json!({"explore": false});
    let page = page_of(&[result(1), result(2), last]);
    check(&page);
    assert!(
        page.contains(
            "Solved: mean return 480 over 10 greedy episodes of the last evaluation, where 475 counts"
        ),
        "{page}"
    );
    assert!(page.contains("<title>evaluation: 480 over 10 episodes at 300 steps of the environment</title>"));
}

#[test]
fn a_run_with_one_result_has_its_page() {
    let page = page_of(&[result(1)]);
    check(&page);
    assert!(page.contains("No checkpoint has its last results") && page.contains("<circle class=\"dot a\""));
}

#[test]
fn a_run_without_results_or_episodes_has_its_page() {
    let page = page_of(&[]);
    check(&page);
    assert!(page.contains("No episode has ended after 0 iterations."), "{page}");
    let mut first = result(1);
    first["episode_reward_mean"] = Value::Null;
    let page = page_of(&[first]);
    check(&page);
    assert!(page.contains("there is no curve yet"), "{page}");
}

#[test]
fn what_is_no_number_any_more_is_a_gap_with_a_red_mark() {
    let mut bad = result(2);
    bad["info"]["learner"]["default_policy"]["learner_stats"]["kl"] = Value::Null;
    let page = page_of(&[result(1), bad, result(3)]);
    check(&page);
    assert!(page.contains("kl is no number any more at 200 steps of the environment"), "{page}");
    assert!(page.contains("<path class=\"mark bad\""));
    let kl =
        page.split("KL, now").nth(1).and_then(|rest| rest.split("class=\"line a\" d=\"").nth(1)).unwrap();
    let kl = kl.split('"').next().unwrap();
    assert_eq!((kl.matches('M').count(), kl.matches('L').count()), (2, 0), "{kl}");
}

#[test]
fn several_policies_have_a_line_and_small_plots_each() {
    let mut all = [result(1), result(2)];
    for result in &mut all {
        result["policy_reward_mean"] = json!({"fox": 1.0, "hen": 2.0});
        let stats = result["info"]["learner"]["default_policy"].clone();
        result["info"]["learner"] = json!({"fox": stats, "hen": stats});
    }
    let page = page_of(&all);
    check(&page);
    for said in ["data-name=\"fox\"", "data-name=\"hen\"", "<div data-part=\"fox\"", "<div data-part=\"hen\""]
    {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_run_that_was_killed_and_continued_has_a_mark_where_the_next_process_began() {
    let mut again = result(3);
    again["iterations_since_restore"] = json!(1);
    let dir = TempDir::new().unwrap();
    write(dir.path(), &[result(1), result(2), again]);
    let path = dir.path().join("result.json");
    let text = fs::read_to_string(&path).unwrap() + "{\"training_iteration\": 4, \"ti";
    fs::write(&path, &text).unwrap();
    let page = of_run(&Run::read(dir.path()).unwrap(), &Known::default());
    check(&page);
    assert!(page.contains("continued 1 time<") && page.contains("<path class=\"mark start\""), "{page}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "the file is as it was");
}

#[test]
fn a_damaged_line_is_counted_and_passed_over() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), &[result(1), json!(["no result"]), result(2)]);
    let page = of_run(&Run::read(dir.path()).unwrap(), &Known::default());
    check(&page);
    assert!(page.contains("1 line of result.json could not be read"), "{page}");
}

/// Puts `STRANGER` into every text and every key of a value.
fn estranged(value: &Value, keep: &[&str]) -> Value {
    match value {
        Value::Object(inner) => inner
            .iter()
            .map(|(key, value)| match keep.contains(&key.as_str()) {
                true => (key.clone(), estranged(value, keep)),
                false => (format!("{key}{STRANGER}"), estranged(value, keep)),
            })
            .collect(),
        Value::Array(all) => all.iter().map(|value| estranged(value, keep)).collect(),
        Value::String(text) => format!("{text}{STRANGER}").into(),
        other => other.clone(),
    }
}

const OWN: [&str; 26] = [
    "training_iteration",
    "timesteps_total",
    "time_total_s",
    "episode_reward_mean",
    "iterations_since_restore",
    "date",
    "hostname",
    "policy_reward_mean",
    "time_breakdown",
    "info",
    "learner",
    "engine",
    "same_bits_on",
    "learner_stats",
    "config",
    "pavlov",
    "algorithm",
    "env",
    "stop",
    "custom_metrics",
    "evaluation",
    "env_s",
    "time_this_iter_s",
    "hist_stats",
    "timesteps_this_iter",
    "seed",
];

#[test]
fn no_text_of_a_run_becomes_a_part_of_the_page() {
    let dir = TempDir::new().unwrap();
    let runs = [0, 1].map(|number| {
        let run = dir.path().join(format!("run{number}<script>'\">"));
        let results = [1, 2, 3].map(|i| {
            let mut result = result(i);
            result["custom_metrics"] = json!({"own": i});
            result["policy_reward_mean"] = json!({"a": i, "b": i});
            result["config"] = json!({"lr": [number], "text": "x", "seed": "s"});
            estranged(&result, &OWN)
        });
        write(&run, &results);
        let begun =
            json!({"pavlov": "0", "algorithm": "PPO", "env": "e", "stop": {"x": "y"}, "config": {"a": "b"}});
        fs::write(run.join("run.json"), estranged(&begun, &OWN).to_string()).unwrap();
        run
    });
    let known = Known {
        changed: Some(vec![super::Changed {
            key: STRANGER.into(),
            here: STRANGER.into(),
            default: Some(STRANGER.into()),
            meaning: STRANGER.into(),
        }]),
        again: Some(STRANGER.into()),
        commands: vec![("do it", STRANGER.into())],
        episode: Some(Err(STRANGER.into())),
    };
    let page = of_run(&Run::read(&runs[0]).unwrap(), &known);
    check(&page);
    assert!(page.matches("window.stranger").count() > 20, "the texts are on the page");
    let runs: Vec<Run> = runs.iter().map(|run| Run::read(run).unwrap()).collect();
    let page = of_runs(&runs, &[Some(STRANGER.into()), None]);
    check(&page);
    assert!(page.contains("window.stranger"));
}

#[test]
fn no_text_of_a_sweep_becomes_a_part_of_the_page() {
    let dir = TempDir::new().unwrap();
    write_sweep(dir.path(), 12, 3, STRANGER);
    let text = fs::read_to_string(dir.path().join("journal.jsonl")).unwrap();
    let own = format!("{{\"event\":\"stop_all\",\"reason\":{}}}\n<script>\n", json!(STRANGER));
    fs::write(dir.path().join("journal.jsonl"), text + &own).unwrap();
    let page = of_sweep(&RecordedSweep::read(dir.path()).unwrap(), Some(STRANGER));
    check(&page);
    assert!(
        page.matches("window.stranger").count() > 12 && page.contains("1 line of journal.jsonl"),
        "{page}"
    );
}

/// Writes the journal of a sweep in which every second trial is stopped at its first result; `text` is in every text.
fn write_sweep(dir: &Path, trials: u64, results: u64, text: &str) {
    let mut lines = vec![json!({
        "event": "experiment", "format_version": 1, "pavlov": format!("0.1.0{text}"), "name": "s", "prefix": "aaaaa",
        "trainable": format!("PPO{text}"), "metric": "episode_reward_mean", "mode": "max", "num_samples": trials, "space": {},
        "resources": {},
    })];
    for trial in 0..trials {
        let id = format!("aaaaa_{trial:05}{}", text.replace('/', "|"));
        // Numbers that look drawn, but are the same each time.
        let share = (trial * 37 % 101) as f64 / 101.0;
        let drawn = json!({format!("lr{text}"): 1e-4 * 100f64.powf(share), format!("act{text}"): format!("{}{text}", trial % 2)});
        lines.push(json!({"event": "trial", "trial_id": id, "config": drawn, "drawn": drawn, "experiment_tag": text, "resources": []}));
        lines.push(json!({"event": "started", "trial_id": id}));
        let last = if trial % 2 == 1 { 1 } else { results };
        for i in 1..=last {
            let verdict = match (trial % 2, i == last) {
                (1, _) => "stop",
                (_, true) => "done",
                _ => "continue",
            };
            let mut result = result(i);
            result["episode_reward_mean"] = json!(i as f64 * share);
            result["hist_stats"] =
                json!({"episode_reward": vec![1.25; 100], "episode_lengths": vec![25; 100]});
            let elapsed = trial as f64 + i as f64 / 10.0;
            lines.push(json!({"event": "result", "trial_id": id, "iteration": i, "verdict": verdict, "elapsed": elapsed, "result": result}));
        }
        lines.push(json!({"event": "failed", "trial_id": id, "message": format!("it fell{text}")}));
        if trial % 5 == 4 {
            lines.push(json!({"event": "given_up", "trial_id": id}));
        } else {
            lines.push(json!({"event": "completed", "trial_id": id}));
        }
    }
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(dir.join("journal.jsonl"), lines).unwrap();
}

#[test]
fn a_sweep_names_its_best_trial_how_each_ended_and_what_was_decided() {
    let dir = TempDir::new().unwrap();
    write_sweep(dir.path(), 12, 3, "");
    let page = of_sweep(&RecordedSweep::read(dir.path()).unwrap(), Some("pavlov train PPO"));
    check(&page);
    // Trial 8: 8 * 37 mod 101 is 94, the most of the even ones; three results.
    assert!(page.contains("<tr class=\"best\"><td>aaaaa_00008</td>"), "{page}");
    for said in [
        "Best of 12 trials: mean return of an episode 2.792 with",
        "stopped: 6 at iteration 1.",
        "failed: it fell",
        "<td class=\"word\">stopped by the scheduler</td>",
        "Parallel coordinates of 12 trials over 2 settings",
        "<tr><td>lr</td><td class=\"word\"><span class=\"bar\"",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
}

#[test]
fn a_thousand_trials_are_below_three_megabytes() {
    let dir = TempDir::new().unwrap();
    write_sweep(dir.path(), 1000, 100, "");
    let page = of_sweep(&RecordedSweep::read(dir.path()).unwrap(), None);
    check(&page);
    assert!(page.len() < 3_000_000, "{}", page.len());
    assert_eq!(page.matches("<td>aaaaa_").count(), 1000);
}

#[test]
fn runs_that_differ_in_their_seed_are_one_group_and_the_same_runs_give_the_same_page() {
    let dir = TempDir::new().unwrap();
    let mut runs = Vec::new();
    for (lr, seed) in (0..9).map(|i| ([0.001, 0.1, 0.01][i / 3], i % 3)) {
        let run = dir.path().join(format!("{lr}_{seed}"));
        let of = |i: u64| {
            let mut result = result(i);
            result["config"] = json!({"lr": lr, "seed": seed});
            result["episode_reward_mean"] =
                json!(i as f64 * if lr == 0.001 { 50.0 } else { lr } + seed as f64);
            result
        };
        write(&run, &[of(1), of(2), of(3)]);
        runs.push(run);
    }
    let page = || {
        let runs: Vec<Run> = runs.iter().map(|run| Run::read(run).unwrap()).collect();
        of_runs(&runs, &vec![None; runs.len()])
    };
    let first = page();
    check(&first);
    assert!(
        first.contains(
            "CartPole-v1: lr 0.001 is ahead, 151 against 1.3 of lr 0.1, and their intervals do not meet."
        ),
        "{first}"
    );
    assert!(first.contains("<title>3 groups, 9 runs</title>"));
    assert_eq!(first.matches("<path class=\"band").count(), 6, "three groups, on two axes");
    assert!(first.contains("Performance profiles of lr 0.001, lr 0.1, lr 0.01."), "{first}");
    assert_eq!(first, page());
}
