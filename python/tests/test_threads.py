"""Models that act in one thread while other threads use them, or while they learn."""

import threading

import gymnasium
import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import PPO, SAC, RecurrentPPO
from pavlov_rl.common.callbacks import BaseCallback

SMALL = {"n_steps": 64, "batch_size": 32, "n_epochs": 1, "seed": 0, "policy_kwargs": {"net_arch": [8]}}
OBS = np.array([0.5, 0.1, -0.2], np.float32)


def answer(model):
    """A number that every update changes."""
    return float(model.predict(OBS, deterministic=True)[0][0])


def together(works, times=200):
    """What was raised in threads that work at the same time."""
    raised, ready = [], threading.Barrier(len(works))

    def run(work):
        ready.wait()
        try:
            for _ in range(times):
                work()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_threads_that_share_a_model_that_does_not_learn_are_never_told_that_it_does():
    model = PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(64)
    wanted = answer(model)

    def acts():
        assert answer(model) == wanted

    def sets():
        model.set_parameters(model.get_parameters())

    assert together([acts] * 6 + [sets] * 2) == []


def test_threads_keep_the_states_of_their_episodes():
    model = RecurrentPPO("MlpPolicy", "CartPole-v1", **{**SMALL, "policy_kwargs": {"lstm_hidden_size": 16}}).learn(64)
    episodes = [np.random.default_rng(seed).normal(size=(40, 4)).astype(np.float32) for seed in range(4)]

    def played(episode):
        state = None
        for obs in episode:
            _, state = model.predict(obs, state, deterministic=True)
        return state[0].tobytes()

    wanted = [played(episode) for episode in episodes]

    def plays(at):
        return lambda: None if played(episodes[at]) == wanted[at] else pytest.fail("another episode's state")

    assert together([plays(at) for at in range(4)], 10) == []


class Answers(BaseCallback):
    """What the model answers after each update."""

    def __init__(self):
        super().__init__()
        self.after = []

    def _on_training_start(self):
        self.after.append(answer(self.model))

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.after.append(answer(self.model))


@pytest.mark.parametrize("cls", [PPO, SAC])
def test_a_model_answers_while_another_thread_lets_it_learn_by_the_weights_of_the_last_update(cls):
    replay = {"learning_starts": 10, "buffer_size": 5000, "batch_size": 16, "seed": 0, "policy_kwargs": {"net_arch": [8]}}
    more = SMALL if cls is PPO else replay
    model = cls("MlpPolicy", "Pendulum-v1", **more)
    hooks, raised = Answers(), []

    def learns():
        try:
            model.learn(2000, callback=hooks)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=learns)
    thread.start()
    given = []
    while thread.is_alive():
        given.append(answer(model))
    thread.join()
    assert not raised and len(set(hooks.after)) == len(hooks.after) > 20
    assert set(given) <= set(hooks.after) and len(set(given)) > 1
    # In their order.
    places = [hooks.after.index(each) for each in given]
    assert places == sorted(places)


class Opponent(gymnasium.Env):
    """Asks the model that learns in it, in every step and reset."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    model = None

    def __init__(self):
        self.given, self.t = [], 0

    def _answer(self):
        if self.model is not None:
            self.given.append(answer(self.model))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._answer(), {}

    def step(self, action):
        self.t += 1
        return self._answer(), -float(abs(action[0])), self.t == 10, False, {}


def test_an_environment_asks_the_model_that_learns_in_it():
    env = Opponent()
    model = env.model = PPO("MlpPolicy", env, **SMALL)
    hooks = Answers()
    model.learn(256, callback=hooks)
    # 64 steps are a rollout, during which the weights stay; every tenth step is followed by a reset.
    assert set(env.given) == set(hooks.after[:-1])
    model.learn(64, reset_num_timesteps=False)
    with pytest.raises(pavlov_rl.BusyError, match="the model is learning"):
        env._answer = lambda: model.save("nowhere")
        model.learn(64)
