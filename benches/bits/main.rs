//! The pin of training: hashes that stay as they are when a change leaves every number as it was, bit for bit.
//!
//! `cargo bench --bench bits` trains every algorithm in many small variants for three iterations, each with the fused engine
//! and with libtorch, on 1 and 4 threads, without and with rollout workers, and prints a line per case:
//!
//! | hash | of what |
//! |---|---|
//! | `params` | the arrays of the checkpoint, the target network's included; their names and order do not count |
//! | `optimizer` | the arrays of the checkpoint that have `optimizer` in their names, likewise |
//! | `batches` | every batch that was learned from: names, kinds, shapes and bytes of its columns |
//! | `stats` | what the learner reported in each iteration |
//! | `samples` | episodes and counts of each iteration |
//! | `actions` | in some cases: actions for fixed observations, and episodes of `evaluate` and of `play` |
//!
//! `cargo xtask bits REV` builds and runs this program on top of an older revision and in the checkout, and prints the
//! lines that differ; `cargo xtask bits --widths` runs it in the checkout with each kind of vector instructions that the
//! processor has. By hand: run it in both on one machine and compare with `diff`. The hashes of the fused engine are the
//! same on every processor with the same libtorch; those of libtorch are not.
//!
//! `--case TEXT` runs the cases whose name contains TEXT, `--verbose` prints a hash for every array, column, statistic
//! and group of actions, `--skip-column NAME` and `--skip-stat NAME` leave out what changes on purpose.

mod envs;
mod variants;

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use pavlov::{
    envs::Element,
    prelude::*,
    trainer::{
        Kind,
        prelude::SampleBatch,
        state::{Array, State},
    },
};
use serde_json::{Value, json};

use envs::{WIDTH, env_creator};
use variants::{ACTING, PLAYING, Variant};

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rayon reads its number of threads once, so each has a process.
const THREADS: [usize; 2] = [1, 4];
const WORKERS: [usize; 2] = [0, 2];
const ITERATIONS: usize = 3;
/// Environment copies in all, whatever the number of workers.
const COPIES: usize = 4;

/// Reported numbers that say something else, or are new, since the learner joins statistics over whole minibatches.
const SKIPPED_STATS: [&str; 2] = ["vf_explained_var", "clip_fraction"];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let Some(only) = args.only else {
        for (only, threads) in THREADS.iter().enumerate() {
            let mut child = Command::new(std::env::current_exe()?);
            child.args(std::env::args().skip(1)).args(["--only", &only.to_string()]);
            child.env("RAYON_NUM_THREADS", threads.to_string());
            let status = child.status()?;
            if !status.success() {
                return Err(format!("the cases on {threads} threads failed: {status}").into());
            }
        }
        return Ok(());
    };
    let threads = *THREADS.get(only).ok_or(format!("--only takes 0..{}", THREADS.len()))?;
    cases(&args, threads, Ppo::get_default_config(), variants::small_ppo(), variants::ppo())?;
    cases(&args, threads, Dqn::get_default_config(), variants::small_dqn(), variants::dqn())?;
    cases(&args, threads, Sac::get_default_config(), variants::small_sac(), variants::sac())?;
    cases(&args, threads, Td3::get_default_config(), variants::small_ddpg(), variants::td3())?;
    cases(&args, threads, Ddpg::get_default_config(), variants::small_ddpg(), variants::ddpg())?;
    cases(&args, threads, Impala::get_default_config(), variants::small_impala(), variants::impala())?;
    cases(&args, threads, Qmix::get_default_config(), variants::small_qmix(), variants::qmix())
}

#[derive(Debug, Default)]
struct Args {
    only: Option<usize>,
    case: String,
    verbose: bool,
    skipped_columns: Vec<String>,
    skipped_stats: Vec<String>,
}

impl Args {
    fn parse() -> Outcome<Self> {
        let mut parsed = Self { skipped_stats: SKIPPED_STATS.map(str::to_owned).into(), ..Self::default() };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--only" => parsed.only = Some(value()?.parse()?),
                "--case" => parsed.case = value()?,
                "--verbose" => parsed.verbose = true,
                "--skip-column" => parsed.skipped_columns.push(value()?),
                "--skip-stat" => parsed.skipped_stats.push(value()?),
                // Cargo's own.
                "--bench" => {}
                _ => {
                    let known = "--case TEXT, --verbose, --skip-column NAME, --skip-stat NAME, --only N";
                    return Err(format!("{arg} is none of {known}").into());
                }
            }
        }
        Ok(parsed)
    }
}

