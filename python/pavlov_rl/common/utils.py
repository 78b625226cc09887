"""Small functions that scripts take from `stable_baselines3.common.utils`."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np


def set_random_seed(seed: int, using_cuda: bool = False) -> None:
    """Seeds Python's and numpy's random numbers. A model has a seed of its own: the argument `seed`."""
    random.seed(seed)
    np.random.seed(seed)


def constant_fn(value: float) -> Callable[[float], float]:
    """A schedule that stays."""
    return lambda _: value


def get_linear_fn(start: float, end: float, end_fraction: float) -> Callable[[float], float]:
    """A schedule from `start` to `end`, which is reached after that fraction of training."""

    def linear(progress_remaining: float) -> float:
        done = 1.0 - progress_remaining
        return end if done > end_fraction else start + done * (end - start) / end_fraction

    return linear


def safe_mean(values: Any) -> float:
    """The mean; NaN of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")
