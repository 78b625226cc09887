"""Callbacks with Stable-Baselines3's names."""

import os
import sys
from typing import Any

from .base_callbacks import BaseCallback, CallbackList, ConvertCallback, EventCallback
from .eval_callbacks import (
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)


class CheckpointCallback(BaseCallback):
    """Saves the model every `save_freq` calls, as `<save_path>/<name_prefix>_<steps>_steps.zip`.

    The file has what was learned before the rollout of that step, as its name says. Statistics of a `VecNormalize` and a replay
    buffer are saved as they are after the rollout.
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str,
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.save_freq = save_freq
        self.save_path = save_path
        self.name_prefix = name_prefix
        self.save_replay_buffer = save_replay_buffer
        self.save_vecnormalize = save_vecnormalize

    def _init_callback(self) -> None:
        if self.save_path is not None:
            os.makedirs(self.save_path, exist_ok=True)

    def _checkpoint_path(self, checkpoint_type: str = "", extension: str = "") -> str:
        name = f"{self.name_prefix}_{checkpoint_type}{self.num_timesteps}_steps.{extension}"
        return os.path.join(self.save_path, name)

    def saves_within(self, calls: int | None) -> bool:
        return calls is None or self.n_calls % self.save_freq + calls >= self.save_freq

    def _on_step(self) -> bool:
        if self.n_calls % self.save_freq == 0:
            path = self._checkpoint_path(extension="zip")
            self.model.save_as_of_this_step(path)
            if self.verbose >= 2:
                print(f"Saving model checkpoint to {path}")
            if self.save_replay_buffer and hasattr(self.model, "save_replay_buffer"):
                self.model.save_replay_buffer(self._checkpoint_path("replay_buffer_", extension="pkl"))
            normalize = self.model.get_vec_normalize_env() if self.save_vecnormalize else None
            if normalize is not None:
                normalize.save(self._checkpoint_path("vecnormalize_", extension="pkl"))
        return True


class EveryNTimesteps(EventCallback):
    """Calls another callback every `n_steps` steps."""

    def __init__(self, n_steps: int, callback: BaseCallback) -> None:
        super().__init__(callback)
        self.n_steps = n_steps
        self.last_time_trigger = 0

    def _on_step(self) -> bool:
        if self.num_timesteps - self.last_time_trigger >= self.n_steps:
            self.last_time_trigger = self.num_timesteps
            return self._on_event()
        return True


class LogEveryNTimesteps(EveryNTimesteps):
    """Dumps the logger every `n_steps` steps."""

    def __init__(self, n_steps: int) -> None:
        super().__init__(n_steps, ConvertCallback(self._log_data))

    def _log_data(self, _locals: dict[str, Any], _globals: dict[str, Any]) -> bool:
        self.model.logger.dump(self.num_timesteps)
        return True


class ProgressBarCallback(BaseCallback):
    """A bar of one line on standard error; in a notebook or a file, a line every tenth of the way."""

    _WIDTH = 30

    def _on_training_start(self) -> None:
        self._first = self.model.num_timesteps
        self._shown = -1

    def _on_step(self) -> bool:
        total = max(self.model._total_timesteps - self._first, 1)
        done = min((self.model.num_timesteps - self._first) / total, 1.0)
        is_terminal = sys.stderr.isatty()
        part = int(done * (100 if is_terminal else 10))
        if part != self._shown:
            self._shown = part
            filled = int(done * self._WIDTH)
            bar = "#" * filled + "." * (self._WIDTH - filled)
            line = f"[{bar}] {done:4.0%} {self.model.num_timesteps:,} steps"
            print(line, end="\r" if is_terminal else "\n", file=sys.stderr, flush=True)
        return True

    def _on_training_end(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


__all__ = [
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "ConvertCallback",
    "EvalCallback",
    "EventCallback",
    "EveryNTimesteps",
    "LogEveryNTimesteps",
    "ProgressBarCallback",
    "StopTrainingOnMaxEpisodes",
    "StopTrainingOnNoModelImprovement",
    "StopTrainingOnRewardThreshold",
]
