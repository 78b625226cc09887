//! What rollout workers on threads, in processes and on Ray give and cost: `cargo bench --bench workers`.
//!
//! Steps per second of PPO and DQN on CartPole-v1, on LunarLander-v3 and on an environment that sleeps 2 ms in each step, with
//! 1, 2 and 4 workers; how far the sleeping one scales to 16 workers; what a transport adds to a call that samples for
//! half a second; and in the same run what the transports carry: the time from a request to its answer, the time of
//! fragments and of weights, and how soon a worker whose process ended is back.
//!
//! Ray is that of the Python `PAVLOV_TEST_RAY_PYTHON`, else of `PAVLOV_PYTHON`, else of `python3`, on a cluster of each
//! workload's own. Without one it is left out, which is said.

mod support;

use std::{
    env,
    fs::File,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use pavlov::{
    envs::{self, Env, Space, Step},
    prelude::*,
    trainer::{
        WorkerSet,
        settings::{WorkerTransport, Workers},
    },
    tune::child_main,
};
use serde_json::{Value, json};
use support::{Args, Outcome, child, cores, matched_ppo, median, number, train_rounds};

const TRANSPORTS: [(&str, WorkerTransport); 3] =
    [("threads", WorkerTransport::Threads), ("procs", WorkerTransport::Procs), ("ray", WorkerTransport::Ray)];
const RAY: usize = 2;
const WORKERS: [usize; 3] = [1, 2, 4];
const ENVS: [&str; 3] = ["CartPole-v1", "LunarLander-v3", "Sleeper"];
const ALGORITHMS: [&str; 2] = ["PPO", "DQN"];

/// Rounds are shorter than those of other programs: there are many workloads.
const ROUND: f64 = 0.4;

/// What the sleeping environment takes for a step.
const NAP: Duration = Duration::from_millis(2);

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
    /// Ends the process once, if the task is the path of a file that is not there yet.
    fn set_task(&mut self, task: &Value) -> envs::Result<()> {
        if task.as_str().is_some_and(|path| File::create_new(path).is_ok()) {
            std::process::exit(1);
        }
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
enum What {
    /// Training with this algorithm on this environment with so many workers.
    Training(usize, usize, usize),
    /// Sampling the sleeping environment with so many workers.
    Scaling(usize),
    /// One worker that samples for half a second each time.
    Overhead,
    /// What the transport carries.
    Carried,
}

fn runs() -> Vec<(What, usize)> {
    let mut all = Vec::new();
    for algorithm in 0..ALGORITHMS.len() {
        for env in 0..ENVS.len() {
            all.extend(WORKERS.map(|workers| What::Training(algorithm, env, workers)));
        }
    }
    all.extend([What::Scaling(1), What::Scaling(16), What::Overhead, What::Carried]);
    all.into_iter().flat_map(|what| (0..TRANSPORTS.len()).map(move |transport| (what, transport))).collect()
}

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let runs = runs();
    if let Some(run) = args.only {
        let (what, transport) = *runs.get(run).ok_or(format!("--only takes 0..{}", runs.len()))?;
        let mut line = measure(what, transport, ROUND * args.seconds)?;
        line["lib"] = "pavlov".into();
        line["transport"] = TRANSPORTS[transport].0.into();
        println!("{line}");
        return Ok(());
    }
    let python = python_with_ray();
    let lines = (0..runs.len()).filter(|&run| python.is_some() || runs[run].1 != RAY).map(|run| {
        child(&args, run, |command| {
            if let Some(python) = &python {
                command.env("PAVLOV_PYTHON", python).env_remove("RAY_ADDRESS");
            }
        })
    });
    let lines = lines.collect::<Outcome<Vec<_>>>()?;
    if !args.json {
        tables(&lines);
    }
    if python.is_none() {
        eprintln!("LEFT OUT: Ray, as no Python with it was found: name one by PAVLOV_TEST_RAY_PYTHON");
    }
    Ok(())
}

fn python_with_ray() -> Option<String> {
    let named =
        ["PAVLOV_TEST_RAY_PYTHON", "PAVLOV_PYTHON"].into_iter().filter_map(|name| env::var(name).ok());
    named.chain(["python3".to_owned()]).find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import ray"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|ended| ended.success())
    })
}

