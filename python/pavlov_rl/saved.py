"""Saved models: one zip file with the model's arguments and a checkpoint, and run directories."""

import io
import json
import os
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native
from .errors import CheckpointError, NotFoundError
from .schedules import Piecewise, encode, is_schedule
from .spaces import decode
from .spaces import encode as encode_space

if TYPE_CHECKING:
    from .model import BaseAlgorithm

# The file of arguments, in a zip file and in a run directory.
ABOUT = "pavlov_rl.json"

Model = TypeVar("Model", bound="BaseAlgorithm")


class SavedPolicy:
    """The policy of a checkpoint that has no environment here: it acts, and can be put into a run later."""

    def __init__(self, checkpoint: str, keeps: Any, num_envs: int) -> None:
        self.checkpoint = checkpoint
        self.num_envs = num_envs
        # A temporary directory lives as long as this.
        self._keeps = keeps
        self._policies: dict[int, _native.NativePolicy] = {}

    def policy(self, copies: int) -> _native.NativePolicy:
        """The policy for that many rows: a recurrent one remembers each of them."""
        if copies not in self._policies:
            self._policies[copies] = _native.NativePolicy(self.checkpoint, copies)
        return self._policies[copies]

    def predict(self, obs: Any, copies: int, explore: bool, starts: Any, masks: Any) -> Any:
        """An action for each row."""
        return self.policy(copies).predict(obs, explore, starts, masks)

    def weights(self) -> dict[str, Any]:
        """The weights by name."""
        saved = _native.weights_of(self.checkpoint)
        # A checkpoint has the state of the optimizer beside them.
        return {name.replace(".weights.", ".", 1): array for name, array in saved.items() if ".weights." in name}

    def restore(self, native: _native.NativeAlgorithm, whole: bool) -> None:
        """Puts what was saved into a run: all of it, or the policy alone."""
        if whole:
            native.restore(self.checkpoint)
        else:
            native.restore_policies(self.checkpoint)


def _about(model: "BaseAlgorithm") -> dict[str, Any]:
    """What makes the model again."""
    env = model._env
    return {
        "class": type(model).__name__,
        "policy": model.policy_name,
        "arguments": {name: _plain(name, value) for name, value in model.arguments.items()},
        "settings": model.own_settings,
        "seed": model.seed,
        "env": None if env is None else env.id,
        "env_config": {} if env is None else env.config,
        "is_native": env is not None and env.stepper is None,
        "num_envs": getattr(model, "n_envs", 1),
        "observation_space": encode_space(model.observation_space),
        "action_space": encode_space(model.action_space),
        "num_timesteps": model.num_timesteps,
        "offset": model._offset,
        "total_timesteps": model._total_timesteps,
        "asked": model._asked,
        "version": _native.__version__,
    }


def _plain(name: str, value: Any) -> Any:
    """An argument as JSON has it. Functions of progress become their values, and classes their names."""
    if isinstance(value, dict):
        return {str(key): _plain(str(key), each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, each) for each in value]
    if hasattr(value, "exploration_config"):
        # Noise has become a setting; it is given again to change it.
        return {"noise": value.exploration_config([], 0)}
    if isinstance(value, type):
        return value.__name__
    if is_schedule(value):
        return encode(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _arguments(saved: dict[str, Any]) -> dict[str, Any]:
    from .common.noise import SavedNoise

    found = {}
    for name, value in saved.items():
        if isinstance(value, dict) and set(value) == {"schedule"}:
            value = Piecewise(value["schedule"])
        elif isinstance(value, dict) and set(value) == {"noise"}:
            value = SavedNoise(value["noise"])
        found[name] = value
    return found


def _path(path: Any) -> str:
    text = os.fspath(path)
    return text if text.endswith(".zip") else f"{text}.zip"


def save(model: "BaseAlgorithm", path: Any) -> None:
    """Writes a model into a file that is whole or not there."""
    if hasattr(path, "write"):
        path.write(to_bytes(model))
        return
    target = _path(path)
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    content = to_bytes(model)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".saving-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, target)


def to_bytes(model: "BaseAlgorithm") -> bytes:
    """The file of a model as bytes."""
    content = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="pavlov-") as temporary:
        if model._native is None and model._saved is not None:
            checkpoint = model._saved.checkpoint
        else:
            checkpoint = str(model.native.save(temporary))
        with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(ABOUT, json.dumps(_about(model), indent=1))
            for name in sorted(os.listdir(checkpoint)):
                archive.write(os.path.join(checkpoint, name), f"checkpoint/{name}")
    return content.getvalue()


def load(cls: type[Model], path: Any, env: Any, changes: dict[str, Any]) -> Model:
    """Reads a model from a file, a checkpoint directory or a run directory."""
    if hasattr(path, "read"):
        return from_bytes(cls, path.read(), env, changes)
    text = os.fspath(path)
    if os.path.isdir(text):
        return _load_directory(cls, text, env, changes)
    for name in (text, _path(text)):
        if os.path.isfile(name):
            with open(name, "rb") as file:
                return from_bytes(cls, file.read(), env, changes, name)
    raise FileNotFoundError(f"there is no saved model {text} or {_path(text)}")


