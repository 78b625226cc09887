//! Values that break a rule, each with its error word for word.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::registry;
use pavlov::trainer::policy::Spaces;
use pavlov::tune::config::Layer;
use serde_json::json;

use super::{configure, dqn, object, ppo};
use crate::support::refused;

#[test]
fn a_value_of_the_wrong_kind_names_field_value_and_rule() {
    for (config, text) in [
        (json!({"gamma": "high"}), "`gamma` is \"high\", but it must be a number"),
        (json!({"num_workers": -1}), "`num_workers` is -1, but it must be a whole number, 0 or more"),
        (json!({"num_workers": 1.5}), "`num_workers` is 1.5, but it must be a whole number, 0 or more"),
        (json!({"use_gae": 1}), "`use_gae` is 1, but it must be true or false"),
        (json!({"batch_mode": "whole"}), "`batch_mode` is \"whole\", but it must be "),
        (
            json!({"model": {"fcnet_activation": "cube"}}),
            "`model.fcnet_activation` is \"cube\", but it must be ",
        ),
        (
            json!({"evaluation_duration": "long"}),
            "`evaluation_duration` is \"long\", but it must be a whole number, 1 or more, or \"auto\"",
        ),
        (
            json!({"evaluation_duration": 1.5}),
            "`evaluation_duration` is 1.5, but it must be a whole number, 1 or more, or \"auto\"",
        ),
        (json!({"env": 3}), "`env` is 3, but it must be the id of an environment"),
    ] {
        refused(ppo(config), &[text]);
    }
}

