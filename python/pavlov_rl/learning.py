"""One call of `learn`: iterations in Rust, and between them callbacks, tables and checkpoints in Python."""

import json
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from gymnasium import spaces

from . import saved
from .common.base_callbacks import BaseCallback, CallbackList, ConvertCallback, Locals
from .common.callbacks import ProgressBarCallback
from .common.logger import Logger
from .common.vec_env import DummyVecEnv
from .errors import ConfigError, refuse_class
from .run import Run
from .schedules import is_schedule
from .spaces import Array, many, one
from .training_env import TrainingEnv

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

# Actions, next observations, rewards, ends and infos of all copies.
VectorStep = tuple[Array, Any, Array, Array, list[dict[str, Any]]]


class Learner(Protocol):
    """What a call of `learn` sees of the model."""

    is_on_policy: ClassVar[bool]
    # Iterations, or without `is_on_policy` episodes, between tables.
    _log_interval: ClassVar[int]
    num_timesteps: int
    start_time: int
    ep_info_buffer: deque[dict[str, Any]]
    ep_success_buffer: deque[Any]
    _run: Run
    # Steps of the run that `num_timesteps` leaves out.
    _offset: int
    _total_timesteps: int
    # The model before the iteration whose steps callbacks are told of, if one of them saves it.
    _before: saved.Snapshot | None

    @property
    def logger(self) -> Logger:
        """What `record` and `dump` are called on."""

    def _about(self) -> saved.About:
        """What makes the model again."""


