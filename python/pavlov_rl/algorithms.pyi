"""The algorithms with Stable-Baselines3's names, arguments and defaults, and `load`. `tests/test_stub.py` writes this file."""

import os
from typing import Any

from .arguments import Settings
from .common.noise import ActionNoise
from .families import EpsilonGreedyAlgorithm as EpsilonGreedyAlgorithm
from .families import NoisyAlgorithm as NoisyAlgorithm
from .families import OffPolicyAlgorithm as OffPolicyAlgorithm
from .families import OnPolicyAlgorithm as OnPolicyAlgorithm
from .model import BaseAlgorithm as BaseAlgorithm
from .schedules import Schedule

class PPO(OnPolicyAlgorithm):
    """Proximal policy optimisation (Schulman et al. 2017), with Stable-Baselines3's arguments and defaults::

        model = PPO("MlpPolicy", "CartPole-v1", verbose=1).learn(50_000)
        action, _ = model.predict(obs, deterministic=True)

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Steps of each environment between two updates.
        batch_size: Rows of a minibatch.
        n_epochs: Passes over a rollout.
        gamma: Discount of a reward that comes one step later.
        gae_lambda: Lambda of generalised advantage estimation.
        clip_range: Maximum change of an action's probability ratio in an update: a number, or a function of the progress that remains.
        clip_range_vf: Maximum change of a value in an update. None: no limit.
        normalize_advantage: Whether the advantages of a minibatch are normalised.
        ent_coef: Weight of the entropy in the loss.
        vf_coef: Weight of the value loss.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        target_kl: Kullback-Leibler divergence that ends the passes over a rollout.
        use_sde: Whether actions explore by generalised state-dependent exploration (gSDE).
        sde_sample_freq: Steps after which gSDE draws its noise anew; -1: only where a rollout begins.
        rollout_buffer_class: Only None: other rollout buffers are not supported.
        rollout_buffer_kwargs: Only None: other rollout buffers are not supported.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'vf': [..]} with equal lists.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          ortho_init: Whether the first weights are orthogonal.
          log_std_init: Logarithm of the first standard deviation.
          full_std: Whether gSDE has deviations for every component of an action; otherwise all components share theirs.
          use_expln: Whether deviations of gSDE grow slower than the exponential of their parameters.
          optimizer_kwargs: Only the key `eps`: epsilon of the optimizer.
          lstm_hidden_size: Units of the long short-term memory.
          shared_lstm: Actor and critic share the memory, whatever is given.
          enable_critic_lstm: Actor and critic share the memory, whatever is given.
          share_features_extractor: With CnnPolicy: actor and critic share all layers but the last; True if it is not given.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config PPO` lists.
    """

    learning_rate: float | Schedule
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: float | Schedule
    clip_range_vf: float | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float | None
    target_kl: float | None
    use_sde: bool
    sde_sample_freq: int
    rollout_buffer_class: None
    rollout_buffer_kwargs: None
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0003,
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
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class RecurrentPPO(PPO):
    """PPO with a long short-term memory, with the arguments of sb3-contrib. `predict` takes the memory's state and gives the
    next one, and `episode_start` says where to forget it.

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Steps of each environment between two updates.
        batch_size: Rows of a minibatch.
        n_epochs: Passes over a rollout.
        gamma: Discount of a reward that comes one step later.
        gae_lambda: Lambda of generalised advantage estimation.
        clip_range: Maximum change of an action's probability ratio in an update: a number, or a function of the progress that remains.
        clip_range_vf: Maximum change of a value in an update. None: no limit.
        normalize_advantage: Whether the advantages of a minibatch are normalised.
        ent_coef: Weight of the entropy in the loss.
        vf_coef: Weight of the value loss.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        target_kl: Kullback-Leibler divergence that ends the passes over a rollout.
        use_sde: Whether actions explore by generalised state-dependent exploration (gSDE).
        sde_sample_freq: Steps after which gSDE draws its noise anew; -1: only where a rollout begins.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'vf': [..]} with equal lists.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          ortho_init: Whether the first weights are orthogonal.
          log_std_init: Logarithm of the first standard deviation.
          full_std: Whether gSDE has deviations for every component of an action; otherwise all components share theirs.
          use_expln: Whether deviations of gSDE grow slower than the exponential of their parameters.
          optimizer_kwargs: Only the key `eps`: epsilon of the optimizer.
          lstm_hidden_size: Units of the long short-term memory.
          shared_lstm: Actor and critic share the memory, whatever is given.
          enable_critic_lstm: Actor and critic share the memory, whatever is given.
          share_features_extractor: With CnnPolicy: actor and critic share all layers but the last; True if it is not given.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config PPO` lists.
    """



    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0003,
        n_steps: int = 128,
        batch_size: int = 128,
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
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class MaskablePPO(PPO):
    """PPO that chooses only legal actions, with the arguments of sb3-contrib. The environment has the method `action_masks`,
    or is in an `ActionMasker`.

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Steps of each environment between two updates.
        batch_size: Rows of a minibatch.
        n_epochs: Passes over a rollout.
        gamma: Discount of a reward that comes one step later.
        gae_lambda: Lambda of generalised advantage estimation.
        clip_range: Maximum change of an action's probability ratio in an update: a number, or a function of the progress that remains.
        clip_range_vf: Maximum change of a value in an update. None: no limit.
        normalize_advantage: Whether the advantages of a minibatch are normalised.
        ent_coef: Weight of the entropy in the loss.
        vf_coef: Weight of the value loss.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        target_kl: Kullback-Leibler divergence that ends the passes over a rollout.
        rollout_buffer_class: Only None: other rollout buffers are not supported.
        rollout_buffer_kwargs: Only None: other rollout buffers are not supported.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'vf': [..]} with equal lists.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          ortho_init: Whether the first weights are orthogonal.
          optimizer_kwargs: Only the key `eps`: epsilon of the optimizer.
          lstm_hidden_size: Units of the long short-term memory.
          shared_lstm: Actor and critic share the memory, whatever is given.
          enable_critic_lstm: Actor and critic share the memory, whatever is given.
          share_features_extractor: With CnnPolicy: actor and critic share all layers but the last; True if it is not given.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config PPO` lists.
    """


    takes_masks: bool

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0003,
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
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class A2C(OnPolicyAlgorithm):
    """Advantage actor-critic (Mnih et al. 2016), with Stable-Baselines3's arguments and defaults.

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Steps of each environment between two updates.
        gamma: Discount of a reward that comes one step later.
        gae_lambda: Lambda of generalised advantage estimation.
        normalize_advantage: Whether the advantages of a minibatch are normalised.
        ent_coef: Weight of the entropy in the loss.
        vf_coef: Weight of the value loss.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        rms_prop_eps: Epsilon of RMSprop.
        use_rms_prop: Whether the optimizer is RMSprop; otherwise it is Adam.
        use_sde: Whether actions explore by generalised state-dependent exploration (gSDE).
        sde_sample_freq: Steps after which gSDE draws its noise anew; -1: only where a rollout begins.
        rollout_buffer_class: Only None: other rollout buffers are not supported.
        rollout_buffer_kwargs: Only None: other rollout buffers are not supported.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'vf': [..]} with equal lists.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          ortho_init: Whether the first weights are orthogonal.
          log_std_init: Logarithm of the first standard deviation.
          full_std: Whether gSDE has deviations for every component of an action; otherwise all components share theirs.
          use_expln: Whether deviations of gSDE grow slower than the exponential of their parameters.
          optimizer_kwargs: Only the key `eps`: epsilon of the optimizer.
          lstm_hidden_size: Units of the long short-term memory.
          shared_lstm: Actor and critic share the memory, whatever is given.
          enable_critic_lstm: Actor and critic share the memory, whatever is given.
          share_features_extractor: With CnnPolicy: actor and critic share all layers but the last; True if it is not given.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config PPO` lists.
    """

    learning_rate: float | Schedule
    n_steps: int
    gamma: float
    gae_lambda: float
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float | None
    rms_prop_eps: float
    use_rms_prop: bool
    use_sde: bool
    sde_sample_freq: int
    rollout_buffer_class: None
    rollout_buffer_kwargs: None
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0007,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 0.5,
        rms_prop_eps: float = 1e-05,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        normalize_advantage: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class DQN(EpsilonGreedyAlgorithm):
    """Deep Q-learning (Mnih et al. 2015), with Stable-Baselines3's arguments and defaults. `settings={"double_q": True}` is
    double DQN.

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Rewards that are summed before the value of a later observation stands for the rest.
        batch_size: Rows that are drawn for an update.
        gamma: Discount of a reward that comes one step later.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        buffer_size: Rows of the replay buffer.
        learning_starts: Steps before the first update.
        tau: Only 1.0: the target network is copied as a whole.
        train_freq: Steps of each environment between two times of learning.
        gradient_steps: Updates at each time of learning; -1: as many as there were steps.
        target_update_interval: Steps between two copies of the network into the target network.
        exploration_fraction: Part of the run in which epsilon falls.
        exploration_initial_eps: Epsilon at the start.
        exploration_final_eps: Epsilon after it fell.
        replay_buffer_class: HerReplayBuffer: hindsight experience replay, for environments with goals. None: rows are drawn with equal probability.
        replay_buffer_kwargs: Arguments of HerReplayBuffer: n_sampled_goal, 4 unless given, and goal_selection_strategy, 'future' unless given, 'final' or 'episode'.
        optimize_memory_usage: Only False: observations are stored once already.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          optimizer_kwargs: Only the key `eps`: epsilon of the optimizer.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config DQN` lists.
    """

    learning_rate: float | Schedule
    n_steps: int
    batch_size: int
    gamma: float
    max_grad_norm: float | None
    buffer_size: int
    learning_starts: int
    tau: float
    train_freq: int | tuple[int, str]
    gradient_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    replay_buffer_class: Any | None
    replay_buffer_kwargs: dict[str, Any] | None
    optimize_memory_usage: bool
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: Any | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10.0,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class SAC(OffPolicyAlgorithm):
    """Soft actor-critic (Haarnoja et al. 2018), with Stable-Baselines3's arguments and defaults.

    Arguments:
        learning_rate: Step size of the optimizers.
        n_steps: Rewards that are summed before the value of a later observation stands for the rest.
        batch_size: Rows that are drawn for an update.
        gamma: Discount of a reward that comes one step later.
        ent_coef: Weight of the entropy: a number, 'auto', or 'auto_0.1', which is learned from that value on.
        buffer_size: Rows of the replay buffer.
        learning_starts: Steps before the first update; their actions are random.
        tau: Weight of the networks in an update of the target networks (Polyak averaging).
        train_freq: Steps of each environment between two times of learning.
        gradient_steps: Updates at each time of learning; -1: as many as there were steps.
        action_noise: Only None: the policy explores by itself.
        target_update_interval: Only 1: the target networks follow at every step of learning.
        target_entropy: Entropy that the learned weight leads to; 'auto': the number of action components, negated.
        use_sde: Whether actions explore by generalised state-dependent exploration (gSDE).
        sde_sample_freq: Steps after which gSDE draws its noise anew; -1: only where a rollout begins.
        use_sde_at_warmup: Whether gSDE chooses the actions of the steps before the first update, too; otherwise they are random.
        replay_buffer_class: HerReplayBuffer: hindsight experience replay, for environments with goals. None: rows are drawn with equal probability.
        replay_buffer_kwargs: Arguments of HerReplayBuffer: n_sampled_goal, 4 unless given, and goal_selection_strategy, 'future' unless given, 'final' or 'episode'.
        optimize_memory_usage: Only False: observations are stored once already.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'qf': [..]}.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          log_std_init: Logarithm of the first standard deviation of gSDE.
          use_expln: Whether deviations of gSDE grow slower than the exponential of their parameters.
          n_critics: Number of critics.
          share_features_extractor: With CnnPolicy: actor and critics share the convolutions, which then learn from the actor's loss alone.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config SAC` lists.
    """

    learning_rate: float
    n_steps: int
    batch_size: int
    gamma: float
    ent_coef: str | float
    buffer_size: int
    learning_starts: int
    tau: float
    train_freq: int | tuple[int, str]
    gradient_steps: int
    action_noise: None
    target_update_interval: int
    target_entropy: str | float
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    replay_buffer_class: Any | None
    replay_buffer_kwargs: dict[str, Any] | None
    optimize_memory_usage: bool
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: None = None,
        replay_buffer_class: Any | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: str | float = "auto",
        target_update_interval: int = 1,
        target_entropy: str | float = "auto",
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class TQC(SAC):
    """SAC with critics that learn quantiles of the return (Kuznetsov et al. 2020), with the arguments of sb3-contrib.

    Arguments:
        learning_rate: Step size of the optimizers.
        n_steps: Rewards that are summed before the value of a later observation stands for the rest.
        batch_size: Rows that are drawn for an update.
        gamma: Discount of a reward that comes one step later.
        ent_coef: Weight of the entropy: a number, 'auto', or 'auto_0.1', which is learned from that value on.
        buffer_size: Rows of the replay buffer.
        learning_starts: Steps before the first update; their actions are random.
        tau: Weight of the networks in an update of the target networks (Polyak averaging).
        train_freq: Steps of each environment between two times of learning.
        gradient_steps: Updates at each time of learning; -1: as many as there were steps.
        action_noise: Only None: the policy explores by itself.
        target_update_interval: Only 1: the target networks follow at every step of learning.
        target_entropy: Entropy that the learned weight leads to; 'auto': the number of action components, negated.
        top_quantiles_to_drop_per_net: Quantiles that each critic leaves out of the target, the highest first.
        use_sde: Whether actions explore by generalised state-dependent exploration (gSDE).
        sde_sample_freq: Steps after which gSDE draws its noise anew; -1: only where a rollout begins.
        use_sde_at_warmup: Whether gSDE chooses the actions of the steps before the first update, too; otherwise they are random.
        replay_buffer_class: HerReplayBuffer: hindsight experience replay, for environments with goals. None: rows are drawn with equal probability.
        replay_buffer_kwargs: Arguments of HerReplayBuffer: n_sampled_goal, 4 unless given, and goal_selection_strategy, 'future' unless given, 'final' or 'episode'.
        optimize_memory_usage: Only False: observations are stored once already.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'qf': [..]}.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          log_std_init: Logarithm of the first standard deviation of gSDE.
          use_expln: Whether deviations of gSDE grow slower than the exponential of their parameters.
          n_critics: Number of critics.
          n_quantiles: Quantiles of each critic.
          share_features_extractor: With CnnPolicy: actor and critics share the convolutions, which then learn from the actor's loss alone.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config SAC` lists.
    """

    top_quantiles_to_drop_per_net: int

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: None = None,
        replay_buffer_class: Any | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: str | float = "auto",
        target_update_interval: int = 1,
        target_entropy: str | float = "auto",
        top_quantiles_to_drop_per_net: int = 2,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class TD3(NoisyAlgorithm):
    """Twin delayed DDPG (Fujimoto et al. 2018), with Stable-Baselines3's arguments and defaults.

    Arguments:
        learning_rate: Step size of the optimizers.
        n_steps: Rewards that are summed before the value of a later observation stands for the rest.
        batch_size: Rows that are drawn for an update.
        gamma: Discount of a reward that comes one step later.
        buffer_size: Rows of the replay buffer.
        learning_starts: Steps before the first update; their actions are random.
        tau: Weight of the networks in an update of the target networks (Polyak averaging).
        train_freq: Steps of each environment between two times of learning.
        gradient_steps: Updates at each time of learning; -1: as many as there were steps.
        action_noise: Noise that is added to actions.
        policy_delay: Updates of the critics for one of the actor.
        target_policy_noise: Standard deviation of the noise on the target's actions.
        target_noise_clip: Maximum size of the noise on the target's actions.
        replay_buffer_class: HerReplayBuffer: hindsight experience replay, for environments with goals. None: rows are drawn with equal probability.
        replay_buffer_kwargs: Arguments of HerReplayBuffer: n_sampled_goal, 4 unless given, and goal_selection_strategy, 'future' unless given, 'final' or 'episode'.
        optimize_memory_usage: Only False: observations are stored once already.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'qf': [..]}.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          share_features_extractor: With CnnPolicy: actor and critics share the convolutions, which then learn from the actor's loss alone.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config TD3` lists.
    """

    learning_rate: float
    n_steps: int
    batch_size: int
    gamma: float
    buffer_size: int
    learning_starts: int
    tau: float
    train_freq: int | tuple[int, str]
    gradient_steps: int
    action_noise: ActionNoise | None
    policy_delay: int
    target_policy_noise: float
    target_noise_clip: float
    replay_buffer_class: Any | None
    replay_buffer_kwargs: dict[str, Any] | None
    optimize_memory_usage: bool
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: Any | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        settings: Settings | None = None,
    ) -> None: ...

