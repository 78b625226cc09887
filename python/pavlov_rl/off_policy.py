"""The algorithms that learn from a replay buffer: DQN, SAC, TQC, TD3, DDPG."""

from typing import Any

from . import translate
from .common.noise import ActionNoise
from .model import BaseAlgorithm
from .schedules import Schedule
from .training_env import TrainingEnv
from .translate import Settings


class OffPolicyAlgorithm(BaseAlgorithm):
    """What these algorithms have in common."""

    is_on_policy = False

    def _common(self, env: TrainingEnv, preset: str, span: tuple[int, int] | None) -> Settings:
        settings = translate.base(preset)
        settings["gamma"] = float(self.arguments["gamma"])
        translate.off_policy(settings, self.arguments, env.num_envs, self._asked if span is not None else None)
        return settings

    def _rate(self) -> float:
        return translate.number(type(self).__name__, "learning_rate", self.arguments["learning_rate"])

    def save_replay_buffer(self, path: Any) -> None:
        """Writes the model with its replay buffer into a file that `load_replay_buffer` reads."""
        self.save(path)

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        """Takes the replay buffer of a file that `save_replay_buffer` wrote."""
        weights = self.get_parameters()
        other = type(self).load(path)
        self.native.load_bytes(other.native.to_bytes())
        self.set_parameters(weights)


class DQN(OffPolicyAlgorithm):
    """Deep Q-learning (Mnih et al. 2015), with Stable-Baselines3's arguments and defaults.

    `settings` are pavlov's own: `{"double_q": True}` is double DQN.
    """

    algorithm = "DQN"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 1e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10.0,
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
        if tau != 1.0:
            raise TypeError(f"`tau` of DQN is {tau}, but the target network is copied as a whole here: 1.0")
        super().__init__(policy, env, arguments, settings)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        a = self.arguments
        settings = self._common(env, "dqn-sb3", span)
        settings["target_network_update_freq"] = int(a["target_update_interval"])
        settings["grad_clip"] = a["max_grad_norm"]
        translate.scheduled(settings, "lr", a["learning_rate"], span or (0, 1))
        first, last = span or (0, 100_000)
        end = first + int((last - first) * a["exploration_fraction"])
        epsilon = [[end, float(a["exploration_final_eps"])]]
        if end > first:
            epsilon.insert(0, [first, float(a["exploration_initial_eps"])])
        settings["exploration_config"] = {"type": "EpsilonGreedy", "epsilon_schedule": epsilon}
        kwargs = self.policy_kwargs
        translate.refuse_policy_kwargs(kwargs, ["net_arch", "activation_fn", "optimizer_kwargs"])
        if kwargs.get("net_arch") is not None:
            settings["model"]["fcnet_hiddens"] = [int(units) for units in kwargs["net_arch"]]
        if "activation_fn" in kwargs:
            settings["model"]["fcnet_activation"] = translate.activation(kwargs["activation_fn"])
        epsilon_of_adam = translate.optimizer_epsilon(kwargs.get("optimizer_kwargs") or {})
        if epsilon_of_adam is not None:
            settings["adam_epsilon"] = epsilon_of_adam
        return settings


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic (Haarnoja et al. 2018), with Stable-Baselines3's arguments and defaults."""

    algorithm = "SAC"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 3e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: None = None,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: str | float = "auto",
        target_update_interval: int = 1,
        target_entropy: str | float = "auto",
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
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
        _check_sac(type(self).__name__, arguments)
        super().__init__(policy, env, arguments, settings)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        a = self.arguments
        settings = self._common(env, "sac-sb3", span)
        settings["exploration_config"] = {"type": "StochasticSampling", "random_timesteps": int(a["learning_starts"])}
        settings["tau"] = float(a["tau"])
        rate = self._rate()
        rates = settings["optimization"]
        rates |= {"actor_learning_rate": rate, "critic_learning_rate": rate, "entropy_learning_rate": rate}
        coefficient = a["ent_coef"]
        if isinstance(coefficient, str):
            settings["initial_alpha"] = float(coefficient.removeprefix("auto_")) if coefficient != "auto" else 1.0
        else:
            settings["initial_alpha"] = float(coefficient)
            rates["entropy_learning_rate"] = 0.0
        if a["target_entropy"] != "auto":
            settings["target_entropy"] = float(a["target_entropy"])
        kwargs = self.policy_kwargs
        translate.refuse_policy_kwargs(kwargs, ["net_arch", "activation_fn", "n_critics", *self._more_policy_kwargs()])
        for network, name in (("policy_model_config", "pi"), ("q_model_config", "qf")):
            if kwargs.get("net_arch") is not None:
                actor, critic = translate.layers(kwargs["net_arch"], "pi", "qf")
                settings[network]["fcnet_hiddens"] = actor if name == "pi" else critic
            if "activation_fn" in kwargs:
                settings[network]["fcnet_activation"] = translate.activation(kwargs["activation_fn"])
        if "n_critics" in kwargs:
            settings["n_critics"] = int(kwargs["n_critics"])
        return settings

    def _more_policy_kwargs(self) -> list[str]:
        return []


