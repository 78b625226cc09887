"""`VecNormalize`: observations and rewards at mean 0 and standard deviation 1, by running statistics."""

import copy
import pickle
from typing import Any

import numpy as np
from gymnasium import spaces

from .base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper, unwrap_vec_wrapper


class RunningMeanStd:
    """Mean and variance of everything seen so far (Chan et al. 1979)."""

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = epsilon

    def update(self, rows: Any) -> None:
        """Adds rows."""
        rows = np.asarray(rows, np.float64)
        mean, var, count = rows.mean(axis=0), rows.var(axis=0), len(rows)
        delta, total = mean - self.mean, self.count + count
        square = self.var * self.count + var * count + np.square(delta) * self.count * count / total
        self.mean, self.var, self.count = self.mean + delta * count / total, square / total, total


class VecNormalize(VecEnvWrapper):
    """Normalises observations, and divides rewards by the standard deviation of discounted returns.

    While `training` is set, the statistics follow what is seen. `save` writes them, and `VecNormalize.load` reads them.
    """

    def __init__(
        self,
        venv: VecEnv,
        training: bool = True,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        norm_obs_keys: list[str] | None = None,
    ) -> None:
        super().__init__(venv)
        self.training, self.norm_obs, self.norm_reward = training, norm_obs, norm_reward
        self.clip_obs, self.clip_reward, self.gamma, self.epsilon = clip_obs, clip_reward, gamma, epsilon
        self.norm_obs_keys = norm_obs_keys
        if norm_obs_keys is not None and not isinstance(venv.observation_space, spaces.Dict):
            problem = f"`norm_obs_keys` is {norm_obs_keys}, but it is for observations in a Dict"
            raise ValueError(f"{problem}, and those here are {venv.observation_space}; leave it out")
        self.ret_rms = RunningMeanStd()
        self.obs_rms: Any = None
        space = venv.observation_space
        if norm_obs and isinstance(space, spaces.Dict):
            self.norm_obs_keys = list(space.keys()) if norm_obs_keys is None else norm_obs_keys
            for key in self.norm_obs_keys:
                if not isinstance(space[key], spaces.Box):
                    boxes = [name for name, part in space.items() if isinstance(part, spaces.Box)]
                    problem = f"only a Box can be normalised, but {key!r} is {space[key]}"
                    raise ValueError(f"{problem}; name the parts that can be: norm_obs_keys={boxes}")
            self.obs_rms = {key: RunningMeanStd(shape=space[key].shape or ()) for key in self.norm_obs_keys}
            self.observation_space = spaces.Dict(
                {key: self._box(part) if key in self.norm_obs_keys else part for key, part in space.items()}
            )
        elif norm_obs and isinstance(space, spaces.Box):
            self.obs_rms = RunningMeanStd(shape=space.shape)
            self.observation_space = self._box(space)
        elif norm_obs:
            raise ValueError(f"observations of {space} cannot be normalised; set norm_obs=False")
        self.returns = np.zeros(self.num_envs)
        self.old_obs: Any = None
        self.old_reward: Any = None

    def _box(self, space: Any) -> spaces.Box:
        return spaces.Box(-self.clip_obs, self.clip_obs, space.shape, np.float32)

    def reset(self) -> VecEnvObs:
        obs = self.venv.reset()
        self.old_obs = obs
        self.returns = np.zeros(self.num_envs)
        self._update(obs)
        return self.normalize_obs(obs)

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        self.old_obs, self.old_reward = obs, rewards
        self._update(obs)
        if self.training:
            self.returns = self.returns * self.gamma + rewards
            self.ret_rms.update(self.returns)
        for row in np.flatnonzero(dones):
            if "terminal_observation" in infos[row]:
                infos[row]["terminal_observation"] = self.normalize_obs(infos[row]["terminal_observation"])
        self.returns[np.asarray(dones, bool)] = 0.0
        return self.normalize_obs(obs), self.normalize_reward(rewards), dones, infos

    def _update(self, obs: Any) -> None:
        if not (self.training and self.norm_obs):
            return
        if isinstance(self.obs_rms, dict):
            for key, rms in self.obs_rms.items():
                rms.update(obs[key])
        else:
            self.obs_rms.update(obs)

    def _normal(self, obs: Any, rms: RunningMeanStd) -> Any:
        normal = (obs - rms.mean) / np.sqrt(rms.var + self.epsilon)
        return np.clip(normal, -self.clip_obs, self.clip_obs).astype(np.float32)

    def normalize_obs(self, obs: Any) -> Any:
        """Observations as the model sees them."""
        if not self.norm_obs:
            return obs
        if isinstance(self.obs_rms, dict):
            obs = dict(obs)
            for key, rms in self.obs_rms.items():
                obs[key] = self._normal(obs[key], rms)
            return obs
        return self._normal(obs, self.obs_rms)

    def unnormalize_obs(self, obs: Any) -> Any:
        """Observations as the environment gave them."""
        if not self.norm_obs:
            return obs
        if isinstance(self.obs_rms, dict):
            obs = dict(obs)
            for key, rms in self.obs_rms.items():
                obs[key] = obs[key] * np.sqrt(rms.var + self.epsilon) + rms.mean
            return obs
        return obs * np.sqrt(self.obs_rms.var + self.epsilon) + self.obs_rms.mean

    def normalize_reward(self, reward: Any) -> Any:
        """Rewards as the model sees them."""
        if not self.norm_reward:
            return reward
        scaled = reward / np.sqrt(self.ret_rms.var + self.epsilon)
        return np.clip(scaled, -self.clip_reward, self.clip_reward).astype(np.float32)

    def unnormalize_reward(self, reward: Any) -> Any:
        """Rewards as the environment gave them."""
        return reward * np.sqrt(self.ret_rms.var + self.epsilon) if self.norm_reward else reward

    def get_original_obs(self) -> Any:
        """The newest observations as the environment gave them."""
        return copy.deepcopy(self.old_obs)

    def get_original_reward(self) -> Any:
        """The newest rewards as the environment gave them."""
        return self.old_reward.copy()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("venv", "returns", "old_obs", "old_reward", "reset_infos"):
            state.pop(name, None)
        return state

    def set_venv(self, venv: VecEnv) -> None:
        """Puts loaded statistics around a vector."""
        self.venv = venv
        self.num_envs = venv.num_envs
        self.reset_infos = [{} for _ in range(venv.num_envs)]
        self.render_mode = venv.render_mode
        self.returns = np.zeros(self.num_envs)
        self.old_obs = self.old_reward = None

    def save(self, save_path: str) -> None:
        """Writes the statistics and settings, with pickle as Stable-Baselines3 does."""
        with open(save_path, "wb") as file:
            pickle.dump(self, file)

    @staticmethod
    def load(load_path: str, venv: VecEnv) -> "VecNormalize":
        """Reads what `save` wrote. Load files that you trust: pickle runs what they say."""
        with open(load_path, "rb") as file:
            loaded: VecNormalize = pickle.load(file)
        loaded.set_venv(venv)
        return loaded


def sync_envs_normalization(env: Any, eval_env: Any) -> None:
    """Copies the statistics of each `VecNormalize` around `env` to the one around `eval_env`, the outermost first."""
    given, taken = _normalizers(env), _normalizers(eval_env)
    if len(given) != len(taken):
        problem = f"the training environment has {len(given)} `VecNormalize`, but the evaluation environment has {len(taken)}"
        raise AssertionError(f"{problem}; wrap both in the same way, the evaluation environment with training=False")
    for one, other in zip(given, taken):
        other.obs_rms, other.ret_rms = copy.deepcopy(one.obs_rms), copy.deepcopy(one.ret_rms)


def _normalizers(env: Any) -> list[VecNormalize]:
    found = []
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecNormalize):
            found.append(env)
        env = env.venv
    return found


def unwrap_vec_normalize(env: Any) -> VecNormalize | None:
    """The outermost `VecNormalize` around a vector; None without one."""
    found: VecNormalize | None = unwrap_vec_wrapper(env, VecNormalize)
    return found
