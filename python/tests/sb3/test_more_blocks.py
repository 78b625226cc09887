"""Blocks 11 to 20: dictionaries, callbacks, schedules, normalisation, environments of one's own, pictures."""

import os

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import A2C, PPO, SAC, TQC, MaskablePPO, RecurrentPPO
from pavlov_rl.common import results_plotter
from pavlov_rl.common.action_masks import ActionMasker, get_action_masks
from pavlov_rl.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from pavlov_rl.common.env_checker import check_env
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv, VecNormalize


class Both(gym.Env):
    """Observations of several parts, and two actions."""

    observation_space = spaces.Dict({"vec": spaces.Box(-1.0, 1.0, (5,)), "flag": spaces.Discrete(2)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.left = 20
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), float(action), False, self.left == 0, {}

    def action_masks(self):
        return [True, True]


def test_11_dictionaries(steps):
    model = PPO("MultiInputPolicy", Both(), verbose=1, n_steps=64)
    model.learn(total_timesteps=steps(10_000))


class SaveOnBestTrainingRewardCallback(BaseCallback):
    def __init__(self, check_freq: int, log_dir: str, verbose: int = 1):
        super().__init__(verbose)
        self.check_freq = check_freq
        self.log_dir = log_dir
        self.save_path = os.path.join(log_dir, "best_model")
        self.best_mean_reward = -np.inf

    def _init_callback(self) -> None:
        os.makedirs(self.save_path, exist_ok=True)

    def _on_step(self) -> bool:
        if self.n_calls % self.check_freq == 0:
            pytest.importorskip("pandas")
            x, y = results_plotter.ts2xy(results_plotter.load_results(self.log_dir), "timesteps")
            if len(x) > 0 and np.mean(y[-100:]) > self.best_mean_reward:
                self.best_mean_reward = np.mean(y[-100:])
                self.model.save(self.save_path)
        return True


def test_12_a_callback_that_keeps_the_best_model(steps):
    os.makedirs("logs", exist_ok=True)
    env = Monitor(gym.make("LunarLanderContinuous-v3"), "logs")
    model = PPO("MlpPolicy", env, n_steps=64)
    model.learn(total_timesteps=steps(10_000), callback=SaveOnBestTrainingRewardCallback(100, "logs"))


def test_13_callbacks_in_a_list(steps):
    checkpoint = CheckpointCallback(save_freq=100, save_path="./logs/")
    evaluates = EvalCallback(
        gym.make("Pendulum-v1"), best_model_save_path="./logs/best_model", log_path="./logs/results", eval_freq=100,
        n_eval_episodes=1,
    )
    model = SAC("MlpPolicy", "Pendulum-v1")
    model.learn(steps(5000), callback=CallbackList([checkpoint, evaluates]))
    assert os.path.isfile("logs/best_model/best_model.zip") and os.path.isfile("logs/rl_model_100_steps.zip")


def test_14_stop_at_a_threshold(steps):
    eval_env = gym.make("Pendulum-v1")
    stops = StopTrainingOnRewardThreshold(reward_threshold=-200, verbose=1)
    evaluates = EvalCallback(eval_env, callback_on_new_best=stops, verbose=1, eval_freq=100, n_eval_episodes=1)
    model = SAC("MlpPolicy", "Pendulum-v1", verbose=1)
    model.learn(steps(10_000), callback=evaluates)


def test_15_counts(steps):
    saves = CheckpointCallback(save_freq=1, save_path="./logs/")
    model = PPO("MlpPolicy", "Pendulum-v1", verbose=1, n_steps=64)
    model.learn(steps(20_000), callback=EveryNTimesteps(n_steps=100, callback=saves))
    stops = StopTrainingOnMaxEpisodes(max_episodes=5, verbose=1)
    A2C("MlpPolicy", "Pendulum-v1", verbose=1).learn(int(1e10), callback=stops)


def linear_schedule(initial_value: float):
    def func(progress_remaining: float) -> float:
        return progress_remaining * initial_value

    return func


def test_16_schedules(steps):
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=linear_schedule(0.001), verbose=1, n_steps=64)
    model.learn(total_timesteps=steps(20_000))
    model.learn(total_timesteps=steps(10_000), reset_num_timesteps=True)
    model.learn(total_timesteps=steps(10_000), reset_num_timesteps=False)


