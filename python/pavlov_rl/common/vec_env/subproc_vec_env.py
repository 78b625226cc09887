"""`SubprocVecEnv`: environments of Gymnasium, each in a process of its own."""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from numpy.typing import NDArray

from .base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, stacked
from .dummy_vec_env import is_wrapped


def _work(remote: Connection, make: bytes) -> None:
    """Serves one environment until it is told to close."""
    env: gymnasium.Env[Any, Any] = cloudpickle.loads(make)()
    reset_info: dict[str, Any] = {}
    while True:
        try:
            command, data = remote.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            break
        try:
            answer: Any = None
            if command == "step":
                obs, reward, terminated, truncated, info = env.step(data)
                info["TimeLimit.truncated"] = truncated and not terminated
                if terminated or truncated:
                    info["terminal_observation"] = obs
                    obs, reset_info = env.reset()
                answer = obs, float(reward), bool(terminated or truncated), info, reset_info
            elif command == "reset":
                answer = env.reset(seed=data[0], **({"options": data[1]} if data[1] else {}))
            elif command == "render":
                answer = env.render()
            elif command == "close":
                env.close()
                remote.close()
                break
            elif command == "spaces":
                answer = env.observation_space, env.action_space, env.render_mode
            elif command == "call":
                name, arguments, keywords = data
                answer = env.get_wrapper_attr(name)(*arguments, **keywords)
            elif command == "get":
                answer = env.get_wrapper_attr(data)
            elif command == "set":
                setattr(env.unwrapped, *data)
            elif command == "is_wrapped":
                answer = is_wrapped(env, cloudpickle.loads(data))
            remote.send((True, answer))
        except Exception as error:  # It is raised where the vector is.
            remote.send((False, error))


class SubprocVecEnv(VecEnv):
    """Steps each environment in a process of its own, for environments whose steps take long. Processes are started by
    `start_method`, `forkserver` or else `spawn`: a script needs `if __name__ == "__main__":` around what it does."""

    def __init__(
        self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]], start_method: str | None = None
    ) -> None:
        self.waiting = self.closed = False
        if start_method is None:
            start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context: Any = multiprocessing.get_context(start_method)
        pairs = [context.Pipe() for _ in env_fns]
        self.remotes: list[Connection] = [ours for ours, _ in pairs]
        self.processes = []
        for (_, theirs), make in zip(pairs, env_fns):
            process = context.Process(target=_work, args=(theirs, cloudpickle.dumps(make)), daemon=True)
            process.start()
            self.processes.append(process)
            theirs.close()
        self.remotes[0].send(("spaces", None))
        ((observation_space, action_space, render_mode),) = self._receive(self.remotes[:1])
        super().__init__(len(env_fns), observation_space, action_space)
        self.render_mode = render_mode

    @staticmethod
    def _receive(remotes: Sequence[Connection]) -> list[Any]:
        """The answers of all, each of which is read before an error of one is raised."""
        answers = [remote.recv() for remote in remotes]
        for is_fine, answer in answers:
            if not is_fine:
                raise answer
        return [answer for _, answer in answers]

    def _ask(self, command: str, data: Any, indices: VecEnvIndices = None) -> list[Any]:
        remotes = [self.remotes[copy] for copy in self._get_indices(indices)]
        for remote in remotes:
            remote.send((command, data))
        return self._receive(remotes)

    def reset(self) -> VecEnvObs:
        for remote, seed in zip(self.remotes, self._seeds):
            remote.send(("reset", (seed, None)))
        answers = self._receive(self.remotes)
        self._seeds = [None] * self.num_envs
        self.reset_infos = [info for _, info in answers]
        return stacked(self.observation_space, [obs for obs, _ in answers])

    def step_async(self, actions: Any) -> None:
        for remote, action in zip(self.remotes, actions):
            remote.send(("step", action))
        self.waiting = True

    def step_wait(self) -> VecEnvStepReturn:
        answers = self._receive(self.remotes)
        self.waiting = False
        observations, rewards, dones, infos, self.reset_infos = (list(part) for part in zip(*answers))
        obs = stacked(self.observation_space, observations)
        return obs, np.array(rewards, np.float32), np.array(dones, bool), infos

    def close(self) -> None:
        if self.closed:
            return
        if self.waiting:
            for remote in self.remotes:
                remote.recv()
        for remote in self.remotes:
            remote.send(("close", None))
        for process in self.processes:
            process.join()
        self.closed = True

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        return self._ask("render", None) if self.render_mode == "rgb_array" else [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._ask("get", attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._ask("set", (attr_name, value), indices)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        return self._ask("call", (method_name, args, kwargs), indices)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        return self._ask("is_wrapped", cloudpickle.dumps(wrapper_class), indices)
