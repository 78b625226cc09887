//! A run that is stopped and continued in a new process is the run that was never stopped, bit for bit.
//!
//! A line of [`cases!`] is a test: 2N iterations at one go against N, a checkpoint, and N more in another process, with
//! no and with two workers. Compared are all files of the final checkpoints (weights, optimizers, counters, filters,
//! replay, random streams, environments in the middle of their episodes) and all results but wall time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use pavlov::envs::{
    self, EnvSpec,
    native::{CartPole, CartPoleConfig},
};
use pavlov::prelude::*;
use pavlov::registry::{self, AnyAlgorithm};
use pavlov::trainer::rng::Stream;
use pavlov::tune::{checkpoint, child_main, difference, loggers::read_results};
use serde_json::{Value, json};

/// Iterations before and after the stop.
const N: u64 = 2;

macro_rules! cases {
    ($($name:ident: $algorithm:literal on $env:literal with $settings:tt;)*) => {
        fn case(name: &str) -> Case {
            match name {
                $(stringify!($name) => {
                    Case { algorithm: $algorithm, env: $env, settings: json!($settings) }
                })*
                other => others(other),
            }
        }

        $(#[test]
        fn $name() {
            assert_continues(stringify!($name));
        })*
    };
}

cases! {
    ppo: "PPO" on "CartPole-v1" with {};
    ppo_with_kl_schedules_and_clipped_gradients: "PPO" on "CartPole-v1" with {
        "kl_coeff": 0.2, "grad_clip": 0.5, "lr_schedule": [[0, 0.01], [1000, 0.0]],
        "entropy_coeff_schedule": [[0, 0.1], [1000, 0.0]],
    };
    ppo_of_wide_networks: "PPO" on "CartPole-v1" with { "model": { "fcnet_hiddens": [160, 160] } };
    ppo_continuous_with_filter: "PPO" on "Pendulum-v1" with { "observation_filter": "MeanStdFilter" };
    ppo_with_filters_of_their_own: "PPO" on "Pendulum-v1" with {
        "observation_filter": "MeanStdFilter", "synchronize_filters": false,
    };
    ppo_by_noise_that_depends_on_the_state: "PPO" on "Pendulum-v1" with { "use_sde": true, "sde_sample_freq": 3 };
    ppo_of_complete_episodes_by_noise_that_depends_on_the_state: "PPO" on "Pendulum-v1" with {
        "use_sde": true, "full_std": false, "use_expln": true, "batch_mode": "complete_episodes",
    };
    ppo_complete_episodes: "PPO" on "CartPole-v1" with { "batch_mode": "complete_episodes" };
    ppo_with_evaluation: "PPO" on "CartPole-v1" with {
        "evaluation_interval": 3, "evaluation_duration": 3, "always_attach_evaluation_results": true,
    };
    ppo_with_parallel_evaluation: "PPO" on "CartPole-v1" with {
        "evaluation_interval": 1, "evaluation_duration": 50, "evaluation_duration_unit": "timesteps",
        "evaluation_num_workers": 1, "evaluation_parallel_to_training": true,
    };
    ppo_on_replayed_episodes: "PPO" on "Stateless-v0" with {};
    ppo_on_complete_replayed_episodes: "PPO" on "Stateless-v0" with { "batch_mode": "complete_episodes" };
    ppo_sampling_ahead: "PPO" on "CartPole-v1" with {
        "sample_async": true, "observation_filter": "MeanStdFilter", "evaluation_interval": 1, "evaluation_duration": 2,
    };
    ppo_of_several_agents: "PPO" on "simple_spread_v3" with { "evaluation_interval": 2, "evaluation_duration": 2 };
    ppo_of_several_agents_with_a_filter: "PPO" on "simple_spread_v3" with {
        "observation_filter": "MeanStdFilter", "batch_mode": "complete_episodes",
    };
    ppo_of_policies_that_take_turns: "PPO" on "tictactoe_v3" with {
        "mask_actions": true, "multiagent": {
            "policies": ["first", "second"], "rotate_policies": true, "count_steps_by": "agent_steps",
            "policy_mapping_fn": {"player_1": "first", "player_2": "second"},
        },
    };
    ppo_in_the_middle_of_board_games: "PPO" on "tictactoe_v3" with { "mask_actions": true };
    dqn_with_hindsight: "DQN" on "BitFlippingEnv-v0" with {
        "env_config": { "n_bits": 6 }, "replay_buffer_config": { "type": "HerReplayBuffer" },
    };
    sac_with_hindsight: "SAC" on "BitFlippingEnv-v0" with {
        "env_config": { "n_bits": 6, "continuous": true }, "replay_buffer_config": { "type": "HerReplayBuffer" },
    };
    dqn_in_the_middle_of_board_games: "DQN" on "tictactoe_v3" with { "mask_actions": true, "n_step": 3 };
    dqn: "DQN" on "CartPole-v1" with {};
    dqn_sampling_ahead: "DQN" on "CartPole-v1" with { "sample_async": true };
    dqn_with_uniform_replay_that_is_full: "DQN" on "CartPole-v1" with {
        "replay_buffer_config": { "type": "ReplayBuffer", "capacity": 150 },
    };
    dqn_with_n_steps_atoms_and_noise: "DQN" on "CartPole-v1" with {
        "n_step": 3, "noisy": true, "num_atoms": 5, "v_min": 0.0, "v_max": 50.0,
    };
    dqn_with_first_priorities_from_workers: "DQN" on "CartPole-v1" with {
        "worker_side_prioritization": true, "noisy": true,
    };
    dqn_that_learns_now_and_then: "DQN" on "CartPole-v1" with {
        "training_intensity": 0.3, "lr_schedule": [[0, 0.01], [1000, 0.0]],
    };
    dqn_with_epsilons_per_worker_and_evaluation: "DQN" on "CartPole-v1" with {
        "exploration_config": { "type": "PerWorkerEpsilonGreedy" }, "evaluation_interval": 1,
        "evaluation_duration": 2,
    };
    dqn_on_replayed_episodes: "DQN" on "Stateless-v0" with {};
    qmix: "QMIX" on "simple_spread_v3" with { "evaluation_interval": 2, "evaluation_duration": 2 };
    qmix_on_libtorch: "QMIX" on "simple_spread_v3" with { "model": { "fused": false }, "n_step": 3 };
    vdn_in_the_middle_of_board_games: "QMIX" on "tictactoe_v3" with {
        "mixer": "vdn", "mask_actions": true, "replay_buffer_config": { "type": "PrioritizedReplayBuffer" },
    };
    sac: "SAC" on "Pendulum-v1" with {};
    sac_with_priorities_n_steps_and_several_updates_per_step: "SAC" on "Pendulum-v1" with {
        "replay_buffer_config": { "type": "PrioritizedReplayBuffer" }, "n_step": 3, "training_intensity": 16,
        "exploration_config": { "type": "StochasticSampling", "random_timesteps": 250 },
    };
    sac_by_noise_that_depends_on_the_state: "SAC" on "Pendulum-v1" with {
        "use_sde": true, "sde_sample_freq": 4, "rollout_fragment_length": 6, "evaluation_interval": 2,
        "evaluation_duration": 2, "evaluation_config": { "explore": true },
    };
    sac_on_libtorch: "SAC" on "Pendulum-v1" with { "model": { "fused": false } };
    sac_of_choices: "SAC" on "CartPole-v1" with { "evaluation_interval": 2, "evaluation_duration": 2 };
    sac_of_quantiles: "SAC" on "Pendulum-v1" with {
        "n_quantiles": 5, "n_critics": 3, "optimization": { "weight_decay": 0.01 },
        "q_model_config": { "fcnet_hiddens": [8, 8], "architecture": "simba" },
        "policy_model_config": { "fcnet_hiddens": [8], "layer_norm": true },
    };
    sac_of_quantiles_on_libtorch: "SAC" on "Pendulum-v1" with {
        "n_quantiles": 3, "top_quantiles_to_drop_per_net": 1, "model": { "fused": false },
    };
    td3: "TD3" on "Pendulum-v1" with {};
    td3_with_priorities_n_steps_and_a_filter: "TD3" on "Pendulum-v1" with {
        "replay_buffer_config": { "type": "PrioritizedReplayBuffer" }, "n_step": 3, "policy_delay": 3,
        "delay_target": true, "observation_filter": "MeanStdFilter", "evaluation_interval": 1, "evaluation_duration": 1,
    };
    ddpg_with_noise_that_drifts: "DDPG" on "Pendulum-v1" with {};
    ddpg_with_drifting_noise_per_worker: "DDPG" on "Pendulum-v1" with {
        "exploration_config": { "type": "PerWorkerOrnsteinUhlenbeckNoise", "random_timesteps": 30 },
        "use_huber": true, "grad_clip": 1.0, "training_intensity": 4,
    };
    ddpg_on_libtorch: "DDPG" on "Pendulum-v1" with { "model": { "fused": false } };
    dqn_whose_rows_wait_for_later_rewards: "DQN" on "CartPole-v1" with { "n_step": 5, "rollout_fragment_length": 2 };
    sac_of_copies_whose_rows_wait: "SAC" on "Pendulum-v1" with {
        "n_step": 3, "rollout_fragment_length": 1, "num_envs_per_worker": 3,
    };
    dqn_of_several_agents_whose_rows_wait: "DQN" on "simple_spread_v3" with { "n_step": 4, "rollout_fragment_length": 3 };
    impala: "IMPALA" on "CartPole-v1" with {};
    impala_before_its_first_broadcast: "IMPALA" on "CartPole-v1" with { "broadcast_interval": 3 };
    impala_between_two_broadcasts_with_a_filter: "IMPALA" on "CartPole-v1" with {
        "broadcast_interval": 3, "min_train_timesteps_per_reporting": 80, "observation_filter": "MeanStdFilter",
        "max_sample_requests_in_flight_per_worker": 3,
    };
    impala_with_several_passes_and_replayed_fragments: "IMPALA" on "CartPole-v1" with {
        "num_sgd_iter": 2, "replay_proportion": 1.5, "replay_buffer_num_slots": 3, "opt_type": "rmsprop",
    };
    impala_that_remembers: "IMPALA" on "CartPole-v1" with {
        "model": {"use_lstm": true, "lstm_cell_size": 4, "max_seq_len": 7}, "replay_proportion": 0.5,
        "replay_buffer_num_slots": 2,
    };
    impala_with_batches_that_take_turns: "IMPALA" on "CartPole-v1" with {
        "num_sgd_iter": 3, "minibatch_buffer_size": 3,
    };
    impala_of_several_agents: "IMPALA" on "simple_spread_v3" with {};
    impala_complete_episodes: "IMPALA" on "CartPole-v1" with { "batch_mode": "complete_episodes" };
}

