"""What an environment may give as an observation, a reward or a flag: one rule for the workers of the bridge, whose program
this file is a part of, and for the Python package, which imports it.

A value is looked at before it is cast to the type of its row. What the cast would change is refused. What costs a promise
only is said once, and used as it is.
"""

from collections.abc import Callable
from typing import Any

class Admission:
    """The rule. `say` takes what is said once, and `refuse` is the class of what is raised. `strictly` says in words how an
    author has all of it refused."""

    def __init__(self, say: Callable[[str], None], strictly: str, refuse: type[Exception] = ValueError) -> None:
        import numpy as np

        self.say, self.strictly, self.refuse = say, strictly, refuse
        self._said: dict[str, None] = {}
        integers = [int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
        self.integers = frozenset(integers)
        # Of these classes every number is a reward, and needs no look.
        self.numbers = frozenset([*integers, float, bool, np.bool_, np.float16, np.float32, np.float64])
        self.flags = frozenset([bool, np.bool_])
        # What to do about a reward of several numbers, and the weights that make one of them, if there are any.
        self.several_rewards = "add the numbers up in the environment or in a wrapper"
        self.weights: Any = None

    @property
    def remarks(self) -> list[str]:
        """What was said so far."""
        return list(self._said)

    def remark(self, what: str) -> None:
        """Says something once."""
        if what not in self._said:
            self._said[what] = None
            self.say(f"{what}. It is used as it is; {self.strictly}")

    def weigh(self, weights: list[float]) -> None:
        """Makes the reward of an environment with several objectives the sum of its numbers, each times its weight."""
        import numpy as np

        self.weights = np.asarray(weights, float)
        # Every reward needs a look.
        self.numbers = frozenset()

    def reward(self, value: Any) -> float:
        """A reward as a number."""
        if value.__class__ not in self.numbers:
            if self.weights is None:
                value = self._one(value, "the reward", "number", self.several_rewards)
            else:
                value = self._weighted(value)
        return float(value)

    def _weighted(self, value: Any) -> Any:
        array, weights = self.array(value, "the reward"), self.weights
        if array.size != weights.size:
            what = f"{array.size} number{'' if array.size == 1 else 's'}"
            raise self.refuse(
                f"the reward is {short(value)}, which is {what}, but `reward_weights` has {weights.size}: it must have one "
                "weight for each number of the reward"
            )
        return array.ravel() @ weights

    def flag(self, value: Any, name: str) -> bool:
        """`terminated` or `truncated`."""
        if value.__class__ in self.flags or value is None:
            return bool(value)
        return bool(self._one(value, f"`{name}`", "truth value", "an environment with one agent has one flag"))

    def _one(self, value: Any, name: str, what: str, way_out: str) -> Any:
        array = self.array(value, name)
        if array.size != 1:
            raise self.refuse(f"{name} is {short(value)}, which is {array.size} {what}s, but it must be one: {way_out}")
        if array.ndim:
            self.remark(f"{name} is {kind_of(value)} of one {what} instead of a {what}")
        return array.reshape(())[()]

    def array(self, value: Any, name: str) -> Any:
        """Real numbers as an array; refuses everything else."""
        import numpy as np

        try:
            array = np.asarray(value)
        except Exception as error:
            raise self.refuse(f"{name} is {short(value)}, of which numpy makes no array of numbers: {error}") from error
        if array.dtype.kind == "c":
            found = array.ravel()[int(np.argmax(array.ravel().imag != 0))] if array.size else value
            raise self.refuse(
                f"{name} has complex numbers, such as {found}, but it must have real ones: give the real part, the "
                "magnitude, or both parts as two numbers"
            )
        if array.dtype.kind not in "biuf":
            raise self.refuse(f"{name} is {short(value)} ({kind_of(value)}), but it must be numbers")
        return array


class Leaf:
    """The rule for the observations in one space that is not composite. `rows` is their number if several come as one array."""

    def __init__(self, admission: Admission, space: Any, name: str = "the observation", rows: tuple[int, ...] = ()) -> None:
        import gymnasium
        import numpy as np

        self.admission, self.name, self.text = admission, name, str(space)
        self.shape = rows + tuple(space.shape or ())
        self.dtype = np.dtype(space.dtype)
        self.is_discrete = isinstance(space, gymnasium.spaces.Discrete)
        self.is_integer = self.dtype.kind in "biu" or not isinstance(space, gymnasium.spaces.Box)
        self.low: Any = None
        self.high: Any = None
        # What the numbers must be in, and what to do otherwise.
        self.rule, self.way_out = self.text, "mend the environment, or declare the space that its observations are in"
        if isinstance(space, gymnasium.spaces.Box):
            if self.is_integer:
                self.low, self.high = (0, 1) if self.dtype.kind == "b" else (np.iinfo(self.dtype).min, np.iinfo(self.dtype).max)
                # Rows hold integers of 64 bits with a sign.
                self.low, self.high = int(self.low), min(int(self.high), 2**63 - 1)
                self.rule = f"the {self.dtype} of its space, which holds {self.low} to {self.high}"
        elif self.is_discrete:
            self.low, self.high = int(space.start), int(space.start) + int(space.n) - 1
        elif isinstance(space, gymnasium.spaces.MultiDiscrete):
            start = np.asarray(getattr(space, "start", 0))
            self.low, self.high = start, start + space.nvec - 1
        else:
            self.low, self.high = 0, 1
        # A number of a Discrete space that needs no further look.
        self.integers = admission.integers if self.is_discrete and not rows else frozenset()
        # The types of arrays that no cast changes, and the last of them that was met.
        self.harmless: set[Any] = set()
        self.met: Any = None

    def __call__(self, value: Any) -> Any:
        """The value as it is written into its row."""
        if self.is_discrete:
            if value.__class__ in self.integers and self.low <= value <= self.high:
                return value
        else:
            try:
                if value.dtype is self.met and value.shape == self.shape:
                    return value
            except AttributeError:
                pass
        return self._looked_at(value)

    def _looked_at(self, value: Any) -> Any:
        import numpy as np

        name = self.name
        array = self.admission.array(value, name)
        if array.dtype in self.harmless and isinstance(value, (np.ndarray, np.generic)):
            self.met = value.dtype
        if array.shape != self.shape:
            if array.size != np.prod(self.shape, dtype=int) or not _lies_alike(array.shape, self.shape):
                raise self.admission.refuse(
                    f"{name} has shape {array.shape}, but its space says {self.shape}; correct the environment's "
                    "observation_space"
                )
            self.admission.remark(f"{name} has shape {array.shape}, but its space says {self.shape}")
            array = array.reshape(self.shape)
        if self.is_integer:
            self._check_integers(array)
        is_array = isinstance(value, np.ndarray)
        if self.shape and not self.is_discrete:
            if not is_array and not isinstance(value, np.generic):
                self.admission.remark(f"{name} is {kind_of(value)} instead of an array of {self.dtype}")
            elif array.dtype != self.dtype:
                self.admission.remark(f"{name} is of {array.dtype}, but its space says {self.dtype}")
        if isinstance(value, (np.ndarray, np.generic)) and self._is_harmless(array.dtype):
            self.harmless.add(array.dtype)
            self.met = value.dtype
        return array

    def _is_harmless(self, dtype: Any) -> bool:
        """Whether a cast from this type changes no number, other than by rounding."""
        import numpy as np

        if not self.is_integer:
            return True
        has_own_limits = self.is_discrete or self.rule == self.text
        return not has_own_limits and dtype.kind in "biu" and dtype.itemsize < 8 + (dtype.kind == "i") and np.can_cast(
            dtype, self.dtype, "safe"
        )

    def _check_integers(self, array: Any) -> None:
        import numpy as np

        name = self.name
        if array.dtype.kind == "f":
            bad = array != np.floor(array)
            if bad.any():
                found, at = _first(array, bad)
                why = "which is no number" if found != found else "which is no integer"
                raise self.admission.refuse(
                    f"{name} {_said(found, at)}, {why}, but {self.text} has integers: it would become another number. "
                    "Give integers (a picture in 0..1 times 255, say), or declare a Box of float32"
                )
        bad = (array < self.low) | (array > self.high)
        if bad.any():
            found, at = _first(array, bad)
            raise self.admission.refuse(f"{name} {_said(found, at)}, outside of {self.rule}: {self.way_out}")


def _lies_alike(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether equally many numbers of two shapes are in the same order: axes of length 1 do not count, and a flat row fits."""
    one, other = ([size for size in shape if size != 1] for shape in (found, expected))
    return one == other or len(one) <= 1 or len(other) <= 1


def _first(array: Any, bad: Any) -> tuple[Any, Any]:
    import numpy as np

    at = tuple(int(i) for i in np.argwhere(np.asarray(bad))[0])
    found = np.asarray(array)[at].item()
    return found, f"element {at[0] if len(at) == 1 else at}" if at else ""


def _said(found: Any, at: str) -> str:
    return f"has {found} at {at}" if at else f"is {found}"


def kind_of(value: Any) -> str:
    """What a value is, for sentences."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of {value.dtype}"
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def short(value: Any) -> str:
    """A value for sentences, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
