"""The last observations of each copy of a vector, one after the other."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...errors import ConfigError
from ...spaces import has_channels_first, is_image

ChannelsOrder = str | Mapping[str, str | None] | None


class StackedObservations:
    """The last `n_stack` observations of `num_envs` copies, in an array whose axis of channels is `n_stack` times as long. It has
    zeros where an episode has none yet.

    `channels_order` is `"first"` or `"last"`, or a dictionary of these for a Dict. By default it is that of the image, and the last
    axis for anything else.
    """

    def __init__(
        self,
        num_envs: int,
        n_stack: int,
        observation_space: spaces.Box | spaces.Dict,
        channels_order: ChannelsOrder = None,
    ) -> None:
        if n_stack < 1:
            raise ConfigError(f"`n_stack` is {n_stack}, but at least one observation is stacked")
        self.n_stack = n_stack
        self.observation_space = observation_space
        self.stacked_observation_space: spaces.Box | spaces.Dict
        if isinstance(observation_space, spaces.Dict):
            orders = channels_order if isinstance(channels_order, Mapping) else dict.fromkeys(observation_space, channels_order)
            self._parts = {
                key: StackedObservations(num_envs, n_stack, _box(part, key), orders.get(key))
                for key, part in observation_space.items()
            }
            self.stacked_observation_space = spaces.Dict(
                {key: part.stacked_observation_space for key, part in self._parts.items()}
            )
            return
        if isinstance(channels_order, Mapping):
            raise TypeError("`channels_order` is a dictionary, which is for observations in a Dict; those here are one Box")
        space = _box(observation_space, None)
        found = self.compute_stacking(n_stack, space, channels_order)
        self.channels_first, self.stack_dimension, self.stacked_shape, self.repeat_axis = found
        low, high = (np.repeat(bound, n_stack, axis=self.repeat_axis) for bound in (space.low, space.high))
        self.stacked_observation_space = spaces.Box(low, high, dtype=space.dtype)
        self.stacked_obs = np.zeros((num_envs, *self.stacked_shape), space.dtype)

    @staticmethod
    def compute_stacking(
        n_stack: int, observation_space: spaces.Box, channels_order: str | None = None
    ) -> tuple[bool, int, tuple[int, ...], int]:
        """Whether channels come first, the axis that is stacked in rows of copies, the shape of a stack, and the axis in it."""
        if channels_order not in (None, "first", "last"):
            # An AssertionError in Stable-Baselines3.
            raise AssertionError(f"`channels_order` is {channels_order!r}, but it must be 'first', 'last' or None")
        if channels_order is None:
            channels_first = is_image(observation_space) and has_channels_first(observation_space)
        else:
            channels_first = channels_order == "first"
        axis = 0 if channels_first else -1
        shape = list(observation_space.shape)
        shape[axis] *= n_stack
        return channels_first, 1 if channels_first else -1, tuple(shape), axis

    def _newest(self, stack: NDArray[Any], axis: int) -> NDArray[Any]:
        """The part of a stack that the newest observation has."""
        width = self.stacked_shape[self.repeat_axis] // self.n_stack
        return np.moveaxis(np.moveaxis(stack, axis, 0)[-width:], 0, axis)

    def reset(self, observation: Any) -> Any:
        """The stacks of episodes that begin with these observations."""
        if isinstance(observation, dict):
            return {key: self._parts[key].reset(part) for key, part in observation.items()}
        self.stacked_obs = np.zeros_like(self.stacked_obs)
        self._newest(self.stacked_obs, self.stack_dimension)[...] = observation
        return self.stacked_obs

    def update(self, observations: Any, dones: NDArray[Any], infos: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
        """The stacks with the observations of one more step, and `infos` with the stacks at the ends of episodes."""
        if isinstance(observations, dict):
            last = [info.get("terminal_observation") for info in infos]
            found: dict[str, Any] = {}
            for key, part in observations.items():
                of_part = [{} if end is None else {"terminal_observation": end[key]} for end in last]
                found[key], of_part = self._parts[key].update(part, dones, of_part)
                for info, changed in zip(infos, of_part, strict=True):
                    if changed:
                        info["terminal_observation"] = {**info["terminal_observation"], key: changed["terminal_observation"]}
            return found, infos
        width = self.stacked_shape[self.repeat_axis] // self.n_stack
        self.stacked_obs = np.roll(self.stacked_obs, -width, axis=self.stack_dimension)
        for copy in np.flatnonzero(dones):
            if "terminal_observation" in infos[copy]:
                ended = self.stacked_obs[copy].copy()
                self._newest(ended, self.repeat_axis)[...] = infos[copy]["terminal_observation"]
                infos[copy]["terminal_observation"] = ended
            else:
                warnings.warn("a vector in VecFrameStack gives no `terminal_observation` where an episode ends", stacklevel=2)
            self.stacked_obs[copy] = 0
        self._newest(self.stacked_obs, self.stack_dimension)[...] = observations
        return self.stacked_obs, infos


def _box(space: Any, key: str | None) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        what = "observations are" if key is None else f"part {key!r} of the observations is"
        raise TypeError(f"only a Box can be stacked, but the {what} {space}")
    return space
