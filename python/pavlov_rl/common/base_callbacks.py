"""What callbacks derive from, and those that hold other callbacks, with Stable-Baselines3's names and events.

`_on_step` is called for every step of the vector, in order, when the rollout was collected and learned from: the model may be
asked, saved and changed in it. What the step gave is in `self.locals`: `infos`, `rewards`, `dones`, `new_obs`, `actions`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Locals(dict[str, Any]):
    """What a callback finds in `self.locals`; another name is an error that lists them. `env` is made when it is asked for."""

    def __missing__(self, key: str) -> Any:
        if key == "env" and "self" in self:
            return self["self"].get_env()
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
        """The environment as a vector. One made by its id is another copy of those that the model learns in. Objects whose
        place native copies take are stepped themselves from the next rollout on if they are changed, or asked for their state.
        """
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

    def saves_within(self, calls: int | None) -> bool:
        """Whether one of the next `calls` calls of `on_step` saves the model as of its step; None are as many as there may be."""
        return False


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

    def saves_within(self, calls: int | None) -> bool:
        # Which of the calls are events is not known here.
        return self.callback is not None and self.callback.saves_within(None)

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

    def saves_within(self, calls: int | None) -> bool:
        # Callbacks of another library's class have no such method.
        return any(hasattr(callback, "saves_within") and callback.saves_within(calls) for callback in self.callbacks)

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
