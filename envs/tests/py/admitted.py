"""Environments that give observations, rewards and flags of a kind, by its name."""

import random

import gymnasium
import numpy as np
from gymnasium import spaces

BYTES = spaces.Box(0, 255, (2,), np.uint8)
REALS = spaces.Box(-1.0, 1.0, (2,), np.float32)
ONE = spaces.Box(-1.0, 1.0, (1,), np.float32)

# The space and an observation.
OBSERVATIONS = {
    "plain": (REALS, np.zeros(2, np.float32)),
    "fraction": (BYTES, np.array([1.0, 0.7])),
    "wrap": (BYTES, np.array([1, 300])),
    "negative": (BYTES, np.array([-1, 1], np.int8)),
    "nan_byte": (BYTES, np.array([np.nan, 1.0])),
    "complex": (REALS, np.array([0.5, 0.5 + 0.25j])),
    "discrete_fraction": (spaces.Discrete(3), 1.5),
    "discrete_outside": (spaces.Discrete(3), 3),
    "discrete_array": (spaces.Discrete(3), np.array([1, 2])),
    "multi_discrete_fraction": (spaces.MultiDiscrete([3, 3]), np.array([1.5, 1.0])),
    "bits_outside": (spaces.MultiBinary(2), np.array([0, 2])),
    "int16_wrap": (spaces.Box(-100, 100, (1,), np.int16), np.array([40000])),
    "dict_fraction": (spaces.Dict(a=ONE, b=spaces.Dict(c=BYTES)), {"a": np.zeros(1, np.float32), "b": {"c": np.array([0.7, 0])}}),
    "dict_missing": (spaces.Dict(a=ONE, b=ONE), {"a": np.zeros(1, np.float32)}),
    "dict_discrete": (spaces.Dict(a=ONE, b=spaces.Discrete(3)), {"a": np.zeros(1, np.float32), "b": 1.5}),
    "text": (REALS, ["a", "b"]),
    "none": (REALS, None),
    "ragged": (REALS, [[1.0], [1.0, 2.0]]),
    "transposed": (spaces.Box(-1.0, 1.0, (2, 3), np.float32), np.zeros((3, 2), np.float32)),
    # Said once.
    "scalar": (ONE, np.float32(0.5)),
    "list": (REALS, [0.5, -0.5]),
    "float64": (REALS, np.array([0.5, -0.5])),
    "float_bytes": (BYTES, np.array([1.0, 255.0])),
    "beyond": (REALS, np.array([0.5, 1.04], np.float32)),
    # Not worth a word.
    "rounded": (spaces.Box(0.0, 1.0, (2,), np.float64), np.array([1.0000000000000002, 0.0])),
    "numpy_integer": (spaces.Discrete(3), np.int32(2)),
}
REWARDS = {
    "number": 1.0,
    "integer": 2,
    "numpy": np.float32(0.5),
    "numpy_bool": np.bool_(True),
    "array": np.array([1.5]),
    "two": [1.0, 0.0],
    "complex": 1 + 2j,
    "none": None,
    "text": "much",
}
FLAGS = {"bool": False, "numpy": np.bool_(False), "array": np.array([False]), "two": [False, False]}


class Given(gymnasium.Env):
    """Gives an observation of the kind `late` from a step on, and of the kind `obs` before."""

    action_space = spaces.Discrete(2)

    def __init__(self, obs="plain", late=None, at=0, reward="number", flag="bool", length=5):
        self.observation_space, self.first = OBSERVATIONS[obs]
        self.late = self.first if late is None else OBSERVATIONS[late][1]
        self.at, self.reward, self.flag, self.length = at, REWARDS[reward], FLAGS[flag], length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.shown(), {}

    def step(self, action):
        self.count += 1
        return self.shown(), self.reward, self.flag, self.count == self.length, {}

    def shown(self):
        return self.late if self.count >= self.at else self.first


class Unrepeatable(Given):
    """Draws its own numbers, whatever the seed, also how long an episode is."""

    def __init__(self):
        super().__init__(length=10**9)

    def shown(self):
        return np.float32([random.uniform(-1, 1), 0])

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, random.random() < 0.05, info


class Counts(gymnasium.Env):
    """Its copies count together: each shows how many were reset."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)
    resets = 0

    def reset(self, *, seed=None, options=None):
        type(self).resets += 1
        return np.float32([type(self).resets]), {}

    def step(self, action):
        return np.float32([type(self).resets]), 0.0, False, True, {}


ACTIONS = {
    "float64": spaces.Box(-1.0, 1.0, (2,), np.float64),
    "int64": spaces.Box(-5, 5, (2,), np.int64),
    "uint8": spaces.Box(0, 255, (3,), np.uint8),
    "matrix": spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    "endless": spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), dtype=np.float64),
    "start": spaces.Discrete(3, start=-1),
    "multi_start": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, -3]]),
    "multi": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "bits": spaces.MultiBinary((2, 2)),
}


class Acts(gymnasium.Env):
    """Takes actions of a kind only as members of their space, and shows the first number of each."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, kind="float64"):
        self.action_space = ACTIONS[kind]

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert action in self.action_space, f"{action!r} is not in {self.action_space}"
        self.count += 1
        first = np.float32([np.ravel(action)[0]])
        return first, float(-abs(first[0])), False, self.count == 20, {}


class OldSeeds(Given):
    """Draws from a generator whose seeds have 32 bits."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.random = np.random.RandomState(seed)
        self.count = 0
        return self.shown(), {}

    def shown(self):
        return np.float32([self.random.uniform(-1, 1), 0])


class Licensed(Given):
    """Can be made once in a process."""

    there = 0

    def __init__(self):
        super().__init__()
        type(self).there += 1
        if type(self).there > 1:
            raise RuntimeError("the licence is for one copy")
