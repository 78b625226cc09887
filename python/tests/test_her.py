"""Hindsight experience replay with Stable-Baselines3's arguments: `replay_buffer_class=HerReplayBuffer`."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pavlov_rl import DDPG, DQN, PPO, SAC, TD3, TQC, GoalSelectionStrategy, HerReplayBuffer
from pavlov_rl.common.vec_env import DummyVecEnv, VecNormalize

SMALL = {"learning_starts": 20, "batch_size": 16, "seed": 0, "policy_kwargs": {"net_arch": [16]}}
KWARGS = {"n_sampled_goal": 4, "goal_selection_strategy": "future"}


class Line(gymnasium.Env):
    """A point on a line of float64 goes to a goal; `compute_reward` remembers what it was asked."""

    observation_space = spaces.Dict(
        {name: spaces.Box(-9.0, 9.0, (2,), np.float64) for name in ("observation", "achieved_goal", "desired_goal")}
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    asked: list = []

    def _obs(self):
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal, self.steps = np.zeros(2), self.np_random.uniform(-1, 1, 2), 0
        return self._obs(), {}

    def step(self, action):
        self.at, self.steps = self.at + 0.3 * action, self.steps + 1
        obs = self._obs()
        reward = float(self.compute_reward(obs["achieved_goal"][None], obs["desired_goal"][None], [{}])[0])
        self.asked.pop()
        return obs, reward, reward == 0.0, self.steps >= 8, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        self.asked.append((achieved_goal, desired_goal, info))
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.2).astype(np.float64)


@pytest.mark.parametrize("cls", [SAC, TD3, DDPG, TQC])
def test_all_rows_of_a_batch_are_given_to_compute_reward_together(cls):
    Line.asked.clear()
    model = cls("MultiInputPolicy", Line(), replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs=KWARGS, **SMALL)
    model.learn(60)
    assert model.replay_buffer_class in (HerReplayBuffer, "HerReplayBuffer")
    assert Line.asked
    for achieved, desired, info in Line.asked:
        # int(0.8 * 16) of 16 rows get another goal.
        assert achieved.shape == desired.shape == (12, 2) and achieved.dtype == desired.dtype == np.float64
        assert info == [{}] * 12


def bit_flipping(n_bits, **kwargs):
    return gymnasium.make("pavlov/BitFlippingEnv-v0", n_bits=n_bits, **kwargs)


def test_dqn_takes_the_native_environment_and_saves_and_loads_its_buffer(tmp_path):
    made = dict(replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs={"goal_selection_strategy": GoalSelectionStrategy.FINAL})
    model = DQN("MultiInputPolicy", bit_flipping(5), **made, **SMALL).learn(200)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = DQN.load(tmp_path / "model", bit_flipping(5))
    for truncates in (True, False):
        loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=truncates)
        loaded.learn(60, reset_num_timesteps=False)
    obs, _ = bit_flipping(5).reset(seed=0)
    assert loaded.predict(obs, deterministic=True)[0] in range(5)


def test_what_cannot_have_other_goals_is_refused():
    her = dict(replay_buffer_class=HerReplayBuffer, **SMALL)
    with pytest.raises((ValueError, TypeError), match="without goals"):
        DQN("MlpPolicy", "CartPole-v1", **her).learn(30)
    with pytest.raises(ValueError, match="infos are not stored"):
        SAC("MultiInputPolicy", Line(), **her, replay_buffer_kwargs={"copy_info_dict": True})
    with pytest.raises(ValueError, match="give `replay_buffer_class=HerReplayBuffer`"):
        SAC("MultiInputPolicy", Line(), replay_buffer_kwargs=KWARGS, **SMALL)
    with pytest.raises(ValueError, match="HerReplayBuffer, or None"):
        SAC("MultiInputPolicy", Line(), replay_buffer_class=Line, **SMALL)
    with pytest.raises(ValueError, match="n_steps"):
        SAC("MultiInputPolicy", Line(), n_steps=3, **her).learn(30)
    with pytest.raises(TypeError, match="no argument|replay_buffer_class"):
        PPO("MultiInputPolicy", Line(), replay_buffer_class=HerReplayBuffer)
    with pytest.raises(TypeError, match="given as a class"):
        HerReplayBuffer()


def test_wrappers_that_change_observations_or_rewards_are_refused():
    her = dict(replay_buffer_class=HerReplayBuffer, **SMALL)
    halved = gymnasium.wrappers.TransformReward(Line(), lambda reward: reward / 2)
    with pytest.raises(ValueError, match="changes observations or rewards"):
        SAC("MultiInputPolicy", halved, **her).learn(30)
    with pytest.raises(ValueError, match="changes observations or rewards"):
        SAC("MultiInputPolicy", VecNormalize(DummyVecEnv([Line]), norm_obs=False), **her).learn(30)
