"""Curves of the episodes in the files of `Monitor`. Drawing needs matplotlib."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .monitor import load_results

X_TIMESTEPS = "timesteps"
X_EPISODES = "episodes"
X_WALLTIME = "walltime_hrs"
EPISODES_WINDOW = 100


def ts2xy(data_frame: Any, x_axis: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The returns of episodes over steps, episodes or hours."""
    if x_axis == X_TIMESTEPS:
        x = np.cumsum(data_frame.l.values)
    elif x_axis == X_EPISODES:
        x = np.arange(len(data_frame))
    elif x_axis == X_WALLTIME:
        x = data_frame.t.values / 3600.0
    else:
        raise ValueError(f"the axis is {x_axis!r}, but it must be {X_TIMESTEPS!r}, {X_EPISODES!r} or {X_WALLTIME!r}")
    return x, data_frame.r.values


def window_func(
    x: NDArray[Any], y: NDArray[Any], window: int, func: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """A function of a window that moves over the values, such as their mean."""
    return x[window - 1 :], func(np.lib.stride_tricks.sliding_window_view(y, window), axis=-1)


def plot_results(dirs: list[str], num_timesteps: int | None, x_axis: str, task_name: str, figsize: Any = (8.0, 2.0)) -> None:
    """Draws the returns in the directories, each with its moving mean."""
    from matplotlib import pyplot

    figure = pyplot.figure(task_name, figsize=figsize)
    axes = figure.add_subplot()
    for folder in dirs:
        frame = load_results(folder)
        if num_timesteps is not None:
            frame = frame[frame.l.cumsum() <= num_timesteps]
        x, y = ts2xy(frame, x_axis)
        axes.scatter(x, y, s=2)
        if len(x) >= EPISODES_WINDOW:
            axes.plot(*window_func(x, y, EPISODES_WINDOW, np.mean))
    axes.set(xlabel=x_axis, ylabel="Episode Rewards", title=task_name)
    figure.tight_layout()
