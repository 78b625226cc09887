"""Parallel environments for the tests of the bridge, by the names that PettingZoo's API gives them."""

import numpy as np
from gymnasium import spaces

from tests.py.envs import FAULTS


def parallel_env(kind="Party", **kwargs):
    return globals()[kind](**kwargs)


class Party:
    """Three agents with different spaces. Cy joins in step 1, Bob ends in step 2, and Cy is cut when Ann ends in step 4.

    An action is worth its number times 1 for Ann, 10 for Bob, 100 and 1000 for Cy's two. One of Ann's and of Bob's
    actions is illegal. The episode whose seed is `seed` does `fault` at a step, or in `reset`.
    """

    possible_agents = ["ann", "bob", "cy"]
    metadata = {"render_modes": ["rgb_array"]}
    observation_spaces = {
        "ann": spaces.Dict(
            {
                "observation": spaces.Box(0.0, 9.0, (2,), np.float32),
                "action_mask": spaces.Box(0, 1, (2,), np.int8),
            }
        ),
        "bob": spaces.Box(0.0, 9.0, (1,), np.float32),
        "cy": spaces.Box(0.0, 9.0, (1, 2), np.float32),
    }
    action_spaces = {
        "ann": spaces.Discrete(2),
        "bob": spaces.Discrete(3, start=1),
        "cy": spaces.MultiDiscrete([2, 4]),
    }

    def __init__(self, render_mode=None, fault=None, at=None, seed=None):
        self.render_mode, self.fault, self.at, self.bad_seed = render_mode, fault, at, seed

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.seed, self.count, self.agents = seed or 0, 0, ["ann", "bob"]
        self.options = options or {}
        self.maybe("reset")
        return self.observations(), self.infos()

    def step(self, actions):
        assert set(actions) == set(self.agents), actions
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items()), actions
        self.count += 1
        self.maybe(self.count)
        rewards = {"ann": actions["ann"], "bob": 10 * actions.get("bob", -1)}
        if "cy" in actions:
            rewards["cy"] = float(actions["cy"] @ [100, 1000])
        # Bob is told of after his end too; that must not be passed on.
        terminations = {"ann": self.count == 4, "bob": self.count >= 2, "cy": False}
        truncations = {"ann": self.count == 4, "bob": False, "cy": self.count == 4}
        if self.count == 1:
            self.agents.append("cy")
        if self.count == 2:
            self.agents.remove("bob")
        if self.count == 4:
            self.agents = []
        return self.observations(), rewards, terminations, truncations, self.infos()

    def observations(self):
        ann = {"observation": np.array([self.count, self.seed % 9], np.float32), "action_mask": self.mask(2)}
        bob = np.array([self.count + 0.5], np.float32)
        return {"ann": ann, "bob": bob, "cy": np.array([[self.count, self.count / 2]], np.float32)}

    def infos(self):
        return {"ann": {"deep": {"count": self.count}, **self.options}, "bob": {"action_mask": self.mask(3)}}

    def mask(self, n):
        mask = np.ones(n, np.int8)
        mask[(self.seed + self.count) % n] = 0
        return mask

    def maybe(self, at):
        if at == self.at and self.seed == self.bad_seed:
            FAULTS[self.fault]()

    def render(self):
        return np.full((2, 3, 3), self.count, np.uint8)

    def close(self):
        pass


class Mixed(Party):
    """Bob's rows are of another scalar type."""

    observation_spaces = Party.observation_spaces | {"bob": spaces.Box(0, 9, (1,), np.uint8)}


class Nameless(Party):
    possible_agents = []


class Leaving(Party):
    """Bob goes without an end."""

    def step(self, actions):
        observations, rewards, terminations, truncations, infos = super().step(actions)
        return observations, rewards, terminations | {"bob": False}, truncations, infos


class Silent(Party):
    """Shows Bob nothing in step 1."""

    def observations(self):
        shown = super().observations()
        return {agent: shown[agent] for agent in shown if agent != "bob" or self.count != 1}