/// Runs that other tests are about.
fn others(name: &str) -> Case {
    if let Some(case) = crate::learners::case(name) {
        return case;
    }
    assert_eq!(name, "impala_with_a_learner_thread");
    // It is long enough to learn something, and does not repeat: a thread learns while others sample.
    let settings = json!({
        "num_envs_per_worker": 5, "rollout_fragment_length": 50, "train_batch_size": 500, "learner_queue_size": 4,
        "entropy_coeff": 0.005, "min_sample_timesteps_per_reporting": 10_000,
        "model": {"fcnet_hiddens": [64, 64], "vf_share_layers": false},
    });
    Case { algorithm: "IMPALA", env: "CartPole-v1", settings }
}

pub(crate) struct Case {
    pub(crate) algorithm: &'static str,
    pub(crate) env: &'static str,
    pub(crate) settings: Value,
}

type AnyDriver = Driver<Box<dyn AnyAlgorithm>>;

impl Case {
    /// Small: an iteration takes milliseconds. The replay buffer goes round in the second half, and then still has rows
    /// of the first.
    fn small(&self) -> Value {
        match self.algorithm {
            "PPO" => json!({
                "train_batch_size": 200, "sgd_minibatch_size": 50, "num_sgd_iter": 2, "model": {"fcnet_hiddens": [8]},
            }),
            "DQN" => json!({
                "model": {"fcnet_hiddens": [8]},
                "min_sample_timesteps_per_reporting": 100, "train_batch_size": 8, "hiddens": [8],
                "target_network_update_freq": 60,
                "replay_buffer_config": {"capacity": 300, "learning_starts": 20},
            }),
            "QMIX" => json!({
                "model": {"fcnet_hiddens": [8]}, "mixing_embed_dim": 4,
                "min_sample_timesteps_per_reporting": 100, "train_batch_size": 8, "target_network_update_freq": 60,
                "replay_buffer_config": {"capacity": 300, "learning_starts": 20},
            }),
            // A batch is a single fragment, so workers are more than the fragments of a batch.
            "IMPALA" => json!({
                "model": {"fcnet_hiddens": [8]},
                "rollout_fragment_length": 20, "train_batch_size": 40, "min_sample_timesteps_per_reporting": 40,
            }),
            "SAC" => json!({
                "min_sample_timesteps_per_reporting": 100, "train_batch_size": 8,
                "policy_model_config": {"fcnet_hiddens": [8]}, "q_model_config": {"fcnet_hiddens": [8]},
                "replay_buffer_config": {"capacity": 300, "learning_starts": 20},
            }),
            "TD3" | "DDPG" => json!({
                "min_sample_timesteps_per_reporting": 100, "train_batch_size": 8, "actor_hiddens": [8],
                "critic_hiddens": [8], "exploration_config": {"random_timesteps": 30},
                "replay_buffer_config": {"capacity": 300, "learning_starts": 20},
            }),
            _ => json!({}),
        }
    }

