"""Any environment as a vector with Stable-Baselines3's interface."""

from typing import Any

import gymnasium

from ...envs import VectorEnv
from ...errors import refuse_class
from ..monitor import Monitor
from .base_vec_env import VecEnv
from .dummy_vec_env import DummyVecEnv, is_wrapped
from .native_vec_env import NativeVecEnv


def vec_env_of(env: Any) -> Any:
    """A vector as it is, a `gymnasium.Env` as a vector of one with a `Monitor`, an id as a native vector."""
    refuse_class("env", env)
    if isinstance(env, VecEnv) or (hasattr(env, "num_envs") and hasattr(env, "step_wait")):
        return env
    if isinstance(env, VectorEnv):
        return NativeVecEnv(env.id, env.num_envs, env.config)
    if isinstance(env, str):
        env = gymnasium.make(env)
    if isinstance(env, gymnasium.Env):
        monitored = env if is_wrapped(env, Monitor) else Monitor(env)
        return DummyVecEnv([lambda: monitored])
    raise TypeError(f"the environment is of {type(env).__name__}, but it must be a `gymnasium.Env` or a vector")
