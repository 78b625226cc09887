"""Options that Gymnasium documents for its environments: each is learned with, and means what it means there."""

import gymnasium
import pytest

from pavlov_rl import PPO

# Gravity at both ends of its range, where the lander leaves the space of its observations, as Gymnasium's does.
OPTIONS = [
    ("CartPole-v1", {"sutton_barto_reward": True}),
    ("MountainCar-v0", {"goal_velocity": 0.05}),
    ("MountainCarContinuous-v0", {"goal_velocity": 0.05}),
    ("Pendulum-v1", {"g": 2.0}),
    ("LunarLander-v3", {"gravity": -0.1}),
    ("LunarLander-v3", {"gravity": -1.0}),
    ("LunarLander-v3", {"gravity": -11.9}),
    ("LunarLander-v3", {"continuous": True}),
    ("LunarLander-v3", {"enable_wind": True, "wind_power": 20.0, "turbulence_power": 2.0}),
    ("BipedalWalker-v3", {"hardcore": True}),
    ("FrozenLake-v1", {"desc": ["SFF", "HFH", "FFG"], "is_slippery": False}),
    ("FrozenLake-v1", {"map_name": "8x8", "success_rate": 0.9, "reward_schedule": (2.0, -1.0, 0.5)}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}),
    ("Blackjack-v1", {"natural": True, "sab": False}),
    ("Blackjack-v1", {"natural": False, "sab": True}),
]


class Same(gymnasium.Wrapper):
    """With it, the environment is stepped in Python."""


def bytes_of(obs, rewards):
    # Those of a Tuple are a tuple.
    parts = obs if isinstance(obs, tuple) else (obs,)
    return *(part.tobytes() for part in parts), rewards.tobytes()


@pytest.mark.parametrize(("id", "options"), OPTIONS, ids=[f"{id} {options}" for id, options in OPTIONS])
def test_documented_options_are_learned_with_as_gymnasiums_environment_has_them(id, options):
    policy = "MultiInputPolicy" if id.startswith("Blackjack") else "MlpPolicy"
    seen = []
    for env in (gymnasium.make(id, **options), Same(gymnasium.make(id, **options))):
        model = PPO(policy, env, n_steps=512, batch_size=512, n_epochs=1, policy_kwargs={"net_arch": [8]}, seed=0)
        seen.append([])
        model.learn(1024, callback=lambda local, _: seen[-1].append(bytes_of(local["new_obs"], local["rewards"])) or True)
        assert (model._env.stepper is None) == (len(seen) == 1)
    if not id.startswith("BipedalWalker"):
        # Gymnasium's walker keeps the world of earlier episodes when it is reset with a seed.
        assert seen[0] == seen[1]
