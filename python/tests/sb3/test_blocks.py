"""Blocks 1 to 10: quickstart, the pages of the algorithms, vectors."""

import gymnasium as gym
import numpy as np

from pavlov_rl import A2C, DDPG, DQN, PPO, SAC, TD3
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from pavlov_rl.common.utils import set_random_seed
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv


def test_1_quickstart(steps):
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    model = A2C("MlpPolicy", env, verbose=1)
    model.learn(total_timesteps=steps(10_000))
    vec_env = model.get_env()
    obs = vec_env.reset()
    for _ in range(100):
        action, _state = model.predict(obs, deterministic=True)
        obs, reward, done, info = vec_env.step(action)
        vec_env.render("rgb_array")


def test_2_one_expression(steps):
    model = A2C("MlpPolicy", "CartPole-v1").learn(steps(10000))
    assert isinstance(model, A2C)


def test_3_ppo(steps):
    vec_env = make_vec_env("CartPole-v1", n_envs=4)
    model = PPO("MlpPolicy", vec_env, verbose=1)
    model.learn(total_timesteps=steps(25000))
    model.save("ppo_cartpole")
    del model
    model = PPO.load("ppo_cartpole")
    obs = vec_env.reset()
    for _ in range(100):
        action, _states = model.predict(obs)
        obs, rewards, dones, info = vec_env.step(action)


def test_4_dqn(steps):
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    model = DQN("MlpPolicy", env, verbose=1)
    model.learn(total_timesteps=steps(10000), log_interval=4)
    model.save("dqn_cartpole")
    del model
    model = DQN.load("dqn_cartpole")
    obs, info = env.reset()
    for _ in range(100):
        action, _states = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            obs, info = env.reset()


def test_5_sac(steps):
    env = gym.make("Pendulum-v1", render_mode="rgb_array")
    model = SAC("MlpPolicy", env, verbose=1)
    model.learn(total_timesteps=steps(10000), log_interval=4)
    model.save("sac_pendulum")
    del model
    model = SAC.load("sac_pendulum")
    obs, info = env.reset()
    for _ in range(20):
        action, _states = model.predict(obs, deterministic=True)
        obs, reward, terminated, truncated, info = env.step(action)


def test_6_td3(steps):
    env = gym.make("Pendulum-v1", render_mode="rgb_array")
    n_actions = env.action_space.shape[-1]
    action_noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
    model = TD3("MlpPolicy", env, action_noise=action_noise, verbose=1)
    model.learn(total_timesteps=steps(10000), log_interval=10)
    model.save("td3_pendulum")
    vec_env = model.get_env()
    del model
    model = TD3.load("td3_pendulum")
    obs = vec_env.reset()
    for _ in range(20):
        action, _states = model.predict(obs)
        obs, rewards, dones, info = vec_env.step(action)


def test_7_ddpg(steps):
    env = gym.make("Pendulum-v1")
    n_actions = env.action_space.shape[-1]
    action_noise = OrnsteinUhlenbeckActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
    model = DDPG("MlpPolicy", env, action_noise=action_noise, verbose=1)
    model.learn(total_timesteps=steps(10000), log_interval=10)
    model.save("ddpg_pendulum")
    assert DDPG.load("ddpg_pendulum", env=env).num_timesteps == steps(10000)


def test_8_evaluate_a_loaded_model(steps):
    env = gym.make("LunarLander-v3", render_mode="rgb_array")
    model = DQN("MlpPolicy", env, verbose=1)
    model.learn(total_timesteps=steps(20000), progress_bar=True)
    model.save("dqn_lunar")
    del model
    model = DQN.load("dqn_lunar", env=env)
    mean_reward, std_reward = evaluate_policy(model, model.get_env(), n_eval_episodes=2)
    assert np.isfinite([mean_reward, std_reward]).all()


def make_env(env_id: str, rank: int, seed: int = 0):
    def _init():
        env = gym.make(env_id, render_mode="rgb_array")
        env.reset(seed=seed + rank)
        return env

    set_random_seed(seed)
    return _init


def test_9_processes(steps):
    vec_env = SubprocVecEnv([make_env("CartPole-v1", i) for i in range(2)])
    model = PPO("MlpPolicy", vec_env, verbose=1, n_steps=64)
    model.learn(total_timesteps=steps(25_000))
    obs = vec_env.reset()
    for _ in range(20):
        action, _states = model.predict(obs)
        obs, rewards, dones, info = vec_env.step(action)
    vec_env.close()


def test_10_many_copies_and_several_updates(steps):
    vec_env = make_vec_env("Pendulum-v1", n_envs=4, seed=0)
    model = SAC("MlpPolicy", vec_env, train_freq=1, gradient_steps=2, verbose=1)
    model.learn(total_timesteps=steps(10_000))
    same = make_vec_env("Pendulum-v1", n_envs=2, vec_env_cls=DummyVecEnv)
    assert same.reset().shape == (2, 3)
