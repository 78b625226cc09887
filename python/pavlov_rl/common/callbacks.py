"""Callbacks with Stable-Baselines3's names and events.

`_on_step` is called for every step of the vector, in order, when the rollout was collected and learned from: the model may be
asked, saved and changed in it. What the step gave is in `self.locals`: `infos`, `rewards`, `dones`, `new_obs`, `actions`.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Locals(dict[str, Any]):
    """What a callback finds in `self.locals`; another name is an error that lists them."""

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"`locals` has no {key!r}; there is {', '.join(sorted(self))}")


class BaseCallback(ABC):
    """Five events of training; the class of a callback overrides those that it wants."""

    model: Any

    def __init__(self, verbose: int = 0) -> None:
        self.n_calls = 0
        self.num_timesteps = 0
        self.verbose = verbose
        self.locals: dict[str, Any] = Locals()
        self.globals: dict[str, Any] = {}
        self.parent: Any = None

    @property
    def training_env(self) -> Any:
        """The environment as a vector. A native one is another copy of those that the model learns in."""
        env = self.model.get_env()
        assert env is not None, "the model has no environment"
        return env

    @property
    def logger(self) -> Any:
        """The model's logger."""
        return self.model.logger

    def init_callback(self, model: Any) -> None:
        """Called once, before training."""
        self.model = model
        self._init_callback()

    def _init_callback(self) -> None:
        pass

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """Called before the first rollout."""
        self.locals = locals_
        self.globals = globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def _on_training_start(self) -> None:
        pass

    def on_rollout_start(self) -> None:
        """Called before each rollout."""
        self._on_rollout_start()

    def _on_rollout_start(self) -> None:
        pass

    @abstractmethod
    def _on_step(self) -> bool:
        """Called for each step; False ends training."""

    def on_step(self) -> bool:
        """Counts a step, and calls `_on_step`."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step() is not False

    def on_training_end(self) -> None:
        """Called after the last rollout."""
        self._on_training_end()

    def _on_training_end(self) -> None:
        pass

    def on_rollout_end(self) -> None:
        """Called after each rollout."""
        self._on_rollout_end()

    def _on_rollout_end(self) -> None:
        pass

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Takes what the step gave."""
        self.locals = locals_
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Hands it to callbacks inside."""


class EventCallback(BaseCallback):
    """A callback that calls another one when its event happens."""

    def __init__(self, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback
        if callback is not None:
            callback.parent = self

    def init_callback(self, model: Any) -> None:
        super().init_callback(model)
        if self.callback is not None:
            self.callback.init_callback(model)

    def _on_training_start(self) -> None:
        if self.callback is not None:
            self.callback.on_training_start(self.locals, self.globals)

    def _on_event(self) -> bool:
        return self.callback.on_step() if self.callback is not None else True

    def _on_step(self) -> bool:
        return True

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        if self.callback is not None:
            self.callback.update_locals(locals_)


class CallbackList(BaseCallback):
    """Callbacks that are called one after the other."""

    def __init__(self, callbacks: list[BaseCallback]) -> None:
        super().__init__()
        self.callbacks = callbacks

    def _init_callback(self) -> None:
        for callback in self.callbacks:
            callback.init_callback(self.model)
            # Callbacks that derive from another library's class have no parent of this one.
            if getattr(callback, "parent", None) is None:
                callback.parent = self.parent

    def _on_training_start(self) -> None:
        for callback in self.callbacks:
            callback.on_training_start(self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_step(self) -> bool:
        goes_on = True
        for callback in self.callbacks:
            goes_on = callback.on_step() and goes_on
        return goes_on

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.update_locals(locals_)


class ConvertCallback(BaseCallback):
    """A function of `locals` and `globals` as a callback."""

    def __init__(self, callback: Callable[[dict[str, Any], dict[str, Any]], bool] | None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback

    def _on_step(self) -> bool:
        return self.callback(self.locals, self.globals) if self.callback is not None else True


class CheckpointCallback(BaseCallback):
    """Saves the model every `save_freq` calls, as `<save_path>/<name_prefix>_<steps>_steps.zip`."""

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

    def _on_step(self) -> bool:
        if self.n_calls % self.save_freq == 0:
            path = self._checkpoint_path(extension="zip")
            self.model.save(path)
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


from .eval_callbacks import (  # noqa: E402  (they derive from the classes above)
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)

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
