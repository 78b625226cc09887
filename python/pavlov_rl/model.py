"""`BaseAlgorithm`: what the models of all algorithms have: `learn`, `predict`, `save`, `load`."""

import json
import os
import secrets
import time
from collections import deque
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces

from . import _native, saved
from .acting import episode_starts, flags
from .common.logger import Logger, configure_of_model
from .common.vec_env import VecEnvWrapper, VecNormalize
from .errors import BusyError, ConfigError
from .learning import Learning
from .schedules import is_schedule
from .spaces import Space, encode, rows_of
from .training_env import TrainingEnv, resolve
from .translate import Settings, convolutions, merge, refuse_unknown, refuse_without_effect

_POLICIES = ("MlpPolicy", "MultiInputPolicy", "CnnPolicy", "MlpLstmPolicy", "MultiInputLstmPolicy", "CnnLstmPolicy")


class BaseAlgorithm:
    """A model: a policy, the environment that it learns in, and how it learns."""

    # The algorithm's name in pavlov.
    algorithm: ClassVar[str]
    is_on_policy: ClassVar[bool] = True
    is_recurrent: ClassVar[bool] = False

    def __init__(self, policy: Any, env: Any, arguments: dict[str, Any], settings: Settings | None) -> None:
        who = type(self).__name__
        unknown = arguments.pop("unknown")
        refuse_unknown(who, unknown, [*arguments, "policy", "env", "settings"])
        refuse_without_effect(who, arguments)
        self.policy_name = policy_name(policy)
        self.arguments = arguments
        self.own_settings = dict(settings or {})
        self.verbose = int(arguments["verbose"])
        self.tensorboard_log: str | None = arguments["tensorboard_log"]
        seed = arguments["seed"]
        self.seed = secrets.randbits(31) if seed is None else int(seed)
        self.policy_kwargs = dict(arguments["policy_kwargs"] or {})
        if self.verbose >= 1 and "cuda" in str(arguments["device"]):
            print("The device is the CPU: the engine of this package runs there, and is fast with networks of this size")
        self.learning_rate = arguments["learning_rate"]
        self.gamma = arguments["gamma"]
        self.num_timesteps = 0
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=int(arguments["stats_window_size"]))
        self.start_time = time.time_ns()
        self._total_timesteps = 0
        # The steps that the newest `learn` was asked for; a resumed one keeps those of the first.
        self._asked: int | None = None
        self._is_resumed = False
        self._custom_logger = False
        self._logger: Logger | None = None
        # Steps of the run that `num_timesteps` leaves out.
        self._offset = 0
        self._native: _native.NativeAlgorithm | None = None
        self._built: tuple[str, str | None] = ("", None)
        self._is_changed = False
        self._is_learning = False
        # The policy of a saved model that was loaded without an environment.
        self._saved: saved.SavedPolicy | None = None
        self._env: TrainingEnv | None = None
        if env is not None:
            self._set_env(resolve(env))
            self._prepare(None, None)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        """The settings that the arguments mean. `span` are the first and last step of `learn`, once they are known."""
        raise NotImplementedError

    # The run in Rust.

    def _set_env(self, env: TrainingEnv) -> None:
        self._env = env
        self.n_envs = env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        if self.verbose >= 1:
            print(env.says)

    def _settings(self, env: TrainingEnv, span: tuple[int, int] | None) -> str:
        translated = self._translated(env, span)
        merge(translated, env.settings())
        translated["seed"] = self.seed
        translated["metrics_num_episodes_for_smoothing"] = int(self.arguments["stats_window_size"])
        if self.policy_name.startswith("Mlp") and _is_image(env.observation_space):
            translated["wrappers"] = ["FlattenObservation", "RescaleObservation(0, 1)"]
        if self.policy_name.startswith("Cnn"):
            if not _is_image(env.observation_space):
                raise ConfigError(
                    f"{self.policy_name} sees images (a Box of three dimensions of uint8), but the observations are "
                    f"{env.observation_space}; take {self.policy_name.replace('Cnn', 'Mlp')}"
                )
            convolutions(type(self).__name__, translated, self.policy_kwargs)
        layers = [[f"the arguments of {type(self).__name__}", translated], ["settings", self.own_settings]]
        return json.dumps(layers)

    def _prepare(self, span: tuple[int, int] | None, out: str | None) -> None:
        """Makes the run, or makes it anew with other settings or another directory and lets it go on where it stands."""
        if self._env is None:
            raise ConfigError("the model has no environment; give one to `load`, or call `set_env`")
        wanted = self._settings(self._env, span), out
        if self._native is not None and wanted == self._built:
            return
        before = self._native
        state = before.to_bytes() if before is not None and self._is_changed else None
        if before is not None:
            before.stop()
        native = _native.NativeAlgorithm(self.algorithm, self._env.id, wanted[0], self._env.in_python(), out)
        if state is not None:
            native.load_bytes(state)
        self._native, self._built = native, wanted

    @property
    def native(self) -> _native.NativeAlgorithm:
        """The run in Rust."""
        if self._native is None:
            raise ConfigError("the model has no environment; give one to `load`, or call `set_env`")
        return self._native

    def get_env(self) -> Any:
        """The environment as a vector with Stable-Baselines3's interface; None if the model has none."""
        return None if self._env is None else self._env.vec_env()

    env = property(get_env)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Learns in another environment from now on, which has the same spaces."""
        found = resolve(env)
        for name in ("observation_space", "action_space"):
            had, has = getattr(self, name), getattr(found, name)
            if encode(had) != encode(has):
                raise ValueError(f"the {name.replace('_', ' ')} of the environment is {has}, but that of the model is {had}")
        before, loaded = self._native, self._saved
        goes_on = found.num_envs == self.n_envs
        weights = before.get_weights() if before is not None and self._is_changed else None
        state = before.to_bytes() if weights is not None and before is not None and goes_on else None
        self._set_env(found)
        self._saved = self._native = None
        self._prepare(None, None)
        if loaded is not None:
            loaded.restore(self.native, whole=goes_on)
        elif state is not None:
            self.native.load_bytes(state)
        elif weights is not None:
            self.native.set_weights(weights)
        self._is_changed = loaded is not None or weights is not None
        if self._is_changed and not goes_on:
            # With another number of copies the policy goes on, and the steps of the run count from 0.
            self._offset = -self.num_timesteps

    def get_vec_normalize_env(self) -> VecNormalize | None:
        """The `VecNormalize` around the environment; None if there is none."""
        layer = self.get_env()
        while isinstance(layer, VecEnvWrapper):
            if isinstance(layer, VecNormalize):
                return layer
            layer = layer.venv
        return None

    # Learning.

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        out: str | os.PathLike[str] | None = None,
        checkpoint_freq: int = 10,
    ) -> Self:
        """Learns for `total_timesteps` steps, up to the end of the last rollout; returns the model.

        `callback` is called when a rollout was collected and learned from: once for each of its steps, in their order. With
        `out` results go to that directory, with a checkpoint after every `checkpoint_freq` iterations and at the end;
        `resume` goes on from there after the process was killed.
        """
        if self._is_learning:
            raise BusyError("the model is learning already; wait until `learn` returns")
        self._is_learning = True
        try:
            learning = Learning(self, int(total_timesteps), reset_num_timesteps, out, checkpoint_freq)
            learning.run(callback, log_interval, tb_log_name or type(self).__name__, progress_bar)
        finally:
            self._is_learning = False
        return self

    @classmethod
    def resume(cls, out: str | os.PathLike[str], callback: Any = None, env: Any = None, **learn: Any) -> Self:
        """Goes on with the `learn(.., out=..)` that was interrupted, from the newest checkpoint in that directory, to its end.
        Environments in Python must be given again, and start new episodes."""
        model, rest = saved.load_run(cls, os.fspath(out), env)
        if rest > 0:
            model._is_resumed = True
            model.learn(rest, callback, reset_num_timesteps=False, out=out, **learn)
            model._is_resumed = False
        return model

    @property
    def logger(self) -> Logger:
        """What `record` and `dump` are called on."""
        if self._logger is None:
            self._logger = configure_of_model(0, None, "", True)
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        """Reports to another logger, also in later calls of `learn`."""
        self._logger = logger
        self._custom_logger = True

    # Acting.

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """The action for one observation, or one for each of several, and the state for the next call.

        `state` is None unless the policy is recurrent: then None begins an episode in every copy, and `episode_start` says
        in which copies one begins.
        """
        rows, is_many = rows_of(self.observation_space, observation)
        copies = len(rows)
        starts = episode_starts(copies, state, episode_start) if self._remembers() else None
        masks = flags(action_masks)
        flat = np.ascontiguousarray(rows).ravel()
        if _is_image(self.observation_space) and self.policy_name.startswith("Mlp"):
            # The wrappers of `_settings` make numbers in 0..=1 of bytes.
            flat = flat.astype(np.float32) / np.float32(255.0)
        if self._native is None and self._saved is not None:
            actions = self._saved.predict(flat, copies, not deterministic, starts, masks)
        else:
            actions = self.native.predict(flat, copies, not deterministic, starts, masks)
        space = self.action_space
        shaped = actions.reshape(copies, *(space.shape or ())).astype(space.dtype, copy=False)
        return (shaped if is_many else shaped.squeeze(axis=0)), (("remembered",) if self._remembers() else state)

    def _remembers(self) -> bool:
        model = self.own_settings.get("model", {})
        return self.is_recurrent or "Lstm" in self.policy_name or bool(model.get("use_lstm") or model.get("use_gru"))

    # Parameters.

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """The weights as numpy arrays by name, under `"policy"`."""
        if self._native is None and self._saved is not None:
            return {"policy": self._saved.weights()}
        return {"policy": self.native.get_weights()}

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """Takes weights from a dictionary as `get_parameters` gives it, or from a saved model."""
        if not isinstance(load_path_or_dict, dict):
            other = type(self).load(load_path_or_dict)
            load_path_or_dict = other.get_parameters()
        weights = load_path_or_dict.get("policy", load_path_or_dict)
        own = self.native.get_weights()
        missing = [name for name in own if name not in weights]
        if exact_match and missing:
            raise ValueError(f"the parameter {missing[0]!r} is missing; with exact_match=False it stays as it is")
        self.native.set_weights({name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()})
        self._is_changed = True

    @property
    def policy(self) -> "Policy":
        """The policy by itself."""
        return Policy(self)

    # Files.

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """Writes the model into one file, `path` or `path.zip`: its arguments, and a checkpoint with what it has learned and
        the state of its optimizer and of its replay buffer."""
        saved.save(self, path)

    @classmethod
    def load(
        cls,
        path: Any,
        env: Any = None,
        device: Any = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Reads a model from a file that `save` wrote, a checkpoint, or a run directory. Arguments in `custom_objects` and
        `kwargs` replace those of the file. Without an environment in Python that it learned in, it acts but cannot learn."""
        return saved.load(cls, path, env, {**(custom_objects or {}), **kwargs})

    def __getstate__(self) -> dict[str, Any]:
        return {"saved": saved.to_bytes(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(saved.from_bytes(type(self), state["saved"]).__dict__)


class Policy:
    """A model's policy, for scripts that ask it and not the model."""

    def __init__(self, model: BaseAlgorithm) -> None:
        self.model = model
        self.observation_space, self.action_space = model.observation_space, model.action_space

    def predict(self, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        """As the model's `predict`."""
        return self.model.predict(*arguments, **keywords)

    def state_dict(self) -> dict[str, Any]:
        """The weights as numpy arrays by name; torch's are `torch.from_numpy` of them."""
        return self.model.get_parameters()["policy"]

    def load_state_dict(self, weights: dict[str, Any], strict: bool = True) -> None:
        """Takes weights by name."""
        self.model.set_parameters({"policy": weights}, exact_match=strict)

    def set_training_mode(self, mode: bool) -> None:
        """Does nothing: no layer here acts in another way while it learns."""

    def to(self, device: Any) -> "Policy":
        """Does nothing: policies act on the CPU."""
        return self

    def __getattr__(self, name: str) -> Any:
        problem = f"the policy has no `{name}`: it is not a torch module"
        raise AttributeError(f"{problem}; it has predict, state_dict and load_state_dict")


def policy_name(policy: Any) -> str:
    """The name of a policy, given as text or as a class."""
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", str(policy))
    for known in _POLICIES:
        if name == known or (not isinstance(policy, str) and name.endswith(known)):
            return known
    # Stable-Baselines3's own classes.
    families = {"ActorCriticPolicy": "MlpPolicy", "MultiInputActorCriticPolicy": "MultiInputPolicy"}
    if name in families:
        return families[name]
    raise ValueError(f"the policy is {name!r}, but it must be one of {', '.join(_POLICIES)}")


def _is_image(space: Space) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def first_value(rate: Any) -> float:
    """A number, or what a schedule gives at the start."""
    return float(rate(1.0)) if is_schedule(rate) else float(rate)
