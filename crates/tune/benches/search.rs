//! Regret of the searchers after a few trials, one at a time: `cargo bench -p pavlov-tune --bench search -- --python PYTHON`.
//!
//! Three objectives with known minima: a mixed space such as reinforcement learning has, Branin, and Hartmann in six
//! dimensions. `--python` names an interpreter with the Optuna that `optuna_peer.py` pins, which then runs the same;
//! without it there is no peer. `--trials` (80) and `--seeds` (40) change the size.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use pavlov_tune::search::{
    BasicVariantConfig, BasicVariantGenerator, SearchSpace, Searcher, Suggestion, TpeConfig, TpeSearch,
    choice, loguniform, randint, uniform,
};
use pavlov_tune::{Config, Metrics};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Objective {
    name: &'static str,
    space: SearchSpace,
    loss: fn(&Config) -> f64,
    minimum: f64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, default: usize| option(name).map_or(Ok(default), |text| text.parse());
    let trials = number("--trials", 80)?;
    let seeds = number("--seeds", 40)?;
    let mut rows = vec![
        ("random".to_owned(), ours(trials, seeds, &random)?),
        ("TPE".to_owned(), ours(trials, seeds, &|seed| tpe(seed, false))?),
        ("TPE, Sobol start".to_owned(), ours(trials, seeds, &|seed| tpe(seed, true))?),
    ];
    if let Some(python) = option("--python") {
        rows.push(("Optuna 5.0.0, TPE".to_owned(), peer(&python, trials, seeds)?));
    }
    println!("Median regret (90th percentile) after {trials} trials, {seeds} seeds\n");
    let names: Vec<&str> = objectives().iter().map(|objective| objective.name).collect();
    println!("| searcher | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for (name, regrets) in rows {
        let cells = regrets.into_iter().map(|mut regrets| {
            regrets.sort_by(f64::total_cmp);
            format!("{:.4} ({:.4})", quantile(&regrets, 0.5), quantile(&regrets, 0.9))
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

fn random(seed: u64) -> Box<dyn Searcher> {
    Box::new(BasicVariantGenerator::new(BasicVariantConfig { seed, ..Default::default() }))
}

fn tpe(seed: u64, sobol: bool) -> Box<dyn Searcher> {
    Box::new(TpeSearch::new(TpeConfig { seed, sobol, ..Default::default() }))
}

fn objectives() -> Vec<Objective> {
    let hartmann: Config = (0..6).map(|index| (format!("x{index}"), uniform(0.0, 1.0).into())).collect();
    vec![
        Objective {
            name: "mixed",
            space: json!({
                "lr": loguniform(1e-5, 1e-1),
                "gamma": uniform(0.9, 0.9999),
                "clip_param": uniform(0.05, 0.5),
                "num_sgd_iter": randint(1, 31),
                "activation": choice(["tanh", "relu", "elu"]),
            })
            .into(),
            loss: mixed,
            minimum: 0.0,
        },
        Objective {
            name: "Branin",
            space: json!({"x": uniform(-5.0, 10.0), "y": uniform(0.0, 15.0)}).into(),
            loss: branin,
            minimum: 0.397887357729739,
        },
        Objective {
            name: "Hartmann-6",
            space: hartmann.into(),
            loss: hartmann6,
            minimum: -3.322368011415512,
        },
    ]
}

/// Regrets of each objective, by seed.
fn ours(trials: usize, seeds: usize, searcher: &dyn Fn(u64) -> Box<dyn Searcher>) -> Outcome<Vec<Vec<f64>>> {
    objectives()
        .iter()
        .map(|objective| (0..seeds).map(|seed| regret(objective, trials, searcher(seed as u64))).collect())
        .collect()
}

fn regret(objective: &Objective, trials: usize, mut searcher: Box<dyn Searcher>) -> Outcome<f64> {
    searcher.set_search_properties(Some(&pavlov_tune::Objective::minimize("loss")), &objective.space)?;
    let mut best = f64::INFINITY;
    for trial in 0..trials {
        let trial = trial.to_string();
        let Suggestion::Trial { config, .. } = searcher.suggest(&trial)? else { break };
        let loss = (objective.loss)(&config);
        best = best.min(loss);
        let result: Metrics = [("loss".to_owned(), loss.into())].into_iter().collect();
        searcher.on_trial_complete(&trial, Some(&result))?;
    }
    Ok(best - objective.minimum)
}

fn peer(python: &str, trials: usize, seeds: usize) -> Outcome<Vec<Vec<f64>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/optuna_peer.py");
    let output = Command::new(python).arg(script).args([trials.to_string(), seeds.to_string()]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The value below which a share `at` of the sorted `values` lies, between neighbours where it falls between.
fn quantile(values: &[f64], at: f64) -> f64 {
    let place = at * (values.len() - 1) as f64;
    let below = values[place.floor() as usize];
    let above = values[place.ceil() as usize];
    below + (above - below) * place.fract()
}

fn number(config: &Config, key: &str) -> f64 {
    config[key].as_f64().expect("the space draws a number there")
}

/// A bowl around lr 5e-4, gamma 0.985, clip 0.2, 10 epochs, relu; each term about 1 at a poor value.
fn mixed(config: &Config) -> f64 {
    let activation = match config["activation"].as_str() {
        Some("relu") => 0.0,
        Some("tanh") => 0.3,
        _ => 0.6,
    };
    (number(config, "lr").log10() - 5e-4_f64.log10()).powi(2)
        + ((number(config, "gamma") - 0.985) / 0.03).powi(2)
        + ((number(config, "clip_param") - 0.2) / 0.15).powi(2)
        + ((number(config, "num_sgd_iter") - 10.0) / 10.0).powi(2)
        + activation
}

fn branin(config: &Config) -> f64 {
    use std::f64::consts::PI;
    let x = number(config, "x");
    let y = number(config, "y");
    (y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0).powi(2)
        + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos()
        + 10.0
}

fn hartmann6(config: &Config) -> f64 {
    const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const A: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const P: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let x: Vec<f64> = (0..6).map(|index| number(config, &format!("x{index}"))).collect();
    -(0..4)
        .map(|row| {
            let distance: f64 = (0..6).map(|index| A[row][index] * (x[index] - P[row][index]).powi(2)).sum();
            ALPHA[row] * (-distance).exp()
        })
        .sum::<f64>()
}
