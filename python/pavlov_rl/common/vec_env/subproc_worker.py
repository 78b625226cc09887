"""The process of one copy of a `SubprocVecEnv`."""

import faulthandler
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium

from ...spaces import ADMISSION
from .dummy_vec_env import is_wrapped, set_attr_of


class Report(NamedTuple):
    """What is told of an exception: itself, if it can be pickled, a line, the traceback, and whether the process ends of it."""

    pickled: bytes | None
    line: str
    trace: str
    ends: bool


def work(remote: Connection, inherited: Connection | None, make: bytes) -> None:
    """Serves one environment until it is told to close. `inherited` is the other end, if this process has it by a fork."""
    # Ctrl-C reaches every process of a terminal. The process that has the vector decides what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stderr is not None:
        faulthandler.enable()
    if inherited is not None:
        inherited.close()
    copy: _Copy | None = None
    command = ""
    while command != "close":
        try:
            number, command, data = remote.recv()
        except (EOFError, OSError):
            break
        end: BaseException | None = None
        try:
            copy = copy or _Copy(cloudpickle.loads(make)())
            remote.send((number, True, copy.answer(command, data)))
        except BaseException as error:  # It is raised where the vector is.
            end = None if isinstance(error, Exception) else error
            try:
                remote.send((number, False, _report(error)))
            except OSError:
                # The process has ended.
                break
        if end is not None:
            raise end


class _Copy:
    """An environment, and what its last reset told."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        self.reset_info: dict[str, Any] = {}

    def answer(self, command: str, data: Any) -> Any:
        env = self.env
        if command == "step":
            obs, reward, terminated, truncated, info = env.step(data)
            reward = ADMISSION.reward(reward)
            terminated, truncated = ADMISSION.flag(terminated, "terminated"), ADMISSION.flag(truncated, "truncated")
            info["TimeLimit.truncated"] = truncated and not terminated
            if terminated or truncated:
                info["terminal_observation"] = obs
                obs, self.reset_info = env.reset()
            return obs, reward, terminated or truncated, info, self.reset_info
        if command == "reset":
            return env.reset(**data)
        if command == "render":
            return env.render()
        if command == "close":
            return env.close()
        if command == "spaces":
            return env.observation_space, env.action_space, env.render_mode
        if command == "call":
            name, arguments, keywords = data
            return env.get_wrapper_attr(name)(*arguments, **keywords)
        if command == "get":
            return env.get_wrapper_attr(data)
        if command == "has":
            return env.has_wrapper_attr(data)
        if command == "set":
            return set_attr_of(env, *data)
        assert command == "is_wrapped", command
        return is_wrapped(env, cloudpickle.loads(data))


def _report(error: BaseException) -> Report:
    pickled = None
    if isinstance(error, Exception):
        try:
            pickled = cloudpickle.dumps(error)
        except Exception:
            # Then the line and the traceback tell of it.
            pass
    line = traceback.format_exception_only(error)[-1].strip()
    return Report(pickled, line, "".join(traceback.format_exception(error)), not isinstance(error, Exception))
