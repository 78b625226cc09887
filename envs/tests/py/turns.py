"""A turn-based game with the interface of PettingZoo's AEC environments."""

import numpy as np
from gymnasium import spaces


def env(**kwargs):
    return Countdown(**kwargs)


class Countdown:
    """Three players take 1, 2 or 3 from a heap in turn. Who takes the last of the heap leaves with -1, and the others get 0.5
    at once. The last player left gets 1. The seed says how large the heaps are.

    A player cannot take more than there is, except with `masked=False`, where the heap never gets below 0.
    """

    possible_agents = ["ann", "bob", "cy"]
    metadata = {"render_modes": [], "render_fps": 3}
    render_mode = None

    def __init__(self, masked=True):
        self.masked = masked

    def observation_space(self, agent):
        heap = spaces.Box(0.0, 20.0, (2,), np.float32)
        return spaces.Dict(observation=heap, action_mask=spaces.Box(0, 1, (3,), np.int8)) if self.masked else heap

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.agent_selection = "ann"
        self.heap = int(self.random.integers(4, 9))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.rewards, self.infos = dict.fromkeys(self.agents, 0.0), {agent: {"heap": self.heap} for agent in self.agents}

    def observe(self, agent):
        seen = np.array([self.heap, self.possible_agents.index(agent)], np.float32)
        if not self.masked:
            return seen
        legal = agent == self.agent_selection and not self.terminations[agent]
        return {"observation": seen, "action_mask": np.array([legal and self.heap > i for i in range(3)], np.int8)}

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover]:
            assert action is None, "a dead agent has no action"
            self.agents.remove(mover)
            for told in (self.terminations, self.truncations, self.rewards, self.infos):
                del told[mover]
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self.agent_selection = next((agent for agent in self.agents if self.terminations[agent]), self.next)
            return
        self.rewards = dict.fromkeys(self.agents, 0.0)
        after = self.agents[self.agents.index(mover) + 1 :] + self.agents
        self.next = next(agent for agent in after if agent != mover)
        self.heap = max(0, self.heap - action - 1)
        if self.heap:
            self.agent_selection = self.next
            return
        self.heap = int(self.random.integers(4, 9))
        self.rewards = {agent: -1.0 if agent == mover else 0.5 for agent in self.agents}
        self.terminations[mover] = True
        if len(self.agents) == 2:
            self.rewards[self.next] = 1.0
            self.terminations[self.next] = True

    def render(self):
        return None

    def close(self):
        pass
