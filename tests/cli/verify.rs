//! `pavlov verify` as a check of what a run has published: every changed number is found, with its file, its key and both
//! values.

use std::fs;
use std::path::Path;

use pavlov::trainer::Pack;
use serde_json::{Value, json};

use super::{Ran, pavlov, run, scratch, text, train};

/// A run of six iterations with a checkpoint and an evaluation at every second one.
fn trained(out: &Path) {
    let evaluated = ["--set", "evaluation_interval=2", "--set", "evaluation_duration=1"];
    let six = ["--checkpoint-freq", "2", "--stop", "training_iteration=6", "--quiet"];
    run(&mut train(out, &[&evaluated[..], &six].concat())).ok();
}

/// The check fails, and says each of `parts` in one line of its results; the error names the first one.
#[track_caller]
fn finds(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let is_it = |line: &&str| parts.iter().all(|part| line.contains(part));
    assert!(ran.stdout.lines().any(|line| is_it(&line)), "no {parts:?} in: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("error: the files of "), "{}", ran.stderr);
}

/// Changes the JSON in one line of a file, or in the whole file (`None`), runs `check`, and brings the file back.
fn with_changed(path: &Path, line: Option<usize>, change: impl Fn(&mut Value), check: impl FnOnce()) {
    let kept = fs::read_to_string(path).expect("text");
    let edit = |text: &str| {
        let mut value: Value = serde_json::from_str(text).expect("JSON");
        change(&mut value);
        value.to_string()
    };
    let text = match line {
        None => edit(&kept),
        Some(line) => {
            let lines = kept.lines().enumerate();
            lines.map(|(i, text)| if i + 1 == line { edit(text) } else { text.into() } + "\n").collect()
        }
    };
    fs::write(path, text).expect("written");
    check();
    fs::write(path, kept).expect("written");
}

#[test]
fn every_number_of_the_rows_and_the_settings_is_checked_and_what_was_not_is_told() {
    let (_dir, out) = scratch();
    trained(&out);
    let results = out.join("result.json");
    let verify = |more: &[&str]| pavlov(&[&["verify", text(&out)][..], more].concat());
    let all = verify(&["--all"]).ok();
    assert!(all.stderr.contains("rows of result.json: 1 to 6 trained again"), "{}", all.stderr);
    let last = verify(&["--intervals", "0"]).ok().stderr;
    let told = "rows of result.json: 5 to 6 trained again; 2, 4 compared with the copies in checkpoints; 1, 3 compared \
                with nothing (`--all` trains everything)";
    assert!(last.contains(told), "{last}");

    with_changed(
        &results,
        Some(6),
        |row| row["episode_reward_mean"] = json!(499.0),
        || {
            finds(&verify(&[]), &["result.json, row 6: episode_reward_mean is 499.0, trained again "]);
            finds(
                &verify(&[]),
                &["result.json, row 6: episode_reward_mean is 499.0, checkpoint_000006 has "],
            );
        },
    );
    with_changed(
        &results,
        Some(2),
        |row| row["evaluation"]["episode_reward_mean"] = json!(499.0),
        || {
            let place = "result.json, row 2: evaluation.episode_reward_mean is 499.0, ";
            finds(&verify(&["--intervals", "0"]), &[place, "checkpoint_000002 has "]);
            finds(&verify(&["--all"]), &[place, "trained again "]);
        },
    );
    let kl = |row: &mut Value| row["info"]["learner"]["default_policy"]["learner_stats"]["kl"] = json!(9.5);
    with_changed(&results, Some(3), kl, || {
        let place = "result.json, row 3: info.learner.default_policy.learner_stats.kl is 9.5, trained again ";
        finds(&verify(&["--all"]), &[place]);
    });
    with_changed(
        &results,
        Some(3),
        |row| row["training_iteration"] = json!(30),
        || {
            finds(&verify(&["--all"]), &["result.json has no row of iteration 3"]);
        },
    );
    with_changed(
        &out.join("run.json"),
        None,
        |file| file["config"]["gamma"] = json!(0.98),
        || {
            finds(&verify(&[]), &["run.json: config.gamma is 0.98, but checkpoint_000006 has 0.99"]);
        },
    );
    with_changed(
        &out.join("params.json"),
        None,
        |file| file["gamma"] = json!(0.98),
        || {
            finds(&verify(&[]), &["params.json: gamma is 0.98, but checkpoint_000006 has 0.99"]);
        },
    );
    let table = out.join("progress.csv");
    let kept = fs::read_to_string(&table).expect("a table");
    let mut lines: Vec<String> = kept.lines().map(str::to_owned).collect();
    let column = lines[0].split(',').position(|key| key == "episode_reward_mean").expect("the column");
    let mut cells: Vec<&str> = lines[4].split(',').collect();
    cells[column] = "499.0";
    lines[4] = cells.join(",");
    fs::write(&table, lines.join("\n") + "\n").expect("written");
    let place = "progress.csv, row 4: episode_reward_mean is \"499.0\", but result.json has ";
    finds(&verify(&[]), &[place]);
    fs::write(&table, kept).expect("written");
    verify(&[]).ok();
}

#[test]
fn a_packed_model_its_card_and_a_page_are_compared_with_their_run() {
    let (dir, out) = scratch();
    trained(&out);
    let pole = dir.path().join("pole.pavlov");
    let page = dir.path().join("report.html");
    pavlov(&["pack", text(&out), text(&pole), "--episodes", "3"]).ok();
    pavlov(&["report", text(&out), "--out", text(&page)]).ok();
    let verify = |file: &Path| pavlov(&["verify", text(&out), text(file), "--intervals", "0"]);
    for file in [&pole, &page] {
        let said = verify(file).ok().stdout;
        assert!(said.contains(&format!("{}: equal", file.display())), "{said}");
    }
    pavlov(&["verify", text(&pole)]).refused("a packed model is verified with the run that it was made of");

    let changed = |change: &dyn Fn(&mut pavlov::trainer::PackFacts)| {
        let pack = Pack::read(&pole).expect("a pack");
        let mut facts = pack.facts().clone();
        change(&mut facts);
        let file = dir.path().join("changed.pavlov");
        pack.with_facts(facts).write(&file).expect("written");
        file
    };
    let mean =
        Pack::read(&pole).expect("a pack").facts().results["evaluation"]["episode_reward_mean"].clone();
    let mean = format!("{:.2}", mean.as_f64().expect("a number"));
    let card = changed(&|facts| facts.card = facts.card.replacen(&mean, "499.00", 1));
    let there = format!(" ## Scores Mean return\", where the run has {mean}");
    finds(&verify(&card), &["changed.pavlov, the card: 499.00 stands behind ", &there]);
    let score = changed(&|facts| facts.results["evaluation"]["episode_reward_mean"] = json!(499.0));
    finds(&verify(&score), &["changed.pavlov: results.evaluation.episode_reward_mean is 499.0, made again "]);
    let gamma = changed(&|facts| facts.settings["trained_with"]["gamma"] = json!(0.5));
    finds(&verify(&gamma), &["changed.pavlov: settings.trained_with.gamma is 0.5, made again 0.99"]);
    let curve = changed(&|facts| facts.results["curve"][1][1] = json!(499.0));
    finds(&verify(&curve), &["changed.pavlov: results.curve.1.1 is 499.0, made again "]);
    let unnamed = changed(&|facts| drop(facts.results.shift_remove("run")));
    let refused = verify(&unnamed);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("does not name its run"), "{}", refused.stderr);

    // Another run with the same settings and the same numbers is another run.
    let other = dir.path().join("other");
    trained(&other);
    let ran = pavlov(&["verify", text(&other), text(&pole), "--intervals", "0"]);
    finds(&ran, &["pole.pavlov: results.run.experiment_id is "]);

    let text_of_page = fs::read_to_string(&page).expect("a page");
    let at = text_of_page.find("<p class=\"lede\">").expect("the first sentence");
    let number = text_of_page[at..].find(|c: char| c.is_ascii_digit()).expect("a number") + at;
    let end = text_of_page[number..].find(|c: char| !c.is_ascii_digit()).expect("its end") + number;
    let was = &text_of_page[number..end];
    fs::write(&page, format!("{}77777{}", &text_of_page[..number], &text_of_page[end..])).expect("written");
    let ran = verify(&page);
    finds(&ran, &["report.html: 77777", "where the run has ", was]);
}

