"""Files of models: one zip file with what makes the model again and a checkpoint, run directories, and replay buffers."""

import io
import json
import os
import tempfile
import zipfile
from functools import cached_property
from typing import Any

from . import _native
from .common.noise import SavedNoise
from .errors import CheckpointError, ConfigError, NotFoundError
from .parameters import Parameters, of_states
from .schedules import Piecewise

# What makes a model again, as JSON has it.
About = dict[str, Any]

# Its file, in a zip file and in a run directory.
ABOUT = "pavlov_rl.json"


class Saved:
    """A model that was read: what makes it again, and a checkpoint, which acts and can be put into a run later."""

    def __init__(self, about: About, checkpoint: str, name: str, keeps: Any = None) -> None:
        self.about = about
        self.checkpoint = checkpoint
        # What it was read from, for errors.
        self.name = name
        # A temporary directory lives as long as this.
        self._keeps = keeps

    @cached_property
    def policy(self) -> _native.NativePolicy:
        """What acts."""
        return _native.NativePolicy(self.checkpoint)

    def parameters(self) -> Parameters:
        """The parameters by name."""
        return of_states(*_native.states_of(self.checkpoint))

    def restore(self, native: _native.NativeAlgorithm, whole: bool) -> None:
        """Puts what was saved into a run: all of it, or the policy alone."""
        if whole:
            native.restore(self.checkpoint)
        else:
            native.restore_policies(self.checkpoint)


class Snapshot:
    """What a run knew before an iteration, for a callback that saves the model as it was when it took a step of it."""

    def __init__(self, native: _native.NativeAlgorithm) -> None:
        self._keeps = tempfile.TemporaryDirectory(prefix="pavlov-")
        self.checkpoint = str(native.save(self._keeps.name))
        self.timesteps = native.timesteps()


def arguments_of(about: About) -> dict[str, Any]:
    """The arguments that were saved. Functions of progress have become lines between their values, and noise a setting."""
    found = {}
    for name, value in about["arguments"].items():
        if isinstance(value, dict) and set(value) == {"schedule"}:
            value = Piecewise(value["schedule"])
        elif isinstance(value, dict) and set(value) == {"noise"}:
            value = SavedNoise(value["noise"])
        elif isinstance(value, dict) and set(value) == {"object"}:
            value = value["object"]
        found[name] = value
    return found


# Models.


def write(path: Any, content: bytes) -> None:
    """Writes the bytes of a model into a file, which is whole or not there."""
    if hasattr(path, "write"):
        path.write(content)
    else:
        _write(_path(path), content)


