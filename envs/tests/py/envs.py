"""Environments for the tests of the bridge."""

import ctypes
import os
import signal
import sys
import threading
import time
import warnings

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

class Undecodable:
    def __hash__(self):
        raise ValueError("\udc80")


FAULTS = {
    "raise": lambda: {}["no such key"],
    "sys_exit": lambda: sys.exit(3),
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(3600),
    "undecodable": lambda: {}.__getitem__(Undecodable()),
    "old_seed": lambda: np.random.seed(1 << 40),
}


class Fault(gymnasium.Env):
    """Counts steps; copies whose seed is `seed` do `fault` in `make`, in `reset`, or at a step."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, fault=None, at=0, seed=None):
        self.fault, self.at, self.bad_seed = fault, at, seed
        if at == "make":
            FAULTS[fault]()

    def reset(self, *, seed=None, options=None):
        self.seed, self.count = seed, 0
        self.maybe("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        self.maybe(self.count)
        return np.array([self.count], np.float32), 1.0, self.count == 5, False, {}

    def maybe(self, at):
        if at == self.at and self.seed == self.bad_seed:
            FAULTS[self.fault]()


class Closes(Fault):
    """Raises when it is closed."""

    def close(self):
        raise RuntimeError("closed too often")


class Slow(Fault):
    """A step takes a fifth of a second."""

    def step(self, action):
        time.sleep(0.2)
        return super().step(action)


class Noise(Fault):
    """Writes to stdout and reads from stdin wherever it can."""

    def __init__(self):
        super().__init__()
        print("made", flush=True)

    def step(self, action):
        os.write(1, b"{.\n")
        sys.stdin.read()
        return super().step(action)


class Parent(Fault):
    """Has a process of its own, whose number it shows."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        child = os.fork()
        if child == 0:
            time.sleep(3600)
            os._exit(0)
        self.count = 0
        return np.array([child], np.float64), {}

    def step(self, action):
        os._exit(7)


class Cores(Fault):
    """Tells on how many cores a thread may run that starts in a step; action 1 fails."""

    def step(self, action):
        if action == 1:
            raise ValueError("failed as asked")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(len(os.sched_getaffinity(0))))
        thread.start()
        thread.join()
        observation, *rest, _ = super().step(action)
        return observation, *rest, {"cores": seen[0]}


class Parts(gymnasium.Env):
    """Composite spaces; the observation after a step is the action, part by part."""

    action_space = spaces.Dict(
        {
            "turn": spaces.MultiDiscrete([3, 4], start=[1, -1]),
            "gears": spaces.Tuple((spaces.Discrete(4, start=-2), spaces.MultiBinary(3))),
            "arm": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
        }
    )
    observation_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.shown(self.np_random.integers(0, 2, 3).astype(np.int8)), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return action, 0.5, False, False, {}

    def shown(self, bits):
        arm = np.arange(4, dtype=np.float32).reshape(2, 2) / 4
        return {"turn": np.array([3, 2]), "gears": (-2, bits), "arm": arm}


class Pixels(gymnasium.Env):
    """A picture of bytes."""

    observation_space = spaces.Box(0, 255, (2, 3, 3), np.uint8)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        self.last = seed or 0
        return self.frame(), {}

    def step(self, action):
        self.last = int(action[0] * 100)
        return self.frame(), float(action[1]), False, False, {}

    def frame(self):
        return np.arange(18, dtype=np.uint8).reshape(2, 3, 3) + np.uint8(self.last)

    def render(self):
        return self.frame()


class Masked(gymnasium.Env):
    """One of three actions is illegal; tells numbers in `info`. Episodes have two steps, from seed 100 on three."""

    observation_space = spaces.Discrete(10, start=5)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.start, self.count = seed or 0, 0
        return 5, self.info()

    def step(self, action):
        self.count += 1
        return 5 + self.count, 0.0, False, self.count == 2 + (self.start >= 100), self.info()

    def info(self):
        mask = np.ones(3, np.int8)
        mask[(self.start + self.count) % 3] = 0
        info = {"action_mask": mask, "count": self.count, "deep": {"start": self.start}, "word": f"step {self.count}"}
        return info if self.count else {"action_mask": mask, "word": "begin", "bad": {"nan": float("nan"), "class": int}}