/// Every rule of the common settings and of PPO, word for word.
#[test]
fn ppo_rules_name_field_value_and_rule() {
    for (config, text) in [
        (json!({"num_envs_per_worker": 0}), "`num_envs_per_worker` is 0, but it must be at least 1"),
        (json!({"rollout_fragment_length": 0}), "`rollout_fragment_length` is 0, but it must be at least 1"),
        (json!({"train_batch_size": 0}), "`train_batch_size` is 0, but it must be at least 1"),
        (
            json!({"metrics_num_episodes_for_smoothing": 0}),
            "`metrics_num_episodes_for_smoothing` is 0, but it must be at least 1",
        ),
        (json!({"gamma": 1.5}), "`gamma` is 1.5, but it must be in 0..=1"),
        (
            json!({"evaluation_interval": 0}),
            "`evaluation_interval` is 0, but it must be at least 1; null evaluates never",
        ),
        (json!({"evaluation_duration": 0}), "`evaluation_duration` is 0, but it must be at least 1"),
        (
            json!({"evaluation_duration": "auto"}),
            "`evaluation_duration` is \"auto\", but that is as long as the training beside it takes: set `evaluation_parallel_to_training`, or give a number",
        ),
        (
            json!({"sample_async": true, "num_workers": 0}),
            "`sample_async` is true, but there are no workers to sample while the trainer learns: set `num_workers` to at least 1",
        ),
        (
            json!({"evaluation_parallel_to_training": true}),
            "`evaluation_parallel_to_training` is true, but it needs workers of its own: set `evaluation_num_workers` to at least 1",
        ),
        (json!({"num_gpus": 2}), "`num_gpus` is 2, but learning on more than one GPU is not there yet"),
        (
            json!({"min_time_s_per_reporting": 0}),
            "`min_time_s_per_reporting` is 0, but it must be a number of seconds above 0, or null",
        ),
        (
            json!({"worker_timeout_s": -1}),
            "`worker_timeout_s` is -1, but it must be a number of seconds above 0, or null",
        ),
        (
            json!({"worker_health_probe_timeout_s": 0}),
            "`worker_health_probe_timeout_s` is 0, but it must be a number of seconds above 0, or null",
        ),
        (
            json!({"placement_strategy": "SPREAD"}),
            "`placement_strategy` is \"SPREAD\", but only workers on a Ray cluster have it: set `workers` to \"ray\" or leave it out",
        ),
        (
            json!({"workers": "procs", "num_gpus_per_worker": 0.5}),
            "`num_gpus_per_worker` is 0.5, but only workers on a Ray cluster have it: set `workers` to \"ray\" or leave it out",
        ),
        (
            json!({"custom_resources_per_worker": {"simulator": 1}}),
            "`custom_resources_per_worker` is {\"simulator\":1.0}, but only workers on a Ray cluster have it: set `workers` to \"ray\" or leave it out",
        ),
        (
            json!({"label_selector_per_worker": {"region": "us-west4"}}),
            "`label_selector_per_worker` is {\"region\":\"us-west4\"}, but only workers on a Ray cluster have it: set `workers` to \"ray\" or leave it out",
        ),
        (
            json!({"workers": "ray", "custom_resources_per_worker": {"CPU": 1}}),
            "`custom_resources_per_worker` is {\"CPU\":1.0}, but it must give names of resources, other than Ray's own, a number each, 0 or more",
        ),
        (
            json!({"workers": "fibres:2"}),
            "`workers` is \"fibres:2\", but it must be \"threads\", \"procs\" or \"ray\", with a number of workers behind it or not: \"procs:4\"",
        ),
        (
            json!({"clip_rewards": -2.0}),
            "`clip_rewards` is -2.0, but it must be true, false, null or a number above 0",
        ),
        (
            json!({"model": {"fcnet_hiddens": [64, 0]}}),
            "`model.fcnet_hiddens` is [64, 0], but every layer needs at least one unit",
        ),
        (
            json!({"model": {"fcnet_hiddens": [], "no_final_linear": true}}),
            "`model.no_final_linear` is true, but without a final linear layer there must be a hidden one; add to `model.fcnet_hiddens`",
        ),
        (
            json!({"sgd_minibatch_size": 5000}),
            "`sgd_minibatch_size` is 5000, but it must be in 1..=4000 (`train_batch_size`)",
        ),
        (
            json!({"sgd_minibatch_size": 0}),
            "`sgd_minibatch_size` is 0, but it must be in 1..=4000 (`train_batch_size`)",
        ),
        (
            json!({"sgd_minibatch_size": 1, "normalize_advantages": "minibatch"}),
            "`sgd_minibatch_size` is 1, but it must be at least 2: advantages are normalised over these rows, and one row has nothing to be compared with; or set `normalize_advantages` to \"none\"",
        ),
        (
            json!({"sgd_minibatch_size": 1, "normalize_advantages": "minibatch_sample"}),
            "`sgd_minibatch_size` is 1, but it must be at least 2: advantages are normalised over these rows, and one row has nothing to be compared with; or set `normalize_advantages` to \"none\"",
        ),
        (
            json!({"num_workers": 0, "train_batch_size": 1, "rollout_fragment_length": 1, "sgd_minibatch_size": 1}),
            "`train_batch_size` is 1, but it must be at least 2: advantages are normalised over these rows, and one row has nothing to be compared with; or set `normalize_advantages` to \"none\"",
        ),
        (json!({"num_sgd_iter": 0}), "`num_sgd_iter` is 0, but it must be at least 1"),
        (json!({"lr": 0}), "`lr` is 0, but it must be above 0"),
        (json!({"clip_param": -0.1}), "`clip_param` is -0.1, but it must be above 0"),
        (json!({"vf_clip_param": 0}), "`vf_clip_param` is 0, but it must be above 0"),
        (json!({"entropy_coeff": -0.1}), "`entropy_coeff` is -0.1, but it must not be negative"),
        (json!({"vf_loss_coeff": -1}), "`vf_loss_coeff` is -1, but it must not be negative"),
        (json!({"kl_coeff": -1}), "`kl_coeff` is -1, but it must not be negative"),
        (json!({"kl_target": -1}), "`kl_target` is -1, but it must not be negative"),
        (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null"),
        (json!({"target_kl": 0}), "`target_kl` is 0, but it must be above 0, or null"),
        (json!({"lambda": 1.1}), "`lambda` is 1.1, but it must be in 0..=1"),
        (
            json!({"use_critic": false}),
            "`use_critic` is false, but `use_gae` needs a critic; set both or neither",
        ),
        (
            json!({"use_gae": false}),
            "`use_gae` is false, but fragments of episodes need it to bootstrap; set it, or `batch_mode` to \"complete_episodes\"",
        ),
        (
            json!({"lr_schedule": [[10, 0.1], [5, 0.2]]}),
            "`lr_schedule` is [[10,0.1],[5,0.2]], but it must be a list of at least one [step, value], steps growing, values finite",
        ),
        (
            json!({"entropy_coeff_schedule": []}),
            "`entropy_coeff_schedule` is [], but it must be a list of at least one [step, value], steps growing, values finite",
        ),
        (
            json!({"exploration_config": {"type": "Random"}}),
            "`exploration_config` is {\"type\":\"Random\"}, but PPO learns from its own samples: only {\"type\": \"StochasticSampling\"} keeps them so",
        ),
    ] {
        assert_eq!(refused(ppo(config), &[]), text);
    }
}

#[test]
fn dqn_rules_name_field_value_and_rule() {
    for (config, text) in [
        (
            json!({"replay_buffer_config": {"capacity": 0}}),
            "`replay_buffer_config.capacity` is 0, but it must be at least 1",
        ),
        (
            json!({"replay_buffer_config": {"capacity": 500}}),
            "`replay_buffer_config.learning_starts` is 1000, but it must be at most 500 (`replay_buffer_config.capacity`), or learning never starts",
        ),
        (
            json!({"replay_buffer_config": {"capacity": 16, "learning_starts": 0}}),
            "`replay_buffer_config.capacity` is 16, but it must be at least 32 (`train_batch_size`)",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_alpha": 1.5}}),
            "`replay_buffer_config.prioritized_replay_alpha` is 1.5, but it must be in 0..=1",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_beta": -1}}),
            "`replay_buffer_config.prioritized_replay_beta` is -1, but it must be in 0..=1",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_eps": 0}}),
            "`replay_buffer_config.prioritized_replay_eps` is 0, but it must be above 0",
        ),
        (json!({"n_step": 0}), "`n_step` is 0, but it must be at least 1"),
        (json!({"num_atoms": 0}), "`num_atoms` is 0, but it must be at least 1"),
        (json!({"hiddens": [0]}), "`hiddens` is [0], but every layer needs at least one unit"),
        (json!({"lr": -1}), "`lr` is -1, but it must be above 0"),
        (json!({"sigma0": 0}), "`sigma0` is 0, but it must be above 0"),
        (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null"),
        (json!({"training_intensity": 0}), "`training_intensity` is 0, but it must be above 0, or null"),
        (
            json!({"num_atoms": 51, "v_min": 10, "v_max": 5}),
            "`v_min` is 10, but it must be below 5 (`v_max`)",
        ),
        (
            json!({"worker_side_prioritization": true, "replay_buffer_config": {"type": "ReplayBuffer"}}),
            "`worker_side_prioritization` is true, but it needs `replay_buffer_config.type` to be \"PrioritizedReplayBuffer\"",
        ),
        (
            json!({"exploration_config": {"type": "StochasticSampling"}}),
            "`exploration_config.type` is \"StochasticSampling\", but values have no distribution to sample; use EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or Random",
        ),
        (
            json!({"exploration_config": {"initial_epsilon": 1.5}}),
            "`exploration_config.initial_epsilon` is 1.5, but it must be in 0..=1",
        ),
        (
            json!({"exploration_config": {"type": "SoftQ", "temperature": 0}}),
            "`exploration_config.temperature` is 0, but it must be above 0",
        ),
    ] {
        assert_eq!(refused(dqn(config), &[]), text);
    }
}

#[test]
fn sac_rules_name_field_value_and_rule() {
    let sac = |config| {
        let space = Space::boxed(-1.0, 1.0, &[2]);
        configure::<Sac>(config, &Spaces { observation_space: Space::real(&[3]), action_space: space })
    };
    assert!(sac(json!({"model": {"fused": false}})).is_ok());
    for (config, text) in [
        (json!({"tau": 2}), "`tau` is 2, but it must be in 0..=1"),
        (json!({"initial_alpha": 0}), "`initial_alpha` is 0, but it must be above 0"),
        (
            json!({"target_entropy": -1, "optimization": {"entropy_learning_rate": 0}}),
            "`target_entropy` is -1, but `optimization.entropy_learning_rate` is 0, so nothing aims at it: leave it out",
        ),
        (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null"),
        (json!({"n_step": 0}), "`n_step` is 0, but it must be at least 1"),
        (
            json!({"optimization": {"actor_learning_rate": 0}}),
            "`optimization.actor_learning_rate` is 0, but it must be above 0",
        ),
        (
            json!({"q_model_config": {"fcnet_hiddens": [64, 0]}}),
            "`q_model_config.fcnet_hiddens` is [64, 0], but every layer needs at least one unit",
        ),
        (
            json!({"q_model_config": {"architecture": "simba", "fcnet_hiddens": [64, 32]}}),
            "`q_model_config.fcnet_hiddens` is [64, 32], but a `simba` network needs at least one block, and all of its blocks \
             have the same number of units",
        ),
        (
            json!({"policy_model_config": {"architecture": "simba", "layer_norm": true}}),
            "`policy_model_config.layer_norm` is true, but a `simba` network has its own layer normalisation: leave it out",
        ),
        (
            json!({"log_std_init": -2}),
            "`log_std_init` is -2, but no standard deviation is a parameter, as with `use_sde` or in PPO with \
             `model.free_log_std`: leave it out",
        ),
        (
            json!({"use_sde": true, "exploration_config": {"type": "GaussianNoise"}}),
            "`exploration_config.type` is \"GaussianNoise\", but gSDE (`use_sde`) is noise already: use StochasticSampling",
        ),
        (json!({"n_critics": 0}), "`n_critics` is 0, but it must be at least 1"),
        (json!({"n_quantiles": 0}), "`n_quantiles` is 0, but it must be at least 1"),
        (
            json!({"n_quantiles": 2}),
            "`top_quantiles_to_drop_per_net` is 2, but it must be below `n_quantiles` (2)",
        ),
        (
            json!({"n_quantiles": 25, "critic_loss": "mse"}),
            "`critic_loss` is mse, but quantiles learn by the quantile Huber loss: set it to \"huber\"",
        ),
        (
            json!({"exploration_config": {"type": "EpsilonGreedy"}}),
            "`exploration_config.type` is \"EpsilonGreedy\", but SAC explores by its own distribution: use StochasticSampling, or \
             a noise that is added to its draws",
        ),
        (
            json!({"optimization": {"weight_decay": -0.1}}),
            "`optimization.weight_decay` is -0.1, but it must not be negative",
        ),
        (
            json!({"normalize_actions": false}),
            "`normalize_actions` is false, but SAC acts in [-1, 1]; leave it true, so that actions are stretched to the bounds",
        ),
        (
            json!({"model": {"use_gru": true}}),
            "`model.use_gru` is true, but the replay buffer keeps rows, not sequences, so far; leave it out, or use PPO",
        ),
    ] {
        assert_eq!(refused(sac(config), &[]), text);
    }
    let choices = configure::<Sac>(
        json!({"n_quantiles": 25}),
        &Spaces { observation_space: Space::real(&[3]), action_space: Space::discrete(2) },
    );
    refused(
        choices,
        &["`n_quantiles` is 25, but critics of discrete actions learn one number", "leave it at 1"],
    );
    let ignored = sac(json!({"model": {"fcnet_hiddens": [8]}}));
    refused(ignored, &["`model` is", "SAC reads nothing of it but `fused`", "`policy_model_config`"]);
}

#[test]
fn ddpg_and_td3_rules_name_field_value_and_rule() {
    fn check<T: Trainer>() {
        let configured = |config| {
            let action_space = Space::boxed(-1.0, 1.0, &[2]);
            configure::<T>(config, &Spaces { observation_space: Space::real(&[3]), action_space })
        };
        for kind in ["GaussianNoise", "PerWorkerGaussianNoise", "OrnsteinUhlenbeckNoise", "Random"] {
            let config = json!({"model": {"fused": false}, "exploration_config": {"type": kind}});
            assert!(configured(config).is_ok(), "{kind}");
        }
        for (config, text) in [
            (json!({"tau": 2}), "`tau` is 2, but it must be in 0..=1".to_owned()),
            (json!({"policy_delay": 0}), "`policy_delay` is 0, but it must be at least 1".into()),
            (json!({"actor_lr": 0}), "`actor_lr` is 0, but it must be above 0".into()),
            (json!({"critic_lr": 0}), "`critic_lr` is 0, but it must be above 0".into()),
            (json!({"huber_threshold": 0}), "`huber_threshold` is 0, but it must be above 0".into()),
            (json!({"target_noise": -1}), "`target_noise` is -1, but it must not be negative".into()),
            (json!({"target_noise_clip": -1}), "`target_noise_clip` is -1, but it must not be negative".into()),
            (json!({"l2_reg": -1}), "`l2_reg` is -1, but it must not be negative".into()),
            (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null".into()),
            (
                json!({"actor_hiddens": [64, 0]}),
                "`actor_hiddens` is [64, 0], but every layer needs at least one unit".into(),
            ),
            (
                json!({"exploration_config": {"type": "EpsilonGreedy"}}),
                format!(
                    "`exploration_config.type` is \"EpsilonGreedy\", but {} has no distribution to sample; use \
                     GaussianNoise, OrnsteinUhlenbeckNoise or Random",
                    T::NAME
                ),
            ),
            (
                json!({"normalize_actions": false}),
                format!(
                    "`normalize_actions` is false, but {} acts in [-1, 1]; leave it true, so that actions are \
                     stretched to the bounds",
                    T::NAME
                ),
            ),
            (
                json!({"use_state_preprocessor": true}),
                "`use_state_preprocessor` is true, but this setting of Ray's has no meaning here: the networks read observations themselves: add layers to \
                 `actor_hiddens` and `critic_hiddens`"
                    .into(),
            ),
        ] {
            assert_eq!(refused(configured(config), &[]), text);
        }
        let ignored = configured(json!({"model": {"fcnet_hiddens": [8]}}));
        refused(ignored, &["`model` is", T::NAME, "reads nothing of it but `fused`", "`actor_hiddens`"]);
    }
    check::<Ddpg>();
    check::<Td3>();
}

#[test]
fn spaces_that_an_algorithm_cannot_serve_are_refused() {
    let spaces = |action_space| Spaces { observation_space: Space::real(&[1]), action_space };
    let real = configure::<Dqn>(json!({}), &spaces(Space::boxed(-1.0, 1.0, &[1])));
    refused(real, &["DQN needs a Discrete action space, but the environment's is Box"]);
    let endless = configure::<Sac>(json!({}), &spaces(Space::real(&[1])));
    let bounds = "needs a Box action space with finite bounds";
    refused(endless, &["SAC", bounds, "wrap the environment in an `Env` that names bounds", "or use PPO"]);
    let noise = json!({"exploration_config": {"type": "GaussianNoise"}});
    let choices = configure::<Sac>(noise, &spaces(Space::discrete(2)));
    refused(
        choices,
        &["`exploration_config.type` is \"GaussianNoise\"", "these are choices", "StochasticSampling"],
    );
    let endless = configure::<Td3>(json!({}), &spaces(Space::real(&[1])));
    refused(endless, &["TD3", bounds, "wrap the environment in an `Env` that names bounds", "or use PPO"]);
    let choices = configure::<Td3>(json!({}), &spaces(Space::discrete(2)));
    refused(choices, &["TD3", bounds, "DQN, PPO and SAC take discrete actions", "is Discrete(2)"]);
    let choices = configure::<Ddpg>(json!({}), &spaces(Space::discrete(2)));
    refused(choices, &["DDPG", bounds, "DQN, PPO and SAC take discrete actions", "is Discrete(2)"]);
    let nested = configure::<Ppo>(json!({}), &spaces(Space::Tuple(vec![Space::discrete(2)])));
    refused(nested, &["needs a Discrete, MultiDiscrete, MultiBinary or Box action space"]);
}

#[test]
fn all_broken_rules_are_reported_at_once() {
    let config = json!({"gamma": 1.5, "lr": -1, "lambda": 2, "num_sgd_iter": 0, "num_gpus": 2});
    assert_eq!(
        refused(ppo(config), &[]),
        "5 settings are refused:\n  \
         `gamma` is 1.5, but it must be in 0..=1\n  \
         `num_gpus` is 2, but learning on more than one GPU is not there yet\n  \
         `num_sgd_iter` is 0, but it must be at least 1\n  \
         `lr` is -1, but it must be above 0\n  \
         `lambda` is 2, but it must be in 0..=1"
    );
    // Rules that would divide by zero leave that refusal to the rule of the zero.
    refused(
        ppo(json!({"num_envs_per_worker": 0, "lr": 0})),
        &["2 settings", "`num_envs_per_worker`", "`lr`"],
    );
}

#[test]
fn all_keys_that_cannot_be_and_all_values_of_the_wrong_kind_are_reported_at_once() {
    let config = json!({"learning_rate": 1, "horizon": 5, "model": {"fcnet_hidden": []}});
    let texts = ["3 settings are refused", "`horizon` is 5", "`learning_rate`", "`model.fcnet_hidden`"];
    refused(ppo(config), &texts);
    let config = json!({"gamma": "high", "num_workers": -1, "lr": "low", "use_gae": 1});
    refused(ppo(config), &["4 settings are refused", "`gamma`", "`num_workers`", "`lr`", "`use_gae`"]);
}

#[test]
fn a_setting_that_a_schedule_replaces_is_refused_with_the_name_of_the_schedule() {
    let scheduled = registry::algorithm("PPO").expect("it is registered");
    let layer = |origin: &str, values| Layer { origin: origin.into(), values: object(values) };
    let resolve = |set| {
        let preset = layer("preset", json!({"lr": 1e-3, "lr_schedule": [[0, 1e-3], [1000, 0.0]]}));
        scheduled.resolve(vec![preset, layer("--set", set)])
    };
    let text = "`lr` is 0.1, but it has no effect: `lr_schedule` is [[0,0.001],[1000,0.0]] and replaces it; \
                set `lr_schedule` to null as well, or leave `lr` out";
    assert_eq!(refused(resolve(json!({"lr": 0.1})), &[]), text);
    let config = resolve(json!({"lr": 0.1, "lr_schedule": null})).expect("the schedule is off").config;
    assert_eq!(config["lr"], 0.1);
    resolve(json!({"entropy_coeff": 0.1})).expect("no schedule replaces it");
    let epsilon = json!({"exploration_config": {"epsilon_schedule": [[0, 1.0]]}});
    let over = json!({"exploration_config": {"final_epsilon": 0.1}});
    let dqn = registry::algorithm("DQN").expect("it is registered");
    let layers = vec![layer("preset", epsilon), layer("--set", over)];
    refused(dqn.resolve(layers), &["`exploration_config.final_epsilon` is 0.1", "epsilon_schedule"]);
}
