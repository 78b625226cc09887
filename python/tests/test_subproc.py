"""`SubprocVecEnv` when an environment fails, a process dies or Ctrl-C comes."""

import _thread
import os
import signal
import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pavlov_rl import PPO, EnvError, MaskablePPO
from pavlov_rl.common.vec_env import SubprocVecEnv

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Unpicklable(Exception):
    """What is raised by an environment that holds something of its process."""

    def __init__(self, at):
        super().__init__(f"broken at {at}")
        self.lock = threading.Lock()


class NeedsTwo(Exception):
    """It can be pickled, and not be made again."""

    def __init__(self, what, where):
        super().__init__(f"{what} at {where}")


class Counts(gymnasium.Env):
    """Its observation is the number of steps in the episode; `fails` is called in the step that `at` names."""

    def __init__(self, at=None, fails=None, size=1):
        self.observation_space = spaces.Box(0, 100, (size,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.at, self.fails = at, fails
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.length = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        self.length += 1
        if self.steps == self.at:
            self.fails(self)
        return self._obs(), 1.0, self.length == 10, False, {}

    def _obs(self):
        return np.full(self.observation_space.shape, self.length, np.float32)

    def close(self):
        if self.at == "close":
            self.fails(self)


def raises(kind, *about):
    def fail(env):
        raise kind(*about)

    return fail


def made(fails, at=20, size=1):
    """Three copies, of which the second fails. Forked processes start at once."""
    makes = [lambda: Counts(size=size), lambda: Counts(at, fails, size), lambda: Counts(size=size)]
    return SubprocVecEnv(makes, "fork")


def closed_soon(envs):
    begun = time.monotonic()
    envs.close()
    assert time.monotonic() - begun < 20
    assert not any(process.is_alive() for process in envs.processes)


def test_an_exception_is_raised_as_itself_with_the_copy_and_its_traceback():
    envs = made(raises(OSError, "the robot is gone"))
    model = PPO("MlpPolicy", envs, **SMALL)
    with pytest.raises(OSError, match="the robot is gone") as caught:
        model.learn(320)
    cause = caught.value.__cause__
    assert isinstance(cause, EnvError)
    assert f"copy 1, process {envs.processes[1].pid}, raised OSError: the robot is gone" in str(cause)
    assert "in step" in str(cause) and "in fail" in str(cause)
    # The environment goes on, in new episodes.
    seen = []
    model.learn(96, callback=lambda local, _: seen.append(local["new_obs"][:, 0].tolist()) or True)
    assert seen[:3] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    closed_soon(envs)


@pytest.mark.parametrize(("kind", "about"), [(Unpicklable, ["noon"]), (NeedsTwo, ["broken", "noon"])])
def test_an_exception_that_cannot_be_sent_is_told(kind, about):
    envs = made(raises(kind, *about))
    with pytest.raises(EnvError, match=rf"(?s)copy 1, process \d+, raised .*{kind.__name__}: broken at noon.*in step"):
        PPO("MlpPolicy", envs, **SMALL).learn(320)
    closed_soon(envs)


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (lambda env: os._exit(7), "the process of copy 1 ended with exit code 7; `reset` starts it again"),
        (lambda env: os.kill(os.getpid(), signal.SIGKILL), r"copy 1 ended with exit code -9 \(SIGKILL\)"),
        (lambda env: os.abort(), r"copy 1 ended with exit code -6 \(SIGABRT\)"),
        (raises(SystemExit, 3), r"(?s)copy 1, process \d+, raised SystemExit: 3.*in step"),
    ],
    ids=["exit", "killed", "aborted", "SystemExit"],
)
@pytest.mark.parametrize("start_method", ["forkserver", "fork"])
def test_a_process_that_dies_is_named_and_started_again(fails, told, start_method, tmp_path):
    def once(env):
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            fails(env)

    envs = SubprocVecEnv([Counts, lambda: Counts(20, once), Counts], start_method)
    model = PPO("MlpPolicy", envs, **SMALL)
    with pytest.raises(EnvError, match=told):
        model.learn(320)
    with pytest.warns(RuntimeWarning, match="copy 1 died and is started again"):
        model.learn(48)
    envs.env_method("reset")
    closed_soon(envs)


def test_a_function_that_fails_is_told_at_once():
    def fails():
        raise ValueError("no such robot")

    with pytest.raises(ValueError, match="no such robot") as caught:
        SubprocVecEnv([Counts, fails], "fork")
    assert "copy 1" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="copy 1 has .*must have equal spaces"):
        SubprocVecEnv([Counts, lambda: Counts(size=2)], "fork")
    with pytest.raises(EnvError, match="copy 0 ended with exit code 5 at its start"):
        SubprocVecEnv([lambda: os._exit(5)], "fork")


# With observations that fill a pipe several times, so that answers are read in parts.
@pytest.mark.parametrize("size", [1, 200_000])
def test_after_ctrl_c_the_next_learn_starts_new_episodes(size):
    envs = made(lambda env: time.sleep(2.0), size=size)
    model = PPO("MlpPolicy", envs, **{**SMALL, "policy_kwargs": {"net_arch": [1]}})
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.learn(100_000)
    timer.join()
    seen = []
    model.learn(96, callback=lambda local, _: seen.append(local["new_obs"][:, 0].tolist()) or True)
    assert seen[:3] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    closed_soon(envs)


def test_a_vector_closes_in_the_middle_of_a_step_and_says_what_does_not_close(monkeypatch):
    envs = made(None, size=200_000)
    envs.reset()
    envs.step_async(np.zeros(3, np.int64))
    closed_soon(envs)
    with pytest.raises(EnvError, match="closed; make a new one"):
        envs.reset()
    with pytest.raises(OSError, match="the arm is stuck"):
        closed_soon(made(raises(OSError, "the arm is stuck"), at="close"))
    monkeypatch.setattr("pavlov_rl.common.vec_env.subproc_vec_env._TO_CLOSE", 0.5)
    with pytest.warns(RuntimeWarning, match="copy 1 did not close its environment"):
        closed_soon(made(lambda env: time.sleep(60), at="close"))


def test_children_survive_the_ctrl_c_of_a_terminal():
    envs = made(None)
    envs.reset()
    for process in envs.processes:
        os.kill(process.pid, signal.SIGINT)
    envs.step(np.zeros(3, np.int64))
    closed_soon(envs)


def test_an_attribute_that_cannot_be_sent_is_there():
    class Legal(Counts):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

        def action_masks(self):
            return np.array([True, False])

    envs = SubprocVecEnv([Legal, Legal], "fork")
    assert envs.has_attr("action_masks") and not envs.has_attr("legs")
    with pytest.raises(TypeError, match="pickle"):
        envs.get_attr("lock")
    MaskablePPO("MlpPolicy", envs, **SMALL).learn(64)
    closed_soon(envs)


def test_too_few_actions_are_refused():
    envs = made(None)
    envs.reset()
    with pytest.raises(ValueError, match="`actions` has 2 actions, but there are 3 copies"):
        envs.step([0, 1])
    envs.step([0, 1, 0])
    closed_soon(envs)