class Strict(Masked):
    """Raises on illegal actions."""

    def step(self, action):
        if not self.info()["action_mask"][action]:
            raise ValueError(f"illegal action {action}")
        return super().step(action)


class Sb3Masked(gymnasium.Env):
    """Has the method of sb3-contrib: in each of two choices the first option is illegal, after a step the last one."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(1, np.float32), 0.0, self.count == 2, False, {}

    def action_masks(self):
        masks = np.ones(5, bool)
        masks[[0, 2] if self.count == 0 else [1, 4]] = False
        return masks


class Spaceless(Fault):
    """Forgot a space."""

    action_space = None


class Talker(Fault):
    """Takes texts, and fails when it is stepped."""

    action_space = spaces.Text(5)


class ShortMask(Masked):
    def info(self):
        return {"action_mask": super().info()["action_mask"][: 3 - self.count]}


class Forgetful(Fault):
    """Ends when it likes: its episodes cannot be replayed."""

    left = 4

    def step(self, action):
        type(self).left -= 1
        return np.zeros(1, np.float32), 0.0, type(self).left == 0, False, {}


class Stretched(Fault):
    """Shows less than its space says."""

    observation_space = spaces.Box(0.0, np.inf, (3,), np.float32)


class Shrinking(Fault):
    """Shows less than its space says, but not at the start."""

    observation_space = spaces.Dict({"a": spaces.Box(0.0, np.inf, (3,), np.float32)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": np.zeros(3, np.float32)}, {}

    def step(self, action):
        observation, *rest = super().step(action)
        return {"a": observation}, *rest


class Long(Fault):
    observation_space = spaces.Box(0.0, 1.0, (1,), np.longdouble)


class Careful(Fault):
    """Warns at every reset."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        warnings.warn("the tests are careful")
        return super().reset(seed=seed, options=options)

    def render(self):
        return np.full((4, 4, 3), self.count, np.uint8)


class MujocoGl(Careful):
    """Says in `info` whether the bridge chose what there is to draw without a display."""

    def reset(self, *, seed=None, options=None):
        from ctypes.util import find_library

        there = [gl for gl, library in (("egl", "EGL"), ("osmesa", "OSMesa")) if find_library(library)]
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        expected = None if display or not there else there[0]
        return super().reset(seed=seed)[0], {"as_expected": float(os.environ.get("MUJOCO_GL") == expected)}


class Tasked(Fault):
    """Pays its task from the next episode on."""

    task = {"reward": 0.0}

    def set_task(self, task):
        self.task = task

    def reset(self, *, seed=None, options=None):
        self.reward = self.task["reward"]
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.reward, *rest


class Optioned(Fault):
    """Counts from the option `at`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = (options or {}).get("at", 0)
        return np.array([self.count], np.float32), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count], np.float32), 1.0, False, False, {}


class Wordy(Fault):
    observation_space = spaces.Dict({"words": spaces.Text(5)})


class Strange(Fault):
    def __init__(self, space):
        super().__init__()
        box = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = {
            "Sequence": lambda: spaces.Sequence(box),
            "Graph": lambda: spaces.Graph(box, box),
            "OneOf": lambda: spaces.OneOf([box, spaces.Discrete(2)]),
        }[space]()


def vector(num_envs, autoreset_mode="Disabled", max_episode_steps=None):
    def make():
        return gymnasium.make("CartPole-v1", max_episode_steps=max_episode_steps, disable_env_checker=True)

    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode(autoreset_mode))


for env in (
    *(Fault, Closes, Slow, Noise, Parent, Cores, Parts, Pixels, Masked, Strict),
    *(Spaceless, Talker, ShortMask, Forgetful, Stretched, Shrinking, Long, Careful, Tasked, Optioned, Wordy, Strange),
):
    gymnasium.register(f"{env.__name__}-v0", env)
gymnasium.register("MujocoGl-v0", "tests.py.envs:MujocoGl")
def masked_vector(num_envs, autoreset_mode="Disabled"):
    return SyncVectorEnv([Masked] * num_envs, autoreset_mode=AutoresetMode(autoreset_mode))


gymnasium.register("MaskedVector-v0", vector_entry_point=masked_vector)
gymnasium.register("Vector-v0", vector_entry_point=vector, max_episode_steps=30)
