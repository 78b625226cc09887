"""Environments of real packages: what pavlov's command and Stable-Baselines3 make of each.

Each package is installed into a venv of its own, at the version that the list below names. Each environment is trained for 1,024
steps by the command, and then by Stable-Baselines3 on the object that `gymnasium.make` gives. Results are appended to a file of
JSON lines, so that a run which was interrupted continues; `--write` makes docs/environments-tried.md of them.

    python real_environments.py --base PYTHON --pavlov PAVLOV --results results.jsonl [--only NAME ..]
    python real_environments.py --results results.jsonl --write docs/environments-tried.md

PYTHON has gymnasium, torch and stable-baselines3 (2.9.2); its packages are seen by every venv, behind those of the venv. This is
no test: packages come from PyPI, and some take minutes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from real_environments_list import ROWS

STEPS = 1024
LIMIT_S = 300

# What Stable-Baselines3 does with an environment, on the object that Gymnasium makes.
OTHERS = """
import importlib, json, sys
import gymnasium
from gymnasium import spaces
module, name, kwargs, algorithm = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
module = importlib.import_module(module) if module else None
if name not in gymnasium.registry and hasattr(module, "register_envs"):
    module.register_envs()
made = getattr(module, name, None)
if name in gymnasium.registry or made is None:
    old = sys.modules.get("gym")
    registry = getattr(getattr(old, "envs", None), "registry", {})
    is_old = name not in gymnasium.registry and name in getattr(registry, "env_specs", registry)
    env = old.make(name, **kwargs) if is_old else gymnasium.make(name, **kwargs)
else:
    env = made(**kwargs)
import stable_baselines3
seen = env.observation_space
shape = getattr(seen, "shape", None) or ()
is_image = len(shape) == 3 and str(seen.dtype) == "uint8" and min(sorted(shape)[1:]) >= 36
policy = "CnnPolicy" if is_image else "MultiInputPolicy" if hasattr(seen, "spaces") else "MlpPolicy"
given = {"n_steps": 512, "n_epochs": 4} if algorithm == "PPO" else {}
model = getattr(stable_baselines3, algorithm)(policy, env, device="cpu", **given)
model.learn(total_timesteps=int(sys.argv[5]))
print("TRAINED", policy)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="Python with gymnasium, torch and stable-baselines3")
    parser.add_argument("--pavlov", help="the command")
    parser.add_argument("--results", type=Path, required=True, help="file of JSON lines")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of packages or ids")
    parser.add_argument("--venvs", type=Path, help="keeps the venvs here, and uses those that are there")
    parser.add_argument("--again", action="store_true", help="runs what has a result, too")
    parser.add_argument("--ours-only", action="store_true", help="keeps the other library's results")
    parser.add_argument("--write", type=Path, help="writes the page of all results, and runs nothing")
    given = parser.parse_args()
    known = read(given.results)
    if given.write:
        given.write.write_text(page(known))
        return
    for packages, environments in groups():
        chosen = [row for row in environments if is_chosen(packages, row, given, known)]
        if chosen:
            run_group(packages, chosen, given, known)


def groups():
    """The environments of equal packages, which share a venv."""
    together = {}
    for row in ROWS:
        together.setdefault(row["packages"], []).append(row)
    return together.items()


def is_chosen(packages, row, given, known):
    named = not given.only or any(part in packages or part in row["env"] for part in given.only)
    return named and (given.again or key(row) not in known)


def key(row):
    return f"{row['packages']} {row['env']} {json.dumps(row.get('set', {}), sort_keys=True)}"