class Learning:
    """The loop of one call of `learn`."""

    def __init__(self, model: Learner, total: int, reset_num_timesteps: bool, out: Any, checkpoint_freq: int) -> None:
        self.model = model
        self.behind = model._run
        self.out = None if out is None else os.fspath(out)
        self.checkpoint_freq = checkpoint_freq
        if total < 1:
            raise ConfigError(f"`total_timesteps` is {total}, but it must be at least 1")
        run = self.behind
        env = run.env
        if self.out is not None and self.out != run.out and saved.is_run(self.out):
            way = f"continue that run with {type(model).__name__}.resume({self.out!r})"
            raise ConfigError(f"{self.out} already contains a run; give a new directory, or {way}")
        if reset_num_timesteps:
            model._offset += model.num_timesteps
            model.num_timesteps = 0
            model.ep_info_buffer.clear()
            model.ep_success_buffer.clear()
        self.is_new = reset_num_timesteps
        model._total_timesteps = total + model.num_timesteps
        run.follow(env.now())
        env = run.env
        begins = run.is_changed and reset_num_timesteps
        if env.stepper is not None and (begins or env.stepper.notice.happened):
            self._start_episodes()
        # Schedules count the steps of the run, of which some may not count here.
        first = max(model._offset, 0)
        self.span = first, first + model._total_timesteps
        run.prepare(self.span, self.out)
        self.is_watched = False
        self.returns = np.zeros(run.num_envs)
        self.lengths = np.zeros(run.num_envs, np.int64)
        self.episodes = 0
        self.iterations = 0

    def run(self, callback: Any, log_interval: int | None, progress_bar: bool) -> None:
        """Learns to the end, or until a callback says so."""
        model, run = self.model, self.behind
        hooks = hooks_of(callback, progress_bar)
        self._write()
        has_steps = (hooks is not None or bool(self.env.twins)) and self._record(True)
        model.start_time = time.time_ns()
        start_steps, last_table = model.num_timesteps, 0
        # The number of calls in the last rollout; unknown before the first one.
        calls: int | None = None
        self._notice(hooks is not None)
        if hooks is not None:
            hooks.init_callback(model)
            hooks.on_training_start({"total_timesteps": model._total_timesteps, "self": model}, globals())
        self._watch(True)
        interval = log_interval if log_interval is not None else model._log_interval
        try:
            while model.num_timesteps < model._total_timesteps:
                if hooks is not None:
                    hooks.on_rollout_start()
                    self._look_again()
                if run.arguments.is_assigned:
                    run.prepare(self.span, self.out, goes_on=True)
                    self._write()
                    if has_steps:
                        # Another run steps native environments from here on.
                        self._record(True)
                self._notice(False)
                if self.env.stepper is not None and self.env.stepper.notice.happened:
                    self._start_episodes()
                if hooks is not None and hasattr(hooks, "saves_within") and hooks.saves_within(calls):
                    model._before = saved.Snapshot(run.native)
                result = json.loads(run.native.train())
                calls = int(result["timesteps_this_iter"]) // run.num_envs
                self._notice(hooks is not None)
                run.is_changed = True
                self.iterations += 1
                goes_on = self._tell(hooks, has_steps, result)
                model.num_timesteps = int(result["timesteps_total"]) - model._offset
                self.episodes += int(result.get("episodes_this_iter") or 0)
                if hooks is not None:
                    hooks.on_rollout_end()
                model._before = None
                done = self.iterations if model.is_on_policy else self.episodes
                if interval and done - last_table >= interval:
                    last_table = done
                    self._table(start_steps)
                # After the table, so that callbacks of the next rollout find them in the logger.
                self._report(result)
                self._checkpoint(goes_on)
                if not goes_on:
                    break
        finally:
            model._before = None
            self._notice(True)
            self._watch(False)
            self._record(False)
            # Ctrl-C may have come between an iteration and its result here.
            run.is_changed = True
            model.num_timesteps = run.native.timesteps() - model._offset
            if hooks is not None:
                hooks.on_training_end()

    @property
    def env(self) -> TrainingEnv:
        """The environment."""
        return self.behind.env

    def _write(self) -> None:
        """Writes what `resume` needs."""
        if self.out is not None:
            saved.write_run(self.out, self.model._about())

    def _watch(self, is_on: bool) -> None:
        """Begins or ends noticing that objects are looked at which native copies stand for."""
        face = self.env.vec_env()
        if isinstance(face, DummyVecEnv):
            face.on_look = self._is_looked_at if is_on and self.env.twins else None

    def _is_looked_at(self, name: str) -> None:
        if self.env.twins and self.env.twins[0].shows_steps(name) and not self.is_watched:
            self.is_watched = True
            message = f"`{name}` is of an object that stands still: pavlov's own environment in Rust was stepped in its place"
            warnings.warn(f"{message}; from the next rollout on the object itself is stepped in Python", stacklevel=4)

    def _notice(self, is_on: bool) -> None:
        """Begins or ends noticing that somebody else steps the environments in Python."""
        if self.env.stepper is not None:
            notice = self.env.stepper.notice
            notice.start() if is_on else notice.stop()

    def _start_episodes(self) -> None:
        """Starts new episodes, because somebody else may be in the middle of the old ones."""
        stepper = self.env.stepper
        assert stepper is not None
        stepper.notice.stop()
        self.behind.native.set_stepper(stepper)
        stepper.notice.happened = False

    def _look_again(self) -> None:
        """Follows what callbacks did to the objects that the user gave."""
        env = self.env
        now = env.of_objects() if self.is_watched and env.twins else env.now()
        if now is not env:
            self._watch(False)
            self.behind.follow(now)
            self.behind.prepare(self.span, self.out)
            self._record(True)
            self._watch(True)

    def _record(self, is_on: bool) -> bool:
        """Begins or ends keeping the steps; whether there are any to keep."""
        if self.env.stepper is not None:
            self.env.stepper.record(is_on)
        else:
            self.behind.native.record(is_on)
        return not int(self.behind.arguments.own.get("num_workers", 0))

    def _tell(self, hooks: BaseCallback | None, has_steps: bool, result: dict[str, Any]) -> bool:
        """Calls the callback for every step of the rollout; whether training goes on."""
        model = self.model
        episodes = self._episodes_of(result)
        if self.iterations == 1 and not self.is_new and not model.ep_info_buffer and self.env.stepper is None:
            # Those of the run that goes on.
            model.ep_info_buffer.extend(self._episodes_of(result, of_this_rollout=False))
        if hooks is None or not has_steps:
            # The callback of other threads or processes, whose steps were not kept, is called once.
            model.num_timesteps += int(result["timesteps_this_iter"])
            ended = self._ended(has_steps, episodes)
            self._count(ended, [True] * len(ended))
            if hooks is None:
                return True
            hooks.update_locals(Locals({"self": model}))
            return hooks.on_step()
        for actions, new_obs, rewards, dones, infos in self._steps(episodes):
            model.num_timesteps += self.behind.num_envs
            self._count(infos, dones)
            told = {"self": model, "infos": infos, "rewards": rewards, "dones": dones}
            told |= {"new_obs": new_obs, "actions": actions, "clipped_actions": actions}
            hooks.update_locals(Locals(told))
            if not hooks.on_step():
                return False
        return True

    def _ended(self, has_steps: bool, episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The infos of the episodes that ended in the rollout, with what monitors told. Those around objects that native
        copies stand for are told of them."""
        stepper = self.env.stepper
        if stepper is not None:
            infos = stepper.take_ended()
            return list(self._completed(infos, iter(episodes if len(episodes) == len(infos) else [])))
        own = [{"episode": episode} for episode in episodes]
        if not has_steps or not self.env.twins:
            return own
        taken = self.behind.native.take_steps()
        rewards, ended = taken[2], taken[5]
        if len(ended) != len(episodes):
            return [info for *_, infos in self._native_steps(taken, []) for info in infos if info]
        n = self.env.num_envs
        for copy, twin in enumerate(self.env.twins):
            twin.tell(len(rewards) // n, [episode for row, episode in zip(ended, episodes) if row % n == copy])
        return own

    def _count(self, infos: list[dict[str, Any]], dones: Sequence[bool] | Array) -> None:
        """Adds what was told at the ends of episodes to the statistics of the table."""
        for info, done in zip(infos, dones):
            if info.get("episode") is not None:
                self.model.ep_info_buffer.append(info["episode"])
            if done and info.get("is_success") is not None:
                self.model.ep_success_buffer.append(info["is_success"])

    def _completed(self, infos: list[dict[str, Any]], episodes: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Infos of ended episodes; without a monitor the return is that of the rewards that were learned from."""
        stepper = self.env.stepper
        for info in infos:
            episode = next(episodes, None)
            is_missing = "episode" not in info and stepper is not None and not stepper.changes_rewards
            yield {**info, "episode": episode} if is_missing and episode is not None else info

    def _episodes_of(self, result: dict[str, Any], of_this_rollout: bool = True) -> list[dict[str, Any]]:
        """The newest episodes, in the order in which they ended, with the rewards that were learned from: those that ended in
        the rollout, or those before it."""
        stats = result.get("hist_stats", {})
        every = list(zip(stats.get("episode_reward", []), stats.get("episode_lengths", [])))
        first = len(every) - int(result.get("episodes_this_iter") or 0)
        seconds = round((time.time_ns() - self.model.start_time) / 1e9, 6)
        chosen = every[first:] if of_this_rollout else every[:first]
        return [{"r": round(reward, 6), "l": int(length), "t": seconds} for reward, length in chosen]

    def _steps(self, episodes: list[dict[str, Any]]) -> Iterator[VectorStep]:
        """The steps of the rollout, as callbacks see them."""
        stepper = self.env.stepper
        if stepper is None:
            yield from self._native_steps(self.behind.native.take_steps(), episodes)
            return
        rest = iter(episodes if len(stepper.take_ended()) == len(episodes) else [])
        for actions, obs, rewards, dones, infos in stepper.take_steps():
            ended = np.flatnonzero(dones).tolist()
            for copy, info in zip(ended, self._completed([infos[copy] for copy in ended], rest)):
                infos[copy] = info
            yield self._shaped(actions), obs, rewards, dones, infos

    def _native_steps(self, taken: tuple[Array, ...], episodes: list[dict[str, Any]]) -> Iterator[VectorStep]:
        """The steps that native copies took. The run's own `episodes` are as long as the copies'; with wrappers in Rust they
        need not be, and are counted here."""
        env, started = self.env, self.model.start_time
        actions, obs, rewards, terminated, truncated, ended, final_obs = taken
        n = env.num_envs
        rows = max(rewards.size, 1)
        all_actions = actions.reshape(-1, n, actions.size // rows)
        all_obs = obs.reshape(-1, n, obs.size // rows)
        last = dict(zip(ended.tolist(), final_obs.reshape(len(ended), obs.size // rows)))
        known = dict(zip(ended.tolist(), episodes)) if len(ended) == len(episodes) else {}
        rewards, dones = rewards.reshape(-1, n), (terminated | truncated).reshape(-1, n)
        for at in range(len(rewards)):
            self.returns += rewards[at]
            self.lengths += 1
            told: list[dict[str, Any]] = [{} for _ in range(n)]
            for copy in np.flatnonzero(dones[at]).tolist():
                row = at * n + copy
                own = {"r": round(float(self.returns[copy]), 6), "l": int(self.lengths[copy])}
                told[copy] = {
                    "episode": known.get(row) or {**own, "t": round((time.time_ns() - started) / 1e9, 6)},
                    "TimeLimit.truncated": bool(truncated[row] and not terminated[row]),
                    "terminal_observation": one(self.behind.observation_space, last[row]),
                }
                self.returns[copy], self.lengths[copy] = 0.0, 0
            for twin, info in zip(env.twins, told):
                twin.tell(1, [info["episode"]] if info else [])
            yield self._shaped(all_actions[at]), self._observations(all_obs[at]), rewards[at], dones[at], told

    def _shaped(self, actions: Array) -> Array:
        return actions.reshape(len(actions), *(self.behind.action_space.shape or ()))

    def _observations(self, rows: Array) -> Any:
        space = self.behind.observation_space
        if isinstance(space, spaces.Box):
            return rows.reshape(len(rows), *space.shape)
        return many(space, rows)

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
        values = self.behind.arguments.values
        record("train/n_updates", self._updates(result), exclude="tensorboard")
        if "cur_lr" not in learner.get("learner_stats", {}) and not is_schedule(values["learning_rate"]):
            record("train/learning_rate", float(values["learning_rate"]))
        for key, value in (result.get("custom_metrics") or {}).items():
            if isinstance(value, (int, float)):
                record(f"rollout/{key}", value)

    def _updates(self, result: dict[str, Any]) -> int:
        """Passes over rollouts, or minibatches of a replay buffer, since the run began."""
        values = self.behind.arguments.values
        if self.model.is_on_policy:
            return int(result["training_iteration"]) * int(values.get("n_epochs", 1))
        return int(result["num_env_steps_trained"]) // int(values["batch_size"])

    def _table(self, start_steps: int) -> None:
        model = self.model
        record = model.logger.record
        for name, key in (("rollout/ep_rew_mean", "r"), ("rollout/ep_len_mean", "l")):
            if model.ep_info_buffer:
                record(name, float(np.mean([episode[key] for episode in model.ep_info_buffer])))
        if model.ep_success_buffer:
            record("rollout/success_rate", float(np.mean(model.ep_success_buffer)))
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
            self.behind.native.save()


def hooks_of(callback: Any, progress_bar: bool) -> BaseCallback | None:
    """The callbacks of a call of `learn` as one; None if there are none."""
    for each in callback if isinstance(callback, (list, tuple)) else [callback]:
        refuse_class("callback", each)
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
