"""Environments in Python that the Rust half steps: rows in numpy arrays on one side, Gymnasium's interfaces on the other.

Copies are reset in the step that ends their episode, with a seed that the run gives, so that runs can be repeated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from .common.vec_env.base_vec_env import stacked
from .common.vec_env.dummy_vec_env import DummyVecEnv
from .errors import ConfigError
from .noticing import Notice
from .spaces import ADMISSION, Array, Space, action, row_dtype, width, write_row

# The seeds of a run have 63 bits, of which an environment of the user's own gets 31: `np.random.seed` takes no more than 32.
_SEED = 2**31 - 1
# Gymnasium's own environments take whole seeds, so that their steps equal those of the native ones.
_OF_GYMNASIUM = ("gymnasium.envs.", "pavlov_rl.envs")

# Entries without flags are those of all copies.
_ALL = defaultdict[int, bool](lambda: True)

Step = tuple[Any, ...]


class Stepper:
    """Copies of an environment that are stepped together."""

    num_envs: int
    observation_space: Space
    action_space: Space

    def _prepare(self) -> None:
        """Allocates the rows that the Rust half reads."""
        shape = (self.num_envs, width(self.observation_space))
        self._obs = np.zeros(shape, row_dtype(self.observation_space))
        self._final_obs = np.zeros_like(self._obs)
        self._rewards = np.zeros(self.num_envs, np.float32)
        self._terminated = np.zeros(self.num_envs, bool)
        self._truncated = np.zeros(self.num_envs, bool)
        self._steps: list[Step] | None = None
        # The infos of episodes that ended since they were last taken, in the order in which they ended.
        self._ended: list[dict[str, Any]] = []
        # Whether anybody else steps the environments.
        self.notice = Notice(self._methods())

    def _methods(self) -> Iterator[tuple[Any, str]]:
        """The methods that start and step the environments, with their objects."""
        raise NotImplementedError

    def record(self, is_on: bool) -> None:
        """Keeps the steps for callbacks from now on, or no longer."""
        self._steps = [] if is_on else None

    def take_steps(self) -> list[Step]:
        """`actions, new_obs, rewards, dones, infos` of every step since the last call."""
        steps = self._steps or []
        if self._steps is not None:
            self._steps = []
        return steps

    def take_ended(self) -> list[dict[str, Any]]:
        """What monitors told of the episodes that ended since the last call: `episode` and `is_success`, if they did."""
        ended, self._ended = self._ended, []
        return ended

    @property
    def changes_rewards(self) -> bool:
        """Whether wrappers of the user's vector may have changed the rewards that the steps give."""
        return False

    def _keep(self, rows: Array, obs: list[Any], infos: list[dict[str, Any]]) -> None:
        """Keeps a step for callbacks, with the observations as they were given, and what was told at the ends of episodes."""
        dones = self._terminated | self._truncated
        for info, done in zip(infos, dones):
            # A wrapper may hide the end of an episode that a monitor inside it has told of.
            names = [name for name in (("episode", "is_success") if done else ("episode",)) if name in info]
            if done or names:
                self._ended.append({name: info[name] for name in names})
        if self._steps is not None:
            given = stacked(self.observation_space, obs)
            self._steps.append((rows.copy(), given, self._rewards.copy(), dones, infos))

    def reset(self, seeds: Sequence[int] | None) -> Array:
        """Starts an episode in every copy."""
        raise NotImplementedError

    def step(self, actions: Array, seeds: Sequence[int] | None) -> tuple[Array, Array, Array, Array, Array]:
        """Moves every copy; gives observations, last observations, rewards and the two flags."""
        raise NotImplementedError

    def compute_rewards(self, achieved: Array, desired: Array, rows: int) -> Array | None:
        """The rewards of achieved and desired goals, by the `compute_reward` of the first environment; None if it has none. It
        gets the goals of all rows together, and an empty `info` for each row: infos are not stored with transitions."""
        compute_reward = self._compute_reward()
        space = self.observation_space
        if compute_reward is None or not isinstance(space, gymnasium.spaces.Dict) or not rows:
            return None if compute_reward is None else np.zeros(0)
        goals = []
        for name, flat in (("achieved_goal", achieved), ("desired_goal", desired)):
            shape = space[name].shape or ()
            goals.append(flat.astype(space[name].dtype).reshape((rows, *shape)))
        rewards = np.asarray(compute_reward(*goals, [{} for _ in range(rows)]), np.float64)
        if rewards.size != rows:
            problem = f"`compute_reward` gave {rewards.size} rewards for {rows} rows of goals"
            raise ConfigError(f"{problem}; it must take goals of shape {goals[0].shape} and give one reward for each row")
        return rewards.ravel()

    def _compute_reward(self) -> Callable[..., Any] | None:
        """The method of the environment that computes rewards from goals; None if there is none."""
        return None

    def step_aside(self, actions: Array) -> tuple[Array, Array, Array, Array, Array]:
        """A step that is not the model's, and that no callback is told of."""
        steps, ended = self._steps, self._ended
        self._steps, self._ended = None, []
        try:
            return self.step(actions, None)
        finally:
            self._steps, self._ended = steps, ended

    def masks(self) -> list[bool]:
        """Which actions are legal, copy by copy."""
        raise NotImplementedError

    @property
    def has_masks(self) -> bool:
        """Whether the environments say which actions are legal."""
        return False

    def _action(self, row: Array) -> Any:
        return action(self.action_space, row)

    def _write_row(self, obs: Any, row: Array) -> None:
        write_row(self.observation_space, obs, row)

    @property
    def remarks(self) -> list[str]:
        """What was said of observations, rewards and flags so far."""
        return ADMISSION.remarks

    def _told(self) -> tuple[Array, Array, Array, Array, Array]:
        return self._obs.ravel(), self._final_obs.ravel(), self._rewards, self._terminated, self._truncated


