"""Callbacks that evaluate the model, and those that end training."""

import os
from typing import Any

import numpy as np

from .base_callbacks import BaseCallback, EventCallback
from .evaluation import evaluate_policy
from .vec_env import VecEnv, sync_envs_normalization
from .vec_env.of import vec_env_of


class EvalCallback(EventCallback):
    """Evaluates the model every `eval_freq` calls, and keeps the best one.

    It writes `best_model.zip` to `best_model_save_path`, and `evaluations.npz` with `timesteps`, `results` and `ep_lengths` to
    `log_path`. `callback_on_new_best` is called at a new best mean return, `callback_after_eval` after every evaluation.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
    ) -> None:
        super().__init__(callback_after_eval, verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.n_eval_episodes = n_eval_episodes
        self.eval_freq = eval_freq
        self.best_mean_reward = -np.inf
        self.last_mean_reward = -np.inf
        self.deterministic = deterministic
        self.render = render
        self.warn = warn
        self.eval_env: VecEnv = vec_env_of(eval_env)
        self.best_model_save_path = best_model_save_path
        self.log_path = os.path.join(log_path, "evaluations") if log_path is not None else None
        self.evaluations_results: list[list[float]] = []
        self.evaluations_timesteps: list[int] = []
        self.evaluations_length: list[list[int]] = []
        self.evaluations_successes: list[list[bool]] = []
        self._is_success_buffer: list[bool] = []

    def _init_callback(self) -> None:
        if self.best_model_save_path is not None:
            os.makedirs(self.best_model_save_path, exist_ok=True)
        if self.log_path is not None:
            os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _log_success_callback(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        if locals_["done"] and locals_["info"].get("is_success") is not None:
            self._is_success_buffer.append(locals_["info"]["is_success"])

    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq != 0:
            return True
        if self.model.get_vec_normalize_env() is not None:
            sync_envs_normalization(self.training_env, self.eval_env)
        self._is_success_buffer = []
        returns, lengths = evaluate_policy(
            self.model,
            self.eval_env,
            n_eval_episodes=self.n_eval_episodes,
            render=self.render,
            deterministic=self.deterministic,
            return_episode_rewards=True,
            warn=self.warn,
            callback=self._log_success_callback,
        )
        self._write(returns, lengths)
        mean, std = float(np.mean(returns)), float(np.std(returns))
        mean_length = float(np.mean(lengths))
        self.last_mean_reward = mean
        if self.verbose >= 1:
            print(f"Eval num_timesteps={self.num_timesteps}, episode_reward={mean:.2f} +/- {std:.2f}")
            print(f"Episode length: {mean_length:.2f} +/- {np.std(lengths):.2f}")
        self.logger.record("eval/mean_reward", mean)
        self.logger.record("eval/mean_ep_length", mean_length)
        if self._is_success_buffer:
            self.logger.record("eval/success_rate", float(np.mean(self._is_success_buffer)))
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        goes_on = True
        if mean > self.best_mean_reward:
            if self.verbose >= 1:
                print("New best mean reward!")
            if self.best_model_save_path is not None:
                self.model.save(os.path.join(self.best_model_save_path, "best_model"))
            self.best_mean_reward = mean
            if self.callback_on_new_best is not None:
                goes_on = self.callback_on_new_best.on_step()
        if self.callback is not None:
            goes_on = goes_on and self._on_event()
        return goes_on

    def _write(self, returns: list[float], lengths: list[int]) -> None:
        if self.log_path is None:
            return
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(returns)
        self.evaluations_length.append(lengths)
        more: dict[str, Any] = {}
        if self._is_success_buffer:
            self.evaluations_successes.append(self._is_success_buffer)
            more = {"successes": self.evaluations_successes}
        np.savez(
            self.log_path,
            timesteps=self.evaluations_timesteps,
            results=self.evaluations_results,
            ep_lengths=self.evaluations_length,
            **more,
        )

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends training when the best mean return of its `EvalCallback` reaches a threshold."""

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        assert self.parent is not None, "StopTrainingOnRewardThreshold needs an EvalCallback: callback_on_new_best=.."
        goes_on = bool(self.parent.best_mean_reward < self.reward_threshold)
        if self.verbose >= 1 and not goes_on:
            best = self.parent.best_mean_reward
            print(f"Stopping training because the mean reward {best:.2f} is above the threshold {self.reward_threshold}")
        return goes_on


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends training after `max_episodes` episodes per copy."""

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_episodes = max_episodes
        self._total_max_episodes = max_episodes
        self.n_episodes = 0

    def _init_callback(self) -> None:
        self._total_max_episodes = self.max_episodes * self.model.n_envs

    def _on_step(self) -> bool:
        self.n_episodes += int(np.sum(self.locals["dones"]))
        goes_on = self.n_episodes < self._total_max_episodes
        if self.verbose >= 1 and not goes_on:
            print(f"Stopping training with a total of {self.num_timesteps} steps because the limit is reached")
        return goes_on


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends training when the best mean return of its `EvalCallback` has not risen in some evaluations."""

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_no_improvement_evals = max_no_improvement_evals
        self.min_evals = min_evals
        self.last_best_mean_reward = -np.inf
        self.no_improvement_evals = 0

    def _on_step(self) -> bool:
        assert self.parent is not None, "StopTrainingOnNoModelImprovement needs an EvalCallback: callback_after_eval=.."
        goes_on = True
        if self.n_calls > self.min_evals:
            if self.parent.best_mean_reward > self.last_best_mean_reward:
                self.no_improvement_evals = 0
            else:
                self.no_improvement_evals += 1
                goes_on = self.no_improvement_evals <= self.max_no_improvement_evals
        self.last_best_mean_reward = self.parent.best_mean_reward
        if self.verbose >= 1 and not goes_on:
            print(f"Stopping training because there was no new best model in the last {self.no_improvement_evals} evaluations")
        return goes_on
