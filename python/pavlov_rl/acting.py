"""Policies that only act: packed models, and the policies of runs of any algorithm."""

import json
import os
from typing import Any

import numpy as np

from .saved import SavedPolicy
from .spaces import decode, rows_of


def flags(given: Any) -> list[bool] | None:
    """Flags as a flat list; None stays None."""
    return None if given is None else [bool(flag) for flag in np.ravel(np.asarray(given, bool))]


def episode_starts(count: int, state: Any, episode_start: Any) -> list[bool]:
    """In which of `count` rows an episode begins: in all of them without a state, else as `episode_start` says."""
    return [True] * count if state is None else flags(episode_start) or [False] * count


class LoadedPolicy:
    """A saved policy that acts without an environment. It is what `load_policy` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._saved = SavedPolicy(os.fspath(path), None, 1)
        first = self._saved.policy(1)
        self.observation_space = decode(json.loads(first.observation_space))
        self.action_space = decode(json.loads(first.action_space))
        self.is_recurrent = first.is_recurrent

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """The action for one observation, or one for each of several, and the state for the next call.

        `state` is None unless the policy is recurrent: then None begins an episode in every row, and `episode_start` says in
        which rows one begins. With `deterministic=True` the best action is taken.
        """
        rows, is_many = rows_of(self.observation_space, observation)
        count = len(rows)
        starts = episode_starts(count, state, episode_start) if self.is_recurrent else None
        flat = np.ascontiguousarray(rows).ravel()
        actions = self._saved.predict(flat, count, not deterministic, starts, flags(action_masks))
        space = self.action_space
        shaped = actions.reshape(count, *(space.shape or ())).astype(space.dtype, copy=False)
        return (shaped if is_many else shaped.squeeze(axis=0)), (("remembered",) if self.is_recurrent else None)


def load_policy(path: str | os.PathLike[str]) -> LoadedPolicy:
    """Loads a policy that acts: a packed model (`pavlov pack`), a checkpoint, or a run directory of any algorithm, also one of
    the `pavlov` command."""
    return LoadedPolicy(path)
