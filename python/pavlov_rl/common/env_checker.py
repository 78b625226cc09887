"""`check_env`: whether an environment keeps Gymnasium's rules, and can be learned in."""

import warnings
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env

from ..spaces import encode


def check_env(env: gymnasium.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Raises an error if an environment breaks a rule of Gymnasium's, or has spaces that nothing here learns in.

    With `warn=False` it is silent about what Gymnasium only advises against.
    """
    if not isinstance(env, gymnasium.Env):
        raise AssertionError(f"the environment is of {type(env).__name__}, but it must be a `gymnasium.Env`")
    encode(env.observation_space)
    encode(env.action_space)
    if isinstance(env.action_space, (spaces.Dict, spaces.Tuple)):
        raise AssertionError(f"actions of {env.action_space} are not supported; flatten them in a wrapper")
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore")
        # Gymnasium takes `warn` too, but ignores it and warns that it does.
        check_gymnasium_env(env.unwrapped, skip_render_check=skip_render_check)
