"""The algorithms with Stable-Baselines3's names, arguments and defaults, and `load`.

The table of arguments gives each class its constructor. `algorithms.pyi` has them for type checkers and editors; a test writes
it.
"""

import os
from typing import Any

from . import saved
from .arguments import takes_arguments
from .families import EpsilonGreedyAlgorithm, NoisyAlgorithm, OffPolicyAlgorithm, OnPolicyAlgorithm
from .model import BaseAlgorithm


@takes_arguments
class PPO(OnPolicyAlgorithm):
    """Proximal policy optimisation (Schulman et al. 2017), with Stable-Baselines3's arguments and defaults::

        model = PPO("MlpPolicy", "CartPole-v1", verbose=1).learn(50_000)
        action, _ = model.predict(obs, deterministic=True)
    """


@takes_arguments
class RecurrentPPO(PPO):
    """PPO with a long short-term memory, with the arguments of sb3-contrib. `predict` takes the memory's state and gives the
    next one, and `episode_start` says where to forget it."""

    is_recurrent = True


@takes_arguments
class MaskablePPO(PPO):
    """PPO that chooses only legal actions, with the arguments of sb3-contrib. The environment has the method `action_masks`,
    or is in an `ActionMasker`."""

    takes_masks = True


@takes_arguments
class A2C(OnPolicyAlgorithm):
    """Advantage actor-critic (Mnih et al. 2016), with Stable-Baselines3's arguments and defaults."""

    _log_interval = 100


@takes_arguments
class IMPALA(OnPolicyAlgorithm):
    """The importance-weighted actor-learner (Espeholt et al. 2018), which corrects for the age of its experience by V-trace.

    Stable-Baselines3 does not have it; its arguments are named as those of A2C.
    """


@takes_arguments
class DQN(EpsilonGreedyAlgorithm):
    """Deep Q-learning (Mnih et al. 2015), with Stable-Baselines3's arguments and defaults. `settings={"double_q": True}` is
    double DQN."""


@takes_arguments
class SAC(OffPolicyAlgorithm):
    """Soft actor-critic (Haarnoja et al. 2018), with Stable-Baselines3's arguments and defaults."""


@takes_arguments
class TQC(SAC):
    """SAC with critics that learn quantiles of the return (Kuznetsov et al. 2020), with the arguments of sb3-contrib."""


@takes_arguments
class TD3(NoisyAlgorithm):
    """Twin delayed DDPG (Fujimoto et al. 2018), with Stable-Baselines3's arguments and defaults."""


@takes_arguments
class DDPG(TD3):
    """Deep deterministic policy gradients (Lillicrap et al. 2015), with Stable-Baselines3's arguments and defaults."""


ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    cls.__name__: cls for cls in (A2C, DDPG, DQN, IMPALA, PPO, SAC, TD3, TQC, MaskablePPO, RecurrentPPO)
}


def load(path: str | os.PathLike[str], env: Any = None, **changes: Any) -> BaseAlgorithm:
    """Loads a model of any algorithm: a file of `save`, a run directory of `learn(.., out=..)`, or a checkpoint in one."""
    return ALGORITHMS[saved.class_of(path)].load(path, env, **changes)


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
