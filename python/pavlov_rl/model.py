"""`BaseAlgorithm`: what the models of all algorithms have: `learn`, `predict`, `save`, `load`."""

import os
import secrets
import tempfile
import time
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from . import _native, acting, parameters, saved
from .arguments import CLASSES, Arguments, Settings, encode
from .common.logger import Logger, configure_of_model
from .common.vec_env import VecEnvWrapper, VecNormalize
from .errors import BusyError, CheckpointError
from .learning import Learning
from .policy import Policy, flattens, name_of, scales
from .run import Run
from .schedules import Schedule, constant_fn, is_schedule
from .spaces import decode
from .spaces import encode as encode_space
from .training_env import TrainingEnv, native_again, resolve

if TYPE_CHECKING:
    # Python has it from 3.11 on, and its type checkers everywhere.
    from typing_extensions import Self


# Methods of Stable-Baselines3's models that subclasses replace there.
_NEVER_CALLED = ("train", "collect_rollouts", "_setup_model", "_on_step", "_sample_action", "_store_transition", "_dump_logs")


class BaseAlgorithm:
    """A model: a policy, the environment that it learns in, and how it learns."""

    is_on_policy: ClassVar[bool] = True
    # Iterations, or without `is_on_policy` episodes, between tables.
    _log_interval: ClassVar[int] = 1
    is_recurrent: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Refuses methods that Stable-Baselines3 would call while it learns, and that nothing would call here."""
        super().__init_subclass__(**keywords)
        for name in _NEVER_CALLED:
            if name in vars(cls):
                problem = f"{cls.__name__} has its own `{name}`, but models learn in Rust, where it would never be called"
                raise TypeError(f"{problem}; change rewards and observations in a wrapper, and hyper-parameters in a callback")

    def _make(self, policy: Any, env: Any, given: dict[str, Any], settings: Settings | None) -> None:
        """What the constructors of the classes do with their arguments."""
        name = name_of(policy)
        if self.is_recurrent and name == "MlpPolicy":
            name = "MlpLstmPolicy"
        given = {**given, "policy_kwargs": {} if given.get("policy_kwargs") is None else given["policy_kwargs"]}
        arguments = Arguments(_of_table(type(self)), name, given, settings)
        seed = arguments.values["seed"]
        arguments.values["seed"] = secrets.randbits(31) if seed is None else int(seed)
        self.verbose = int(arguments.values["verbose"])
        self.tensorboard_log: str | None = arguments.values["tensorboard_log"]
        if self.verbose >= 1 and "cuda" in str(arguments.values["device"]):
            print("The device is the CPU: the engine of this package runs there, and is fast with networks of this size")
        self.num_timesteps = 0
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=int(arguments.values["stats_window_size"]))
        self.ep_success_buffer: deque[Any] = deque(maxlen=self.ep_info_buffer.maxlen)
        self.start_time = time.time_ns()
        self._run = Run(arguments, self.is_on_policy)
        self._offset = self._total_timesteps = 0
        self._is_learning = self._is_resumed = False
        self._custom_logger = False
        self._logger: Logger | None = None
        self._before: saved.Snapshot | None = None
        # A saved model that was loaded without an environment.
        self._saved: saved.Saved | None = None
        if env is not None:
            self._run.set_env(resolve(env))
            self._run.prepare(None, None)

    # Arguments.

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._run.arguments.values

    def _assign(self, name: str, value: Any) -> None:
        """Takes another value of an argument; the run has it from its next iteration on."""
        self._run.arguments.assign(name, value, self._run.num_envs)

    @property
    def lr_schedule(self) -> Schedule:
        """The learning rate as a function of the progress that remains. Assigning it is assigning `learning_rate`."""
        rate = self.arguments["learning_rate"]
        return rate if is_schedule(rate) else constant_fn(float(rate))

    @lr_schedule.setter
    def lr_schedule(self, schedule: Schedule) -> None:
        self._assign("learning_rate", schedule)

    def _setup_lr_schedule(self) -> None:
        """Does nothing: an assigned `learning_rate` needs no further call. Scripts make it where Stable-Baselines3 needs it."""

    # The environment.

    @property
    def native(self) -> _native.NativeAlgorithm:
        """The run in Rust."""
        return self._run.native

    @property
    def _env(self) -> TrainingEnv:
        return self._run.env

    @property
    def observation_space(self) -> Any:
        """The space of observations."""
        return self._run.observation_space

    @property
    def action_space(self) -> Any:
        """The space of actions."""
        return self._run.action_space

    @property
    def n_envs(self) -> int:
        """The number of copies of the environment."""
        return self._run.num_envs

    def get_env(self) -> Any:
        """The environment as a vector with Stable-Baselines3's interface; None if the model has none."""
        return self._run.env.vec_env() if self._run.has_env else None

    env = property(get_env)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Learns in another environment from now on, which has the same spaces."""
        if not self._run.move(resolve(env), self._saved):
            # The steps of the run count from 0.
            self._offset = -self.num_timesteps
        self._saved = None

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
    ) -> "Self":
        """Learns for `total_timesteps` steps, up to the end of the last rollout; returns the model.

        `callback` is called when a rollout was collected and learned from: once for each of its steps, in their order. With
        `out` results go to that directory, with a checkpoint after every `checkpoint_freq` iterations and at the end;
        `resume` goes on from there after the process was killed.
        """
        if self._is_learning:
            raise BusyError("the model is learning already; wait until `learn` returns")
        self._is_learning = True
        try:
            if not self._is_resumed:
                self._run.asked = int(total_timesteps)
            learning = Learning(self, int(total_timesteps), reset_num_timesteps, out, checkpoint_freq)
            if not self._custom_logger:
                name = tb_log_name or type(self).__name__
                self._logger = configure_of_model(self.verbose, self.tensorboard_log, name, reset_num_timesteps)
            learning.run(callback, log_interval, progress_bar)
        finally:
            self._is_learning = False
        return self

    @classmethod
    def resume(cls, out: str | os.PathLike[str], callback: Any = None, env: Any = None, **learn: Any) -> "Self":
        """Goes on with the `learn(.., out=..)` that was interrupted, from the newest checkpoint in that directory, to its end.
        Environments in Python must be given again, and start new episodes."""
        path = os.fspath(out)
        about = saved.about_run(path)
        model = cls._bare(about, {}, path)
        if env is None:
            if not about["is_native"]:
                raise CheckpointError(f"{path} learned in {about['env']}, which was stepped in Python; give it as `env`")
            env = native_again(about["env"], int(about["num_envs"]), about["env_config"])
        run, total = model._run, model._total_timesteps
        run.set_env(resolve(env))
        checkpoint = _native.latest_checkpoint(path)
        if checkpoint is None:
            # The run begins anew, and its rows do, too.
            saved.remove_rows(path)
        run.prepare((model._offset, model._offset + total), path)
        if checkpoint is not None:
            run.native.restore(str(checkpoint))
            run.is_changed = True
            model.num_timesteps = saved.timesteps_of(str(checkpoint)) - model._offset
        if total > model.num_timesteps:
            model._is_resumed = True
            model.learn(total - model.num_timesteps, callback, reset_num_timesteps=False, out=path, **learn)
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

        The state is None unless the policy is recurrent. Then it is a tuple of arrays, and the caller keeps it: None begins an
        episode in every row, and `episode_start` says in which rows one begins. While another thread learns, the weights are
        those of the last update.
        """
        acts = self._saved.policy if self._saved is not None else self.native
        spaces = self.observation_space, self.action_space
        # The wrappers of the run make numbers in 0..=1 of bytes.
        policy, space = self._run.arguments.policy, self.observation_space
        # What was flattened is numbers of 32 bits.
        scale = (255.0 if scales(policy, space) else 1.0) if flattens(policy, space) else None
        best = deterministic or self._acts_best()
        return acting.predict(acts, spaces, observation, state, episode_start, best, action_masks, scale)

    def _acts_best(self) -> bool:
        """Whether `predict` leaves out how the algorithm explores now, whatever it is asked for."""
        return False

    @property
    def policy(self) -> Policy:
        """The policy by itself."""
        return Policy(self)

    # Parameters.

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """All parameters as numpy arrays by name: under `"policy"` the weights and those of the target networks, under
        `"policy.optimizer"` the moments of the optimizers and their numbers of steps."""
        if self._saved is not None:
            return self._saved.parameters()
        return parameters.of_states(*self.native.get_states())

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """Takes parameters from a dictionary as `get_parameters` gives it, or from a saved model. With `exact_match=False` some
        may be missing; a warning says which ones stay as they are."""
        if not isinstance(load_path_or_dict, dict):
            load_path_or_dict = type(self).load(load_path_or_dict).get_parameters()
        parameters.replace(self.native, load_path_or_dict, exact_match)
        self._run.is_changed = True

    # Files.

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """Writes the model into one file, `path` or `path.zip`: its arguments, and a checkpoint with what it has learned and
        the state of its optimizer and of its replay buffer."""
        saved.write(path, self._to_bytes(None))

    def save_as_of_this_step(self, path: Any) -> None:
        """As `save`, for a callback that `saves_within` the iteration: without what was learned from the step of the callback
        and from later ones."""
        saved.write(path, self._to_bytes(self._before))

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
    ) -> "Self":
        """Reads a model from a file that `save` wrote, a checkpoint, or a run directory. Arguments in `custom_objects` and
        `kwargs` replace those of the file. Without an environment in Python that it learned in, it acts but cannot learn."""
        return cls._of(saved.read(path), env, {**(custom_objects or {}), **kwargs})

    def __getstate__(self) -> dict[str, Any]:
        return {"saved": self._to_bytes(None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(self._of(saved.from_bytes(state["saved"]), None, {}).__dict__)

    def _to_bytes(self, snapshot: saved.Snapshot | None) -> bytes:
        """The file of the model, or of what it was at a snapshot."""
        about = self._about(snapshot)
        if snapshot is not None:
            return saved.to_bytes(about, snapshot.checkpoint)
        if self._saved is not None:
            return saved.to_bytes(about, self._saved.checkpoint)
        with tempfile.TemporaryDirectory(prefix="pavlov-") as temporary:
            return saved.to_bytes(about, str(self.native.save(temporary)))

    def _about(self, snapshot: saved.Snapshot | None = None) -> saved.About:
        """What makes the model again."""
        run = self._run
        env = run.env if run.has_env else None
        steps, offset = self.num_timesteps, self._offset
        if snapshot is not None:
            # Steps since then are counted, and not learned from.
            offset = snapshot.timesteps - steps
        elif self._is_learning:
            # In a callback: the model has learned from the whole iteration.
            steps = run.native.timesteps() - offset
        return {
            "class": type(self).__name__,
            "policy": run.arguments.policy,
            "arguments": encode(run.arguments.values),
            "settings": run.arguments.own,
            "seed": run.arguments.values["seed"],
            "env": None if env is None else env.id,
            "env_config": {} if env is None else env.config,
            "is_native": env is not None and env.stepper is None,
            "num_envs": run.num_envs,
            "observation_space": encode_space(run.observation_space),
            "action_space": encode_space(run.action_space),
            "num_timesteps": steps,
            "offset": offset,
            "total_timesteps": self._total_timesteps,
            "asked": run.asked,
            "version": _native.__version__,
        }

    @classmethod
    def _of(cls, read: saved.Saved, env: Any, changes: dict[str, Any]) -> "Self":
        """The model that was read, in an environment; without one, in the native one that it learned in."""
        model = cls._bare(read.about, changes, read.name)
        model._saved = read
        if env is None and read.about["is_native"]:
            env = native_again(read.about["env"], int(read.about["num_envs"]), read.about["env_config"])
        if env is not None:
            model.set_env(env)
        return model

    @classmethod
    def _bare(cls, about: saved.About, changes: dict[str, Any], name: str) -> "Self":
        """The model without an environment."""
        if about["class"] != cls.__name__:
            raise CheckpointError(f"{name} was saved by {about['class']}, but is loaded by {cls.__name__}; load it by the former")
        if "lr_schedule" in changes:
            # As an attribute, it is another name of the argument.
            schedule = changes.pop("lr_schedule")
            changes.setdefault("learning_rate", schedule)
        given = {**saved.arguments_of(about), **changes}
        given["seed"] = about["seed"] if given.get("seed") is None else given["seed"]
        model = cls.__new__(cls)
        model._make(about["policy"], None, given, about["settings"])
        run = model._run
        run.observation_space, run.action_space = decode(about["observation_space"]), decode(about["action_space"])
        run.num_envs = int(about["num_envs"])
        model.num_timesteps, model._offset = int(about["num_timesteps"]), int(about["offset"])
        model._total_timesteps, run.asked = int(about["total_timesteps"]), about["asked"]
        return model


def _of_table(cls: type[Any]) -> str:
    """The class of the table that a class is or derives from."""
    return next(each.__name__ for each in cls.__mro__ if each.__name__ in CLASSES)
