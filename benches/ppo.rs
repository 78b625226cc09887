//! Steps per second of PPO on CartPole-v1, and the share of the arithmetic ceiling: `cargo xtask bench ppo`.
//!
//! README.md beside this file holds the same against other libraries.

mod support;

use pavlov::prelude::*;
use serde_json::{Value, json};
use support::{
    Args, Outcome, PPO_EPOCHS, PPO_MINIBATCHES, children, cores, gemm_ceiling, matched_ppo, number, peak_mb,
    ppo_flop_per_step, train_rounds,
};

/// Environment copies and rollout workers.
const WORKLOADS: [(usize, usize); 6] = [(8, 0), (64, 0), (1024, 0), (8, 2), (64, 2), (1024, 2)];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    if let Some(workload) = args.only {
        let (copies, workers) =
            *WORKLOADS.get(workload).ok_or(format!("--only takes 0..{}", WORKLOADS.len()))?;
        println!("{}", measure(copies, workers, args.seconds)?);
        return Ok(());
    }
    let lines = children(&args, WORKLOADS.len())?;
    if !args.json {
        table(&lines);
    }
    Ok(())
}

fn measure(copies: usize, workers: usize, seconds: f64) -> Outcome<Value> {
    let settings = matched_ppo(copies, workers);
    let (batch, minibatch) = (settings.common.train_batch_size, settings.sgd_minibatch_size as i64);
    let mut driver = settings.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    let rates = train_rounds(&mut driver, seconds)?;
    let peak = peak_mb("self")?;
    drop(driver);
    let gemm = gemm_ceiling(minibatch);
    Ok(json!({
        "lib": "pavlov", "workload": "ppo", "envs": copies, "rollout": 128, "num_workers": workers,
        "sps": rates.steps, "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
        "ups": rates.rows / batch as f64 * (PPO_EPOCHS * PPO_MINIBATCHES) as f64,
        "peak_rss_mb": peak, "gemm_gflops": gemm / 1e9, "ceiling_sps": gemm / ppo_flop_per_step(),
    }))
}

fn table(lines: &[Value]) {
    println!("PPO, CartPole-v1, two 64x64 tanh towers, 4 epochs of 4 minibatches; {} cores", cores());
    println!(
        "{:>12}{:>9}{:>10}{:>18}{:>11}{:>10}{:>12}{:>12}{:>8}",
        "copies", "workers", "steps/s", "rounds", "updates/s", "peak MB", "GFLOP/s", "ceiling", "share"
    );
    for line in lines {
        let n = |key| number(line, key);
        println!(
            "{:>12}{:>9}{:>10.0}{:>18}{:>11.0}{:>10.0}{:>12.0}{:>12.0}{:>7.1}%",
            format!("{} x 128", n("envs")),
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
