"""The algorithms with Stable-Baselines3's names, arguments and defaults, and `load`."""

import os
from typing import Any

from . import saved
from .model import BaseAlgorithm
from .off_policy import DDPG, DQN, SAC, TD3, TQC
from .on_policy import A2C, IMPALA, PPO, MaskablePPO, RecurrentPPO

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    cls.__name__: cls for cls in (A2C, DDPG, DQN, IMPALA, PPO, SAC, TD3, TQC, MaskablePPO, RecurrentPPO)
}


def load(path: str | os.PathLike[str], env: Any = None, **changes: Any) -> BaseAlgorithm:
    """Loads a model of any algorithm: a file of `save`, a run directory of `learn(.., out=..)`, or a checkpoint in one."""
    about = saved.about_of(path)
    cls = ALGORITHMS[about["class"]]
    model: BaseAlgorithm = cls.load(path, env, **changes)
    return model


__all__ = [
    "A2C",
    "ALGORITHMS",
    "BaseAlgorithm",
    "DDPG",
    "DQN",
    "IMPALA",
    "MaskablePPO",
    "PPO",
    "RecurrentPPO",
    "SAC",
    "TD3",
    "TQC",
    "load",
]
