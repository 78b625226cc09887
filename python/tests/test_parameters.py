"""Parameters and replay buffers that are moved from model to model."""

import json
import warnings
import zipfile

import gymnasium
import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import A2C, DQN, PPO, SAC, TD3, RecurrentPPO
from pavlov_rl.common.env_util import make_vec_env

ROLLOUTS = {"n_steps": 32, "batch_size": 16, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}}
REPLAY = {"learning_starts": 10, "batch_size": 16, "buffer_size": 500, "train_freq": 1, "policy_kwargs": {"net_arch": [8]}}


def made(cls, env=None, **more):
    if issubclass(cls, (PPO, A2C)):
        arguments = {"n_steps": 8} if cls is A2C else ROLLOUTS
    else:
        arguments = REPLAY
    chosen = env or ("Pendulum-v1" if cls in (SAC, TD3) else "CartPole-v1")
    return cls("MlpPolicy", chosen, **{**arguments, "seed": 0, **more})


def bits(parameters):
    return {key: {name: array.tobytes() for name, array in parts.items()} for key, parts in parameters.items()}


@pytest.mark.parametrize("cls", [PPO, A2C, RecurrentPPO, DQN, SAC, TD3])
def test_parameters_are_the_networks_the_targets_and_the_optimizers_and_all_of_them_are_set(cls):
    model = made(cls).learn(128)
    parameters = model.get_parameters()
    # The names of PPO and DQN in Stable-Baselines3 2.9.2.
    assert list(parameters) == ["policy", "policy.optimizer"]
    has_target = any(".target." in name for name in parameters["policy"])
    assert has_target == (not model.is_on_policy)
    steps = [int(array) for name, array in parameters["policy.optimizer"].items() if name.endswith("steps")]
    assert steps and all(number > 0 for number in steps)
    model.learn(128)
    other = made(cls, seed=1).learn(64)
    for each in (model, other):
        assert bits(each.get_parameters()) != bits(parameters)
        each.set_parameters(parameters)
        assert bits(each.get_parameters()) == bits(parameters)


def test_a_model_that_takes_its_own_parameters_back_learns_as_if_nothing_had_been():
    model, other = made(DQN).learn(128), made(DQN).learn(128)
    parameters = other.get_parameters()
    other.set_parameters(made(DQN, seed=1).learn(64).get_parameters())
    other.set_parameters(parameters)
    after = [bits(each.learn(128, reset_num_timesteps=False).get_parameters()) for each in (model, other)]
    assert after[0] == after[1]


def test_what_a_partial_dictionary_leaves_is_said_or_refused():
    model, other = made(SAC).learn(64), made(SAC, seed=1)
    parameters, before = model.get_parameters(), other.get_parameters()
    # Stable-Baselines3 2.9.2 refuses both with a ValueError.
    with pytest.raises(ValueError, match="missing 'policy.optimizer'; .*exact_match=False"):
        other.set_parameters({"policy": parameters["policy"]})
    with pytest.raises(ValueError, match="'polic'.*'policy' and 'policy.optimizer'"):
        other.set_parameters({"polic": parameters["policy"]})
    with pytest.raises(ValueError, match="missing 'default_policy.q1.0.weight' of 'policy'"):
        some = {name: array for name, array in parameters["policy"].items() if name != "default_policy.q1.0.weight"}
        other.set_parameters({**parameters, "policy": some})
    with pytest.raises(ValueError, match="no parameter 'weight' in 'policy'"):
        other.set_parameters({"policy": {"weight": np.zeros(1)}}, exact_match=False)
    assert bits(other.get_parameters()) == bits(before)
    some = {name: array for name, array in parameters["policy"].items() if ".target." not in name}
    with pytest.warns(UserWarning, match="leaves as they are: 'policy.optimizer', 'default_policy.target") as told:
        other.set_parameters({"policy": some}, exact_match=False)
    assert [each.filename for each in told if each.category is UserWarning] == [__file__]
    now = other.get_parameters()
    for name, array in now["policy"].items():
        assert (array == (parameters if name in some else before)["policy"][name]).all()
    assert bits(now)["policy.optimizer"] == bits(before)["policy.optimizer"]


