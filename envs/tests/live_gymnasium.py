"""Plays this crate's environments in Gymnasium: its own checks, and step by step beside the real ones.

    python live_gymnasium.py SERVER

SERVER is the program of `envs/examples/serve.rs`. Needs gymnasium and numpy.
"""

import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.utils.env_match import check_environments_match

DTYPES = {"f32": np.float32, "i64": np.int64}


def numbers(bounds):
    """One bound per component; equal ones are written once."""
    if isinstance(bounds, dict):
        return [float(bounds["each"])] * bounds["len"]
    return [float(x) for x in bounds]


def space_of(tree):
    ((kind, space),) = tree.items()
    if kind == "discrete":
        return spaces.Discrete(space["n"], start=space["start"])
    if kind == "tuple":
        return spaces.Tuple([space_of(part) for part in space])
    dtype = DTYPES[space["dtype"]]
    low, high = (np.array(numbers(space[bound]), dtype).reshape(space["shape"]) for bound in ["low", "high"])
    return spaces.Box(low, high, dtype=dtype)


class Native(gymnasium.Env):
    """One environment in a process of its own, with the types that Gymnasium's numbers have."""

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, env_id, config, render_mode, reward_type, first_prob_type):
        command = [sys.argv[1], env_id, json.dumps(config)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hello = json.loads(self.process.stdout.readline())
        self.observation_space = space_of(hello["observation_space"])
        self.action_space = space_of(hello["action_space"])
        self.render_mode, self.reward_type, self.first_prob_type = render_mode, reward_type, first_prob_type

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.text = answer["ansi"]
        return answer

    def obs(self, answer):
        raw = bytes.fromhex(answer["obs"])
        if isinstance(self.observation_space, spaces.Box):
            return np.frombuffer(raw, self.observation_space.dtype).copy()
        integers = tuple(np.frombuffer(raw, np.int64).tolist())
        return integers if isinstance(self.observation_space, spaces.Tuple) else integers[0]

    def info(self, answer, prob_type=float):
        info = {}
        if answer["prob"] is not None:
            info["prob"] = prob_type(answer["prob"])
        if answer["mask"] is not None:
            info["action_mask"] = np.array(answer["mask"], np.int8)
        return info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        answer = self.ask(reset=seed)
        return self.obs(answer), self.info(answer, self.first_prob_type)

    def step(self, action):
        # A single-precision number has the same value in double precision.
        answer = self.ask(step=[float(x) for x in np.ravel(action)])
        (reward,) = np.frombuffer(bytes.fromhex(answer["reward"]), np.float64)
        flags = answer["terminated"], answer["truncated"]
        return self.obs(answer), self.reward_type(reward), *flags, self.info(answer)

    def render(self):
        return self.text

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bits(value):
    """Floats as bytes, which `data_equivalence` would compare with a tolerance or take for equal when both are 0."""
    if isinstance(value, np.ndarray) or isinstance(value, (float, np.floating)):
        return np.asarray(value).tobytes()
    return value


def check_bits(native, real, steps):
    """Random play, whose later episodes continue the stream of the first."""
    assert bits(native.reset(seed=2**35 + 1)[0]) == bits(real.reset(seed=2**35 + 1)[0])
    real.action_space.seed(7)
    for step in range(steps):
        action = real.action_space.sample()
        if isinstance(real.action_space, spaces.Box):
            # Beyond the bounds now and then.
            action = action * np.float32(1.3)
        (obs, reward, *flags, info), (expected, expected_reward, *expected_flags, expected_info) = (
            native.step(action),
            real.step(action),
        )
        found = bits(obs), bits(reward), flags
        assert found == (bits(expected), bits(expected_reward), expected_flags), f"step {step}: {obs} {expected}"
        assert data_equivalence(info, expected_info, exact=True), f"step {step}: {info} {expected_info}"
        if real.render_mode == "ansi":
            assert native.render() == real.render(), f"step {step}: {native.render()} {real.render()}"
        if any(flags):
            assert bits(native.reset()[0]) == bits(real.reset()[0]), f"after step {step}"


# Types of rewards, and of `prob` after a reset.
TOY = {"reward_type": int, "first_prob_type": int}
TAXI = {"reward_type": int, "first_prob_type": float}
CLASSIC = {"reward_type": float, "first_prob_type": None}
PENDULUM = {"reward_type": np.float64, "first_prob_type": None}

warnings.simplefilter("ignore")
gymnasium.logger.min_level = gymnasium.logger.ERROR
for env_id, types, config in [
    ("CartPole-v0", CLASSIC, {}),
    ("CartPole-v1", CLASSIC, {}),
    ("CartPole-v1", CLASSIC, {"sutton_barto_reward": True}),
    ("MountainCar-v0", CLASSIC, {}),
    ("MountainCarContinuous-v0", CLASSIC, {}),
    ("Pendulum-v1", PENDULUM, {}),
    ("Acrobot-v1", CLASSIC, {}),
    ("FrozenLake-v1", TOY, {}),
    ("FrozenLake8x8-v1", TOY, {}),
    ("Taxi-v4", TAXI, {}),
    ("Taxi-v4", TAXI, {"is_rainy": True, "fickle_passenger": True}),
    ("CliffWalking-v1", TOY, {}),
    ("CliffWalkingSlippery-v1", TOY, {}),
    ("Blackjack-v1", CLASSIC, {}),
    ("Blackjack-v1", CLASSIC, {"natural": True, "sab": False}),
]:
    render_mode = "ansi" if types in (TOY, TAXI) else None
    native = Native(env_id, config, render_mode, **types)
    real = gymnasium.make(env_id, render_mode=render_mode, disable_env_checker=True, **config)
    try:
        check_environments_match(real, native, num_steps=250, seed=3, info_comparison="equivalence")
        check_bits(native, real, 600)
        check_env(native)
    except Exception as error:
        raise AssertionError(f"{env_id} {config}") from error
    native.close()
    real.close()
print("all equal")
