"""Records what numpy and Gymnasium do, for the tests of this crate.

    python record_gymnasium.py [directory]

Needs gymnasium, numpy and pygame. Floats are written as the hex digits of their bits. Each file
starts with the versions and with sines and cosines of the machine, which differ between C libraries.
"""

import json
import pathlib
import platform
import struct
import sys

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")


def f64(values):
    return "".join(struct.pack(">d", v).hex() for v in np.ravel(values))


def f32(values):
    return "".join(struct.pack(">f", v).hex() for v in np.ravel(values))


def header():
    angles = [0.05, 0.1, 0.15, 0.2, 0.7, 1.3, 2.0, 2.9, 3.7, 5.1, -0.17, -1.9]
    return {
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {'-'.join(platform.libc_ver())}",
        "angles": angles,
        "sin": f64([np.sin(np.float64(a)) for a in angles]),
        "cos": f64([np.cos(np.float64(a)) for a in angles]),
    }


def write(name, rows):
    with open(OUT / name, "w") as file:
        for row in [header(), *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


CHOICES = [[0.2, 0.5, 0.3], [0.1] * 10, [1.0, 0.0]]


def random_draws():
    for seed in [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**40 + 5, 2**64 - 1]:
        rng = np.random.default_rng(seed)
        row = {"seed": seed, "random": f64(rng.random(4)), "uniform": f64(rng.uniform(-0.05, 0.05, 4))}
        # Small ranges take half a draw each, so the odd number of them leaves one half over.
        row["integers"] = [
            [low, high, [int(rng.integers(low, high)) for _ in range(5)]]
            for low, high in [(0, 2), (-3, 4), (0, 2**32), (-(2**40), 2**50), (5, 6), (0, 3 * 2**30)]
        ]
        row["normal"] = f64(rng.standard_normal(300))
        row["choice"] = [[p, [int(rng.choice(len(p), p=p)) for _ in range(8)]] for p in CHOICES]
        yield row


def samples():
    spaces = gymnasium.spaces
    for name, space in [
        ("discrete", spaces.Discrete(7, start=-2)),
        ("multi_discrete", spaces.MultiDiscrete([2, 5, 9])),
        ("multi_binary", spaces.MultiBinary(6)),
        ("bounded", spaces.Box(-2.0, 2.0, (3,), np.float32)),
        ("real", spaces.Box(-np.inf, np.inf, (3,), np.float32)),
        ("image", spaces.Box(0, 255, (2, 2), np.uint8)),
    ]:
        space.seed(9)
        yield {"space": name, "samples": [np.ravel(space.sample()).astype(float).tolist() for _ in range(6)]}


def episode(env_id, seed, policy, **config):
    """One episode, and the states at the start of the next two."""
    env = gymnasium.make(env_id, **config)
    obs, _ = env.reset(seed=seed)
    state = lambda: f64(env.unwrapped.state)
    limit = env.spec.max_episode_steps
    config.pop("max_episode_steps", None)
    row = {"seed": seed, "config": config, "limit": limit, "start": state(), "obs": [f32(obs)]}
    row |= {"actions": [], "states": [], "rewards": []}
    terminated = truncated = False
    while not (terminated or truncated):
        action = policy(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        row["actions"].append(f32(action) if isinstance(action, np.ndarray) else int(action))
        row["states"].append(state())
        row["rewards"].append(f64(reward))
        if len(row["obs"]) <= 50:
            row["obs"].append(f32(obs))
    row["terminated"], row["truncated"] = bool(terminated), bool(truncated)
    row["continued"] = []
    for _ in range(2):
        obs, _ = env.reset()
        row["continued"].append([state(), f32(obs)])
    return row


def cartpole():
    rng = np.random.default_rng(3)
    for seed in [0, 1, 123, 2**32 + 7]:
        yield episode("CartPole-v1", seed, lambda obs: int(rng.integers(2)))
    # Balances to the time limit, with a push the wrong way now and then.
    balance = lambda obs: int((obs @ np.array([0.02, 0.1, 1.0, 0.5]) > 0) ^ (rng.random() < 0.08))
    yield episode("CartPole-v1", 5, balance)
    yield episode("CartPole-v1", 2, lambda obs: 1, sutton_barto_reward=True)


def mountain_car():
    rng = np.random.default_rng(5)
    swing = lambda obs: 2 if obs[1] >= 0 else 0
    yield episode("MountainCar-v0", 0, swing)
    yield episode("MountainCar-v0", 1, swing, goal_velocity=0.03)
    yield episode("MountainCar-v0", 2**33, lambda obs: int(rng.integers(3)), max_episode_steps=120)
    # Swings so high on the left that it hits the wall.
    yield episode("MountainCar-v0", 3, lambda obs: 0 if obs[0] < -0.2 and obs[1] < 0 else int(obs[1] >= 0) * 2)


def mountain_car_continuous():
    rng = np.random.default_rng(6)
    # Forces inside the bounds, on them and beyond them, along with the motion and at random.
    force = lambda obs: np.float32([(1 if obs[1] >= 0 else -1) * rng.choice([0.7, 1.0, 1.4]) * rng.uniform(0.8, 1.0)])
    at_random = lambda obs: rng.uniform(-1.5, 1.5, 1).astype(np.float32)
    yield episode("MountainCarContinuous-v0", 0, force)
    yield episode("MountainCarContinuous-v0", 1, force, goal_velocity=0.02)
    yield episode("MountainCarContinuous-v0", 7, at_random, max_episode_steps=120)
    yield episode("MountainCarContinuous-v0", 3, lambda obs: np.float32([1.0 if obs[1] >= 0 else -1.0]))


def acrobot():
    rng = np.random.default_rng(8)
    swing = lambda obs: 2 if obs[4] < 0 else 0
    yield episode("Acrobot-v1", 0, swing)
    yield episode("Acrobot-v1", 42, swing)
    yield episode("Acrobot-v1", 1, lambda obs: int(rng.integers(3)), max_episode_steps=100)


def acrobot_starts():
    """The first four numbers of many first observations as one number: single-precision sines of small angles."""
    env = gymnasium.make("Acrobot-v1").unwrapped
    seeds, digest = 20000, 0
    for seed in range(seeds):
        obs, _ = env.reset(seed=seed)
        for bits in obs[:4].view(np.uint32).tolist():
            digest = (31 * digest + bits) % 2**64
    yield {"seeds": seeds, "digest": digest}


def tells_pow_from_product(row, states_too):
    """Whether a reward would differ if torques were squared as products; with `states_too` angles and speeds instead."""
    square = (lambda x: x * x) if states_too else (lambda x: x**2)
    square_torque = (lambda x: x**2) if states_too else (lambda x: x * x)
    states = [struct.unpack(">2d", bytes.fromhex(state)) for state in [row["start"], *row["states"]]]
    for (theta, speed), action, reward in zip(states, row["actions"], row["rewards"]):
        torque = np.clip(np.float32(struct.unpack(">f", bytes.fromhex(action))[0]), -2.0, 2.0)
        angle = (np.float64(theta) + np.pi) % (2 * np.pi) - np.pi
        if f64(-(square(angle) + 0.1 * square(np.float64(speed)) + 0.001 * square_torque(torque))) != reward:
            return True
    return False


def pendulum():
    rng = np.random.default_rng(4)
    torque = lambda obs: rng.uniform(-2.5, 2.5, 1).astype(np.float32)
    rows = (episode("Pendulum-v1", seed, torque) for seed in range(1000))
    yield next(row for row in rows if tells_pow_from_product(row, states_too=True))
    # Pushes along with the motion, so that the pendulum turns over and reaches full speed.
    yield episode("Pendulum-v1", 11, lambda obs: np.float32([2.0 if obs[2] >= 0 else -2.0]), g=9.81)
    rows = (episode("Pendulum-v1", seed, torque) for seed in range(1000))
    yield next(row for row in rows if tells_pow_from_product(row, states_too=False))


def reset_options():
    """First states and observations of `reset(options=...)`."""
    for env_id, options in [
        ("CartPole-v1", {"low": -0.5, "high": 0.25}),
        ("MountainCar-v0", {"low": -1.0, "high": 0.5}),
        ("MountainCarContinuous-v0", {"low": -1.0, "high": 0.5}),
        ("Acrobot-v1", {"low": -9.0, "high": 9.0}),
        ("Pendulum-v1", {"x_init": 0.25, "y_init": 3.0}),
    ]:
        env = gymnasium.make(env_id).unwrapped
        row = {"env": env_id, "options": options, "starts": []}
        for seed in range(50):
            obs, _ = env.reset(seed=seed, options=options)
            row["starts"].append([f64(env.state), f32(obs)])
        yield row


def play(env_id, seed, episodes, **config):
    """Episodes that go on in one stream, with random actions, legal ones where there is a mask."""
    env = gymnasium.make(env_id, **config)
    limit = env.spec.max_episode_steps
    config.pop("max_episode_steps", None)
    rng = np.random.default_rng(seed)
    row = {"env": env_id, "seed": seed, "config": config, "limit": limit, "episodes": []}
    for i in range(episodes):
        obs, info = env.reset(seed=seed if i == 0 else None)
        mask = lambda: "".join(str(legal) for legal in info["action_mask"])
        played = {"obs": [np.ravel(obs).tolist()], "actions": [], "rewards": [], "probs": [], "masks": []}
        if "action_mask" in info:
            played["masks"].append(mask())
        terminated = truncated = False
        while not (terminated or truncated):
            action = int(env.action_space.n * rng.random())
            if "action_mask" in info and rng.random() < 0.9:
                action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            obs, reward, terminated, truncated, info = env.step(action)
            played["obs"].append(np.ravel(obs).tolist())
            played["actions"].append(action)
            played["rewards"].append(float(reward))
            if "prob" in info:
                played["probs"].append(float(info["prob"]))
            if "action_mask" in info:
                played["masks"].append(mask())
        played["terminated"], played["truncated"] = bool(terminated), bool(truncated)
        row["episodes"].append(played)
    return row


def toy_text():
    yield play("FrozenLake-v1", 0, 25)
    yield play("FrozenLake-v1", 1, 10, is_slippery=False, reward_schedule=(2, -1, 0.5))
    yield play("FrozenLake-v1", 2, 10, desc=["FSF", "SFH", "FFG"], success_rate=0.7)
    yield play("FrozenLake8x8-v1", 2**40, 10)
    yield play("Taxi-v4", 0, 2)
    yield play("Taxi-v4", 1, 3, is_rainy=True)
    yield play("Taxi-v4", 2, 12, fickle_passenger=True, fickle_probability=0.8, max_episode_steps=60)
    yield play("Taxi-v4", 3, 12, fickle_passenger=True, is_rainy=True, rainy_probability=0.5, max_episode_steps=60)
    yield play("CliffWalking-v1", 0, 5, max_episode_steps=50)
    yield play("CliffWalkingSlippery-v1", 1, 5, max_episode_steps=50)
    yield play("Blackjack-v1", 0, 60)
    yield play("Blackjack-v1", 1, 60, sab=False, natural=True)
    yield play("Blackjack-v1", 2, 60, sab=False, natural=False)


def ansi():
    """Texts of the render mode `ansi` after a reset and steps."""
    random = lambda env: np.random.default_rng(0).integers(env.action_space.n, size=12).tolist()
    for env_id, actions_of, config in [
        ("FrozenLake-v1", random, {}),
        ("FrozenLake-v1", random, {"desc": ["FSF", "SFH", "FFG"]}),
        ("Taxi-v4", shortest_trip, {}),
        ("CliffWalking-v1", random, {}),
    ]:
        env = gymnasium.make(env_id, render_mode="ansi", **config).unwrapped
        env.reset(seed=0)
        actions, texts = actions_of(env), [env.render()]
        for action in actions:
            _, _, terminated, *_ = env.step(action)
            texts.append(env.render())
            if terminated:
                break
        yield {"env": env_id, "config": config, "seed": 0, "actions": actions[: len(texts) - 1], "texts": texts}


def shortest_trip(env):
    """Actions that bring the passenger of a Taxi to the destination."""
    trips = {int(env.s): []}
    for state in (queue := list(trips)):
        for action in range(6):
            _, after, _, terminated = env.P[state][action][0]
            if terminated:
                return trips[state] + [action]
            if after not in trips:
                trips[after] = trips[state] + [action]
                queue.append(after)


def maps():
    for size, p, seed in [(4, 0.8, 0), (4, 0.5, 1), (8, 0.6, 2), (6, 1.0, 3), (2, 0.3, 2**35)]:
        yield {"size": size, "p": p, "seed": seed, "map": generate_random_map(size, p, seed)}


def frames():
    """Means of square blocks, red, green and blue in turn, rows from the top."""
    for env_id, block, states in [
        ("CartPole-v1", 20, [[0.0, 0.0, 0.0, 0.0], [-1.3, 0.0, 0.2, 0.0]]),
        ("Pendulum-v1", 25, [[0.0, 0.0], [2.2, 0.0]]),
        ("MountainCar-v0", 20, [[-0.5, 0.0], [0.3, 0.01]]),
        ("MountainCarContinuous-v0", 20, [[-1.1, 0.0]]),
        ("Acrobot-v1", 25, [[0.1, -0.1, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0]]),
    ]:
        env = gymnasium.make(env_id, render_mode="rgb_array")
        env.reset(seed=0)
        for state in states:
            env.unwrapped.state = np.array(state)
            frame = env.render()
            height, width, _ = frame.shape
            means = frame.reshape(height // block, block, width // block, block, 3).mean(axis=(1, 3))
            yield {
                "env": env_id,
                "state": state,
                "width": width,
                "height": height,
                "block": block,
                "means": np.rint(means).astype(int).ravel().tolist(),
            }


write("np_random.jsonl", random_draws())
write("samples.jsonl", samples())
write("cartpole.jsonl", cartpole())
write("mountain_car.jsonl", mountain_car())
write("mountain_car_continuous.jsonl", mountain_car_continuous())
write("acrobot.jsonl", acrobot())
write("acrobot_starts.jsonl", acrobot_starts())
write("pendulum.jsonl", pendulum())
write("reset_options.jsonl", reset_options())
write("toy_text.jsonl", toy_text())
write("ansi.jsonl", ansi())
write("maps.jsonl", maps())
write("frames.jsonl", frames())
