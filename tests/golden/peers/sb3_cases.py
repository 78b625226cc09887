"""The cases of `sb3.py`: each algorithm by its constructor's defaults, then with one argument changed at a time."""

from sb3 import CHOICES, SEVERAL, SmallCNN, off_policy, on_policy
from sb3_contrib import TQC, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3


# gSDE with standard deviations that are far from those at its start.
SDE = {"use_sde": True}
SOME = {"log_std_init": -0.5}


def sde(made):
    """The cases of gSDE; `made` makes one of the argument's name, the arguments, the settings and `policy_kwargs`."""
    return [
        made("use_sde=True", SDE, SDE, {}),
        made("use_sde=True, log_std_init=-0.5", SDE, SDE | SOME, SOME),
        made("use_sde=True, use_expln=True", SDE, SDE | {"use_expln": True}, {"use_expln": True}),
        made("use_sde=True, use_expln=True, log_std_init=1", SDE, SDE | {"use_expln": True, "log_std_init": 1}, {"use_expln": True, "log_std_init": 1.0}),
    ]


def ppo():
    def by_sde(argument, arguments, settings, kwargs):
        return on_policy(PPO, f"{argument}, ent_coef=0.02, n_epochs=4", {"ent_coef": 0.02, "n_epochs": 4, **arguments}, {"entropy_coeff": 0.02, **settings}, kwargs=kwargs)

    return [
        on_policy(PPO, "defaults", {}, {}),
        on_policy(PPO, "Discrete", {}, {}, CHOICES),
        on_policy(PPO, "MultiDiscrete", {}, {}, SEVERAL),
        on_policy(PPO, "clip_range=0.05", {"clip_range": 0.05}, {"clip_param": 0.05}),
        on_policy(PPO, "clip_range_vf=0.1", {"clip_range_vf": 0.1}, {"vf_clip": "clipped", "vf_clip_param": 0.1}),
        on_policy(PPO, "ent_coef=0.02", {"ent_coef": 0.02}, {"entropy_coeff": 0.02}),
        on_policy(PPO, "ent_coef=0.02, Discrete", {"ent_coef": 0.02}, {"entropy_coeff": 0.02}, CHOICES),
        on_policy(PPO, "ent_coef=0.02, MultiDiscrete", {"ent_coef": 0.02}, {"entropy_coeff": 0.02}, SEVERAL),
        on_policy(PPO, "vf_coef=0.1", {"vf_coef": 0.1}, {"vf_loss_coeff": 0.1}),
        on_policy(PPO, "max_grad_norm=0.01", {"max_grad_norm": 0.01}, {"grad_clip": 0.01}),
        on_policy(PPO, "max_grad_norm=100", {"max_grad_norm": 100.0}, {"grad_clip": 100.0}),
        on_policy(PPO, "target_kl=0.001", {"target_kl": 0.001}, {"target_kl": 0.001}),
        on_policy(PPO, "target_kl=1", {"target_kl": 1.0}, {"target_kl": 1.0}),
        on_policy(PPO, "normalize_advantage=False", {"normalize_advantage": False}, {"normalize_advantages": "none"}),
        on_policy(PPO, "n_epochs=4", {"n_epochs": 4}, {}),
        on_policy(PPO, "learning_rate=0.01, n_epochs=4", {"learning_rate": 0.01, "n_epochs": 4}, {"lr": 0.01}),
        on_policy(PPO, "gamma=0.9", {"gamma": 0.9}, {"gamma": 0.9}),
        on_policy(PPO, "gae_lambda=0.5", {"gae_lambda": 0.5}, {"lambda": 0.5}),
        on_policy(PPO, "use_sde=True", SDE, SDE),
        on_policy(PPO, "log_std_init=-0.5", {}, SOME, kwargs=SOME),
        *sde(by_sde),
        by_sde("use_sde=True, full_std=False", SDE, SDE | SOME | {"full_std": False}, SOME | {"full_std": False}),
    ]


