//! What rollout workers on threads and in processes give and cost: `cargo bench --bench workers`.
//!
//! PPO's steps per second on CartPole-v1, and on an environment that sleeps 2 ms in each step, with 1, 2 and 4 workers; and in
//! the same run what the transports carry: the time from a request to its answer, and MB per second of fragments and of
//! weights.

mod support;

use std::time::{Duration, Instant};

use pavlov::{
    envs::{self, Env, Space, Step},
    prelude::*,
    trainer::settings::{WorkerTransport, Workers},
    tune::child_main,
};
use serde_json::{Value, json};
use support::{Args, Outcome, children, cores, matched_ppo, median, number, train_rounds};

const TRANSPORTS: [(&str, WorkerTransport); 2] =
    [("threads", WorkerTransport::Threads), ("procs", WorkerTransport::Procs)];
const WORKERS: [usize; 3] = [1, 2, 4];
const ENVS: [&str; 2] = ["CartPole-v1", "Sleeper"];

/// An environment of which nothing counts but its time and the size of its observations.
#[derive(Clone)]
struct Idle {
    step: Duration,
    width: usize,
    t: usize,
}

impl Env for Idle {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[self.width])
    }
    fn action_space(&self) -> Space {
        Space::discrete(2)
    }
    fn set_task(&mut self, _: &Value) -> envs::Result<()> {
        Ok(())
    }
    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.t = 0;
        obs.fill(0.0);
        Ok(())
    }
    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.t += 1;
        obs.fill(0.0);
        std::thread::sleep(self.step);
        Ok(Step { reward: 0.0, terminated: false, truncated: self.t.is_multiple_of(100) })
    }
}

/// What is measured in a process of its own.
#[derive(Clone, Copy)]
struct Run {
    transport: usize,
    /// None: what the transport carries.
    training: Option<(usize, usize)>,
}

fn runs() -> Vec<Run> {
    let transports = 0..TRANSPORTS.len();
    let training = |env: usize| WORKERS.map(|workers| Some((env, workers)));
    let kinds = [training(0).as_slice(), training(1).as_slice(), &[None]].concat();
    kinds
        .into_iter()
        .flat_map(|training| transports.clone().map(move |transport| Run { transport, training }))
        .collect()
}

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let runs = runs();
    if let Some(run) = args.only {
        let run = *runs.get(run).ok_or(format!("--only takes 0..{}", runs.len()))?;
        println!("{}", measure(run, args.seconds)?);
        return Ok(());
    }
    let lines = children(&args, runs.len())?;
    if !args.json {
        table(&lines);
    }
    Ok(())
}

fn measure(run: Run, seconds: f64) -> Outcome<Value> {
    let (name, transport) = TRANSPORTS[run.transport];
    let Some((env, workers)) = run.training else { return carried(name, transport) };
    // A sleeping copy takes a thread's time, not a core's.
    let copies = if env == 0 { 64 } else { workers };
    let mut settings = matched_ppo(copies, workers);
    settings.common.workers = Workers { transport, number: None };
    let sleeper = || Idle { step: Duration::from_millis(2), width: 4, t: 0 };
    let builder = match env {
        0 => settings.builder(ENVS[0]),
        _ => settings.builder(sleeper),
    };
    let builder = builder.loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let rates = train_rounds(&mut builder.build()?, seconds)?;
    Ok(json!({
        "lib": "pavlov", "workload": ENVS[env], "transport": name, "workers": workers, "sps": rates.steps,
        "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
    }))
}

/// With one worker: what a request costs that says nothing, a fragment of 4 MB, and weights of 4 MB.
fn carried(name: &str, transport: WorkerTransport) -> Outcome<Value> {
    const ROWS: usize = 256;
    const WIDTH: usize = 4096;
    let mut settings = matched_ppo(1, 1);
    settings.sgd_minibatch_size = ROWS;
    let common = &mut settings.common;
    common.workers = Workers { transport, number: None };
    (common.rollout_fragment_length, common.train_batch_size) = (ROWS, ROWS);
    (common.disable_env_checking, common.model.fcnet_hiddens) = (true, vec![256]);
    let wide = || Idle { step: Duration::ZERO, width: WIDTH, t: 0 };
    let builder = settings.builder(wide).loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let driver = builder.build()?;
    let (workers, weights) = (driver.workers()?, driver.get_weights()?);
    let ms = |calls: usize, call: &dyn Fn() -> Result<()>| -> Outcome<f64> {
        let mut times = Vec::new();
        for _ in 0..calls {
            let start = Instant::now();
            call()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(&mut times))
    };
    let request_ms = ms(301, &|| workers.set_task(1))?;
    let fragment_ms = ms(31, &|| workers.sample().map(drop))?;
    let weights_ms = ms(31, &|| workers.set_weights(&weights))?;
    Ok(json!({
        "lib": "pavlov", "workload": "carried", "transport": name, "request_us": request_ms * 1e3,
        "fragment_mb": (ROWS * WIDTH * 4) as f64 / 1e6, "fragment_ms": fragment_ms,
        "weights_ms": weights_ms,
    }))
}

fn table(lines: &[Value]) {
    println!("PPO, two 64x64 tanh towers; {} cores\n", cores());
    println!("{:<14}{:>10}{:>9}{:>12}{:>18}", "environment", "transport", "workers", "steps/s", "rounds");
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    for line in lines.iter().filter(|line| line["workload"] != "carried") {
        println!(
            "{:<14}{:>10}{:>9}{:>12.0}{:>18}",
            text(line, "workload"),
            text(line, "transport"),
            number(line, "workers"),
            number(line, "sps"),
            format!("{:.0}..{:.0}", number(line, "sps_slowest"), number(line, "sps_fastest")),
        );
    }
    println!(
        "\n{:<10}{:>14}{:>22}{:>22}",
        "transport", "request (us)", "fragment of 4 MB (ms)", "weights of 4 MB (ms)"
    );
    for line in lines.iter().filter(|line| line["workload"] == "carried") {
        println!(
            "{:<10}{:>14.0}{:>22.2}{:>22.2}",
            text(line, "transport"),
            number(line, "request_us"),
            number(line, "fragment_ms"),
            number(line, "weights_ms"),
        );
    }
}
