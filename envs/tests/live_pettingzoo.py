"""Plays this crate's environments in PettingZoo: its own tests, and step by step beside the real ones.

    python live_pettingzoo.py SERVER

SERVER is the program of `envs/examples/serve_multi_agent.rs`. Needs what `record_pettingzoo.py` needs.
"""

import importlib
import json
import os
import subprocess
import sys
import warnings

# On processors with AVX-512 numpy has an exponential function of its own, whose last bit differs from the C library's.
os.environ["NPY_DISABLE_CPU_FEATURES"] = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
# The switch warns of features that a processor lacks, and an empty board is warned of because it is all zeros.
warnings.simplefilter("ignore")

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic import connect_four_v3, go_v5, tictactoe_v3
from pettingzoo.utils.env_logger import EnvLogger
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
    # PettingZoo's Go has planes of truth values.
    dtype = bool if len(space["shape"]) == 3 and space["shape"][2] == 17 else DTYPES[space["dtype"]]
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


def hold(agent, space, rng, kept):
    """A random action that is kept for some steps, so that agents come far, now and then beyond the bounds."""
    if agent not in kept or rng.random() < 0.2:
        kept[agent] = space.sample()
        if isinstance(space, gymnasium.spaces.Box):
            kept[agent] = (1.4 * kept[agent] - 0.2).astype(np.float32)
    return kept[agent]


CONTINUOUS = {"continuous_actions": True}
# Environments of mpe2 with their settings.
PARTICLES = {
    "simple_v3": [{}, CONTINUOUS, {"max_cycles": 60, "dynamic_rescaling": False}],
    "simple_adversary_v3": [
        {},
        {"continuous_actions": True, "max_cycles": 50},
        {"N": 1},
        {"N": 5, "num_agent_neighbors": 2, "num_landmark_neighbors": 3},
        {"N": 2, "num_agent_neighbors": 4, "num_landmark_neighbors": 5, "continuous_actions": True},
    ],
    "simple_crypto_v3": [{}, CONTINUOUS, {"max_cycles": 7}],
    "simple_push_v3": [{}, CONTINUOUS, {"max_cycles": 60}],
    "simple_reference_v3": [{}, CONTINUOUS, {"local_ratio": 0.3, "max_cycles": 40}, {"local_ratio": 1.0}],
    "simple_speaker_listener_v4": [{}, CONTINUOUS, {"max_cycles": 60}],
    "simple_spread_v3": [
        {},
        {"continuous_actions": True},
        {"N": 5, "local_ratio": 0.2, "max_cycles": 40},
        {"N": 5, "num_agent_neighbors": 2, "num_landmark_neighbors": 3, "max_cycles": 40},
        {"N": 2, "num_agent_neighbors": 4, "num_landmark_neighbors": 5},
        {"N": 6, "curriculum": True, "dynamic_rescaling": False},
        {"N": 1, "max_cycles": 400, "terminate_on_success": True},
    ],
    "simple_tag_v3": [
        {"max_cycles": 60},
        {"continuous_actions": True, "max_cycles": 60},
        {"num_good": 3, "num_adversaries": 5, "num_obstacles": 4, "max_cycles": 60},
        {"num_good": 2, "num_agent_neighbors": 2, "num_landmark_neighbors": 1},
        {"num_good": 2, "num_agent_neighbors": 6, "num_landmark_neighbors": 3, "continuous_actions": True},
        {"curriculum": True, "max_cycles": 60},
        {"num_good": 1, "num_adversaries": 8, "terminate_on_success": True, "max_cycles": 100},
        {"num_good": 0, "num_obstacles": 0, "terminate_on_success": True},
        {"num_adversaries": 0, "num_good": 2},
    ],
    "simple_world_comm_v3": [
        {"max_cycles": 60},
        {"continuous_actions": True, "max_cycles": 60},
        {"num_good": 4, "num_adversaries": 2, "num_obstacles": 3, "num_food": 5, "num_forests": 4, "max_cycles": 60},
        {"num_obstacles": 0, "num_forests": 0, "num_food": 1, "num_adversaries": 1, "num_good": 1},
        {"num_adversaries": 0, "num_good": 3, "continuous_actions": True},
    ],
}


