"""`SubprocVecEnv`: environments of Gymnasium, each in a process of its own."""

import multiprocessing
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, EnvError
from .base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, makers, stacked
from .subproc_worker import Report, work

# Seconds that environments have to close.
_TO_CLOSE = 30.0


class _Failure(NamedTuple):
    """What is raised in place of an answer, and its cause."""

    error: Exception
    cause: Exception | None


class SubprocVecEnv(VecEnv):
    """Steps each environment in a process of its own, for environments whose steps take long. Processes are started by
    `start_method`, `forkserver` or else `spawn`: a script needs `if __name__ == "__main__":` around what it does.

    What an environment raises is raised here. A process that died is started again by the next `reset`.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]], start_method: str | None = None
    ) -> None:
        self.waiting = self.closed = False
        if start_method is None:
            start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(start_method)
        self._makes = [cloudpickle.dumps(make) for make in makers(env_fns)]
        self.num_envs = len(self._makes)
        self.remotes: list[Connection] = []
        self.processes: list[Any] = []
        # Requests of each copy are numbered. The answer to one that was given up, as after Ctrl-C, is no other's answer.
        self._numbers = [0] * self.num_envs
        try:
            for copy in range(self.num_envs):
                self._start(copy)
            told = self._ask("spaces", None)
            for copy, (observations, actions, _) in enumerate(told):
                if (observations, actions) != told[0][:2]:
                    problem = f"copy {copy} has {observations} and {actions}, but copy 0 has {told[0][0]} and {told[0][1]}"
                    raise ConfigError(f"{problem}; the environments of a vector must have equal spaces")
        except BaseException:
            self._end(0.0)
            raise
        observation_space, action_space, render_mode = told[0]
        super().__init__(self.num_envs, observation_space, action_space)
        self.render_mode = render_mode

    def _start(self, copy: int) -> None:
        """Starts the process of a copy, in place of an earlier one."""
        ours, theirs = self._context.Pipe()
        # With its own copy of our end, a forked process would not notice that we are gone.
        inherited = ours if self._context.get_start_method() == "fork" else None
        process = self._context.Process(target=work, args=(theirs, inherited, self._makes[copy]), daemon=True)
        process.start()
        # It is the only one with that end, so that we notice that it is gone.
        theirs.close()
        self.remotes[copy : copy + 1], self.processes[copy : copy + 1] = [ours], [process]

    def _send(self, copy: int, command: str, data: Any) -> None:
        if self.closed:
            raise EnvError("the SubprocVecEnv is closed; make a new one")
        self._numbers[copy] += 1
        try:
            self.remotes[copy].send((self._numbers[copy], command, data))
        except OSError:
            # Its process has died, which is told where the answer is read.
            pass

    def _answer(self, copy: int) -> Any:
        """The answer to the last request."""
        remote = self.remotes[copy]
        while True:
            # Nearly always Ctrl-C comes here.
            _wait(remote)
            try:
                number, is_fine, answer = remote.recv()
            except (EOFError, OSError):
                return _Failure(self._death(copy), None)
            except Exception as error:
                problem = f"the answer of copy {copy} cannot be read here: {type(error).__name__}: {error}"
                return _Failure(EnvError(problem), error)
            except BaseException:
                # The answer is incomplete, so the start of the next one is unknown.
                self.processes[copy].kill()
                self.processes[copy].join()
                raise
            if number == self._numbers[copy]:
                return answer if is_fine else self._failure(copy, answer)

    def _failure(self, copy: int, report: Report) -> _Failure:
        """What an environment raised."""
        if report.ends:
            # The next request must not reach it.
            self.processes[copy].join(5.0)
            self.processes[copy].kill()
            self.processes[copy].join()
        told = EnvError(f"copy {copy}, process {self.processes[copy].pid}, raised {report.line}\n\n{report.trace}")
        try:
            error = cloudpickle.loads(report.pickled) if report.pickled is not None else None
        except Exception:
            # It has no meaning in this process.
            error = None
        return _Failure(error, told) if isinstance(error, Exception) else _Failure(told, None)

    def _death(self, copy: int) -> EnvError:
        """The error that tells of a process that is gone."""
        process = self.processes[copy]
        process.join(5.0)
        code = process.exitcode
        name = f" ({signal.Signals(-code).name})" if code is not None and code < 0 else ""
        problem = f"the process of copy {copy} ended with exit code {code}{name}"
        if self._numbers[copy] == 1:
            return EnvError(f'{problem} at its start; a script needs `if __name__ == "__main__":` around what it does')
        return EnvError(f"{problem}; `reset` starts it again")

    def _receive(self, copies: Iterable[int]) -> list[Any]:
        """The answers of all, each of which is read before an error of one is raised."""
        answers = [self._answer(copy) for copy in copies]
        for answer in answers:
            if isinstance(answer, _Failure):
                raise answer.error from answer.cause
        return answers

    def _ask(self, command: str, data: Any, indices: VecEnvIndices = None) -> list[Any]:
        copies = self._get_indices(indices)
        for copy in copies:
            self._send(copy, command, data)
        return self._receive(copies)

    def reset(self) -> VecEnvObs:
        self.waiting = False
        for copy, process in enumerate(self.processes):
            if not self.closed and not process.is_alive():
                problem = f"the process of copy {copy} died and is started again"
                warnings.warn(f"{problem}; its environment is as its function makes it", RuntimeWarning, stacklevel=2)
                self._start(copy)
        for copy, (seed, options) in enumerate(zip(self._seeds, self.take_options(), strict=True)):
            self._send(copy, "reset", {"seed": seed, **options})
        answers = self._receive(range(self.num_envs))
        self._seeds = [None] * self.num_envs
        self.reset_infos = [info for _, info in answers]
        return stacked(self.observation_space, [obs for obs, _ in answers])

    def step_async(self, actions: Any) -> None:
        if len(actions) != self.num_envs:
            raise ConfigError(f"`actions` has {len(actions)} actions, but there are {self.num_envs} copies; give one for each")
        for copy, action in enumerate(actions):
            self._send(copy, "step", action)
        self.waiting = True

    def step_wait(self) -> VecEnvStepReturn:
        if not self.waiting:
            raise EnvError("`step_wait` came without `step_async`, which takes the actions")
        # Also if one of them fails: there is nothing else to wait for.
        self.waiting = False
        answers = self._receive(range(self.num_envs))
        observations, rewards, dones, infos, self.reset_infos = (list(part) for part in zip(*answers))
        obs = stacked(self.observation_space, observations)
        return obs, np.array(rewards, np.float32), np.array(dones, bool), infos

    def close(self) -> None:
        if self.closed:
            return
        for copy in range(self.num_envs):
            self._send(copy, "close", None)
        failures = self._end(_TO_CLOSE)
        for failure in failures:
            raise failure.error from failure.cause

    def _end(self, seconds: float) -> list[_Failure]:
        """Waits that long for the processes to end, and then ends them; what environments raised when they were closed."""
        self.closed = True
        failures = []
        until = time.monotonic() + seconds
        for copy, (remote, process) in enumerate(zip(self.remotes, self.processes)):
            answer = None
            # An unread answer would be taken for the last one.
            while remote.poll(max(until - time.monotonic(), 0.0)):
                try:
                    number, is_fine, answer = remote.recv()
                except (EOFError, OSError):
                    break
                if number == self._numbers[copy] and not is_fine:
                    failures.append(self._failure(copy, answer))
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():
                if seconds:
                    problem = f"copy {copy} did not close its environment in {seconds:.0f} s"
                    warnings.warn(f"{problem}; its process is ended", RuntimeWarning, stacklevel=3)
                process.kill()
                process.join()
            remote.close()
        return failures

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        return self._ask("render", None) if self.render_mode == "rgb_array" else [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._ask("get", attr_name, indices)

    def has_attr(self, attr_name: str) -> bool:
        return all(self._ask("has", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._ask("set", (attr_name, value), indices)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        return self._ask("call", (method_name, args, kwargs), indices)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        return self._ask("is_wrapped", cloudpickle.dumps(wrapper_class), indices)


def _wait(remote: Connection) -> None:
    """Waits until there is something to read, or the other end is gone."""
    poll = select.poll()
    poll.register(remote.fileno(), select.POLLIN)
    poll.poll()
