"""`VecMonitor`: tells of the return and length of every episode of a vector."""

import time
import warnings
from typing import Any

import numpy as np

from ..monitor import Monitor, ResultsWriter
from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper
from .native_vec_env import NativeVecEnv


class VecMonitor(VecEnvWrapper):
    """Puts `{"r": return, "l": length, "t": seconds}` into `info["episode"]`, and into a file if `filename` is given."""

    def __init__(self, venv: VecEnv, filename: str | None = None, info_keywords: tuple[str, ...] = ()) -> None:
        super().__init__(venv)
        # A native vector tells of its episodes itself, with the same numbers.
        if not isinstance(venv.unwrapped, NativeVecEnv) and any(venv.env_is_wrapped(Monitor)):
            problem = "the environments have a `Monitor` each, whose `info['episode']` is replaced by that of VecMonitor"
            warnings.warn(f"{problem}; one of the two is enough", UserWarning, stacklevel=2)
        self.t_start = time.time()
        self.info_keywords = info_keywords
        header = {"t_start": self.t_start, "env_id": None}
        self.results_writer = ResultsWriter(filename, header, info_keywords, True) if filename else None
        self.episode_returns = np.zeros(self.num_envs, np.float64)
        self.episode_lengths = np.zeros(self.num_envs, np.int64)

    def reset(self) -> VecEnvObs:
        self.episode_returns[:] = 0.0
        self.episode_lengths[:] = 0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        self.episode_returns += rewards
        self.episode_lengths += 1
        infos = [dict(info) for info in infos]
        for copy in np.flatnonzero(dones):
            episode: dict[str, Any] = {
                "r": float(self.episode_returns[copy]),
                "l": int(self.episode_lengths[copy]),
                "t": round(time.time() - self.t_start, 6),
            }
            for key in self.info_keywords:
                episode[key] = infos[copy][key]
            infos[copy]["episode"] = episode
            if self.results_writer is not None:
                self.results_writer.write_row(episode)
            self.episode_returns[copy], self.episode_lengths[copy] = 0.0, 0
        return obs, rewards, dones, infos

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        if wrapper_class is VecMonitor:
            return [True for _ in self._get_indices(indices)]
        return self.venv.env_is_wrapped(wrapper_class, indices)

    def close(self) -> None:
        if self.results_writer is not None:
            self.results_writer.close()
        super().close()
