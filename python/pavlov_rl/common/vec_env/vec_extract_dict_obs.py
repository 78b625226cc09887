"""`VecExtractDictObs`: one part of observations in a Dict."""

from typing import Any

import numpy as np
from gymnasium import spaces

from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper


class VecExtractDictObs(VecEnvWrapper):
    """Gives the part `key` in place of the whole Dict."""

    def __init__(self, venv: VecEnv, key: str) -> None:
        space: Any = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise AssertionError(f"the observations are {space}, but VecExtractDictObs takes a part of a Dict")
        if key not in space.keys():
            raise KeyError(f"`key` is {key!r}, but the observations have {', '.join(map(repr, space.keys()))}")
        self.key = key
        super().__init__(venv, space[key])

    def reset(self) -> VecEnvObs:
        return self.venv.reset()[self.key]

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        for copy in np.flatnonzero(dones[: len(infos)]):
            if "terminal_observation" in infos[copy]:
                infos[copy]["terminal_observation"] = infos[copy]["terminal_observation"][self.key]
        return obs[self.key], rewards, dones, infos
