"""What a model reports while it learns: the table on standard output, a CSV file, TensorBoard."""

import csv
import datetime
import os
import sys
from collections import defaultdict
from typing import Any, TextIO

from .. import _native

# Text wider than this is cut in the table.
_WIDEST = 36


class Logger:
    """Collects values by name (`rollout/ep_rew_mean`) and writes them at every `dump`."""

    def __init__(self, folder: str | None, output_formats: "list[Output]") -> None:
        self.dir = folder
        self.output_formats = output_formats
        self.name_to_value: dict[str, Any] = defaultdict(float)
        self.name_to_count: dict[str, int] = defaultdict(int)
        self.name_to_excluded: dict[str, tuple[str, ...]] = {}

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Sets a value; formats in `exclude` ("stdout", "csv", "tensorboard") leave it out."""
        self.name_to_value[key] = value
        self.name_to_excluded[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def record_mean(self, key: str, value: float | None, exclude: str | tuple[str, ...] | None = None) -> None:
        """Adds a value to the mean of a name."""
        if value is None:
            return
        count = self.name_to_count[key]
        self.name_to_value[key] = (self.name_to_value[key] * count + value) / (count + 1)
        self.name_to_count[key] = count + 1
        self.name_to_excluded[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def dump(self, step: int = 0) -> None:
        """Writes all values, and forgets them."""
        for output in self.output_formats:
            values = {
                key: value
                for key, value in sorted(self.name_to_value.items())
                if output.name not in self.name_to_excluded.get(key, ())
            }
            output.write(values, step)
        self.name_to_value.clear()
        self.name_to_count.clear()
        self.name_to_excluded.clear()

    def get_dir(self) -> str | None:
        """The directory of the files."""
        return self.dir

    def close(self) -> None:
        """Closes the files."""
        for output in self.output_formats:
            output.close()


class Output:
    """A place that values are written to."""

    name = ""

    def write(self, values: dict[str, Any], step: int) -> None:
        """Writes values of a step."""

    def close(self) -> None:
        """Closes the file."""


class HumanOutputFormat(Output):
    """The table of names and values, grouped by what stands before the `/`."""

    name = "stdout"

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def write(self, values: dict[str, Any], step: int) -> None:
        rows: list[tuple[str, str]] = []
        group = ""
        for key, value in values.items():
            if isinstance(value, (float, int)) or hasattr(value, "dtype"):
                text = f"{float(value):<8.3g}" if not isinstance(value, int) else f"{value:<8}"
            else:
                text = str(value)
            before, slash, after = key.partition("/")
            if slash and before != group:
                group = before
                rows.append((_cut(f"{before}/"), ""))
            rows.append((_cut(f"   {after}") if slash else _cut(key), _cut(text)))
        if not rows:
            return
        wide = max(len(key) for key, _ in rows), max(len(text) for _, text in rows)
        dashes = "-" * (sum(wide) + 7)
        lines = [dashes, *(f"| {key:<{wide[0]}} | {text:<{wide[1]}} |" for key, text in rows), dashes]
        print("\n".join(lines), file=self.file or sys.stdout, flush=True)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


class CSVOutputFormat(Output):
    """A CSV file; a column that appears later is empty before."""

    name = "csv"

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.keys: list[str] = []
        self.rows: list[dict[str, Any]] = []

    def write(self, values: dict[str, Any], step: int) -> None:
        new = [key for key in values if key not in self.keys]
        self.keys += new
        self.rows.append(values)
        is_first = len(self.rows) == 1
        with open(self.filename, "w" if new or is_first else "a", newline="") as file:
            writer = csv.DictWriter(file, self.keys)
            if new or is_first:
                writer.writeheader()
                writer.writerows(self.rows)
            else:
                writer.writerow(values)


class TensorBoardOutputFormat(Output):
    """Scalars for TensorBoard. It needs no other package."""

    name = "tensorboard"

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self.events = _native.NativeEvents(folder)

    def write(self, values: dict[str, Any], step: int) -> None:
        scalars = {
            key: float(value)
            for key, value in values.items()
            if isinstance(value, (float, int)) or (hasattr(value, "dtype") and getattr(value, "size", 0) == 1)
        }
        self.events.add(list(scalars.items()), step)


def make_output_format(name: str, folder: str) -> Output:
    """An output by its name: `stdout`, `csv` or `tensorboard`."""
    if name == "stdout":
        return HumanOutputFormat()
    if name == "csv":
        return CSVOutputFormat(os.path.join(folder, "progress.csv"))
    if name == "tensorboard":
        return TensorBoardOutputFormat(folder)
    raise ValueError(f"there is no output {name!r}; there is stdout, csv and tensorboard")


def configure(folder: str | None = None, format_strings: list[str] | None = None) -> Logger:
    """A logger that writes into a directory, by default to standard output and a CSV file."""
    if folder is None:
        now = datetime.datetime.now().strftime("PAVLOV-%Y-%m-%d-%H-%M-%S-%f")
        folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), now)
    os.makedirs(folder, exist_ok=True)
    names = format_strings if format_strings is not None else ["stdout", "csv"]
    return Logger(folder, [make_output_format(name, folder) for name in names])


def configure_of_model(verbose: int, tensorboard_log: str | None, name: str, is_new: bool) -> Logger:
    """The logger of a model: the table if it is verbose, and `<tensorboard_log>/<name>_<number>`."""
    outputs: list[Output] = [HumanOutputFormat()] if verbose >= 1 else []
    folder = None
    if tensorboard_log is not None:
        taken = [0]
        if os.path.isdir(tensorboard_log):
            ends = (entry.rpartition("_") for entry in os.listdir(tensorboard_log))
            taken += [int(end) for start, _, end in ends if start == name and end.isdigit()]
        folder = os.path.join(tensorboard_log, f"{name}_{max(taken) + (1 if is_new else 0)}")
        outputs.append(TensorBoardOutputFormat(folder))
        if verbose >= 1:
            print(f"Logging to {folder}")
    return Logger(folder, outputs)
