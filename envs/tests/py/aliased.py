"""A program that takes Gymnasium for the old gym, and has Gymnasium's own function `register_envs`."""

import sys

import gymnasium
import numpy as np
from gymnasium import register_envs  # noqa: F401

sys.modules["gym"] = gymnasium


class Plain(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action), False, True, {}
