"""A PettingZoo parallel environment of three agents with random rows, which end together or one by one."""

import numpy as np
from gymnasium import spaces


class Team:
    metadata = {"name": "team"}
    render_mode = None

    def __init__(self, end="both", together=False, masks=False, render_mode=None):
        self.possible_agents, self.agents = ["a", "b", "c"], []
        self.end, self.together, self.masks = end, together, masks

    def observation_space(self, agent):
        return spaces.Box(-9, 9, (3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def look(self, who):
        return {a: np.clip(self.rng.standard_normal(3), -9, 9).astype(np.float32) for a in who}

    def infos(self, who):
        if not self.masks:
            return {a: {} for a in who}
        out = {}
        for a in who:
            mask = self.rng.integers(0, 2, 3).astype(np.int8)
            mask[int(self.rng.integers(3))] = 1
            out[a] = {"action_mask": mask}
        return out

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.now = list(self.possible_agents), 0
        lengths = self.rng.integers(3, 9, 3)
        self.length = {a: int(lengths[0] if self.together else n) for a, n in zip(self.agents, lengths)}
        return self.look(self.agents), self.infos(self.agents)

    def step(self, actions):
        self.now += 1
        who = list(self.agents)
        coin = self.rng.random()
        done = {a: self.now >= self.length[a] for a in who}
        term = self.end == "term" or (self.end == "both" and coin < 0.5)
        self.agents = [a for a in who if not done[a]]
        reward = {a: float(np.float32(self.rng.standard_normal())) for a in who}
        return (self.look(who), reward, {a: done[a] and term for a in who},
                {a: done[a] and not term for a in who}, self.infos(who))

    def render(self):
        return None

    def close(self):
        pass


def parallel_env(**kwargs):
    return Team(**kwargs)
