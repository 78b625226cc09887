"""`DummyVecEnv`: environments of Gymnasium, stepped one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ...spaces import ADMISSION
from .base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, makers, stacked


class DummyVecEnv(VecEnv):
    """Steps environments one after the other in this process. `env_fns` are functions that make one each."""

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        self.envs: list[gymnasium.Env[Any, Any]] = [make() for make in makers(env_fns)]
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ValueError("the functions made the same object twice; each must make an environment of its own")
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self.render_mode = first.render_mode
        self.metadata = first.metadata
        self._actions: Any = None
        # Called before the environments are read, until this vector has started their episodes.
        self.on_look: Callable[[str], None] | None = None

    def reset(self) -> VecEnvObs:
        self.on_look = None
        observations = []
        for copy, (env, options) in enumerate(zip(self.envs, self.take_options(), strict=True)):
            obs, self.reset_infos[copy] = env.reset(seed=self._seeds[copy], **options)
            observations.append(obs)
        self._seeds = [None] * self.num_envs
        return stacked(self.observation_space, observations)

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        observations, infos = [], []
        rewards, dones = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        for copy, env in enumerate(self.envs):
            obs, reward, terminated, truncated, info = env.step(self._actions[copy])
            rewards[copy] = ADMISSION.reward(reward)
            terminated, truncated = ADMISSION.flag(terminated, "terminated"), ADMISSION.flag(truncated, "truncated")
            dones[copy] = terminated or truncated
            info["TimeLimit.truncated"] = truncated and not terminated
            if dones[copy]:
                info["terminal_observation"] = obs
                obs, self.reset_infos[copy] = env.reset()
            observations.append(obs)
            infos.append(info)
        return stacked(self.observation_space, observations), rewards, dones, infos

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        if self.render_mode != "rgb_array":
            return [None for _ in self.envs]
        self._look("render")
        pictures: list[Any] = [env.render() for env in self.envs]
        return pictures

    def render(self, mode: str | None = None) -> NDArray[Any] | None:
        if self.render_mode == "human":
            self._look("render")
            for env in self.envs:
                env.render()
            return None
        return super().render(mode)

    def _look(self, name: str) -> None:
        if self.on_look is not None:
            self.on_look(name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        self._look(attr_name)
        return [self.envs[copy].get_wrapper_attr(attr_name) for copy in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        for copy in self._get_indices(indices):
            set_attr_of(self.envs[copy], attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        self._look(method_name)
        methods = [self.envs[copy].get_wrapper_attr(method_name) for copy in self._get_indices(indices)]
        return [method(*args, **kwargs) for method in methods]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        return [is_wrapped(self.envs[copy], wrapper_class) for copy in self._get_indices(indices)]


def set_attr_of(env: gymnasium.Env[Any, Any], name: str, value: Any) -> None:
    """Sets an attribute of the first wrapper that has it, and of the outermost one if none has it, as Stable-Baselines3 does."""
    if env.has_wrapper_attr(name):
        env.set_wrapper_attr(name, value)
    else:
        setattr(env, name, value)


def is_wrapped(env: Any, wrapper_class: type[Any]) -> bool:
    """Whether an environment, or one inside it, is of a class."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, wrapper_class):
            return True
        env = env.env
    return False
