//! What the programs of `benches/` share: the matched settings, rounds, the arithmetic ceiling, children, tables.
//!
//! A program without `--only` starts itself once per workload, so that each has a process, and a peak memory, of its
//! own. A child prints one line of JSON; the parent makes the table of them, or hands them on with `--json`.

// Every bench compiles this file and uses its own part of it.
#![allow(dead_code)]

pub(crate) mod svg;

use std::{
    error::Error,
    hint::black_box,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use pavlov::{
    algorithms::ppo::{NormalizeAdvantages, ValueClip},
    prelude::*,
    torch::{self, Device, Kind, Tensor},
    trainer::{
        models::{Activation, Initializer},
        settings::ObservationFilter,
    },
};
use serde_json::Value;

pub(crate) type Outcome<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds per workload; the median counts.
const ROUNDS: usize = 5;

/// Floating-point operations of one multiply-add.
pub(crate) const FLOP: f64 = 2.0;

/// Forward and backward against forward alone.
const LEARN: f64 = 3.0;

/// The arguments that the programs understand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Args {
    /// Run this workload in this process.
    pub only: Option<usize>,
    /// Print the lines of JSON instead of a table.
    pub json: bool,
    /// Length of a round.
    pub seconds: f64,
    /// Where charts go.
    pub svg: Option<PathBuf>,
}

impl Args {
    pub(crate) fn parse() -> Outcome<Self> {
        let mut parsed = Self { only: None, json: false, seconds: 1.0, svg: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--json" => parsed.json = true,
                "--only" => parsed.only = Some(value()?.parse()?),
                "--seconds" => parsed.seconds = value()?.parse()?,
                "--svg" => parsed.svg = Some(value()?.into()),
                // Cargo's own.
                "--bench" => {}
                _ => return Err(format!("{arg} is none of --json, --only N, --seconds S, --svg DIR").into()),
            }
        }
        Ok(parsed)
    }
}

/// PPO of the comparison: separate 64x64 tanh actor and critic, 128 steps per copy, 4 epochs of 4 minibatches.
pub(crate) fn matched_ppo(copies: usize, num_workers: usize) -> Ppo {
    let mut ppo = Ppo {
        lr: 2.5e-4,
        adam_epsilon: 1e-5,
        lambda: 0.95,
        kl_coeff: 0.0,
        sgd_minibatch_size: copies * 128 / PPO_MINIBATCHES,
        num_sgd_iter: PPO_EPOCHS,
        vf_loss_coeff: 0.5,
        entropy_coeff: 0.01,
        clip_param: 0.2,
        vf_clip_param: 0.2,
        vf_clip: ValueClip::AroundOld,
        normalize_advantages: NormalizeAdvantages::Minibatch,
        grad_clip: Some(0.5),
        ..Ppo::get_default_config()
    };
    let common = &mut ppo.common;
    common.seed = Some(1);
    common.num_workers = num_workers;
    common.num_envs_per_worker = copies / num_workers.max(1);
    common.rollout_fragment_length = 128;
    common.train_batch_size = copies * 128;
    common.gamma = 0.99;
    common.model.fcnet_hiddens = vec![64, 64];
    common.model.fcnet_activation = Activation::Tanh;
    common.model.fcnet_initializer = Initializer::Orthogonal;
    ppo
}

const PPO_EPOCHS: usize = 4;
const PPO_MINIBATCHES: usize = 4;

/// PPO of the continuous comparison, PureJaxRL's `ppo_continuous_action.py` on Pendulum-v1: separate 256x256 tanh actor
/// and critic, 256 steps per copy, 10 epochs of 32 minibatches.
pub(crate) fn matched_ppo_pendulum(copies: usize) -> Ppo {
    let mut ppo = matched_ppo(copies, 0);
    ppo.lr = 3e-4;
    ppo.entropy_coeff = 0.0;
    ppo.num_sgd_iter = 10;
    ppo.sgd_minibatch_size = copies * 256 / 32;
    ppo.common.rollout_fragment_length = 256;
    ppo.common.train_batch_size = copies * 256;
    ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    ppo.common.model.fcnet_hiddens = vec![256, 256];
    ppo.common.model.free_log_std = true;
    ppo
}

/// Floating-point operations of one environment step of PPO with separate towers: one forward pass of both to act, and
/// one forward and backward pass per epoch. The hyperbolic tangents are not counted.
pub(crate) fn ppo_flop_per_step(ppo: &Ppo, inputs: usize, outputs: usize) -> f64 {
    let hiddens = &ppo.common.model.fcnet_hiddens;
    let between: usize = hiddens.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let towers = 2 * (inputs * hiddens[0] + between) + hiddens[hiddens.len() - 1] * (outputs + 1);
    FLOP * towers as f64 * (1.0 + LEARN * ppo.num_sgd_iter as f64)
}

