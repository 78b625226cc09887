//! Steps per second of PPO on CartPole-v1 and Pendulum-v1, and the share of the arithmetic ceiling:
//! `cargo xtask bench ppo`.
//!
//! README.md beside this file holds the same against other libraries.

mod support;

use pavlov::prelude::*;
use serde_json::{Value, json};
use support::{
    Args, Outcome, children, cores, gemm_ceiling, matched_ppo, matched_ppo_pendulum, number, peak_mb,
    ppo_flop_per_step, train_rounds,
};

/// Environment, copies and rollout workers.
const WORKLOADS: [(&str, usize, usize); 7] = [
    ("CartPole-v1", 8, 0),
    ("CartPole-v1", 64, 0),
    ("CartPole-v1", 1024, 0),
    ("CartPole-v1", 8, 2),
    ("CartPole-v1", 64, 2),
    ("CartPole-v1", 1024, 2),
    ("Pendulum-v1", 8, 0),
];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    if let Some(workload) = args.only {
        let (env, copies, workers) =
            *WORKLOADS.get(workload).ok_or(format!("--only takes 0..{}", WORKLOADS.len()))?;
        println!("{}", measure(env, copies, workers, args.seconds)?);
        return Ok(());
    }
    let lines = children(&args, WORKLOADS.len())?;
    if !args.json {
        table(&lines);
    }
    Ok(())
}

fn measure(env: &str, copies: usize, workers: usize, seconds: f64) -> Outcome<Value> {
    let settings =
        if env == "CartPole-v1" { matched_ppo(copies, workers) } else { matched_ppo_pendulum(copies) };
    let (inputs, outputs) = if env == "CartPole-v1" { (4, 2) } else { (3, 1) };
    let flop = ppo_flop_per_step(&settings, inputs, outputs);
    let minibatch = settings.sgd_minibatch_size;
    let epochs = settings.num_sgd_iter;
    let width = settings.common.model.fcnet_hiddens[0];
    let mut driver = settings.builder(env).loggers(LoggerChoice::None).build()?;
    let rates = train_rounds(&mut driver, seconds)?;
    let peak = peak_mb("self")?;
    drop(driver);
    let gemm = gemm_ceiling(minibatch as i64, width as i64);
    Ok(json!({
        "lib": "pavlov", "workload": "ppo", "env": env, "envs": copies, "num_workers": workers,
        "sps": rates.steps, "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
        "ups": rates.rows * epochs as f64 / minibatch as f64, "peak_rss_mb": peak, "gemm_gflops": gemm / 1e9, "ceiling_sps": gemm / flop,
    }))
}

fn table(lines: &[Value]) {
    println!("PPO; CartPole-v1: two 64x64 tanh towers, 128 steps, 4 epochs of 4 minibatches;");
    println!(
        "Pendulum-v1: two 256x256 tanh towers, 256 steps, 10 epochs of 32 minibatches; {} cores",
        cores()
    );
    println!(
        "{:<12}{:>7}{:>9}{:>10}{:>18}{:>11}{:>10}{:>12}{:>12}{:>8}",
        "", "copies", "workers", "steps/s", "rounds", "updates/s", "peak MB", "GFLOP/s", "ceiling", "share"
    );
    for line in lines {
        let n = |key| number(line, key);
        println!(
            "{:<12}{:>7}{:>9}{:>10.0}{:>18}{:>11.0}{:>10.0}{:>12.0}{:>12.0}{:>7.1}%",
            line["env"].as_str().unwrap_or_default(),
            n("envs"),
            n("num_workers"),
            n("sps"),
            format!("{:.0}..{:.0}", n("sps_slowest"), n("sps_fastest")),
            n("ups"),
            n("peak_rss_mb"),
            n("gemm_gflops"),
            n("ceiling_sps"),
            100.0 * n("sps") / n("ceiling_sps"),
        );
    }
}
