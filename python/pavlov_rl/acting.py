"""Policies that only act: packed models, and the policies of runs of any algorithm."""

import json
import os
from typing import Any

import numpy as np

from . import _native
from .spaces import decode, rows_of


class LoadedPolicy:
    """A saved policy that acts without an environment. It is what `load_policy` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        first = _native.NativePolicy(self._path, 1)
        # One policy for each number of rows, since a recurrent one remembers each of them.
        self._of_rows = {1: first}
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
        if count not in self._of_rows:
            self._of_rows[count] = _native.NativePolicy(self._path, count)
        starts: list[bool] | None = None
        if self.is_recurrent:
            flags = np.zeros(count, bool) if episode_start is None else np.ravel(np.asarray(episode_start, bool))
            starts = [True] * count if state is None else [bool(flag) for flag in flags]
        masks = None if action_masks is None else [bool(flag) for flag in np.ravel(np.asarray(action_masks, bool))]
        flat = np.ascontiguousarray(rows).ravel()
        actions = self._of_rows[count].predict(flat, not deterministic, starts, masks)
        space = self.action_space
        shaped = actions.reshape(count, *(space.shape or ())).astype(space.dtype, copy=False)
        return (shaped if is_many else shaped.squeeze(axis=0)), (("remembered",) if self.is_recurrent else None)


def load_policy(path: str | os.PathLike[str]) -> LoadedPolicy:
    """Loads a policy that acts: a packed model (`pavlov pack`), a checkpoint, or a run directory of any algorithm, also one of
    the `pavlov` command."""
    return LoadedPolicy(path)