class DDPG(TD3):
    """Deep deterministic policy gradients (Lillicrap et al. 2015), with Stable-Baselines3's arguments and defaults.

    Arguments:
        learning_rate: Step size of the optimizers.
        n_steps: Rewards that are summed before the value of a later observation stands for the rest.
        batch_size: Rows that are drawn for an update.
        gamma: Discount of a reward that comes one step later.
        buffer_size: Rows of the replay buffer.
        learning_starts: Steps before the first update; their actions are random.
        tau: Weight of the networks in an update of the target networks (Polyak averaging).
        train_freq: Steps of each environment between two times of learning.
        gradient_steps: Updates at each time of learning; -1: as many as there were steps.
        action_noise: Noise that is added to actions.
        replay_buffer_class: HerReplayBuffer: hindsight experience replay, for environments with goals. None: rows are drawn with equal probability.
        replay_buffer_kwargs: Arguments of HerReplayBuffer: n_sampled_goal, 4 unless given, and goal_selection_strategy, 'future' unless given, 'final' or 'episode'.
        optimize_memory_usage: Only False: observations are stored once already.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'qf': [..]}.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          share_features_extractor: With CnnPolicy: actor and critics share the convolutions, which then learn from the actor's loss alone.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        _init_setup_model: Only True: a model without networks cannot be made.
        settings: pavlov's own, by the names that `pavlov config DDPG` lists.
    """



    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        action_noise: ActionNoise | None = None,
        replay_buffer_class: Any | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
        *,
        stats_window_size: int = 100,
        settings: Settings | None = None,
    ) -> None: ...

