"""Runs Gymnasium's, EnvPool's and PettingZoo's environments for `compare.rs`: `LIBRARY ID COPIES SECONDS` in, steps/s out.

The library `raw` is MuJoCo's `mj_step` without any environment.

Seconds are processor time of all threads.
"""

import atexit
import functools
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import envpool
import gymnasium
import minigrid  # noqa: F401 (it registers its ids)
import numpy as np
from minigrid.wrappers import ImgObsWrapper

ROWS = 64
# EnvPool's newest Taxi is the one before.
ENVPOOL_IDS = {"Taxi-v4": "Taxi-v3"}


# Steps after which random play falls: a raw simulation begins anew there, as the environment would.
FALLS = {"Hopper": 22, "Walker2d": 20, "Humanoid": 22, "Ant": 150, "InvertedPendulum": 5, "InvertedDoublePendulum": 6}


@functools.cache
def raw_program():
    """mj_step.c, compiled against the headers and the library of `mujoco`."""
    import mujoco

    package = pathlib.Path(mujoco.__file__).parent
    source = pathlib.Path(__file__).with_name("mj_step.c")
    program = pathlib.Path(tempfile.mkdtemp(), "mj_step")
    atexit.register(shutil.rmtree, program.parent)
    options = ["-O2", f"-I{package / 'include'}", f"-Wl,-rpath,{package}"]
    subprocess.run(["cc", *options, source, "-o", program, next(package.glob("libmujoco.so*"))], check=True)
    return program


def raw_rate(env_id, seconds):
    """Steps per second of `mj_step` alone, in a program in C: in a Python process it takes longer."""
    env = make_one(env_id)
    length = min(FALLS.get(env_id.split("-")[0], 1000), gymnasium.spec(env_id).max_episode_steps)
    arguments = [env.fullpath, str(env.frame_skip), str(length), str(seconds)]
    return float(subprocess.check_output([raw_program(), *arguments]))


@functools.cache
def make_one(env_id):
    return gymnasium.make(env_id).unwrapped


@functools.cache
def make(library, env_id, copies):
    """The vector and rows of actions."""
    if library == "envpool":
        env = envpool.make_gymnasium(ENVPOOL_IDS.get(env_id, env_id), num_envs=copies, num_threads=1, seed=0)
        space = env.action_space
    else:
        # Its own vector environment where there is one.
        spec = gymnasium.spec(env_id)
        mode = "vector_entry_point" if spec.vector_entry_point else "sync"
        # Texts are no arrays.
        wrappers = [ImgObsWrapper] if env_id.startswith("MiniGrid-") else []
        env = gymnasium.make_vec(env_id, num_envs=copies, vectorization_mode=mode, wrappers=wrappers)
        space = env.single_action_space
    rng = np.random.default_rng(1)
    if isinstance(space, gymnasium.spaces.Box):
        actions = rng.uniform(space.low, space.high, (ROWS, copies, *space.shape)).astype(np.float32)
    else:
        actions = rng.integers(0, space.n, (ROWS, copies), dtype=np.int32 if library == "envpool" else np.int64)
    env.reset()
    return env, actions


@functools.cache
def make_of_several(env_id):
    """A parallel environment of mpe2, or a game, as PettingZoo makes them."""
    package = "mpe2" if env_id.startswith("simple") else "pettingzoo.classic"
    module = importlib.import_module(f"{package}.{env_id}")
    return module.parallel_env() if package == "mpe2" else module.env()


def play_at_once(env, rng):
    """Steps of one episode."""
    env.reset()
    steps = 0
    while env.agents:
        env.step({agent: rng.integers(env.action_space(agent).n) for agent in env.agents})
        steps += 1
    return steps


def play_in_turn(env, rng, most=200):
    """Steps of one game, which is cut after `most` moves."""
    env.reset()
    for step in range(most):
        obs, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            return step
        env.step(int(rng.choice(np.flatnonzero(obs["action_mask"]))))
    return most


def rate_of_several(env_id, seconds):
    env, rng = make_of_several(env_id), np.random.default_rng(1)
    play = play_at_once if hasattr(env, "aec_env") else play_in_turn
    start, steps = time.process_time(), 0
    while (elapsed := time.process_time() - start) < seconds:
        steps += play(env, rng)
    return steps / elapsed


def rate(library, env_id, copies, seconds):
    if library == "pettingzoo":
        return rate_of_several(env_id, seconds)
    env, actions = make(library, env_id, copies)
    env.step(actions[0])
    start, steps, row = time.process_time(), 0, 0
    while (elapsed := time.process_time() - start) < seconds:
        env.step(actions[row])
        row = (row + 1) % ROWS
        steps += copies
    return steps / elapsed


if __name__ == "__main__":
    # What the libraries print must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    print(f"gymnasium {gymnasium.__version__}, envpool {envpool.__version__}, numpy {np.__version__}", file=out)
    for line in sys.stdin:
        library, env_id, copies, seconds = line.split()
        raw = library == "raw"
        found = raw_rate(env_id, float(seconds)) if raw else rate(library, env_id, int(copies), float(seconds))
        print(found, file=out)
