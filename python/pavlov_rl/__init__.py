"""pavlov's native environments for Gymnasium and PettingZoo.

Importing this module registers every native environment with Gymnasium under its id with ``pavlov/`` before it::

    import gymnasium, pavlov_rl

    env = gymnasium.make("pavlov/CartPole-v1")
    envs = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=1024)
    agents = pavlov_rl.parallel_env("simple_spread_v3")
"""

from ._native import __version__
from .envs import Env, VectorEnv, ids, multi_agent_ids, parallel_env, register_envs
from .errors import (
    ConfigError,
    EnvError,
    InternalError,
    NotFoundError,
    PavlovError,
    ResetNeededError,
    StateError,
    UnsupportedError,
)

__all__ = [
    "ConfigError",
    "Env",
    "EnvError",
    "InternalError",
    "NotFoundError",
    "PavlovError",
    "ResetNeededError",
    "StateError",
    "UnsupportedError",
    "VectorEnv",
    "__version__",
    "ids",
    "multi_agent_ids",
    "parallel_env",
]

register_envs()