def read(file):
    """The last result of each row."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {key(result["row"]): result for result in map(json.loads, lines)}


def run_group(packages, rows, given, known):
    with tempfile.TemporaryDirectory(prefix="real-environments-") as place:
        place = Path(place)
        python, failure = venv(given.venvs or place, packages, given.base)
        for row in rows:
            result = {"row": row, "versions": versions(python, packages) if failure is None else {}}
            if failure is not None:
                result["ours"] = result["others"] = {"ok": None, "why": failure, "seconds": 0.0}
            else:
                result["ours"] = ours(row, python, place, given.pavlov)
                before = known.get(key(row), {}).get("others")
                result["others"] = before if given.ours_only and before else others(row, python, place)
            with given.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            told = [f"{who}: {'trains' if result[who]['ok'] else result[who]['why']}" for who in ("ours", "others")]
            print(row["env"], "|", " | ".join(told), flush=True)


def venv(place, packages, base):
    """A venv with the packages, which sees those of `base` behind its own; or why it could not be made."""
    folder = place / (re.sub(r"\W+", "-", packages) or "none")
    python = folder / "bin" / "python"
    if (folder / "made").exists():
        return python, None
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    shown = "import sys; print([p for p in sys.path if p.endswith('site-packages')])"
    seen = eval(subprocess.run([base, "-c", shown], capture_output=True, text=True, check=True).stdout)
    (own,) = (folder / "lib").glob("python*/site-packages")
    (own / "zz_base.pth").write_text("\n".join(seen) + "\n")
    if packages:
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages.split()]
        try:
            done = subprocess.run(install, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return python, "it cannot be installed: pip was not done after 600 s"
        if done.returncode:
            return python, "it cannot be installed: " + last_line(done.stderr)
    (folder / "made").touch()
    return python, None


def versions(python, packages):
    names = [re.split(r"[=<>\[]", package)[0] for package in packages.split()] + ["gymnasium"]
    program = "import importlib.metadata as m, sys; print({n: m.version(n) for n in sys.argv[1:]})"
    done = subprocess.run([str(python), "-c", program, *names], capture_output=True, text=True)
    return eval(done.stdout) if done.returncode == 0 else {}


def ours(row, python, place, pavlov):
    settings = {"num_workers": 0, "train_batch_size": 512, "num_sgd_iter": 4} if row["algorithm"] == "PPO" else {"num_workers": 0}
    settings |= row.get("set", {})
    if row.get("kwargs"):
        settings["env_config.kwargs"] = row["kwargs"]
    command = [pavlov, "train", row["algorithm"], "--env", row["env"], "--stop", f"timesteps_total={STEPS}"]
    for name, value in settings.items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    command += ["--out", str(place / f"run-{time.time_ns()}")]
    return tried(command, place, python, lambda out: True)


def others(row, python, place):
    if row["env"].startswith("pz:"):
        return {"ok": None, "why": "it has no form for several agents", "seconds": 0.0}
    module, _, name = row["env"].partition(":")[2].rpartition(":")
    algorithm = row.get("others", row["algorithm"])
    command = [str(python), "-c", OTHERS, module, name, json.dumps(row.get("kwargs", {})), algorithm, str(STEPS)]
    return tried(command, place, python, lambda out: "TRAINED" in out)


def tried(command, place, python, is_done):
    """Whether a command trains, the reason if it does not, and the seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PAVLOV_PYTHON": str(python), "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, cwd=place, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "why": f"not done after {LIMIT_S} s", "seconds": float(LIMIT_S)}
    ok = done.returncode == 0 and is_done(done.stdout)
    said = {} if ok else {"said": (done.stdout + done.stderr)[-4000:]}
    why = "" if ok else last_line(done.stderr)
    return {"ok": ok, "why": why, "seconds": round(time.monotonic() - began, 1), **said}


def last_line(text):
    """The line of a message that says what was wrong: a Python error, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"^([\w.]*(Error|Exception|NotFound|Exit)\b|error: |ERROR: )", line)]
    line = (errors or lines or ["no message"])[-1]
    return line if len(line) <= 160 else line[:157] + "..."


def page(known):
    results = [known[key(row)] for row in ROWS if key(row) in known]
    packages = {package for result in results for package in result["row"]["packages"].split()}
    trains = {who: sum(result[who]["ok"] is True for result in results) for who in ("ours", "others")}
    rows = "\n".join(table_row(result) for result in results)
    return PAGE.format(ids=len(results), packages=len(packages), rows=rows, steps=f"{STEPS:,}", **trains)


def table_row(result):
    row = result["row"]
    cells = [row["packages"] or "gymnasium", row["env"]]
    for who in ("ours", "others"):
        one = result[who]
        cells.append("trains" if one["ok"] else "–" if one["ok"] is None else "does not")
    why = [f"{who}: {result[key]['why']}" for key, who in (("ours", "pavlov"), ("others", "Stable-Baselines3")) if result[key]["why"]]
    notes = [row["note"]] if row.get("note") else []
    cells.append("; ".join(notes + list(dict.fromkeys(why))))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PAGE = """# Environments that were tried

What do the environments of real packages do? Each of these {ids} environments from {packages} packages was trained for {steps} steps by
`pavlov train`, and by Stable-Baselines3 2.9.2 on the object that `gymnasium.make` gives. pavlov trained {ours} of them, and
Stable-Baselines3 {others}. Each package was installed from PyPI into a venv of its own. Packages without a version of Gymnasium beside
them ran with Gymnasium 1.4.0.

The page is written by [a program](../python/benches/real_environments.py), which is no part of the tests. "–" stands where nothing
could be tried: the package cannot be installed, or the library has no form for such an environment.

| package | environment | pavlov | Stable-Baselines3 | remarks |
|---|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
