"""Stable-Baselines3's arguments as pavlov's settings."""

import copy
import difflib
import json
from typing import Any

from . import _native
from .common.noise import ActionNoise
from .schedules import is_schedule, points
from .errors import ConfigError

Settings = dict[str, Any]

# Arguments of Stable-Baselines3 that pavlov has no counterpart for: the values that ask for nothing, and why others are refused.
WITHOUT_COUNTERPART: dict[str, tuple[tuple[Any, ...], str]] = {
    "use_sde": ((False,), "noise that depends on the state (gSDE) is not there; leave it out"),
    "sde_sample_freq": ((-1,), "noise that depends on the state (gSDE) is not there; leave it out"),
    "use_sde_at_warmup": ((False,), "noise that depends on the state (gSDE) is not there; leave it out"),
    "rollout_buffer_class": ((None,), "rollouts have a form of their own; leave it out"),
    "rollout_buffer_kwargs": ((None, {}), "rollouts have a form of their own; leave it out"),
    "replay_buffer_class": ((None,), "the replay buffer is pavlov's own (no HER); leave it out"),
    "replay_buffer_kwargs": ((None, {}), "the replay buffer is pavlov's own (no HER); leave it out"),
    "optimize_memory_usage": ((False,), "observations are stored once already; leave it out"),
    "_init_setup_model": ((True,), "a model without networks cannot be made; leave it out"),
}


def refuse_unknown(who: str, given: dict[str, Any], known: list[str]) -> None:
    """Refuses arguments that neither library knows."""
    for name in given:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; nearest: `{near[0]}`" if near else ""
        raise TypeError(f"{who} has no argument `{name}`{hint}; pavlov's own settings go into `settings={{..}}`")


def refuse_without_effect(who: str, arguments: dict[str, Any]) -> None:
    """Refuses arguments that would be ignored."""
    for name, (harmless, why) in WITHOUT_COUNTERPART.items():
        if name in arguments and arguments[name] not in harmless:
            raise TypeError(f"`{name}` of {who} is {arguments[name]!r}, but {why}")


def base(preset: str) -> Settings:
    """Stable-Baselines3's defaults of an algorithm."""
    settings: Settings = json.loads(_native.preset(preset))
    return settings


def merge(into: Settings, other: Settings) -> Settings:
    """Lays settings over others, level by level."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict) and "type" not in value:
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
    return into


def number(who: str, name: str, value: Any) -> float:
    """A number, not a function; for arguments whose setting has no schedule."""
    if is_schedule(value):
        raise TypeError(f"`{name}` of {who} is a function, but it must be a number: this setting has no schedule")
    return float(value)


def scheduled(settings: Settings, name: str, value: Any, steps: tuple[int, int]) -> None:
    """Sets a number, or the schedule that replaces it."""
    settings.pop(f"{name}_schedule", None)
    settings.pop(name, None)
    if is_schedule(value):
        settings[f"{name}_schedule"] = points(value, *steps)
    else:
        settings[name] = float(value)


def activation(value: Any) -> str:
    """The name of an activation, given as one of torch's classes or by name."""
    name = value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)
    known = {"relu": "relu", "tanh": "tanh", "elu": "elu", "silu": "swish", "swish": "swish", "identity": "linear"}
    if name.lower() not in known:
        raise TypeError(f"`activation_fn` is {name}, but it must be ReLU, Tanh, ELU or SiLU, as a class or by name")
    return known[name.lower()]


def layers(net_arch: Any, first: str, second: str) -> tuple[list[int], list[int]]:
    """The hidden layers of two networks: a list for both, or a dictionary with one for each."""
    if isinstance(net_arch, (list, tuple)) and len(net_arch) == 1 and isinstance(net_arch[0], dict):
        net_arch = net_arch[0]
    if isinstance(net_arch, dict):
        unknown = set(net_arch) - {first, second}
        if unknown:
            raise TypeError(f"`net_arch` has the key {unknown.pop()!r}, but it must be {first!r} or {second!r}")
        return [int(n) for n in net_arch.get(first, [])], [int(n) for n in net_arch.get(second, [])]
    if not all(isinstance(units, int) for units in net_arch):
        raise TypeError(f"`net_arch` is {net_arch!r}, but it must be a list of numbers of units, or a dictionary of two")
    return list(net_arch), list(net_arch)


def refuse_policy_kwargs(given: dict[str, Any], known: list[str]) -> None:
    """Refuses keyword arguments of policies that have no place here."""
    why = {
        "features_extractor_class": "a network of your own is written in Rust; vectors and dictionaries need no extractor",
        "features_extractor_kwargs": "there is no feature extractor to give them to",
        "normalize_images": "bytes are always divided by 255",
        "optimizer_class": "the optimizer is Adam; leave it out",
        "share_features_extractor": "actor and critic have networks of their own",
        "use_expln": "noise that depends on the state (gSDE) is not there",
    }
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; nearest: `{near[0]}`" if near else f"; there is {', '.join(known)}"
            raise TypeError(f"`policy_kwargs` has `{name}`, but {why.get(name, f'there is no such argument{hint}')}")


