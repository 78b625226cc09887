"""What can go wrong. Every exception of this package is a `PavlovError` and, besides, the built-in one that fits."""

from typing import Any

import gymnasium


class PavlovError(Exception):
    """Any error of this package."""


class ConfigError(PavlovError, ValueError):
    """A setting, an action or an array does not fit."""


class ArgumentError(ConfigError, TypeError):
    """An argument is unknown, does not fit, or would be ignored."""


class UnknownArgumentError(ArgumentError):
    """An environment has no argument of that name."""


class NotFoundError(PavlovError, KeyError):
    """There is nothing of that name: an environment, an algorithm, a policy."""

    # A KeyError shows its message in quotes.
    __str__ = Exception.__str__


class UnsupportedError(PavlovError, NotImplementedError):
    """This environment does not have what was asked for."""


class ResetNeededError(PavlovError, gymnasium.error.ResetNeeded):
    """`reset` must come first."""


class StateError(PavlovError, ValueError):
    """A saved state cannot be made or does not fit."""


class EnvError(PavlovError, RuntimeError):
    """An environment failed in an episode; the message says in which copy, at which step and with which seed."""


class TrainingError(PavlovError, RuntimeError):
    """Training failed; the message says why and at which step."""


class NeedsTorchError(PavlovError, ImportError):
    """Something was asked for that only pavlov with libtorch computes."""


class CheckpointError(PavlovError, ValueError):
    """A saved model or checkpoint is damaged, or of another algorithm."""


class FileError(PavlovError, OSError):
    """A file or directory cannot be read or written."""


class BusyError(PavlovError, RuntimeError):
    """The model is learning at this time."""


class ForkError(PavlovError, RuntimeError):
    """A model is used in a process that was forked from the one that made the first model."""


class InternalError(PavlovError, RuntimeError):
    """A bug of this package. Please report it."""


def refuse_class(argument: str, value: Any) -> None:
    """Refuses a class where an object of it is meant."""
    if isinstance(value, type):
        name = value.__name__
        raise TypeError(f"`{argument}` is the class {name}, but it must be an object; add (): {name}()")
