"""Spaces of Gymnasium from what the Rust half says, and observations and actions as they lie in rows."""

import operator
import warnings
import weakref
from typing import Any, TypeGuard, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .admitting import Admission, Leaf, short
from .errors import ConfigError

Array = NDArray[Any]
Space = spaces.Space[Any]

# The largest number up to which single precision has every integer.
_EXACT = 2**24

DTYPES: dict[str, type[np.generic]] = {"u8": np.uint8, "i64": np.int64, "f32": np.float32, "f64": np.float64}


def is_image(space: Space) -> TypeGuard[spaces.Box]:
    """Whether observations are images: a Box of three dimensions of uint8."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def has_all_bytes(space: spaces.Box) -> bool:
    """Whether the bounds of a Box are 0 and 255."""
    return bool((space.low == 0).all() and (space.high == 255).all())


def has_channels_first(space: spaces.Box) -> bool:
    """Whether the channels of images come first: they are the shortest of the three axes."""
    shortest = int(np.argmin(space.shape))
    if shortest == 1:
        warnings.warn(f"images of the shape {space.shape} are taken as having the channels last", stacklevel=3)
    return shortest == 0


def decode(tree: dict[str, Any], types: dict[str, type[np.generic]] | None = None, name: str = "") -> Space:
    """The space that the Rust half describes in JSON. `types` are those of parts whose scalars have another type here."""
    ((kind, of),) = tree.items()
    if kind == "box":
        dtype = (types or {}).get(name, DTYPES[of["dtype"]])
        low, high = (_bounds(of[side]).reshape(of["shape"]).astype(dtype) for side in ("low", "high"))
        return spaces.Box(low, high, tuple(of["shape"]), cast(Any, dtype))
    if kind == "discrete":
        return spaces.Discrete(of["n"], start=of["start"])
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(of["nvec"], start=of.get("start"))
    if kind == "multi_binary":
        return spaces.MultiBinary(of["n"])
    if kind == "dict":
        return spaces.Dict({name: decode(part, types, name) for name, part in of})
    return spaces.Tuple([decode(part, types) for part in of])


def _bounds(bounds: Any) -> Array:
    """One number per element. JSON has no infinities, and many equal bounds are written once."""
    if isinstance(bounds, dict):
        return np.full(bounds["len"], float(bounds["each"]))
    return np.array([float(bound) for bound in bounds], np.float64)


def width(space: Space) -> int:
    """Scalars in one row."""
    if isinstance(space, spaces.Dict):
        return sum(width(part) for part in space.values())
    if isinstance(space, spaces.Tuple):
        return sum(width(part) for part in space)
    return int(np.prod(cast("tuple[int, ...]", space.shape)))


def one(space: Space, row: Array) -> Any:
    """The member of `space` in a row, with memory of its own."""
    if isinstance(space, spaces.Discrete):
        return int(row[0])
    if isinstance(space, spaces.Dict):
        return {name: one(space[name], part) for name, part in zip(space, _split(space.values(), row))}
    if isinstance(space, spaces.Tuple):
        return tuple(one(part, cut) for part, cut in zip(space, _split(space, row)))
    return row.astype(cast(Any, space.dtype)).reshape(cast("tuple[int, ...]", space.shape))


def many(space: Space, rows: Array) -> Any:
    """The members of `space` in rows, as Gymnasium's vectors batch them, with memory of their own."""
    if isinstance(space, spaces.Discrete):
        return rows[:, 0].astype(cast(Any, space.dtype))
    if isinstance(space, spaces.Dict):
        return {name: many(space[name], part) for name, part in zip(space, _split(space.values(), rows))}
    if isinstance(space, spaces.Tuple):
        return tuple(many(part, cut) for part, cut in zip(space, _split(space, rows)))
    shape = cast("tuple[int, ...]", space.shape)
    return rows.astype(cast(Any, space.dtype)).reshape(len(rows), *shape)


def _split(parts: Any, rows: Array) -> list[Array]:
    """The columns of each part."""
    ends = np.cumsum([width(part) for part in parts])
    return np.split(rows, ends[:-1], axis=-1)


def action_row(space: Space, action: Any, row: Array, who: str) -> None:
    """Writes an action into its row. `who` begins the message that refuses one of another form."""
    if isinstance(space, spaces.Discrete):
        try:
            row[0] = operator.index(action)
        except TypeError:
            raise ConfigError(f"{who} is {action!r}, but it must be an integer in {space}") from None
        return
    actions(action, row.reshape(cast("tuple[int, ...]", space.shape)), f"{who} of {space}")


