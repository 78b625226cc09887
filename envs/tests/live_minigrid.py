"""Plays this crate's MiniGrid beside the original, step by step.

    python live_minigrid.py SERVER STEPS SEED...

SERVER is the program of `envs/examples/serve.rs`. Every id is played for STEPS steps from each seed, and some with
settings and wrappers. Needs minigrid.
"""

import itertools
import json
import subprocess
import sys
import warnings

import gymnasium
import minigrid  # noqa: F401 (it registers the ids)
import numpy as np
from minigrid import wrappers

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)


class Native:
    """One environment in a process of its own."""

    def __init__(self, env_id, config):
        command = [sys.argv[1], env_id, json.dumps(config)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = json.loads(self.process.stdout.readline())

    def send(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def receive(self):
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer
        return bytes.fromhex(answer["obs"]), answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def row(obs, missions):
    """An observation as our rows have it: parts in the order of their names, missions as numbers."""
    if isinstance(obs, np.ndarray):
        return obs.astype(np.uint8).tobytes()
    # Pixels are bytes after MiniGrid's wrappers as well.
    image = np.ravel(obs["image"].astype(np.uint8))
    return np.concatenate([[obs["direction"]], image, [missions.index(obs["mission"])]]).astype(np.int64).tobytes()


def mission_texts(env):
    """All that MiniGrid can ask for, the last placeholder running fastest."""
    mission = env.unwrapped.observation_space["mission"]
    return [mission.mission_func(*words) for words in itertools.product(*mission.ordered_placeholders or [])]


def check_spaces(env, hello):
    n = hello["action_space"]["discrete"]["n"]
    assert n == env.action_space.n, (n, env.action_space)
    space, real = hello["observation_space"], env.observation_space
    if isinstance(real, gymnasium.spaces.Dict):
        parts = dict(space["dict"])
        assert parts["direction"]["discrete"]["n"] == real["direction"].n
        assert parts["mission"]["discrete"]["n"] == len(hello["missions"])
        assert hello["missions"] == mission_texts(env), hello["missions"]
        space, real = parts["image"], real["image"]
    box = space["box"]
    assert tuple(box["shape"]) == real.shape and box["dtype"] == str(real.dtype).replace("uint", "u"), (box, real)


def choose(env, rng):
    """Often what helps: most tasks are done now and then."""
    if env.action_space.n == 3:
        return int(rng.choice(3, p=[0.2, 0.2, 0.6]))
    world = env.unwrapped
    ahead = world.grid.get(*world.front_pos)
    kind = None if ahead is None else ahead.type
    draw = rng.random()
    if draw < 0.5:
        if kind in ("key", "ball") or (kind == "box" and draw < 0.25):
            return PICKUP if world.carrying is None else DROP
        if kind in ("door", "box") and not (kind == "door" and ahead.is_open):
            return TOGGLE
        if kind == "goal":
            return FORWARD
    if kind == "lava" and draw < 0.95:
        return int(rng.choice([LEFT, RIGHT]))
    return int(rng.choice(7, p=[0.15, 0.15, 0.54, 0.05, 0.04, 0.06, 0.01]))


def play(env_id, config, wrap, steps, seeds):
    """Random play, whose later episodes continue the stream of the first; how many successes there were."""
    names = [name for name, _ in wrap]
    native = Native(env_id, config | {"wrappers": names} if names else config)
    env = gymnasium.make(env_id, disable_env_checker=True, **config)
    for name, wrapper in wrap:
        env = wrapper(env)
    check_spaces(env, native.hello)
    missions, successes = native.hello["missions"], 0
    for seed in seeds:
        rng = np.random.default_rng(seed + 1)
        native.send(reset=seed)
        obs, _ = env.reset(seed=seed)
        found, _ = native.receive()
        assert found == row(obs, missions), f"seed {seed}, the first observation"
        for step in range(steps):
            action = choose(env, rng)
            native.send(step=[action])
            obs, reward, terminated, truncated, _ = env.step(action)
            found, answer = native.receive()
            where = f"seed {seed}, step {step}, action {action}"
            assert found == row(obs, missions), f"{where}: other observation, {obs}"
            assert bytes.fromhex(answer["reward"]) == np.float64(reward).tobytes(), f"{where}: reward {reward}"
            flags = answer["terminated"], answer["truncated"]
            assert flags == (terminated, truncated), f"{where}: {flags}, not {terminated, truncated}"
            successes += reward > 0
            if terminated or truncated:
                native.send(reset=None)
                obs, _ = env.reset()
                found, _ = native.receive()
                assert found == row(obs, missions), f"{where}: the first observation of the next episode"
    native.close()
    env.close()
    return successes


FULLY = ("FullyObsWrapper", wrappers.FullyObsWrapper)
ONE_HOT = ("OneHotPartialObsWrapper", wrappers.OneHotPartialObsWrapper)
IMAGE = ("ImgObsWrapper", wrappers.ImgObsWrapper)


def pixels(name, tile_size):
    return f"{name}({tile_size})", lambda env: getattr(wrappers, name)(env, tile_size)


PARTIAL_PIXELS = pixels("RGBImgPartialObsWrapper", 8)
FULL_PIXELS = pixels("RGBImgObsWrapper", 8)

def ids():
    """Every id but those of wave function collapse, which are not among ours."""
    found = [env_id for env_id in gymnasium.registry if env_id.startswith("MiniGrid-") and "-WFC-" not in env_id]
    assert len(found) == 76, len(found)
    return found


SETTINGS = [
    ("MiniGrid-Empty-8x8-v0", {"size": 7, "agent_start_pos": (3, 4), "agent_start_dir": 2, "max_steps": 20}),
    ("MiniGrid-DoorKey-8x8-v0", {"see_through_walls": True, "agent_view_size": 5}),
    ("MiniGrid-FourRooms-v0", {"agent_pos": (3, 3), "goal_pos": (12, 15), "max_steps": 50, "agent_view_size": 11}),
    ("MiniGrid-FourRooms-v0", {"goal_pos": (4, 2)}),
    ("MiniGrid-KeyCorridorS3R1-v0", {"obj_type": "key", "max_steps": 2000, "agent_view_size": 3}),
    ("MiniGrid-KeyCorridorS4R3-v0", {"obj_type": "box", "num_rows": 2}),
    ("MiniGrid-MultiRoom-N6-v0", {"minNumRooms": 2, "maxNumRooms": 5, "width": 15, "height": 20, "maxRoomSize": 6}),
    ("MiniGrid-Dynamic-Obstacles-8x8-v0", {"size": 6, "n_obstacles": 30}),
    ("MiniGrid-LavaCrossingS9N1-v0", {"size": 13, "num_crossings": 4, "obstacle_type": "wall"}),
    ("MiniGrid-MemoryS13-v0", {"size": 9, "random_length": True}),
    ("MiniGrid-ObstructedMaze-Full-v1", {"agent_room": (0, 2), "num_quarters": 3, "num_rooms_visited": 1}),
    ("MiniGrid-PutNear-8x8-N3-v0", {"size": 10, "numObjs": 5, "max_steps": 200}),
    ("MiniGrid-Fetch-8x8-N3-v0", {"size": 6, "numObjs": 9}),
    ("MiniGrid-GoToObject-8x8-N2-v0", {"numObjs": 7}),
    ("MiniGrid-DistShift1-v0", {"width": 11, "height": 9, "strip2_row": 6, "agent_start_pos": (2, 5)}),
    ("MiniGrid-LockedRoom-v0", {"size": 22, "max_steps": 400}),
    ("MiniGrid-RedBlueDoors-6x6-v0", {"size": 5}),
]

WRAPPED = [
    ("MiniGrid-DoorKey-6x6-v0", {}, [FULLY]),
    ("MiniGrid-RedBlueDoors-8x8-v0", {}, [FULLY, IMAGE]),
    ("MiniGrid-KeyCorridorS3R2-v0", {}, [IMAGE]),
    ("MiniGrid-UnlockPickup-v0", {}, [ONE_HOT]),
    ("MiniGrid-BlockedUnlockPickup-v0", {"agent_view_size": 9}, [ONE_HOT, IMAGE]),
    ("MiniGrid-Playground-v0", {}, [PARTIAL_PIXELS]),
    ("MiniGrid-LavaCrossingS9N2-v0", {}, [PARTIAL_PIXELS, IMAGE]),
    ("MiniGrid-ObstructedMaze-1Dlhb-v0", {"max_steps": 90}, [PARTIAL_PIXELS, IMAGE]),
    ("MiniGrid-MultiRoom-N2-S4-v0", {"highlight": False}, [FULL_PIXELS, IMAGE]),
    ("MiniGrid-LockedRoom-v0", {}, [FULL_PIXELS, IMAGE]),
    ("MiniGrid-RedBlueDoors-6x6-v0", {"agent_view_size": 5}, [FULL_PIXELS]),
    # As `render` draws it.
    ("MiniGrid-LavaGapS6-v0", {}, [pixels("RGBImgObsWrapper", 32), IMAGE]),
    ("MiniGrid-DoorKey-5x5-v0", {}, [pixels("RGBImgObsWrapper", 32), IMAGE]),
    ("MiniGrid-Fetch-5x5-N2-v0", {}, [pixels("RGBImgPartialObsWrapper", 5), IMAGE]),
]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    steps, seeds = int(sys.argv[2]), [int(seed) for seed in sys.argv[3:]]
    games = [(env_id, {}, [], steps) for env_id in ids()]
    games += [(env_id, config, [], steps) for env_id, config in SETTINGS]
    # Pictures are large.
    games += [(env_id, config, wrap, min(steps, 150)) for env_id, config, wrap in WRAPPED]
    without = []
    for env_id, config, wrap, steps in games:
        try:
            successes = play(env_id, config, wrap, steps, seeds)
        except Exception as error:
            raise AssertionError(f"{env_id} {config} {[name for name, _ in wrap]}") from error
        if successes == 0:
            without.append(env_id)
    print(f"{len(games)} games of {len(seeds)} seeds; no success in {len(without)}: {' '.join(without)}")
    print("all equal")
