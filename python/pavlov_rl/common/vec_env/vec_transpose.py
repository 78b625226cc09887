"""`VecTransposeImage`: images with the channels first."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...errors import ConfigError
from ...spaces import has_channels_first, is_image
from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper


class VecTransposeImage(VecEnvWrapper):
    """Turns images of height, width and channels, also those in a Dict, into channels, height and width; with `skip` it does
    nothing.

    Models here take images with the channels first and last, so none needs it.
    """

    def __init__(self, venv: VecEnv, skip: bool = False) -> None:
        self.skip = skip
        space: Any = venv.observation_space
        if not is_image(space) and not isinstance(space, spaces.Dict):
            raise AssertionError(f"the observations are {space}, but they must be images, or a Dict with images")
        self.image_space_keys: list[str] = []
        if skip:
            super().__init__(venv)
        elif isinstance(space, spaces.Dict):
            self.image_space_keys = [key for key, part in space.items() if is_image(part)]
            turned = {key: self.transpose_space(part, key) if is_image(part) else part for key, part in space.items()}
            super().__init__(venv, spaces.Dict(turned))
        else:
            super().__init__(venv, self.transpose_space(space))

    @staticmethod
    def transpose_space(observation_space: Any, key: str = "") -> spaces.Box:
        """The space with the channels first."""
        if not is_image(observation_space):
            raise AssertionError(f"the observation space {key} is {observation_space}, but it must be that of images")
        if has_channels_first(observation_space):
            raise AssertionError(f"the observation space {key} is {observation_space}, whose channels come first already")
        height, width, channels = observation_space.shape
        return spaces.Box(0, 255, (channels, height, width), observation_space.dtype)

    @staticmethod
    def transpose_image(image: NDArray[Any]) -> NDArray[Any]:
        """One image, or several, with the channels first."""
        if image.ndim not in (3, 4):
            raise ConfigError(f"an image of the shape {image.shape} was given; it has three axes, and several have four")
        return np.moveaxis(image, -1, -3)

    def transpose_observations(self, observations: Any) -> Any:
        """Observations with the channels first."""
        if self.skip:
            return observations
        if isinstance(observations, dict):
            turned = {key: self.transpose_image(observations[key]) for key in self.image_space_keys}
            return {**observations, **turned}
        return self.transpose_image(observations)

    def reset(self) -> VecEnvObs:
        return self.transpose_observations(self.venv.reset())

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        for copy in np.flatnonzero(dones):
            if "terminal_observation" in infos[copy]:
                infos[copy]["terminal_observation"] = self.transpose_observations(infos[copy]["terminal_observation"])
        return self.transpose_observations(obs), rewards, dones, infos