def seed_of(seeds: Sequence[int] | None, copy: int) -> int | None:
    """The seed that a copy takes."""
    return None if seeds is None else int(seeds[copy]) & _SEED


class EnvStepper(Stepper):
    """The environments of a vector, stepped one after the other."""

    def __init__(self, vector: DummyVecEnv) -> None:
        self.vector = vector
        self.envs = list(vector.envs)
        self.num_envs = len(self.envs)
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space
        for env in self.envs[1:]:
            if env.observation_space != self.observation_space or env.action_space != self.action_space:
                raise ConfigError("the environments of a vector have different spaces, but they must be equal")
        self._takes_whole_seeds = type(self.envs[0].unwrapped).__module__.startswith(_OF_GYMNASIUM)
        self._prepare()

    def _methods(self) -> Iterator[tuple[Any, str]]:
        return ((env.unwrapped, name) for env in self.envs for name in ("reset", "step"))

    @property
    def has_masks(self) -> bool:
        return has_action_masks(self.envs[0])

    def masks(self) -> list[bool]:
        return [bool(flag) for env in self.envs for flag in np.ravel(env.get_wrapper_attr("action_masks")())]

    def _compute_reward(self) -> Callable[..., Any] | None:
        return reward_of_goals(self.envs[0])

    def reset(self, seeds: Sequence[int] | None) -> Array:
        for copy, (env, options) in enumerate(zip(self.envs, self.vector.take_options(), strict=True)):
            obs, _ = env.reset(seed=self._seed(seeds, copy), **options)
            self._write_row(obs, self._obs[copy])
        return self._obs.ravel()

    def step(self, actions: Array, seeds: Sequence[int] | None) -> tuple[Array, Array, Array, Array, Array]:
        rows = actions.reshape(self.num_envs, -1)
        infos: list[dict[str, Any]] = []
        observations: list[Any] = []
        for copy, env in enumerate(self.envs):
            obs, reward, terminated, truncated, info = env.step(self._action(rows[copy]))
            reward = ADMISSION.reward(reward)
            terminated, truncated = ADMISSION.flag(terminated, "terminated"), ADMISSION.flag(truncated, "truncated")
            self._rewards[copy], self._terminated[copy], self._truncated[copy] = reward, terminated, truncated
            if terminated or truncated:
                self._write_row(obs, self._final_obs[copy])
                info = {**info, "terminal_observation": obs, "TimeLimit.truncated": truncated and not terminated}
                obs, _ = env.reset(seed=self._seed(seeds, copy))
            self._write_row(obs, self._obs[copy])
            infos.append(info)
            observations.append(obs)
        self._keep(rows, observations, infos)
        return self._told()

    def _seed(self, seeds: Sequence[int] | None, copy: int) -> int | None:
        if seeds is not None and self._takes_whole_seeds:
            return int(seeds[copy])
        return seed_of(seeds, copy)


