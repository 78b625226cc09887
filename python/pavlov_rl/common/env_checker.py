"""`check_env`: whether an environment keeps Gymnasium's rules, and can be learned in."""

from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env

from ..spaces import encode


def check_env(env: gymnasium.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Raises an error if an environment breaks a rule of Gymnasium's, or has spaces that nothing here learns in."""
    if not isinstance(env, gymnasium.Env):
        raise AssertionError(f"the environment is of {type(env).__name__}, but it must be a `gymnasium.Env`")
    encode(env.observation_space)
    encode(env.action_space)
    if isinstance(env.action_space, (spaces.Dict, spaces.Tuple)):
        raise AssertionError(f"actions of {env.action_space} are not supported; flatten them in a wrapper")
    check_gymnasium_env(env.unwrapped, warn=warn, skip_render_check=skip_render_check)
