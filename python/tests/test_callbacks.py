"""Callbacks, evaluation and loggers, as scripts for Stable-Baselines3 use them."""

import json
import os

import gymnasium
import numpy as np
import pytest

from pavlov_rl import PPO, SAC
from pavlov_rl.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.logger import configure
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import NativeVecEnv

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Events(BaseCallback):
    def __init__(self, verbose=0):
        super(Events, self).__init__(verbose)
        self.events = []

    def _init_callback(self):
        self.events.append("init")

    def _on_training_start(self):
        self.events.append("training start")

    def _on_rollout_start(self):
        self.events.append("rollout start")

    def _on_step(self):
        self.events.append("step")
        self.logger.record("mine/calls", self.n_calls)
        assert self.training_env.num_envs == 2 and self.model.num_timesteps == self.num_timesteps
        return True

    def _on_rollout_end(self):
        self.events.append("rollout end")

    def _on_training_end(self):
        self.events.append("training end")


def test_events_come_in_the_order_of_stable_baselines():
    events = Events()
    PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2), **SMALL).learn(128, callback=events)
    rollout = ["rollout start", *["step"] * 32, "rollout end"]
    assert events.events == ["init", "training start", *rollout, *rollout, "training end"]
    assert events.n_calls == 64 and events.num_timesteps == 128


def test_native_steps_are_told_as_the_environment_took_them():
    class Told(BaseCallback):
        def _on_step(self):
            seen.append({name: self.locals[name] for name in ("new_obs", "rewards", "dones", "infos", "actions")})
            return True

    seen = []
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(320, callback=Told())
    env = gymnasium.make("CartPole-v1")
    ended = [step for step in seen if step["dones"][0]]
    assert len(seen) == 320 and len(ended) >= 5
    length = 0
    obs = None
    for step in seen:
        if obs is not None:
            # The state of CartPole is its observation.
            env.reset()
            env.unwrapped.state = tuple(np.float64(obs))
            expected, *_ = env.step(int(step["actions"][0]))
            found = step["infos"][0]["terminal_observation"] if step["dones"][0] else step["new_obs"][0]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        length += 1
        if step["dones"][0]:
            assert step["infos"][0]["episode"]["l"] == length == step["infos"][0]["episode"]["r"]
            length = 0
        obs = step["new_obs"][0]


def test_another_name_in_locals_is_an_error_that_lists_them():
    class Asks(BaseCallback):
        def _on_step(self):
            return bool(self.locals["advantages"])

    with pytest.raises(KeyError, match="new_obs"):
        PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32, callback=Asks())


def test_evaluations_are_written_and_the_best_model_is_kept(tmp_path):
    evaluates = EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")),
        best_model_save_path=str(tmp_path),
        log_path=str(tmp_path),
        eval_freq=64,
        n_eval_episodes=3,
        verbose=0,
    )
    saves = CheckpointCallback(save_freq=100, save_path=str(tmp_path), name_prefix="model")
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(320, callback=[evaluates, saves])
    with np.load(tmp_path / "evaluations.npz") as found:
        assert found["timesteps"].tolist() == [64, 128, 192, 256, 320]
        assert found["results"].shape == found["ep_lengths"].shape == (5, 3)
    best = PPO.load(tmp_path / "best_model")
    mean, _ = evaluate_policy(best, "CartPole-v1", n_eval_episodes=5)
    assert mean > 0
    names = {name for name in os.listdir(tmp_path) if name.startswith("model_")}
    assert names == {"model_100_steps.zip", "model_200_steps.zip", "model_300_steps.zip"}


def test_training_ends_at_a_threshold_and_without_improvement():
    for new_best, after in (
        (StopTrainingOnRewardThreshold(reward_threshold=1.0), None),
        (None, StopTrainingOnNoModelImprovement(max_no_improvement_evals=0, min_evals=0)),
    ):
        evaluates = EvalCallback("CartPole-v1", new_best, after, eval_freq=32, n_eval_episodes=2, verbose=0)
        model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32 * 1000, callback=evaluates)
        assert model.num_timesteps < 32 * 1000


def test_training_ends_after_some_episodes_and_every_so_many_steps_something_happens():
    counts = []

    class Counts(BaseCallback):
        def _on_step(self):
            counts.append(self.num_timesteps)
            return True

    hooks = CallbackList([EveryNTimesteps(50, Counts()), StopTrainingOnMaxEpisodes(10)])
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(100_000, callback=hooks)
    assert counts[:3] == [50, 100, 150] and model.num_timesteps < 2000


def test_a_function_is_a_callback():
    calls = []
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32, callback=lambda local, _: calls.append(local["rewards"]) or True)
    assert len(calls) == 32


