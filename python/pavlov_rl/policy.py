"""Policies by their names, and the policy of a model by itself."""

from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from .errors import ConfigError
from .parameters import OPTIMIZER, POLICY
from .spaces import Space, has_all_bytes, is_image, leaves

NAMES = ("MlpPolicy", "MultiInputPolicy", "CnnPolicy", "MlpLstmPolicy", "MultiInputLstmPolicy", "CnnLstmPolicy")
# Stable-Baselines3's own classes.
_CLASSES = {"ActorCriticPolicy": "MlpPolicy", "MultiInputActorCriticPolicy": "MultiInputPolicy"}


class HasPolicy(Protocol):
    """A model."""

    @property
    def observation_space(self) -> Any:
        """The space of observations."""

    @property
    def action_space(self) -> Any:
        """The space of actions."""

    def predict(self, observation: Any, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        """The action, and the state for the next call."""

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """All parameters."""

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True) -> None:
        """Takes parameters."""


class Policy:
    """A model's policy, for scripts that ask it and not the model."""

    def __init__(self, model: HasPolicy) -> None:
        self.model = model
        self.observation_space, self.action_space = model.observation_space, model.action_space

    def predict(self, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        """As the model's `predict`."""
        return self.model.predict(*arguments, **keywords)

    def state_dict(self) -> dict[str, Any]:
        """The weights as numpy arrays by name; torch's are `torch.from_numpy` of them."""
        return self.model.get_parameters()[POLICY]

    def load_state_dict(self, weights: dict[str, Any], strict: bool = True) -> None:
        """Takes weights by name. The optimizers keep their moments."""
        optimizer = {OPTIMIZER: self.model.get_parameters()[OPTIMIZER]}
        self.model.set_parameters({POLICY: weights, **optimizer}, exact_match=strict)

    def set_training_mode(self, mode: bool) -> None:
        """Does nothing: no layer here acts in another way while it learns."""

    def to(self, device: Any) -> "Policy":
        """Does nothing: policies act on the CPU."""
        return self

    def __getattr__(self, name: str) -> Any:
        problem = f"the policy has no `{name}`: it is not a torch module"
        raise AttributeError(f"{problem}; it has predict, state_dict and load_state_dict")


def name_of(policy: Any) -> str:
    """The name of a policy, given as text or as a class."""
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", str(policy))
    for known in NAMES:
        if name == known or (not isinstance(policy, str) and name.endswith(known)):
            return known
    if name in _CLASSES:
        return _CLASSES[name]
    raise ValueError(f"the policy is {name!r}, but it must be one of {', '.join(NAMES)}")


def refuse_other_policy(name: str, space: Space) -> None:
    """Refuses a policy for observations that it does not see: of several parts, of one part, or no images."""
    has_parts = isinstance(space, (spaces.Dict, spaces.Tuple))
    if has_parts != name.startswith("MultiInput"):
        other = "MultiInput" + name[3:] if has_parts else name.replace("MultiInput", "Cnn" if is_image(space) else "Mlp")
        problem = f"{name} sees {'one array' if has_parts else 'several parts'}, but the observations are {space}"
        raise ConfigError(f"{problem}; take {other}")
    if name.startswith("Cnn") and not is_image(space):
        problem = f"{name} sees images (a Box of three dimensions of uint8), but the observations are {space}"
        raise ConfigError(f"{problem}; take {name.replace('Cnn', 'Mlp')}")


# Scalars from which on a part of an observation counts as an image, as in the Rust half.
_LEAST_OF_PART = 1000


def has_images(name: str, space: Space) -> bool:
    """Whether a policy for several parts sees an image among them: bytes with the bounds 0 and 255 that convolutions read."""
    return name.startswith("MultiInput") and any(
        is_image(leaf) and has_all_bytes(leaf) and int(np.prod(leaf.shape)) >= _LEAST_OF_PART for leaf in leaves(space)
    )


def flattens(name: str, space: Space) -> bool:
    """Whether a policy sees the pixels of images as numbers, one after the other."""
    return name.startswith("Mlp") and is_image(space)


def scales(name: str, space: Space) -> bool:
    """Whether a policy that flattens images sees their numbers divided by 255: where their bounds are 0 and 255."""
    return name.startswith("Mlp") and is_image(space) and has_all_bytes(space)
