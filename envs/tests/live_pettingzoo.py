"""Plays this crate's environments in PettingZoo: its own tests, and step by step beside the real ones.

    python live_pettingzoo.py SERVER

SERVER is the program of `envs/examples/serve_multi_agent.rs`. Needs what `record_pettingzoo.py` needs.
"""

import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
from mpe2 import simple_spread_v3
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic import connect_four_v3, tictactoe_v3
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

# PettingZoo's boards are signed bytes that are 0 or 1.
DTYPES = {"f32": np.float32, "u8": np.int8}


def numbers(bounds):
    """One bound per component; equal ones are written once."""
    if isinstance(bounds, dict):
        return [float(bounds["each"])] * bounds["len"]
    return [float(x) for x in bounds]


def space_of(tree):
    ((kind, space),) = tree.items()
    if kind == "discrete":
        return gymnasium.spaces.Discrete(space["n"], start=space["start"])
    if kind == "dict":
        return gymnasium.spaces.Dict({name: space_of(part) for name, part in space})
    dtype = DTYPES[space["dtype"]]
    low, high = (np.array(numbers(space[bound]), dtype).reshape(space["shape"]) for bound in ["low", "high"])
    return gymnasium.spaces.Box(low, high, dtype=dtype)


class Native:
    """One environment in a process of its own."""

    def __init__(self, env_id, config):
        command = [sys.argv[1], env_id, json.dumps(config)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hello = json.loads(self.process.stdout.readline())
        self.metadata = {"name": env_id, "render_modes": [], "is_parallelizable": False}
        self.possible_agents = hello["agents"]
        spaces = [[space_of(tree) for tree in pair] for pair in hello["spaces"]]
        self.observation_spaces = {agent: pair[0] for agent, pair in zip(self.possible_agents, spaces)}
        self.action_spaces = {agent: pair[1] for agent, pair in zip(self.possible_agents, spaces)}
        self.render_mode = None

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        for key, values in answer.items():
            answer[key] = dict(zip(self.possible_agents, values))
        obs = answer["obs"].items()
        answer["obs"] = {agent: self.decode(self.observation_spaces[agent], bytes.fromhex(row)) for agent, row in obs}
        return answer

    def decode(self, space, row):
        if not isinstance(space, gymnasium.spaces.Dict):
            return np.frombuffer(row, space.dtype).reshape(space.shape)
        parts = {}
        for name, part in space.items():
            size = int(np.prod(part.shape)) * part.dtype.itemsize
            parts[name], row = self.decode(part, row[:size]), row[size:]
        return parts

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class NativeParallel(Native, ParallelEnv):
    """All agents act at once."""

    def reset(self, seed=None, options=None):
        answer = self.ask(reset=seed)
        self.agents = self.possible_agents[:]
        return answer["obs"], {agent: {} for agent in self.agents}

    def step(self, actions):
        rows = [np.ravel(actions[agent]).tolist() for agent in self.possible_agents]
        answer = self.ask(step=[number for row in rows for number in row])
        self.agents = [agent for agent in self.agents if answer["alive"][agent]]
        infos = {agent: {} for agent in self.possible_agents}
        return answer["obs"], answer["rewards"], answer["terminated"], answer["truncated"], infos


class NativeTurns(Native, AECEnv):
    """One agent acts at a time."""

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.infos = {agent: {} for agent in self.agents}
        self.take(self.ask(reset=seed))

    def take(self, answer):
        self.observations, self.rewards = answer["obs"], answer["rewards"]
        self.terminations, self.truncations = answer["terminated"], answer["truncated"]
        acting = [agent for agent in self.possible_agents if answer["acting"][agent]]
        self.agent_selection = acting[0] if acting else self.possible_agents[0]

    def observe(self, agent):
        return self.observations[agent]

    def step(self, action):
        if self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        acted = self.agent_selection
        self.take(self.ask(step=[int(action) if agent == acted else 0 for agent in self.possible_agents]))
        self._cumulative_rewards[acted] = 0
        self._accumulate_rewards()


def same(found, expected, place):
    """Equal bits and types."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), f"{place}: {found.keys()} against {expected.keys()}"
        for key in expected:
            same(found[key], expected[key], f"{place}, {key}")
        return
    found, expected = np.asarray(found), np.asarray(expected)
    equal = found.tobytes() == expected.tobytes() and found.dtype == expected.dtype
    assert equal, f"{place}: {found!r} against {expected!r}"


def towards_landmark(obs):
    """A push along the longer way to the first landmark, from where the agent would come to rest by itself."""
    x, y = obs[4:6] - 0.4 * obs[:2]
    if max(abs(x), abs(y)) < 0.1:
        return 0
    return 1 + (x > 0) if abs(x) > abs(y) else 3 + (y > 0)


def check_spread():
    make = lambda **config: NativeParallel("simple_spread_v3", config)
    parallel_api_test(make(), num_cycles=100)
    parallel_seed_test(make, num_cycles=50)
    ended = 0
    for config in [
        {},
        {"continuous_actions": True},
        {"N": 5, "local_ratio": 0.2, "max_cycles": 40},
        {"N": 5, "num_agent_neighbors": 2, "num_landmark_neighbors": 3, "max_cycles": 40},
        {"N": 2, "num_agent_neighbors": 4, "num_landmark_neighbors": 5},
        {"N": 6, "curriculum": True, "dynamic_rescaling": False},
        {"N": 1, "max_cycles": 400, "terminate_on_success": True},
    ]:
        native, real = make(**config), simple_spread_v3.parallel_env(**config)
        assert native.possible_agents == real.possible_agents
        for agent in real.possible_agents:
            assert native.observation_space(agent) == real.observation_space(agent)
            assert native.action_space(agent) == real.action_space(agent)
            real.action_space(agent).seed(len(agent))
        # The last episode continues the random stream.
        for seed in [0, 2**40 + 5, None]:
            place = f"simple_spread_v3 {config}, seed {seed}"
            obs = real.reset(seed=seed)[0]
            same(native.reset(seed=seed)[0], obs, place)
            while real.agents:
                if config.get("terminate_on_success"):
                    actions = {agent: towards_landmark(obs[agent]) for agent in real.agents}
                else:
                    actions = {agent: real.action_space(agent).sample() for agent in real.agents}
                found, expected = native.step(actions), real.step(actions)
                for i, what in enumerate(["observation", "reward", "terminated", "truncated"]):
                    same(found[i], expected[i], f"{place}, {what}")
                obs = expected[0]
                ended += any(expected[2].values())
        native.close()
    assert ended > 0, "no team covered its landmarks"


def check_game(env_id, module):
    make = lambda: NativeTurns(env_id, {})
    api_test(make(), num_cycles=200)
    seed_test(make, num_cycles=50)
    native, real = make(), module.env()
    rng = np.random.default_rng(0)
    illegal_moves = 0
    for game in range(25):
        native.reset()
        real.reset()
        while not any(real.terminations.values()):
            assert native.agent_selection == real.agent_selection
            for agent in real.possible_agents:
                assert native.observation_space(agent) == real.observation_space(agent)
                same(native.observe(agent), real.observe(agent), f"{env_id}, game {game}, {agent}")
            mask = real.observe(real.agent_selection)["action_mask"]
            illegal = np.flatnonzero(mask == 0)
            choose_illegal = len(illegal) > 0 and rng.random() < 0.05
            illegal_moves += choose_illegal
            action = int(rng.choice(illegal if choose_illegal else np.flatnonzero(mask)))
            native.step(action)
            real.step(action)
            place = f"{env_id}, game {game}, after {action}"
            same(native.terminations, real.terminations, place)
            for agent in real.possible_agents:
                assert native.rewards[agent] == real.rewards[agent], place
    assert 0 < illegal_moves < 25
    native.close()


# The real boards are warned of too: an empty one is all zeros.
warnings.simplefilter("ignore")
check_spread()
check_game("tictactoe_v3", tictactoe_v3)
check_game("connect_four_v3", connect_four_v3)
print("all equal")