def test_a_callback_may_use_and_change_the_model_while_an_off_policy_model_learns():
    class Uses(BaseCallback):
        def _on_step(self):
            if self.n_calls == 150:
                self.model.set_parameters(self.model.get_parameters())
                self.model.predict(self.locals["new_obs"])
            return True

    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=50, buffer_size=1000, batch_size=16, seed=0)
    assert model.learn(200, callback=Uses()).num_timesteps == 200


def test_tags_of_tensorboard_and_csv_are_those_of_stable_baselines(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1", tensorboard_log=str(tmp_path / "board"), **SMALL)
    model.learn(320, tb_log_name="first").learn(320, tb_log_name="first")
    assert sorted(os.listdir(tmp_path / "board")) == ["first_1", "first_2"]
    (events,) = os.listdir(tmp_path / "board" / "first_1")
    content = (tmp_path / "board" / "first_1" / events).read_bytes()
    for tag in (b"rollout/ep_rew_mean", b"train/loss", b"train/approx_kl", b"time/fps"):
        assert tag in content
    model.set_logger(configure(str(tmp_path / "csv"), ["csv"]))
    model.learn(320)
    header = (tmp_path / "csv" / "progress.csv").read_text().splitlines()[0]
    assert "rollout/ep_len_mean" in header and "train/value_loss" in header


def test_native_vectors_have_both_faces():
    envs = make_vec_env("CartPole-v1", n_envs=3, seed=0)
    assert isinstance(envs, NativeVecEnv)
    obs = envs.reset()
    assert obs.shape == (3, 4)
    for _ in range(100):
        obs, rewards, dones, infos = envs.step([envs.action_space.sample() for _ in range(3)])
        for copy in np.flatnonzero(dones):
            assert infos[copy]["terminal_observation"].shape == (4,)
            assert infos[copy]["episode"]["l"] == infos[copy]["episode"]["r"]


def test_monitors_write_files_that_are_read_again(tmp_path):
    env = Monitor(gymnasium.make("CartPole-v1"), str(tmp_path))
    PPO("MlpPolicy", env, **SMALL).learn(320)
    lines = (tmp_path / "monitor.csv").read_text().splitlines()
    assert json.loads(lines[0][1:])["env_id"] == "CartPole-v1" and lines[1] == "r,l,t"
    assert len(lines) - 2 == len(env.get_episode_rewards()) > 3


def test_evaluation_gives_every_copy_its_share_of_the_episodes():
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    returns, lengths = evaluate_policy(
        model, make_vec_env("CartPole-v1", n_envs=4), n_eval_episodes=10, return_episode_rewards=True
    )
    assert len(returns) == len(lengths) == 10 and returns == lengths


def weights_of(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: CallbackList([each]), lambda each: EveryNTimesteps(1, each)])
def test_a_checkpoint_has_the_steps_of_its_name_and_what_was_learned_before_them(wrap, tmp_path):
    """Stable-Baselines3 2.9.2: files of 40, 80, 120 and 160 steps know of 0, 1, 1 and 2 rollouts of 64 steps."""

    class Rollouts(BaseCallback):
        def _on_rollout_start(self):
            before.append(weights_of(self.model))

        def _on_step(self):
            return True

    before = []
    small = SMALL | {"n_steps": 64}
    model = PPO("MlpPolicy", "CartPole-v1", **small)
    model.learn(192, callback=[wrap(CheckpointCallback(40, str(tmp_path))), Rollouts()])
    for steps, rollouts in ((40, 0), (80, 1), (120, 1), (160, 2)):
        saved = PPO.load(tmp_path / f"rl_model_{steps}_steps")
        assert saved.num_timesteps == steps and weights_of(saved) == before[rollouts]
        assert saved.learn(64, reset_num_timesteps=False).num_timesteps == steps + 64


def test_a_model_that_a_callback_saves_has_the_steps_that_it_has_learned_from(tmp_path):
    class Saves(BaseCallback):
        def _on_step(self):
            if self.n_calls == 40:
                self.model.save(tmp_path / "model")
                kept.append(weights_of(self.model))
            return True

    kept = []
    PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64, callback=Saves())
    saved = PPO.load(tmp_path / "model")
    assert weights_of(saved) == kept[0] and saved.num_timesteps == 64


def test_a_checkpoint_of_an_off_policy_model_has_the_steps_of_its_name(tmp_path):
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=20, buffer_size=500, seed=0)
    model.learn(150, callback=CheckpointCallback(50, str(tmp_path)))
    assert [SAC.load(tmp_path / f"rl_model_{steps}_steps").num_timesteps for steps in (50, 100, 150)] == [50, 100, 150]