    /// `carriers`: the settings that say where workers and learners are.
    fn build(&self, carriers: &Value, logdir: &Path) -> AnyDriver {
        register_stateless();
        let shared = json!({"seed": 3, "num_envs_per_worker": 2});
        let mut config = Config::new();
        for layer in [&shared, carriers, &self.small(), &self.settings] {
            for (key, value) in layer.as_object().expect("an object") {
                match (config.get_mut(key), value) {
                    (Some(Value::Object(old)), Value::Object(new)) => old.extend(new.clone()),
                    _ => drop(config.insert(key.clone(), value.clone())),
                }
            }
        }
        let options = RunOptions {
            logdir: Some(logdir.into()),
            resume: Resume::ByCaller,
            keep_checkpoints_num: Some(2),
            ..RunOptions::default()
        };
        let entry = registry::algorithm(self.algorithm).expect("a registered algorithm");
        entry.build(self.env.into(), config, options).expect("settings that can be")
    }
}

/// CartPole that cannot save its state: its episodes are brought back by replaying their actions.
struct Stateless(CartPole);

impl Env for Stateless {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }
    fn action_space(&self) -> Space {
        self.0.action_space()
    }
    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.0.reset(seed, obs)
    }
    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.0.step(action, obs)
    }
    fn max_episode_steps(&self) -> Option<usize> {
        Some(40)
    }
}

