"""The parameters of a model as numpy arrays by name: those of its networks under "policy", those of its optimizers beside them."""

import json
import warnings
from typing import Any

import numpy as np

from . import _native
from .errors import ConfigError
from .spaces import Array

# Arrays by the names of objects, and in them by their own.
Parameters = dict[str, dict[str, Any]]

POLICY, OPTIMIZER = "policy", "policy.optimizer"
# Which arrays of a policy's state belong to which object, and what stands before their names there.
_PARTS = {"weights": (POLICY, ""), "target": (POLICY, "target."), "optimizer": (OPTIMIZER, "")}


def of_states(arrays: dict[str, Array], values: str) -> Parameters:
    """The parameters in the states of policies."""
    found: Parameters = {POLICY: {}, OPTIMIZER: {}}
    for full, array in arrays.items():
        own = _own_name(full)
        if own is not None:
            found[own[0]][own[1]] = array
    for full, steps in _steps(json.loads(values)).items():
        found[OPTIMIZER][full] = np.array(steps)
    return found


def replace(native: _native.NativeAlgorithm, given: Parameters, exact_match: bool) -> None:
    """Puts parameters into a run. With `exact_match` all must be there; otherwise it is said what stays as it is."""
    arrays, text = native.get_states()
    known = of_states(arrays, text)
    for name in given:
        if name not in known:
            problem = f"the dictionary has {name!r}, but the parameters of this model are under {_listed(known)}"
            raise ValueError(f"{problem}; give weights as {{{POLICY!r}: {{..}}}}")
    for name, parts in given.items():
        for full in parts:
            if full not in known[name]:
                raise ConfigError(f"no parameter {full!r} in {name!r}; there is {', '.join(known[name])}")
    left = [repr(name) for name in known if name not in given]
    left += [f"{full!r} of {name!r}" for name in given for full in known[name] if full not in given[name]]
    if exact_match and left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise ValueError(
            f"the dictionary is missing {left[0]}{more}; `get_parameters` gives all, and with exact_match=False what is "
            "missing stays as it is"
        )
    values = json.loads(text)
    new = {}
    for full in arrays:
        own = _own_name(full)
        if own is not None and own[1] in given.get(own[0], {}):
            new[full] = np.ascontiguousarray(given[own[0]][own[1]], np.float32)
    steps = {full: int(each) for full, each in given.get(OPTIMIZER, {}).items() if full in _steps(values)}
    native.set_states(new, json.dumps(_with_steps(values, steps)))
    if left:
        warnings.warn(f"`set_parameters` leaves as they are: {', '.join(left)}", stacklevel=3)


def _own_name(full: str) -> tuple[str, str] | None:
    """The object that an array of a state belongs to, and its name there; None if it is no parameter."""
    policy, _, rest = full.partition(".")
    part, _, name = rest.partition(".")
    if part not in _PARTS:
        return None
    belongs, prefix = _PARTS[part]
    return belongs, f"{policy}.{prefix}{name}"


def _optimizers(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is saved of each optimizer, by its name: several have the names of the networks that they are for."""
    found = {}
    for policy, state in values.items():
        optimizer = state.get("optimizer", {})
        if "steps" in optimizer:
            found[policy] = optimizer
        else:
            found.update({f"{policy}.{name}": own for name, own in optimizer.items()})
    return found


def _steps(values: dict[str, Any]) -> dict[str, int]:
    """The numbers of steps that the optimizers have made."""
    return {f"{name}.steps": int(own["steps"]) for name, own in _optimizers(values).items()}


def _with_steps(values: dict[str, Any], steps: dict[str, int]) -> dict[str, Any]:
    for name, own in _optimizers(values).items():
        own["steps"] = steps.get(f"{name}.steps", own["steps"])
    return values


def _listed(known: Parameters) -> str:
    return " and ".join(repr(name) for name in known)