/// Runs the variants of an algorithm, each in every engine and number of workers, and prints their lines.
fn cases<T: Trainer>(
    args: &Args,
    threads: usize,
    default: T,
    small: Value,
    variants: Vec<Variant>,
) -> Outcome<()> {
    for (variant, env, changes) in variants {
        for fused in [true, false] {
            for workers in WORKERS {
                let engine = if fused { "fused" } else { "torch" };
                let id = format!("{}/{variant}", T::NAME);
                let name = format!("{id} {engine} threads={threads} workers={workers}");
                if !name.contains(&args.case) || variant == "sample_async" && workers == 0 {
                    continue;
                }
                let fixed = json!({
                    "seed": 1, "num_workers": workers, "num_envs_per_worker": COPIES / workers.max(1),
                    "evaluation_num_workers": workers, "evaluation_duration": 5, "model.fused": fused,
                });
                let settings = changed(&default, &[&small, &fixed, &changes])?;
                // An error is a result too: the other revision may not have it.
                match run(args, settings, env, &id) {
                    Ok(hashes) => print(args, &name, &hashes),
                    Err(error) => println!("{name} error={error}"),
                }
            }
        }
    }
    Ok(())
}

/// The hashes of a case: by group (`params`, `batches`, ...), and in it by name.
type Hashes = BTreeMap<&'static str, BTreeMap<String, Fnv>>;

fn print(args: &Args, name: &str, hashes: &Hashes) {
    let groups = ["params", "optimizer", "batches", "stats", "samples", "actions"];
    let groups = groups.iter().filter_map(|group| Some((group, hashes.get(group)?)));
    let line: Vec<String> = groups
        .clone()
        .map(|(group, parts)| {
            let mut whole = Fnv::default();
            if ["params", "optimizer"].contains(group) {
                // A revision may name and order its arrays as it likes.
                let mut arrays: Vec<u64> = parts.values().map(|hash| hash.0).collect();
                arrays.sort_unstable();
                arrays.iter().for_each(|hash| whole.add(&hash.to_le_bytes()));
            } else {
                for (name, hash) in parts {
                    whole.add(name.as_bytes());
                    whole.add(&hash.0.to_le_bytes());
                }
            }
            format!("{group}={:016x}", whole.0)
        })
        .collect();
    println!("{name} {}", line.join(" "));
    if args.verbose {
        for (group, parts) in groups {
            parts.iter().for_each(|(part, hash)| println!("    {group} {part} {:016x}", hash.0));
        }
    }
}

/// Trains a case and hashes what there is to see of it.
fn run<T: Trainer>(args: &Args, settings: T, env: &str, id: &str) -> Outcome<Hashes> {
    let dir = tempfile::tempdir()?;
    let learned = Arc::new(Mutex::new(BTreeMap::new()));
    // Discrete observations may be stored as the integers they are or as the vectors that stand for them.
    let mut skipped = args.skipped_columns.clone();
    if ["FrozenLake-v1", "Taxi-v4", "Blackjack-v1"].contains(&env) {
        skipped.extend(["obs".to_owned(), "new_obs".to_owned()]);
    }
    let hook = {
        let learned = Arc::clone(&learned);
        move || Hook { columns: Arc::clone(&learned), skipped: skipped.clone() }
    };
    let mut driver = settings
        .builder(env_creator(env))
        .callbacks(hook)
        .loggers(LoggerChoice::None)
        .logdir(dir.path().join("run"))
        .build()?;

    let mut hashes = Hashes::new();
    for _ in 0..ITERATIONS {
        let result = driver.train()?;
        report(args, &result, &mut hashes);
    }
    let checkpoint = driver.save_to(dir.path())?;
    arrays(&checkpoint, &mut hashes)?;
    if ACTING.contains(&id) {
        let actions = hashes.entry("actions").or_default();
        match env {
            "FrozenLake-v1" => act(&mut driver, &(0..16).collect::<Vec<i64>>(), 1, actions)?,
            "Pendulum-v1" => act(&mut driver, &grid(3), 3, actions)?,
            "choices" => act(&mut driver, &grid(WIDTH), WIDTH, actions)?,
            _ => act(&mut driver, &grid(4), 4, actions)?,
        }
    }
    if ACTING.contains(&id) || PLAYING.contains(&id) {
        play(&mut driver, hashes.entry("actions").or_default())?;
    }
    driver.stop()?;
    let columns = std::mem::take(&mut *learned.lock().unwrap_or_else(PoisonError::into_inner));
    hashes.insert("batches", columns);
    Ok(hashes)
}