def optimizer_epsilon(given: dict[str, Any]) -> float | None:
    """Adam's epsilon in `optimizer_kwargs`; other keys are refused."""
    for name in given:
        if name != "eps":
            raise TypeError(f"`optimizer_kwargs` has `{name}`, but only `eps` has a setting here")
    return float(given["eps"]) if "eps" in given else None


def actor_critic(settings: Settings, policy: str, kwargs: dict[str, Any]) -> None:
    """The network of PPO and A2C."""
    recurrent = ["lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm"] if "Lstm" in policy else []
    refuse_policy_kwargs(
        kwargs, ["net_arch", "activation_fn", "ortho_init", "log_std_init", "optimizer_kwargs", *recurrent]
    )
    model = settings.setdefault("model", {})
    if kwargs.get("net_arch") is not None:
        actor, critic = layers(kwargs["net_arch"], "pi", "vf")
        if actor != critic:
            raise TypeError(f"`net_arch` has {actor} for `pi` and {critic} for `vf`, but both networks have equal layers here")
        model["fcnet_hiddens"] = actor
    if "activation_fn" in kwargs:
        model["fcnet_activation"] = activation(kwargs["activation_fn"])
    if not kwargs.get("ortho_init", True):
        model["fcnet_initializer"] = "normc"
    if kwargs.get("log_std_init", 0.0) != 0.0:
        raise TypeError(f"`log_std_init` is {kwargs['log_std_init']}, but the first standard deviation is 1 here: 0.0")
    epsilon = optimizer_epsilon(kwargs.get("optimizer_kwargs") or {})
    if epsilon is not None:
        settings["adam_epsilon"] = epsilon
    if recurrent:
        if kwargs.get("n_lstm_layers", 1) != 1:
            raise TypeError(f"`n_lstm_layers` is {kwargs['n_lstm_layers']}, but there is one recurrent layer here")
        model["use_lstm"] = True
        model["lstm_cell_size"] = int(kwargs.get("lstm_hidden_size", 256))


def convolutions(who: str, settings: Settings, kwargs: dict[str, Any]) -> None:
    """The network of CnnPolicy: three convolutions and a layer of 512 units, which actor and critic share, then `net_arch`."""
    model = settings.get("model")
    if model is None:
        raise TypeError(f"{who} has no convolutions here; take MlpPolicy, which flattens images, or PPO, A2C or DQN")
    behind = model.pop("fcnet_hiddens", []) if kwargs.get("net_arch") is not None else []
    model.update(conv_filters="nature", fcnet_hiddens=[], post_fcnet_hiddens=behind, vf_share_layers=True)
    if "fcnet_activation" in model:
        model["post_fcnet_activation"] = model["fcnet_activation"]


def off_policy(settings: Settings, a: dict[str, Any], n_envs: int, total: int | None) -> None:
    """What all algorithms with a replay buffer have: batch, buffer, and the rhythm of steps and updates."""
    freq = a["train_freq"]
    if isinstance(freq, (tuple, list)):
        if len(freq) != 2 or freq[1] != "step":
            raise TypeError(f"`train_freq` is {freq!r}, but it must be a number of steps: learning follows steps, not episodes")
        freq = freq[0]
    freq = int(freq)
    rows = int(a["batch_size"])
    updates = a["gradient_steps"] if a["gradient_steps"] >= 0 else freq * n_envs
    buffer = settings.setdefault("replay_buffer_config", {})
    buffer["capacity"] = int(a["buffer_size"])
    buffer["learning_starts"] = max(int(a["learning_starts"]), 1)
    if buffer["capacity"] < rows:
        raise ConfigError(f"`buffer_size` is {buffer['capacity']}, but it must be at least {rows} (`batch_size`)")
    settings["train_batch_size"] = rows
    settings["rollout_fragment_length"] = freq
    if not updates:
        raise TypeError("`gradient_steps` is 0, but a model that never learns cannot be trained; give 1 or more")
    settings["training_intensity"] = updates * rows / (freq * n_envs)
    settings["n_step"] = int(a.get("n_steps", 1))
    settings["min_sample_timesteps_per_reporting"] = reporting(freq * n_envs, total)


def reporting(fragment: int, total: int | None) -> int:
    """Steps of an iteration: about 100, and such that a run of `total` steps ends with its last one."""
    most = max(100 // fragment, 1)
    if total is None:
        return fragment * most
    fragments = -(-total // fragment)
    return fragment * next(number for number in range(most, 0, -1) if fragments % number == 0)


def noise(settings: Settings, given: ActionNoise | None, space_high: list[float], learning_starts: int) -> None:
    """The noise of TD3 and DDPG."""
    if given is None:
        settings["exploration_config"] = gaussian(0.0, learning_starts)
    else:
        settings["exploration_config"] = given.exploration_config(space_high, learning_starts)


def gaussian(stddev: float, random_timesteps: int) -> Settings:
    """Gaussian noise of a size that stays."""
    return {
        "type": "GaussianNoise",
        "random_timesteps": random_timesteps,
        "stddev": stddev,
        "initial_scale": 1.0,
        "final_scale": 1.0,
        "scale_timesteps": 1,
    }
