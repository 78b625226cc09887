//! Settings of other libraries as the command translates them.

use serde_json::Value;

use crate::cli::{pavlov, text};

/// The settings that `config show` has, and what it says about the translation.
fn shown(args: &[&str]) -> (Value, String) {
    let ran = pavlov(&[&["config", "show"], args, &["--json"]].concat()).ok();
    (ran.lines().remove(0)["config"].clone(), ran.stderr)
}

#[test]
fn a_file_of_rl_baselines3_zoo_is_translated_over_the_defaults_of_stable_baselines3() {
    let dir = tempfile::tempdir().expect("a directory");
    let zoo = dir.path().join("ppo.yml");
    let yaml = "\
        base: &base\n  n_envs: 8\n  n_timesteps: !!float 1e5\n  policy: 'MlpPolicy'\n\
        Pendulum-v1:\n  <<: *base\n  n_steps: 32\n  batch_size: 256\n  gae_lambda: 0.8\n  gamma: 0.98\n  n_epochs: 20\n  \
        ent_coef: 0.0\n  learning_rate: lin_0.001\n  clip_range: lin_0.2\n  use_sde: True\n  sde_sample_freq: 4\n  \
        policy_kwargs: \"dict(log_std_init=-2, net_arch=dict(pi=[32, 32], vf=[32, 32]), activation_fn=nn.ReLU)\"\n";
    std::fs::write(&zoo, yaml).expect("written");
    let (config, said) = shown(&["PPO", "--env", "Pendulum-v1", "--from-sb3", text(&zoo)]);
    for (key, value) in [
        ("num_envs_per_worker", Value::from(8)),
        ("rollout_fragment_length", 32.into()),
        ("train_batch_size", 256.into()),
        ("sgd_minibatch_size", 256.into()),
        ("lambda", 0.8.into()),
        ("lr_schedule", serde_json::json!([[0, 0.001], [100_000, 0.0]])),
        ("clip_param_schedule", serde_json::json!([[0, 0.2], [100_000, 0.0]])),
        ("use_sde", true.into()),
        ("sde_sample_freq", 4.into()),
        ("log_std_init", (-2.0).into()),
        // From the defaults of Stable-Baselines3.
        ("grad_clip", 0.5.into()),
        ("normalize_advantages", "minibatch_sample".into()),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert_eq!(config["model"]["fcnet_hiddens"], serde_json::json!([32, 32]));
    assert_eq!(config["model"]["fcnet_activation"], "relu");
    assert!(!said.contains("without a place here"), "{said}");
    let done = said;
    assert!(done.contains("n_steps -> rollout_fragment_length=32"), "{done}");
    assert!(done.contains("n_timesteps -> stop timesteps_total=100000"), "{done}");
    assert!(done.contains("policy_kwargs.log_std_init -> log_std_init=-2"), "{done}");
    pavlov(&["train", "PPO", "--env", "Acrobot-v1", "--from-sb3", text(&zoo)])
        .refused("has no settings for Acrobot-v1");
    // It runs, to the end that the file names unless another is given.
    let out = dir.path().join("run");
    let train = ["train", "PPO", "--env", "Pendulum-v1", "--from-sb3", text(&zoo), "--out", text(&out)];
    let ran = pavlov(&[&train[..], &["--stop", "training_iteration=1"]].concat()).ok();
    assert!(ran.stderr.starts_with("translated from "), "{}", ran.stderr);
    let run: Value =
        serde_json::from_slice(&std::fs::read(out.join("run.json")).expect("a file")).expect("JSON");
    assert_eq!(run["stop"]["timesteps_total"].as_f64(), Some(100_000.0));
}

#[test]
fn a_file_of_rl_baselines3_zoo_for_td3_or_ddpg_is_translated() {
    let dir = tempfile::tempdir().expect("a directory");
    let zoo = dir.path().join("zoo.yml");
    let yaml = "\
        Pendulum-v1:\n  n_timesteps: 20000\n  policy: 'MlpPolicy'\n  gamma: 0.98\n  buffer_size: 200000\n  \
        learning_starts: 10000\n  noise_type: 'normal'\n  noise_std: 0.2\n  gradient_steps: 1\n  train_freq: 1\n  \
        learning_rate: !!float 2e-3\n  policy_kwargs: \"dict(net_arch=[40, 30])\"\n";
    std::fs::write(&zoo, yaml).expect("written");
    for algorithm in ["TD3", "DDPG"] {
        let (config, said) = shown(&[algorithm, "--env", "Pendulum-v1", "--from-sb3", text(&zoo)]);
        for (key, value) in [
            ("actor_lr", Value::from(0.002)),
            ("critic_lr", 0.002.into()),
            ("gamma", 0.98.into()),
            ("actor_hiddens", serde_json::json!([40, 30])),
            ("critic_hiddens", serde_json::json!([40, 30])),
            // From the defaults of Stable-Baselines3.
            ("tau", 0.005.into()),
        ] {
            assert_eq!(config[key], value, "{key}");
        }
        assert_eq!(config["replay_buffer_config"]["learning_starts"], 10_000);
        let exploration = &config["exploration_config"];
        assert_eq!((&exploration["type"], &exploration["stddev"]), (&"GaussianNoise".into(), &0.2.into()));
        assert_eq!(exploration["random_timesteps"], 10_000);
        assert!(!said.contains("without a place here"), "{said}");
    }
}

#[test]
fn a_temperature_of_rl_baselines3_zoo_that_is_a_number_stays_and_one_that_is_auto_is_learnt() {
    let dir = tempfile::tempdir().expect("a directory");
    let zoo = dir.path().join("sac.yml");
    for (ent_coef, initial_alpha, entropy_learning_rate) in
        [("0.005", 0.005, 0.0), ("'auto_0.1'", 0.1, 0.002)]
    {
        let yaml =
            format!("Pendulum-v1:\n  n_timesteps: 20000\n  ent_coef: {ent_coef}\n  learning_rate: 0.002\n");
        std::fs::write(&zoo, yaml).expect("written");
        let (config, said) = shown(&["SAC", "--env", "Pendulum-v1", "--from-sb3", text(&zoo)]);
        assert_eq!(config["initial_alpha"], initial_alpha);
        assert_eq!(config["optimization"]["entropy_learning_rate"], entropy_learning_rate);
        assert_eq!(config["optimization"]["actor_learning_rate"], 0.002);
        assert!(!said.contains("without a place here"), "{said}");
    }
}

#[test]
fn a_file_of_rl_baselines3_zoo_is_read_as_the_class_that_names_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let written = |name: &str| {
        let zoo = dir.path().join(name);
        std::fs::write(&zoo, "Pendulum-v1:\n  n_timesteps: 20000\n  gamma: 0.95\n").expect("written");
        zoo
    };
    let (tqc, _) = shown(&["SAC", "--env", "Pendulum-v1", "--from-sb3", text(&written("tqc.yml"))]);
    assert_eq!((&tqc["n_quantiles"], &tqc["critic_loss"]), (&25.into(), &"huber".into()));
    let (sac, _) = shown(&["SAC", "--env", "Pendulum-v1", "--from-sb3", text(&written("sac.yml"))]);
    assert_ne!(sac["n_quantiles"], 25);
    // A2C's rollout of five steps is one minibatch.
    let (a2c, _) = shown(&["PPO", "--env", "Pendulum-v1", "--from-sb3", text(&written("a2c.yml"))]);
    assert_eq!(a2c["rollout_fragment_length"], 5);
    pavlov(&["config", "show", "PPO", "--env", "Pendulum-v1", "--from-sb3", text(&written("trpo.yml"))])
        .refused("has settings of TRPO, not of PPO");
}