class TQC(SAC):
    """SAC with critics that learn quantiles of the return (Kuznetsov et al. 2020), with the arguments of sb3-contrib."""

    def __init__(self, policy: Any, env: Any, *arguments: Any, top_quantiles_to_drop_per_net: int = 2, **keywords: Any) -> None:
        self._dropped = top_quantiles_to_drop_per_net
        super().__init__(policy, env, *arguments, **keywords)
        self.arguments["top_quantiles_to_drop_per_net"] = top_quantiles_to_drop_per_net

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        settings = super()._translated(env, span)
        settings["n_critics"] = int(self.policy_kwargs.get("n_critics", 2))
        settings["n_quantiles"] = int(self.policy_kwargs.get("n_quantiles", 25))
        settings["top_quantiles_to_drop_per_net"] = int(self._dropped)
        settings["critic_loss"] = "huber"
        return settings

    def _more_policy_kwargs(self) -> list[str]:
        return ["n_quantiles"]


class TD3(OffPolicyAlgorithm):
    """Twin delayed DDPG (Fujimoto et al. 2018), with Stable-Baselines3's arguments and defaults."""

    algorithm = "TD3"
    _preset = "td3-sb3"

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 1e-3,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
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
        settings = self._common(env, self._preset, span)
        settings["tau"] = float(a["tau"])
        settings["actor_lr"] = settings["critic_lr"] = self._rate()
        if "policy_delay" in a:
            settings["policy_delay"] = int(a["policy_delay"])
            settings["target_noise"] = float(a["target_policy_noise"])
            settings["target_noise_clip"] = float(a["target_noise_clip"])
        translate.noise(settings, a["action_noise"], [], int(a["learning_starts"]))
        kwargs = self.policy_kwargs
        translate.refuse_policy_kwargs(kwargs, ["net_arch", "activation_fn"])
        for network, at in (("actor", 0), ("critic", 1)):
            if kwargs.get("net_arch") is not None:
                settings[f"{network}_hiddens"] = translate.layers(kwargs["net_arch"], "pi", "qf")[at]
            if "activation_fn" in kwargs:
                settings[f"{network}_hidden_activation"] = translate.activation(kwargs["activation_fn"])
        return settings


class DDPG(TD3):
    """Deep deterministic policy gradients (Lillicrap et al. 2015), with Stable-Baselines3's arguments and defaults."""

    algorithm = "DDPG"
    _preset = "ddpg-sb3"

    def __init__(self, policy: Any, env: Any, *arguments: Any, **keywords: Any) -> None:
        for name in ("policy_delay", "target_policy_noise", "target_noise_clip"):
            if name in keywords:
                raise TypeError(f"DDPG has no argument `{name}`; TD3 has it")
        super().__init__(policy, env, *arguments, **keywords)
        for name in ("policy_delay", "target_policy_noise", "target_noise_clip"):
            self.arguments.pop(name)

    def _translated(self, env: TrainingEnv, span: tuple[int, int] | None) -> Settings:
        settings = super()._translated(env, span)
        for name in ("policy_delay", "target_noise", "target_noise_clip"):
            settings.pop(name, None)
        return settings


def _check_sac(who: str, arguments: dict[str, Any]) -> None:
    if arguments["action_noise"] is not None:
        raise TypeError(f"`action_noise` of {who} is given, but its policy explores by itself; leave it out")
    if arguments["target_update_interval"] != 1:
        interval = arguments["target_update_interval"]
        raise TypeError(f"`target_update_interval` of {who} is {interval}, but targets follow at every step of learning here: 1")
    coefficient = arguments["ent_coef"]
    if isinstance(coefficient, str) and not coefficient.startswith("auto"):
        raise TypeError(f"`ent_coef` of {who} is {coefficient!r}, but it must be a number, 'auto' or 'auto_0.1'")


# Names in the scope of a constructor that are no arguments to translate.
_NOT_ARGUMENTS = ("self", "policy", "env", "settings", "__class__")
