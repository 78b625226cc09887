"""`evaluate_policy`: plays whole episodes."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .monitor import Monitor
from .vec_env.of import vec_env_of


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> Any:
    """Plays `n_eval_episodes` episodes; returns the mean and standard deviation of their returns, or with
    `return_episode_rewards` the returns and the lengths. Every copy of a vector plays its share of the episodes, so that short
    ones are not favoured. `callback` gets `locals()` and `globals()` after each step of each copy."""
    vector = vec_env_of(env)
    n_envs = vector.num_envs
    told = _tells_episodes(vector)
    if warn and not told:
        warnings.warn("the environment has no Monitor: returns are those that wrappers give, for instance scaled", stacklevel=2)
    episode_rewards: list[float] = []
    episode_lengths: list[int] = []
    counts = np.zeros(n_envs, np.int64)
    targets = np.array([(n_eval_episodes + copy) // n_envs for copy in range(n_envs)], np.int64)
    current_rewards, current_lengths = np.zeros(n_envs), np.zeros(n_envs, np.int64)
    observations = vector.reset()
    states: Any = None
    episode_starts = np.ones(n_envs, bool)
    masked = vector.has_attr("action_masks") and getattr(model, "takes_masks", False)
    while (counts < targets).any():
        masks = {"action_masks": np.stack(vector.env_method("action_masks"))} if masked else {}
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic, **masks
        )
        new_observations, rewards, dones, infos = vector.step(actions)
        current_rewards += rewards
        current_lengths += 1
        for i in range(n_envs):
            if counts[i] >= targets[i]:
                continue
            reward, done, info = rewards[i], dones[i], infos[i]
            episode_starts[i] = done
            if callback is not None:
                callback(locals(), globals())
            if not done:
                continue
            if told and "episode" in info:
                # What a wrapper did to rewards and ends does not count.
                episode_rewards.append(info["episode"]["r"])
                episode_lengths.append(info["episode"]["l"])
                counts[i] += 1
            elif not told:
                episode_rewards.append(float(current_rewards[i]))
                episode_lengths.append(int(current_lengths[i]))
                counts[i] += 1
            current_rewards[i], current_lengths[i] = 0.0, 0
        # A copy that has played its share goes on, and a recurrent policy must know when its episodes begin.
        episode_starts[counts >= targets] = dones[counts >= targets]
        observations = new_observations
        if render:
            vector.render()
    mean, std = float(np.mean(episode_rewards)), float(np.std(episode_rewards))
    if reward_threshold is not None:
        assert mean > reward_threshold, f"the mean reward {mean:.2f} is below the threshold {reward_threshold:.2f}"
    return (episode_rewards, episode_lengths) if return_episode_rewards else (mean, std)


def _tells_episodes(vector: Any) -> bool:
    """Whether `info` has the return and length of every episode, as a monitor tells them."""
    layer = vector
    while layer is not None:
        if type(layer).__name__ == "VecMonitor":
            return True
        layer = getattr(layer, "venv", None)
    return all(vector.env_is_wrapped(Monitor))
