"""The interface of vectors."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...errors import ConfigError, refuse_class
from ...spaces import admitted

VecEnvObs = Any
VecEnvStepReturn = tuple[Any, NDArray[Any], NDArray[Any], list[dict[str, Any]]]
VecEnvIndices = None | int | Iterable[int]


class VecEnv(ABC):
    """Copies of an environment that are stepped together. A copy that ended is reset in the same step; the last observation
    of its episode is in `info["terminal_observation"]`."""

    def __init__(
        self, num_envs: int, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> None:
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._options: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self.render_mode: str | None = None

    @abstractmethod
    def reset(self) -> VecEnvObs:
        """Starts an episode in every copy."""

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Takes the actions of the step that `step_wait` finishes."""

    @abstractmethod
    def step_wait(self) -> VecEnvStepReturn:
        """Observations, rewards, ends and infos of the step."""

    @abstractmethod
    def close(self) -> None:
        """Closes the copies."""

    @abstractmethod
    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of each copy."""

    @abstractmethod
    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of each copy."""

    @abstractmethod
    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Calls a method of each copy."""

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """Whether each copy has such a wrapper."""
        return [False for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether the copies have an attribute."""
        try:
            self.get_attr(attr_name)
        except AttributeError:
            return False
        return True

    def step(self, actions: Any) -> VecEnvStepReturn:
        """Moves every copy."""
        self.step_async(actions)
        return self.step_wait()

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        """A picture of each copy."""
        return []

    def render(self, mode: str | None = None) -> NDArray[Any] | None:
        """The pictures of all copies beside each other. How they are drawn was said when the environments were made."""
        if mode is not None and mode != self.render_mode:
            problem = f"mode={mode!r} has no effect: the environments were made with render_mode={self.render_mode!r}"
            warnings.warn(f"{problem}; give it to `gymnasium.make`", UserWarning, stacklevel=2)
        images = [image for image in self.get_images() if image is not None]
        return tiled(images) if images else None

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Sets the seeds of the next reset: copy i takes `seed + i`."""
        if seed is None:
            seed = int(np.random.randint(0, np.iinfo(np.uint32).max, dtype=np.uint32))
        self._seeds = [seed + copy for copy in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: Sequence[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Sets the `options` of the next reset: the same for all copies, or a list with those of each."""
        each = [options or {}] * self.num_envs if options is None or isinstance(options, dict) else list(options)
        if len(each) != self.num_envs:
            raise ConfigError(f"`options` has {len(each)} entries, but there are {self.num_envs} copies; give one for each")
        self._options = [dict(of_copy) for of_copy in each]

    def take_options(self) -> list[dict[str, Any]]:
        """The keywords of the reset that comes now, for each copy; those after it have no options."""
        taken = [{"options": options} if options else {} for options in self._options]
        self._options = [{} for _ in self._options]
        return taken

    @property
    def unwrapped(self) -> "VecEnv":
        """The vector without wrappers."""
        return self

    def _get_indices(self, indices: VecEnvIndices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)


class VecEnvWrapper(VecEnv):
    """A wrapper around a vector; what it does not change goes to the vector."""

    def __init__(
        self,
        venv: VecEnv,
        observation_space: gymnasium.Space[Any] | None = None,
        action_space: gymnasium.Space[Any] | None = None,
    ) -> None:
        refuse_class("venv", venv)
        if not hasattr(venv, "step_wait"):
            way_out = "`DummyVecEnv([lambda: env])` makes one of an environment"
            raise TypeError(f"`venv` is {venv!r}, but it must be a vector with Stable-Baselines3's interface; {way_out}")
        self.venv = venv
        super().__init__(venv.num_envs, observation_space or venv.observation_space, action_space or venv.action_space)
        self.render_mode = venv.render_mode

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return self.venv.seed(seed)

    def set_options(self, options: Sequence[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        self.venv.set_options(options)

    def close(self) -> None:
        self.venv.close()

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        return self.venv.get_images()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self.venv.set_attr(attr_name, value, indices)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        return self.venv.env_method(method_name, *args, indices=indices, **kwargs)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        return self.venv.env_is_wrapped(wrapper_class, indices)

    def has_attr(self, attr_name: str) -> bool:
        return self.venv.has_attr(attr_name)

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    def __getattr__(self, name: str) -> Any:
        if name == "venv" or name.startswith("__"):
            raise AttributeError(name)
        owners, inner = [], self.venv
        while isinstance(inner, VecEnvWrapper):
            if name in vars(inner) or hasattr(type(inner), name):
                owners.append(type(inner).__name__)
            inner = inner.venv
        if len(owners) > 1:
            problem = f"`{name}` of {type(self).__name__} could be that of {' or '.join(owners)}"
            raise AttributeError(f"{problem}; ask one of them, which `unwrap_vec_wrapper(env, CLASS)` finds")
        return getattr(self.venv, name)


def unwrap_vec_wrapper(env: Any, vec_wrapper_class: type[Any]) -> Any:
    """The outermost wrapper of this class around a vector; None without one."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, vec_wrapper_class):
            return env
        env = env.venv
    return None


def is_vecenv_wrapped(env: Any, vec_wrapper_class: type[Any]) -> bool:
    """Whether a vector has a wrapper of this class."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def makers(env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]]) -> list[Callable[[], gymnasium.Env[Any, Any]]]:
    """The functions that make environments; other things that are given in their place are refused."""
    if callable(env_fns):
        raise TypeError(f"`env_fns` is {env_fns!r}, but it must be a list of functions; put it into [ ]")
    found = list(env_fns)
    if not found:
        raise ConfigError("`env_fns` is empty, but it must be a list of at least one function that makes an environment")
    for at, make in enumerate(found):
        if not callable(make):
            problem = f"`env_fns[{at}]` is {make!r}, but it must be a function that makes an environment"
            raise TypeError(f"{problem}; put `lambda:` before it, and make a new environment for each copy")
    return found


def stacked(space: gymnasium.Space[Any], members: Sequence[Any]) -> Any:
    """Observations of all copies as one array, or as a dictionary or tuple of arrays."""
    if isinstance(space, spaces.Dict):
        return {name: stacked(part, [member[name] for member in members]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(part, [member[at] for member in members]) for at, part in enumerate(space))
    return np.array([admitted(space, member) for member in members], dtype=space.dtype)


def tiled(images: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Pictures in a grid that is about as high as wide."""
    rows = int(np.ceil(np.sqrt(len(images))))
    columns = int(np.ceil(len(images) / rows))
    blank = np.zeros_like(images[0])
    filled = [*images, *[blank] * (rows * columns - len(images))]
    return np.concatenate([np.concatenate(filled[at * columns : (at + 1) * columns], axis=1) for at in range(rows)], axis=0)
