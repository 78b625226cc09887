"""Records what MiniGrid does, for the tests of this crate.

    python record_minigrid.py [directory]

Needs minigrid. A row is an episode and those after it: its actions, and after every twenty of them a number that all
observations, rewards and flags so far went into. Rows of pictures have such a number of their pixels.
"""

import json
import pathlib
import struct
import sys
import warnings

import gymnasium
import minigrid
import numpy as np
from live_minigrid import choose, ids, mission_texts, row
from minigrid import wrappers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")
STEPS = 100


def mixed(digest, values):
    for value in values:
        digest = (31 * digest + int(value)) % 2**64
    return digest


def episodes(env_id, seed):
    env = gymnasium.make(env_id, disable_env_checker=True)
    missions = mission_texts(env)
    rng = np.random.default_rng(seed + 1)

    def started(digest, seed):
        obs, _ = env.reset(seed=seed)
        return mixed(digest, np.frombuffer(row(obs, missions), np.int64)), obs

    digest, obs = started(0, seed)
    recorded = {"id": env_id, "seed": seed, "mission": obs["mission"], "actions": "", "digests": []}
    for step in range(STEPS):
        action = choose(env, rng)
        obs, reward, terminated, truncated, _ = env.step(action)
        (bits,) = struct.unpack("<Q", np.float64(reward).tobytes())
        digest = mixed(digest, np.frombuffer(row(obs, missions), np.int64))
        digest = mixed(digest, [bits, terminated, truncated])
        recorded["actions"] += str(action)
        if terminated or truncated:
            digest, _ = started(digest, None)
        if step % 20 == 19:
            recorded["digests"].append(f"{digest:x}")
    return recorded


def pictures(env_id):
    """Views of eight pixels a field, and the whole grid of 32, after a few steps."""
    env = gymnasium.make(env_id, disable_env_checker=True)
    partial = wrappers.RGBImgPartialObsWrapper(env, tile_size=8)
    full = wrappers.RGBImgObsWrapper(env, tile_size=32)
    recorded = {"pictures": env_id, "actions": "1221", "views": [], "grids": []}
    obs, _ = env.reset(seed=4)
    for action in [None, *map(int, recorded["actions"])]:
        if action is not None:
            obs, *_ = env.step(action)
        for name, wrapper in [("views", partial), ("grids", full)]:
            image = wrapper.observation(obs)["image"].astype(np.uint8)
            recorded[name].append(f"{mixed(0, np.ravel(image)):x}")
    return recorded


def shuffles():
    rng = np.random.default_rng(5)
    lists = [list(range(n)) for n in (2, 3, 9, 40)]
    for numbers in lists:
        rng.shuffle(numbers)
    return {"shuffles": lists}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    with open(OUT / "minigrid.jsonl", "w") as file:
        header = {"minigrid": minigrid.__version__, "gymnasium": gymnasium.__version__, "numpy": np.__version__}
        rows = [header, shuffles()]
        rows += [episodes(env_id, seed) for env_id in ids() for seed in (0, 1, 2**40 + 3)]
        shown = ["DoorKey-6x6", "LavaGapS6", "Playground", "ObstructedMaze-1Dlhb", "RedBlueDoors-6x6", "Fetch-5x5-N2"]
        rows += [pictures(f"MiniGrid-{name}-v0") for name in shown]
        for recorded in rows:
            file.write(json.dumps(recorded, separators=(",", ":")) + "\n")
