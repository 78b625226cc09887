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


def episode(env, seed, policy):
    obs, _ = env.reset(seed=seed)
    state = lambda: f64(env.unwrapped.state)
    row = {"seed": seed, "start": state(), "obs": [f32(obs)], "actions": [], "states": [], "rewards": []}
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
        env.reset()
        row["continued"].append(state())
    return row


def cartpole():
    env = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(3)
    for seed in [0, 1, 123, 2**32 + 7]:
        yield episode(env, seed, lambda obs: int(rng.integers(2)))
    # Balances to the time limit, with a push the wrong way now and then.
    balance = lambda obs: int((obs @ np.array([0.02, 0.1, 1.0, 0.5]) > 0) ^ (rng.random() < 0.08))
    yield episode(env, 5, balance)
    env = gymnasium.make("CartPole-v1", sutton_barto_reward=True)
    yield episode(env, 2, lambda obs: 1)


def tells_pow_from_product(row):
    """Whether a reward would differ if angles and speeds were squared as products."""
    states = [struct.unpack(">2d", bytes.fromhex(state)) for state in [row["start"], *row["states"]]]
    for (theta, speed), action, reward in zip(states, row["actions"], row["rewards"]):
        torque = np.clip(np.float32(struct.unpack(">f", bytes.fromhex(action))[0]), -2.0, 2.0)
        angle = (np.float64(theta) + np.pi) % (2 * np.pi) - np.pi
        if f64(-(angle * angle + 0.1 * (speed * speed) + 0.001 * (torque**2))) != reward:
            return True
    return False


def pendulum():
    rng = np.random.default_rng(4)
    torque = lambda obs: rng.uniform(-2.5, 2.5, 1).astype(np.float32)
    env = gymnasium.make("Pendulum-v1")
    yield next(row for row in (episode(env, seed, torque) for seed in range(1000)) if tells_pow_from_product(row))
    # Pushes along with the motion, so that the pendulum turns over and reaches full speed.
    yield episode(gymnasium.make("Pendulum-v1", g=9.81), 11, lambda obs: np.float32([2.0 if obs[2] >= 0 else -2.0]))


def frames():
    """Means of square blocks, red, green and blue in turn, rows from the top."""
    for env_id, block, states in [
        ("CartPole-v1", 20, [[0.0, 0.0, 0.0, 0.0], [-1.3, 0.0, 0.2, 0.0]]),
        ("Pendulum-v1", 25, [[0.0, 0.0], [2.2, 0.0]]),
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
write("pendulum.jsonl", pendulum())
write("frames.jsonl", frames())
