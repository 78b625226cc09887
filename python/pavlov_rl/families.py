"""The two families of algorithms: those that learn from what the policy has just done, and those with a replay buffer."""

from typing import Any

from . import saved
from .arguments import Missing
from .common.utils import get_linear_fn
from .model import BaseAlgorithm
from .spaces import encode as encode_space

_EPSILON = "assign `exploration_initial_eps`, `exploration_fraction` and `exploration_final_eps`"
# What a replay buffer and the model that takes it must have in common: its rows have these numbers in them.
_OF_ROWS = ("buffer_size", "gamma", "n_steps")


class OnPolicyAlgorithm(BaseAlgorithm):
    """An algorithm that learns from what its policy has just done."""


class OffPolicyAlgorithm(BaseAlgorithm):
    """An algorithm that learns from a replay buffer."""

    is_on_policy = False
    _log_interval = 4

    replay_buffer = Missing("it is in Rust; `save_replay_buffer` and `load_replay_buffer` move it")

    # A replay buffer that was loaded before there was a run.
    _buffer: saved.SavedBuffer | None = None

    def _assign(self, name: str, value: Any) -> None:
        gamma = self.arguments["gamma"]
        if name == "gamma" and (self._run.is_changed or self._saved is not None) and value != gamma:
            problem = f"`gamma` of {type(self).__name__} cannot be assigned now: the rows of the replay buffer were discounted"
            raise AttributeError(f"{problem} by {gamma}; make a new model, and give it the parameters of this one")
        super()._assign(name, value)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Learns in another environment from now on, which has the same spaces."""
        super().set_env(env, force_reset)
        if self._buffer is not None:
            self._buffer.put_into(self.native, self._of_rows())
            self._buffer = None

    def save_replay_buffer(self, path: Any) -> None:
        """Writes the replay buffer into a file, `path` or, if that has no suffix, `path.pkl`."""
        saved.save_buffer(self.native, self._of_rows(), path)

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        """Takes the replay buffer of a file that `save_replay_buffer` wrote, in place of the model's own. With `HerReplayBuffer`,
        `truncate_last_traj` ends the episodes that were running when it was saved, so that goals are chosen from them too;
        without it, they are dropped unless they go on."""
        buffer = saved.SavedBuffer(path, truncate_last_traj)
        if self._run.exists:
            buffer.put_into(self.native, self._of_rows())
            self._run.is_changed = True
        else:
            self._buffer = buffer

    def _of_rows(self) -> dict[str, Any]:
        """What the rows of the replay buffer are."""
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        return {name: encode_space(space) for name, space in spaces.items()} | {
            name: self.arguments[name] for name in _OF_ROWS
        }


class EpsilonGreedyAlgorithm(OffPolicyAlgorithm):
    """An algorithm that explores by random actions, fewer and fewer of them."""

    exploration_schedule = Missing(_EPSILON)

    @property
    def exploration_rate(self) -> float:
        """The probability of a random action in the newest step; 0 before the first. It follows from the three arguments of
        exploration."""
        if not self._total_timesteps:
            return 0.0
        first, last, fraction = (self.arguments[f"exploration_{name}"] for name in ("initial_eps", "final_eps", "fraction"))
        done = max(self.num_timesteps - self.n_envs, 0) / self._total_timesteps
        return float(get_linear_fn(first, last, fraction)(1.0 - done) if fraction else last)

    @exploration_rate.setter
    def exploration_rate(self, rate: float) -> None:
        raise AttributeError(f"`exploration_rate` of {type(self).__name__} follows from its arguments; {_EPSILON}")

    def _acts_best(self) -> bool:
        return not self._total_timesteps


class NoisyAlgorithm(OffPolicyAlgorithm):
    """An algorithm that explores by noise on its actions."""

    def _acts_best(self) -> bool:
        return True
