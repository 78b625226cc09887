"""Records what Gymnasium's wrappers and spaces do, for the tests of this crate.

    python record_wrappers.py [directory]

Needs gymnasium==1.4.0, numpy==2.3.5 and opencv-python-headless==5.0.0.93. Floats are written as the hex digits of their
bits. Beside what a wrapper gave stands what went into it, so that the tests need no environment of their own.
"""

import json
import pathlib
import struct
import sys

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces, wrappers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")


def f64(values):
    return "".join(struct.pack(">d", v).hex() for v in np.ravel(values))


def f32(values):
    return "".join(struct.pack(">f", v).hex() for v in np.ravel(values))


def write(name, rows):
    header = {"gymnasium": gymnasium.__version__, "numpy": np.__version__, "cv2": cv2.__version__}
    with open(OUT / name, "w") as file:
        for row in [header, *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


class Recorder(gymnasium.Wrapper):
    """Remembers what the environment was given and gave."""

    def __init__(self, env):
        super().__init__(env)
        self.obs, self.rewards, self.actions = [], [], []

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        self.obs.append(np.copy(obs))
        return obs, info

    def step(self, action):
        self.actions.append(np.copy(action))
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.obs.append(np.copy(obs))
        self.rewards.append(float(reward))
        return obs, reward, terminated, truncated, info


def make(env_id, limit):
    return Recorder(gymnasium.make(env_id, max_episode_steps=limit))


def episodes(wrapper, env_id, limit, wrap, count=3, **more):
    """Whole episodes of random play: inner and outer observations and rewards."""
    inner = make(env_id, limit)
    env = wrap(inner)
    rng = np.random.default_rng(7)
    row = {"wrapper": wrapper, **more, "episodes": []}
    for seed in range(count):
        inner.obs, inner.rewards, inner.actions = [], [], []
        outer, rewards, actions = [np.copy(env.reset(seed=seed)[0])], [], []
        ended = False
        while not ended:
            space = env.action_space
            discrete = isinstance(space, spaces.Discrete)
            action = int(rng.integers(space.n)) if discrete else rng.uniform(-3, 3, space.shape).astype(np.float32)
            if wrapper == "RescaleAction":
                action = np.clip(action, space.low, space.high)
            obs, reward, terminated, truncated, info = env.step(action)
            outer.append(np.copy(obs))
            rewards.append(float(reward))
            actions.append(action)
            ended = terminated or truncated
        episode = {
            "obs": f32(inner.obs),
            "rewards": f64(inner.rewards),
            "terminated": bool(terminated),
            "outer_obs": f32(outer),
            "outer_rewards": f64(rewards),
        }
        if not discrete:
            episode |= {"actions": f32(inner.actions), "outer_actions": f32(actions)}
        if "episode" in info:
            episode |= {"r": f64(info["episode"]["r"]), "l": int(info["episode"]["l"])}
        row["episodes"].append(episode)
    return row


def vector(wrapper, env_id, limit, copies, steps, wrap, mode, **more):
    """Steps of several copies; the last observations of ended episodes stand beside."""
    env = wrap(gymnasium.make_vec(
        env_id, copies, "sync", vector_kwargs={"autoreset_mode": mode}, max_episode_steps=limit
    ))
    raw = gymnasium.make_vec(env_id, copies, "sync", vector_kwargs={"autoreset_mode": mode}, max_episode_steps=limit)
    rng = np.random.default_rng(8)
    row = {"wrapper": wrapper, **more, "obs": [f32(raw.reset(seed=3)[0])], "outer_obs": [f32(env.reset(seed=3)[0])]}
    row |= {"rewards": [], "outer_rewards": [], "terminated": [], "truncated": []}
    for _ in range(steps):
        space = env.single_action_space
        if isinstance(space, spaces.Discrete):
            actions = rng.integers(space.n, size=copies)
        else:
            actions = rng.uniform(-2, 2, (copies, *space.shape)).astype(np.float32)
        obs, rewards, terminated, truncated, _ = raw.step(actions)
        outer, outer_rewards, *_ = env.step(actions)
        row["obs"].append(f32(obs))
        row["outer_obs"].append(f32(outer))
        row["rewards"].append(f64(rewards))
        row["outer_rewards"].append(f64(outer_rewards))
        row["terminated"].append(terminated.tolist())
        row["truncated"].append(truncated.tolist())
    if wrapper == "NormalizeReward":
        del row["obs"], row["outer_obs"]
    return row


def wrapped():
    same, later = gymnasium.vector.AutoresetMode.SAME_STEP, gymnasium.vector.AutoresetMode.NEXT_STEP
    yield episodes("ClipReward", "Pendulum-v1", 12, lambda env: wrappers.ClipReward(env, -5.0, -1.0))
    yield episodes("TransformReward", "Pendulum-v1", 12, lambda env: wrappers.TransformReward(env, lambda r: 0.5 * r + 1.0))
    double = lambda obs: np.float32(2.0) * obs + np.float32(1.0)
    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    yield episodes("TransformObservation", "Pendulum-v1", 12, lambda env: wrappers.TransformObservation(env, double, space))
    yield episodes("FlattenObservation", "CliffWalking-v1", 12, wrappers.FlattenObservation)
    for padding in ["reset", "zero", "custom"]:
        given = np.array([1, -1, 0, 2], np.float32) if padding == "custom" else padding
        stack = lambda env: wrappers.FrameStackObservation(env, 3, padding_type=given)
        yield episodes("FrameStack", "CartPole-v1", 12, stack, padding=padding)
    yield episodes("RecordEpisodeStatistics", "CartPole-v1", 500, wrappers.RecordEpisodeStatistics)
    yield episodes("TimeLimit", "Pendulum-v1", None, lambda env: wrappers.TimeLimit(env, 9))
    yield episodes("ClipAction", "Pendulum-v1", 12, wrappers.ClipAction)
    yield episodes("RescaleAction", "Pendulum-v1", 12, lambda env: wrappers.RescaleAction(env, -1.0, 0.7))
    yield episodes("NormalizeObservation", "Pendulum-v1", 12, wrappers.NormalizeObservation, 4)
    yield episodes("NormalizeObservation", "CartPole-v1", 500, wrappers.NormalizeObservation, 4)
    yield vector("VectorNormalizeObservation", "Pendulum-v1", 200, 5, 30, wrappers.vector.NormalizeObservation, later)
    # Both kinds of ends: the pole falls or 14 steps are over.
    for env_id, limit in [("CartPole-v1", 14), ("Pendulum-v1", 11)]:
        yield vector("NormalizeReward", env_id, limit, 3, 50, wrappers.vector.NormalizeReward, same)


class Pictures(gymnasium.Env):
    """A game of arithmetic pictures, with what AtariPreprocessing asks of the Arcade Learning Environment."""

    _frameskip = 1
    action_space = spaces.Discrete(3)

    def __init__(self, height, width):
        self.size = (height, width)
        self.observation_space = spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.ale = self

    def get_action_meanings(self):
        return ["NOOP", "LEFT", "RIGHT"]

    def lives(self):
        return 3 - self.t // 13

    def picture(self):
        y, x, c = np.ogrid[: self.size[0], : self.size[1], :3]
        return ((self.seed * 37 + self.t * 61 + self.moved * 11 + y * y * 3 + x * x * 5 + x * y * 7 + c * 83) % 256).astype(np.uint8)

    def getScreenRGB(self, out):
        out[:] = self.picture()

    def getScreenGrayscale(self, out):
        out[:] = np.floor(self.picture() @ np.array([0.2989, 0.587, 0.114]) + 0.5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.t, self.moved = seed, 0, 0
        return self.picture(), {}

    def step(self, action):
        self.t += 1
        self.moved += int(action)
        return self.picture(), self.t % 3 - 0.5, self.t >= 36, False, {}


def atari():
    for (height, width), config in [
        ((30, 24), {"screen_size": 12}),
        ((30, 24), {"screen_size": 12, "scale_obs": True}),
        ((31, 23), {"screen_size": 9, "grayscale_obs": False, "frame_skip": 3}),
        ((30, 20), {"screen_size": 10, "terminal_on_life_loss": True}),
        ((24, 24), {"screen_size": 12, "frame_skip": 1, "noop_max": 0}),
        ((16, 16), {"screen_size": 16, "noop_max": 40}),
    ]:
        env = wrappers.AtariPreprocessing(Pictures(height, width), **config)
        row = {"height": height, "width": width, "config": config, "episodes": []}
        for seed in [5, 6]:
            obs, _ = env.reset(seed=seed)
            show = lambda obs: f32(obs) if obs.dtype == np.float32 else obs.tobytes().hex()
            episode = {"seed": seed, "obs": [show(obs)], "rewards": [], "terminated": []}
            for action in [0, 1, 2, 2, 1, 1, 0, 2]:
                obs, reward, terminated, _, _ = env.step(action)
                episode["obs"].append(show(obs))
                episode["rewards"].append(reward)
                episode["terminated"].append(bool(terminated))
                if terminated:
                    break
            row["episodes"].append(episode)
        yield row


def parts(space, sample):
    """The scalars of a sample, part after part."""
    if isinstance(space, spaces.Dict):
        return [x for name, part in space.items() for x in parts(part, sample[name])]
    if isinstance(space, spaces.Tuple):
        return [x for part, value in zip(space, sample) for x in parts(part, value)]
    return np.ravel(sample).astype(float).tolist()


def composites():
    inf = np.inf
    half = spaces.Box(np.array([0.1, -inf, -inf, -1], np.float32), np.array([inf, 0.7, inf, 1], np.float32))
    gear, lamps = spaces.Discrete(3, start=1), spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])])
    for name, space in [
        ("half", half),
        ("doubles", spaces.Box(-0.3, 0.1, (2,), np.float64)),
        ("integers", spaces.Box(-5, 90, (3,), np.int64)),
        ("tuple", spaces.Tuple([half, spaces.Discrete(4)])),
        ("nested", spaces.Dict({"speed": spaces.Box(-1.0, 1.0, (2,)), "gear": gear, "lamps": lamps})),
    ]:
        space.seed(11)
        row = {"space": name, "samples": [], "flat": []}
        # Many samples: one exponential draw in ninety leaves the quick path.
        for i in range(400 if name == "half" else 6):
            sample = space.sample()
            row["samples"].append(f64(parts(space, sample)))
            if i < 6:
                row["flat"].append(f32(spaces.flatten(space, sample)))
        flat = spaces.flatten_space(space)
        yield row | {"low": f64(flat.low), "high": f64(flat.high)}


write("wrappers.jsonl", wrapped())
write("atari_preprocessing.jsonl", atari())
write("composites.jsonl", composites())
