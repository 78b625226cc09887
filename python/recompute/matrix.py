"""`python -m recompute.matrix [--few] [WORD ...]` trains every cell of the matrix with pavlov and recomputes it."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .cells import FEW, cells
from .referee import TOLERANCE, check

COLUMNS = ["loss", "gradient norm", "weights", "targets", "target copy", "td errors"]


def train(command, algorithm, env, settings, out):
    """Trains a cell in the folder `out`; returns the error's text, or None."""
    arguments = [command, "train", algorithm, "--env", env, "--out", str(out), "--stop", "training_iteration=2",
                 "--checkpoint-at-end", "false"]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={json.dumps(value)}"]
    here = Path(__file__).resolve().parents[1]
    variables = os.environ | {"PAVLOV_PYTHON": sys.executable, "JAX_PLATFORMS": "cpu",
                              "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(arguments, capture_output=True, text=True, env=variables, timeout=300, check=False)
    return None if ran.returncode == 0 else ran.stderr.strip()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("words", nargs="*", help="only cells whose names contain one of these words")
    options.add_argument("--few", action="store_true", help="one cell of each kind")
    options.add_argument("--pavlov", default="target/debug/pavlov", help="the command to test")
    options.add_argument("--keep", help="folder for the runs; default: a temporary one")
    given = options.parse_args()
    chosen = {name: cell for name, cell in cells().items()
              if (not given.few or name in FEW) and (not given.words or any(w in name for w in given.words))}
    agree, updates, left_out = 0, 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        for i, (name, (algorithm, env, settings)) in enumerate(chosen.items()):
            out = Path(given.keep or temporary) / f"{i:03}"
            failed = train(given.pavlov, algorithm, env, settings, out)
            if failed:
                print(f"{name:34} DOES NOT RUN: {failed}", flush=True)
                continue
            results = check(out)
            updates += len(results)
            worst = {c: max((r.differences[c] for r in results if c in r.differences), default=None) for c in COLUMNS}
            reasons = sorted({reason for r in results for reason in r.left_out})
            compared = [r for r in results if r.differences]
            right = bool(compared) and all(r.agrees for r in compared)
            agree += right
            left_out += not compared
            cells_text = "  ".join(f"{c} {d:.0e}" for c, d in worst.items() if d is not None)
            verdict = "agrees" if right else "DIFFERS" if compared else "-"
            reason = f"  not recomputed: {', '.join(reasons)}" if reasons else ""
            print(f"{name:34} {verdict:8} {len(results)} updates  {cells_text}{reason}", flush=True)
    print(f"{agree} of {len(chosen)} cells agree to {TOLERANCE:.0e} ({left_out} not recomputed), {updates} updates")
    sys.exit(0 if agree + left_out == len(chosen) else 1)


main()
