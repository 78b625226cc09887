"""Objects of native ids: a native environment takes their place only as long as nobody changed them."""

import json
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.classic_control import cartpole as cartpole_module

import pavlov_rl
from pavlov_rl import DQN, PPO, natives
from pavlov_rl.common.callbacks import BaseCallback, EvalCallback
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


def is_native(model):
    return model._env.stepper is None


def lengths(model):
    return [episode["l"] for episode in model.ep_info_buffer]


def tilted(env):
    """The pole has fallen as soon as it moves: with Gymnasium's class an episode has 1 to 3 steps."""
    env.unwrapped.theta_threshold_radians = 0.001
    return env


def replaces_step(env):
    step = env.unwrapped.step

    def ends(action):
        obs, reward, _, truncated, info = step(action)
        return obs, reward, True, truncated, info

    env.unwrapped.step = ends
    return env


def cut(env):
    # TimeLimit is the outermost wrapper of `gymnasium.make`.
    env._max_episode_steps = 3
    return env


@pytest.mark.parametrize("change", [tilted, replaces_step, cut])
@pytest.mark.parametrize("vector", [False, True])
def test_what_the_user_changed_before_the_model_was_made_is_trained_in(change, vector, capsys):
    env = change(gymnasium.make("CartPole-v1"))
    model = PPO("MlpPolicy", DummyVecEnv([lambda: env]) if vector else env, verbose=1, **SMALL)
    assert capsys.readouterr().out.count("CartPole-v1 is stepped in Python") == 1
    model.learn(64, callback=lambda *_: True)
    if not vector:
        assert len(model.ep_info_buffer) > 15 and max(lengths(model)) <= 4
    assert not is_native(model)


def test_what_the_user_changed_between_the_model_and_learn_is_trained_in(capsys):
    env = gymnasium.make("CartPole-v1")
    model = PPO("MlpPolicy", env, verbose=1, **SMALL)
    assert is_native(model)
    model.learn(64, callback=lambda *_: True)
    assert max(lengths(model)) > 8
    tilted(env)
    model.learn(64, callback=lambda *_: True, reset_num_timesteps=False)
    assert "CartPole-v1 is stepped in Python" in capsys.readouterr().out
    assert max(lengths(model)[-15:]) <= 4 and model.num_timesteps == 128


def test_set_attr_of_the_vector_is_trained_in():
    envs = DummyVecEnv([lambda: Monitor(gymnasium.make("CartPole-v1")) for _ in range(2)])
    model = PPO("MlpPolicy", envs, **SMALL)
    assert is_native(model)
    envs.set_attr("theta_threshold_radians", 0.001)
    model.learn(128, callback=lambda *_: True)
    assert not is_native(model) and max(lengths(model)) <= 4


class Curriculum(BaseCallback):
    """Changes the environment at a step."""

    def __init__(self, change, at=40):
        super().__init__()
        self.change, self.at = change, at

    def _on_step(self):
        if self.num_timesteps == self.at:
            self.change(self)
        return True


def through_set_attr(callback):
    callback.training_env.set_attr("theta_threshold_radians", 0.001)


def through_the_objects(callback):
    callback.model.get_env().envs[0].unwrapped.theta_threshold_radians = 0.001


@pytest.mark.parametrize("change", [through_set_attr, through_the_objects])
@pytest.mark.parametrize("out", [False, True])
def test_what_a_callback_changes_is_trained_in_from_the_next_rollout_on(change, out, tmp_path, capsys):
    model = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), verbose=1, **SMALL)
    curriculum = Curriculum(change)
    model.learn(192, callback=curriculum, **({"out": tmp_path / "run"} if out else {}))
    # The run goes on: it neither begins anew nor loses its count.
    assert curriculum.n_calls == 192
    assert capsys.readouterr().out.count("CartPole-v1 is stepped in Python") == 1
    assert not is_native(model) and model.num_timesteps == 192
    # The rollouts after the second are of 32 steps each, four in all.
    assert sum(lengths(model)[-40:]) <= 4 * 40 and len(model.ep_info_buffer) > 40


def test_an_off_policy_model_follows_a_change_and_goes_on():
    model = DQN("MlpPolicy", gymnasium.make("CartPole-v1"), learning_starts=50, buffer_size=500, seed=0)
    curriculum = Curriculum(through_set_attr, at=200)
    model.learn(400, callback=curriculum)
    assert curriculum.n_calls == 400
    assert not is_native(model) and max(lengths(model)[-30:]) <= 4
    assert model.num_timesteps == 400


