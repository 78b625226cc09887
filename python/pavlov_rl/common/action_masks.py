"""Which actions are legal, with the names of sb3-contrib: `ActionMasker` and `get_action_masks`."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class ActionMasker(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gives an environment the method `action_masks`: a function of the environment, or the name of its method."""

    def __init__(self, env: gymnasium.Env[Any, Any], action_mask_fn: Callable[[Any], Any] | str) -> None:
        super().__init__(env)
        self._mask = env.get_wrapper_attr(action_mask_fn) if isinstance(action_mask_fn, str) else None
        self._mask_of = None if isinstance(action_mask_fn, str) else action_mask_fn

    def action_masks(self) -> NDArray[np.bool_]:
        """A flag per action."""
        masks = self._mask_of(self.env) if self._mask_of is not None else self._mask()  # type: ignore[misc]
        return np.asarray(masks, bool)


def get_action_masks(env: Any) -> NDArray[np.bool_]:
    """The flags of an environment, or of every copy of a vector."""
    if hasattr(env, "step_wait"):
        return np.stack(env.env_method("action_masks"))
    masks: NDArray[np.bool_] = np.asarray(env.get_wrapper_attr("action_masks")(), bool)
    return masks


def is_masking_supported(env: Any) -> bool:
    """Whether an environment says which actions are legal."""
    if hasattr(env, "step_wait"):
        return bool(env.has_attr("action_masks"))
    return bool(env.has_wrapper_attr("action_masks"))
