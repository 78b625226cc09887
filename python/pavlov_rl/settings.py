"""Settings on their way to the Rust half."""

import copy
import importlib.util
import json
import math
import os
import sys
from typing import Any

from .errors import ConfigError

# They need MuJoCo's library, which is taken from the package `mujoco` of this Python.
MUJOCO = {
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
}


def encode(id: str, config: dict[str, Any]) -> str:
    """The settings as JSON."""
    if id in MUJOCO and "python" not in config and _has_mujoco():
        config = {**config, "python": sys.executable}
    plain = {name: _plain(id, name, value) for name, value in config.items()}
    return json.dumps(plain)


def encode_options(id: str, options: dict[str, Any] | None) -> str | None:
    """The `options` of `reset` as JSON; None if there are none."""
    return json.dumps({name: _plain(id, name, value) for name, value in options.items()}) if options else None


def merge(into: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Lays settings over others, level by level."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict) and "type" not in value:
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
    return into


def _has_mujoco() -> bool:
    """Whether this Python has the library, and nobody has said that another is meant."""
    asked = os.environ.get("PAVLOV_MUJOCO") or os.environ.get("PAVLOV_PYTHON")
    return not asked and importlib.util.find_spec("mujoco") is not None


def _plain(id: str, name: str, value: Any) -> Any:
    """The value in JSON's types. An infinity is none, as in a range without a bound."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(id, name, each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(id, name, each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ConfigError(f"`{name}` of {id} contains NaN")
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    problem = f"`{name}` of {id} is {value!r}, of type {type(value).__name__}"
    raise ConfigError(f"{problem}; settings are numbers, texts, truth values, and lists and dictionaries of them")
