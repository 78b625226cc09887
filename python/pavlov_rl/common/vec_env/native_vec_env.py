"""`NativeVecEnv`: copies of a native environment with Stable-Baselines3's interface, all stepped by one call."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import VectorEnv
from ...errors import ConfigError
from .base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn


class NativeVecEnv(VecEnv):
    """Copies of the native environment `id`. A model that trains on it makes copies of its own, which Rust steps."""

    def __init__(
        self, id: str, num_envs: int = 1, config: dict[str, Any] | None = None, render_mode: str | None = "rgb_array"
    ) -> None:
        self.id = id
        self.config = dict(config or {})
        self.vector = VectorEnv(id, num_envs, render_mode=render_mode, **self.config)
        super().__init__(num_envs, self.vector.single_observation_space, self.vector.single_action_space)
        self.render_mode = render_mode
        self._actions: Any = None
        self._started = time.time()
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)

    def reset(self) -> VecEnvObs:
        seeds = None if self._seeds[0] is None else [int(seed or 0) for seed in self._seeds]
        options = self.take_options()
        if any(of_copy != options[0] for of_copy in options):
            raise ConfigError(f"{self.id} is a native environment, whose copies are reset with the same options")
        obs, _ = self.vector.reset(seed=seeds, **options[0])
        self._seeds = [None] * self.num_envs
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return obs

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, terminated, truncated, told = self.vector.step(np.asarray(self._actions))
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        for copy in np.flatnonzero(dones):
            episode = {"r": round(float(self._returns[copy]), 6), "l": int(self._lengths[copy])}
            infos[copy] = {
                "TimeLimit.truncated": bool(truncated[copy] and not terminated[copy]),
                "terminal_observation": told["final_obs"][copy],
                "episode": {**episode, "t": round(time.time() - self._started, 6)},
            }
            self._returns[copy], self._lengths[copy] = 0.0, 0
        return obs, rewards, dones, infos

    def close(self) -> None:
        self.vector.close()

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        pictures = self.vector.render()
        return list(pictures) if pictures is not None and self.render_mode == "rgb_array" else []

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        value = getattr(self.vector, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise AttributeError(
            f"`{attr_name}` of {self.id} cannot be set: it is a native environment; give settings when it is made"
        )

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        if method_name == "action_masks":
            masks = self.vector.action_masks()
            return [masks[copy] for copy in self._get_indices(indices)]
        raise AttributeError(f"{self.id} has no method `{method_name}`: it is a native environment")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        # Its infos tell of episodes as those of a `Monitor` do.
        return [wrapper_class.__name__ == "Monitor" for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        return hasattr(self.vector, attr_name)