def a2c():
    own = {"lr": 7e-4, "lambda": 1.0, "normalize_advantages": "none", "opt_type": "rmsprop", "adam_epsilon": 1e-5}
    return [
        on_policy(A2C, "defaults", {}, own),
        on_policy(A2C, "Discrete", {}, own, CHOICES),
        on_policy(A2C, "use_rms_prop=False", {"use_rms_prop": False}, {**own, "opt_type": "adam"}),
        on_policy(A2C, "rms_prop_eps=0.1", {"rms_prop_eps": 0.1}, {**own, "adam_epsilon": 0.1}),
        on_policy(A2C, "normalize_advantage=True", {"normalize_advantage": True}, {**own, "normalize_advantages": "minibatch_sample"}),
        on_policy(A2C, "ent_coef=0.02", {"ent_coef": 0.02}, {**own, "entropy_coeff": 0.02}),
        on_policy(A2C, "vf_coef=0.1", {"vf_coef": 0.1}, {**own, "vf_loss_coeff": 0.1}),
        on_policy(A2C, "max_grad_norm=0.01", {"max_grad_norm": 0.01}, {**own, "grad_clip": 0.01}),
        on_policy(A2C, "gae_lambda=0.5", {"gae_lambda": 0.5}, {**own, "lambda": 0.5}),
        on_policy(A2C, "use_sde=True", SDE, own | SDE),
    ]


def maskable_ppo():
    own = {"mask_actions": True}
    return [
        on_policy(MaskablePPO, "defaults", {}, own, CHOICES, masks=True),
        on_policy(MaskablePPO, "ent_coef=0.02", {"ent_coef": 0.02}, {**own, "entropy_coeff": 0.02}, CHOICES, masks=True),
        on_policy(MaskablePPO, "n_epochs=4", {"n_epochs": 4}, own, CHOICES, masks=True),
    ]


def recurrent_ppo():
    def made(argument, arguments, settings, kwargs, equal=True):
        model = {"fcnet_hiddens": [], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 16}
        kwargs = {"net_arch": [], "lstm_hidden_size": 4, "enable_critic_lstm": False, **kwargs}
        return on_policy(RecurrentPPO, argument, arguments, {"model": model, **settings}, CHOICES, kwargs, lstm=True, equal=equal)

    alone = {"vf_coef": 0.0}, {"vf_loss_coeff": 0.0}
    shared = {"shared_lstm": True}
    return [
        made("shared_lstm=True, vf_coef=0", *alone, shared),
        made("shared_lstm=True", {}, {}, shared, equal=False),
    ]


def dqn():
    return [
        off_policy(DQN, "defaults", {}, {}),
        off_policy(DQN, "gamma=0.9", {"gamma": 0.9}, {"gamma": 0.9}),
        off_policy(DQN, "target_update_interval=1", {"target_update_interval": 1}, {"target_network_update_freq": 1}),
        off_policy(DQN, "max_grad_norm=0.01", {"max_grad_norm": 0.01}, {"grad_clip": 0.01}),
        off_policy(DQN, "gradient_steps=3", {}, {}, steps=3),
        off_policy(DQN, "learning_rate=0.01", {"learning_rate": 0.01}, {"lr": 0.01}, steps=2),
    ]


def rates(rate):
    return {f"{whose}_learning_rate": rate for whose in ("actor", "critic", "entropy")}


def sac_cases(cls, own, kwargs=None):
    fixed = {"initial_alpha": 0.1, "optimization": {"entropy_learning_rate": 0.0}}

    def made(argument, arguments, settings, steps=1):
        return off_policy(cls, argument, arguments, {**own, **settings}, kwargs, steps)

    def by_sde(argument, arguments, settings, more):
        return off_policy(cls, f"{argument}, gradient_steps=3", arguments, {**own, **settings}, {**(kwargs or {}), **more}, 3)

    return [
        made("defaults", {}, {}),
        made("ent_coef=0.1", {"ent_coef": 0.1}, fixed),
        made("ent_coef=auto_0.1", {"ent_coef": "auto_0.1"}, {"initial_alpha": 0.1}),
        made("target_entropy=-0.5", {"target_entropy": -0.5}, {"target_entropy": -0.5}),
        made("gradient_steps=3", {}, {}, steps=3),
        made("tau=0.5", {"tau": 0.5}, {"tau": 0.5}, steps=2),
        made("gamma=0.5", {"gamma": 0.5}, {"gamma": 0.5}),
        made("learning_rate=0.01", {"learning_rate": 0.01}, {"optimization": rates(0.01)}, steps=2),
        made("use_sde=True", SDE, SDE),
        *sde(by_sde),
    ]


