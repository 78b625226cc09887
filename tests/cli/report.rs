//! `pavlov report`: the page it writes, and all that it leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{TINY, command, pavlov, run, scratch, text, train};

/// Every file below a directory with its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[test]
fn the_page_of_a_run_is_all_that_is_written_and_the_same_each_time() {
    let (home, out) = scratch();
    let evaluated = [
        "--set",
        "evaluation_interval=2",
        "--set",
        "evaluation_duration=2",
        "--stop",
        "training_iteration=3",
    ];
    run(&mut train(&out, &evaluated)).ok();
    let before = files(&out);
    let pages = ["first.html", "second.html"].map(|name| {
        let page = home.path().join(name);
        let ran = pavlov(&["report", text(&out), "--out", text(&page)]).ok();
        assert!(ran.stdout.starts_with("report: "), "{}", ran.stdout);
        fs::read_to_string(page).unwrap()
    });
    assert_eq!(files(&out), before);
    assert_eq!(pages[0], pages[1]);
    for said in [
        "<title>PPO on CartPole-v1</title>",
        "greedy episodes of the last evaluation, where 475 counts as solved",
        "--set &#39;model.fcnet_hiddens=[8]&#39; --set evaluation_interval=2",
        "--stop training_iteration=3</pre>",
        "<td>train_batch_size</td><td class=\"word\">64</td><td class=\"word\">4000</td>",
        "One episode of the newest checkpoint: ",
        "its SHA-256",
    ] {
        assert!(pages[0].contains(said), "{said}\n{}", pages[0]);
    }
}

#[test]
fn a_run_can_end_with_its_page() {
    let (home, out) = scratch();
    let page = home.path().join("run.html");
    run(&mut train(&out, &["--stop", "training_iteration=1", "--report", text(&page)])).ok();
    assert!(fs::read_to_string(page).unwrap().contains("<title>PPO on CartPole-v1</title>"));
}

#[test]
fn runs_that_differ_in_their_seed_are_one_group() {
    let home = tempfile::tempdir().unwrap();
    let runs = ["1", "2"].map(|seed| {
        let out = home.path().join(seed);
        let mut train = command(["train"]);
        // TINY without its seed.
        train.args(&TINY[..3]).args(["--seed", seed]).args(&TINY[5..]);
        run(train.args(["--stop", "training_iteration=2", "--out"]).arg(&out)).ok();
        out
    });
    let page = home.path().join("report.html");
    pavlov(&["report", text(&runs[0]), text(&runs[1]), "--out", text(&page)]).ok();
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<title>1 group, 2 runs</title>") && page.contains("with the seeds 1, 2:"),
        "{page}"
    );
}

/// Runs a sweep of four tiny trials and returns its page.
fn sweep_page(home: &Path) -> PathBuf {
    let sweep = home.join("sweep.toml");
    let settings = "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\nmetric = \"episode_reward_mean\"\nmode = \"max\"\nnum_samples = 4\n\
                    seed = 1\n[stop]\ntraining_iteration = 4\n[space]\nnum_workers = 0\ntrain_batch_size = 64\n\
                    sgd_minibatch_size = 32\nnum_sgd_iter = 1\nlr = { loguniform = [1e-4, 1e-2] }\n[scheduler]\ntype = \"ASHA\"\n\
                    grace_period = 1\nmax_t = 4\n";
    fs::write(&sweep, settings).unwrap();
    let (out, page) = (home.join("sweep"), home.join("sweep.html"));
    pavlov(&["tune", text(&sweep), "--out", text(&out), "--quiet"]).ok();
    pavlov(&["report", text(&out), "--out", text(&page)]).ok();
    page
}

