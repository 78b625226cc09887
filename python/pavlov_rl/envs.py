"""Native environments as Gymnasium's `Env` and `VectorEnv`, and their ids."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from . import _native
from .errors import ConfigError, ResetNeededError, UnsupportedError
from .picklable import Picklable
from .settings import encode, encode_options
from .spaces import Array, action_dtype, action_row, actions, batched, decode, many, one

if TYPE_CHECKING:
    from .agents import ParallelEnv

# Those that Gymnasium prints as text.
_WITH_TEXT = ("CliffWalking", "FrozenLake", "Taxi")


def ids() -> list[str]:
    """The ids of all native environments with one agent; Gymnasium has them with `pavlov/` before."""
    return [id for id, *_ in _native.specs()]


def multi_agent_ids() -> list[str]:
    """The ids of all native environments with several agents, for `parallel_env`."""
    return [id for id, *_ in _native.multi_agent_specs()]


def parallel_env(id: str, render_mode: str | None = None, **config: Any) -> "ParallelEnv":
    """A native environment with several agents as PettingZoo's `ParallelEnv`. An id without a version is the newest.

    `config` are the environment's settings, as PettingZoo's own functions take them: `parallel_env("simple_spread_v3", N=5)`.
    """
    try:
        # PettingZoo need not be installed.
        from .agents import ParallelEnv
    except ImportError as error:
        raise ImportError('`parallel_env` needs PettingZoo: pip install "pavlov-rl[pettingzoo]"') from error
    return ParallelEnv(id, render_mode, **config)


def register_envs() -> None:
    """Registers every native environment with Gymnasium; importing the package does it."""
    for id, _, max_episode_steps, reward_threshold in _native.specs():
        if f"pavlov/{id}" not in gymnasium.registry:
            gymnasium.register(
                f"pavlov/{id}",
                entry_point="pavlov_rl.envs:Env",
                vector_entry_point="pavlov_rl.envs:VectorEnv",
                reward_threshold=reward_threshold,
                max_episode_steps=max_episode_steps,
                # The environment itself refuses a step before the first reset, and the tests have run the checker.
                order_enforce=False,
                disable_env_checker=True,
                # Not `id`, which is the name of `gymnasium.make`'s own argument.
                kwargs={"env_id": id},
            )


def _metadata(id: str, render_fps: float | None) -> dict[str, Any]:
    modes = ["rgb_array", "ansi"] if id.startswith(_WITH_TEXT) else ["rgb_array"]
    return {"render_modes": modes, "render_fps": int(render_fps or 30)}


def _check_render_mode(id: str, mode: str | None, modes: Sequence[str]) -> None:
    if mode is not None and mode not in modes:
        raise ConfigError(f"`render_mode` is {mode!r}, but {id} has {' and '.join(map(repr, modes))}")


def _method_of_masks(
    id: str, native: _native.NativeVector, chosen: Callable[[Array], Array]
) -> Callable[[], NDArray[np.bool_]]:
    """The method `action_masks`. Without masks there is none: whether it exists is how others find out."""
    if not native.has_action_masks:
        raise AttributeError(f"{id} has no action masks: all of its actions are legal")

    def action_masks() -> NDArray[np.bool_]:
        masks = native.action_masks()
        if masks is None:
            raise ResetNeededError(f"the action masks of {id} are those of an episode; call `reset` first")
        return chosen(masks).astype(bool)

    return action_masks


class Env(Picklable[_native.NativeVector], gymnasium.Env[Any, Any]):
    """One copy of a native environment, equal to Gymnasium's where Gymnasium has it.

    `config` are the keyword arguments of the original class, such as `is_slippery` of FrozenLake. Rewards are rounded to
    single precision. Episodes end at the environment's own limit; Gymnasium's `max_episode_steps` can only shorten them.
    """

    # Those of one environment are in its own `metadata`.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 30}

    _of_native = ("_row", "_whole", "_rewards", "_terminated", "_truncated")

    def __init__(self, env_id: str, render_mode: str | None = None, **config: Any) -> None:
        self._id, self._config = env_id, config
        self._make_native()
        self.metadata = _metadata(env_id, self._native.render_fps)
        _check_render_mode(env_id, render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self._one_integer = isinstance(self.action_space, spaces.Discrete)
        shape = () if self.action_space.shape is None else self.action_space.shape
        self._action = np.zeros((1, *shape), action_dtype(self.action_space))
        self._keys: list[str] | None = None

    def _make_native(self) -> None:
        self._native = _native.NativeVector(self._id, 1, encode(self._id, self._config), "Disabled", 1, None)
        obs, _, self._rewards, self._terminated, self._truncated = self._native.arrays()
        self._row = obs[0]
        if not hasattr(self, "observation_space"):
            self.observation_space = decode(json.loads(self._native.observation_space))
            self.action_space = decode(json.loads(self._native.action_space))
        self._has_masks = self._native.has_action_masks
        # Without parts and of the row's own type: a copy is all that it takes.
        space = self.observation_space
        whole = isinstance(space, spaces.Box) and space.dtype == obs.dtype
        self._whole: Array | None = self._row.reshape(space.shape) if whole else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, with the environment's own `options`. Without a seed the random stream goes on."""
        if seed is not None:
            super().reset(seed=seed)
        self._native.reset(None if seed is None else [seed], None, encode_options(self._id, options))
        self._know_info()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one action. After the end of an episode `reset` must come first."""
        if self._one_integer:
            reward, terminated, truncated = self._native.step_one(action)
        else:
            action_row(self.action_space, action, self._action[0], "the action")
            self._native.step(self._action)
            reward = float(self._rewards[0])
            terminated, truncated = bool(self._terminated[0]), bool(self._truncated[0])
        return self._observation(), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """A picture or a text of the current state, as `render_mode` says."""
        if self.render_mode is None:
            return None
        return self._native.render(0) if self.render_mode == "rgb_array" else self._native.render_ansi(0)

    @property
    def action_masks(self) -> Callable[[], NDArray[np.bool_]]:
        """A method that says which actions are legal now, as sb3-contrib's `MaskablePPO` asks for it. Only environments with
        masks have it."""
        return _method_of_masks(self._id, self._native, lambda masks: masks[0])

    def save_state(self) -> bytes:
        """Everything that later steps depend on, random stream included. Saved after an end, it is the next episode's start."""
        return self._native.save_state()

    def load_state(self, state: bytes) -> Any:
        """Goes on from what `save_state` of an environment with the same settings gave; returns the observation there."""
        self._native.load_state(state)
        self._know_info()
        return self._observation()

    def _know_info(self) -> None:
        """Which numbers there are shows in a running episode."""
        if self._keys is None:
            self._keys = self._native.info_keys()

    def _observation(self) -> Any:
        return one(self.observation_space, self._row) if self._whole is None else self._whole.copy()

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {}
        for key in self._keys or ():
            value = float(self._native.info(key)[0])
            if value == value:
                info[key] = value
        masks = self._native.action_masks() if self._has_masks else None
        if masks is not None:
            info["action_mask"] = masks[0]
        return info


