"""Whether an environment object is as its constructor made it, so that the native environment can take its place."""

import ast
import importlib.machinery
import importlib.util
import inspect
import pickle
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeGuard

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from . import _native
from .common.monitor import Monitor
from .envs import Env as NativeEnv
from .errors import ConfigError
from .noticing import Noticed
from .settings import encode as encode_config

# Environments of these modules are those that the native ones equal.
_ORIGINALS = ("gymnasium.envs.", "minigrid.")
# What the methods of an environment assign while it runs; the others are how it was made.
_RUNNING = ("reset", "step", "render", "close")
# Methods of lists and sets that change them.
_IN_PLACE = ("add", "append", "clear", "extend", "insert", "pop", "remove")
# What steps change in the environments of MuJoCo, and what only draws.
_RUNS = ("data", "mujoco_renderer")


@cache
def native_ids() -> frozenset[str]:
    """The ids of native environments with one agent."""
    return frozenset(id for id, *_ in _native.specs())


class Twin:
    """An environment object that a native environment equals, and that nobody steps while the native one is trained in."""

    def __init__(self, id: str, config: dict[str, Any], env: gymnasium.Env[Any, Any], fresh: list[Any]) -> None:
        self.id = id
        self.config = config
        self.env = env
        self._fresh = fresh

    def is_unchanged(self) -> bool:
        """Whether the object still is as it was when the native environment took its place."""
        return _same_layers(list(_layers(self.env)), self._fresh)

    def shows_steps(self, name: str) -> bool:
        """Whether an attribute or a method shows what steps did, as the object itself does not know them."""
        of: Any = type(self.env.unwrapped)
        if name in _RUNNING or name in _state_names(of):
            return True
        return callable(getattr(of, name, None)) and not hasattr(Monitor, name)

    def tell(self, steps: int, episodes: list[dict[str, Any]]) -> None:
        """Tells the monitors around the object of native steps, and of the episodes that ended in them."""
        for monitor in (layer for layer in _layers(self.env) if isinstance(layer, Monitor)):
            monitor.total_steps += steps
            monitor.episode_returns += [episode["r"] for episode in episodes]
            monitor.episode_lengths += [episode["l"] for episode in episodes]
            monitor.episode_times += [episode["t"] for episode in episodes]


def twin_of(env: gymnasium.Env[Any, Any]) -> Twin | None:
    """The native environment that equals this object; None if there is none.

    The object must be as `gymnasium.make` makes it: its class, arguments, wrappers, attributes and methods. An attribute that
    an argument sets, such as `g` of Pendulum, may have another value. A `Monitor` without a file may be around it.
    """
    layers = list(_layers(env))
    spec, id = layers[-1].spec, ""
    if spec is not None:
        id = spec.id.removeprefix("pavlov/")
    if id not in native_ids() or layers[-1].render_mode == "human" or not _is_known_class(layers[-1]):
        return None
    try:
        return _compared(env, layers, spec, id) if spec.id in gymnasium.registry and is_original(spec.id) else None
    except OSError:
        # Without their source nobody knows which attributes of an environment its steps change.
        return None


def _compared(env: gymnasium.Env[Any, Any], layers: list[Any], spec: Any, id: str) -> Twin | None:
    arguments = {name: value for name, value in spec.kwargs.items() if name != "env_id"}
    defaults = {name: value for name, value in gymnasium.registry[spec.id].kwargs.items() if name != "env_id"}
    fresh = _fresh(spec.id, arguments)
    if fresh is None or type(fresh[-1]) is not type(layers[-1]):
        return None
    carried = _carried(layers[-1], fresh[-1])
    if carried:
        arguments |= carried
        fresh = _fresh(spec.id, arguments)
    if fresh is None or not _same_layers(layers, fresh):
        return None
    # What Gymnasium's registry itself gives is what the native id means.
    config = {
        name: value
        for name, value in arguments.items()
        if name != "render_mode" and (name not in defaults or defaults[name] != value)
    }
    try:
        _native.NativeVector(id, 1, encode_config(id, config), "SameStep", 1, None)
    except ConfigError:
        return None
    return Twin(id, config, env, fresh)


