//! Updates per second of DQN on one CartPole-v1, one update per step: `cargo xtask bench dqn`.

mod support;

use pavlov::{
    prelude::*,
    trainer::{
        models::Activation,
        replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    },
};
use serde_json::{Value, json};
use support::{Args, Outcome, children, dqn_flop_per_update, gemm_ceiling, number, peak_mb, train_rounds};

/// Rows of one update.
const BATCH: usize = 64;

/// The network and the replay of the other libraries; then with what DQN has on top by default.
const WORKLOADS: [&str; 2] = ["uniform", "prioritised, double, dueling"];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    if let Some(workload) = args.only {
        let name = WORKLOADS.get(workload).ok_or(format!("--only takes 0..{}", WORKLOADS.len()))?;
        println!("{}", measure(name, workload == 1, args.seconds)?);
        return Ok(());
    }
    let lines = children(&args, WORKLOADS.len())?;
    if !args.json {
        table(&lines);
    }
    Ok(())
}

fn settings(extended: bool) -> Dqn {
    let kind = if extended { ReplayKind::PrioritizedReplayBuffer } else { ReplayKind::ReplayBuffer };
    let mut dqn = Dqn {
        lr: 1e-3,
        grad_clip: Some(10.0),
        off_policy: OffPolicy {
            replay_buffer_config: ReplayBufferConfig {
                kind,
                capacity: 50_000,
                learning_starts: 1000,
                ..ReplayBufferConfig::default()
            },
            ..Dqn::get_default_config().off_policy
        },
        double_q: extended,
        dueling: extended,
        hiddens: Vec::new(),
        ..Dqn::get_default_config()
    };
    dqn.common.seed = Some(1);
    dqn.common.rollout_fragment_length = 1;
    dqn.common.train_batch_size = BATCH;
    dqn.common.model.fcnet_hiddens = vec![64, 64];
    dqn.common.model.fcnet_activation = Activation::Relu;
    dqn
}

fn measure(name: &str, extended: bool, seconds: f64) -> Outcome<Value> {
    let mut driver = settings(extended).builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    let rates = train_rounds(&mut driver, seconds)?;
    let peak = peak_mb("self")?;
    drop(driver);
    let gemm = gemm_ceiling(BATCH as i64, 64);
    Ok(json!({
        "lib": "pavlov", "workload": "dqn", "config": name, "envs": 1, "batch": BATCH,
        "sps": rates.steps, "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
        "ups": rates.rows / BATCH as f64, "peak_rss_mb": peak,
        "gemm_gflops": gemm / 1e9, "ceiling_ups": gemm / dqn_flop_per_update(extended),
    }))
}

fn table(lines: &[Value]) {
    println!("DQN, CartPole-v1, 1 copy, 64x64 relu, {BATCH} rows per update, one update per step");
    println!(
        "{:<30}{:>11}{:>10}{:>16}{:>10}{:>10}{:>10}{:>8}",
        "", "updates/s", "steps/s", "rounds", "peak MB", "GFLOP/s", "ceiling", "share"
    );
    for line in lines {
        let n = |key| number(line, key);
        println!(
            "{:<30}{:>11.0}{:>10.0}{:>16}{:>10.0}{:>10.0}{:>10.0}{:>7.1}%",
            line["config"].as_str().unwrap_or_default(),
            n("ups"),
            n("sps"),
            format!("{:.0}..{:.0}", n("sps_slowest"), n("sps_fastest")),
            n("peak_rss_mb"),
            n("gemm_gflops"),
            n("ceiling_ups"),
            100.0 * n("ups") / n("ceiling_ups"),
        );
    }
}
