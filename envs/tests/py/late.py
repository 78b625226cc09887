"""A turn-based game in which an agent that has ended stays until its next turn, and earns a reward until then."""

import numpy as np
from gymnasium import spaces


def env():
    return Late()


class Late:
    """`ann` ends by its only move. With the move of `bob`, who ends too, each gets 7."""

    possible_agents = ["ann", "bob"]
    metadata = {"render_modes": []}
    render_mode = None

    def observation_space(self, agent):
        return spaces.Box(0.0, 1.0, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection = list(self.possible_agents), "ann"
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.rewards, self.infos = dict.fromkeys(self.agents, 0.0), {agent: {} for agent in self.agents}

    def observe(self, agent):
        return np.zeros(1, np.float32)

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover]:
            self.agents.remove(mover)
            for told in (self.terminations, self.truncations, self.rewards, self.infos):
                del told[mover]
        else:
            self.terminations[mover] = True
            self.rewards = dict.fromkeys(self.agents, 7.0 if mover == "bob" else 0.0)
        self.agent_selection = next((agent for agent in self.possible_agents if agent in self.agents and agent != mover), mover)

    def close(self):
        pass