def is_original(id: str) -> bool:
    """Whether Gymnasium makes its own environment, or ours, of a native id: nobody registered another, or changed its class."""
    registered = gymnasium.registry.get(id)
    if registered is None:
        return True
    entry = registered.entry_point
    if not isinstance(entry, str) or not entry.startswith(("pavlov_rl.envs:", *_ORIGINALS)) or registered.additional_wrappers:
        return False
    limits = {steps for short, _, steps, _ in _native.specs() if short == id.removeprefix("pavlov/")}
    if entry.startswith("minigrid."):
        # Its classes end episodes themselves.
        limits = {None}
    module, _, name = entry.partition(":")
    made = getattr(sys.modules.get(module), name, None)
    try:
        return registered.max_episode_steps in limits and (made is None or _is_unchanged(made))
    except OSError:
        return False


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _is_known_class(bare: Any) -> bool:
    return type(bare) is NativeEnv or type(bare).__module__.startswith(_ORIGINALS)


def _fresh(id: str, arguments: dict[str, Any]) -> list[Any] | None:
    """The layers of a new object, the outermost first."""
    try:
        with warnings.catch_warnings():
            # The user was warned of an old version when the object was made.
            warnings.simplefilter("ignore")
            return list(_layers(gymnasium.make(id, **arguments)))
    except (gymnasium.error.Error, TypeError, ValueError):
        return None


def _carried(bare: Any, fresh: Any) -> dict[str, Any]:
    """The attributes with another value that an argument of the class sets, by the argument's name."""
    if isinstance(bare, NativeEnv):
        return {}
    known = inspect.signature(type(bare)).parameters
    found = {}
    for name, value in _settled(bare).items():
        argument = name.removeprefix("_")
        if argument in known and hasattr(fresh, name) and not _same(value, getattr(fresh, name)):
            found[argument] = value
    return found


def _same_layers(layers: list[Any], fresh: list[Any]) -> bool:
    """Whether the layers behave like new ones. Monitors are not compared, and checks of use may be left out; so may the time
    limit of an environment of ours, which has its own."""
    by_type = {type(layer): layer for layer in fresh}
    met = set()
    for layer in layers:
        if type(layer) is Monitor:
            plain = layer.results is None and not layer.info_keywords and not layer.reset_keywords
            if not plain or "step" in vars(layer) or "reset" in vars(layer):
                return False
            continue
        like = by_type.get(type(layer))
        if like is None or type(layer) in met or not _is_unchanged(type(layer)):
            return False
        met.add(type(layer))
        if not _same_attributes(layer, like):
            return False
    optional = {PassiveEnvChecker, OrderEnforcing} | ({TimeLimit} if isinstance(layers[-1], NativeEnv) else set())
    return met >= set(by_type) - optional


def _same_attributes(layer: Any, like: Any) -> bool:
    if isinstance(layer, NativeEnv):
        # Those with an underscore are rows that every step writes.
        own, new = ({name: value for name, value in vars(each).items() if name[0] != "_"} for each in (layer, like))
    else:
        own, new = _settled(layer), _settled(like)
    own.pop("spec", None), new.pop("spec", None)
    return own.keys() == new.keys() and all(_same(value, new[name]) for name, value in own.items())


def _settled(layer: Any) -> dict[str, Any]:
    """The attributes of an object that no step changes."""
    of: Any = type(layer)
    running = _state_names(of) | {"env"} | set(_RUNS if of.__module__.startswith("gymnasium.envs.mujoco.") else ())
    return {name: value for name, value in vars(layer).items() if name not in running and type(value) is not Noticed}


@cache
def _state_names(of: type) -> frozenset[str]:
    """The attributes that `reset`, `step`, `render` and what they call assign."""
    methods: dict[str, list[ast.FunctionDef]] = {}
    for each in reversed(of.__mro__):
        tree = _tree(each.__module__) if each.__module__.startswith(("gymnasium.", "minigrid.")) else None
        found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == each.__name__] if tree else []
        for member in found[0].body if found else []:
            if isinstance(member, ast.FunctionDef) and not _is_setter(member):
                # A method may call the one of the base class that it overrides.
                methods.setdefault(member.name, []).append(member)
    names: set[str] = set()
    to_do, seen = list(_RUNNING), {"__init__"}
    while to_do:
        method = to_do.pop()
        if method in seen:
            continue
        seen.add(method)
        for function in methods.get(method, []):
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and _is_own(node.value) and node.attr in _IN_PLACE:
                    names.add(node.value.attr)
                elif _is_own(node):
                    if isinstance(node.ctx, ast.Store):
                        names.add(node.attr)
                    elif node.attr in methods:
                        to_do.append(node.attr)
    return frozenset(names)


