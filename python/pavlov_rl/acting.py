"""Acting: observations in, actions and the state of a recurrent policy out. The caller keeps the state.

The state of a long short-term memory is its output and its cell, each `[1, rows, units]`, as in sb3-contrib. That of another
memory is one such array. Policies without memory give back the state that they get.
"""

import json
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _native
from .spaces import Array, Space, cast_actions, decode, rows_of


class Acts(Protocol):
    """What of the Rust half chooses actions: the policy of a run, or a saved one."""

    @property
    def memory(self) -> tuple[int, int]:
        """Numbers of memory per row, and the equal parts that they are of."""

    def predict(
        self, obs: Array, rows: int, explore: bool, masks: list[bool] | None, memory: NDArray[np.float32] | None
    ) -> tuple[Array, NDArray[np.float32]]:
        """Actions, and the memory after them."""


def predict(
    acts: Acts,
    spaces: tuple[Space, Space],
    observation: Any,
    state: Any,
    episode_start: Any,
    deterministic: bool,
    action_masks: Any,
    scale: float | None = None,
) -> tuple[Any, Any]:
    """The action for one observation, or one for each of several, and the state for the next call. Numbers of observations
    are divided by `scale`, if it is given."""
    observation_space, action_space = spaces
    rows, is_many = rows_of(observation_space, observation)
    count = len(rows)
    flat = np.ascontiguousarray(rows).ravel()
    if scale is not None:
        flat = flat.astype(np.float32) / np.float32(scale)
    width, parts = acts.memory
    memory = _memory(count, width, parts, state, episode_start) if width else None
    masks = None if action_masks is None else [bool(flag) for flag in np.ravel(np.asarray(action_masks, bool))]
    actions, after = acts.predict(flat, count, not deterministic, masks, memory)
    shaped = cast_actions(action_space, actions.reshape(count, -1))
    # Rows of `[units]` for each part become parts of `[1, rows, units]`.
    states = tuple(np.split(after[None], parts, axis=2)) if width else state
    return (shaped if is_many else shaped.squeeze(axis=0)), states


def _memory(count: int, width: int, parts: int, state: Any, episode_start: Any) -> NDArray[np.float32]:
    """The memory of each row before the call: of the state, and zeros where an episode begins."""
    memory = np.zeros((count, width), np.float32)
    if state is not None:
        shape = (1, count, width // parts)
        given = [np.asarray(part, np.float32) for part in state]
        if [part.shape for part in given] != [shape] * parts:
            found = ", ".join(str(part.shape) for part in given)
            raise ValueError(
                f"`state` has arrays of the shapes {found}, but it must have {parts} of the shape {shape}: give what the last "
                f"`predict` of these {count} rows returned, or None where their episodes begin"
            )
        memory[:] = np.concatenate(given, axis=2)[0]
    if episode_start is not None:
        starts = np.ravel(np.asarray(episode_start, bool))
        if len(starts) != count:
            raise ValueError(f"`episode_start` has {len(starts)} entries, but there are {count} rows")
        memory[starts] = 0.0
    return memory.ravel()


# Algorithms whose noise is not part of the policy.
_NOISE_IN_TRAINING = ("DDPG", "TD3")


class LoadedPolicy:
    """A saved policy that acts without an environment. It is what `load_policy` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._policy = _native.NativePolicy(os.fspath(path))
        self.observation_space = decode(json.loads(self._policy.observation_space))
        self.action_space = decode(json.loads(self._policy.action_space))
        self.is_recurrent = self._policy.memory[0] > 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """The action for one observation, or one for each of several, and the state for the next call.

        The state is None unless the policy is recurrent. Then it is a tuple of arrays, and the caller keeps it: None begins an
        episode in every row, and `episode_start` says in which rows one begins. With `deterministic=True` the best action is taken;
        DDPG and TD3 always take it, as in Stable-Baselines3, where their noise belongs to training.
        """
        spaces = self.observation_space, self.action_space
        best = deterministic or self._policy.algorithm in _NOISE_IN_TRAINING
        return predict(self._policy, spaces, observation, state, episode_start, best, action_masks)


def load_policy(path: str | os.PathLike[str]) -> LoadedPolicy:
    """Loads a policy that acts: a packed model (`pavlov pack`), a checkpoint, or a run directory of any algorithm, also one of
    the `pavlov` command."""
    return LoadedPolicy(path)
