"""Policies of runs and packed models that act in Python."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import pavlov_rl

SMALL = ["num_workers=0", "train_batch_size=64", "sgd_minibatch_size=32", "num_sgd_iter=1", "model.fcnet_hiddens=[8]"]


def command(*words):
    done = subprocess.run([sys.executable, "-m", "pavlov_rl", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def trained(home, env, *settings):
    """A run directory of the command, and the packed model of its policy."""
    run, pack = home / "run", home / "policy.pavlov"
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    command("train", "PPO", "--env", env, "--out", run, "--stop", "training_iteration=2", "--quiet", *chosen)
    command("pack", run, pack)
    return run, pack


@pytest.mark.parametrize("settings", [[], ["model.use_lstm=true"]])
def test_a_run_and_its_packed_model_choose_the_same_actions_step_after_step(tmp_path, settings):
    policies = [pavlov_rl.load_policy(path) for path in trained(tmp_path, "CartPole-v1", *settings)]
    rng = np.random.default_rng(0)
    for copies in (None, 3):
        states = [None, None]
        for step in range(20):
            shape = (4,) if copies is None else (copies, 4)
            obs = rng.normal(size=shape).astype(np.float32)
            starts = None if step != 10 else np.ones(copies or 1, bool)
            chosen = []
            for i, policy in enumerate(policies):
                action, states[i] = policy.predict(obs, states[i], starts, deterministic=True)
                chosen.append(action)
            assert np.array_equal(*chosen) and chosen[0].shape == shape[:-1]
            assert policies[0].is_recurrent == bool(settings) == (states[0] is not None)


def test_a_masked_policy_chooses_only_legal_actions_and_drawn_ones_differ(tmp_path):
    _, pack = trained(tmp_path, "Taxi-v4", "mask_actions=true")
    policy = pavlov_rl.load_policy(str(pack))
    assert policy.observation_space == gymnasium.spaces.Discrete(500) and policy.action_space.n == 6
    legal = np.array([False, True, False, True, False, False])
    drawn = {int(policy.predict(7, action_masks=legal)[0]) for _ in range(60)}
    assert drawn == {1, 3}


@pytest.mark.parametrize("algorithm", ["DDPG", "TD3"])
def test_noise_of_training_is_left_out_of_predict(tmp_path, algorithm):
    run, pack = tmp_path / "run", tmp_path / "policy.pavlov"
    settings = ["num_workers=0", "replay_buffer_config.learning_starts=10", "train_batch_size=8", "min_sample_timesteps_per_reporting=40"]
    chosen = [word for setting in settings for word in ("--set", setting)]
    command("train", algorithm, "--env", "Pendulum-v1", "--out", run, "--stop", "training_iteration=1", "--quiet", *chosen)
    command("pack", run, pack)
    for path in (run, pack):
        policy = pavlov_rl.load_policy(path)
        obs = np.array([1.0, 0.0, 0.5], np.float32)
        actions = {float(policy.predict(obs, deterministic=best)[0][0]) for best in [True] + [False] * 20}
        assert len(actions) == 1, path


def test_a_box_of_actions_has_the_shape_and_the_bounds_of_the_environment(tmp_path):
    run, _ = trained(tmp_path, "Pendulum-v1")
    env = gymnasium.make("Pendulum-v1")
    policy = pavlov_rl.load_policy(run)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        action, _ = policy.predict(obs)
        assert action.dtype == np.float32 and env.action_space.contains(action)
        obs = env.step(action)[0]


def test_what_is_no_policy_and_a_packed_model_that_is_to_be_trained_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(pavlov_rl.PavlovError, match="no such directory"):
        pavlov_rl.load_policy(tmp_path / "none")
    _, pack = trained(tmp_path, "CartPole-v1")
    with pytest.raises(pavlov_rl.CheckpointError, match="load_policy"):
        pavlov_rl.load(pack)
    policy = pavlov_rl.load_policy(pack)
    with pytest.raises(ValueError, match=r"shape \(5,\), but it must be \(4,\)"):
        policy.predict(np.zeros(5))
