"""The cells of the matrix: algorithm x options x recurrent layers x agents x masks x filters x ends and cuts."""

from itertools import product

GYM = "py:recompute.envs.clockwork:Clockwork"
TEAM = "pz:recompute.envs.team"

#: Networks and batches that are small enough for seconds per cell.
SMALL = {"num_workers": 0, "rollout_fragment_length": 20, "seed": 3, "log_batches": 4, "gamma": 0.9}
MODEL = {"model.fcnet_hiddens": [8, 8]}

PPO = SMALL | MODEL | {"train_batch_size": 40, "num_envs_per_worker": 2, "sgd_minibatch_size": 20, "num_sgd_iter": 2,
                       "lr": 0.003, "grad_clip": 0.5, "entropy_coeff": 0.01, "lambda": 0.8}
IMPALA = SMALL | MODEL | {"train_batch_size": 40, "num_envs_per_worker": 2, "lr": 0.003,
                          "min_sample_timesteps_per_reporting": 80}
REPLAY = {"rollout_fragment_length": 4, "min_sample_timesteps_per_reporting": 60, "train_batch_size": 16,
          "replay_buffer_config.learning_starts": 30, "replay_buffer_config.capacity": 200}
DQN = SMALL | MODEL | REPLAY | {"hiddens": [8], "grad_clip": 0.5, "target_network_update_freq": 12, "lr": 0.003}
SAC = SMALL | REPLAY | {"policy_model_config.fcnet_hiddens": [8, 8], "q_model_config.fcnet_hiddens": [8, 8],
                        "grad_clip": 0.5}
DDPG = SMALL | REPLAY | {"actor_hiddens": [8, 8], "critic_hiddens": [8, 8], "grad_clip": 0.5}
TEAMS = {"count_steps_by": "env_steps"}
QMIX = SMALL | MODEL | REPLAY | {"mixing_embed_dim": 4, "target_network_update_freq": 12, "lr": 0.003}

LSTM = {"model.use_lstm": True, "model.lstm_cell_size": 5, "model.max_seq_len": 5}
GRU = {"model.use_gru": True, "model.lstm_cell_size": 5, "model.max_seq_len": 5}
FILTER = {"observation_filter": "MeanStdFilter"}
PRIORITIES = {"replay_buffer_config.type": "PrioritizedReplayBuffer"}
UNIFORM = {"replay_buffer_config.type": "ReplayBuffer"}
SQUASH = {"model.vf_share_layers": True}


def gym(actions="discrete", end="both", masks=False, obs="box"):
    kwargs = {"actions": actions, "end": end, "masks": masks, "obs": obs}
    return GYM, {"env_config.kwargs": kwargs, "env_config.num_workers": 1} | ({"mask_actions": True} if masks else {})


def team(end="both", together=False, masks=False):
    kwargs = {"end": end, "together": together, "masks": masks}
    return TEAM, {"env_config.kwargs": kwargs} | ({"mask_actions": True} if masks else {})


