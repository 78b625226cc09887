"""Environments in Python that somebody else steps between two rollouts: new episodes begin, and none is mixed."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import DQN, PPO
from pavlov_rl.common.callbacks import BaseCallback, EvalCallback
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Clock(gymnasium.Env):
    """The observation is the time since the episode began, which ends at 50."""

    observation_space = spaces.Box(0.0, 100.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        return np.array([float(self.time)], np.float32), 1.0, False, self.time == 50, {}


class Keeps(BaseCallback):
    """Keeps the times that the steps show, and lets somebody else step the environment now and then."""

    def __init__(self, step_it):
        super().__init__()
        self.times, self.lengths, self.step_it = [], [], step_it

    def _on_step(self):
        self.times.append(self.locals["new_obs"].ravel().tolist())
        self.lengths += [info["episode"]["l"] for info in self.locals["infos"] if "episode" in info]
        if self.num_timesteps % 64 == 0:
            self.step_it(self.model)
        return True


def through_evaluate_policy(model):
    evaluate_policy(model, model.get_env(), n_eval_episodes=1, warn=False)


def through_the_objects(model):
    env = model.get_env().unwrapped.envs[0]
    env.reset()
    env.step(0)


def check(keeps):
    """A step goes to the next time, or to the first one after a reset."""
    for copy_ in zip(*keeps.times):
        for at, (before, now) in enumerate(zip(copy_, copy_[1:]), start=1):
            begins_here = at % (64 // len(keeps.times[0])) == 0
            assert now == before + 1 or (before == 49.0 and now == 0.0) or (begins_here and now == 1.0), (at, before, now)
    assert all(length == 50 for length in keeps.lengths)


@pytest.mark.parametrize("step_it", [through_evaluate_policy, through_the_objects])
@pytest.mark.parametrize(
    "make",
    [
        Clock,
        lambda: DummyVecEnv([lambda: Monitor(Clock()) for _ in range(2)]),
        lambda: VecNormalize(DummyVecEnv([lambda: Monitor(Clock())]), norm_obs=False),
    ],
)
def test_who_evaluates_in_the_training_environment_leaves_its_episodes_whole(make, step_it):
    keeps = Keeps(step_it)
    PPO("MlpPolicy", make(), **SMALL).learn(640, callback=keeps)
    check(keeps)
    # New episodes did begin: with 64 steps between two evaluations one of 50 steps ends in each copy, but no second one.
    assert all([now for now in copy_].count(1.0) >= 10 for copy_ in zip(*keeps.times))


def test_processes_and_vectors_of_gymnasium_are_noticed_by_their_vector():
    envs = SubprocVecEnv([Clock])
    keeps = Keeps(through_evaluate_policy)
    PPO("MlpPolicy", envs, **SMALL).learn(192, callback=keeps)
    envs.close()
    check(keeps)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    keeps = Keeps(through_evaluate_policy)
    PPO("MlpPolicy", gymnasium.vector.SyncVectorEnv([Clock], autoreset_mode=mode), **SMALL).learn(192, callback=keeps)
    check(keeps)


def test_nothing_begins_anew_when_nobody_steps():
    """As in Stable-Baselines3 2.9.2: 320 steps are six episodes of 50 and a seventh that runs, also in two parts."""
    keeps = Keeps(lambda _: None)
    model = PPO("MlpPolicy", Clock(), **SMALL).learn(160, callback=keeps)
    model.learn(160, callback=keeps, reset_num_timesteps=False)
    assert keeps.lengths == [50] * 6


def test_steps_before_and_between_two_calls_of_learn_are_noticed():
    env = Clock()
    model = PPO("MlpPolicy", env, **SMALL)
    evaluate_policy(model, env, n_eval_episodes=1, warn=False)
    keeps = Keeps(lambda _: None)
    model.learn(32, callback=keeps)
    env.reset()
    for _ in range(7):
        env.step(0)
    model.learn(32, callback=keeps, reset_num_timesteps=False)
    assert [time for (time,) in keeps.times] == [*range(1, 33), *range(1, 33)]


def test_an_off_policy_model_stores_no_step_between_two_episodes():
    env = Clock()
    evaluates = EvalCallback(env, eval_freq=70, n_eval_episodes=1, verbose=0, warn=False)
    keeps = Keeps(lambda _: None)
    DQN("MlpPolicy", env, learning_starts=20, buffer_size=1000, seed=0).learn(400, callback=[evaluates, keeps])
    assert set(keeps.lengths) == {50}


def test_an_environment_that_is_watched_can_be_copied_and_pickled():
    env = Clock()
    model = PPO("MlpPolicy", env, **SMALL)
    env.reset()
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        other.step(0)
        assert (env.time, other.time) == (0, 1)
    assert model._env.stepper.notice.happened
    model._env.stepper.notice.stop()
    assert "step" not in vars(env)


def test_a_step_of_the_users_own_is_called_and_put_back():
    env = Clock()
    own = env.step = lambda action: (np.array([1.0], np.float32), 2.0, True, False, {})
    model = PPO("MlpPolicy", env, **SMALL)
    assert env.step(0)[1] == 2.0 and model._env.stepper.notice.happened
    assert copy.copy(env).step(0)[1] == 2.0
    model._env.stepper.notice.stop()
    assert vars(env)["step"] is own
