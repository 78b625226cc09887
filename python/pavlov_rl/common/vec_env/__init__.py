"""Vectors of environments with Stable-Baselines3's interface: `reset` gives observations, and `step` gives four values."""

from .base_vec_env import VecEnv, VecEnvWrapper, is_vecenv_wrapped, unwrap_vec_wrapper
from .dummy_vec_env import DummyVecEnv
from .native_vec_env import NativeVecEnv
from .stacked_observations import StackedObservations
from .subproc_vec_env import SubprocVecEnv
from .vec_check_nan import VecCheckNan
from .vec_extract_dict_obs import VecExtractDictObs
from .vec_frame_stack import VecFrameStack
from .vec_monitor import VecMonitor
from .vec_normalize import VecNormalize, sync_envs_normalization, unwrap_vec_normalize
from .vec_transpose import VecTransposeImage

__all__ = [
    "DummyVecEnv",
    "NativeVecEnv",
    "StackedObservations",
    "SubprocVecEnv",
    "VecCheckNan",
    "VecEnv",
    "VecEnvWrapper",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "is_vecenv_wrapped",
    "sync_envs_normalization",
    "unwrap_vec_normalize",
    "unwrap_vec_wrapper",
]
