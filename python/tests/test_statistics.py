"""What the table, files and buffers of a model tell of episodes, and when the logger has it.

The numbers are those of Stable-Baselines3 2.9.2, with the same environment and arguments.
"""

import csv

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import PPO
from pavlov_rl.common.callbacks import BaseCallback
from pavlov_rl.common.logger import configure
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

SMALL = {"batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Clock(gymnasium.Env):
    """Pays 2 for each of ten steps; each fourth episode is a success."""

    observation_space = spaces.Box(0.0, 100.0, (1,))
    action_space = spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.episodes += 1
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        ends = self.time == 10
        info = {"is_success": self.episodes % 4 == 0} if ends else {}
        return np.array([float(self.time)], np.float32), 2.0, False, ends, info


def halved(env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward / 2)


def columns(path):
    names = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate")
    with open(path / "progress.csv") as file:
        return [tuple(float(row[name]) if row.get(name) else None for name in names) for row in csv.DictReader(file)]


ONE_COPY = [1 / 6, 0.25, 4 / 19, 0.24]
SCALED_SUMS = [5.941357, 4.800953, 4.380487, 4.207468]


@pytest.mark.parametrize("hooks", [None, lambda *_: True])
@pytest.mark.parametrize(
    ("make", "means", "rates"),
    [
        (Clock, [20.0] * 4, ONE_COPY),
        (lambda: halved(Clock()), [10.0] * 4, ONE_COPY),
        (lambda: halved(Monitor(Clock())), [20.0] * 4, ONE_COPY),
        (lambda: VecNormalize(DummyVecEnv([lambda: Monitor(Clock())] * 2)), [20.0] * 4, [0.0, 1 / 6, 4 / 18, 0.25]),
        # Nothing tells of the rewards before they were scaled.
        (lambda: VecNormalize(DummyVecEnv([Clock])), [None] * 4, ONE_COPY),
        (lambda: VecMonitor(VecNormalize(DummyVecEnv([Clock]), norm_obs=False)), SCALED_SUMS, ONE_COPY),
    ],
)
def test_sums_are_those_of_the_monitor(make, means, rates, hooks, tmp_path):
    envs = make()
    model = PPO("MlpPolicy", envs, n_steps=64 // getattr(envs, "num_envs", 1), **SMALL)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(256, callback=hooks)
    lengths = [None if mean is None else 10.0 for mean in means]
    for found, wanted in zip(columns(tmp_path), zip(means, lengths, rates), strict=True):
        assert found == tuple(value if value is None else pytest.approx(value, abs=1e-6) for value in wanted)
    told = [(episode["r"], episode["l"]) for episode in model.ep_info_buffer]
    assert len(told) == (0 if means[0] is None else 24 if model.n_envs == 2 else 25)
    assert len(model.ep_success_buffer) == (24 if model.n_envs == 2 else 25)


def test_processes_and_vectors_of_gymnasium_tell_of_episodes():
    envs = SubprocVecEnv([lambda: Monitor(Clock())])
    model = PPO("MlpPolicy", VecNormalize(envs), n_steps=64, **SMALL).learn(64)
    envs.close()
    assert [episode["r"] for episode in model.ep_info_buffer] == [20.0] * 6 and sum(model.ep_success_buffer) == 1
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    for make in (Clock, lambda: halved(gymnasium.wrappers.RecordEpisodeStatistics(Clock()))):
        envs = gymnasium.vector.SyncVectorEnv([make, make], autoreset_mode=mode)
        for hooks in (None, lambda *_: True):
            model = PPO("MlpPolicy", envs, n_steps=32, **SMALL).learn(64, callback=hooks)
            assert [(episode["r"], episode["l"]) for episode in model.ep_info_buffer] == [(20.0, 10)] * 6
            assert len(model.ep_success_buffer) == 6


def test_episodes_of_native_copies_are_told_without_a_callback_and_in_every_call_of_learn():
    small = SMALL | {"n_steps": 64}
    kept = []
    for hooks in (None, lambda *_: True):
        model = PPO("MlpPolicy", "CartPole-v1", **small).learn(256, callback=hooks)
        first = len(model.ep_info_buffer)
        model.learn(256, callback=hooks, reset_num_timesteps=False)
        kept.append([(episode["r"], episode["l"]) for episode in model.ep_info_buffer])
        assert 0 < first < len(kept[-1]) and all(total == length for total, length in kept[-1])
        # The episode that ran from one call into the other is whole.
        assert 512 - 60 < sum(length for _, length in kept[-1]) <= 512
        model.learn(64, callback=hooks)
        assert len(model.ep_info_buffer) < 10
    assert kept[0] == kept[1]


class Looks(BaseCallback):
    """When `train/loss` is in the logger."""

    def __init__(self):
        super().__init__()
        self.steps, self.starts, self.ends, self.losses = [], [], [], []

    def has_loss(self):
        return "train/loss" in self.logger.name_to_value

    def _on_rollout_start(self):
        self.starts.append(self.has_loss())

    def _on_step(self):
        self.steps.append(self.has_loss())
        return True

    def _on_rollout_end(self):
        self.ends.append(self.has_loss())
        self.losses.append(self.logger.name_to_value["train/loss"])


def test_hooks_find_in_the_logger_what_the_update_before_their_rollout_told():
    looks = Looks()
    model = PPO("MlpPolicy", Clock(), n_steps=64, **SMALL).learn(256, callback=looks)
    assert looks.starts == looks.ends == [False, True, True, True]
    assert looks.steps == [False] * 64 + [True] * 192
    assert looks.losses[0] == 0.0 and len(set(looks.losses)) == 4
    # The last update is in no table; scripts read it when `learn` is done.
    assert model.logger.name_to_value["train/loss"] not in looks.losses
