"""Arguments of models. The Rust half has one table of them, from which constructors, attributes and checks are read here."""

import inspect
import json
import math
import os
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeVar

from . import _native
from .common.noise import ActionNoise
from .errors import ArgumentError, ConfigError, refuse_class
from .schedules import is_schedule, values

Settings = dict[str, Any]
Class = TypeVar("Class", bound=type[Any])

_TABLE: dict[str, Any] = json.loads(_native.arguments_table())
# Classes by their names, with their arguments and defaults.
CLASSES: dict[str, dict[str, Any]] = {row["name"]: row for row in _TABLE["classes"]}
# Arguments that are no attributes of a model, or have attributes of their own.
_NO_ATTRIBUTES = ("stats_window_size", "tensorboard_log", "verbose", "device", "_init_setup_model")


def rows_of(who: str, table: str = "arguments") -> dict[str, dict[str, Any]]:
    """The rows of a class in the table, by the names of the arguments."""
    has = defaults_of(who)
    rows = (row for row in _TABLE[table] if who in row.get("of", [who]))
    return {row["name"]: row for row in rows if table != "arguments" or row["name"] in has}


def defaults_of(who: str) -> dict[str, Any]:
    """The arguments of a class with their defaults."""
    return {**CLASSES[who]["arguments"], **CLASSES[who].get("keywords", {})}


def encode(value: Any) -> Any:
    """An argument in JSON's types. Functions of progress are their values, classes their names; what has no such form is told
    as Python shows it, for an error."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"object": repr(value)}
    if isinstance(value, dict):
        return {str(key): encode(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, ActionNoise):
        return {"noise": value.parameters()}
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Enum):
        return value.name.lower()
    if is_schedule(value):
        return {"schedule": values(value)}
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return encode(value.item())
    return {"object": repr(value)}


class Arguments:
    """The arguments of a model, and the settings that they mean."""

    def __init__(self, who: str, policy: str, given: dict[str, Any], own: Settings | None) -> None:
        for name, value in given.items():
            if not name.endswith("_class") and name != "device":
                refuse_class(name, value)
        self.who = who
        self.policy = policy
        self.algorithm: str = CLASSES[who]["algorithm"]
        # Settings that the user wrote by pavlov's names.
        self.own = dict(own or {})
        _refuse(_native.check_arguments(who, json.dumps(encode(given))))
        self.values = defaults_of(who) | given
        # Whether one was assigned since the run was made.
        self.is_assigned = False

    def assign(self, name: str, value: Any, copies: int) -> None:
        """Takes another value of an argument, which the run has from its next iteration on."""
        refuse_class(name, value)
        _refuse(_native.check_arguments(self.who, json.dumps(encode({name: value}))))
        before = self.values[name]
        self.values[name] = value
        try:
            self.translated(copies, None)
        except Exception:
            self.values[name] = before
            raise
        self.is_assigned = True

    def translated(self, copies: int, span: tuple[int, int] | None) -> Settings:
        """The settings that the arguments mean. `span` are the first and last step of `learn`, once they are known."""
        given = json.dumps(encode(self.values))
        text, refused = _native.translate_arguments(self.who, self.policy, given, copies, span)
        _refuse(refused)
        settings: Settings = json.loads(text)
        return settings

    def named(self, error: ConfigError) -> ConfigError:
        """An error about settings in the names of the arguments that they were made of."""
        names = {path: row["name"] for row in self._rows() for path in row.get("becomes", [])}

        def renamed(line: str) -> str:
            about = re.search(r"`([\w.]+)`", line)
            if about is None or about[1] not in names or about[1].split(".")[0] in self.own:
                return line
            # A setting that may be null is an argument that may be None.
            line = re.sub(r"`([\w.]+)`", lambda found: f"`{names.get(found[1], found[1])}`", line)
            return line.replace(", or null", ", or None")

        first, *others = str(error).split("\n")
        if not others:
            return type(error)(renamed(first))
        # One argument may have become several settings.
        told = {line.split(" is ")[0]: line for line in reversed([renamed(line.strip()) for line in others])}
        return type(error)(_together(list(reversed(told.values()))))

    def _rows(self) -> list[dict[str, Any]]:
        return [*rows_of(self.who, "policy_kwargs").values(), *rows_of(self.who).values()]


def _refuse(sentences: list[str]) -> None:
    if sentences:
        raise ArgumentError(_together(sentences))


def _together(lines: list[str]) -> str:
    return lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} arguments are refused:", *lines])


# What is read from the table.


class HasArguments(Protocol):
    """A model."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The values by name."""

    def _assign(self, name: str, value: Any) -> None: ...


