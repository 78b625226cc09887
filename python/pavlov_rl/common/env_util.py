"""`make_vec_env`: a vector of environments by id or function."""

import os
from collections.abc import Callable
from typing import Any

import gymnasium

from ..natives import twin_of
from .monitor import Monitor
from .vec_env import DummyVecEnv, NativeVecEnv, VecEnv
from .vec_env.dummy_vec_env import is_wrapped as is_wrapped


def make_vec_env(
    env_id: str | Callable[..., gymnasium.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., gymnasium.Env[Any, Any]] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[Any] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Makes `n_envs` copies of an environment, each in a `Monitor`.

    The id of a native environment gives a `NativeVecEnv`, whose copies Rust steps, unless wrappers, files of monitors or
    another class of vector are asked for.
    """
    kwargs = dict(env_kwargs or {})
    plain = wrapper_class is None and monitor_dir is None and vec_env_cls is None and not monitor_kwargs
    if isinstance(env_id, str) and plain:
        found = _native(env_id, kwargs)
        if found is not None:
            vector: VecEnv = NativeVecEnv(found[0], n_envs, found[1])
            vector.seed(seed)
            return vector

    def maker(rank: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def make() -> gymnasium.Env[Any, Any]:
            if isinstance(env_id, str):
                env = gymnasium.make(env_id, **({"render_mode": "rgb_array"} | kwargs if _has_pictures(env_id) else kwargs))
            else:
                env = env_id(**kwargs)
            if seed is not None:
                env.action_space.seed(seed + rank)
            path = None if monitor_dir is None else os.path.join(monitor_dir, str(rank))
            if monitor_dir is not None:
                os.makedirs(monitor_dir, exist_ok=True)
            env = Monitor(env, path, **(monitor_kwargs or {}))
            if wrapper_class is not None:
                env = wrapper_class(env, **(wrapper_kwargs or {}))
            return env

        return make

    made = (vec_env_cls or DummyVecEnv)([maker(rank + start_index) for rank in range(n_envs)], **(vec_env_kwargs or {}))
    made.seed(seed)
    return made


def _has_pictures(env_id: str) -> bool:
    spec = gymnasium.registry.get(env_id)
    return spec is not None and not env_id.startswith("pavlov/") and spec.entry_point is not None and ":" in str(spec.entry_point)


def _native(env_id: str, kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if kwargs.get("render_mode") == "human":
        return None
    try:
        env = gymnasium.make(env_id, **{name: value for name, value in kwargs.items() if name != "render_mode"})
    except gymnasium.error.Error:
        return None
    twin = twin_of(env)
    env.close()
    return None if twin is None else (twin.id, twin.config)


def unwrap_wrapper(env: gymnasium.Env[Any, Any], wrapper_class: type[Any]) -> Any:
    """The wrapper of a class around an environment; None if there is none."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, wrapper_class):
            return layer
        layer = layer.env
    return None
