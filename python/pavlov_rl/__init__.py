"""pavlov: reinforcement learning in Rust, with Stable-Baselines3's interface, and native environments for Gymnasium.

A model learns and acts as those of Stable-Baselines3 do::

    from pavlov_rl import PPO

    model = PPO("MlpPolicy", "CartPole-v1", verbose=1).learn(50_000)
    model.save("cartpole")

Importing this module registers every native environment with Gymnasium under its id with ``pavlov/`` before it::

    import gymnasium, pavlov_rl

    env = gymnasium.make("pavlov/CartPole-v1")
    envs = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=1024)
    agents = pavlov_rl.parallel_env("simple_spread_v3")
"""

from ._native import __version__
from .acting import LoadedPolicy, load_policy
from .algorithms import A2C, DDPG, DQN, IMPALA, PPO, SAC, TD3, TQC, MaskablePPO, RecurrentPPO, load
from .envs import Env, VectorEnv, ids, multi_agent_ids, parallel_env, register_envs
from .errors import (
    ArgumentError,
    BusyError,
    CheckpointError,
    ConfigError,
    EnvError,
    FileError,
    ForkError,
    InternalError,
    NeedsTorchError,
    NotFoundError,
    PavlovError,
    ResetNeededError,
    StateError,
    TrainingError,
    UnknownArgumentError,
    UnsupportedError,
)
from .her import GoalSelectionStrategy, HerReplayBuffer

__all__ = [
    "A2C",
    "ArgumentError",
    "BusyError",
    "CheckpointError",
    "ConfigError",
    "DDPG",
    "DQN",
    "Env",
    "EnvError",
    "FileError",
    "ForkError",
    "GoalSelectionStrategy",
    "HerReplayBuffer",
    "IMPALA",
    "InternalError",
    "LoadedPolicy",
    "MaskablePPO",
    "NeedsTorchError",
    "NotFoundError",
    "PPO",
    "PavlovError",
    "RecurrentPPO",
    "ResetNeededError",
    "SAC",
    "StateError",
    "TD3",
    "TQC",
    "TrainingError",
    "UnknownArgumentError",
    "UnsupportedError",
    "VectorEnv",
    "__version__",
    "ids",
    "load",
    "load_policy",
    "multi_agent_ids",
    "parallel_env",
]

register_envs()
