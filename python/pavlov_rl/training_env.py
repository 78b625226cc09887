"""The `env` argument of a model: which environment is meant, and whether Rust or Python steps it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from . import _native
from .common.monitor import Monitor
from .common.vec_env.base_vec_env import VecEnv
from .common.vec_env.dummy_vec_env import DummyVecEnv
from .common.vec_env.native_vec_env import NativeVecEnv
from .common.vec_env.stepped_vec_env import SteppedVecEnv
from .envs import Env as NativeEnv
from .envs import VectorEnv as NativeVector
from .errors import ConfigError, NotFoundError
from .settings import encode as encode_config
from .shared_policy import AgentsStepper, is_parallel_env, refuse_aec
from .spaces import Space, decode, encode, encode_actions
from .steppers import EnvStepper, Stepper, VecEnvStepper, VectorStepper

# Environments of these modules are those that the native ones equal.
_ORIGINALS = ("gymnasium.envs.", "minigrid.")


@dataclass
class TrainingEnv:
    """Copies of an environment to train on."""

    id: str
    num_envs: int
    observation_space: Space
    action_space: Space
    # The settings of a native environment.
    config: dict[str, Any] = field(default_factory=dict)
    # What steps the copies in Python; None if Rust does.
    stepper: Stepper | None = None
    # The face that the user gave or that is shown to the user; made when it is asked for.
    face: VecEnv | None = None
    # A line that says who steps the copies.
    says: str = ""

    def in_python(self) -> tuple[Stepper, str, str, int, bool] | None:
        """What the Rust half needs to have the copies stepped here."""
        if self.stepper is None:
            return None
        observations, actions = json.dumps(encode(self.observation_space)), json.dumps(encode_actions(self.action_space))
        return self.stepper, observations, actions, self.num_envs, self.stepper.has_masks

    def settings(self) -> dict[str, Any]:
        """The settings that follow from the environment."""
        settings: dict[str, Any] = {"num_workers": 0, "num_envs_per_worker": self.num_envs}
        if self.config:
            settings["env_config"] = self.config
        if self.stepper is not None:
            # It resets the environments more often than a run does.
            settings["disable_env_checking"] = True
        return settings

    def vec_env(self) -> VecEnv:
        """The vector that callbacks and `get_env` see."""
        if self.face is None:
            if isinstance(self.stepper, EnvStepper):
                envs = list(self.stepper.envs)
                self.face = DummyVecEnv([lambda env=env: env for env in envs])  # type: ignore[misc]
            elif isinstance(self.stepper, VectorStepper):
                self.face = SteppedVecEnv(self.stepper, self.stepper.vector)
            elif isinstance(self.stepper, AgentsStepper):
                self.face = SteppedVecEnv(self.stepper, self.stepper.env)
            else:
                self.face = NativeVecEnv(self.id, self.num_envs, self.config)
        return self.face


def resolve(env: Any) -> TrainingEnv:
    """Finds out what an `env` argument means."""
    if isinstance(env, str):
        return _by_id(env)
    if isinstance(env, NativeVecEnv):
        return _native_env(env.id, env.num_envs, env.config, env)
    if isinstance(env, NativeVector):
        return _native_env(env.id, env.num_envs, env.config, None)
    if isinstance(env, gymnasium.vector.VectorEnv):
        return _in_python(VectorStepper(env), _name(env), None)
    if isinstance(env, gymnasium.Env):
        found = native_id(env)
        if found is not None:
            return _native_env(found[0], 1, found[1], None)
        return _in_python(EnvStepper([_monitored(env)]), _name(env), None)
    if type(env) is DummyVecEnv:
        ids = [native_id(each) for each in env.envs]
        if ids[0] is not None and all(found == ids[0] for found in ids):
            return _native_env(ids[0][0], env.num_envs, ids[0][1], env)
        return _in_python(EnvStepper(env.envs), _name(env.envs[0]), env)
    if hasattr(env, "num_envs") and hasattr(env, "step_wait"):
        return _in_python(VecEnvStepper(env), _name(env), env)
    if callable(env) and not hasattr(env, "step"):
        return resolve(env())
    refuse_aec(env)
    if is_parallel_env(env):
        agents = _in_python(AgentsStepper(env), str(env.metadata.get("name", type(env).__name__)), None)
        agents.says += f": one policy acts for its {agents.num_envs} agents, and each counts as a copy"
        return agents
    module = type(env).__module__.split(".")[0]
    if module == "gym" or hasattr(env, "step"):
        problem = f"the environment is of {type(env).__module__}.{type(env).__name__}, no `gymnasium.Env`"
        raise TypeError(f"{problem}; gym was replaced by Gymnasium: `import gymnasium as gym`")
    raise TypeError(
        f"`env` is {env!r}, but it must be an id, a `gymnasium.Env`, a function that makes one, or a vector of them"
    )


def _by_id(id: str) -> TrainingEnv:
    short = id.removeprefix("pavlov/")
    if short in native_ids():
        return _native_env(short, 1, {}, None)
    try:
        return resolve(gymnasium.make(id))
    except (gymnasium.error.NameNotFound, gymnasium.error.VersionNotFound, gymnasium.error.NamespaceNotFound) as error:
        raise NotFoundError(f"{error} `pavlov_rl.ids()` lists the native ones") from None


def native_ids() -> set[str]:
    """The ids of native environments with one agent."""
    return {id for id, *_ in _native.specs()}


def _native_env(id: str, num_envs: int, config: dict[str, Any], face: VecEnv | None) -> TrainingEnv:
    plain = json.loads(encode_config(id, config))
    native = _native.NativeVector(id, 1, json.dumps(plain), "SameStep", 1, None)
    observations, actions = (decode(json.loads(text)) for text in (native.observation_space, native.action_space))
    says = f"{id} is stepped by pavlov's own environment in Rust"
    return TrainingEnv(id, num_envs, observations, actions, plain, None, face, says)


def _in_python(stepper: Stepper, id: str, face: VecEnv | None) -> TrainingEnv:
    if isinstance(stepper.action_space, (spaces.Dict, spaces.Tuple)):
        raise ConfigError(f"actions of {stepper.action_space} are not supported; flatten them in a wrapper")
    says = f"{id} is stepped in Python"
    return TrainingEnv(id, stepper.num_envs, stepper.observation_space, stepper.action_space, {}, stepper, face, says)


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    if spec is not None:
        return str(spec.id)
    return type(getattr(env, "unwrapped", env)).__name__


def _monitored(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The environment in a `Monitor`, so that `info` tells of whole episodes."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, Monitor):
            return env
        layer = layer.env
    return Monitor(env)


def native_id(env: gymnasium.Env[Any, Any]) -> tuple[str, dict[str, Any]] | None:
    """The id and settings of the native environment that equals this object; None if there is none.

    It must be as `gymnasium.make` makes it. An object with another wrapper, another time limit or pictures for people is
    stepped in Python.
    """
    spec = env.spec
    if spec is None:
        return None
    short = spec.id.removeprefix("pavlov/")
    layer: Any = env
    plain = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
    while isinstance(layer, gymnasium.Wrapper):
        if not (type(layer) in plain or (type(layer) is Monitor and layer.results is None)):
            return None
        layer = layer.env
    if short not in native_ids() or layer.render_mode == "human":
        return None
    if not (isinstance(layer, NativeEnv) or type(layer).__module__.startswith(_ORIGINALS)):
        return None
    registered = gymnasium.registry.get(spec.id)
    if registered is None or registered.max_episode_steps != spec.max_episode_steps:
        return None
    config = {name: value for name, value in spec.kwargs.items() if name not in ("render_mode", "id")}
    defaults = {name: value for name, value in registered.kwargs.items() if name != "id"}
    # What Gymnasium's registry itself gives is what the native id means.
    config = {name: value for name, value in config.items() if name not in defaults or defaults[name] != value}
    try:
        _native.NativeVector(short, 1, encode_config(short, config), "SameStep", 1, None)
    except ConfigError:
        return None
    return short, config


def factory_of(env_id: str | Callable[..., Any], kwargs: dict[str, Any]) -> Callable[[], gymnasium.Env[Any, Any]]:
    """A function that makes an environment by its id or by a function."""
    if isinstance(env_id, str):
        return lambda: gymnasium.make(env_id, **kwargs)
    return lambda: env_id(**kwargs)


def native_again(id: str, num_envs: int, config: dict[str, Any]) -> VecEnv:
    """The native environment of a saved model."""
    return NativeVecEnv(id, num_envs, config)
