"""One call of `learn`: iterations in Rust, and between them callbacks, tables and checkpoints in Python."""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import saved
from .common.callbacks import BaseCallback, CallbackList, ConvertCallback, Locals, ProgressBarCallback
from .common.logger import configure_of_model
from .errors import ConfigError
from .spaces import Array, width

if TYPE_CHECKING:
    from .model import BaseAlgorithm

# Names of what learners report, and their tags in Stable-Baselines3.
_TAGS = {
    "total_loss": "train/loss",
    "policy_loss": "train/policy_gradient_loss",
    "vf_loss": "train/value_loss",
    "vf_explained_var": "train/explained_variance",
    "kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "clip_param": "train/clip_range",
    "cur_lr": "train/learning_rate",
    "alpha_value": "train/ent_coef",
    "alpha_loss": "train/ent_coef_loss",
    "actor_loss": "train/actor_loss",
    "critic_loss": "train/critic_loss",
    "epsilon": "rollout/exploration_rate",
    "cur_epsilon": "rollout/exploration_rate",
}


class Learning:
    """The loop of one call of `learn`."""

    def __init__(
        self, model: "BaseAlgorithm", total: int, reset_num_timesteps: bool, out: Any, checkpoint_freq: int
    ) -> None:
        self.model = model
        self.out = None if out is None else os.fspath(out)
        self.checkpoint_freq = checkpoint_freq
        if total < 1:
            raise ConfigError(f"`total_timesteps` is {total}, but it must be at least 1")
        if model._env is None:
            raise ConfigError("the model has no environment; give one to `load`, or call `set_env`")
        if reset_num_timesteps:
            model._offset += model.num_timesteps
            model.num_timesteps = 0
            model.ep_info_buffer.clear()
        self.is_new = reset_num_timesteps
        model._total_timesteps = total + model.num_timesteps
        if not model._is_resumed:
            model._asked = total
        env = model._env
        if env is not None and env.stepper is not None and model._is_changed and reset_num_timesteps:
            # The user may have stepped the environments in between: their episodes begin anew.
            model.native.set_stepper(env.stepper)
        # Schedules count the steps of the run, of which some may not count here.
        first = max(model._offset, 0)
        model._prepare((first, first + model._total_timesteps), self.out)
        self.returns = np.zeros(model.n_envs)
        self.lengths = np.zeros(model.n_envs, np.int64)
        self.episodes = 0
        self.iterations = 0

    def run(self, callback: Any, log_interval: int | None, name: str, progress_bar: bool) -> None:
        """Learns to the end, or until a callback says so."""
        model = self.model
        hooks = hooks_of(callback, progress_bar)
        if not model._custom_logger:
            model._logger = configure_of_model(model.verbose, model.tensorboard_log, name, self.is_new)
        if self.out is not None:
            saved.write_run(model, self.out, model._total_timesteps)
        has_steps = hooks is not None and self._record(True)
        model.start_time = time.time_ns()
        start_steps, last_table = model.num_timesteps, 0
        if hooks is not None:
            hooks.init_callback(model)
            hooks.on_training_start({"total_timesteps": model._total_timesteps, "self": model}, globals())
        interval = log_interval if log_interval is not None else (1 if model.is_on_policy else 4)
        try:
            while model.num_timesteps < model._total_timesteps:
                if hooks is not None:
                    hooks.on_rollout_start()
                result = json.loads(model.native.train())
                model._is_changed = True
                self.iterations += 1
                goes_on = self._tell(hooks, has_steps, int(result["timesteps_this_iter"]))
                model.num_timesteps = int(result["timesteps_total"]) - model._offset
                self.episodes += int(result.get("episodes_this_iter") or 0)
                if hooks is not None:
                    hooks.on_rollout_end()
                self._report(result)
                done = self.iterations if model.is_on_policy else self.episodes
                if interval and done - last_table >= interval:
                    last_table = done
                    self._table(result, start_steps)
                self._checkpoint(goes_on)
                if not goes_on:
                    break
        finally:
            self._record(False)
            # Ctrl-C may have come between an iteration and its result here.
            model._is_changed = True
            model.num_timesteps = model.native.timesteps() - model._offset
            if hooks is not None:
                hooks.on_training_end()

    def _record(self, is_on: bool) -> bool:
        """Begins or ends keeping the steps; whether there are any to keep."""
        model = self.model
        if model._env is not None and model._env.stepper is not None:
            model._env.stepper.record(is_on)
        else:
            model.native.record(is_on)
        return not int(model.own_settings.get("num_workers", 0))

    def _tell(self, hooks: BaseCallback | None, has_steps: bool, steps: int) -> bool:
        """Calls the callback for every step of the rollout; whether training goes on."""
        if hooks is None:
            return True
        model = self.model
        if not has_steps:
            # Other threads or processes have stepped, and nothing was kept.
            model.num_timesteps += steps
            hooks.update_locals(Locals({"self": model}))
            return hooks.on_step()
        for actions, new_obs, rewards, dones, infos in self._steps():
            model.num_timesteps += model.n_envs
            self._count(dones, infos)
            told = {"self": model, "infos": infos, "rewards": rewards, "dones": dones}
            told |= {"new_obs": new_obs, "actions": actions, "clipped_actions": actions}
            hooks.update_locals(Locals(told))
            if not hooks.on_step():
                return False
        return True

    def _count(self, dones: Array, infos: list[dict[str, Any]]) -> None:
        for info in infos:
            if "episode" in info:
                self.model.ep_info_buffer.append(info["episode"])

    def _steps(self) -> Iterator[tuple[Array, Array, Array, Array, list[dict[str, Any]]]]:
        """The steps of the rollout, as callbacks see them."""
        model = self.model
        env = model._env
        assert env is not None
        if env.stepper is not None:
            for actions, obs, rewards, dones, infos in env.stepper.take_steps():
                yield self._shaped(actions), self._observations(obs), rewards, dones, infos
            return
        actions, obs, rewards, terminated, truncated, ended, final_obs = model.native.take_steps()
        n = env.num_envs
        rows = max(rewards.size, 1)
        all_actions = actions.reshape(-1, n, actions.size // rows)
        all_obs = obs.reshape(-1, n, obs.size // rows)
        last = dict(zip(ended.tolist(), final_obs.reshape(len(ended), obs.size // rows)))
        rewards, dones = rewards.reshape(-1, n), (terminated | truncated).reshape(-1, n)
        started = model.start_time
        for at in range(len(rewards)):
            self.returns += rewards[at]
            self.lengths += 1
            told: list[dict[str, Any]] = [{} for _ in range(n)]
            for copy in np.flatnonzero(dones[at]).tolist():
                row = at * n + copy
                episode = {"r": round(float(self.returns[copy]), 6), "l": int(self.lengths[copy])}
                told[copy] = {
                    "episode": {**episode, "t": round((time.time_ns() - started) / 1e9, 6)},
                    "TimeLimit.truncated": bool(truncated[row] and not terminated[row]),
                    "terminal_observation": self._observations(last[row][None])[0],
                }
                self.returns[copy], self.lengths[copy] = 0.0, 0
            yield self._shaped(all_actions[at]), self._observations(all_obs[at]), rewards[at], dones[at], told

    def _shaped(self, actions: Array) -> Array:
        return actions.reshape(len(actions), *(self.model.action_space.shape or ()))

    def _observations(self, rows: Array) -> Array:
        space = self.model.observation_space
        if space.shape is None or rows.shape[1] != width(space):
            return rows
        return rows.reshape(len(rows), *space.shape)

    def _report(self, result: dict[str, Any]) -> None:
        """Hands what the learner told to the logger."""
        record = self.model.logger.record
        learner = result.get("info", {}).get("learner", {}).get("default_policy", {})
        for key, value in learner.get("learner_stats", {}).items():
            if not isinstance(value, (int, float)):
                continue
            if key == "entropy":
                record("train/entropy_loss", -value)
            else:
                record(_TAGS.get(key, f"train/{key}"), value)
        for key, value in (result.get("custom_metrics") or {}).items():
            if isinstance(value, (int, float)):
                record(f"rollout/{key}", value)

    def _table(self, result: dict[str, Any], start_steps: int) -> None:
        model = self.model
        record = model.logger.record
        reward, length = result.get("episode_reward_mean"), result.get("episode_len_mean")
        if reward is not None and length is not None and reward == reward:
            record("rollout/ep_rew_mean", float(reward))
            record("rollout/ep_len_mean", float(length))
        seconds = max((time.time_ns() - model.start_time) / 1e9, sys.float_info.epsilon)
        record("time/fps", int((model.num_timesteps - start_steps) / seconds))
        if model.is_on_policy:
            record("time/iterations", self.iterations, exclude="tensorboard")
        else:
            record("time/episodes", self.episodes, exclude="tensorboard")
        record("time/time_elapsed", int(seconds), exclude="tensorboard")
        record("time/total_timesteps", model.num_timesteps, exclude="tensorboard")
        model.logger.dump(step=model.num_timesteps)

    def _checkpoint(self, goes_on: bool) -> None:
        if self.out is None:
            return
        is_last = not goes_on or self.model.num_timesteps >= self.model._total_timesteps
        if is_last or (self.checkpoint_freq > 0 and self.iterations % self.checkpoint_freq == 0):
            self.model.native.save()


def hooks_of(callback: Any, progress_bar: bool) -> BaseCallback | None:
    """The callbacks of a call of `learn` as one; None if there are none."""
    hooks: Any = callback
    if isinstance(callback, (list, tuple)):
        hooks = CallbackList(list(callback)) if callback else None
    elif callback is not None and not hasattr(callback, "on_step"):
        if not callable(callback):
            raise TypeError(f"`callback` is {callback!r}, but it must be a BaseCallback, a list of them, or a function")
        hooks = ConvertCallback(callback)
    if progress_bar:
        bar = ProgressBarCallback()
        hooks = bar if hooks is None else CallbackList([hooks, bar])
    checked: BaseCallback | None = hooks
    return checked