fn measure(what: What, transport: usize, seconds: f64) -> Outcome<Value> {
    match what {
        What::Training(0, env, workers) => {
            // A sleeping copy takes a thread's time, not a core's.
            let copies = if ENVS[env] == "Sleeper" { workers } else { 64 };
            train(matched_ppo(copies, workers), 0, env, transport, seconds)
        }
        What::Training(algorithm, env, workers) => train(dqn(workers), algorithm, env, transport, seconds),
        What::Scaling(workers) => {
            let work = |set: &WorkerSet| Ok(set.sample().map(drop)?);
            let call = sampled(workers, 128, transport, 7, &work)?;
            Ok(json!({"workload": "scaling", "workers": workers, "sps": (128 * workers) as f64 / call}))
        }
        What::Overhead => {
            let weights = |set: &WorkerSet| -> Outcome<()> {
                set.set_weights(&set.get_weights())?;
                Ok(set.sample().map(drop)?)
            };
            let call = sampled(1, 250, transport, 9, &weights)?;
            Ok(json!({"workload": "overhead", "call_s": call}))
        }
        What::Carried => carried(transport),
    }
}

fn sleeper() -> Idle {
    Idle { step: NAP, width: 4, t: 0 }
}

/// DQN with a small network; its workers are asked for 16 steps at a time.
fn dqn(workers: usize) -> Dqn {
    let mut dqn = Dqn::get_default_config();
    dqn.off_policy.replay_buffer_config.learning_starts = 200;
    let common = &mut dqn.common;
    common.seed = Some(1);
    common.num_workers = workers;
    common.num_envs_per_worker = 4;
    common.rollout_fragment_length = 4;
    common.min_sample_timesteps_per_reporting = Some(200);
    common.model.fcnet_hiddens = vec![64, 64];
    dqn
}

fn train<T: Trainer>(
    mut settings: T,
    algorithm: usize,
    env: usize,
    transport: usize,
    seconds: f64,
) -> Outcome<Value> {
    let common = settings.common_mut();
    common.workers = Workers { transport: TRANSPORTS[transport].1, number: None };
    let workers = common.num_workers;
    let builder = match ENVS[env] {
        "Sleeper" => settings.builder(sleeper),
        name => settings.builder(name),
    };
    let builder = builder.loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let rates = train_rounds(&mut builder.build()?, seconds)?;
    Ok(json!({
        "workload": "training", "algorithm": ALGORITHMS[algorithm], "env": ENVS[env], "workers": workers,
        "sps": rates.steps, "sps_slowest": rates.slowest, "sps_fastest": rates.fastest,
    }))
}

/// Seconds of a call with workers whose one copy each sleeps so many steps in a fragment: the middle of `calls` after one
/// that does not count.
fn sampled(
    workers: usize,
    steps: usize,
    transport: usize,
    calls: usize,
    call: &dyn Fn(&WorkerSet) -> Outcome<()>,
) -> Outcome<f64> {
    let mut settings = matched_ppo(workers, workers);
    let common = &mut settings.common;
    common.workers = Workers { transport: TRANSPORTS[transport].1, number: None };
    common.rollout_fragment_length = steps;
    common.train_batch_size = steps * workers;
    settings.sgd_minibatch_size = steps * workers;
    let builder = settings.builder(sleeper).loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let driver = builder.build()?;
    let set = driver.workers()?;
    call(set)?;
    middle(calls, || call(set))
}

