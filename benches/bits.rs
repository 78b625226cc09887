//! The pin of training: hashes that stay as they are when a change leaves every number as it was, bit for bit.
//!
//! `cargo bench --bench bits` trains PPO and DQN in many small variants for three iterations, each with the fused engine
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
//! `cargo xtask bits REV` builds and runs this file on top of an older revision and in the checkout, and prints the
//! lines that differ. By hand: run it in both on one machine and compare with `diff`; the hashes depend on the
//! processor's vectors and on libtorch, so recorded ones are worth nothing elsewhere.
//!
//! `--case TEXT` runs the cases whose name contains TEXT, `--verbose` prints a hash for every array, column, statistic
//! and group of actions, `--skip-column NAME` and `--skip-stat NAME` leave out what changes on purpose.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use pavlov::{
    envs::{self, CartPole, CartPoleConfig, Element, IntoEnvCreator, TimeLimit},
    prelude::*,
    torch::Tensor,
    trainer::prelude::SampleBatch,
};
use serde_json::{Value, json};

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rayon reads its number of threads once, so each has a process.
const THREADS: [usize; 2] = [1, 4];
const WORKERS: [usize; 2] = [0, 2];
const ITERATIONS: usize = 3;
/// Environment copies in all, whatever the number of workers.
const COPIES: usize = 4;

/// Reported numbers that say something else, or are new, since the learner joins statistics over whole minibatches.
const SKIPPED_STATS: [&str; 2] = ["vf_explained_var", "clip_fraction"];

/// A variant's name, its environment, what it changes.
type Variant = (&'static str, &'static str, Value);

fn ppo_variants() -> Vec<Variant> {
    let (cartpole, pendulum) = ("CartPole-v1", "Pendulum-v1");
    vec![
        ("default", cartpole, json!({})),
        // Many pieces on both engines.
        (
            "large_minibatch",
            cartpole,
            json!({"sgd_minibatch_size": 6000, "train_batch_size": 6000, "rollout_fragment_length": 1500}),
        ),
        ("short_episodes", "cut CartPole", json!({"kl_coeff": 0.0})),
        ("shared", cartpole, json!({"model.vf_share_layers": true})),
        ("continuous", pendulum, json!({})),
        ("free_log_std", pendulum, json!({"model.free_log_std": true, "vf_clip": "none"})),
        ("several_choices", "choices", json!({})),
        ("several_components", "components", json!({"model.free_log_std": true, "entropy_coeff": 0.01})),
        ("no_kl_penalty", cartpole, json!({"kl_coeff": 0.0})),
        ("minibatch_advantages", cartpole, json!({"normalize_advantages": "minibatch"})),
        ("raw_advantages", cartpole, json!({"normalize_advantages": "none"})),
        ("around_old", cartpole, json!({"vf_clip": "around_old", "vf_clip_param": 0.2, "grad_clip": 0.5})),
        ("filter", pendulum, json!({"observation_filter": "MeanStdFilter"})),
        ("complete_episodes", cartpole, json!({"batch_mode": "complete_episodes"})),
        (
            "no_gae",
            cartpole,
            json!({"batch_mode": "complete_episodes", "use_gae": false, "use_critic": false}),
        ),
        ("orthogonal", cartpole, json!({"model.fcnet_initializer": "orthogonal"})),
        ("layers", cartpole, json!({"model.post_fcnet_hiddens": [13, 9], "model.vf_share_layers": true})),
        (
            "libtorch_layers",
            cartpole,
            json!({
                "model.fcnet_activation": "swish", "model.post_fcnet_hiddens": [13],
                "model.post_fcnet_activation": "elu",
            }),
        ),
        (
            "no_final_linear",
            cartpole,
            json!({"model.no_final_linear": true, "model.fcnet_activation": "relu"}),
        ),
        (
            "schedules",
            cartpole,
            json!({
                "lr_schedule": [[0, 0.01], [3000, 0.001]], "entropy_coeff_schedule": [[0, 0.02], [4000, 0.0]],
                "clip_param_schedule": [[0, 0.3], [4000, 0.1]],
            }),
        ),
        ("target_kl", cartpole, json!({"target_kl": 0.005, "lr": 0.01, "num_sgd_iter": 6})),
        (
            "clipped_rewards",
            pendulum,
            json!({"clip_rewards": true, "normalize_actions": false, "clip_actions": true}),
        ),
        ("sample_async", cartpole, json!({"sample_async": true})),
        ("frozen_lake", "FrozenLake-v1", json!({})),
        ("frozen_lake_filter", "FrozenLake-v1", json!({"observation_filter": "MeanStdFilter"})),
        ("taxi", "Taxi-v4", json!({"model.vf_share_layers": true})),
        ("blackjack", "Blackjack-v1", json!({})),
    ]
}