class VectorStepper(Stepper):
    """A vector of Gymnasium, in any of its autoreset modes."""

    def __init__(self, vector: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        self.vector = vector
        self.num_envs = vector.num_envs
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space
        mode = AutoresetMode(vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        # These two reset the copies that they are told to, whatever their mode.
        resets_some = isinstance(vector.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        if mode == AutoresetMode.NEXT_STEP and not resets_some:
            problem = "the vector resets copies in the step after the end of an episode (`AutoresetMode.NEXT_STEP`)"
            raise ConfigError(
                f"{problem}, in which nothing can be learned; make it with `autoreset_mode=AutoresetMode.SAME_STEP`"
            )
        self._has_reset = mode == AutoresetMode.SAME_STEP
        self._prepare()

    def _methods(self) -> Iterator[tuple[Any, str]]:
        return ((self.vector.unwrapped, name) for name in ("reset", "step"))

    def _compute_reward(self) -> Callable[..., Any] | None:
        # Wrappers of the vector may have changed observations and rewards.
        envs = getattr(self.vector, "envs", None) if self.vector is self.vector.unwrapped else None
        return reward_of_goals(envs[0]) if envs else None

    def reset(self, seeds: Sequence[int] | None) -> Array:
        # Vectors take a list of seeds, one for each copy, though the base class names a number.
        given: Any = None if seeds is None else [seed_of(seeds, copy) for copy in range(self.num_envs)]
        obs, _ = self.vector.reset(seed=given)
        self._write(obs, self._obs, range(self.num_envs))
        return self._obs.ravel()

    def step(self, actions: Array, seeds: Sequence[int] | None) -> tuple[Array, Array, Array, Array, Array]:
        rows = actions.reshape(self.num_envs, -1)
        batched = rows.reshape(self.vector.action_space.shape or (self.num_envs,))
        obs, rewards, terminated, truncated, infos = self.vector.step(batched)
        self._rewards[:] = ADMISSION.array(rewards, "the reward")
        self._terminated[:], self._truncated[:] = terminated, truncated
        ended = np.flatnonzero(self._terminated | self._truncated)
        last: Any = infos.get("final_obs")
        if len(ended) and self._has_reset:
            for copy in ended:
                write_row(self.observation_space, last[copy], self._final_obs[copy])
        elif len(ended):
            last = self._write(obs, self._final_obs, ended)
            mask = self._terminated | self._truncated
            obs, _ = self.vector.reset(seed=None, options={"reset_mask": mask})
        each = self._write(obs, self._obs, range(self.num_envs))
        self._keep(rows, each, [self._info(infos, last, copy) for copy in range(self.num_envs)])
        return self._told()

    def _info(self, infos: dict[str, Any], last: Any, copy: int) -> dict[str, Any]:
        """What a vector of Gymnasium tells of one copy, and its last observation."""
        told = _of_copy(infos, copy)
        if self._terminated[copy] or self._truncated[copy]:
            told |= _of_copy(infos.get("final_info", {}), copy) if self._has_reset else {}
            told["TimeLimit.truncated"] = bool(self._truncated[copy] and not self._terminated[copy])
            told["terminal_observation"] = last[copy]
        return told

    def _write(self, obs: Any, rows: Array, copies: Any) -> list[Any]:
        each = list(gymnasium.vector.utils.iterate(self.vector.observation_space, obs))
        for copy in copies:
            write_row(self.observation_space, each[copy], rows[copy])
        return each


class VecEnvStepper(Stepper):
    """A vector with Stable-Baselines3's interface: `reset` gives observations, and `step` gives four values."""

    def __init__(self, vector: Any) -> None:
        self.vector = vector
        self.num_envs = int(vector.num_envs)
        self.observation_space, self.action_space = vector.observation_space, vector.action_space
        self._prepare()

    def _methods(self) -> Iterator[tuple[Any, str]]:
        inner = getattr(self.vector, "unwrapped", self.vector)
        yield from ((inner, name) for name in ("reset", "step_async"))
        for env in getattr(inner, "envs", ()):
            yield from ((env.unwrapped, name) for name in ("reset", "step"))

    @property
    def has_masks(self) -> bool:
        has_attr = getattr(self.vector, "has_attr", None)
        return bool(has_attr("action_masks")) if has_attr is not None else False

    def masks(self) -> list[bool]:
        return [bool(flag) for mask in self.vector.env_method("action_masks") for flag in np.ravel(mask)]

    def reset(self, seeds: Sequence[int] | None) -> Array:
        if seeds is not None:
            # Copy i takes the first seed plus i.
            self.vector.seed(int(seeds[0]) & _SEED)
        self._write(self.vector.reset(), self._obs)
        return self._obs.ravel()

    def step(self, actions: Array, seeds: Sequence[int] | None) -> tuple[Array, Array, Array, Array, Array]:
        rows = actions.reshape(self.num_envs, -1)
        obs, rewards, dones, infos = self.vector.step(self._batched(rows))
        self._rewards[:] = ADMISSION.array(rewards, "the reward")
        for copy, info in enumerate(infos):
            truncated = bool(dones[copy]) and bool(info.get("TimeLimit.truncated", False))
            self._truncated[copy], self._terminated[copy] = truncated, bool(dones[copy]) and not truncated
            if dones[copy]:
                write_row(self.observation_space, info["terminal_observation"], self._final_obs[copy])
        self._keep(rows, self._write(obs, self._obs), list(infos))
        return self._told()

    @property
    def changes_rewards(self) -> bool:
        return hasattr(self.vector, "venv")

    def _compute_reward(self) -> Callable[..., Any] | None:
        layer = self.vector
        while hasattr(layer, "venv"):
            # Others may change observations and rewards.
            if type(layer).__name__ not in ("VecMonitor", "VecCheckNan"):
                return None
            layer = layer.venv
        if getattr(layer, "envs", None) and reward_of_goals(layer.envs[0]) is None:
            return None
        has_attr = getattr(layer, "has_attr", None)
        if has_attr is None or not has_attr("compute_reward"):
            return None
        return lambda *goals: layer.env_method("compute_reward", *goals, indices=[0])[0]

    def _batched(self, rows: Array) -> NDArray[Any]:
        return np.array([self._action(row) for row in rows])

    def _write(self, obs: Any, rows: Array) -> list[Any]:
        each = []
        for copy in range(self.num_envs):
            each.append({name: part[copy] for name, part in obs.items()} if isinstance(obs, dict) else obs[copy])
            write_row(self.observation_space, each[copy], rows[copy])
        return each


def _of_copy(infos: dict[str, Any], copy: int) -> dict[str, Any]:
    """The entries of one copy: `_name` says which copies have `name`."""
    found = {}
    for name, values in infos.items():
        if name[0] == "_" or name in ("final_obs", "final_info") or not infos.get(f"_{name}", _ALL)[copy]:
            continue
        found[name] = _of_copy(values, copy) if isinstance(values, dict) else values[copy]
    return found


def has_action_masks(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment has the method `action_masks`."""
    return bool(env.has_wrapper_attr("action_masks"))


def reward_of_goals(env: gymnasium.Env[Any, Any]) -> Callable[..., Any] | None:
    """The method `compute_reward` of an environment; None if it has none, or if a wrapper around it changes what it computes
    rewards of."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper) and not hasattr(type(layer), "compute_reward"):
        if isinstance(layer, (gymnasium.ObservationWrapper, gymnasium.RewardWrapper)):
            return None
        layer = layer.env
    found = getattr(layer, "compute_reward", None)
    return found if callable(found) else None
