"""`SteppedVecEnv`: what a model steps in Python, with Stable-Baselines3's interface."""

import time
from typing import Any

import numpy as np

from ...spaces import action_dtype, members
from ...steppers import Stepper
from .base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn


class SteppedVecEnv(VecEnv):
    """A vector of Gymnasium, or the agents of a PettingZoo environment. The model that trains on it steps the same objects."""

    def __init__(self, stepper: Stepper, of: Any) -> None:
        super().__init__(stepper.num_envs, stepper.observation_space, stepper.action_space)
        self._stepper = stepper
        self._of = of
        self._actions: Any = None
        self._started = time.time()
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def reset(self) -> VecEnvObs:
        seeds = None if self._seeds[0] is None else [int(seed or 0) for seed in self._seeds]
        self._seeds = [None] * self.num_envs
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return self._members(self._stepper.reset(seeds))

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        actions = np.asarray(self._actions).astype(action_dtype(self.action_space), copy=False)
        obs, last, rewards, terminated, truncated = self._stepper.step_aside(actions.ravel())
        self._returns += rewards
        self._lengths += 1
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        ended = np.flatnonzero(dones)
        final = self._members(last) if len(ended) else None
        for copy in ended:
            episode = {"r": round(float(self._returns[copy]), 6), "l": int(self._lengths[copy])}
            infos[copy] = {
                "TimeLimit.truncated": bool(truncated[copy] and not terminated[copy]),
                "terminal_observation": _one(final, copy),
                "episode": {**episode, "t": round(time.time() - self._started, 6)},
            }
            self._returns[copy], self._lengths[copy] = 0.0, 0
        return self._members(obs), rewards.copy(), dones, infos

    def close(self) -> None:
        self._of.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        value = getattr(self._of, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        setattr(self._of, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        value = getattr(self._of, method_name)(*args, **kwargs)
        return [value for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        # Its infos tell of episodes as those of a `Monitor` do.
        return [wrapper_class.__name__ == "Monitor" for _ in self._get_indices(indices)]

    def _members(self, rows: Any) -> VecEnvObs:
        return _batched(members(self.observation_space, rows.reshape(self.num_envs, -1)))


def _batched(each: list[Any]) -> Any:
    if isinstance(each[0], dict):
        return {name: _batched([one[name] for one in each]) for name in each[0]}
    if isinstance(each[0], tuple):
        return tuple(_batched(list(parts)) for parts in zip(*each))
    return np.array(each)


def _one(batch: Any, copy: int) -> Any:
    if isinstance(batch, dict):
        return {name: _one(part, copy) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_one(part, copy) for part in batch)
    return batch[copy]