def about_of(path: Any) -> dict[str, Any]:
    """The arguments of a saved model, which name its class."""
    text = os.fspath(path)
    if os.path.isdir(text):
        return read_about(text if os.path.exists(os.path.join(text, ABOUT)) else os.path.dirname(text))
    name = text if os.path.isfile(text) else _path(text)
    if not os.path.isfile(name):
        raise FileNotFoundError(f"there is no saved model {text} or {name}")
    try:
        with zipfile.ZipFile(name) as archive:
            about: dict[str, Any] = json.loads(archive.read(ABOUT))
            return about
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        way = f"; if it is a packed model, which only acts, use load_policy({text!r})"
        raise CheckpointError(f"{name} is no model that pavlov_rl saved: {error}{way}") from error


def from_bytes(
    cls: type[Model], content: bytes, env: Any = None, changes: dict[str, Any] | None = None, name: str = "the file"
) -> Model:
    """Reads a model from the bytes of a file."""
    keeps = tempfile.TemporaryDirectory(prefix="pavlov-")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            about = json.loads(archive.read(ABOUT))
            for entry in archive.namelist():
                if entry.startswith("checkpoint/"):
                    # Only the last part of a name: an archive says nothing about other directories.
                    with open(os.path.join(keeps.name, os.path.basename(entry)), "wb") as file:
                        file.write(archive.read(entry))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        problem = f"{name} is no model that pavlov_rl saved: {error}"
        raise CheckpointError(f"{problem}; a model of Stable-Baselines3 cannot be read, train it anew") from error
    return _make(cls, about, keeps.name, keeps, env, changes or {}, name)


def _load_directory(cls: type[Model], path: str, env: Any, changes: dict[str, Any]) -> Model:
    about = read_about(path if os.path.exists(os.path.join(path, ABOUT)) else os.path.dirname(path))
    checkpoint = path if os.path.exists(os.path.join(path, "manifest.json")) else latest(path)
    # The file of arguments is older than the checkpoint.
    about["num_timesteps"] = _timesteps(checkpoint) - int(about["offset"])
    return _make(cls, about, checkpoint, None, env, changes, path)


def read_about(run: str) -> dict[str, Any]:
    """The arguments that a run directory has."""
    try:
        with open(os.path.join(run, ABOUT)) as file:
            about: dict[str, Any] = json.load(file)
            return about
    except FileNotFoundError:
        raise NotFoundError(f"{run} has no {ABOUT}: it is no run of `learn(.., out=..)`") from None


def latest(run: str) -> str:
    """The newest checkpoint of a run directory."""
    found = _native.latest_checkpoint(run)
    if found is None:
        raise NotFoundError(f"{run} has no whole checkpoint")
    return str(found)


def _make(
    cls: type[Model],
    about: dict[str, Any],
    checkpoint: str,
    keeps: Any,
    env: Any,
    changes: dict[str, Any],
    name: str,
) -> Model:
    model = _bare(cls, about, changes, name)
    model._saved = SavedPolicy(checkpoint, keeps, int(about["num_envs"]))
    if env is None and about["is_native"]:
        from .training_env import native_again

        env = native_again(about["env"], int(about["num_envs"]), about["env_config"])
    if env is not None:
        model.set_env(env)
    return model


def _bare(cls: type[Model], about: dict[str, Any], changes: dict[str, Any], name: str) -> Model:
    """The model without an environment."""
    if about["class"] != cls.__name__:
        raise CheckpointError(f"{name} was saved by {about['class']}, but is loaded by {cls.__name__}; load it by the former")
    arguments = {**_arguments(about["arguments"]), **changes}
    arguments["seed"] = about["seed"] if arguments.get("seed") is None else arguments["seed"]
    model = cls(about["policy"], None, settings=about["settings"], **arguments)
    model.observation_space, model.action_space = decode(about["observation_space"]), decode(about["action_space"])
    model.n_envs = int(about["num_envs"])
    model.num_timesteps, model._offset = int(about["num_timesteps"]), int(about["offset"])
    model._total_timesteps, model._asked = int(about["total_timesteps"]), about["asked"]
    return model


# Run directories.


def write_run(model: "BaseAlgorithm", out: str, total: int) -> None:
    """Writes what `resume` needs."""
    os.makedirs(out, exist_ok=True)
    temporary = os.path.join(out, f".{ABOUT}")
    with open(temporary, "w") as file:
        json.dump(_about(model), file, indent=1)
    os.replace(temporary, os.path.join(out, ABOUT))


def load_run(cls: type[Model], out: str, env: Any) -> tuple[Model, int]:
    """The model of a run directory at its newest checkpoint, and the steps that are left of its `learn`."""
    about = read_about(out)
    model = _bare(cls, about, {}, out)
    if env is None:
        if not about["is_native"]:
            raise CheckpointError(f"{out} learned in {about['env']}, which was stepped in Python; give it as `env`")
        from .training_env import native_again

        env = native_again(about["env"], int(about["num_envs"]), about["env_config"])
    from .training_env import resolve

    model._set_env(resolve(env))
    total = model._total_timesteps
    model._prepare((model._offset, model._offset + total), out)
    found = _native.latest_checkpoint(out)
    if found is not None:
        model.native.restore(str(found))
        model._is_changed = True
        model.num_timesteps = _timesteps(str(found)) - model._offset
    return model, total - model.num_timesteps


def _timesteps(checkpoint: str) -> int:
    with open(os.path.join(checkpoint, "metadata.json")) as file:
        return int(json.load(file)["timesteps_total"])