fn register_stateless() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let spec = EnvSpec {
            id: "Stateless-v0".into(),
            summary: "CartPole without save_state".into(),
            max_episode_steps: Some(40),
            reward_threshold: None,
        };
        envs::register(spec, || Stateless(CartPole::new(CartPoleConfig::default()))).expect("a free id");
    });
}

/// Trains until `iteration`; saves then, and with `every` after each iteration.
fn train_until(driver: &mut AnyDriver, iteration: u64, every: bool) {
    while driver.iteration() < iteration {
        driver.train().expect("a result");
        if every || driver.iteration() == iteration {
            driver.save().expect("a checkpoint");
        }
    }
}

fn assert_continues(name: &str) {
    let samples_ahead = case(name).settings["sample_async"] == true;
    for workers in [if samples_ahead { "threads:1" } else { "threads:0" }, "threads:2"] {
        let workers = &json!({"workers": workers});
        let home = tempfile::tempdir().expect("a directory");
        let straight = home.path().join("straight");
        let stopped = home.path().join("stopped");
        train_until(&mut case(name).build(workers, &straight), 2 * N, false);
        train_until(&mut case(name).build(workers, &stopped), N, false);
        let output = child(name, workers, &stopped, 2 * N).output().expect("a child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_same(&straight, &stopped);
    }
}

/// A run on threads is the run in processes, and that which goes on in processes in the middle.
pub(crate) fn assert_same_in_processes(name: &str, workers: usize) {
    assert_same_over("procs", name, workers, |_| ());
}

/// A run on threads is the run over that transport, and that which goes over to it in the middle. `prepare` changes the
/// process that has these workers.
pub(crate) fn assert_same_over(transport: &str, name: &str, workers: usize, prepare: impl Fn(&mut Command)) {
    let [threads, others] =
        ["threads", transport].map(|kind| json!({"workers": format!("{kind}:{workers}")}));
    assert_same_with(name, (&threads, &others), ("workers", json!(transport)), prepare);
}

/// A run with the first carriers is that with the others, and that which goes over to them in the middle; settings say so then.
pub(crate) fn assert_same_with(
    name: &str,
    (ones, others): (&Value, &Value),
    (key, value): (&str, Value),
    prepare: impl Fn(&mut Command),
) {
    let home = tempfile::tempdir().expect("a directory");
    let [straight, switched, other] = ["straight", "switched", "other"].map(|dir| home.path().join(dir));
    train_until(&mut case(name).build(ones, &straight), 2 * N, false);
    train_until(&mut case(name).build(ones, &switched), N, false);
    for dir in [&switched, &other] {
        let mut continued = child(name, others, dir, 2 * N);
        prepare(&mut continued);
        let output = continued.output().expect("a child");
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(output.status.success(), "{}", said.concat());
        let newest = checkpoint::latest(dir).expect("a readable run").expect("a checkpoint");
        assert_eq!(checkpoint::metadata(&newest).expect("metadata").config[key], value);
        assert_same(&straight, dir);
    }
}

/// This test binary again, to continue the run in `logdir`.
fn child(name: &str, carriers: &Value, logdir: &Path, until: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "--ignored", "--nocapture", "resume::child_continues"])
        .env("PAVLOV_TEST_CASE", json!([name, carriers, logdir, until]).to_string());
    command
}

