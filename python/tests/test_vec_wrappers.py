"""Wrappers of vectors: the numbers are those of Stable-Baselines3 2.9.2 where its own tests say them, or counted by hand."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import PPO
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecCheckNan,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    is_vecenv_wrapped,
    unwrap_vec_normalize,
    unwrap_vec_wrapper,
)
from pavlov_rl.errors import ConfigError


class Counts(gymnasium.Env):
    """Observes how many steps the episode has had, which has three."""

    def __init__(self, space=None):
        self.observation_space = space or spaces.Box(0.0, 9.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _obs(self):
        if isinstance(self.observation_space, spaces.Dict):
            return {key: np.full(part.shape, self.at, part.dtype) for key, part in self.observation_space.items()}
        return np.full(self.observation_space.shape, self.at, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 1
        return self._obs(), {}

    def step(self, action):
        self.at += 1
        return self._obs(), 1.0, self.at == 4, False, {}


def vector(space=None, copies=2):
    return DummyVecEnv([lambda: Counts(space)] * copies)


def test_stacks_begin_with_zeros_and_end_with_their_own_episode():
    env = VecFrameStack(vector(), 3)
    assert env.observation_space == spaces.Box(0.0, 9.0, (6,), np.float32)
    assert env.reset()[0].tolist() == [0, 0, 0, 0, 1, 1]
    assert env.step([0, 0])[0][1].tolist() == [0, 0, 1, 1, 2, 2]
    assert env.step([0, 0])[0][1].tolist() == [1, 1, 2, 2, 3, 3]
    obs, _, dones, infos = env.step([0, 0])
    assert dones.all() and obs[0].tolist() == [0, 0, 0, 0, 1, 1]
    assert infos[0]["terminal_observation"].tolist() == [2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize(
    "shape, order, stacked",
    [
        ((16, 24, 3), None, (16, 24, 12)),
        ((3, 16, 24), None, (12, 16, 24)),
        ((3, 16, 24), "last", (3, 16, 96)),
        ((16, 24, 3), "first", (64, 24, 3)),
    ],
)
def test_images_are_stacked_along_their_channels(shape, order, stacked):
    env = VecFrameStack(vector(spaces.Box(0, 255, shape, np.uint8)), 4, order)
    assert env.observation_space.shape == stacked and env.reset().shape == (2, *stacked)
    assert env.step([0, 0])[0].dtype == np.uint8


def test_the_parts_of_a_dict_are_stacked_each_in_its_order():
    space = spaces.Dict({"image": spaces.Box(0, 255, (3, 8, 9), np.uint8), "speed": spaces.Box(0.0, 9.0, (1,), np.float32)})
    env = VecFrameStack(vector(space), 2, {"image": "first", "speed": "last"})
    assert {key: part.shape for key, part in env.observation_space.items()} == {"image": (6, 8, 9), "speed": (2,)}
    env.reset()
    for _ in range(3):
        _, _, _, infos = env.step([0, 0])
    ended = infos[1]["terminal_observation"]
    assert ended["speed"].tolist() == [3, 4] and ended["image"][:, 0, 0].tolist() == [3, 3, 3, 4, 4, 4]


def test_what_cannot_be_stacked_is_refused_by_name():
    with pytest.raises(AssertionError, match="`channels_order` is 'not_valid', but it must be 'first', 'last' or None"):
        VecFrameStack(vector(), 2, "not_valid")
    with pytest.raises(TypeError, match="only a Box, or a Dict of them, can be stacked, but the observations are Discrete"):
        VecFrameStack(vector(spaces.Discrete(3)), 2)
    with pytest.raises(TypeError, match="but the part 'way' of the observations is Discrete"):
        VecFrameStack(vector(spaces.Dict({"way": spaces.Discrete(3)})), 2)
    with pytest.raises(ConfigError, match="`n_stack` is 0"):
        VecFrameStack(vector(), 0)


def test_images_are_turned_and_so_are_the_last_ones_of_episodes():
    space = spaces.Dict({"image": spaces.Box(0, 255, (16, 24, 3), np.uint8), "speed": spaces.Box(0.0, 9.0, (1,), np.float32)})
    for env in (VecTransposeImage(vector(space["image"])), VecTransposeImage(vector(space))):
        image = lambda obs: obs["image"] if isinstance(obs, dict) else obs  # noqa: E731
        found = env.observation_space["image"] if isinstance(env.observation_space, spaces.Dict) else env.observation_space
        assert found == spaces.Box(0, 255, (3, 16, 24), np.uint8)
        assert image(env.reset()).shape == (2, 3, 16, 24)
        for _ in range(3):
            _, _, _, infos = env.step([0, 0])
        assert image(infos[0]["terminal_observation"]).shape == (3, 16, 24)
    pixels = np.arange(24).reshape(2, 4, 3)
    assert np.array_equal(VecTransposeImage.transpose_image(pixels), pixels.transpose(2, 0, 1))
    assert VecTransposeImage(vector(spaces.Box(0, 255, (3, 16, 24), np.uint8)), skip=True).reset().shape == (2, 3, 16, 24)
    with pytest.raises(AssertionError, match="whose channels come first already"):
        VecTransposeImage(vector(spaces.Box(0, 255, (3, 16, 24), np.uint8)))


class Bad(Counts):
    def step(self, action):
        obs, reward, *ends = super().step(action)
        return obs, np.nan if action else reward, *ends


def test_nan_is_told_with_the_side_that_it_came_from():
    env = VecCheckNan(DummyVecEnv([Bad]), raise_exception=True)
    env.reset()
    env.step([0])
    with pytest.raises(ValueError, match="found nan in actions. It came from the model, whose last observations were"):
        env.step([float("nan")])
    with pytest.raises(ValueError, match="found nan in rewards. It came from the environment, whose last actions were"):
        env.step([1])
    warns = VecCheckNan(DummyVecEnv([Bad]))
    warns.reset()
    with pytest.warns(UserWarning, match="found nan in rewards"):
        warns.step([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warns.step([1])


def test_a_part_of_a_dict_is_what_the_model_sees():
    space = spaces.Dict({"image": spaces.Box(0.0, 9.0, (4,), np.float32), "speed": spaces.Box(0.0, 9.0, (1,), np.float32)})
    env = VecMonitor(VecExtractDictObs(vector(space), "image"))
    assert env.observation_space == space["image"] and env.reset().shape == (2, 4)
    for _ in range(3):
        _, _, _, infos = env.step([0, 0])
    assert infos[0]["terminal_observation"].tolist() == [4, 4, 4, 4]
    assert PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1).learn(64).num_timesteps == 64
    with pytest.raises(KeyError, match="`key` is 'picture', but the observations have 'image', 'speed'"):
        VecExtractDictObs(vector(space), "picture")


def test_a_model_learns_from_stacks_and_wrappers_are_found():
    env = VecNormalize(VecFrameStack(vector(), 4))
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0).learn(128)
    assert model.observation_space.shape == (8,)
    assert model.predict(env.reset(), deterministic=True)[0].shape == (2,)
    assert is_vecenv_wrapped(env, VecFrameStack) and not is_vecenv_wrapped(env, VecMonitor)
    assert unwrap_vec_normalize(env) is env and isinstance(unwrap_vec_wrapper(env, VecFrameStack), VecFrameStack)


def test_an_attribute_of_two_wrappers_is_asked_of_one_of_them():
    inner = VecNormalize(vector())
    env = VecFrameStack(VecNormalize(inner), 2)
    assert env.stacked_obs.n_stack == 2 and unwrap_vec_wrapper(env, VecNormalize).clip_obs == 10.0
    with pytest.raises(AttributeError, match="`clip_obs` of VecFrameStack could be that of VecNormalize or VecNormalize; ask one"):
        _ = env.clip_obs
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = env.nothing_of_that_name


def test_two_monitors_are_told_to_be_one_too_many():
    with pytest.warns(UserWarning, match="the environments have a `Monitor` each"):
        VecMonitor(DummyVecEnv([lambda: Monitor(Counts())]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VecMonitor(vector())
        VecMonitor(make_vec_env("CartPole-v1", 2))


def test_another_way_of_drawing_is_told_to_have_no_effect():
    with pytest.warns(UserWarning, match="mode='human' has no effect: the environments were made with render_mode=None"):
        vector().render(mode="human")


@pytest.mark.parametrize("shape", [(4, 36, 40), (36, 40, 4)])
def test_images_are_learned_from_with_the_channels_first_and_last(shape):
    env = VecFrameStack(vector(spaces.Box(0, 255, shape, np.uint8), copies=1), 2)
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, n_epochs=1).learn(8)
    # 8 channels, 32 filters of 8 x 8.
    assert (32, 8 * 8 * 8) in {(array.shape[0], array.size // array.shape[0]) for array in model.get_parameters()["policy"].values()}



class Begins(Counts):
    """Begins where the options of the reset say."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = (options or {}).get("at", 1)
        return self._obs(), {}


@pytest.mark.parametrize("cls", [DummyVecEnv, SubprocVecEnv])
def test_options_are_those_of_the_next_reset(cls):
    env = VecFrameStack(cls([Begins] * 2), 1)
    env.set_options({"at": 2})
    assert env.reset()[:, 0].tolist() == [2, 2]
    env.set_options([{"at": 3}, {}])
    assert env.reset()[:, 0].tolist() == [3, 1] and env.reset()[:, 0].tolist() == [1, 1]
    with pytest.raises(ConfigError, match="`options` has 1 entries, but there are 2 copies"):
        env.set_options([{}])
    env.close()


def test_options_reach_the_first_episodes_of_training():
    lengths = []

    class Notes(Begins):
        def step(self, action):
            obs, reward, *ends = super().step(action)
            if ends[0]:
                lengths.append(self.steps)
            return obs, reward, *ends

        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed, options=options)
            self.steps = 4 - self.at
            return obs, info

    env = DummyVecEnv([Notes])
    env.set_options({"at": 3})
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1).learn(8)
    assert lengths[:2] == [1, 3]