#[test]
fn the_trials_of_a_sweep_are_verified_by_their_own_settings() {
    let (_dir, out) = scratch();
    let sweep = out.with_extension("toml");
    fs::write(
        &sweep,
        "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\nnum_samples = 2\nmetric = \"episode_reward_mean\"\nmode = \"max\"\n\
         [stop]\ntraining_iteration = 4\n[checkpoint]\ncheckpoint_frequency = 2\n\
         [space]\nseed = 3\nnum_workers = 0\ntrain_batch_size = 128\nlr = {loguniform = [0.0001, 0.01]}\n",
    )
    .expect("written");
    pavlov(&["tune", text(&sweep), "--out", text(&out), "--quiet"]).ok();
    let trials = fs::read_dir(&out).expect("a sweep").map(|entry| entry.expect("an entry").path());
    let trials: Vec<_> = trials.filter(|path| path.join("result.json").exists()).collect();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let all = pavlov(&["verify", text(trial), "--all"]).ok();
        assert!(all.stderr.contains("rows of result.json: 1 to 4 trained again"), "{}", all.stderr);
        assert!(!trial.join("run.json").exists());
    }
    let last = &trials[1];
    with_changed(
        &last.join("result.json"),
        Some(4),
        |row| row["episode_reward_mean"] = json!(499.0),
        || finds(&pavlov(&["verify", text(last)]), &["result.json, row 4: episode_reward_mean is 499.0"]),
    );
}
