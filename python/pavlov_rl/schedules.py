"""Numbers that change while a model learns, as Stable-Baselines3 gives them: functions of the progress that remains."""

from collections.abc import Callable, Sequence
from typing import Any

# A function of the progress that remains, from 1 at the start to 0 at the end.
Schedule = Callable[[float], float]

# Steps between which a function that is no line is read.
POINTS = 1000


class Piecewise:
    """A schedule of a saved model: straight lines between its values, which are equally far from each other."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = list(values)

    def __call__(self, progress_remaining: float) -> float:
        at = min(max(1.0 - progress_remaining, 0.0), 1.0) * (len(self.values) - 1)
        before = min(int(at), len(self.values) - 2) if len(self.values) > 1 else 0
        if len(self.values) == 1:
            return self.values[0]
        share = at - before
        return self.values[before] * (1.0 - share) + self.values[before + 1] * share


def values(schedule: Schedule) -> list[float]:
    """The values of a function at equally far points: two of a line, else many."""
    found = [float(schedule(1.0 - i / POINTS)) for i in range(POINTS + 1)]
    first, last = found[0], found[-1]
    line = (abs(value - (first + (last - first) * i / POINTS)) for i, value in enumerate(found))
    slack = 1e-9 * max(abs(first), abs(last))
    return [first, last] if all(off <= slack for off in line) else found


def points(schedule: Schedule, first_step: int, last_step: int) -> list[list[float]]:
    """`[[step, value], ...]` from a step to another, with steps that grow."""
    found = values(schedule)
    span = max(last_step - first_step, 1)
    at = {first_step + span * i // (len(found) - 1): value for i, value in enumerate(found)}
    return [[step, value] for step, value in at.items()]


def constant_fn(value: float) -> Schedule:
    """A function that always gives this number."""
    return lambda progress_remaining: value


def is_schedule(value: Any) -> bool:
    """Whether an argument is a function, not a number."""
    return callable(value)


def encode(value: Schedule) -> dict[str, Any]:
    """A schedule as it is saved."""
    return {"schedule": values(value)}