def sac():
    three = {"n_critics": 3}
    return [*sac_cases(SAC, {}), off_policy(SAC, "n_critics=3", {}, three, three)]


def tqc():
    own = {"critic_loss": "huber", "critic_loss_scale": 0.5, "n_critics": 2, "n_quantiles": 5, "top_quantiles_to_drop_per_net": 2}
    kwargs = {"n_quantiles": 5}
    dropped = {"top_quantiles_to_drop_per_net": 0}
    return [
        *sac_cases(TQC, own, kwargs),
        off_policy(TQC, "top_quantiles_to_drop_per_net=0", dropped, {**own, **dropped}, kwargs),
        off_policy(TQC, "n_critics=3", {}, {**own, "critic_loss_scale": 1 / 3, "n_critics": 3}, {**kwargs, "n_critics": 3}),
        off_policy(TQC, "n_quantiles=7", {}, {**own, "n_quantiles": 7}, {"n_quantiles": 7}),
    ]


def td3():
    return [
        off_policy(TD3, "defaults", {}, {}, steps=2),
        off_policy(TD3, "policy_delay=1", {"policy_delay": 1}, {"policy_delay": 1}),
        off_policy(TD3, "policy_delay=3, gradient_steps=4", {"policy_delay": 3}, {"policy_delay": 3}, steps=4),
        off_policy(TD3, "target_policy_noise=1", {"target_policy_noise": 1.0}, {"target_noise": 1.0}, steps=2),
        off_policy(TD3, "target_noise_clip=0.01", {"target_noise_clip": 0.01}, {"target_noise_clip": 0.01}, steps=2),
        off_policy(TD3, "tau=0.5", {"tau": 0.5}, {"tau": 0.5}, steps=2),
        off_policy(TD3, "gamma=0.5", {"gamma": 0.5}, {"gamma": 0.5}, steps=2),
        off_policy(TD3, "learning_rate=0.01", {"learning_rate": 0.01}, {"actor_lr": 0.01, "critic_lr": 0.01}, steps=2),
    ]


def ddpg():
    return [
        off_policy(DDPG, "defaults", {}, {}),
        off_policy(DDPG, "gradient_steps=3", {}, {}, steps=3),
        off_policy(DDPG, "tau=0.5", {"tau": 0.5}, {"tau": 0.5}),
        off_policy(DDPG, "gamma=0.5", {"gamma": 0.5}, {"gamma": 0.5}),
        off_policy(DDPG, "learning_rate=0.01", {"learning_rate": 0.01}, {"actor_lr": 0.01, "critic_lr": 0.01}, steps=2),
    ]


def images():
    """Images of 2 channels and 4 x 4 pixels; one convolution leaves 3 channels of 2 x 2."""

    def made(cls, shares, own=None, kwargs=None):
        kwargs = {**(kwargs or {}), "features_extractor_class": SmallCNN, "share_features_extractor": shares}
        settings = {**(own or {}), "model": {"conv_filters": [[3, 3, 1]]}, "share_features_extractor": shares}
        argument = f"share_features_extractor={shares}, images"
        # Stable-Baselines3 moves shared convolutions of TD3's target twice, with the actor and with the critics.
        equal = not (cls is TD3 and shares)
        return off_policy(cls, argument, {}, settings, kwargs, steps=2, shape=(2, 4, 4), equal=equal)

    own = {"critic_loss": "huber", "critic_loss_scale": 0.5, "n_critics": 2, "n_quantiles": 5, "top_quantiles_to_drop_per_net": 2}
    of_tqc = own, {"n_quantiles": 5}
    return [made(cls, shares, *more) for cls, more in ((SAC, ()), (TD3, ()), (TQC, of_tqc)) for shares in (False, True)]


def all_cases():
    made = [ppo, a2c, maskable_ppo, recurrent_ppo, dqn, sac, tqc, td3, ddpg, images]
    return {one.__name__: one for one in made}