fn dqn_variants() -> Vec<Variant> {
    let cartpole = "CartPole-v1";
    let uniform = "replay_buffer_config.type";
    vec![
        ("default", cartpole, json!({})),
        ("plain", cartpole, json!({"dueling": false, "double_q": false})),
        ("double", cartpole, json!({"dueling": false})),
        ("uniform", cartpole, json!({uniform: "ReplayBuffer"})),
        // Several pieces on both engines.
        ("large_batch", cartpole, json!({"train_batch_size": 1100, "replay_buffer_config.capacity": 1200})),
        ("short_episodes", "cut CartPole", json!({uniform: "ReplayBuffer"})),
        ("n_step", "cut CartPole", json!({"n_step": 3})),
        ("atoms", cartpole, json!({"num_atoms": 11, "v_min": 0.0, "v_max": 20.0})),
        ("plain_atoms", cartpole, json!({"num_atoms": 11, "dueling": false, "double_q": false})),
        ("noisy", cartpole, json!({"noisy": true})),
        ("rainbow", cartpole, json!({"noisy": true, "num_atoms": 11, "n_step": 3})),
        ("worker_priorities", cartpole, json!({"worker_side_prioritization": true})),
        ("soft_q", cartpole, json!({"exploration_config": {"type": "SoftQ", "temperature": 0.5}})),
        ("random", cartpole, json!({"exploration_config": {"type": "Random"}})),
        (
            "epsilon_per_worker",
            cartpole,
            json!({"exploration_config": {"type": "PerWorkerEpsilonGreedy", "epsilon_timesteps": 500}}),
        ),
        ("no_grad_clip", cartpole, json!({"grad_clip": null})),
        ("small_grad_clip", cartpole, json!({"grad_clip": 0.1})),
        ("intensity", cartpole, json!({"training_intensity": 8.0})),
        ("schedule", cartpole, json!({"lr_schedule": [[0, 0.01], [900, 0.001]]})),
        ("filter", cartpole, json!({"observation_filter": "MeanStdFilter"})),
        ("no_head_layers", cartpole, json!({"hiddens": []})),
        ("frozen_lake", "FrozenLake-v1", json!({"train_batch_size": 300})),
        ("taxi", "Taxi-v4", json!({})),
    ]
}

/// Variants whose actions are hashed as well.
const ACTING: [&str; 8] = [
    "PPO/default",
    "PPO/filter",
    "PPO/several_choices",
    "PPO/frozen_lake",
    "DQN/default",
    "DQN/noisy",
    "DQN/soft_q",
    "DQN/frozen_lake",
];

/// Odd widths, so that vectors have tails; 4 rounds of 400 steps, minibatches of 640, 640 and 320 rows.
fn small_ppo() -> Value {
    json!({
        "lr": 0.003, "num_sgd_iter": 2, "sgd_minibatch_size": 640, "train_batch_size": 1600,
        "rollout_fragment_length": 100, "model.fcnet_hiddens": [37, 20],
    })
}