def test_17_normalisation(steps):
    vec_env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=1), norm_obs=True, norm_reward=True, clip_obs=10.0)
    model = PPO("MlpPolicy", vec_env, n_steps=64)
    model.learn(total_timesteps=steps(2000))
    model.save("ppo_pendulum")
    vec_env.save("vec_normalize.pkl")
    del model, vec_env
    vec_env = VecNormalize.load("vec_normalize.pkl", make_vec_env("Pendulum-v1", n_envs=1))
    vec_env.training = False
    vec_env.norm_reward = False
    model = PPO.load("ppo_pendulum", env=vec_env)
    evaluate_policy(model, vec_env, n_eval_episodes=1)


def test_18_the_buffer_and_the_policy_apart(steps):
    model = SAC("MlpPolicy", "Pendulum-v1", verbose=1, train_freq=1, gradient_steps=2)
    model.learn(total_timesteps=steps(6000))
    model.save("sac_pendulum")
    loaded = SAC.load("sac_pendulum")
    model.save_replay_buffer("sac_replay_buffer")
    loaded.load_replay_buffer("sac_replay_buffer")
    env = model.get_env()
    mean_reward, _ = evaluate_policy(model.policy, env, n_eval_episodes=2, deterministic=True)
    assert np.isfinite(mean_reward)


class GoLeft(gym.Env):
    metadata = {"render_modes": ["console"]}

    def __init__(self, grid_size=10, render_mode="console"):
        super().__init__()
        self.render_mode = render_mode
        self.grid_size = grid_size
        self.agent_pos = grid_size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(low=0, high=self.grid_size, shape=(1,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.agent_pos = self.grid_size - 1
        return np.array([self.agent_pos]).astype(np.float32), {}

    def step(self, action):
        self.agent_pos = int(np.clip(self.agent_pos + (-1 if action == 0 else 1), 0, self.grid_size))
        terminated = bool(self.agent_pos == 0)
        reward = 1 if terminated else 0
        return np.array([self.agent_pos]).astype(np.float32), reward, terminated, False, {}

    def render(self):
        pass


def test_19_an_environment_of_ones_own(steps):
    check_env(GoLeft(), warn=True)
    vec_env = make_vec_env(GoLeft, n_envs=1, env_kwargs={"grid_size": 10})
    model = A2C("MlpPolicy", vec_env, verbose=1).learn(steps(5000))
    obs = vec_env.reset()
    for _ in range(20):
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, info = vec_env.step(action)


def test_20_pictures(steps):
    model = A2C("MlpPolicy", "LunarLander-v3").learn(steps(10_000))
    images = []
    obs = model.env.reset()
    img = model.env.render(mode="rgb_array")
    for _ in range(20):
        images.append(img)
        action, _ = model.predict(obs)
        obs, _, _, _ = model.env.step(action)
        img = model.env.render(mode="rgb_array")
    assert all(img.dtype == np.uint8 and img.shape[2] == 3 for img in images)


def test_contrib_tqc(steps):
    model = TQC("MlpPolicy", "Pendulum-v1", top_quantiles_to_drop_per_net=2, verbose=1, policy_kwargs=dict(n_critics=2))
    model.learn(total_timesteps=steps(10_000), log_interval=4)
    model.save("tqc_pendulum")
    assert TQC.load("tqc_pendulum").arguments["top_quantiles_to_drop_per_net"] == 2


def test_contrib_recurrent(steps):
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", verbose=1)
    model.learn(steps(5000))
    vec_env = model.get_env()
    evaluate_policy(model, vec_env, n_eval_episodes=3, warn=False)
    obs = vec_env.reset()
    lstm_states = None
    episode_starts = np.ones((1,), dtype=bool)
    for _ in range(50):
        action, lstm_states = model.predict(obs, state=lstm_states, episode_start=episode_starts, deterministic=True)
        obs, rewards, dones, info = vec_env.step(action)
        episode_starts = dones


def test_contrib_masks(steps):
    env = ActionMasker(Both(), lambda env: env.unwrapped.action_masks())
    model = MaskablePPO("MultiInputPolicy", env, n_steps=64, gamma=0.4, seed=32, verbose=1)
    model.learn(steps(5000))
    model.save("ppo_mask")
    model = MaskablePPO.load("ppo_mask")
    obs, _ = env.reset()
    for _ in range(10):
        action, _states = model.predict(obs, action_masks=get_action_masks(env))
        obs, reward, terminated, truncated, info = env.step(action)
    vec = DummyVecEnv([Both])
    assert get_action_masks(vec).shape == (1, 2)