/// What an iteration reported and sampled.
fn report(args: &Args, result: &Metrics, hashes: &mut Hashes) {
    let mut add = |group, name: &str, value: &Value| {
        hashes
            .entry(group)
            .or_default()
            .entry(name.to_owned())
            .or_default()
            .add(value.to_string().as_bytes());
    };
    for (policy, learner) in result["info"]["learner"].as_object().into_iter().flatten() {
        for (name, value) in learner["learner_stats"].as_object().into_iter().flatten() {
            if !args.skipped_stats.contains(name) {
                add("stats", &format!("{policy} {name}"), value);
            }
        }
        add("stats", &format!("{policy} mean_td_error"), &learner["mean_td_error"]);
    }
    add("samples", "policy_reward_mean", &result["policy_reward_mean"]);
    for name in ["episode_reward", "episode_lengths"] {
        add("samples", name, &result["hist_stats"][name]);
    }
    for name in [
        "num_env_steps_sampled",
        "num_env_steps_trained",
        "num_agent_steps_sampled",
        "num_agent_steps_trained",
        "num_target_updates",
    ] {
        add("samples", name, &result["counters"][name]);
    }
}

/// The arrays of a checkpoint's policies.
fn arrays(checkpoint: &Path, hashes: &mut Hashes) -> Outcome<()> {
    let state = State::read(checkpoint, "policies")?;
    for name in state.array_names() {
        let group = if name.contains("optimizer") { "optimizer" } else { "params" };
        hashes.entry(group).or_default().entry(name.to_owned()).or_default().add_array(state.array(name)?);
    }
    Ok(())
}

/// Actions for rows of observations.
fn act<T: Trainer, O: Element>(
    algorithm: &mut Algorithm<T>,
    obs: &[O],
    width: usize,
    hashes: &mut BTreeMap<String, Fnv>,
) -> Outcome<()> {
    let mut add = |name: String, text: String| hashes.entry(name).or_default().add(text.as_bytes());
    for explore in [false, true] {
        let actions = algorithm.compute_actions(obs, explore)?;
        add(format!("compute_actions explore={explore}"), format!("{actions:?}"));
        for row in obs.chunks(width) {
            let action = algorithm.compute_single_action(row, explore)?;
            add(format!("compute_single_action explore={explore}"), format!("{action:?}"));
        }
    }
    Ok(())
}

/// Whole episodes of a user's play and of evaluation.
fn play<T: Trainer>(algorithm: &mut Algorithm<T>, hashes: &mut BTreeMap<String, Fnv>) -> Outcome<()> {
    let mut add = |name: String, text: String| hashes.entry(name).or_default().add(text.as_bytes());
    for explore in [false, true] {
        for episode in algorithm.play(3, 7, explore, 0)?.episodes {
            let agents: Vec<String> = episode
                .agent_rewards
                .iter()
                .map(|agent| format!("{} {} {:?}", agent.agent, agent.policy, agent.reward))
                .collect();
            let episode = format!("{:?} {} {agents:?}", episode.total_reward, episode.length);
            add(format!("play explore={explore}"), episode);
        }
    }
    let evaluated = algorithm.evaluate()?;
    add("evaluate".into(), evaluated["hist_stats"].to_string());
    Ok(())
}

/// 23 rows of numbers between -2 and 2.
fn grid(width: usize) -> Vec<f32> {
    (0..23 * width).map(|i| (i * 37 % 101) as f32 / 25.0 - 2.0).collect()
}

/// `default` with changes by dotted names; a name that it does not have is an error.
fn changed<T: Trainer>(default: &T, changes: &[&Value]) -> Outcome<T> {
    let mut all = serde_json::to_value(default)?;
    for (name, value) in changes.iter().flat_map(|changes| changes.as_object().into_iter().flatten()) {
        let slot = all.pointer_mut(&format!("/{}", name.replace('.', "/")));
        *slot.ok_or_else(|| format!("{} has no setting {name}", T::NAME))? = value.clone();
    }
    Ok(serde_json::from_value(all)?)
}

/// Hashes, column by column, every batch that is learned from.
struct Hook {
    columns: Arc<Mutex<BTreeMap<String, Fnv>>>,
    skipped: Vec<String>,
}

impl Callbacks for Hook {
    fn on_learn_on_batch(
        &mut self,
        policy_id: &str,
        batch: &SampleBatch,
        _result: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        for (column, array) in batch.columns() {
            if !self.skipped.iter().any(|name| name == column.name()) {
                columns.entry(format!("{policy_id} {}", column.name())).or_default().add_array(array);
            }
        }
        Ok(())
    }
}

/// FNV-1a, 64 bits.
#[derive(Clone, Copy, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_array(&mut self, array: &Array) {
        // libtorch's names, which stand in the hashes of older revisions.
        let kind = match array.kind() {
            Kind::Bool => "Bool",
            Kind::U8 => "Uint8",
            Kind::I64 => "Int64",
            Kind::F32 => "Float",
            Kind::F64 => "Double",
        };
        self.add(format!("{kind} {:?}", array.size()).as_bytes());
        self.add(array.bytes());
    }
}
