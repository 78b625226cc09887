//! `pavlov plot`: pictures for papers.

use std::fs;

use serde_json::json;

use super::{pavlov, run, scratch, text, train};

#[test]
fn a_run_has_a_curve_small_plots_and_plots_of_a_number_and_nothing_else_is_written() {
    let (home, out) = scratch();
    run(&mut train(&out, &["--stop", "training_iteration=3"])).ok();
    let picture = |name: &str, more: &[&str]| {
        let file = home.path().join(name);
        let mut arguments = vec!["plot", text(&out), "--out", text(&file)];
        arguments.extend(more);
        let ran = pavlov(&arguments).ok();
        assert!(ran.stdout.starts_with("plot: "), "{}", ran.stdout);
        fs::read_to_string(file).unwrap()
    };
    let curve = picture("curve.svg", &[]);
    assert!(
        curve.contains("width=\"720\"") && curve.contains(">mean return of an episode</text>"),
        "{curve}"
    );
    assert_eq!(curve, picture("again.svg", &[]));
    assert!(picture("narrow.svg", &["--width", "400"]).contains("width=\"400\""));
    assert!(picture("losses.svg", &["--plot", "losses"]).contains("value loss, now "));
    assert!(picture("statistics.svg", &["--plot", "statistics"]).contains("entropy, now "));
    assert!(picture("kl.svg", &["--metric", "kl"]).contains(">kl</text>"));
    pavlov(&["plot", text(&out), "--out", text(&home.path().join("x.svg")), "--metric", "kll"])
        .refused("--metric is kll, but the results have no number of this name; they have default_policy/");
}

#[test]
fn a_sweep_has_its_curves_and_what_has_no_plot_is_refused() {
    let (home, out) = scratch();
    fs::create_dir(&out).unwrap();
    let mut events =
        vec![json!({"event": "experiment", "format_version": 1, "pavlov": "0.1.0", "trainable": "PPO",
        "metric": "score", "mode": "max", "name": "s"})];
    for id in ["a", "b"] {
        events.push(json!({"event": "trial", "trial_id": id, "drawn": {"lr": 0.1}}));
        for i in 1..4 {
            let result = json!({"timesteps_total": 10 * i, "score": i});
            events.push(
                json!({"event": "result", "trial_id": id, "iteration": i, "elapsed": 1.0, "result": result}),
            );
        }
    }
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    fs::write(out.join("journal.jsonl"), lines).unwrap();
    let file = home.path().join("sweep.svg");
    pavlov(&["plot", text(&out), "--out", text(&file)]).ok();
    assert!(fs::read_to_string(&file).unwrap().contains(">best</text>"));
    let refused = |more: &[&str], said: &str| {
        let mut arguments = vec!["plot", text(&out), "--out", text(&file)];
        arguments.extend(more);
        pavlov(&arguments).refused(said);
    };
    refused(&["--metric", "kl"], "a sweep's plot has the sweep's own metric, score");
    refused(&["--plot", "losses"], "give the directory of a trial");
    pavlov(&["plot", text(&out), text(&out), "--out", text(&file)]).refused("give it alone");
    pavlov(&["plot", text(&out), "--out", "plot.pdf"]).refused("must end in .svg or .png");
    pavlov(&["plot", text(&file), "--out", text(&file)]).refused("there is no such directory");
}
