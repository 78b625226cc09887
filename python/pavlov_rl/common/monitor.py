"""`Monitor`: tells and writes the return and length of every episode, as Stable-Baselines3's does."""

import csv
import json
import os
import time
from collections.abc import Iterable
from glob import glob
from typing import Any, TextIO

import gymnasium

from ..spaces import ADMISSION

EXT = "monitor.csv"


class LoadMonitorResultsError(Exception):
    """There are no files of monitors in a directory."""


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts `{"r": return, "l": length, "t": seconds}` into `info["episode"]` of the last step of every episode.

    With a `filename` each episode is also a line of `<filename>.monitor.csv`. `reset_keywords` are arguments of `reset`, and
    `info_keywords` keys of the last `info`, that become columns.
    """

    EXT = EXT

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        filename: str | os.PathLike[str] | None = None,
        allow_early_resets: bool = True,
        reset_keywords: tuple[str, ...] = (),
        info_keywords: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.results: ResultsWriter | None = None
        if filename is not None:
            header = {"t_start": self.t_start, "env_id": str(env.spec.id if env.spec is not None else None)}
            self.results = ResultsWriter(os.fspath(filename), header, reset_keywords + info_keywords, override_existing)
        self.allow_early_resets = allow_early_resets
        self.reset_keywords = reset_keywords
        self.info_keywords = info_keywords
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0
        self.current_reset_info: dict[str, Any] = {}

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError("`reset` came before the end of the episode; make the Monitor with allow_early_resets=True")
        self.rewards = []
        self.needs_reset = False
        for name in self.reset_keywords:
            if kwargs.get(name) is None:
                raise ValueError(f"`reset` needs the keyword argument {name}, which is one of `reset_keywords`")
            self.current_reset_info[name] = kwargs[name]
        result: tuple[Any, dict[str, Any]] = self.env.reset(**kwargs)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.needs_reset:
            raise RuntimeError("the episode has ended; call `reset` before the next step")
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(ADMISSION.reward(reward))
        if terminated or truncated:
            self.needs_reset = True
            total, length = sum(self.rewards), len(self.rewards)
            seconds = time.time() - self.t_start
            episode = {"r": round(total, 6), "l": length, "t": round(seconds, 6)}
            for key in self.info_keywords:
                episode[key] = info[key]
            self.episode_returns.append(total)
            self.episode_lengths.append(length)
            self.episode_times.append(seconds)
            episode.update(self.current_reset_info)
            if self.results is not None:
                self.results.write_row(episode)
            info["episode"] = episode
        self.total_steps += 1
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        super().close()
        if self.results is not None:
            self.results.close()

    def get_total_steps(self) -> int:
        """Steps of all episodes."""
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """The return of every episode that has ended."""
        return self.episode_returns

    def get_episode_lengths(self) -> list[int]:
        """The length of every episode that has ended."""
        return self.episode_lengths

    def get_episode_times(self) -> list[float]:
        """Seconds from the beginning to the end of every episode that has ended."""
        return self.episode_times


class ResultsWriter:
    """Writes episodes to a `.monitor.csv`: a line of JSON, then a table."""

    def __init__(self, filename: str, header: dict[str, Any], extra_keys: Iterable[str], override: bool) -> None:
        if not filename.endswith(EXT):
            filename = os.path.join(filename, EXT) if os.path.isdir(filename) else f"{filename}.{EXT}"
        self.filename = os.path.realpath(filename)
        os.makedirs(os.path.dirname(self.filename), exist_ok=True)
        is_new = override or not os.path.exists(self.filename)
        self.file_handler: TextIO = open(self.filename, "w" if is_new else "a", newline="\n")
        self.logger = csv.DictWriter(self.file_handler, fieldnames=("r", "l", "t", *extra_keys))
        if is_new:
            self.file_handler.write(f"#{json.dumps(header)}\n")
            self.logger.writeheader()
        self.file_handler.flush()

    def write_row(self, episode: dict[str, Any]) -> None:
        """Adds an episode."""
        self.logger.writerow(episode)
        self.file_handler.flush()

    def close(self) -> None:
        """Closes the file."""
        self.file_handler.close()


def get_monitor_files(path: str) -> list[str]:
    """The files of monitors in a directory."""
    return glob(os.path.join(path, f"*{EXT}"))


def load_results(path: str) -> Any:
    """All episodes in a directory as a pandas `DataFrame`, in the order in which they ended. It needs pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("`load_results` gives a pandas DataFrame: pip install pandas") from error
    files = get_monitor_files(path)
    if not files:
        raise LoadMonitorResultsError(f"no files *{EXT} in {path}")
    frames = []
    for name in files:
        with open(name) as file:
            header = json.loads(file.readline()[1:])
            frame = pandas.read_csv(file, index_col=None)
        frame["t"] += header["t_start"]
        frame["_start"] = header["t_start"]
        frames.append(frame)
    together = pandas.concat(frames)
    first = together.pop("_start").min()
    together = together.sort_values("t").reset_index(drop=True)
    together["t"] -= first
    return together