/// 60 learning steps; the buffer overflows.
fn small_dqn() -> Value {
    json!({
        "lr": 0.003, "train_batch_size": 50, "min_sample_timesteps_per_reporting": 320, "hiddens": [19],
        "model.fcnet_hiddens": [37, 20], "target_network_update_freq": 200,
        "replay_buffer_config.capacity": 500, "replay_buffer_config.learning_starts": 100,
        "exploration_config": {
            "type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.3, "epsilon_timesteps": 800,
        },
    })
}

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
    cases(&args, threads, Ppo::get_default_config(), small_ppo(), ppo_variants())?;
    cases(&args, threads, Dqn::get_default_config(), small_dqn(), dqn_variants())
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
                match run(args, settings, env, ACTING.contains(&id.as_str())) {
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
fn run<T: Trainer>(args: &Args, settings: T, env: &str, acting: bool) -> Outcome<Hashes> {
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
    if acting {
        let actions = hashes.entry("actions").or_default();
        match env {
            "FrozenLake-v1" => act(&mut driver, &(0..16).collect::<Vec<i64>>(), 1, actions)?,
            "Pendulum-v1" => act(&mut driver, &grid(3), 3, actions)?,
            "choices" => act(&mut driver, &grid(WIDTH), WIDTH, actions)?,
            _ => act(&mut driver, &grid(4), 4, actions)?,
        }
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
    let learner = &result["info"]["learner"]["default_policy"];
    for (name, value) in learner["learner_stats"].as_object().into_iter().flatten() {
        if !args.skipped_stats.contains(name) {
            add("stats", name, value);
        }
    }
    add("stats", "mean_td_error", &learner["mean_td_error"]);
    for name in ["episode_reward", "episode_lengths"] {
        add("samples", name, &result["hist_stats"][name]);
    }
    for name in ["num_env_steps_sampled", "num_env_steps_trained", "num_target_updates"] {
        add("samples", name, &result["counters"][name]);
    }
}

/// The arrays of a checkpoint's policies.
fn arrays(checkpoint: &Path, hashes: &mut Hashes) -> Outcome<()> {
    for (name, tensor) in Tensor::read_safetensors(checkpoint.join("policies.safetensors"))? {
        let group = if name.contains("optimizer") { "optimizer" } else { "params" };
        hashes.entry(group).or_default().entry(name).or_default().add_tensor(&tensor);
    }
    Ok(())
}

/// Actions for rows of observations, and whole episodes of evaluation and of a user's play.
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
        for episode in algorithm.play(3, 7, explore, 0)?.episodes {
            let episode = format!("{:?} {}", episode.total_reward, episode.length);
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
        _policy_id: &str,
        batch: &SampleBatch,
        _result: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        for (column, tensor) in batch.columns() {
            if !self.skipped.iter().any(|name| name == column.name()) {
                columns.entry(column.name().to_owned()).or_default().add_tensor(tensor);
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

    fn add_tensor(&mut self, tensor: &Tensor) {
        let tensor = tensor.contiguous();
        self.add(format!("{:?} {:?}", tensor.kind(), tensor.size()).as_bytes());
        let mut bytes = vec![0; tensor.numel() * tensor.kind().elt_size_in_bytes()];
        tensor.copy_data_u8(&mut bytes, tensor.numel());
        self.add(&bytes);
    }
}

/// The environment of that name: one of those below, or a registered id.
fn env_creator(name: &str) -> EnvCreator {
    match name {
        // Ends now by itself and now by the limit.
        "cut CartPole" => {
            (|| TimeLimit::new(CartPole::new(CartPoleConfig::default()), 20)).into_env_creator()
        }
        "choices" => (|| Drift::<i64>::new(Space::MultiDiscrete { nvec: vec![3, 2, 4] })).into_env_creator(),
        "components" => (|| Drift::<f32>::new(Space::boxed(-1.0, 1.0, &[3]))).into_env_creator(),
        id => id.into_env_creator(),
    }
}

const WIDTH: usize = 5;

/// Observations that drift, and are pushed by the sum of an action's components; it ends far from the middle, or is cut.
struct Drift<A> {
    actions: Space,
    random: u64,
    at: [f32; WIDTH],
    action: std::marker::PhantomData<A>,
}

impl<A: Element> Drift<A> {
    fn new(actions: Space) -> Self {
        Self { actions, random: 0, at: [0.0; WIDTH], action: std::marker::PhantomData }
    }

    fn drift(&mut self, push: f32) {
        for (i, x) in self.at.iter_mut().enumerate() {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *x += (self.random >> 40) as f32 / (1 << 24) as f32 - 0.5 + push * i as f32;
        }
    }
}

impl<A: Element> Env for Drift<A> {
    type Obs = f32;
    type Act = A;

    fn observation_space(&self) -> Space {
        Space::real(&[WIDTH])
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.random = seed.unwrap_or(self.random);
        self.at = [0.0; WIDTH];
        self.drift(0.0);
        obs.copy_from_slice(&self.at);
        Ok(())
    }

    fn step(&mut self, action: &[A], obs: &mut [f32]) -> envs::Result<Step> {
        let sum: f64 = action.iter().map(|x| x.to_f64()).sum();
        self.drift(0.1 * (sum as f32 - 1.0));
        obs.copy_from_slice(&self.at);
        let far = self.at.iter().fold(0.0_f32, |far, x| far.max(x.abs()));
        Ok(Step { reward: 1.0 - f64::from(far), terminated: far > 3.0, truncated: false })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(15)
    }
}
