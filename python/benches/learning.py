"""Steps per second of PPO on environments in Python, beside Stable-Baselines3's on the same environments.

    python benches/learning.py [ROUNDS]

Each library trains with Stable-Baselines3's defaults on eight copies of Gymnasium's CartPole, as a plain class, and of one whose
step takes 50 microseconds more. The libraries take turns, and the first rounds, which load and compile, do not count. One thread each
for torch is Stable-Baselines3's fastest setting for networks of this size.
"""

import statistics
import sys
import time

import gymnasium
import stable_baselines3
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

import pavlov_rl
from pavlov_rl.common.env_util import make_vec_env

STEPS, COPIES = 16_384, 8


class Plain(CartPoleEnv):
    """CartPole in Python, which pavlov does not know as its own."""


class Slow(Plain):
    """Takes 50 microseconds more for each step."""

    def step(self, action):
        end = time.perf_counter() + 50e-6
        while time.perf_counter() < end:
            pass
        return super().step(action)


def limited(env):
    return lambda: gymnasium.wrappers.TimeLimit(env(), 500)


def rate(library, env):
    """Steps per second of one `learn`."""
    copies = make_vec_env if library is pavlov_rl else stable_baselines3.common.env_util.make_vec_env
    model = library.PPO("MlpPolicy", copies(limited(env), n_envs=COPIES), n_steps=256, seed=0, device="cpu")
    start = time.perf_counter()
    model.learn(STEPS)
    return model.num_timesteps / (time.perf_counter() - start)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    torch.set_num_threads(1)
    for env in (Plain, Slow):
        rates = {pavlov_rl: [], stable_baselines3: []}
        for turn in range(rounds + 1):
            for library, seen in rates.items():
                found = rate(library, env)
                if turn > 0:
                    seen.append(found)
        ours, theirs = (statistics.median(seen) for seen in rates.values())
        print(f"{env.__name__}: pavlov {ours:,.0f} steps/s, Stable-Baselines3 {theirs:,.0f}: {ours / theirs:.1f} times")


if __name__ == "__main__":
    main()