fn middle(calls: usize, call: impl Fn() -> Outcome<()>) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..calls {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// With one worker: what a request costs that says nothing, a fragment of 4 MB, weights of 8 MB (two towers), and the
/// end of its process.
fn carried(transport: usize) -> Outcome<Value> {
    const ROWS: usize = 256;
    const WIDTH: usize = 4096;
    let mut settings = matched_ppo(1, 1);
    settings.sgd_minibatch_size = ROWS;
    let common = &mut settings.common;
    common.workers = Workers { transport: TRANSPORTS[transport].1, number: None };
    common.recreate_failed_workers = true;
    common.rollout_fragment_length = ROWS;
    common.train_batch_size = ROWS;
    common.disable_env_checking = true;
    common.model.fcnet_hiddens = vec![256];
    let wide = || Idle { step: Duration::ZERO, width: WIDTH, t: 0 };
    let builder = settings.builder(wide).loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let driver = builder.build()?;
    let workers = driver.workers()?;
    let weights = driver.get_weights()?;
    let request = middle(301, || Ok(workers.set_task(1)?))?;
    let fragment = middle(31, || Ok(workers.sample().map(drop)?))?;
    let sent = middle(31, || Ok(workers.set_weights(&weights)?))?;
    let mut line = json!({
        "workload": "carried", "request_us": request * 1e6, "fragment_mb": (ROWS * WIDTH * 4) as f64 / 1e6,
        "fragment_ms": fragment * 1e3, "weights_ms": sent * 1e3,
    });
    if transport > 0 {
        let mark = env::temp_dir().join(format!("pavlov-bench-{}", std::process::id()));
        let mut back = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            workers.set_task(mark.to_string_lossy())?;
            back.push(start.elapsed().as_secs_f64());
            std::fs::remove_file(&mark)?;
            // A worker that fails twice before it has sampled rests.
            workers.sample()?;
        }
        line["back_ms"] = (median(&mut back) * 1e3).into();
    }
    Ok(line)
}

fn tables(lines: &[Value]) {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let of = |workload: &'static str| lines.iter().filter(move |line| line["workload"] == workload);
    println!("Networks of two layers of 64; {} cores\n", cores());
    println!(
        "{:<6}{:<16}{:>10}{:>9}{:>12}{:>18}",
        "", "environment", "transport", "workers", "steps/s", "rounds"
    );
    for line in of("training") {
        println!(
            "{:<6}{:<16}{:>10}{:>9}{:>12.0}{:>18}",
            text(line, "algorithm"),
            text(line, "env"),
            text(line, "transport"),
            number(line, "workers"),
            number(line, "sps"),
            format!("{:.0}..{:.0}", number(line, "sps_slowest"), number(line, "sps_fastest")),
        );
    }
    println!("\n{:<10}{:>14}{:>24}", "transport", "0.5 s (s)", "16 workers of linear");
    let threads = of("overhead").next().map_or(f64::NAN, |line| number(line, "call_s"));
    for line in of("overhead") {
        let name = text(line, "transport");
        let call = number(line, "call_s");
        let sps = |workers: usize| {
            let fits = |line: &&Value| line["transport"] == *name && line["workers"] == workers;
            of("scaling").find(fits).map_or(f64::NAN, |line| number(line, "sps"))
        };
        let more = format!("{call:.4} ({:+.1}%)", 100.0 * (call / threads - 1.0));
        println!("{name:<10}{more:>17}{:>21.2}", sps(16) / (16.0 * sps(1)));
    }
    println!(
        "\n{:<10}{:>14}{:>22}{:>22}{:>22}",
        "transport", "request (us)", "fragment of 4 MB (ms)", "weights of 8 MB (ms)", "back after (ms)"
    );
    for line in of("carried") {
        println!(
            "{:<10}{:>14.0}{:>22.2}{:>22.2}{:>22}",
            text(line, "transport"),
            number(line, "request_us"),
            number(line, "fragment_ms"),
            number(line, "weights_ms"),
            line["back_ms"].as_f64().map_or("-".to_owned(), |back| format!("{back:.0}")),
        );
    }
}