def actions(given: Any, target: Array, what: str) -> None:
    """Writes actions into the array that is handed to the Rust half; refuses another shape, and reals for integers."""
    array = np.asarray(given)
    if array.shape != target.shape:
        raise ConfigError(f"{what} has shape {array.shape}, but it must be {target.shape}")
    if not np.can_cast(array.dtype, target.dtype, "same_kind"):
        raise ConfigError(f"{what} is of {array.dtype}, but it must be of {target.dtype}")
    target[...] = array


def action_dtype(space: Space) -> Any:
    """The scalar type of a row of actions."""
    if isinstance(space, spaces.Box):
        return space.dtype
    return np.int8 if isinstance(space, spaces.MultiBinary) else np.int64


def batched(space: Space, num_envs: int) -> Space:
    """As many members of `space`."""
    return gymnasium.vector.utils.batch_space(space, num_envs)


def encode(space: Space) -> dict[str, Any]:
    """A space of Gymnasium as the Rust half reads it. Boxes of other scalars than bytes become boxes of single precision."""
    if isinstance(space, spaces.Box):
        dtype = "u8" if space.dtype == np.uint8 else "f32"
        low, high = (_told_bounds(side) for side in (space.low, space.high))
        return {"box": {"low": low, "high": high, "shape": list(space.shape), "dtype": dtype}}
    if isinstance(space, spaces.Discrete):
        return {"discrete": {"n": int(space.n), "start": int(space.start)}}
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(space.start).ravel().tolist()
        return {"multi_discrete": {"nvec": np.asarray(space.nvec).ravel().tolist(), "start": starts if any(starts) else []}}
    if isinstance(space, spaces.MultiBinary):
        return {"multi_binary": {"n": list(space.shape)}}
    if isinstance(space, spaces.Dict):
        return {"dict": [[name, encode(part)] for name, part in sorted(space.items())]}
    if isinstance(space, spaces.Tuple):
        return {"tuple": [encode(part) for part in space]}
    kinds = "Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
    raise ConfigError(f"the space {space} cannot be used; it must be made of {kinds}")


def warn_of_large_integers(space: Space) -> None:
    """Says that policies see observations in single precision, where integers may be too large for it."""
    for leaf in leaves(space):
        if isinstance(leaf, spaces.Box) and leaf.dtype.kind in "iu" and max(leaf.high.max(), -int(leaf.low.min())) > _EXACT:
            warnings.warn(
                f"observations in {leaf} are integers beyond {_EXACT:,}, which policies see rounded to single precision; "
                "scale them in a wrapper",
                stacklevel=2,
            )


def encode_actions(space: Space) -> dict[str, Any]:
    """A space of actions as the Rust half reads it: each bit is a choice between two, and an array of numbers is a row."""
    if isinstance(space, spaces.MultiBinary):
        return {"multi_discrete": {"nvec": [2] * width(space), "start": []}}
    encoded = encode(space)
    if isinstance(space, spaces.Box):
        # Policies choose the numbers of an array one after the other; the environment gets the array.
        encoded["box"]["shape"] = [width(space)]
    return encoded


def _told_bounds(bounds: Array) -> list[float | str]:
    return [float(bound) if np.isfinite(bound) else ("inf" if bound > 0 else "-inf") for bound in bounds.ravel()]


def row_dtype(space: Space) -> Any:
    """The scalar type of the rows of an encoded space."""
    kinds = {_leaf_dtype(leaf) for leaf in leaves(space)}
    for dtype in (np.float32, np.int64):
        if dtype in kinds:
            return dtype
    return np.uint8


def leaves(space: Space) -> list[Space]:
    """The parts that have no parts, in the order of rows."""
    if isinstance(space, spaces.Dict):
        return [leaf for _, part in sorted(space.items()) for leaf in leaves(part)]
    if isinstance(space, spaces.Tuple):
        return [leaf for part in space for leaf in leaves(part)]
    return [space]


def _leaf_dtype(space: Space) -> Any:
    if isinstance(space, spaces.Box):
        return np.uint8 if space.dtype == np.uint8 else np.float32
    return np.uint8 if isinstance(space, spaces.MultiBinary) else np.int64


def _say(text: str) -> None:
    warnings.warn(text, stacklevel=2)


# The rule for what environments may give, and for each space that was met what it says there.
ADMISSION = Admission(_say, "`check_env` lists all that an environment should do otherwise", ConfigError)
# The same for observations that a user hands to a policy, in whatever form is at hand.
_GIVEN_BY_HAND = Admission(lambda _: None, "", ConfigError)
_rules: dict[tuple[int, str, int], Leaf] = {}


