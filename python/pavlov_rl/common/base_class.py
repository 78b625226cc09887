"""`BaseAlgorithm`, by the name of Stable-Baselines3's module."""

from ..model import BaseAlgorithm

__all__ = ["BaseAlgorithm"]
