"""Reads what `log_batches` writes: the rows of each learning step, the state around it, and its report."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file


def table(path):
    """The columns of a Parquet file as arrays; floats become float64."""
    if not path.exists():
        return {}
    read = pq.read_table(path)
    shapes = {k.decode(): v for k, v in (read.schema.metadata or {}).items()}
    out = {}
    for name in read.column_names:
        column = read.column(name).combine_chunks()
        if f"shape:{name}" in shapes:
            flat = column.flatten().to_numpy(zero_copy_only=False)
            array = flat.reshape(len(column), *json.loads(shapes[f"shape:{name}"]))
        else:
            array = column.to_numpy(zero_copy_only=False)
        out[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
    return out


def nested(arrays, prefix):
    """The arrays whose names begin with `prefix.`, in float64, without the prefix."""
    cut = len(prefix) + 1
    return {k[cut:]: v.astype(np.float64) for k, v in arrays.items() if k.startswith(prefix + ".")}


@dataclass
class State:
    """A policy's saved state: its values, weights, target copy and optimizer."""

    values: dict
    arrays: dict

    @property
    def weights(self):
        return nested(self.arrays, "weights")

    @property
    def target(self):
        return nested(self.arrays, "target")


def state(stem):
    arrays = Path(f"{stem}.safetensors")
    return State(json.loads(Path(f"{stem}.json").read_text()), load_file(arrays) if arrays.exists() else {})


@dataclass
class Update:
    """One learning step as it was logged."""

    name: str
    info: dict
    rows: dict
    sequences: dict
    behind: dict
    before: State
    after: State
    config: dict = field(default_factory=dict)

    @property
    def learning_step(self):
        """Number of optimizer steps before this one."""
        return self.before.values["learning_steps"]

    def column(self, name):
        """A column as `[rows]`."""
        return self.rows[name].reshape(len(self.rows[name]), -1)[:, 0]


def updates(run):
    """The logged learning steps of the run in the folder `run`, in order."""
    folder = Path(run) / "batches"
    config = json.loads((Path(run) / "params.json").read_text())
    for path in sorted(folder.glob("update-*.json")):
        stem = path.with_suffix("")
        if stem.name.endswith(("-before", "-after")):
            continue
        yield Update(
            stem.name,
            json.loads(path.read_text()),
            table(Path(f"{stem}.parquet")),
            table(Path(f"{stem}-sequences.parquet")),
            table(Path(f"{stem}-behind.parquet")),
            state(f"{stem}-before"),
            state(f"{stem}-after"),
            config,
        )
