"""The `env` argument of a model: which environment is meant, and whether Rust or Python steps it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium import spaces

from . import _native
from .common.monitor import Monitor
from .common.vec_env.base_vec_env import VecEnv
from .common.vec_env.dummy_vec_env import DummyVecEnv
from .common.vec_env.native_vec_env import NativeVecEnv
from .common.vec_env.stepped_vec_env import SteppedVecEnv
from .envs import Env as NativeEnv
from .envs import VectorEnv as NativeVector
from .errors import ConfigError, NotFoundError, refuse_class
from .natives import Twin, is_original, native_ids, twin_of
from .settings import encode as encode_config
from .shared_policy import AgentsStepper, is_parallel_env, refuse_aec
from .spaces import Space, decode, encode, encode_actions, warn_of_large_integers
from .steppers import EnvStepper, Stepper, VecEnvStepper, VectorStepper


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
    # The objects that the user gave, one for each native copy.
    twins: list[Twin] = field(default_factory=list)

    def in_python(self) -> tuple[Stepper, str, str, int, bool] | None:
        """What the Rust half needs to have the copies stepped here."""
        if self.stepper is None:
            return None
        observations, actions = json.dumps(encode(self.observation_space)), json.dumps(encode_actions(self.action_space))
        return self.stepper, observations, actions, self.num_envs, self.stepper.has_masks

    def settings(self) -> dict[str, Any]:
        """The settings that follow from the environment."""
        settings: dict[str, Any] = {"num_workers": 0, "num_envs_per_worker": self.num_envs}
        # The native ones were checked, and with some options they leave their spaces, as Gymnasium's own do. In Python, the
        # check resets environments more often than a run does.
        settings["disable_env_checking"] = True
        if self.config:
            settings["env_config"] = self.config
        return settings

    def vec_env(self) -> VecEnv:
        """The vector that callbacks and `get_env` see."""
        if self.face is None:
            envs = self.stepper.envs if isinstance(self.stepper, EnvStepper) else [twin.env for twin in self.twins]
            if envs:
                self.face = DummyVecEnv([lambda env=env: env for env in envs])  # type: ignore[misc]
            elif isinstance(self.stepper, VectorStepper):
                self.face = SteppedVecEnv(self.stepper, self.stepper.vector)
            elif isinstance(self.stepper, AgentsStepper):
                self.face = SteppedVecEnv(self.stepper, self.stepper.env)
            else:
                self.face = NativeVecEnv(self.id, self.num_envs, self.config)
        return self.face

    def now(self) -> "TrainingEnv":
        """The same environment as it is now: objects that were changed since may need to be stepped in Python."""
        face = self.vec_env()
        if not isinstance(face, DummyVecEnv) or all(twin.is_unchanged() for twin in self.twins):
            return self
        return _of_objects(face)

    def of_objects(self) -> "TrainingEnv":
        """The objects that the user gave, stepped in Python."""
        face = self.vec_env()
        assert isinstance(face, DummyVecEnv)
        return _in_python(EnvStepper(face), _name(face.envs[0]), face)


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
        monitored = _monitored(env)
        return _of_objects(DummyVecEnv([lambda: monitored]))
    if type(env) is DummyVecEnv:
        return _of_objects(env)
    if hasattr(env, "num_envs") and hasattr(env, "step_wait"):
        return _in_python(VecEnvStepper(env), _name(env), env)
    if hasattr(env, "step"):
        refuse_class("env", env)
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


def _of_objects(vector: DummyVecEnv) -> TrainingEnv:
    """Steps native copies in place of objects that they equal, and other objects themselves."""
    twins = [twin_of(env) for env in vector.envs]
    found = [twin for twin in twins if twin is not None]
    if len(found) == len(twins) and all((twin.id, twin.config) == (found[0].id, found[0].config) for twin in found):
        native = _native_env(found[0].id, vector.num_envs, found[0].config, vector)
        native.twins = found
        return native
    return _in_python(EnvStepper(vector), _name(vector.envs[0]), vector)


def _by_id(id: str) -> TrainingEnv:
    short = id.removeprefix("pavlov/")
    if short in native_ids() and is_original(id):
        return _native_env(short, 1, {}, None)
    try:
        return resolve(gymnasium.make(id))
    except (gymnasium.error.NameNotFound, gymnasium.error.VersionNotFound, gymnasium.error.NamespaceNotFound) as error:
        raise NotFoundError(f"{error} `pavlov_rl.ids()` lists the native ones") from None


def _native_env(id: str, num_envs: int, config: dict[str, Any], face: VecEnv | None) -> TrainingEnv:
    plain = json.loads(encode_config(id, config))
    native = _native.NativeVector(id, 1, json.dumps(plain), "SameStep", 1, None)
    observations, actions = (decode(json.loads(text)) for text in (native.observation_space, native.action_space))
    says = f"{id} is stepped by pavlov's own environment in Rust"
    return TrainingEnv(id, num_envs, observations, actions, plain, None, face, says)


def _in_python(stepper: Stepper, id: str, face: VecEnv | None) -> TrainingEnv:
    if isinstance(stepper.action_space, (spaces.Dict, spaces.Tuple)):
        raise ConfigError(f"actions of {stepper.action_space} are not supported; flatten them in a wrapper")
    warn_of_large_integers(stepper.observation_space)
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


def factory_of(env_id: str | Callable[..., Any], kwargs: dict[str, Any]) -> Callable[[], gymnasium.Env[Any, Any]]:
    """A function that makes an environment by its id or by a function."""
    if isinstance(env_id, str):
        return lambda: gymnasium.make(env_id, **kwargs)
    return lambda: env_id(**kwargs)


def native_again(id: str, num_envs: int, config: dict[str, Any]) -> VecEnv:
    """The native environment of a saved model."""
    return NativeVecEnv(id, num_envs, config)
