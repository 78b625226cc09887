"""Noise that is added to actions, with Stable-Baselines3's names."""

from typing import Any

import numpy as np


class ActionNoise:
    """Noise of deterministic actions."""

    def reset(self) -> None:
        """Begins an episode. The run does that by itself."""

    def exploration_config(self, high: list[float], random_timesteps: int) -> dict[str, Any]:
        """The setting that adds this noise to actions, of which `high` are the upper bounds."""
        name = type(self).__name__
        raise TypeError(f"`action_noise` is {name}, but it must be NormalActionNoise or OrnsteinUhlenbeckActionNoise")


def _one(what: str, values: Any) -> float:
    """The number that all components have."""
    array = np.atleast_1d(np.asarray(values, np.float64))
    if not np.all(array == array[0]):
        raise TypeError(f"`{what}` is {array.tolist()}, but all components of an action have the same noise here")
    return float(array[0])


class NormalActionNoise(ActionNoise):
    """Gaussian noise. As in Stable-Baselines3, `sigma` is for actions in [-1, 1]."""

    def __init__(self, mean: Any, sigma: Any, dtype: Any = np.float32) -> None:
        self._mu, self._sigma = mean, sigma
        if _one("mean", mean) != 0.0:
            raise TypeError(f"`mean` is {mean!r}, but the noise is around 0 here")

    def exploration_config(self, high: list[float], random_timesteps: int) -> dict[str, Any]:
        return {
            "type": "GaussianNoise",
            "random_timesteps": random_timesteps,
            "stddev": _one("sigma", self._sigma),
            "initial_scale": 1.0,
            "final_scale": 1.0,
            "scale_timesteps": 1,
        }

    def __repr__(self) -> str:
        return f"NormalActionNoise(mu={self._mu}, sigma={self._sigma})"


class OrnsteinUhlenbeckActionNoise(ActionNoise):
    """Noise that is correlated from step to step (Uhlenbeck and Ornstein 1930)."""

    def __init__(
        self,
        mean: Any,
        sigma: Any,
        theta: float = 0.15,
        dt: float = 1e-2,
        initial_noise: Any = None,
        dtype: Any = np.float32,
    ) -> None:
        self._mu, self._sigma, self._theta, self._dt = mean, sigma, theta, dt
        if _one("mean", mean) != 0.0:
            raise TypeError(f"`mean` is {mean!r}, but the noise is around 0 here")
        if initial_noise is not None:
            raise TypeError("`initial_noise` is given, but the noise of every episode starts at 0 here; leave it out")

    def exploration_config(self, high: list[float], random_timesteps: int) -> dict[str, Any]:
        # One step there: noise += theta * -noise * dt + sigma * sqrt(dt) * normal, for actions in [-1, 1]; the range is 2.
        return {
            "type": "OrnsteinUhlenbeckNoise",
            "random_timesteps": random_timesteps,
            "ou_base_scale": 0.5,
            "ou_theta": self._theta * self._dt,
            "ou_sigma": _one("sigma", self._sigma) * float(np.sqrt(self._dt)),
            "initial_scale": 1.0,
            "final_scale": 1.0,
            "scale_timesteps": 1,
        }

    def __repr__(self) -> str:
        return f"OrnsteinUhlenbeckActionNoise(mu={self._mu}, sigma={self._sigma})"


class SavedNoise(ActionNoise):
    """The noise of a saved model."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def exploration_config(self, high: list[float], random_timesteps: int) -> dict[str, Any]:
        return {**self._config, "random_timesteps": random_timesteps}