#[test]
fn the_page_of_a_sweep_has_its_trials_and_the_command_of_the_best() {
    let home = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(sweep_page(home.path())).unwrap();
    assert!(
        page.contains("<title>Sweep of PPO on CartPole-v1</title>") && page.contains("Best of 4 trials: "),
        "{page}"
    );
    assert_eq!(
        page.matches("<tr><td>").count() + page.matches("<tr class=\"best\"><td>").count(),
        4,
        "{page}"
    );
    assert!(page.contains("<pre>pavlov train PPO --env CartPole-v1 "), "{page}");
}

#[test]
fn what_is_no_run_no_page_or_a_sweep_among_runs_is_refused() {
    let (home, out) = scratch();
    pavlov(&["report", text(&out)]).refused("there is no such directory");
    pavlov(&["report", text(home.path())]).refused("it has no result.json");
    pavlov(&["report", text(home.path()), "--out", "page.pdf"]).refused("must end in .html");
    pavlov(&["report", text(home.path()), "--out", text(&out.join("page.html"))])
        .refused("there is no directory");
    fs::write(home.path().join("journal.jsonl"), "").unwrap();
    pavlov(&["report", text(home.path()), text(home.path())]).refused("is a sweep");
}

#[test]
fn a_program_that_a_run_names_is_not_run() {
    let (home, out) = scratch();
    run(&mut train(&out, &["--stop", "training_iteration=1"])).ok();
    let program = home.path().join("program");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", home.path().join("ran").display())).unwrap();
    let mut begun: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    begun["env"] = "py:CartPole-v1".into();
    begun["config"]["env_config"] = json!({"python": program});
    fs::write(out.join("run.json"), begun.to_string()).unwrap();
    let page = home.path().join("page.html");
    pavlov(&["report", text(&out), "--out", text(&page)]).ok();
    assert!(!home.path().join("ran").exists());
}

#[test]
#[ignore = "needs a browser: PAVLOV_TEST_BROWSER_PYTHON names a Python with PyQt6-WebEngine"]
fn pages_work_in_a_browser() {
    let python = std::env::var_os("PAVLOV_TEST_BROWSER_PYTHON").expect("a Python with PyQt6-WebEngine");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report_in_browser.py");
    let used = |page: &Path| -> Value {
        let output = Command::new(&python).arg(script).arg(page).output().expect("Python");
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(
            (&said["loaded"], &said["console"], &said["requests"]),
            (&json!(true), &json!([]), &json!([]))
        );
        let seen = said["seen"].clone();
        assert_eq!(
            (&seen["svgs_without_words"], &seen["wide"], &seen["handlers"]),
            (&json!(0), &json!(false), &json!(0))
        );
        assert_eq!((&seen["zoomed"], &seen["zoomed_back"]), (&json!(true), &json!(true)), "{seen}");
        assert_eq!(
            (&seen["hidden"], &seen["shown_again"], &seen["values_leave"]),
            (&json!(1), &json!(true), &json!(true))
        );
        seen
    };
    let (home, out) = scratch();
    let page = home.path().join("run.html");
    run(&mut train(&out, &["--stop", "training_iteration=5", "--report", text(&page)])).ok();
    let seen = used(&page);
    assert!(seen["curves"].as_u64() > Some(8), "{seen}");
    assert_eq!(seen["parts"], json!([[false, true], [true, false]]));
    assert_eq!(
        (&seen["frames_differ"], &seen["button"], &seen["button_after"]),
        (&json!(true), &json!("play"), &json!("stop"))
    );
    assert!(seen["values"].as_str().is_some_and(|values| values.contains("training: ")), "{seen}");

    let seen = used(&sweep_page(home.path()));
    let sorted =
        |key: &str| -> Vec<f64> { seen[key].as_array().unwrap().iter().filter_map(Value::as_f64).collect() };
    assert!(sorted("up").windows(2).all(|pair| pair[0] <= pair[1]) && sorted("up").len() == 4, "{seen}");
    assert!(sorted("down").windows(2).all(|pair| pair[0] >= pair[1]), "{seen}");
    assert_eq!((&seen["sort"], &seen["found"]), (&json!("ascending"), &json!(1)));
}
