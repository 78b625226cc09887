"""Models on native environments: learning, acting, saving, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import A2C, DDPG, DQN, IMPALA, PPO, SAC, TD3, TQC, RecurrentPPO
from pavlov_rl.common.callbacks import BaseCallback
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}
LITTLE = {"learning_starts": 50, "buffer_size": 1000, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


@pytest.mark.parametrize("cls", [PPO, A2C, IMPALA, DQN])
def test_images_are_seen_by_convolutions(cls, tmp_path):
    arguments = {"buffer_size": 1000, "learning_starts": 50} if cls is DQN else {}
    model = cls("CnnPolicy", "PixelPong-v0", seed=0, policy_kwargs={"net_arch": [16]}, **arguments)
    before = weights(model)
    shapes = {name: array.shape for name, array in model.get_parameters()["policy"].items()}
    # The network of Mnih et al. 2015.
    assert (32, 1, 8, 8) in shapes.values() or (32, 4, 8, 8) in shapes.values(), shapes
    assert (64, 64, 3, 3) in shapes.values() and any(shape[0] == 512 for shape in shapes.values())
    model.learn(150)
    assert weights(model) != before
    obs = model.get_env().reset()
    model.save(tmp_path / "pong")
    action, _ = model.predict(obs, deterministic=True)
    assert (cls.load(tmp_path / "pong").predict(obs, deterministic=True)[0] == action).all()


class Camera(gymnasium.Env):
    """Shows images alone, or with two numbers."""

    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, shape=(36, 36, 3), highest=255, with_numbers=False):
        image = gymnasium.spaces.Box(0, highest, shape, np.uint8)
        numbers = gymnasium.spaces.Box(-1, 1, (2,))
        self.observation_space = gymnasium.spaces.Dict(camera=image, speed=numbers) if with_numbers else image
        self.observation_space.seed(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(0 if seed is None else seed % 2**31)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), float(action[0]), self.steps == 8, False, {}


def sizes(model):
    """Numbers of weights of the actor and of the critics, without target networks."""
    named = model.get_parameters()["policy"].items()
    return tuple(sum(array.size for name, array in named if name.startswith(f"default_policy.{of}")) for of in ("actor.", "q"))


# Numbers of weights of `model.actor` and `model.critic` of Stable-Baselines3 2.9.2 and sb3-contrib 2.9.2 with this space, of which
# `NatureCNN` has 109,216.
@pytest.mark.parametrize(
    ("cls", "actor", "critics"),
    [(SAC, 307_364, 504_994), (TQC, 307_364, 517_330), (TD3, 306_850, 504_994), (DDPG, 306_850, 307_105)],
)
def test_off_policy_models_have_the_convolutions_of_stable_baselines3_of_their_own_or_shared(cls, actor, critics, tmp_path):
    arguments = {"buffer_size": 200, "learning_starts": 10, "batch_size": 4, "seed": 0}
    model = cls("CnnPolicy", Camera(), **arguments)
    assert sizes(model) == (actor, critics)
    shared = cls("CnnPolicy", Camera(), policy_kwargs={"share_features_extractor": True}, **arguments)
    assert sizes(shared) == (actor, critics - 109_216)
    for one in (model, shared):
        before = weights(one)
        one.learn(16)
        assert all(before[name] != bits for name, bits in weights(one).items() if "conv" in name)
    model.save(tmp_path / "model")
    obs = model.observation_space.sample()
    loaded = cls.load(tmp_path / "model")
    assert (loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]).all()


def test_an_image_among_several_parts_has_the_convolutions_of_stable_baselines3():
    arguments = {"buffer_size": 200, "learning_starts": 10, "batch_size": 4, "seed": 0}
    # `NatureCNN` with 256 features has 92,576 weights; the hidden layers read these and two numbers.
    hidden = (258 + 1) * 256 + (256 + 1) * 256
    model = SAC("MultiInputPolicy", Camera(with_numbers=True), **arguments)
    assert sizes(model) == (92_576 + hidden + 257 * 4, 92_576 + 2 * (hidden + 2 * 256 + 257))
    model.learn(16)
    shares = {"share_features_extractor": True}
    model = SAC("MultiInputPolicy", Camera(with_numbers=True), policy_kwargs=shares, **arguments)
    assert sizes(model) == (92_576 + hidden + 257 * 4, 2 * (hidden + 2 * 256 + 257))
    with pytest.raises(pavlov_rl.ConfigError, match="share_features_extractor is True, but with MultiInputPolicy"):
        PPO("MultiInputPolicy", Camera(with_numbers=True), policy_kwargs=shares).learn(16)


def test_bytes_of_a_board_are_predicted_from_as_they_were_learned_from():
    model = SAC("MlpPolicy", Camera((4, 4, 16), highest=1), buffer_size=300, seed=0)
    zeros, ones = (np.full((4, 4, 16), value, np.uint8) for value in (0, 1))
    actions = [model.predict(board, deterministic=True)[0] for board in (zeros, ones)]
    # Divided by 255, a full board would be nearly an empty one.
    assert abs(actions[1] - actions[0]).max() > 0.01


def test_convolutions_are_refused_where_there_is_no_image():
    with pytest.raises(pavlov_rl.ConfigError, match="sees images"):
        PPO("CnnPolicy", "CartPole-v1")
    with pytest.raises(pavlov_rl.ConfigError, match="sees images"):
        SAC("CnnPolicy", "Pendulum-v1")


def test_ppo_balances_the_pole():
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8), n_steps=256, seed=0).learn(120_000)
    mean, _ = evaluate_policy(model, gymnasium.make("CartPole-v1"), n_eval_episodes=20)
    assert mean >= 475


@pytest.mark.parametrize(
    ("cls", "env", "arguments"),
    [
        (PPO, "CartPole-v1", SMALL),
        (PPO, "Pendulum-v1", SMALL),
        (A2C, "CartPole-v1", {"seed": 0, "policy_kwargs": {"net_arch": [8]}}),
        (IMPALA, "CartPole-v1", {"seed": 0, "n_steps": 20}),
        (DQN, "CartPole-v1", LITTLE),
        (SAC, "Pendulum-v1", LITTLE),
        (TD3, "Pendulum-v1", LITTLE),
        (DDPG, "Pendulum-v1", LITTLE),
        (TQC, "Pendulum-v1", LITTLE),
        (RecurrentPPO, "CartPole-v1", SMALL),
    ],
)
def test_every_algorithm_learns_acts_saves_and_goes_on_as_if_it_had_not_stopped(cls, env, arguments, tmp_path):
    model = cls("MlpPolicy", env, **arguments)
    before = weights(model)
    assert model.learn(400) is model
    assert weights(model) != before
    assert 400 <= model.num_timesteps < 400 + 100
    obs, _ = gymnasium.make(env).reset(seed=0)
    action, _ = model.predict(obs, deterministic=True)
    assert model.action_space.contains(np.asarray(action, model.action_space.dtype)[()])
    actions, _ = model.predict(np.stack([obs, obs, obs]), deterministic=True)
    assert actions.shape == (3, *model.action_space.shape)
    np.testing.assert_array_equal(actions[0], action)

    model.save(tmp_path / "model")
    loaded = cls.load(tmp_path / "model.zip")
    assert weights(loaded) == weights(model)
    assert loaded.num_timesteps == model.num_timesteps
    for each in (model, loaded):
        each.learn(200, reset_num_timesteps=False)
    assert weights(loaded) == weights(model)


def test_equal_seeds_give_equal_weights_and_others_do_not():
    one, same, other = (PPO("MlpPolicy", "CartPole-v1", **{**SMALL, "seed": seed}).learn(100) for seed in (1, 1, 2))
    assert weights(one) == weights(same) != weights(other)


def test_a_second_learn_counts_anew_or_goes_on():
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64)
    assert model.learn(64).num_timesteps == 64
    assert model.learn(64, reset_num_timesteps=False).num_timesteps == 128


def test_off_policy_models_learn_for_exactly_the_steps_that_were_asked_for():
    for steps in (37, 250, 1000):
        assert SAC("MlpPolicy", "Pendulum-v1", **LITTLE).learn(steps).num_timesteps == steps


def test_a_run_that_was_killed_goes_on_with_equal_bits(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from pavlov_rl import PPO\n"
        f"model = PPO('MlpPolicy', 'CartPole-v1', **{SMALL!r})\n"
        "model.learn(int(sys.argv[2]), out=sys.argv[1], checkpoint_freq=5)\n"
    )
    total = 32 * 400
    run = subprocess.Popen([sys.executable, str(script), str(tmp_path / "killed"), str(total)])
    checkpoints = tmp_path / "killed"
    while not (checkpoints.is_dir() and sum(name.startswith("checkpoint_") for name in os.listdir(checkpoints)) >= 3):
        assert run.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    resumed = PPO.resume(tmp_path / "killed")
    assert resumed.num_timesteps == total
    whole = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(total, out=tmp_path / "whole")
    assert weights(resumed) == weights(whole)


def test_an_object_of_a_native_id_is_stepped_natively_and_one_in_a_wrapper_is_not(capsys):
    PPO("MlpPolicy", gymnasium.make("CartPole-v1", render_mode="rgb_array"), verbose=1, **SMALL)
    assert "own environment in Rust" in capsys.readouterr().out
    scaled = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward / 2)
    PPO("MlpPolicy", scaled, verbose=1, **SMALL)
    assert "stepped in Python" in capsys.readouterr().out
    PPO("MlpPolicy", gymnasium.make("CartPole-v1", max_episode_steps=50), verbose=1, **SMALL)
    assert "stepped in Python" in capsys.readouterr().out


def test_the_settings_of_an_object_are_those_of_the_native_environment():
    model = PPO("MlpPolicy", gymnasium.make("FrozenLake-v1", is_slippery=False), **SMALL)
    assert model._env.stepper is None and model._env.config == {"is_slippery": False}
    assert json.loads(model.native.config())["env_config"] == {"is_slippery": False}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PPO("MlpPolicy", "CartPole-v1", learning_rat=1e-3), "nearest: `learning_rate`"),
        (lambda: PPO("MlpPolicy", "Pendulum-v1", sde_sample_freq=4), "`use_sde=True`"),
        (lambda: SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"log_std_init": -2}), "`use_sde=True`"),
        (lambda: SAC("MlpPolicy", "Pendulum-v1", use_sde_at_warmup=True), "`use_sde=True`"),
        (lambda: PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arc": [8]}), "nearest: `net_arch`"),
        (lambda: PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"features_extractor_class": int}), "Rust"),
        (lambda: SAC("MlpPolicy", "Pendulum-v1", learning_rate=lambda left: left), "schedule"),
        (lambda: DQN("MlpPolicy", "CartPole-v1", tau=0.5), "1.0"),
        (lambda: TD3("MlpPolicy", "Pendulum-v1", train_freq=(1, "episode")), "episodes"),
    ],
)
def test_an_argument_that_is_unknown_or_would_be_ignored_is_a_type_error_with_the_reason(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_state_dependent_exploration_becomes_settings_and_learns():
    kwargs = {**SMALL["policy_kwargs"], "log_std_init": -1, "full_std": False}
    model = PPO("MlpPolicy", "Pendulum-v1", use_sde=True, sde_sample_freq=4, **{**SMALL, "policy_kwargs": kwargs}).learn(64)
    config = json.loads(model.native.config())
    assert [config[key] for key in ("use_sde", "sde_sample_freq", "log_std_init", "full_std")] == [True, 4, -1, False]
    model = SAC("MlpPolicy", "Pendulum-v1", use_sde=True, use_sde_at_warmup=True, **LITTLE).learn(100)
    config = json.loads(model.native.config())
    assert config["use_sde"] and config["exploration_config"]["random_timesteps"] == 0
    with pytest.raises(pavlov_rl.ConfigError, match="continuous actions"):
        PPO("MlpPolicy", "CartPole-v1", use_sde=True, **SMALL)


def test_a_setting_of_ours_overrides_and_an_unknown_one_is_refused_with_the_nearest():
    model = PPO("MlpPolicy", "CartPole-v1", settings={"entropy_coeff": 0.02}, **SMALL)
    assert json.loads(model.native.config())["entropy_coeff"] == 0.02
    with pytest.raises(pavlov_rl.ConfigError, match="entropy_coeff"):
        PPO("MlpPolicy", "CartPole-v1", settings={"entropy_coef": 0.02}, **SMALL)


def test_an_environment_that_nobody_has_is_named():
    with pytest.raises(pavlov_rl.NotFoundError, match="CartPol"):
        PPO("MlpPolicy", "CartPol-v1")


def test_a_line_is_a_schedule_of_two_points_and_ends_with_the_run():
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda left: left * 1e-3, **SMALL).learn(320)
    assert json.loads(model.native.config())["lr_schedule"] == [[0, 1e-3], [320, 0.0]]


def test_the_file_of_another_algorithm_or_library_is_refused_by_name(tmp_path):
    PPO("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "ppo")
    with pytest.raises(pavlov_rl.CheckpointError, match="saved by PPO"):
        DQN.load(tmp_path / "ppo")
    (tmp_path / "other.zip").write_bytes(b"not a zip file")
    with pytest.raises(pavlov_rl.CheckpointError, match="no model that pavlov_rl saved"):
        PPO.load(tmp_path / "other")
    assert type(pavlov_rl.load(tmp_path / "ppo")) is PPO


def test_parameters_are_numpy_arrays_that_can_be_set():
    model, other = (PPO("MlpPolicy", "CartPole-v1", **{**SMALL, "seed": seed}) for seed in (0, 1))
    parameters = model.get_parameters()
    assert all(array.dtype == np.float32 for array in parameters["policy"].values())
    other.set_parameters(parameters)
    assert weights(other) == weights(model)
    with pytest.raises(ValueError, match="missing"):
        other.set_parameters({"policy": {}})


def test_a_model_can_be_pickled():
    import pickle

    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(64)
    assert weights(pickle.loads(pickle.dumps(model))) == weights(model)


def test_the_table_has_the_rows_that_scripts_read(capsys):
    PPO("MlpPolicy", "CartPole-v1", verbose=1, **SMALL).learn(320, log_interval=5)
    told = capsys.readouterr().out
    for row in ("ep_rew_mean", "ep_len_mean", "fps", "iterations", "time_elapsed", "total_timesteps", "value_loss"):
        assert f"|    {row}" in told
    assert "| rollout/ " in told
    lines = [line for line in told.splitlines() if line.startswith(("|", "-"))]
    assert len({len(line) for line in lines}) <= 2


def test_the_command_is_in_the_package():
    done = subprocess.run([sys.executable, "-m", "pavlov_rl", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("pavlov ")


def test_ctrl_c_ends_learn_and_the_model_counts_on_and_is_saved(tmp_path):
    # A shell that starts the tests in the background has switched Ctrl-C off.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=50, buffer_size=1000, batch_size=16, seed=0)

    sent = []

    class Interrupts(BaseCallback):
        def _on_rollout_start(self):
            # While the second iteration runs, or before it: both must leave the model whole.
            if self.num_timesteps and not sent:
                sent.append(True)
                threading.Timer(0.002, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

        def _on_step(self):
            return True

    with pytest.raises(KeyboardInterrupt):
        model.learn(100_000_000, callback=Interrupts())
    assert model.num_timesteps == model.native.timesteps() > 0
    model.save(tmp_path / "model")
    assert model.learn(100).num_timesteps == 100


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_refused_instead_of_waiting_for_threads_that_it_does_not_have():
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(32)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for work in (lambda: model.learn(32), lambda: PPO("MlpPolicy", "CartPole-v1", **SMALL)):
            try:
                work()
            except pavlov_rl.ForkError as error:
                told.append(str(error))
        del model
        os.write(writer, "\n".join(told).encode())
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 10_000).decode().splitlines()
    os.waitpid(child, 0)
    assert len(told) == 2 and all("spawn" in line for line in told), told
    model.learn(64)


def test_workers_in_processes_give_the_bits_of_workers_in_threads():
    def weights(workers):
        # A script, as its process must not run again in each worker.
        program = (
            "import hashlib, sys; from pavlov_rl import PPO; print('started')\n"
            "model = PPO('MlpPolicy', 'CartPole-v1', n_steps=64, n_epochs=1, seed=3, settings={'workers': sys.argv[1]})\n"
            "model.learn(512)\n"
            "found = model.get_parameters()['policy']\n"
            "print(hashlib.sha256(b''.join(found[name].tobytes() for name in sorted(found))).hexdigest())"
        )
        done = subprocess.run([sys.executable, "-c", program, workers], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    threads, processes = weights("threads:2"), weights("procs:2")
    assert threads[0] == "started" and len(threads) == 2
    assert processes == threads