def _is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether an expression is an attribute of `self`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in node.decorator_list)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(sys.modules[module])))


def _is_unchanged(of: type) -> bool:
    """Whether the functions and constants of a class, and of its module, are those of its source."""
    return all(_same_namespace(own, original) for own, original in _namespaces(of))


@cache
def _namespaces(of: type) -> list[tuple[Any, dict[str, Any]]]:
    """The names of a class, of its bases and of their modules, each with those of the source."""
    found: list[tuple[Any, dict[str, Any]]] = []
    for each in of.__mro__:
        if each.__module__.startswith((*_ORIGINALS, "gymnasium.wrappers.")):
            original = _original(each.__module__)
            found.append((vars(sys.modules[each.__module__]), dict(vars(original))))
            found.append((vars(each), dict(vars(getattr(original, each.__name__)))))
    return found


@cache
def _original(name: str) -> types.ModuleType:
    """A module of environments, executed once more from its file."""
    spec = importlib.util.find_spec(name)
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise OSError(f"there is no source of {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _same_namespace(own: Any, original: dict[str, Any]) -> bool:
    for name, value in own.items():
        if name.startswith("__") and name != "__init__":
            continue
        if name not in original:
            return False
        if value is not original[name]:
            if not _same(value, original[name]):
                return False
            if not isinstance(value, (dict, list, np.ndarray)):
                # Found equal once, it is recognised by itself from now on.
                original[name] = value
    return True


def _same(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether two values are equal in all that an environment could see of them."""
    if one is other:
        return True
    if isinstance(one, (bool, int, float, np.number)) and isinstance(other, (bool, int, float, np.number)):
        return bool(one == other) or (one != one and other != other)
    if type(one) is not type(other):
        # A class of a module that was executed once more is another one of the same name.
        return _name(type(one)) == _name(type(other)) and depth < 4 and _same_object(one, other, depth)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, (str, bytes, gymnasium.Space)):
        return bool(one == other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(*pair, depth) for pair in zip(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key], depth) for key, value in one.items())
    if isinstance(one, type):
        return _name(one) == _name(other)
    if isinstance(one, types.FunctionType):
        given = (one.__defaults__, one.__kwdefaults__), (other.__defaults__, other.__kwdefaults__)
        return one.__code__ == other.__code__ and _same(*given, depth)
    if isinstance(one, types.MethodType):
        return _same(one.__func__, other.__func__, depth)
    if isinstance(one, property):
        return all(_same(getattr(one, part), getattr(other, part), depth) for part in ("fget", "fset", "fdel"))
    if isinstance(one, (staticmethod, classmethod)):
        return _same(one.__func__, other.__func__, depth)
    return depth < 4 and _same_object(one, other, depth)


def _same_object(one: Any, other: Any, depth: int) -> bool:
    if type(one).__module__.startswith("Box2D"):
        # A world has its bodies, and a reset replaces those.
        parts = ["gravity"] if type(one).__name__ == "b2World" else [part for part in dir(one) if part[0] != "_"]
        return all(_same(_plain(one, part), _plain(other, part), depth + 1) for part in parts)
    if hasattr(one, "__dict__"):
        return _same(vars(one), vars(other), depth + 1)
    try:
        # As MuJoCo's model, whose numbers are in memory of its own.
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:
        return bool(one == other)


def _plain(of: Any, part: str) -> Any:
    """A part of an object of Box2D, if it is one of numbers. Shapes are what a reset moves."""
    value = getattr(of, part, None)
    if value is not None and type(value).__name__ == "b2Vec2":
        return list(value)
    return value if isinstance(value, (bool, int, float)) else None


def _name(of: type) -> str:
    return f"{of.__module__}.{of.__qualname__}"
