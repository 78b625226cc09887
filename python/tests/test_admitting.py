"""What environments in Python may give: refused, said once and used, or not worth a word. At every way into training."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import PPO
from pavlov_rl.common.env_checker import check_env
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv
from pavlov_rl.errors import ConfigError
from pavlov_rl.spaces import action

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
BYTES = spaces.Box(0, 255, (2,), np.uint8)
REALS = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Given(gymnasium.Env):
    """Gives `late` from step `at` on, and zeros of the space before."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, late, at=0, reward=1.0, flag=False):
        self.observation_space, self.late, self.at, self.reward, self.flag = space, late, at, reward, flag

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.shown(), {}

    def step(self, action):
        self.count += 1
        return self.shown(), self.reward, self.flag, self.count == 5, {}

    def shown(self):
        return self.late if self.count >= self.at else np.zeros(2, self.observation_space.dtype)


class Acts(gymnasium.Env):
    """Takes members of its action space only."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert action in self.action_space, f"{action!r} is not in {self.action_space}"
        return np.zeros(1, np.float32), 0.0, False, False, {}


def in_process(make):
    return make()


def in_a_vector(make):
    return DummyVecEnv([make])


def in_processes(make):
    return SubprocVecEnv([make])


WAYS = [in_process, in_a_vector, in_processes]
REFUSED = [
    (BYTES, np.array([1.0, 0.7]), "0.7 at element 1, which is no integer"),
    (BYTES, np.array([1, 300]), "300 at element 1, outside of the uint8"),
    (BYTES, np.array([-1, 1]), "-1 at element 0, outside of the uint8"),
    (REALS, np.array([0.5, 0.5j]), "complex numbers, such as 0.5j"),
    (spaces.Discrete(3), 1.5, "is 1.5, which is no integer"),
    (spaces.Discrete(3), 3, "is 3, outside of Discrete(3)"),
    (REALS, np.zeros(3, np.float32), "shape (3,), but its space says (2,)"),
    (REALS, None, "is None"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("space", "value", "text"), REFUSED)
def test_an_observation_that_a_cast_would_change_is_refused(way, space, value, text):
    env = way(lambda: Given(space, value))
    with pytest.raises(ConfigError) as raised:
        PPO("MlpPolicy", env, **SMALL).learn(16)
    assert text in str(raised.value)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_in_a_later_step_too(way):
    env = way(lambda: Given(BYTES, np.array([0.7, 1.0]), at=3))
    with pytest.raises(ConfigError, match="0.7 at element 0"):
        PPO("MlpPolicy", env, **SMALL).learn(16)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("reward", "text"), [([1.0, 0.0], "2 numbers"), (1j, "complex"), (None, "is None"), ("much", "'much'")])
def test_a_reward_that_is_no_number_is_refused(way, reward, text):
    env = way(lambda: Given(REALS, np.zeros(2, np.float32), reward=reward))
    # The error of a process of a vector is of the class that it has there.
    with pytest.raises(ValueError, match=text):
        PPO("MlpPolicy", env, **SMALL).learn(16)


@pytest.mark.parametrize(
    ("value", "reward", "text"),
    [
        ([0.5, 0.25], 1.0, "is a list instead of an array"),
        (np.array([0.5, 0.25]), 1.0, "is of float64, but its space says float32"),
        (np.array([[0.5, 0.25]], np.float32), 1.0, "has shape (1, 2)"),
        (np.zeros(2, np.float32), np.array([1.5]), "an array of float64 of one number"),
    ],
)
def test_what_costs_a_promise_only_is_trained_and_listed_for_authors(value, reward, text):
    env = Given(REALS, value, reward=reward)
    PPO("MlpPolicy", env, **SMALL).learn(16)
    with pytest.raises(AssertionError) as raised:
        check_env(env)
    assert text in str(raised.value)


@pytest.mark.parametrize("reward", [1, np.float32(0.5), np.bool_(True), np.int64(2)])
def test_numbers_of_numpy_are_not_worth_a_word(reward):
    env = Given(spaces.Discrete(3), np.int32(2), reward=reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO("MlpPolicy", env, **SMALL).learn(16)


def test_rounding_at_a_bound_is_no_fault_and_more_is():
    rounded = Given(spaces.Box(0.0, 1.0, (2,), np.float32), np.array([1.0000001, 0.0], np.float32))
    text = ""
    try:
        check_env(rounded)
    except AssertionError as error:
        # Gymnasium's own check takes no rounding.
        text = str(error)
    assert "beyond" not in text
    with pytest.raises(AssertionError, match="has 1.25, which is beyond the bounds"):
        check_env(Given(REALS, np.array([1.25, 0.0], np.float32)))


def test_check_env_lists_all_faults_at_once():
    space = spaces.Dict(a=BYTES, b=spaces.Discrete(3), c=REALS)
    late = {"a": np.array([0.7, 0.0]), "b": 5, "c": np.array([0.5, np.nan])}
    with pytest.raises(AssertionError) as raised:
        check_env(Given(space, late, reward=[1.0, 2.0]))
    for text in ["the observation at a has 0.7", "the observation at b is 5", "the observation at c has NaN", "2 numbers"]:
        assert text in str(raised.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-0.1, 0.1, (2,), np.float64),
        spaces.Box(-5, 5, (2,), np.int64),
        spaces.Box(0, 255, (3,), np.uint8),
        spaces.Box(-1.0, 1.0, (2, 3), np.float64),
        spaces.Box(-1.0, 1.0, (), np.float32),
        spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), dtype=np.float64),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        spaces.MultiBinary((2, 2)),
    ],
)
def test_actions_of_every_kind_are_members_of_their_space(space):
    model = PPO("MlpPolicy", Acts(space), **SMALL).learn(32)
    chosen, _ = model.predict(np.zeros(1, np.float32))
    assert space.contains(chosen if chosen.shape or isinstance(space, spaces.Box) else int(chosen)), chosen


def test_integers_are_rounded_and_bounds_of_double_precision_hold():
    whole = spaces.Box(-5, 5, (2,), np.int64)
    assert action(whole, np.array([4.99999, -0.6], np.float32)).tolist() == [5, -1]
    narrow = spaces.Box(-0.1, 0.1, (1,), np.float64)
    assert float(np.float32(0.1)) > 0.1
    assert action(narrow, np.array([0.1], np.float32)).tolist() == [0.1]
