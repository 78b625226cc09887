//! What a step of PPO on CartPole-v1 costs as copies, units and workers grow: `cargo xtask bench scaling`.
//!
//! Cost grows in proportion where the time per environment step (with copies), and per environment step and parameter
//! (with units), stays level. `cargo bench --bench scaling -- --svg benches` also draws both, and the time per step with
//! workers.

mod support;

use pavlov::{prelude::*, trainer::policy::DEFAULT_POLICY};
use serde_json::{Value, json};
use support::{Args, Outcome, children, cores, matched_ppo, number, svg::Chart, train_rounds};

/// Environment copies, units per layer and rollout workers.
type Run = (usize, usize, usize);

/// What grows, and its runs.
const SWEEPS: [(&str, &[Run]); 3] = [
    (
        "copies",
        &[
            (1, 64, 0),
            (4, 64, 0),
            (16, 64, 0),
            (64, 64, 0),
            (256, 64, 0),
            (1024, 64, 0),
            (4096, 64, 0),
            (8192, 64, 0),
        ],
    ),
    ("units", &[(8, 16, 0), (8, 32, 0), (8, 64, 0), (8, 128, 0), (8, 256, 0), (8, 512, 0), (8, 1024, 0)]),
    ("workers", &[(96, 64, 0), (96, 64, 1), (96, 64, 2), (96, 64, 3), (96, 64, 4)]),
];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let runs: Vec<_> = SWEEPS.iter().flat_map(|(_, runs)| *runs).collect();
    if let Some(run) = args.only {
        let run = *runs.get(run).ok_or(format!("--only takes 0..{}", runs.len()))?;
        println!("{}", measure(*run, args.seconds)?);
        return Ok(());
    }
    let mut lines = children(&args, runs.len())?.into_iter();
    if !args.json {
        println!(
            "PPO, CartPole-v1, two tanh towers of two layers, 128 steps, 4 epochs of 4 minibatches; {} cores",
            cores()
        );
    }
    for (name, runs) in SWEEPS {
        let lines: Vec<Value> = lines.by_ref().take(runs.len()).collect();
        if !args.json {
            table(&lines);
        }
        if let Some(dir) = &args.svg {
            let path = dir.join(format!("scaling-{name}.svg"));
            std::fs::write(&path, chart(name, &lines))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn measure((copies, units, workers): (usize, usize, usize), seconds: f64) -> Outcome<Value> {
    let mut settings = matched_ppo(copies, workers);
    settings.common.model.fcnet_hiddens = vec![units, units];
    let mut driver = settings.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    let parameters =
        driver.get_policy(DEFAULT_POLICY, |policy| policy.learner_mut().map(|l| l.params().flat().len()))?;
    let parameters = parameters.ok_or("the policy has no network")?;
    let rates = train_rounds(&mut driver, seconds)?;
    let ns = 1e9 / rates.steps;
    Ok(json!({
        "lib": "pavlov", "workload": "scaling", "copies": copies, "units": units, "workers": workers,
        "parameters": parameters, "sps": rates.steps, "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
        "us_per_step": ns / 1e3, "ns_per_step_and_parameter": ns / parameters as f64,
    }))
}

fn table(lines: &[Value]) {
    println!(
        "\n{:>8}{:>8}{:>9}{:>12}{:>10}{:>18}{:>12}{:>16}",
        "copies", "units", "workers", "parameters", "steps/s", "rounds", "us/step", "ns/step/param"
    );
    for line in lines {
        let n = |key| number(line, key);
        println!(
            "{:>8}{:>8}{:>9}{:>12}{:>10.0}{:>18}{:>12.2}{:>16.3}",
            n("copies"),
            n("units"),
            n("workers"),
            n("parameters"),
            n("sps"),
            format!("{:.0}..{:.0}", n("sps_slowest"), n("sps_fastest")),
            n("us_per_step"),
            n("ns_per_step_and_parameter"),
        );
    }
}

fn chart(name: &str, lines: &[Value]) -> String {
    let (title, x_label, (y_label, y_key), log_x) = match name {
        "copies" => ("Copies of the environment", "copies", STEP, true),
        "units" => ("Units per layer", "units", STEP_AND_PARAMETER, true),
        _ => ("Rollout workers", "workers", STEP, false),
    };
    let points: Vec<(f64, f64)> =
        lines.iter().map(|line| (number(line, name), number(line, y_key))).collect();
    Chart { title, x_label, y_label, log_x, points: &points }.draw()
}

const STEP: (&str, &str) = ("microseconds per environment step", "us_per_step");
const STEP_AND_PARAMETER: (&str, &str) =
    ("nanoseconds per environment step and parameter", "ns_per_step_and_parameter");
