"""Vectors of environments with Stable-Baselines3's interface: `reset` gives observations, and `step` gives four values."""

from .base_vec_env import VecEnv, VecEnvWrapper
from .dummy_vec_env import DummyVecEnv
from .native_vec_env import NativeVecEnv
from .subproc_vec_env import SubprocVecEnv
from .vec_monitor import VecMonitor
from .vec_normalize import VecNormalize, sync_envs_normalization

__all__ = [
    "DummyVecEnv",
    "NativeVecEnv",
    "SubprocVecEnv",
    "VecEnv",
    "VecEnvWrapper",
    "VecMonitor",
    "VecNormalize",
    "sync_envs_normalization",
]