#[test]
fn settings_of_rllib_are_translated_by_name_and_those_without_a_place_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.json");
    let json = r#"{
        "env": "CartPole-v1", "framework": "torch", "num_env_runners": 0, "train_batch_size_per_learner": 256,
        "minibatch_size": 64, "num_epochs": 2, "lambda_": 0.9, "lr": [[0, 0.001], [1000, 0.0]], "num_learners": 2,
        "num_aggregator_actors_per_learner": 1,
        "model": {"fcnet_hiddens": [16], "use_attention": false, "vf_share_layers": true}
    }"#;
    std::fs::write(&file, json).expect("written");
    let (config, said) = shown(&["PPO", "--from-rllib", text(&file)]);
    for (key, value) in [
        ("num_workers", Value::from(0)),
        ("num_learners", 2.into()),
        // RLlib says what each learner gets.
        ("train_batch_size", 512.into()),
        ("sgd_minibatch_size", 128.into()),
        ("num_sgd_iter", 2.into()),
        ("lambda", 0.9.into()),
        ("lr_schedule", serde_json::json!([[0, 0.001], [1000, 0.0]])),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert_eq!(config["model"]["fcnet_hiddens"], serde_json::json!([16]));
    let (_, left) = said.split_once("without a place here:").expect("two parts");
    assert!(left.contains("num_aggregator_actors_per_learner: 1") && !left.contains("framework"), "{said}");
}

/// The Zoo tunes Taxi-v3 and versions 2 and 4 of MuJoCo's tasks.
#[test]
fn a_file_of_the_zoo_serves_another_version_of_the_environment_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let zoo = dir.path().join("ppo.yml");
    let yaml = "\
        Taxi-v2:\n  n_steps: 128\nTaxi-v3:\n  n_steps: 256\n";
    std::fs::write(&zoo, yaml).expect("written");
    let (config, said) = shown(&["PPO", "--env", "Taxi-v4", "--from-sb3", text(&zoo)]);
    assert_eq!(config["rollout_fragment_length"], 256);
    assert!(said.contains("the settings of Taxi-v3 -> Taxi-v4"), "{said}");
    pavlov(&["train", "PPO", "--env", "Hopper-v5", "--from-sb3", text(&zoo)])
        .refused("has no settings for Hopper-v5");
}

#[test]
fn a_batch_size_of_the_zoo_above_its_rows_is_one_minibatch() {
    let dir = tempfile::tempdir().expect("a directory");
    let zoo = dir.path().join("ppo.yml");
    std::fs::write(&zoo, "CartPole-v1:\n  n_envs: 2\n  n_steps: 16\n  batch_size: 256\n").expect("written");
    let (config, said) = shown(&["PPO", "--env", "CartPole-v1", "--from-sb3", text(&zoo)]);
    assert_eq!((&config["train_batch_size"], &config["sgd_minibatch_size"]), (&32.into(), &32.into()));
    assert!(said.contains("one minibatch"), "{said}");
}

#[test]
fn settings_of_newer_rllibs_have_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.json");
    let json = r#"{
        "env": "CartPole-v1", "rollout_fragment_length": "auto", "evaluation_interval": 1,
        "evaluation_num_env_runners": 1, "enable_env_runner_and_connector_v2": true, "enable_rl_module_and_learner": true
    }"#;
    std::fs::write(&file, json).expect("written");
    let (config, said) = shown(&["PPO", "--from-rllib", text(&file)]);
    assert_eq!(config["evaluation_num_workers"], 1);
    assert!(said.contains("rollout_fragment_length: \"auto\" -> the default"), "{said}");
    assert!(said.contains("enable_env_runner_and_connector_v2: true -> nothing"), "{said}");
}
