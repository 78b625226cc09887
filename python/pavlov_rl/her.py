"""Hindsight experience replay: the names that Stable-Baselines3's `replay_buffer_class` and `replay_buffer_kwargs` take."""

from enum import Enum


class HerReplayBuffer:
    """The replay buffer of hindsight experience replay (Andrychowicz et al. 2017), as an argument of a model::

        model = DQN("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer,
                    replay_buffer_kwargs=dict(n_sampled_goal=4, goal_selection_strategy="future"))

    The environment's observations are a Dict with `observation`, `achieved_goal` and `desired_goal`, and its method
    `compute_reward(achieved_goal, desired_goal, info)` takes the goals of many transitions together. `info` is an empty dict for
    each of them. The buffer itself is in Rust, so that no object of this class is made.
    """

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("HerReplayBuffer is given as a class: `replay_buffer_class=HerReplayBuffer`; the model makes the buffer")


class GoalSelectionStrategy(Enum):
    """Which achieved goals of an episode replace the desired goal of a transition."""

    FUTURE = 0
    FINAL = 1
    EPISODE = 2


__all__ = ["GoalSelectionStrategy", "HerReplayBuffer"]
