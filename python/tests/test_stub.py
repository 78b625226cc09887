"""`algorithms.pyi`: the constructors of the table of arguments, for type checkers and editors.

`PAVLOV_WRITE=1 pytest python/tests/test_stub.py` writes it.
"""

import inspect
import os
import textwrap
from pathlib import Path

from pavlov_rl import algorithms
from pavlov_rl.arguments import CLASSES, Argument, defaults_of, rows_of

STUB = Path(__file__).parent.parent / "pavlov_rl" / "algorithms.pyi"
TYPES = {
    "any": "Any",
    "auto": "str | float",
    "dictionary": "dict[str, Any]",
    "flag": "bool",
    "frequency": "int | tuple[int, str]",
    "noise": "ActionNoise",
    "number": "float",
    "path": "str | os.PathLike[str]",
    "schedule": "float | Schedule",
    "temperature": "str | float",
    "whole": "int",
}
HEAD = '''"""The algorithms with Stable-Baselines3's names, arguments and defaults, and `load`. `tests/test_stub.py` writes this file."""

import os
from typing import Any

from .arguments import Settings
from .common.noise import ActionNoise
from .families import EpsilonGreedyAlgorithm as EpsilonGreedyAlgorithm
from .families import NoisyAlgorithm as NoisyAlgorithm
from .families import OffPolicyAlgorithm as OffPolicyAlgorithm
from .families import OnPolicyAlgorithm as OnPolicyAlgorithm
from .model import BaseAlgorithm as BaseAlgorithm
from .schedules import Schedule
'''
TAIL = '''
ALGORITHMS: dict[str, type[BaseAlgorithm]]

def load(path: str | os.PathLike[str], env: Any = None, **changes: Any) -> BaseAlgorithm: ...
'''


def shown(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def type_of(row):
    only = row.get("only", [])
    if only and all(value is None or value == {} for value in only):
        return "None"
    return TYPES[row["kind"]] + (" | None" if row.get("or_none") else "")


def constructor(name):
    rows = rows_of(name)
    lines = [f"        {each}: {type_of(rows[each])} = {shown(value)}," for each, value in CLASSES[name]["arguments"].items()]
    named = [f"        {each}: {type_of(rows[each])} = {shown(value)}," for each, value in CLASSES[name].get("keywords", {}).items()]
    own = "        settings: Settings | None = None,"
    head = ["    def __init__(", "        self,", "        policy: Any,", "        env: Any,"]
    return "\n".join([*head, *lines, "        *,", *named, own, "    ) -> None: ..."])


def written():
    text = HEAD
    for name in CLASSES:
        cls = getattr(algorithms, name)
        doc = textwrap.indent(f'"""{cls.__doc__}\n"""', "    ", lambda line: bool(line.strip()))
        rows = rows_of(name)
        # The type of an inherited attribute is the same.
        own = (each for each in rows if isinstance(vars(cls).get(each), Argument) and not hasattr(cls.__base__, each))
        attributes = "\n".join(f"    {each}: {type_of(rows[each])}" for each in own)
        masks = "\n    takes_masks: bool" if "takes_masks" in vars(cls) else ""
        text += f"\nclass {name}({cls.__base__.__name__}):\n{doc}\n\n{attributes}{masks}\n\n{constructor(name)}\n"
    return text + TAIL


def test_type_checkers_and_editors_see_the_constructors_of_the_table():
    text = "\n".join(line.rstrip() for line in written().split("\n"))
    if os.environ.get("PAVLOV_WRITE"):
        STUB.write_text(text)
    assert STUB.read_text() == text, "the table has changed; PAVLOV_WRITE=1 writes the stub again"


def test_help_has_the_arguments_with_their_defaults_and_meanings():
    for name in CLASSES:
        cls = getattr(algorithms, name)
        signature = inspect.signature(cls)
        assert {each: signature.parameters[each].default for each in defaults_of(name)} == defaults_of(name)
        for each in defaults_of(name):
            assert f"  {each}: " in cls.__doc__, f"{each} of {name}"
