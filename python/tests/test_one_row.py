"""Advantages of one row, which has nothing to be compared with."""

import gymnasium
import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import A2C, PPO, RecurrentPPO


@pytest.mark.parametrize(
    ("cls", "arguments", "message"),
    [
        # Stable-Baselines3 2.9.2 stops there, too: "`batch_size` must be greater than 1", "`n_steps * n_envs` must be greater
        # than 1", and A2C with NaN in its network.
        (PPO, {"n_steps": 8, "batch_size": 1}, "`batch_size` of PPO is 1, but advantages are normalised"),
        (PPO, {"n_steps": 1, "batch_size": 64}, "`n_steps` of PPO is 1, but there is 1 environment"),
        (RecurrentPPO, {"n_steps": 8, "batch_size": 1}, "`batch_size` of RecurrentPPO is 1"),
        (A2C, {"n_steps": 1, "normalize_advantage": True}, "`n_steps` of A2C is 1"),
        (PPO, {"n_steps": 8, "batch_size": 8, "settings": {"sgd_minibatch_size": 1}}, "`sgd_minibatch_size` is 1"),
    ],
)
def test_advantages_are_not_normalised_over_one_row(cls, arguments, message):
    with pytest.raises(pavlov_rl.ConfigError, match=f"{message}.*normalize_advantage"):
        cls("MlpPolicy", "CartPole-v1", **arguments)


@pytest.mark.parametrize(("cls", "more"), [(PPO, {"batch_size": 1, "normalize_advantage": False}), (A2C, {})])
def test_one_row_teaches_where_nothing_is_normalised(cls, more):
    model = cls("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=1, seed=0, **more)
    before = model.get_parameters()["policy"]
    after = model.learn(4).get_parameters()["policy"]
    assert all(np.isfinite(array).all() for array in after.values())
    assert any((after[name] != before[name]).any() for name in before if ".actor." in name)
