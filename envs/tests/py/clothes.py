"""Environments with rewards, agents, ids and constructors in forms that real packages have."""

import os

import gymnasium
import numpy as np
from gymnasium import spaces

SEEN = spaces.Box(0.0, 9.0, (2,), np.float32)


class Team(gymnasium.Env):
    """Two agents in one environment of Gymnasium: Tuples of observations and actions, and a list of rewards.

    An action is worth its number times 1 for the first agent and times 10 for the second. With `shared` the reward and the
    flag are arrays of one number, with `masks` each agent has an illegal action, with `leaves` the flags are lists and the
    second agent ends in step 2, and with `keyed` rewards, flags and infos are dicts.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, shared=False, masks=False, leaves=False, keyed=False, render_mode=None):
        self.shared, self.masks, self.leaves, self.keyed, self.render_mode = shared, masks, leaves, keyed, render_mode
        self.observation_space = spaces.Tuple([SEEN, SEEN])
        self.action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3, start=1)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.first = 0, float(self.np_random.integers(9))
        return self.seen(), self.info()

    def step(self, actions):
        assert self.action_space.contains(actions), actions
        self.count += 1
        rewards = [float(actions[0]), 10.0 * actions[1]]
        over = self.count == 4
        ended = [over, over or self.count >= 2] if self.leaves else over
        if self.keyed:
            rewards, ended = dict(enumerate(rewards)), {"agent_1": over, "agent_0": over}
        if self.shared:
            rewards, ended = np.array(sum(rewards)), np.array(over)
        return self.seen(), rewards, ended, False, self.info()

    def seen(self):
        return tuple(np.array([self.count, (self.first + agent) % 9], np.float32) for agent in range(2))

    def info(self):
        info = {"count": self.count}
        if self.masks:
            masks = [np.arange(n) != self.count % n for n in (2, 3)]
            if self.keyed:
                return {f"agent_{i}": {"action_mask": mask} for i, mask in enumerate(masks)}
            info["action_mask"] = masks
        return info

    def render(self):
        return np.full((2, 3, 3), self.count, np.uint8)


class Uneven(Team):
    """Its spaces have different numbers of agents."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Tuple([spaces.Discrete(2)] * 3)


class Objectives(gymnasium.Env):
    """A reward for each of two objectives: the action, and its square times minus one."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), np.array([action, -(action**2)], np.float32), False, True, {}


class Demanding(Objectives):
    """Has arguments without a default."""

    def __init__(self, grid, *, speed):
        assert grid == [1, 2] and speed == 0.5


class Label(spaces.Text):
    """A space of a package's own, which is a Text."""


class Labelled(gymnasium.Env):
    """Observes a Dict with a text."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (2,), np.uint8), label=Label(5), speed=spaces.Box(-1.0, 1.0, (1,), np.float32)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        return self.seen(), 0.0, False, True, {}

    def seen(self):
        return {"image": np.array([3, 4], np.uint8), "label": "hello", "speed": np.array([0.5], np.float32)}


class Image(gymnasium.ObservationWrapper):
    """Keeps one key of a Dict."""

    def __init__(self, env, key="image"):
        super().__init__(env)
        self.key, self.observation_space = key, env.observation_space[key]

    def observation(self, observation):
        return observation[self.key]


class Locked(Objectives):
    """Only one copy may exist on the machine while it is not closed."""

    def __init__(self, lock):
        self.lock = lock
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))

    def step(self, action):
        return np.zeros(1, np.float32), float(action), False, True, {}

    def close(self):
        os.unlink(self.lock)


class Alone(Objectives):
    """Only one copy may exist in a process."""

    there = 0

    def __init__(self):
        type(self).there += 1
        assert self.there == 1, "there is another copy in this process"

    def step(self, action):
        return np.zeros(1, np.float32), float(action), False, True, {}