class Argument:
    """An argument as an attribute. An assigned value is used from the next rollout on; that of one that is `fixed` is refused."""

    def __init__(self, name: str, fixed: str | None, meaning: str) -> None:
        self.name = name
        self.fixed = fixed
        self.__doc__ = meaning

    def __get__(self, model: HasArguments | None, owner: type) -> Any:
        if model is None:
            return self
        if self.name not in model.arguments:
            raise AttributeError(f"{owner.__name__} has no argument `{self.name}`")
        return model.arguments[self.name]

    def __set__(self, model: HasArguments, value: Any) -> None:
        if self.name not in model.arguments:
            raise AttributeError(f"{type(model).__name__} has no argument `{self.name}`")
        if self.fixed is not None:
            way = f"give `{self.name}` to the constructor, or to `load`"
            raise AttributeError(f"`{self.name}` of {type(model).__name__} cannot be assigned: {self.fixed}; {way}")
        model._assign(self.name, value)


class Missing:
    """An attribute of Stable-Baselines3's models that is not here, so that assigning to it would do nothing."""

    def __init__(self, way_out: str) -> None:
        self.way_out = way_out

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: object | None, owner: type) -> Any:
        if model is None:
            return self
        raise AttributeError(f"{owner.__name__} has no `{self.name}`: {self.way_out}")

    def __set__(self, model: object, value: Any) -> None:
        raise AttributeError(f"{type(model).__name__} has no `{self.name}`: {self.way_out}")


def takes_arguments(cls: Class) -> Class:
    """Gives a class of the table its constructor, the attributes of its arguments, and their lines in its `help`."""
    who = cls.__name__
    rows = rows_of(who)
    cls.__init__ = _constructor(who)
    for name, row in rows.items():
        if name not in _NO_ATTRIBUTES:
            setattr(cls, name, Argument(name, row.get("fixed"), row["help"]))
    lines = [f"    {name}: {row['help']}" for name, row in rows.items()]
    keys = [f"      {name}: {row['help']}" for name, row in rows_of(who, "policy_kwargs").items() if "only" not in row]
    at = list(rows).index("policy_kwargs") + 1
    own = f"    settings: pavlov's own, by the names that `pavlov config {CLASSES[who]['algorithm']}` lists."
    text = "\n".join(["", "", "Arguments:", *lines[:at], *keys, *lines[at:], own])
    cls.__doc__ = inspect.cleandoc((cls.__doc__ or "").rstrip() + text.replace("\n", "\n    "))
    return cls


def _constructor(who: str) -> Callable[..., None]:
    order = list(CLASSES[who]["arguments"])

    def __init__(self: Any, policy: Any, env: Any, *positional: Any, settings: Settings | None = None, **named: Any) -> None:
        if len(positional) > len(order):
            problem = f"{who} takes at most {len(order) + 2} arguments without names"
            raise ArgumentError(f"{problem}, but {len(positional) + 2} are given")
        given = dict(zip(order, positional))
        for name in given.keys() & named.keys():
            raise ArgumentError(f"{who} has `{name}` twice: at its place, and by its name")
        self._make(policy, env, given | named, settings)

    __init__.__qualname__ = f"{who}.__init__"
    __init__.__doc__ = None
    __init__.__signature__ = signature_of(who)  # type: ignore[attr-defined]
    return __init__


def signature_of(who: str) -> inspect.Signature:
    """The constructor's signature."""
    plain, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    named = CLASSES[who].get("keywords", {}) | {"settings": None}
    parameters = [inspect.Parameter(name, plain) for name in ("self", "policy", "env")]
    parameters += [inspect.Parameter(name, plain, default=value) for name, value in CLASSES[who]["arguments"].items()]
    parameters += [inspect.Parameter(name, by_name, default=value) for name, value in named.items()]
    return inspect.Signature(parameters, return_annotation=None)