def cells():
    """Yields name, algorithm, environment and settings of every cell."""
    found = {}

    def add(algorithm, what, base, env, *more):
        env_id, settings = env
        for extra in more:
            settings = settings | extra
        name = f"{algorithm} {what}"
        assert name not in found, name
        found[name] = (algorithm, env_id, base | settings)

    ends = ["term", "trunc", "both"]
    ppo = {
        "plain": {}, "shared": SQUASH, "relu": {"model.fcnet_activation": "relu"}, "filter": FILTER,
        "no KL": {"kl_coeff": 0.0}, "around_old": {"vf_clip": "around_old", "vf_clip_param": 0.1},
        "clipped": {"vf_clip": "clipped", "vf_clip_param": 0.1}, "no value clip": {"vf_clip": "none"},
        "bounded": {"vf_clip_param": 0.3}, "minibatch": {"normalize_advantages": "minibatch"},
        "sample": {"normalize_advantages": "minibatch_sample"}, "raw": {"normalize_advantages": "none"},
        "rmsprop": {"opt_type": "rmsprop"}, "tight clip": {"clip_param": 0.01, "num_sgd_iter": 4},
        "A2C": {"opt_type": "rmsprop", "num_sgd_iter": 1, "sgd_minibatch_size": 40, "lambda": 1.0, "kl_coeff": 0.0,
                "vf_clip": "none", "normalize_advantages": "none"},
        "lstm": LSTM, "gru": GRU, "lstm filter": LSTM | FILTER, "target KL": {"target_kl": 1e-7},
        "episodes": {"batch_mode": "complete_episodes"}, "schedules": {"lr_schedule": [[0, 0.01], [80, 0.0001]]},
        "rewards clipped": {"clip_rewards": True}, "no critic": {
            "use_critic": False, "use_gae": False, "batch_mode": "complete_episodes"},
    }
    for (name, options), end in product(ppo.items(), ends):
        add("PPO", f"{name} {end}", PPO, gym(end=end), options)
    for actions, name in product(["multi", "binary", "box"], ["plain", "lstm", "no KL", "shared", "A2C"]):
        add("PPO", f"{actions} {name}", PPO, gym(actions), ppo[name])
    add("PPO", "box free log std", PPO, gym("box"), {"model.free_log_std": True})
    add("PPO", "discrete observations", PPO, gym(obs="discrete"))
    for name in ["plain", "lstm", "gru", "shared", "A2C", "filter", "episodes"]:
        add("PPO", f"masks {name}", PPO, gym(masks=True), ppo[name])
    for name, end, masks in product(["plain", "lstm", "filter"], ["term", "both"], [False, True]):
        add("PPO", f"agents {name} {end}{' masks' * masks}", PPO, team(end, masks=masks), ppo[name])
    add("PPO", "global_state", PPO, team(together=True), {"multiagent.observation_fn": "global_state"})
    two = {"multiagent.policies": ["one", "rest"], "multiagent.policy_mapping_fn": {"a": "one", "*": "rest"}}
    add("PPO", "two policies", PPO, team(), two)

    impala = {"plain": {}, "rmsprop": {"opt_type": "rmsprop", "momentum": 0.5}, "lstm": LSTM, "gru": GRU,
              "separate": {"model.vf_share_layers": False}, "clips": {"vtrace_clip_rho_threshold": 0.9,
                                                                     "vtrace_clip_pg_rho_threshold": 0.8},
              "filter": FILTER, "twice": {"num_sgd_iter": 2}}
    for (name, options), end in product(impala.items(), ends):
        add("IMPALA", f"{name} {end}", IMPALA, gym(end=end), options)
    for actions in ["multi", "binary", "box"]:
        add("IMPALA", f"{actions}", IMPALA, gym(actions))
    for name in ["plain", "lstm", "filter"]:
        add("IMPALA", f"masks {name}", IMPALA, gym(masks=True), impala[name])
        add("IMPALA", f"agents {name}", IMPALA, team(), impala[name])
    add("IMPALA", "agents masks", IMPALA, team(masks=True))

    dqn = {"plain": {}, "not double": {"double_q": False}, "not dueling": {"dueling": False},
           "C51": {"num_atoms": 11, "v_min": -4.0, "v_max": 4.0}, "n-step": {"n_step": 3}, "uniform": UNIFORM,
           "prioritized": PRIORITIES, "filter": FILTER,
           "rainbow": PRIORITIES | {"num_atoms": 11, "v_min": -4.0, "v_max": 4.0, "n_step": 3}}
    for (name, options), end in product(dqn.items(), ends):
        add("DQN", f"{name} {end}", DQN, gym(end=end), options)
    for name in ["plain", "C51", "n-step", "rainbow"]:
        add("DQN", f"masks {name}", DQN, gym(masks=True), dqn[name])
        add("DQN", f"agents {name}", DQN, team(), dqn[name])
        add("DQN", f"agents masks {name}", DQN, team(masks=True), dqn[name])
    add("DQN", "noisy", DQN, gym(), {"noisy": True})

    sac = {"plain": {}, "mse": {"critic_loss": "mse"}, "one critic": {"twin_q": False}, "n-step": {"n_step": 3},
           "prioritized": PRIORITIES, "critics first": {"update_order": "critics_first"},
           "temperature": {"initial_alpha": 0.2, "target_entropy": -0.5}, "filter": FILTER,
           "decay": {"optimization.weight_decay": 0.01}}
    for (name, options), end in product(sac.items(), ["term", "both"]):
        add("SAC", f"box {name} {end}", SAC, gym("box", end=end), options)
        add("SAC", f"discrete {name} {end}", SAC, gym(end=end), options)
    add("SAC", "discrete masks", SAC, gym(masks=True))
    add("SAC", "discrete masks critics first", SAC, gym(masks=True), sac["critics first"])
    add("SAC", "log_std_min", SAC, gym("box"), {"log_std_min": -20.0, "log_prob_epsilon": 1e-6})
    tqc = {"n_quantiles": 5, "n_critics": 3, "top_quantiles_to_drop_per_net": 1}
    for name, end in product(["plain", "n-step", "prioritized", "critics first", "filter"], ["term", "both"]):
        add("SAC", f"TQC {name} {end}", SAC, gym("box", end=end), tqc, sac[name])

    ddpg = {"plain": {}, "twin": {"twin_q": True}, "huber": {"use_huber": True}, "n-step": {"n_step": 3},
            "uniform": UNIFORM, "critics first": {"update_order": "critics_first"}, "l2": {"l2_reg": 0.01},
            "filter": FILTER}
    for (name, options), end in product(ddpg.items(), ["term", "both"]):
        add("DDPG", f"{name} {end}", DDPG, gym("box", end=end), options)
        add("TD3", f"{name} {end}", DDPG, gym("box", end=end), options)

    qmix = {"QMIX": {}, "VDN": {"mixer": "vdn"}, "alone": {"mixer": None}, "not double": {"double_q": False},
            "n-step": {"n_step": 3}, "prioritized": PRIORITIES}
    for (name, options), end in product(qmix.items(), ["term", "both"]):
        add("QMIX", f"{name} {end}", QMIX, team(end, together=True), options)
    for name in ["QMIX", "VDN"]:
        add("QMIX", f"masks {name}", QMIX, team(together=True, masks=True), qmix[name])
    built_in = {"PPO": (PPO, ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "simple_spread_v3"]),
                "IMPALA": (IMPALA, ["CartPole-v1", "simple_spread_v3"]),
                "DQN": (DQN, ["CartPole-v1", "FrozenLake-v1"]), "SAC": (SAC, ["Pendulum-v1", "CartPole-v1"]),
                "DDPG": (DDPG, ["Pendulum-v1"]), "TD3": (DDPG, ["Pendulum-v1"]), "QMIX": (QMIX, ["simple_spread_v3"])}
    for algorithm, (base, ids) in built_in.items():
        for env_id in ids:
            add(algorithm, env_id, base, (env_id, {}))
    return found


#: One cell of each kind, for a check of a minute.
FEW = ["PPO plain both", "PPO lstm both", "PPO agents plain both masks", "PPO box plain", "IMPALA plain both",
       "DQN rainbow both", "SAC box plain both", "SAC discrete masks", "SAC TQC plain both", "TD3 plain both",
       "QMIX QMIX both"]
