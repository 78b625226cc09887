"""`VecNormalize` around the environments of training and of evaluation."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import PPO
from pavlov_rl.common.callbacks import EvalCallback
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize, sync_envs_normalization

SMALL = {"n_steps": 64, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


def poles():
    return DummyVecEnv([lambda: Monitor(gymnasium.make("CartPole-v1"))])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("outer", [lambda env: env, VecMonitor])
def test_an_evaluation_leaves_the_statistics_of_training_alone(training, outer):
    """Stable-Baselines3 2.9.2 counts 257.0001 observations (256 steps, one reset) and 256.0001 returns, evaluated or not."""
    envs, evaluated = VecNormalize(poles()), VecNormalize(poles(), training=training, norm_reward=False)
    evaluates = EvalCallback(outer(evaluated), eval_freq=256, n_eval_episodes=2, verbose=0)
    PPO("MlpPolicy", envs, **SMALL).learn(256, callback=evaluates)
    assert envs.obs_rms.count == pytest.approx(257.0001) and envs.ret_rms.count == pytest.approx(256.0001)
    # It began with the statistics of training, and follows what it sees only if it is told to.
    assert (evaluated.obs_rms.count > 257.1) == training
    assert evaluated.obs_rms is not envs.obs_rms and evaluated.ret_rms is not envs.ret_rms


def test_statistics_are_copied_layer_by_layer():
    one, other = VecNormalize(VecMonitor(poles())), VecNormalize(poles())
    one.reset()
    sync_envs_normalization(one, other)
    np.testing.assert_array_equal(one.obs_rms.mean, other.obs_rms.mean)
    one.step(np.array([0]))
    assert one.obs_rms.count == pytest.approx(2.0001) and other.obs_rms.count == pytest.approx(1.0001)


def test_an_evaluation_environment_without_the_normalisation_of_training_is_refused():
    model = PPO("MlpPolicy", VecNormalize(poles()), **SMALL)
    with pytest.raises(AssertionError, match="wrap both in the same way"):
        model.learn(64, callback=EvalCallback(poles(), eval_freq=64, verbose=0))


class Parts(gymnasium.Env):
    observation_space = spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "what": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"where": np.full(2, 0.5, np.float32), "what": 2}, {}

    def step(self, action):
        return {"where": np.zeros(2, np.float32), "what": 1}, 1.0, False, False, {}


def test_only_the_boxes_of_a_dict_are_normalised():
    """Stable-Baselines3 2.9.2 raises a ValueError, too, that names `norm_obs_keys`."""
    with pytest.raises(ValueError, match=r"'what' is Discrete\(3\); .* norm_obs_keys=\['where'\]"):
        VecNormalize(DummyVecEnv([Parts]))
    envs = VecNormalize(DummyVecEnv([Parts]), norm_obs_keys=["where"])
    assert envs.observation_space["what"] == spaces.Discrete(3)
    assert envs.reset()["what"].tolist() == [2]
    with pytest.raises(ValueError, match="`norm_obs_keys` is .*for observations in a Dict"):
        VecNormalize(poles(), norm_obs_keys=["where"])