def check_particles(ids=PARTICLES, seeds=(0, 2**40 + 5, None)):
    ended = dict.fromkeys(["simple_spread_v3", "simple_tag_v3"], 0)
    left = dict.fromkeys(["simple_tag_v3", "simple_world_comm_v3"], 0)
    for env_id in ids:
        module = importlib.import_module(f"mpe2.{env_id}")
        make = lambda **config: NativeParallel(env_id, config)
        parallel_api_test(make(), num_cycles=100)
        parallel_seed_test(make, num_cycles=50)
        for config in PARTICLES[env_id]:
            native, real = make(**config), module.parallel_env(**config)
            assert native.possible_agents == real.possible_agents
            for agent in real.possible_agents:
                assert native.observation_space(agent) == real.observation_space(agent)
                assert native.action_space(agent) == real.action_space(agent)
                real.action_space(agent).seed(len(agent))
            rng = np.random.default_rng(3)
            # The last episode continues the random stream.
            for seed in seeds:
                place = f"{env_id} {config}, seed {seed}"
                obs, kept = real.reset(seed=seed)[0], {}
                same(native.reset(seed=seed)[0], obs, place)
                while real.agents:
                    if env_id == "simple_spread_v3" and config.get("terminate_on_success"):
                        actions = {agent: towards_landmark(obs[agent]) for agent in real.agents}
                    else:
                        actions = {agent: hold(agent, real.action_space(agent), rng, kept) for agent in real.agents}
                    found, expected = native.step(actions), real.step(actions)
                    for i, what in enumerate(["observation", "reward", "terminated", "truncated"]):
                        same(found[i], expected[i], f"{place}, {what}")
                    obs = expected[0]
                    if env_id in ended:
                        ended[env_id] += any(expected[2].values())
                    if env_id in left:
                        # Where the exponential function counts.
                        far = [abs(obs[agent][2:4]).max() for agent in obs if agent.startswith("agent")]
                        left[env_id] += any(1.0 < x < 2.0 for x in far)
            native.close()
    for count in (ended, left):
        assert all(count[env_id] > 0 for env_id in count if env_id in ids), f"{ended}, {left}"


def check_game(env_id, module, games=25, most_moves=10_000, illegal_rate=0.05, pass_rate=0.0, watch=None, **config):
    """Random games; `pass_rate` is how often Go's last action is chosen, `watch` looks at the real game."""
    make = lambda: NativeTurns(env_id, config)
    api_test(make(), num_cycles=200)
    seed_test(make, num_cycles=50)
    native, real = make(), module.env(**config)
    for agent in real.possible_agents:
        assert native.observation_space(agent) == real.observation_space(agent)
        assert native.action_space(agent) == real.action_space(agent)
    rng = np.random.default_rng(0)
    illegal_moves = 0
    for game in range(games):
        native.reset()
        real.reset()
        for move in range(most_moves):
            assert native.agent_selection == real.agent_selection
            for agent in real.possible_agents:
                same(native.observe(agent), real.observe(agent), f"{env_id}, game {game}, move {move}, {agent}")
            mask = real.observe(real.agent_selection)["action_mask"]
            illegal = np.flatnonzero(mask == 0)
            choose_illegal = len(illegal) > 0 and rng.random() < illegal_rate
            illegal_moves += choose_illegal
            action = int(rng.choice(illegal if choose_illegal else np.flatnonzero(mask)))
            if not choose_illegal and rng.random() < pass_rate:
                action = len(mask) - 1
            native.step(action)
            real.step(action)
            place = f"{env_id} {config}, game {game}, move {move}, after {action}"
            same(native.terminations, real.terminations, place)
            same(native.truncations, real.truncations, place)
            for agent in real.possible_agents:
                assert native.rewards[agent] == real.rewards[agent], place
            if watch is not None:
                watch(real.unwrapped)
            if any(real.terminations.values()):
                for agent in real.possible_agents:
                    same(native.observe(agent), real.observe(agent), f"{place}, {agent}")
                break
    assert 0 < illegal_moves < games or illegal_rate == 0
    native.close()


def check_go(games=20):
    seen = dict.fromkeys(["ko", "many stones captured", "black won", "white won", "drawn"], 0)

    def watch(real):
        go = real._go
        seen["ko"] += go.ko is not None
        seen["many stones captured"] += max(go.caps) > 10
        if go.is_game_over():
            seen["black won" if real.rewards["black_0"] > 0 else "white won"] += 1
            seen["drawn"] += go.score() == 0

    check_game("go_v5", go_v5, games, illegal_rate=0.01, pass_rate=0.1, watch=watch, board_size=5, komi=0.5)
    check_game("go_v5", go_v5, games, illegal_rate=0.01, pass_rate=0.1, watch=watch, board_size=3, komi=1)
    check_game("go_v5", go_v5, games // 4, illegal_rate=0, pass_rate=0.05, watch=watch, board_size=9)
    check_game("go_v5", go_v5, 2, 150, illegal_rate=0, watch=watch, board_size=13, komi=-2.5)
    check_game("go_v5", go_v5, 2, 150, illegal_rate=0, watch=watch)
    assert all(seen.values()), seen


# Actions beyond the bounds and illegal moves are meant.
EnvLogger.suppress_output()
check_particles()
check_game("tictactoe_v3", tictactoe_v3)
check_game("connect_four_v3", connect_four_v3)
check_go()
print("all equal")