def test_a_class_or_a_constant_of_its_module_that_was_changed_is_trained_in(monkeypatch):
    monkeypatch.setattr(CartPoleEnv, "step", lambda self, action: (np.zeros(4, np.float32), 2.0, True, False, {}))
    for env in ("CartPole-v1", gymnasium.make("CartPole-v1"), make_vec_env("CartPole-v1")):
        model = PPO("MlpPolicy", env, **SMALL)
        assert not is_native(model)
    monkeypatch.undo()
    assert is_native(PPO("MlpPolicy", "CartPole-v1", **SMALL))
    monkeypatch.setattr(cartpole_module, "np", None)
    assert not natives.is_original("CartPole-v1")


def test_an_id_that_the_user_registered_anew_is_the_users():
    own = gymnasium.registry["CartPole-v0"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gymnasium.register("CartPole-v0", entry_point=lambda: tilted(CartPoleEnv()), max_episode_steps=100)
            assert not is_native(PPO("MlpPolicy", "CartPole-v0", **SMALL))
            assert not is_native(PPO("MlpPolicy", gymnasium.make("CartPole-v0"), **SMALL))
    finally:
        gymnasium.registry["CartPole-v0"] = own


def test_an_object_without_its_time_limit_is_not_cut():
    assert not is_native(PPO("MlpPolicy", gymnasium.make("CartPole-v1").unwrapped, **SMALL))
    assert is_native(PPO("MlpPolicy", gymnasium.make("pavlov/CartPole-v1").unwrapped, **SMALL))


def test_an_attribute_that_an_argument_sets_is_carried_over():
    env = gymnasium.make("Pendulum-v1")
    env.unwrapped.g = 5.0
    model = PPO("MlpPolicy", env, **SMALL)
    assert is_native(model) and json.loads(model.native.config())["env_config"] == {"g": 5.0}
    env.unwrapped.g = 2.0
    model.learn(32)
    assert is_native(model) and json.loads(model.native.config())["env_config"] == {"g": 2.0}
    env.unwrapped.m = 2.0
    model.learn(32)
    assert not is_native(model)


def test_an_argument_that_only_the_constructor_reads_is_not_carried_over():
    # `kinematics_integrator` is no argument, and `is_slippery` is none of the attributes.
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.kinematics_integrator = "semi-implicit"
    assert natives.twin_of(env) is None
    lake = gymnasium.make("FrozenLake-v1")
    lake.unwrapped.P[0][0] = [(1.0, 15, 1.0, True)]
    assert natives.twin_of(lake) is None


NATIVE = sorted({id for id in natives.native_ids() for id in (id, f"pavlov/{id}") if id in gymnasium.registry})


@pytest.mark.parametrize("id", NATIVE)
def test_an_object_that_was_only_played_is_still_stepped_natively(id):
    """Steps, resets, seeds and pictures change no attribute that counts."""
    try:
        env = gymnasium.make(id, render_mode="rgb_array")
    except (gymnasium.error.DependencyNotInstalled, pavlov_rl.EnvError) as missing:
        pytest.skip(str(missing))
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(30):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    env.render()
    twin = natives.twin_of(env)
    assert twin is not None and twin.config == {}


def test_monitors_of_the_user_are_told_of_native_steps():
    """The numbers are those of a `Monitor` whose environment is stepped in Python with the same seed."""

    class Wrapped(gymnasium.Wrapper):
        pass

    def played(wrap, hooks):
        monitors = [Monitor(wrap(gymnasium.make("CartPole-v1"))) for _ in range(2)]
        model = PPO("MlpPolicy", DummyVecEnv([lambda each=each: each for each in monitors]), **SMALL)
        model.learn(640, callback=hooks).learn(64, callback=hooks, reset_num_timesteps=False)
        return is_native(model), monitors

    for hooks in (None, lambda *_: True):
        (native, ours), (python, theirs) = played(lambda env: env, hooks), played(Wrapped, hooks)
        assert native and not python
        for one, other in zip(ours, theirs):
            assert one.get_total_steps() == other.get_total_steps() == 352
            assert one.get_episode_lengths() == other.get_episode_lengths() != []
            assert one.get_episode_rewards() == other.get_episode_rewards()


def test_a_callback_that_looks_at_the_object_is_told_that_it_stood_still():
    class Looks(BaseCallback):
        def _on_step(self):
            seen.append((self.training_env.get_attr("state")[0], self.locals["new_obs"][0]))
            return True

    seen = []
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    model = PPO("MlpPolicy", env, **SMALL)
    with pytest.warns(UserWarning, match="`state` is of an object that stands still") as caught:
        model.learn(96, callback=Looks())
    assert len([each for each in caught if "stands still" in str(each.message)]) == 1
    assert not is_native(model)
    # The last step of the rollout is what the object shows.
    np.testing.assert_array_equal(np.array(seen[-1][0], np.float32), seen[-1][1])


def test_an_evaluation_in_the_training_environment_keeps_it_native():
    model = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(96, callback=EvalCallback(model.get_env(), eval_freq=32, n_eval_episodes=1, verbose=0))
        evaluate_policy(model, model.get_env(), n_eval_episodes=1)
    assert is_native(model)
