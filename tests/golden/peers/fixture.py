"""What the generators in this folder share: the form of the fixtures that `peers.rs` reads."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
OBS = 3
ROWS = 16


def numbers(x):
    """Flat numbers as the shortest text that reads back to the same float32."""
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return [int(v) for v in x.ravel()]
    return [float(str(np.float32(v))) for v in x.ravel()]


def array(x):
    x = x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    return {"shape": list(x.shape), "data": numbers(x)}


def layers(names, modules):
    """The weights of linear layers, or of all of them within a module, by the names that they have here."""
    found = [m for module in modules for m in module.modules() if isinstance(m, torch.nn.Linear)]
    assert len(found) == len(names)
    return {f"{n}.{k}": array(getattr(m, k)) for n, m in zip(names, found) for k in ("weight", "bias")}


def move(modules, size, seed=11):
    """Moves all weights: biases may be 0 in a fresh network, and a small output layer hides mistakes before it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in (p for module in modules for p in module.parameters()):
            p.add_(torch.randn(p.shape, generator=generator) * size)


def commit(checkout):
    """The commit of a checkout of a repository, in short."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def case(library, algorithm, argument, trainer, base, settings, spaces, before, steps, after, losses, differs=None):
    """A case; `before` and `after` are the weights of the network and of its target copy."""
    found = {
        "library": library,
        "algorithm": algorithm,
        "argument": argument,
        "trainer": trainer,
        "base": base,
        "settings": settings,
        **spaces,
        "before": before[0],
        "target": before[1],
        "steps": steps,
        "after": after[0],
        "target_after": after[1],
        "losses": {name: float(value) for name, value in losses.items()},
        "equal": differs is None,
    }
    return found if differs is None else {**found, "expected_difference": differs}


def step(rows, update_target=False, timestep=0):
    """One call of `learn_on_batch`; without rows, with those of the step before."""
    columns = "same" if rows is None else {name: array(x) for name, x in rows.items()}
    return {"rows": columns, "update_target": update_target, "timestep": timestep}


def write(folder, name, cases):
    """Writes the cases of a file; weights that are those of the first case are left out."""
    first = cases[0]
    for other in cases[1:]:
        for key in ("before", "target"):
            if first[key] and other[key] == first[key]:
                other[key] = "first"
    path = HERE / folder / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(cases, separators=(",", ":"))
    path.write_text(text.replace("},{\"library", "},\n{\"library") + "\n")
    print(f"{folder}/{path.name}: {len(cases)} cases, {path.stat().st_size} bytes", file=sys.stderr)
