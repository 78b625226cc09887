"""Records episodes of Stable-Baselines3's `BitFlippingEnv`: `python record_bit_flipping.py > fixtures/bit_flipping.jsonl`."""

import json
import sys

import numpy as np
import stable_baselines3
from stable_baselines3.common.envs import BitFlippingEnv


def told(obs):
    """The parts of the observation in the order of their names."""
    return [int(bit) for name in sorted(obs) for bit in obs[name]]


def episodes(n_bits, continuous, max_steps, seed):
    env = BitFlippingEnv(n_bits=n_bits, continuous=continuous, max_steps=max_steps)
    env.action_space.seed(seed)
    rows = []
    for episode in range(3):
        # The second and the third continue the random stream.
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        row = {"obs": told(obs), "steps": []}
        ended = False
        while not ended:
            # The third goes to the goal: its bits are flipped where they are 0.
            wrong = np.flatnonzero(obs["achieved_goal"] == 0)
            action = env.action_space.sample()
            if episode == 2 and len(wrong):
                action = np.where(obs["achieved_goal"] == 0, 0.5, -0.5).astype(np.float32) if continuous else int(wrong[0])
            obs, reward, terminated, truncated, info = env.step(action)
            ended = bool(terminated or truncated)
            row["steps"].append(
                {
                    "action": np.ravel(action).tolist(),
                    "obs": told(obs),
                    "reward": reward,
                    "terminated": bool(terminated),
                    "truncated": bool(truncated),
                    "is_success": bool(info["is_success"]),
                }
            )
        rows.append(row)
    config = {"n_bits": n_bits, "continuous": continuous, "max_steps": max_steps}
    return {"config": config, "seed": seed, "episodes": rows}


def main():
    print(json.dumps({"stable_baselines3": stable_baselines3.__version__, "numpy": np.__version__}))
    for n_bits, max_steps in ((1, None), (4, None), (10, 3), (15, None)):
        for continuous in (False, True):
            json.dump(episodes(n_bits, continuous, max_steps, 7 * n_bits), sys.stdout)
            print()


main()