def _rule_of(space: Space, name: str, admission: Admission) -> Leaf:
    """The rule for a space that is not composite. It is kept as long as the space is."""
    key = (id(space), name, id(admission))
    rule = _rules.get(key)
    if rule is None:
        rule = _rules[key] = Leaf(admission, space, name)
        weakref.finalize(space, _rules.pop, key, None)
    return rule


def admitted(space: Space, member: Any, name: str = "the observation") -> Any:
    """A member of `space` as arrays, in which no cast to the types of the space changes a number."""
    if isinstance(space, spaces.Dict):
        return {key: admitted(part, _part(member, key, name), _at(name, key)) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(admitted(part, _part(member, at, name), _at(name, at)) for at, part in enumerate(space))
    return _rule_of(space, name, ADMISSION)(member)


def _at(name: str, key: Any) -> str:
    """Names a part of a Dict or Tuple by its path."""
    return f"{name}/{key}" if " at " in name else f"{name} at {key}"


def _part(member: Any, key: Any, name: str) -> Any:
    try:
        return member[key]
    except (KeyError, IndexError, TypeError):
        raise ConfigError(f"{name} is {short(member)}, but its space has a part {key!r}: give every part of the space") from None


def write_row(
    space: Space, member: Any, row: Array, name: str = "the observation", admission: Admission = ADMISSION
) -> None:
    """Writes a member of `space` into a row, as `encode` describes it; refuses what the row would change."""
    parts: list[tuple[Space, Any, Any]]
    if isinstance(space, spaces.Dict):
        parts = [(part, _part(member, key, name), key) for key, part in sorted(space.items())]
    elif isinstance(space, spaces.Tuple):
        parts = [(part, _part(member, at, name), at) for at, part in enumerate(space)]
    else:
        row[...] = np.ravel(_rule_of(space, name, admission)(member))
        return
    at = 0
    for part, value, key in parts:
        end = at + width(part)
        write_row(part, value, row[at:end], _at(name, key), admission)
        at = end


def members(space: Space, rows: Array) -> list[Any]:
    """The members of `space` in rows that `write_row` writes, one by one."""
    return [member(space, row) for row in rows]


def member(space: Space, row: Array) -> Any:
    """The member of `space` in a row that `write_row` writes."""
    if isinstance(space, spaces.Dict):
        found, at = {}, 0
        for name, part in sorted(space.items()):
            found[name] = member(part, row[at : at + width(part)])
            at += width(part)
        return found
    return one(space, row)


def action(space: Space, row: Array) -> Any:
    """The action of `space` in a row of the policy's."""
    return cast_actions(space, row[None])[0] if isinstance(space, spaces.Box) else member(space, row)


def cast_actions(space: Space, rows: Array) -> Array:
    """Actions in the type of their space. Integers are rounded to the nearest, and what single precision makes of a bound in
    double precision is brought back to the bound."""
    shape = (len(rows), *cast("tuple[int, ...]", space.shape))
    if not isinstance(space, spaces.Box) or space.dtype == rows.dtype:
        return rows.reshape(shape).astype(cast(Any, space.dtype), copy=False)
    numbers = rows.reshape(shape).astype(np.float64)
    if space.dtype.kind in "biu":
        numbers = np.rint(numbers)
    return np.clip(numbers, space.low, space.high).astype(cast(Any, space.dtype))


def rows_of(space: Space, observation: Any) -> tuple[Array, bool]:
    """Observations as rows, and whether they are several."""
    if isinstance(space, spaces.Dict):
        name, part = next(iter(space.items()))
        is_many = np.asarray(observation[name]).ndim > len(part.shape or ())
        copies = len(observation[name]) if is_many else 1
        each = [{key: observation[key][copy] for key in space} for copy in range(copies)] if is_many else [observation]
    elif isinstance(space, spaces.Tuple):
        is_many = np.asarray(observation[0]).ndim > len(space[0].shape or ())
        each = list(zip(*observation)) if is_many else [observation]
    elif isinstance(observation, dict):
        raise ValueError(f"the observation is a dictionary, but it must be in {space}")
    else:
        array = np.asarray(observation)
        is_many = array.ndim > len(space.shape or ())
        if array.shape[is_many:] != (space.shape or ()):
            raise ValueError(f"the observation has shape {array.shape}, but it must be {space.shape}, or have one axis more")
        each = list(array) if is_many else [array]
    rows = np.empty((len(each), width(space)), row_dtype(space))
    for row, member in zip(rows, each):
        write_row(space, member, row, admission=_GIVEN_BY_HAND)
    return rows, is_many
