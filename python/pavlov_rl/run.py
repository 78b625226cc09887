"""The run in Rust behind a model: the environment that it steps, and the settings that it has."""

import json
from typing import Any

from . import _native
from .arguments import Arguments
from .errors import ConfigError
from .policy import flattens, has_images, refuse_other_policy, scales
from .saved import Saved
from .settings import merge
from .spaces import encode
from .training_env import TrainingEnv

# First and last step of a call of `learn`.
Span = tuple[int, int]


class Run:
    """Makes the run in Rust, and makes it anew where settings, environment or directory change; it goes on where it stands."""

    def __init__(self, arguments: Arguments, is_on_policy: bool) -> None:
        self.arguments = arguments
        self.is_on_policy = is_on_policy
        self.observation_space: Any = None
        self.action_space: Any = None
        self.num_envs = 1
        # Whether it has learned, or has other parameters than it was made with.
        self.is_changed = False
        # The steps that the newest `learn` was asked for; a resumed one keeps those of the first.
        self.asked: int | None = None
        # The directory that its results were last written to.
        self.out: str | None = None
        self._env: TrainingEnv | None = None
        self._native: _native.NativeAlgorithm | None = None
        self._built: tuple[str, str | None] = ("", None)

    @property
    def native(self) -> _native.NativeAlgorithm:
        """The run in Rust."""
        if self._native is None:
            raise _no_environment()
        return self._native

    @property
    def exists(self) -> bool:
        """Whether there is a run in Rust."""
        return self._native is not None

    @property
    def env(self) -> TrainingEnv:
        """The environment."""
        if self._env is None:
            raise _no_environment()
        return self._env

    @property
    def has_env(self) -> bool:
        """Whether there is an environment."""
        return self._env is not None

    def set_env(self, env: TrainingEnv) -> None:
        """Takes an environment; `prepare` makes the run."""
        self._env = env
        self._built = ("", None)
        self.num_envs = env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        if int(self.arguments.values["verbose"]) >= 1:
            print(env.says)

    def follow(self, env: TrainingEnv) -> None:
        """Learns on in the objects that the user gave when they were changed, or when they must be stepped in Python."""
        if env is not self._env:
            self.check_spaces(env)
            self.set_env(env)

    def check_spaces(self, env: TrainingEnv) -> None:
        """Refuses an environment with other spaces."""
        for name in ("observation_space", "action_space"):
            had, has = getattr(self, name), getattr(env, name)
            if encode(had) != encode(has):
                raise ValueError(f"the {name.replace('_', ' ')} of the environment is {has}, but that of the model is {had}")

    def move(self, env: TrainingEnv, loaded: Saved | None) -> bool:
        """Goes on in another environment, or with what was loaded; whether steps of the run are counted on: with another
        number of copies the policy alone goes on."""
        self.check_spaces(env)
        before, goes_on = self._native, env.num_envs == self.num_envs
        states = before.get_states() if before is not None and self.is_changed else None
        state = before.to_bytes(new_episodes=True) if states is not None and before is not None and goes_on else None
        self.set_env(env)
        self._native = None
        self.prepare(None, None)
        if loaded is not None:
            loaded.restore(self.native, whole=goes_on)
        elif state is not None:
            self.native.load_bytes(state)
        elif states is not None:
            self.native.set_states(*states)
        self.is_changed = loaded is not None or states is not None
        return goes_on or not self.is_changed

    def prepare(self, span: Span | None, out: str | None, goes_on: bool = False) -> None:
        """Makes the run, or makes it anew with other settings or another directory and lets it go on where it stands. With
        `goes_on` episodes in Python go on, too. In another environment it starts new episodes."""
        env = self.env
        wanted = self._settings(env, span), out
        self.arguments.is_assigned = False
        before = self._native
        if before is not None and wanted == self._built:
            return
        is_other_env = not self._built[0]
        goes_on = goes_on and not is_other_env
        state = None
        if before is not None:
            state = before.to_bytes(goes_on, new_episodes=is_other_env) if self.is_changed else None
            before.stop()
        if env.stepper is not None:
            # What the run itself calls is nobody else's.
            env.stepper.notice.stop()
        try:
            self._native = self._make(env, wanted, state, goes_on)
        except Exception:
            if before is not None and not is_other_env:
                # The model can still be used, and the argument that is refused be assigned anew.
                self._native = self._make(env, self._built, state, goes_on)
                self.arguments.is_assigned = True
            raise
        self._built = wanted
        self.out = out if out is not None else self.out
        if env.stepper is not None and not goes_on:
            env.stepper.notice.happened = False
            env.stepper.notice.start()

    def _make(
        self, env: TrainingEnv, built: tuple[str, str | None], state: bytes | None, goes_on: bool
    ) -> _native.NativeAlgorithm:
        settings, out = built
        goes_on = goes_on and state is not None
        try:
            native = _native.NativeAlgorithm(self.arguments.algorithm, env.id, settings, env.in_python(), out, goes_on)
        except ConfigError as error:
            raise self.arguments.named(error) from None
        if state is not None:
            native.load_bytes(state)
        return native

    def _settings(self, env: TrainingEnv, span: Span | None) -> str:
        """All settings as layers, in JSON."""
        arguments = self.arguments
        refuse_other_policy(arguments.policy, env.observation_space)
        translated = arguments.translated(env.num_envs, span)
        if not self.is_on_policy:
            steps = translated["rollout_fragment_length"] * env.num_envs
            translated["min_sample_timesteps_per_reporting"] = reporting(steps, self.asked if span is not None else None)
        merge(translated, env.settings())
        if flattens(arguments.policy, env.observation_space):
            rescale = ["RescaleObservation(0, 1)"] if scales(arguments.policy, env.observation_space) else []
            translated["wrappers"] = ["FlattenObservation", *rescale]
        if has_images(arguments.policy, env.observation_space):
            translated.setdefault("model", {})["conv_filters"] = "nature"
            if arguments.values["policy_kwargs"].get("share_features_extractor"):
                if self.is_on_policy:
                    raise ConfigError(
                        "policy_kwargs.share_features_extractor is True, but with MultiInputPolicy and images the actor and the critic "
                        f"of {arguments.who} have convolutions of their own: leave it out"
                    )
                translated["share_features_extractor"] = True
        return json.dumps([[f"the arguments of {arguments.who}", translated], ["settings", arguments.own]])


def reporting(fragment: int, total: int | None) -> int:
    """Steps of an iteration: about 100, and such that a run of `total` steps ends with its last one."""
    most = max(100 // fragment, 1)
    if total is None:
        return fragment * most
    fragments = -(-total // fragment)
    return fragment * next(number for number in range(most, 0, -1) if fragments % number == 0)


def _no_environment() -> ConfigError:
    return ConfigError("the model has no environment; give one to `load`, or call `set_env`")

