"""Noise that is added to actions, with Stable-Baselines3's names."""

from typing import Any

import numpy as np


class ActionNoise:
    """Noise of deterministic actions."""

    def reset(self) -> None:
        """Begins an episode. The run does that by itself."""

    def parameters(self) -> dict[str, Any]:
        """What the noise is, for the Rust half."""
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

    def parameters(self) -> dict[str, Any]:
        return {"type": "normal", "sigma": _one("sigma", self._sigma)}

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

    def parameters(self) -> dict[str, Any]:
        return {
            "type": "ornstein-uhlenbeck",
            "sigma": _one("sigma", self._sigma),
            "theta": float(self._theta),
            "dt": float(self._dt),
        }

    def __repr__(self) -> str:
        return f"OrnsteinUhlenbeckActionNoise(mu={self._mu}, sigma={self._sigma})"


class SavedNoise(ActionNoise):
    """The noise of a saved model."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._parameters = parameters

    def parameters(self) -> dict[str, Any]:
        return self._parameters