/// Floating-point operations of one update of a 4-64-64-2 Q-network on 64 rows: forward and backward of the network,
/// forward of the target network, and with double Q-learning one more forward pass.
pub(crate) fn dqn_flop_per_update(double_q: bool) -> f64 {
    let net = 4 * 64 + 64 * 64 + 64 * 2;
    64.0 * FLOP * f64::from(net) * (LEARN + 1.0 + f64::from(u8::from(double_q)))
}

/// What training reached: medians of the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Environment steps per second, and the slowest and fastest round.
    pub steps: f64,
    pub slowest: f64,
    pub fastest: f64,
    /// Trained rows per second.
    pub rows: f64,
}

/// Trains in rounds of `seconds` after a first one that does not count.
pub(crate) fn train_rounds<T: Trainer>(driver: &mut Driver<Algorithm<T>>, seconds: f64) -> Outcome<Rates> {
    let mut steps = Vec::new();
    let mut rows = Vec::new();
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let mut sampled = 0;
        let mut trained = 0;
        while start.elapsed().as_secs_f64() < seconds {
            let result = driver.train()?;
            sampled += count(&result, "num_env_steps_sampled_this_iter")?;
            trained += count(&result, "num_env_steps_trained_this_iter")?;
        }
        let elapsed = start.elapsed().as_secs_f64();
        if round > 0 {
            steps.push(sampled as f64 / elapsed);
            rows.push(trained as f64 / elapsed);
        }
    }
    steps.sort_by(f64::total_cmp);
    Ok(Rates {
        steps: steps[ROUNDS / 2],
        slowest: steps[0],
        fastest: steps[ROUNDS - 1],
        rows: median(&mut rows),
    })
}

fn count(result: &Metrics, key: &str) -> Outcome<u64> {
    result.get(key).and_then(Value::as_u64).ok_or_else(|| format!("the result has no count `{key}`").into())
}

/// The middle of an odd number of values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Peak resident memory of a process (`self`, or its id) in MB.
pub(crate) fn peak_mb(process: &str) -> Outcome<f64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("VmHWM is missing")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("VmHWM has no number")?.parse()?;
    Ok(kib / 1024.0)
}

/// The fastest that libtorch multiplies `[rows, width]` by `[width, width]` here and now, FLOP/s: its own product and
/// oneDNN's, on one thread and on all cores.
pub(crate) fn gemm_ceiling(rows: i64, width: i64) -> f64 {
    let options = (Kind::Float, Device::Cpu);
    let x = Tensor::rand([rows, width], options);
    let weight = Tensor::rand([width, width], options);
    let bias = Tensor::zeros([width], options);
    let packed_x = x.to_mkldnn();
    let packed_weight = weight.to_mkldnn();
    let flop = FLOP * (rows * width * width) as f64;
    let mut best = 0.0_f64;
    let _guard = torch::no_grad_guard();
    for threads in [1, cores() as i32] {
        torch::set_num_threads(threads);
        best = best.max(flop / seconds_per_call(|| x.matmul(&weight)));
        best = best.max(flop / seconds_per_call(|| packed_x.mkldnn_linear(&packed_weight, Some(&bias))));
    }
    torch::set_num_threads(1);
    best
}

fn seconds_per_call(mut call: impl FnMut() -> Tensor) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < Duration::from_millis(10) {
            let _ = black_box(call());
            calls += 1;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    best
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts this program once for each of `workloads`, `--only` it, and collects the lines of JSON they print.
pub(crate) fn children(args: &Args, workloads: usize) -> Outcome<Vec<Value>> {
    (0..workloads).map(|workload| child(args, workload, |_| {})).collect()
}

/// One of [`children`]; `change` sets what its process has besides.
pub(crate) fn child(args: &Args, workload: usize, change: impl FnOnce(&mut Command)) -> Outcome<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--only", &workload.to_string(), "--seconds", &args.seconds.to_string()]);
    change(&mut command);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("workload {workload} failed: {}", output.status).into());
    }
    let line = String::from_utf8(output.stdout)?;
    if args.json {
        print!("{line}");
    }
    Ok(serde_json::from_str(&line)?)
}

/// A number of a child's line.
pub(crate) fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or(f64::NAN)
}
