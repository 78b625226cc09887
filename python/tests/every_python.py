"""What each version of Python does with the installed wheel: a program, which `cargo xtask test` runs with all that it finds."""

import pickle
import sys
import tempfile

import gymnasium
import numpy as np

import pavlov_rl
from pavlov_rl import DQN, PPO, SAC
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.vec_env import SubprocVecEnv, VecNormalize

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


def main() -> None:
    native = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64)
    wrapped = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("pavlov/CartPole-v1"))
    in_python = PPO("MlpPolicy", wrapped, **SMALL).learn(64)
    for name, array in native.get_parameters()["policy"].items():
        np.testing.assert_array_equal(array, in_python.get_parameters()["policy"][name])
    with tempfile.TemporaryDirectory() as folder:
        native.save(f"{folder}/model")
        again = PPO.load(f"{folder}/model")
    assert again.learn(64, reset_num_timesteps=False).num_timesteps == 128
    evaluate_policy(again, make_vec_env("CartPole-v1", 2), n_eval_episodes=2)
    DQN("MlpPolicy", "CartPole-v1", learning_starts=8, buffer_size=100).learn(64)
    SAC("MlpPolicy", VecNormalize(make_vec_env("Pendulum-v1", 2)), learning_starts=8, batch_size=8).learn(32)
    envs = make_vec_env("pavlov/CartPole-v1", 2, vec_env_cls=SubprocVecEnv)
    PPO("MlpPolicy", envs, **SMALL).learn(64)
    envs.close()
    vector = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=2)
    vector.reset(seed=0)
    assert np.array_equal(pickle.loads(pickle.dumps(vector)).step([0, 1])[0], vector.step([0, 1])[0])
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"pavlov_rl {pavlov_rl.__version__} learns in Python {version} with gymnasium {gymnasium.__version__}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
