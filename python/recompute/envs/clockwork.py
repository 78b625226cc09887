"""Environments for the matrix: random rows, masks of legal actions, ends and cuts, as Gymnasium's and PettingZoo's."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ACTIONS = {
    "discrete": lambda: spaces.Discrete(3),
    "multi": lambda: spaces.MultiDiscrete([2, 3, 4]),
    "binary": lambda: spaces.MultiBinary(3),
    "box": lambda: spaces.Box(-2, 2, (2,), np.float32),
}


class Clockwork(gym.Env):
    """Random observations and rewards; episodes of 3 to 9 steps end as `end` says: "term", "trunc" or "both"."""

    def __init__(self, actions="discrete", end="both", masks=False, obs="box", render_mode=None):
        self.observation_space = spaces.Discrete(5) if obs == "discrete" else spaces.Box(-9, 9, (3,), np.float32)
        self.action_space = ACTIONS[actions]()
        self.end, self.masks = end, masks

    def look(self):
        if isinstance(self.observation_space, spaces.Discrete):
            return int(self.np_random.integers(5))
        return np.clip(self.np_random.standard_normal(3), -9, 9).astype(np.float32)

    def info(self):
        if not self.masks:
            return {}
        mask = self.np_random.integers(0, 2, self.action_space.n).astype(np.int8)
        mask[int(self.np_random.integers(self.action_space.n))] = 1
        return {"action_mask": mask}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(3, 10))
        return self.look(), self.info()

    def step(self, action):
        self.left -= 1
        done = self.left <= 0
        kind = self.end if self.end != "both" else ("term" if self.np_random.random() < 0.5 else "trunc")
        reward = float(np.float32(self.np_random.standard_normal()))
        return self.look(), reward, done and kind == "term", done and kind == "trunc", self.info()