def test_parameters_are_read_from_a_saved_model_and_from_one_without_an_environment(tmp_path):
    model = made(DQN).learn(64)
    model.save(tmp_path / "model")
    other = made(DQN, seed=1)
    other.set_parameters(tmp_path / "model")
    assert bits(other.get_parameters()) == bits(model.get_parameters())
    model = made(DQN, gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 20)).learn(64)
    model.save(tmp_path / "python")
    assert bits(DQN.load(tmp_path / "python").get_parameters()) == bits(model.get_parameters())


def test_the_state_of_the_policy_alone_leaves_the_optimizers():
    model, other = made(DQN).learn(64), made(DQN, seed=1).learn(32)
    moments = bits(other.get_parameters())["policy.optimizer"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.policy.load_state_dict(model.policy.state_dict())
    found = bits(other.get_parameters())
    assert found["policy"] == bits(model.get_parameters())["policy"] and found["policy.optimizer"] == moments


def test_another_number_of_environments_leaves_targets_and_moments():
    model = made(SAC).learn(64)
    before = bits(model.get_parameters())
    model.set_env(make_vec_env("Pendulum-v1", n_envs=3))
    assert bits(model.get_parameters()) == before


class Counted(gymnasium.Wrapper):
    """Counts resets."""

    resets = 0

    def reset(self, **given):
        self.resets += 1
        return super().reset(**given)


def rows(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith("buffer/")}


@pytest.mark.parametrize("is_native", [True, False])
def test_a_replay_buffer_is_moved_and_nothing_else(is_native, tmp_path):
    def env():
        return "Pendulum-v1" if is_native else Counted(gymnasium.make("Pendulum-v1"))

    model = made(SAC, env()).learn(200)
    model.save_replay_buffer(tmp_path / "buffer")
    # As there: the name that was given, and `.pkl` where it has no suffix.
    assert [path.name for path in tmp_path.iterdir()] == ["buffer.pkl"]
    own = env()
    other = made(SAC, own, seed=1).learn(120)
    before, steps, resets = bits(other.get_parameters()), other.native.timesteps(), getattr(own, "resets", None)
    other.load_replay_buffer(tmp_path / "buffer")
    assert bits(other.get_parameters()) == before
    assert other.num_timesteps == other.native.timesteps() == steps and getattr(own, "resets", None) == resets
    other.save_replay_buffer(tmp_path / "again.dat")
    assert rows(tmp_path / "again.dat") == rows(tmp_path / "buffer.pkl")
    # After 200 steps `replay_buffer.size()` is 200 in Stable-Baselines3 2.9.2, in the model that has loaded it, too.
    assert json.loads(rows(tmp_path / "again.dat")["buffer/default_policy.json"])["len"] == 200
    assert other.learn(100, reset_num_timesteps=False).num_timesteps == steps + 100
    assert bits(other.get_parameters()) != before


def test_a_replay_buffer_waits_for_the_environment_of_a_loaded_model(tmp_path):
    model = made(SAC, Counted(gymnasium.make("Pendulum-v1"))).learn(200)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "long")
    model.learn(30, reset_num_timesteps=False).save_replay_buffer(str(tmp_path / "longer.pkl"))
    loaded = SAC.load(tmp_path / "model")
    loaded.load_replay_buffer(tmp_path / "longer")
    loaded.set_env(Counted(gymnasium.make("Pendulum-v1")))
    loaded.save_replay_buffer(tmp_path / "again")
    assert rows(tmp_path / "again.pkl") == rows(tmp_path / "longer.pkl") != rows(tmp_path / "long.pkl")


def test_a_replay_buffer_that_does_not_fit_is_refused_by_the_argument(tmp_path):
    made(SAC).learn(64).save_replay_buffer(tmp_path / "buffer")
    for name, value in (("buffer_size", 400), ("gamma", 0.5), ("n_steps", 2)):
        with pytest.raises(pavlov_rl.ConfigError, match=f"`{name}`.*this model has {value}"):
            made(SAC, **{name: value}).load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(pavlov_rl.ConfigError, match="`observation_space`"):
        made(SAC, "MountainCarContinuous-v0").load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(FileNotFoundError, match="none.pkl"):
        made(SAC).load_replay_buffer(tmp_path / "none")
    made(SAC).save(tmp_path / "model")
    with pytest.raises(pavlov_rl.CheckpointError, match="no replay buffer"):
        made(SAC).load_replay_buffer(tmp_path / "model.zip")
