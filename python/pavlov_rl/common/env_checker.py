"""`check_env`: whether an environment keeps Gymnasium's rules, and can be learned in."""

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env

from ..admitting import Admission, Leaf, short
from ..spaces import encode

_STEPS = 100


def check_env(env: gymnasium.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Raises an error that lists every rule that an environment breaks: those of Gymnasium, and those of learning here.

    With `warn=False` it is silent about what Gymnasium only advises against.
    """
    if not isinstance(env, gymnasium.Env):
        raise AssertionError(f"the environment is of {type(env).__name__}, but it must be a `gymnasium.Env`")
    encode(env.observation_space)
    encode(env.action_space)
    if isinstance(env.action_space, (spaces.Dict, spaces.Tuple)):
        raise AssertionError(f"actions of {env.action_space} are not supported; flatten them in a wrapper")
    faults = _Faults(env).found()
    cause = None
    with warnings.catch_warnings():
        # Gymnasium warns of what is listed here.
        if not warn or faults:
            warnings.simplefilter("ignore")
        try:
            # Gymnasium takes `warn` too, but ignores it and warns that it does.
            check_gymnasium_env(env.unwrapped, skip_render_check=skip_render_check)
        except Exception as error:
            if not faults:
                raise
            cause = error
            faults.append(f"Gymnasium's own check: {error}")
    if faults:
        raise AssertionError("the environment breaks these rules:\n" + "\n".join(f"* {fault}" for fault in faults)) from cause


class _Faults:
    """What an environment does wrong in a hundred random steps, played twice."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        # By what is wrong; the first of its kind is kept.
        self._faults: dict[str, str] = {}
        self._admission = Admission(lambda _: None, "")
        self._leaves = list(_leaves(env.observation_space, ()))
        self._rules = [Leaf(self._admission, leaf, _name(path)) for path, leaf in self._leaves]

    def found(self) -> list[str]:
        """All faults as sentences."""
        try:
            first, second = self._play(), self._play()
        except Exception:
            # It is raised again by Gymnasium's check, which says more of it.
            return list(self._faults.values()) + self._admission.remarks
        for at, (one, other) in enumerate(zip(first, second)):
            if one != other:
                self._fault(
                    "repeatable",
                    f"with the same seed and actions step {at} was {short(one)} and then {short(other)}: draw random numbers "
                    "from `self.np_random` after `super().reset(seed=seed)`",
                )
                break
        return list(self._faults.values()) + self._admission.remarks

    def _fault(self, kind: str, text: str) -> None:
        self._faults.setdefault(kind, text)

    def _play(self) -> list[str]:
        """The steps, as text."""
        env = self._env
        env.action_space.seed(0)
        observation, _ = env.reset(seed=0)
        self._look(observation)
        steps = [repr(observation)]
        for _ in range(_STEPS):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            self._look(observation)
            ended = False
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                try:
                    ended |= self._admission.flag(flag, name)
                except ValueError as error:
                    self._fault(name, str(error))
            self._look_at_reward(reward)
            steps.append(repr((observation, reward, terminated, truncated)))
            if ended:
                observation, _ = env.reset()
                self._look(observation)
        return steps

    def _look_at_reward(self, reward: Any) -> None:
        try:
            if not math.isfinite(self._admission.reward(reward)):
                self._fault("reward", f"the reward is {reward}, but it must be finite")
        except ValueError as error:
            self._fault("reward", str(error))

    def _look(self, observation: Any) -> None:
        for (path, leaf), rule in zip(self._leaves, self._rules):
            name = _name(path)
            value = observation
            try:
                for key in path:
                    value = value[key]
                array = np.asarray(rule(value))
            except (KeyError, IndexError, TypeError):
                self._fault(name, f"{name} is missing in {short(observation)}")
                continue
            except ValueError as error:
                self._fault(name, str(error))
                continue
            if np.isnan(array).any():
                self._fault(f"{name} is NaN", f"{name} has NaN, with which nothing is learned")
            if isinstance(leaf, spaces.Box):
                room = 1e-6 * np.maximum(np.abs(leaf.low), np.abs(leaf.high)) if leaf.dtype.kind == "f" else 0
                room = np.where(np.isfinite(room), room, 1e-6)
                beyond = (array < leaf.low - room) | (array > leaf.high + room)
                if beyond.any():
                    found = np.asarray(array)[beyond].ravel()[0]
                    self._fault(f"{name} is beyond", f"{name} has {found}, which is beyond the bounds of {leaf}")


def _leaves(space: gymnasium.Space[Any], path: tuple[Any, ...]) -> Any:
    parts: Any = []
    if isinstance(space, spaces.Dict):
        parts = space.items()
    elif isinstance(space, spaces.Tuple):
        parts = enumerate(space)
    else:
        yield path, space
    for key, part in parts:
        yield from _leaves(part, (*path, key))


def _name(path: tuple[Any, ...]) -> str:
    return "the observation" + (f" at {'/'.join(map(str, path))}" if path else "")
