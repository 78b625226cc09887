"""Models on environments in Python, stepped by the thread that called `learn`."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import DQN, PPO, SAC, MaskablePPO
from pavlov_rl.common.action_masks import ActionMasker
from pavlov_rl.common.callbacks import BaseCallback
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Corridor(gymnasium.Env):
    """Walk right along five fields; observations in double precision, as many environments have them."""

    def __init__(self, fails_at=None):
        self.observation_space = spaces.Box(0.0, 5.0, (1,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.fails_at = fails_at
        self.steps = 0
        self.threads = set()
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.at = 0
        self.length = 0
        return np.array([0.0]), {}

    def step(self, action):
        self.threads.add(threading.get_ident())
        self.steps += 1
        if self.steps == self.fails_at:
            raise OSError("the robot is gone")
        self.at = max(self.at + 2 * int(action) - 1, 0)
        self.length += 1
        return np.array([float(self.at)]), -1.0, self.at == 5, self.length == 50, {}


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


def test_an_environment_of_ones_own_is_learned_in_the_calling_thread():
    env = Corridor()
    model = PPO("MlpPolicy", env, n_steps=256, learning_rate=3e-3, seed=0).learn(10_000)
    assert env.threads == {threading.get_ident()}
    mean, std = evaluate_policy(model, Corridor(), n_eval_episodes=3)
    assert (mean, std) == (-5.0, 0.0)


def test_python_and_native_steps_give_equal_bits():
    class Wrapped(gymnasium.Wrapper):
        pass

    native = PPO("MlpPolicy", "CartPole-v1", **SMALL).learn(320)
    python = PPO("MlpPolicy", Wrapped(gymnasium.make("CartPole-v1")), **SMALL)
    assert python._env.stepper is not None
    python.learn(320)
    assert weights(native) == weights(python)


@pytest.mark.parametrize("cls", [PPO, SAC])
def test_a_saved_model_goes_on_where_others_step_its_environment(cls, tmp_path):
    id, small = ("CartPole-v1", SMALL) if cls is PPO else ("Pendulum-v1", {"learning_starts": 10, "batch_size": 16, "seed": 0})
    for begins_in_python in (False, True):
        envs = [id, gymnasium.wrappers.TransformReward(gymnasium.make(id), lambda reward: reward)]
        first, second = reversed(envs) if begins_in_python else envs
        model = cls("MlpPolicy", first, **small).learn(96)
        model.save(tmp_path / "model")
        loaded = cls.load(tmp_path / "model", env=second)
        assert weights(loaded) == weights(model) and loaded.num_timesteps == 96
        assert (loaded._env.stepper is None) == begins_in_python
        assert loaded.learn(96, reset_num_timesteps=False).num_timesteps == 192
        assert weights(loaded) != weights(model)


def test_equal_seeds_give_equal_weights():
    one, same = (PPO("MlpPolicy", Corridor(), **SMALL).learn(320) for _ in range(2))
    assert weights(one) == weights(same)


def test_an_exception_of_the_environment_arrives_as_itself_and_the_model_goes_on():
    env = Corridor(fails_at=100)
    model = PPO("MlpPolicy", env, **SMALL)
    with pytest.raises(OSError, match="the robot is gone") as caught:
        model.learn(320)
    assert "step" in [entry.name for entry in caught.traceback]
    model.learn(64)
    assert model.num_timesteps == 64


def test_an_interrupted_model_can_be_saved_and_goes_on(tmp_path):
    class Interrupts(Corridor):
        def step(self, action):
            if self.steps == 70:
                self.steps += 1
                raise KeyboardInterrupt
            return super().step(action)

    model = SAC("MlpPolicy", gymnasium.wrappers.TransformReward(gymnasium.make("Pendulum-v1"), float), learning_starts=50, seed=0)
    model.learn(60)
    model = PPO("MlpPolicy", Interrupts(), **SMALL)
    with pytest.raises(KeyboardInterrupt):
        model.learn(320)
    model.save(tmp_path / "model")
    assert weights(PPO.load(tmp_path / "model", env=Corridor())) == weights(model)
    model.learn(64)


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_vectors_of_stable_baselines_shape_are_learned_on(vector):
    envs = vector([Corridor, Corridor, Corridor])
    model = PPO("MlpPolicy", envs, **SMALL).learn(192)
    assert model.n_envs == 3 and model.num_timesteps == 192
    envs.close()


def test_vectors_of_gymnasium_are_learned_on():
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.vector.SyncVectorEnv([Corridor, Corridor], autoreset_mode=mode)
    assert PPO("MlpPolicy", envs, **SMALL).learn(128).num_timesteps == 128
    # A vector in one piece, which cannot be told to reset some copies.
    poles = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")
    with pytest.raises(ValueError, match="SAME_STEP"):
        PPO("MlpPolicy", poles, **SMALL)


def test_normalised_statistics_are_saved_and_loaded(tmp_path):
    envs = VecNormalize(DummyVecEnv([Corridor]))
    model = PPO("MlpPolicy", envs, **SMALL).learn(128)
    assert model.get_vec_normalize_env() is envs and envs.obs_rms.count > 100
    envs.save(tmp_path / "statistics.pkl")
    again = VecNormalize.load(tmp_path / "statistics.pkl", DummyVecEnv([Corridor]))
    again.training = again.norm_reward = False
    np.testing.assert_array_equal(again.obs_rms.mean, envs.obs_rms.mean)
    evaluate_policy(model, again, n_eval_episodes=2, warn=False)


class Parts(gymnasium.Env):
    """Observations of two parts, and actions of two choices."""

    observation_space = spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "what": spaces.Discrete(3)})
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.length += 1
        return self.observation_space.sample(), float(action[0]), False, self.length == 10, {}


def test_observations_of_several_parts_are_learned_from():
    model = PPO("MultiInputPolicy", Parts(), **SMALL).learn(64)
    action, _ = model.predict(Parts().reset()[0])
    assert Parts.action_space.contains(action)


def test_dqn_learns_in_python():
    model = DQN("MlpPolicy", Corridor(), learning_rate=1e-3, learning_starts=100, target_update_interval=100, seed=0)
    model.learn(4_000)
    assert evaluate_policy(model, Corridor(), n_eval_episodes=3) == (-5.0, 0.0)


def test_illegal_actions_are_never_chosen():
    class Legal(Corridor):
        def step(self, action):
            assert action == 1, "only one action is legal"
            return super().step(action)

    env = ActionMasker(Legal(), lambda _: [False, True])
    model = MaskablePPO("MlpPolicy", env, **SMALL).learn(128)
    action, _ = model.predict(np.array([0.0]), action_masks=[False, True])
    assert action == 1


def test_gym_environments_of_old_are_refused_by_name():
    class Old:
        observation_space, action_space = Corridor().observation_space, Corridor().action_space

        def reset(self):
            return 0.0

        def step(self, action):
            return 0.0, 0.0, False, {}

    with pytest.raises(TypeError, match="Gymnasium"):
        PPO("MlpPolicy", Old())


class Keeps(BaseCallback):
    def __init__(self):
        super().__init__()
        self.told = []

    def _on_step(self):
        self.told.append((self.num_timesteps, self.locals["rewards"].copy(), self.locals["dones"].copy()))
        return self.num_timesteps < 96


def test_callbacks_are_told_of_every_step_and_can_end_training():
    keeps = Keeps()
    model = PPO("MlpPolicy", Corridor(), **SMALL).learn(320, callback=keeps)
    assert [steps for steps, _, _ in keeps.told] == list(range(1, 97))
    assert all(rewards == -1.0 for _, rewards, _ in keeps.told)
    assert model.num_timesteps == 96
    assert len(model.ep_info_buffer) == sum(dones.any() for _, _, dones in keeps.told)


def test_masks_of_native_environments_are_obeyed_when_a_model_is_evaluated():
    from pavlov_rl.common.env_util import make_vec_env

    envs = make_vec_env("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3", n_envs=2)
    assert envs.has_attr("action_masks")
    model = MaskablePPO("MlpPolicy", envs, **SMALL).learn(64)
    asked = []
    predict = model.predict
    model.predict = lambda *values, **named: asked.append(named["action_masks"].shape) or predict(*values, **named)
    evaluate_policy(model, envs, n_eval_episodes=2)
    assert set(asked) == {(2, 6)}


def test_a_model_that_was_loaded_without_its_environment_acts_and_learns_in_one_that_is_given(tmp_path):
    model = PPO("MlpPolicy", Corridor(), **SMALL).learn(64, out=tmp_path / "run")
    model.save(tmp_path / "model")
    for path in (tmp_path / "model", tmp_path / "run"):
        loaded = PPO.load(path)
        assert loaded.get_env() is None and loaded.num_timesteps == 64
        assert weights(loaded) == weights(model)
        obs = np.array([2.0])
        assert loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]
        with pytest.raises(ValueError, match="no environment"):
            loaded.learn(32)
        loaded.set_env(Corridor())
        assert loaded.learn(32, reset_num_timesteps=False).num_timesteps == 96
    with pytest.raises(ValueError, match="give it as `env`"):
        PPO.resume(tmp_path / "run")
    assert PPO.resume(tmp_path / "run", env=Corridor()).num_timesteps == 64


def test_a_model_of_many_copies_goes_on_with_few():
    model = PPO("MlpPolicy", DummyVecEnv([Corridor, Corridor]), **SMALL).learn(128)
    before = weights(model)
    model.set_env(Corridor())
    assert weights(model) == before and model.num_timesteps == 128
    assert model.learn(32, reset_num_timesteps=False).num_timesteps == 160


class Picture(Corridor):
    """The corridor as a picture."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (6, 6, 3), np.uint8)

    def _drawn(self, obs):
        picture = np.zeros((6, 6, 3), np.uint8)
        picture[:, int(obs[0])] = 255
        return picture

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return self._drawn(obs), info

    def step(self, action):
        obs, *others = super().step(action)
        return self._drawn(obs), *others