def to_bytes(about: About, checkpoint: str) -> bytes:
    """The file of a model as bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(ABOUT, json.dumps(about, indent=1))
        for name in sorted(os.listdir(checkpoint)):
            archive.write(os.path.join(checkpoint, name), f"checkpoint/{name}")
    return content.getvalue()


def read(path: Any) -> Saved:
    """Reads a model from a file, a checkpoint directory or a run directory."""
    if hasattr(path, "read"):
        return from_bytes(path.read())
    text = os.fspath(path)
    if os.path.isdir(text):
        return _of_directory(text)
    for name in (text, _path(text)):
        if os.path.isfile(name):
            with open(name, "rb") as file:
                return from_bytes(file.read(), name)
    raise FileNotFoundError(f"there is no saved model {text} or {_path(text)}")


def class_of(path: Any) -> str:
    """The class of a saved model."""
    text = os.fspath(path)
    if os.path.isdir(text):
        return str(about_run(text if os.path.exists(os.path.join(text, ABOUT)) else os.path.dirname(text))["class"])
    name = text if os.path.isfile(text) else _path(text)
    if not os.path.isfile(name):
        raise FileNotFoundError(f"there is no saved model {text} or {name}")
    try:
        with zipfile.ZipFile(name) as archive:
            return str(json.loads(archive.read(ABOUT))["class"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        way = f"; if it is a packed model, which only acts, use load_policy({text!r})"
        raise CheckpointError(f"{name} is no model that pavlov_rl saved: {error}{way}") from error


def from_bytes(content: bytes, name: str = "the file") -> Saved:
    """Reads a model from the bytes of a file."""
    keeps = tempfile.TemporaryDirectory(prefix="pavlov-")
    try:
        about = _unpack(content, ABOUT, "checkpoint/", keeps.name)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        problem = f"{name} is no model that pavlov_rl saved: {error}"
        raise CheckpointError(f"{problem}; a model of Stable-Baselines3 cannot be read, train it anew") from error
    return Saved(about, keeps.name, name, keeps)


def _of_directory(path: str) -> Saved:
    about = about_run(path if os.path.exists(os.path.join(path, ABOUT)) else os.path.dirname(path))
    checkpoint = path if os.path.exists(os.path.join(path, "manifest.json")) else _latest(path)
    # The file of arguments is older than the checkpoint.
    about["num_timesteps"] = timesteps_of(checkpoint) - int(about["offset"])
    return Saved(about, checkpoint, path)


def _latest(run: str) -> str:
    """The newest checkpoint of a run directory."""
    found = _native.latest_checkpoint(run)
    if found is None:
        raise NotFoundError(f"{run} has no whole checkpoint")
    return str(found)


# Run directories.


def about_run(run: str) -> About:
    """What makes the model of a run directory again."""
    try:
        with open(os.path.join(run, ABOUT)) as file:
            about: About = json.load(file)
            return about
    except FileNotFoundError:
        raise NotFoundError(f"{run} has no {ABOUT}: it is no run of `learn(.., out=..)`") from None


def is_run(directory: str) -> bool:
    """Whether a directory has a run in it, of this package or of the command."""
    return any(os.path.exists(os.path.join(directory, name)) for name in (ABOUT, "run.json", "result.json"))


def remove_rows(run: str) -> None:
    """Removes the results of a run directory."""
    for name in os.listdir(run):
        if name in ("result.json", "progress.csv") or name.startswith("events.out.tfevents."):
            os.remove(os.path.join(run, name))


def write_run(out: str, about: About) -> None:
    """Writes what `resume` needs."""
    os.makedirs(out, exist_ok=True)
    temporary = os.path.join(out, f".{ABOUT}")
    with open(temporary, "w") as file:
        json.dump(about, file, indent=1)
    os.replace(temporary, os.path.join(out, ABOUT))


def timesteps_of(checkpoint: str) -> int:
    """The steps of the run up to a checkpoint."""
    with open(os.path.join(checkpoint, "metadata.json")) as file:
        return int(json.load(file)["timesteps_total"])


# Replay buffers.

# The file in a zip file that says what a replay buffer is of.
_OF_BUFFER = "replay_buffer.json"


class SavedBuffer:
    """A replay buffer that was read from a file."""

    def __init__(self, path: Any, truncate_last_traj: bool = True) -> None:
        self._truncates = truncate_last_traj
        name = "the file" if hasattr(path, "read") else _buffer_path(path)
        if hasattr(path, "read"):
            content = path.read()
        else:
            with open(os.fspath(path) if os.path.isfile(path) else name, "rb") as file:
                content = file.read()
        self._name = name
        self._folder = tempfile.TemporaryDirectory(prefix="pavlov-")
        try:
            self._about = _unpack(content, _OF_BUFFER, "buffer/", self._folder.name)
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise CheckpointError(f"{name} is no replay buffer that pavlov_rl saved: {error}") from error

    def put_into(self, native: _native.NativeAlgorithm, own: About) -> None:
        """Replaces the buffer of a run, and nothing else. `own` says what the run's rows are."""
        for name in own:
            if self._about[name] != own[name]:
                problem = f"the replay buffer in {self._name} was saved with `{name}` {self._about[name]}"
                raise ConfigError(f"{problem}, but this model has {own[name]}; make the model with the former")
        names = sorted(os.listdir(self._folder.name))
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        native.load_replay_buffers(self._folder.name, ids, self._truncates)


def save_buffer(native: _native.NativeAlgorithm, own: About, path: Any) -> None:
    """Writes the replay buffer of a run into a file that is whole or not there. A name without a suffix gets `.pkl`."""
    content = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="pavlov-") as folder:
        native.save_replay_buffers(folder)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_OF_BUFFER, json.dumps(own | {"version": _native.__version__}))
            for name in sorted(os.listdir(folder)):
                archive.write(os.path.join(folder, name), f"buffer/{name}")
    if hasattr(path, "write"):
        path.write(content.getvalue())
    else:
        _write(_buffer_path(path), content.getvalue())


# What they share.


def _unpack(content: bytes, about: str, prefix: str, to: str) -> About:
    """Writes the files of an archive below a prefix into a directory; returns what the archive says of them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found: About = json.loads(archive.read(about))
        for entry in archive.namelist():
            if entry.startswith(prefix):
                # Only the last part of a name: an archive says nothing about other directories.
                with open(os.path.join(to, os.path.basename(entry)), "wb") as file:
                    file.write(archive.read(entry))
    return found


def _write(target: str, content: bytes) -> None:
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".saving-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, target)


def _path(path: Any) -> str:
    text = os.fspath(path)
    return text if text.endswith(".zip") else f"{text}.zip"


def _buffer_path(path: Any) -> str:
    text = os.fspath(path)
    return text if os.path.splitext(text)[1] else f"{text}.pkl"
