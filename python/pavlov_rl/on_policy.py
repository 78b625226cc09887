"""PPO and the algorithms that learn as it does from what the policy has just done: A2C, RecurrentPPO, MaskablePPO, IMPALA."""

from typing import Any

from . import translate
from .model import BaseAlgorithm
from .schedules import Schedule
from .training_env import TrainingEnv
from .translate import Settings


class OnPolicyAlgorithm(BaseAlgorithm):
    """What these algorithms have in common."""

    n_steps: int

    def _common(self, env: TrainingEnv, preset: str) -> Settings:
        a = self.arguments
        settings = translate.base(preset)
        settings["rollout_fragment_length"] = int(a["n_steps"])
        settings["train_batch_size"] = int(a["n_steps"]) * env.num_envs
        settings["gamma"] = float(a["gamma"])
        settings["entropy_coeff"] = float(a["ent_coef"])
        settings["vf_loss_coeff"] = float(a["vf_coef"])
        settings["grad_clip"] = None if a["max_grad_norm"] is None else float(a["max_grad_norm"])
        translate.actor_critic(settings, self.policy_name, self.policy_kwargs)
        return settings


class PPO(OnPolicyAlgorithm):
    """Proximal policy optimisation (Schulman et al. 2017), with Stable-Baselines3's arguments and defaults.

    ```python
    model = PPO("MlpPolicy", "CartPole-v1", verbose=1).learn(50_000)
    action, _ = model.predict(obs, deterministic=True)
    ```

    `learning_rate` and `clip_range` may be functions of the progress that remains. `settings` are pavlov's own, by the names
    that `pavlov config PPO` lists.
    """

    algorithm = "PPO"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
        **unknown: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in _NOT_ARGUMENTS}
        super().__init__(policy, env, arguments, settings)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        a = self.arguments
        settings = self._common(env, "ppo-sb3")
        settings["sgd_minibatch_size"] = min(int(a["batch_size"]), settings["train_batch_size"])
        settings["num_sgd_iter"] = int(a["n_epochs"])
        settings["lambda"] = float(a["gae_lambda"])
        settings["normalize_advantages"] = "minibatch" if a["normalize_advantage"] else "none"
        settings["target_kl"] = a["target_kl"]
        steps = span or (0, 1)
        translate.scheduled(settings, "lr", a["learning_rate"], steps)
        translate.scheduled(settings, "clip_param", a["clip_range"], steps)
        if a["clip_range_vf"] is not None:
            settings["vf_clip"] = "around_old"
            settings["vf_clip_param"] = translate.number("PPO", "clip_range_vf", a["clip_range_vf"])
        return settings


class RecurrentPPO(PPO):
    """PPO with a long short-term memory: `predict` takes and gives the state, and `episode_start` says where to forget it."""

    is_recurrent = True

    def __init__(self, policy: Any, env: Any, *arguments: Any, **keywords: Any) -> None:
        for at, name in ((1, "n_steps"), (2, "batch_size")):
            if len(arguments) <= at:
                keywords.setdefault(name, 128)
        super().__init__("MlpLstmPolicy" if policy == "MlpPolicy" else policy, env, *arguments, **keywords)


class MaskablePPO(PPO):
    """PPO that chooses only legal actions: the environment has the method `action_masks`, or is in an `ActionMasker`."""

    takes_masks = True

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        return {**super()._translated(env, span), "mask_actions": True}


class A2C(OnPolicyAlgorithm):
    """Advantage actor-critic (Mnih et al. 2016), with Stable-Baselines3's arguments and defaults.

    It is PPO with one step per rollout. With `use_rms_prop` the optimizer is RMSprop.
    """

    algorithm = "PPO"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 7e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        normalize_advantage: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
        **unknown: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in _NOT_ARGUMENTS}
        super().__init__(policy, env, arguments, settings)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        a = self.arguments
        settings = self._common(env, "ppo-sb3")
        settings["sgd_minibatch_size"] = settings["train_batch_size"]
        settings["num_sgd_iter"] = 1
        settings["lambda"] = float(a["gae_lambda"])
        settings["normalize_advantages"] = "batch" if a["normalize_advantage"] else "none"
        if a["use_rms_prop"]:
            settings["opt_type"] = "rmsprop"
            settings["adam_epsilon"] = float(a["rms_prop_eps"])
        translate.scheduled(settings, "lr", a["learning_rate"], span or (0, 1))
        return settings


class IMPALA(OnPolicyAlgorithm):
    """The importance-weighted actor-learner (Espeholt et al. 2018), which corrects for the age of its experience by V-trace.

    Stable-Baselines3 does not have it; its arguments are named as those of A2C.
    """

    algorithm = "IMPALA"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 5e-4,
        n_steps: int = 50,
        gamma: float = 0.99,
        ent_coef: float = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 40.0,
        n_epochs: int = 1,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        *,
        settings: Settings | None = None,
        **unknown: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in _NOT_ARGUMENTS}
        super().__init__(policy, env, arguments, settings)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        a = self.arguments
        settings: Settings = {
            "rollout_fragment_length": int(a["n_steps"]),
            "train_batch_size": int(a["n_steps"]) * env.num_envs,
            "min_sample_timesteps_per_reporting": int(a["n_steps"]) * env.num_envs,
            "gamma": float(a["gamma"]),
            "entropy_coeff": float(a["ent_coef"]),
            "vf_loss_coeff": float(a["vf_coef"]),
            "grad_clip": a["max_grad_norm"],
            "num_sgd_iter": int(a["n_epochs"]),
        }
        translate.actor_critic(settings, self.policy_name, self.policy_kwargs)
        translate.scheduled(settings, "lr", a["learning_rate"], span or (0, 1))
        return settings


# Names in the scope of a constructor that are no arguments to translate.
_NOT_ARGUMENTS = ("self", "policy", "env", "settings", "__class__")