class VectorEnv(Picklable[_native.NativeVector], gymnasium.vector.VectorEnv[Any, Any, Array]):
    """Copies of a native environment, all stepped by one call without Python.

    * `autoreset_mode`: Gymnasium's `AutoresetMode`. With `SAME_STEP` copies are stepped together, with the others one by one.
    * `threads`: as many threads share the copies. The results are the same.
    * `copy`: without it, the arrays that `reset` and `step` return are read-only and show every later step. It saves time
      where observations are large.
    * `max_episode_steps`: cuts episodes sooner than the environment does.

    Rewards are in single precision. The final observations of the copies that ended are in `info["final_obs"]`, as in
    Gymnasium's own vectors. `config` are the keyword arguments of the original class.
    """

    _of_native = ("_rows", "_final_rows", "_whole", "_rewards", "_terminated", "_truncated")

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        threads: int = 1,
        copy: bool = True,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **config: Any,
    ) -> None:
        try:
            self._mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise ConfigError(f"`autoreset_mode` is {autoreset_mode!r}, but it must be one of {known}") from None
        self.id, self.config, self.num_envs = env_id, config, num_envs
        self._threads, self._max_episode_steps = threads, max_episode_steps
        self._make_native()
        self.metadata = {**_metadata(env_id, self._native.render_fps), "autoreset_mode": self._mode}
        _check_render_mode(env_id, render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        shape = () if self.single_action_space.shape is None else self.single_action_space.shape
        self._actions = np.zeros((num_envs, *shape), action_dtype(self.single_action_space))
        self._copy = copy
        self._keys: list[str] | None = None

    def _make_native(self) -> None:
        settings, mode = encode(self.id, self.config), self._mode.value
        self._native = _native.NativeVector(
            self.id, self.num_envs, settings, mode, self._threads, self._max_episode_steps
        )
        self._rows, self._final_rows, self._rewards, self._terminated, self._truncated = self._native.arrays()
        if not hasattr(self, "single_observation_space"):
            self.single_observation_space = decode(json.loads(self._native.observation_space))
            self.single_action_space = decode(json.loads(self._native.action_space))
            self.observation_space = batched(self.single_observation_space, self.num_envs)
            self.action_space = batched(self.single_action_space, self.num_envs)
        self._has_masks = self._native.has_action_masks
        space = self.single_observation_space
        self._whole: Array | None = None
        self._is_box = isinstance(space, spaces.Box) and space.dtype == self._rows.dtype
        if self._is_box:
            self._whole = self._rows.reshape(self.observation_space.shape or ())
        elif isinstance(space, spaces.Discrete):
            self._whole = self._rows[:, 0]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts episodes in all copies, or in those of `options["reset_mask"]`. Copy `i` gets the seed `seed + i`, or `seed[i]`.
        Other options are the environment's own."""
        options = dict(options or {})
        mask = self._reset_mask(options.pop("reset_mask")) if "reset_mask" in options else None
        seeds: Sequence[int | None] | None = None
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
            seeds = [int(seed) + copy for copy in range(self.num_envs)]
        elif seed is not None:
            seeds = list(seed)
        self._native.reset(seeds, mask, encode_options(self.id, options))
        self._know_info()
        infos = self._infos()
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Moves every copy one step."""
        if type(actions) is np.ndarray and actions.dtype == self._actions.dtype and actions.shape == self._actions.shape:
            given = actions if actions.flags.c_contiguous else np.ascontiguousarray(actions)
        else:
            given = self._converted(actions)
        some_ended = self._native.step(given)
        infos = self._infos()
        if some_ended and self._mode is AutoresetMode.SAME_STEP:
            self._add_final(infos)
        if self._copy:
            ends = self._terminated.copy(), self._truncated.copy()
            return self._observations(), self._rewards.copy(), *ends, infos
        return self._observations(), self._rewards, self._terminated, self._truncated, infos

    def render(self) -> Any:
        """Pictures or texts of all copies, as `render_mode` says."""
        if self.render_mode is None:
            return None
        render = self._native.render if self.render_mode == "rgb_array" else self._native.render_ansi
        return tuple(render(copy) for copy in range(self.num_envs))

    @property
    def action_masks(self) -> Callable[[], NDArray[np.bool_]]:
        """A method that says which actions are legal now, a row per copy. Only environments with masks have it."""
        return _method_of_masks(self.id, self._native, lambda masks: masks)

    def save_state(self) -> bytes:
        """Everything that later steps of all copies depend on, random streams included."""
        return self._native.save_state()

    def load_state(self, state: bytes) -> Any:
        """Goes on from what `save_state` of a vector made in the same way gave; returns the observations there."""
        self._native.load_state(state)
        self._know_info()
        return self._observations()

    def _know_info(self) -> None:
        if self._keys is None:
            self._keys = self._native.info_keys()

    def _reset_mask(self, mask: Any) -> list[bool]:
        if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (self.num_envs,) and mask.any()):
            rule = f"an array of {self.num_envs} truth values, one of them True"
            raise ConfigError(f"`reset_mask` is {mask!r}, but it must be {rule}")
        return [bool(each) for each in mask]

    def _converted(self, given: Any) -> Array:
        if isinstance(self.single_action_space, (spaces.Dict, spaces.Tuple)):
            raise UnsupportedError(f"actions of {self.single_action_space} are not supported")
        actions(given, self._actions, "`actions`")
        return self._actions

    def _observations(self) -> Any:
        if self._whole is None:
            return many(self.single_observation_space, self._rows)
        return self._whole.copy() if self._copy else self._whole

    def _infos(self) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for key in self._keys or ():
            values = self._native.info(key)
            missing = np.isnan(values)
            if not missing.all():
                infos[key], infos[f"_{key}"] = np.where(missing, 0.0, values), ~missing
        if self._has_masks:
            infos["action_mask"] = self._native.action_masks()
            infos["_action_mask"] = np.ones(self.num_envs, bool)
        return infos

    def _add_final(self, infos: dict[str, Any]) -> None:
        """What Gymnasium's vectors tell of the episodes that ended in this step."""
        ended = self._terminated | self._truncated
        final_obs = np.empty(self.num_envs, dtype=object)
        # One copy of the rows for all that ended: every copy of CartPole ends each twentieth step or so.
        copies = np.flatnonzero(ended)
        rows = self._final_rows[copies]
        space = self.single_observation_space
        last = rows.reshape(-1, *(space.shape or ())) if self._is_box else (one(space, row) for row in rows)
        for copy, obs in zip(copies.tolist(), last):
            final_obs[copy] = obs
        final_info: dict[str, Any] = {}
        masks = self._native.final_action_masks() if self._has_masks else None
        if masks is not None:
            masks[~ended] = 0
            final_info = {"action_mask": masks, "_action_mask": ended.copy()}
        infos |= {"final_obs": final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended.copy()}
