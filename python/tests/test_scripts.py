"""Habits of public scripts that no other file tests. The values are those of Stable-Baselines3 2.9.2."""

import json
import os
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import A2C, DDPG, DQN, PPO, SAC, TD3
from pavlov_rl.common.callbacks import BaseCallback
from pavlov_rl.common.noise import NormalActionNoise
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}, "seed": 0}
REPLAY = {"learning_starts": 10, "batch_size": 16, "buffer_size": 500, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


@pytest.mark.parametrize("cls", [TD3, DDPG])
def test_the_noise_of_actions_is_for_learning_and_predict_adds_none(cls, tmp_path):
    model = cls("MlpPolicy", "Pendulum-v1", action_noise=NormalActionNoise(0.0, 0.3), **REPLAY).learn(40)
    model.save(tmp_path / "model")
    obs = np.array([1.0, 0.0, 0.0], np.float32)
    for each in (model, cls.load(tmp_path / "model")):
        assert len({float(each.predict(obs)[0][0]) for _ in range(10)}) == 1


def test_a_fresh_dqn_acts_by_its_network_and_exploration_rate_tells_how_it_explores():
    model = DQN("MlpPolicy", "CartPole-v1", exploration_fraction=0.5, exploration_final_eps=0.1, **REPLAY)
    obs = np.zeros(4, np.float32)
    assert model.exploration_rate == 0.0 and len({int(model.predict(obs)[0]) for _ in range(30)}) == 1
    rates = []
    model.learn(100, callback=lambda local, _: rates.append(local["self"].exploration_rate) or True)
    # 1 - 0.9 * step / 50, until 0.1 is reached.
    assert rates[:3] == pytest.approx([1.0, 0.982, 0.964]) and rates[-1] == pytest.approx(0.1)
    with pytest.raises(AttributeError, match="assign `exploration_initial_eps`"):
        model.exploration_rate = 0.5


class Scaled(gymnasium.Wrapper):
    """Its rewards are multiplied."""

    def __init__(self, env):
        super().__init__(env)
        self.coef = 1.0

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, reward * self.coef, *rest


@pytest.mark.parametrize("vector", [DummyVecEnv, lambda makes: SubprocVecEnv(makes, "fork")])
def test_set_attr_sets_the_attribute_of_the_wrapper_that_has_it(vector):
    envs = vector([lambda: Scaled(gymnasium.make("CartPole-v1"))] * 2)
    envs.reset()
    envs.set_attr("coef", 0.25, indices=[1])
    assert envs.step(np.array([0, 0]))[1].tolist() == [1.0, 0.25]
    assert envs.get_attr("coef") == [1.0, 0.25]
    envs.close()


def test_the_directory_of_a_run_is_not_taken_by_another_one(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64, out=tmp_path / "run")
    with pytest.raises(pavlov_rl.ConfigError, match=r"already contains a run; .*or continue that run with PPO\.resume\("):
        PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64, out=tmp_path / "run")
    # The model whose run it is continues it, in another environment too.
    model.set_env(gymnasium.make("CartPole-v1"))
    model.learn(64, reset_num_timesteps=False, out=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "result.json").read_text().splitlines()]
    assert [row["timesteps_total"] for row in rows] == [32, 64, 96, 128]


def test_a_run_that_was_killed_before_its_first_checkpoint_has_each_row_once(tmp_path):
    script = "import sys; from pavlov_rl import PPO; "
    script += f"PPO('MlpPolicy', 'CartPole-v1', **{SMALL!r}).learn(320, callback=lambda local, _: "
    script += "local['self'].num_timesteps < 160 or __import__('os').kill(__import__('os').getpid(), 9), "
    script += "out=sys.argv[1], checkpoint_freq=100)"
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")])
    assert killed.returncode == -signal.SIGKILL
    resumed = PPO.resume(tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "result.json").read_text().splitlines()]
    assert [row["timesteps_total"] for row in rows] == list(range(32, 352, 32))
    assert len([name for name in os.listdir(tmp_path / "run") if name.startswith("events.out")]) == 1
    assert weights(resumed) == weights(PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(320))


class Keeps(BaseCallback):
    """Keeps what the logger has at the start of each rollout."""

    def __init__(self, name):
        super().__init__()
        self.name, self.seen = name, []

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        self.seen.append(self.logger.name_to_value.get(self.name))


def test_tables_have_the_number_of_updates_and_the_learning_rate():
    updates = Keeps("train/n_updates")
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(96, callback=updates)
    assert updates.seen[1:] == [2, 4]
    rate = Keeps("train/learning_rate")
    SAC("MlpPolicy", "Pendulum-v1", **REPLAY).learn(200, callback=rate)
    assert rate.seen[-1] == 3e-4


def test_a2c_prints_a_table_after_a_hundred_rollouts(capsys):
    A2C("MlpPolicy", "CartPole-v1", verbose=1, seed=0).learn(1_000)
    assert capsys.readouterr().out.count("total_timesteps") == 2


def test_a_first_run_that_counts_on_logs_to_a_directory_of_its_own_as_there(tmp_path):
    PPO("MlpPolicy", "CartPole-v1", tensorboard_log=str(tmp_path), **SMALL).learn(32, reset_num_timesteps=False)
    assert os.listdir(tmp_path) == ["PPO_0"]


def test_a_class_with_a_method_that_nothing_would_call_is_refused():
    with pytest.raises(TypeError, match="Own has its own `train`, but models learn in Rust"):

        class Own(PPO):
            def train(self):
                pass


def test_callbacks_find_the_environment_in_their_locals():
    seen = []
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32, callback=lambda local, _: seen.append(local["env"].num_envs) or True)
    assert set(seen) == {1}


def test_td3_takes_the_number_of_critics_that_it_has():
    TD3("MlpPolicy", "Pendulum-v1", **{**REPLAY, "policy_kwargs": {"n_critics": 2}})
    with pytest.raises(pavlov_rl.ArgumentError, match="`n_critics` of TD3 is 1, but there are two critics here"):
        TD3("MlpPolicy", "Pendulum-v1", policy_kwargs={"n_critics": 1})