def test_pictures_are_flattened_for_a_policy_without_convolutions():
    class Sees(BaseCallback):
        def _on_step(self):
            assert self.locals["new_obs"].shape == (1, 6, 6, 3) and self.locals["new_obs"].dtype == np.uint8
            return True

    model = PPO("MlpPolicy", Picture(), **SMALL).learn(64, callback=Sees())
    assert model.get_parameters()["policy"]["default_policy.actor.0.weight"].size == 8 * 6 * 6 * 3
    evaluate_policy(model, Picture(), n_eval_episodes=1)
    native = PPO("MlpPolicy", "PixelSnake-v0", n_steps=32, batch_size=32, n_epochs=1, seed=0)
    assert native.learn(32, callback=lambda local, _: local["new_obs"].dtype == np.uint8).num_timesteps == 32


class Lights(gymnasium.Env):
    """Three switches; each that is on pays 1."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.MultiBinary(3)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        self.steps += 1
        return np.zeros(2, np.float32), float(action.sum()), False, self.steps == 20, {}


def test_switches_are_learned_to_be_on():
    model = PPO("MlpPolicy", Lights(), n_steps=64, learning_rate=3e-3, seed=0).learn(4_000)
    action, _ = model.predict(np.zeros(2, np.float32), deterministic=True)
    assert action.dtype == np.int8 and action.tolist() == [1, 1, 1]


class Told(BaseCallback):
    def __init__(self):
        super().__init__()
        self.observations, self.last = [], []

    def _on_step(self):
        self.observations.append(self.locals["new_obs"])
        self.last += [info["terminal_observation"] for info in self.locals["infos"] if "terminal_observation" in info]
        return True


class Tape(Corridor):
    """Observations that single precision rounds: 16,777,217 is the first."""

    def __init__(self, dtype=np.int64):
        super().__init__()
        self.observation_space = spaces.Box(0, 2**40, (1,), dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([2**24 + 1], self.observation_space.dtype), {}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        return np.array([2**24 + 1 + 2 * self.at], self.observation_space.dtype), reward, terminated, truncated, info


def of_gymnasium(mode):
    return lambda make: gymnasium.vector.SyncVectorEnv([make], autoreset_mode=mode)


@pytest.mark.parametrize(
    "vector",
    [
        lambda make: make(),
        lambda make: SubprocVecEnv([make]),
        of_gymnasium(gymnasium.vector.AutoresetMode.SAME_STEP),
        of_gymnasium(gymnasium.vector.AutoresetMode.NEXT_STEP),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_callbacks_see_the_observations_that_the_environment_gave(vector, dtype):
    make = lambda: Tape(dtype)  # noqa: E731
    envs = vector(make)
    told = Told()
    PPO("MlpPolicy", envs, **SMALL).learn(128, callback=told)
    assert all(obs.dtype == dtype and obs.shape == (1, 1) and obs[0, 0] % 2 == 1 for obs in told.observations)
    assert {float(obs[0, 0]) for obs in told.observations} <= {2.0**24 + 1 + 2 * at for at in range(6)}
    assert told.last and all(obs[0] % 2 == 1 for obs in told.last)


def test_integers_that_policies_see_rounded_are_told_of():
    with pytest.warns(UserWarning, match="integers beyond 16,777,216"):
        PPO("MlpPolicy", Tape(), **SMALL)


def test_callbacks_see_the_parts_of_an_observation():
    for env in (Parts(), "MiniGrid-Empty-5x5-v0"):
        told = Told()
        model = PPO("MultiInputPolicy", env, **SMALL).learn(32, callback=told)
        space = model.observation_space
        for obs in told.observations:
            assert obs.keys() == space.keys()
            assert all(obs[name].shape == (1, *part.shape) for name, part in space.items())
        assert all(space.contains(obs) for obs in told.last)
