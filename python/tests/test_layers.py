"""The rooms of the package: no circle of imports, none that points upwards, and none inside a function without its reason."""

import ast
from pathlib import Path

import pavlov_rl

SOURCES = Path(__file__).parent.parent / "pavlov_rl"

# Low to high. A module imports those of its own room and of rooms before it.
ROOMS = {
    "errors": ["errors"],
    "words": ["admitting", "her", "schedules", "spaces", "settings", "common.noise", "common.logger"],
    "environments": [
        "agents",
        "common.action_masks",
        "common.env_checker",
        "common.env_util",
        "common.monitor",
        "common.results_plotter",
        "common.vec_env",
        "envs",
        "natives",
        "noticing",
        "picklable",
        "shared_policy",
        "steppers",
        "training_env",
    ],
    "arguments": ["arguments", "parameters", "policy", "saved"],
    "acting": ["acting", "common.evaluation", "common.policies", "common.utils"],
    "callbacks": ["common.base_callbacks", "common.eval_callbacks", "common.callbacks"],
    "run": ["run"],
    "learning": ["learning"],
    "model": ["model", "families", "algorithms", "common.base_class"],
    "doors": ["", "__main__", "tune"],
}


def name_of(path):
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in SOURCES.rglob("*.py") if name_of(path) != "common"}


def imports(name):
    """What a module imports of the package, with the line of each, and whether it is inside a function."""
    path = FILES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(path.read_text())
    inside = {node for of in ast.walk(tree) if isinstance(of, (ast.FunctionDef, ast.Lambda)) for node in ast.walk(of)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [part for part in package[: len(package) - node.level + 1] if part]
            base += (node.module or "").split(".") if node.module else []
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                # What the package itself has is the Rust half.
                target = whole if whole in FILES or not base else ".".join(base)
                if target in FILES and target != name:
                    yield target, node.lineno, node in inside


def room_of(name):
    found = [room for room, modules in ROOMS.items() for each in modules if name == each or (each and name.startswith(f"{each}."))]
    assert len(found) == 1, f"{name} lies in the rooms {found}"
    return list(ROOMS).index(found[0])


def test_no_module_imports_one_of_a_room_above_it():
    upward = [f"{name} imports {to}" for name in FILES for to, *_ in imports(name) if room_of(to) > room_of(name)]
    assert not upward, f"move what is shared to a lower room: {upward}"


def test_no_modules_import_each_other_in_a_circle():
    edges = {name: {to for to, *_ in imports(name)} for name in FILES}
    # Whatever imports only what is gone cannot be in a circle.
    while ended := [name for name, targets in edges.items() if not targets & edges.keys()]:
        for name in ended:
            del edges[name]
    assert not edges, f"some of these import each other; move what they share below: {sorted(edges)}"


def test_an_import_inside_a_function_says_why():
    for name, path in FILES.items():
        lines = path.read_text().splitlines()
        for to, line, is_inside in imports(name):
            if is_inside:
                assert lines[line - 2].strip().startswith("#"), f"{path}:{line} imports {to} inside a function without a reason"


def test_what_is_tested_are_the_modules_of_the_package():
    assert {name for name in FILES if name.count(".") == 0} >= {"model", "learning", "arguments"}
    assert set(imports("learning")) and pavlov_rl.__name__ == SOURCES.name
