"""`VecCheckNan`: tells where NaN and infinite numbers come from."""

import warnings
from typing import Any

import numpy as np
from gymnasium import spaces

from ...errors import ConfigError
from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper


class VecCheckNan(VecEnvWrapper):
    """Warns of a NaN, and with `check_inf` of an infinite number, in actions, observations and rewards, and says whether it came
    from the model or from the environment. With `raise_exception` it is a ValueError; with `warn_once` there is one warning."""

    def __init__(
        self, venv: VecEnv, raise_exception: bool = False, warn_once: bool = True, check_inf: bool = True
    ) -> None:
        super().__init__(venv)
        if isinstance(venv.action_space, spaces.Dict):
            raise ConfigError(f"actions of {venv.action_space} are not checked; leave VecCheckNan out")
        self.raise_exception, self.warn_once, self.check_inf = raise_exception, warn_once, check_inf
        self._has_warned = False
        self._actions: Any = None
        self._observations: Any = None

    def check_array_value(self, name: str, value: Any) -> list[tuple[str, str]]:
        """What is wrong with an array: its name with `"inf"` or `"nan"`."""
        numbers = np.asarray(value)
        if not np.issubdtype(numbers.dtype, np.inexact):
            return []
        found = [(name, "inf")] if self.check_inf and bool(np.isinf(numbers).any()) else []
        return [*found, (name, "nan")] if bool(np.isnan(numbers).any()) else found

    def _check(self, origin: str, **values: Any) -> None:
        if self._has_warned and self.warn_once and not self.raise_exception:
            return
        found: list[tuple[str, str]] = []
        for name, value in values.items():
            if isinstance(value, dict):
                parts = {f"{name}.{key}": part for key, part in value.items()}
            elif isinstance(value, tuple):
                parts = {f"{name}.{at}": part for at, part in enumerate(value)}
            else:
                parts = {name: value}
            for key, part in parts.items():
                found += self.check_array_value(key, part)
        if not found:
            return
        self._has_warned = True
        problem = ", ".join(f"found {what} in {name}" for name, what in found) + f". It came from the {origin}"
        if self.raise_exception:
            raise ValueError(problem)
        warnings.warn(problem, UserWarning, stacklevel=3)

    def step_async(self, actions: Any) -> None:
        self._check(f"model, whose last observations were {self._observations}", actions=actions)
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        self._check(f"environment, whose last actions were {self._actions}", observations=obs, rewards=rewards)
        self._observations = obs
        return obs, rewards, dones, infos

    def reset(self) -> VecEnvObs:
        obs = self.venv.reset()
        self._check("environment, at its reset", observations=obs)
        self._observations = obs
        return obs