#[test]
#[ignore = "run in a process of its own by the other tests"]
fn child_continues() {
    let what = std::env::var("PAVLOV_TEST_CASE").expect("run by another test");
    let (name, carriers, logdir, until): (String, Value, std::path::PathBuf, u64) =
        serde_json::from_str(&what).expect("what `child` wrote");
    let Case { algorithm, env, .. } = case(&name);
    register_stateless();
    let entry = registry::algorithm(algorithm).expect("a registered algorithm");
    child_main(&[&entry.as_trainable(env.into(), Config::new())]);
    let mut driver = case(&name).build(&carriers, &logdir);
    if logdir.exists()
        && let Some(newest) = checkpoint::latest(&logdir).expect("a readable run")
    {
        driver.restore(&newest).expect("a checkpoint that fits");
    }
    train_until(&mut driver, until, true);
}

/// Files of a checkpoint that hold wall time and process numbers.
const TIMED: [&str; 2] = ["manifest.json", "metadata.json"];

/// Both runs end in the same state and gave the same results.
#[track_caller]
pub(crate) fn assert_same(left: &Path, right: &Path) {
    let newest = |dir: &Path| checkpoint::latest(dir).expect("a readable run").expect("a checkpoint");
    let a = newest(left);
    let b = newest(right);
    let names = |dir: &Path| -> BTreeSet<String> {
        let manifest = checkpoint::verify(dir, None).expect("a whole checkpoint");
        manifest.files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(names(&a), names(&b));
    for name in names(&a).iter().filter(|name| !TIMED.contains(&name.as_str())) {
        let [x, y] = [&a, &b].map(|dir| fs::read(dir.join(name)).expect("a file of the manifest"));
        let [x, y] = [x, y].map(without_carriers_in);
        assert!(x == y, "{name} differs{}", first_difference(&x, &y));
    }
    let [x, y] = [&a, &b].map(|dir| checkpoint::metadata(dir).expect("metadata"));
    let counters = |m: &checkpoint::Metadata| (m.iteration, m.timesteps_total, m.episodes_total);
    assert_eq!(counters(&x), counters(&y));
    let [x, y] = [x.config, y.config].map(|config| without_carriers(json!(config)));
    assert_eq!(x, y);
    let [x, y] = [left, right].map(|dir| read_results(dir).expect("readable results"));
    assert_eq!(x.len(), y.len(), "lines of result.json");
    for (x, y) in x.iter().zip(&y) {
        let fields = |result: &Metrics| -> Metrics {
            serde_json::from_value(without_carriers(json!(result))).expect("an object")
        };
        let [x, y] = [x, y].map(fields);
        assert_eq!(difference(&x, &y), None, "in result {}", x["training_iteration"]);
    }
}

/// What says where workers and learners are, and how many of these there are: no part of what a run is.
const CARRIERS: [&str; 6] = [
    "workers",
    "learners",
    "num_learners",
    "num_healthy_learners",
    "num_learner_restarts",
    "placement_strategy",
];

fn without_carriers(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            CARRIERS.iter().for_each(|key| _ = fields.shift_remove(*key));
            fields.values_mut().for_each(|value| *value = without_carriers(value.take()));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| *value = without_carriers(value.take())),
        _ => {}
    }
    value
}