class IMPALA(OnPolicyAlgorithm):
    """The importance-weighted actor-learner (Espeholt et al. 2018), which corrects for the age of its experience by V-trace.

    Stable-Baselines3 does not have it; its arguments are named as those of A2C.

    Arguments:
        learning_rate: Step size of the optimizer: a number, or a function of the progress that remains.
        n_steps: Steps of each environment between two updates.
        n_epochs: Passes over a rollout.
        gamma: Discount of a reward that comes one step later.
        ent_coef: Weight of the entropy in the loss.
        vf_coef: Weight of the value loss.
        max_grad_norm: Maximum norm of the gradient. None: no limit.
        stats_window_size: Number of newest episodes that the reported means are computed from.
        tensorboard_log: Directory for TensorBoard.
        policy_kwargs: Arguments of the network; the keys are listed below.
          net_arch: Units of the hidden layers: a list, or {'pi': [..], 'vf': [..]} with equal lists.
          activation_fn: ReLU, Tanh, ELU or SiLU, as a class of torch or by name.
          ortho_init: Whether the first weights are orthogonal.
          lstm_hidden_size: Units of the long short-term memory.
          shared_lstm: Actor and critic share the memory, whatever is given.
          enable_critic_lstm: Actor and critic share the memory, whatever is given.
          share_features_extractor: With CnnPolicy: actor and critic share all layers but the last; True if it is not given.
        verbose: 1: a table is printed; 0: nothing.
        seed: Seed of all random numbers. None: one is drawn.
        device: Where Stable-Baselines3 would learn. This package learns on the CPU, whatever is given.
        settings: pavlov's own, by the names that `pavlov config IMPALA` lists.
    """

    learning_rate: float | Schedule
    n_steps: int
    n_epochs: int
    gamma: float
    ent_coef: float
    vf_coef: float
    max_grad_norm: float | None
    policy_kwargs: dict[str, Any] | None
    seed: int | None

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: float | Schedule = 0.0005,
        n_steps: int = 50,
        gamma: float = 0.99,
        ent_coef: float = 0.01,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 40.0,
        n_epochs: int = 1,
        stats_window_size: int = 100,
        tensorboard_log: str | os.PathLike[str] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        *,
        settings: Settings | None = None,
    ) -> None: ...

ALGORITHMS: dict[str, type[BaseAlgorithm]]

def load(path: str | os.PathLike[str], env: Any = None, **changes: Any) -> BaseAlgorithm: ...
