"""`VecFrameStack`: the last observations of each copy as one."""

from typing import Any

from gymnasium import spaces

from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper
from .stacked_observations import ChannelsOrder, StackedObservations


class VecFrameStack(VecEnvWrapper):
    """Gives the last `n_stack` observations in place of the newest one, along the channels of images and along the last axis of
    anything else. `channels_order` is `"first"` or `"last"`, or a dictionary of these for a Dict."""

    def __init__(self, venv: VecEnv, n_stack: int, channels_order: ChannelsOrder = None) -> None:
        space: Any = venv.observation_space
        if not isinstance(space, (spaces.Box, spaces.Dict)):
            raise TypeError(f"only a Box, or a Dict of them, can be stacked, but the observations are {space}")
        self.stacked_obs = StackedObservations(venv.num_envs, n_stack, space, channels_order)
        super().__init__(venv, self.stacked_obs.stacked_observation_space)

    def reset(self) -> VecEnvObs:
        return self.stacked_obs.reset(self.venv.reset())

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        obs, infos = self.stacked_obs.update(obs, dones, infos)
        return obs, rewards, dones, infos