/// The same of a file, if it is JSON.
fn without_carriers_in(file: Vec<u8>) -> Vec<u8> {
    match serde_json::from_slice::<Value>(&file) {
        Ok(value) => without_carriers(value).to_string().into_bytes(),
        Err(_) => file,
    }
}

/// The first line in which two texts differ.
fn first_difference(x: &[u8], y: &[u8]) -> String {
    let (Ok(x), Ok(y)) = (std::str::from_utf8(x), std::str::from_utf8(y)) else { return String::new() };
    let pair = x.lines().zip(y.lines()).find(|(x, y)| x != y);
    pair.map(|(x, y)| format!(": {x:?} against {y:?}")).unwrap_or_default()
}

/// Kills a training process again and again, each time at a random moment after it has made a new checkpoint.
fn assert_survives_kills(name: &str, workers: usize) {
    let home = tempfile::tempdir().expect("a directory");
    let straight = home.path().join("straight");
    let killed = home.path().join("killed");
    let iterations = 60;
    let seed = workers as u64;
    let workers = json!({"workers": format!("threads:{workers}")});
    train_until(&mut case(name).build(&workers, &straight), iterations, false);
    let mut rng = Stream::new(11, "moments", seed);
    let mut kills = 0;
    for _ in 0..6 {
        let before = newest_iteration(&killed);
        let mut process = child(name, &workers, &killed, iterations)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        wait_for_checkpoint(&mut process, &killed, before);
        std::thread::sleep(Duration::from_micros(rng.below(30_000)));
        process.kill().expect("SIGKILL");
        kills += u32::from(!process.wait().expect("a child").success());
    }
    assert!(kills > 0, "the child is too fast to be killed");
    let output = child(name, &workers, &killed, iterations).output().expect("a child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_same(&straight, &killed);
    let entries = fs::read_dir(&killed).expect("the run").map(|entry| entry.expect("an entry").file_name());
    let litter: Vec<_> = entries.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(litter.is_empty(), "{litter:?} was left");
}

fn newest_iteration(run: &Path) -> Option<u64> {
    checkpoint::list(run).expect("a readable run").last().map(|(iteration, _)| *iteration)
}

fn wait_for_checkpoint(process: &mut Child, run: &Path, before: Option<u64>) {
    while newest_iteration(run) <= before && process.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ppo_killed_at_random_moments_ends_where_it_would_have() {
    assert_survives_kills("ppo", 2);
}

#[test]
fn dqn_killed_at_random_moments_ends_where_it_would_have() {
    assert_survives_kills("dqn", 0);
}

#[test]
fn impala_with_a_learner_thread_goes_on_after_each_kill_and_learns() {
    let name = "impala_with_a_learner_thread";
    let home = tempfile::tempdir().expect("a directory");
    let run = home.path().join("run");
    let mut rng = Stream::new(12, "moments", 0);
    for _ in 0..3 {
        let before = newest_iteration(&run);
        let mut process = child(name, &json!({"workers": "threads:2"}), &run, 30)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        wait_for_checkpoint(&mut process, &run, before);
        std::thread::sleep(Duration::from_micros(rng.below(30_000)));
        process.kill().expect("SIGKILL");
        assert!(!process.wait().expect("a child").success(), "the child is too fast to be killed");
    }
    let output = child(name, &json!({"workers": "threads:2"}), &run, 30).output().expect("a child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let results = read_results(&run).expect("readable results");
    let steps: Vec<_> = results.iter().map(|result| result["timesteps_total"].clone()).collect();
    assert_eq!(steps, (1..=30).map(|i| json!(10_000 * i)).collect::<Vec<_>>());
    // A run that was not disturbed reaches 265 to 346 in these 300,000 steps; one that learns nothing stays near 20.
    let reward = |result: &Metrics| result["episode_reward_mean"].as_f64().expect("episodes ended");
    assert!(results.iter().any(|result| reward(result) >= 200.0), "{}", reward(&results[29]));
}

/// Counts in an episode while it runs, and notes numbers that JSON does not have.
struct Counting;

impl Callbacks for Counting {
    fn on_episode_step(
        &mut self,
        episode: &mut pavlov::trainer::Episode,
        _: pavlov::trainer::StepView<'_>,
    ) -> Result<()> {
        *episode.custom_metrics.entry("steps".into()).or_default() += 1.0;
        episode.custom_metrics.insert("undefined".into(), f64::NAN);
        episode.hist_data.insert("bounds".into(), vec![f64::NEG_INFINITY, 0.5, f64::INFINITY]);
        Ok(())
    }
}

#[test]
fn what_callbacks_note_of_running_episodes_is_continued() {
    let make = || {
        let ppo = crate::support::tiny_ppo();
        ppo.builder("CartPole-v1")
            .callbacks(|| Counting)
            .loggers(LoggerChoice::None)
            .build()
            .expect("a driver")
    };
    let mut straight = make();
    let mut restored = make();
    straight.train().expect("a result");
    restored.restore_from_object(&straight.save_to_object().expect("an object")).expect("the same run");
    for _ in 0..4 {
        let a = straight.train().expect("a result");
        let b = restored.train().expect("a result");
        assert_eq!(difference(&a, &b), None);
        // A step each: the count of an episode that ran while it was saved is whole.
        assert_eq!(a["custom_metrics"]["steps_mean"], a["episode_len_mean"]);
        assert_eq!(b["custom_metrics"]["steps_mean"], b["episode_len_mean"]);
    }
}

#[test]
fn a_restored_run_goes_on_with_the_seed_it_was_saved_with() {
    for other in [None, Some(99)] {
        let make = |seed| {
            let mut dqn = crate::support::tiny_dqn();
            dqn.common.seed = seed;
            dqn.noisy = true;
            dqn.common.evaluation_interval = Some(1);
            crate::support::quiet(dqn, "CartPole-v1").expect("a driver")
        };
        let mut straight = make(None);
        let mut restored = make(other);
        straight.train().expect("a result");
        restored.restore_from_object(&straight.save_to_object().expect("an object")).expect("the same run");
        for _ in 0..3 {
            let a = straight.train().expect("a result");
            let b = restored.train().expect("a result");
            assert_eq!(difference(&a, &b), None);
        }
    }
}

#[test]
fn actions_that_a_user_asks_for_are_continued() {
    let make = || crate::support::quiet(crate::support::tiny_ppo(), "CartPole-v1").expect("a driver");
    let mut straight = make();
    let mut restored = make();
    let act = |driver: &mut Driver<Algorithm<Ppo>>| {
        let obs = [0.0_f32, 0.1, 0.0, -0.1];
        (0..20).map(|_| driver.compute_single_action(&obs, true).expect("an action")).collect::<Vec<_>>()
    };
    act(&mut straight);
    restored.restore_from_object(&straight.save_to_object().expect("an object")).expect("the same run");
    assert_eq!(act(&mut straight), act(&mut restored));
}
