"""Arguments that are assigned to a model after it was made."""

import json

import gymnasium
import pytest

import pavlov_rl
from pavlov_rl import A2C, DDPG, DQN, PPO, SAC, TD3, TQC, RecurrentPPO
from pavlov_rl.common.callbacks import BaseCallback

ROLLOUTS = {"n_steps": 32, "batch_size": 16, "n_epochs": 6, "learning_rate": 1e-2, "seed": 0, "policy_kwargs": {"net_arch": [8]}}
REPLAY = {"learning_starts": 10, "batch_size": 16, "buffer_size": 500, "train_freq": 1, "seed": 0, "policy_kwargs": {"net_arch": [8]}}
FEW = {"n_steps": 8, "seed": 0, "policy_kwargs": {"net_arch": [8]}}

# Stable-Baselines3 2.9.2 was asked what happens to the parameters of a model that learned 64 steps, when the value is assigned
# and 64 more are learned: those that change there change here. There `learning_rate`, `gamma` and `gae_lambda` of PPO and
# `learning_rate` of SAC change nothing, because they were copied when the model was made; here they change it, too.
ASSIGNED = [
    (PPO, "learning_rate", 1e-3),
    (PPO, "lr_schedule", lambda _: 1e-3),
    (PPO, "ent_coef", 0.5),
    (PPO, "clip_range", 0.01),
    (PPO, "clip_range", lambda _: 0.01),
    (PPO, "clip_range_vf", 0.01),
    (PPO, "gamma", 0.5),
    (PPO, "gae_lambda", 0.1),
    (PPO, "batch_size", 32),
    (PPO, "n_epochs", 5),
    (PPO, "vf_coef", 5.0),
    (PPO, "max_grad_norm", 0.01),
    (PPO, "target_kl", 1e-9),
    (PPO, "normalize_advantage", False),
    (RecurrentPPO, "ent_coef", 0.5),
    (A2C, "rms_prop_eps", 1e-2),
    (SAC, "learning_rate", 1e-2),
    (SAC, "tau", 0.5),
    (SAC, "batch_size", 32),
    (SAC, "gradient_steps", 3),
    (SAC, "target_entropy", 5.0),
    (TQC, "top_quantiles_to_drop_per_net", 10),
    (TD3, "policy_delay", 3),
    (TD3, "target_policy_noise", 1.0),
    (DQN, "exploration_final_eps", 1.0),
    (DQN, "max_grad_norm", 0.01),
    (DQN, "target_update_interval", 3),
]


def made(cls, env=None):
    if cls is RecurrentPPO:
        return cls("MlpPolicy", env or "CartPole-v1", **{**ROLLOUTS, "policy_kwargs": {"lstm_hidden_size": 8}})
    if issubclass(cls, (PPO, A2C)):
        return cls("MlpPolicy", env or "CartPole-v1", **(FEW if cls is A2C else ROLLOUTS))
    return cls("MlpPolicy", env or ("CartPole-v1" if cls is DQN else "Pendulum-v1"), **REPLAY)


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


class Assigns(BaseCallback):
    """Assigns when the first rollout was learned from."""

    def __init__(self, name, value):
        super().__init__()
        self.name, self.value = name, value

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        setattr(self.model, self.name, self.value)


@pytest.mark.parametrize(("cls", "name", "value"), ASSIGNED)
def test_an_assigned_argument_is_used_as_by_a_model_that_is_loaded_with_it(cls, name, value, tmp_path):
    model = made(cls).learn(128)
    model.save(tmp_path / "model")
    loaded = [cls.load(tmp_path / "model", **changes) for changes in ({}, {name: value})]
    setattr(model, name, value)
    if name != "lr_schedule":
        assert getattr(model, name) is value
    unchanged, changed, assigned = (
        weights(each.learn(128, reset_num_timesteps=False)) for each in (*loaded, model)
    )
    assert assigned == changed != unchanged


@pytest.mark.parametrize(("cls", "name", "value"), [case for case in ASSIGNED if case[0] in (PPO, A2C, DQN)])
def test_what_a_callback_assigns_is_used_from_the_next_rollout_on(cls, name, value):
    # 100 steps is an iteration of the algorithms with a replay buffer.
    first = {PPO: 32, A2C: 8, DQN: 100}[cls]
    model = made(cls).learn(first * 2, callback=Assigns(name, value))
    other = made(cls)

    class Stops(Assigns):
        def _on_step(self):
            return self.num_timesteps < first

    other.learn(first * 2, callback=Stops("verbose", 0))
    setattr(other, name, value)
    other.learn(first, reset_num_timesteps=False)
    assert weights(model) == weights(other) != weights(made(cls).learn(first * 2))


@pytest.mark.parametrize(
    ("cls", "name", "value", "why"),
    [
        (PPO, "n_steps", 16, "rollouts have the length"),
        (PPO, "policy_kwargs", {}, "the network is made with the model"),
        (PPO, "seed", 5, "first seed"),
        (A2C, "use_rms_prop", False, "the optimizer is made with the model"),
        (SAC, "ent_coef", 0.5, "log_alpha"),
        (SAC, "buffer_size", 100, "is made with the model"),
        (SAC, "train_freq", 2, "rollouts have the length"),
        (SAC, "gamma", 0.5, "were discounted by 0.99"),
        (SAC, "replay_buffer", None, "load_replay_buffer"),
        (DQN, "tau", 0.5, "copied as a whole"),
        (DQN, "exploration_rate", 0.5, "exploration_final_eps"),
    ],
)
def test_an_argument_that_cannot_change_any_more_is_refused_with_the_reason(cls, name, value, why):
    model = made(cls).learn(128)
    with pytest.raises(AttributeError, match=f"`{name}`.*{why}"):
        setattr(model, name, value)


def test_an_argument_of_another_algorithm_is_refused():
    with pytest.raises(AttributeError, match="DDPG has no argument `policy_delay`"):
        made(DDPG).policy_delay = 3


def test_gamma_can_be_assigned_before_there_are_rows_in_the_replay_buffer():
    model = made(SAC)
    model.gamma = 0.5
    assert json.loads(model.learn(20).native.config())["gamma"] == 0.5


def test_a_batch_of_one_row_is_refused_where_it_is_assigned():
    model = made(PPO)
    with pytest.raises(pavlov_rl.ConfigError, match="`batch_size` of PPO is 1, but"):
        model.batch_size = 1
    assert model.batch_size == 16


def test_a_value_that_is_refused_leaves_a_model_that_goes_on():
    model = made(SAC).learn(128)
    with pytest.raises(TypeError, match="`learning_rate` of SAC is a function"):
        model.learning_rate = lambda _: 1e-3
    assert model.learning_rate == 3e-4
    before = weights(model)
    model.tau = -1.0
    with pytest.raises(pavlov_rl.ConfigError, match="`tau` is -1"):
        model.learn(128)
    assert weights(model) == before
    model.tau = 0.005
    assert weights(model.learn(128)) != before


def test_the_schedule_of_the_learning_rate_can_be_read_and_assigned_as_in_public_scripts():
    model = made(PPO)
    assert model.lr_schedule(1.0) == model.lr_schedule(0.3) == 1e-2
    model.learning_rate = 5e-3
    model._setup_lr_schedule()
    assert model.lr_schedule(1.0) == 5e-3
    model.lr_schedule = lambda progress: 1e-3 * progress
    model.learn(64)
    schedule = json.loads(model.native.config())["lr_schedule"]
    assert schedule[0] == [0, 1e-3] and schedule[-1] == [64, 0.0]


def test_an_assigned_argument_is_saved_and_a_run_is_resumed_with_it(tmp_path):
    model = made(PPO)
    model.learn(96, callback=Assigns("ent_coef", 0.25), out=tmp_path / "run", checkpoint_freq=1)
    rows = [json.loads(line) for line in (tmp_path / "run" / "result.json").read_text().splitlines()]
    assert [row["timesteps_total"] for row in rows] == [32, 64, 96]
    assert [row["config"]["entropy_coeff"] for row in rows] == [0.0, 0.25, 0.25]
    assert json.loads((tmp_path / "run" / "pavlov_rl.json").read_text())["arguments"]["ent_coef"] == 0.25
    model.save(tmp_path / "model")
    assert PPO.load(tmp_path / "model").ent_coef == 0.25


class InPython(gymnasium.Wrapper):
    """Is stepped in Python, and counts its resets."""

    resets = 0

    def reset(self, **given):
        self.resets += 1
        return super().reset(**given)


@pytest.mark.parametrize(
    ("cls", "name", "value"), [(PPO, "ent_coef", 0.5), (RecurrentPPO, "ent_coef", 0.5), (DQN, "max_grad_norm", 0.01)]
)
def test_the_episodes_of_an_environment_in_python_go_on_where_a_callback_assigns(cls, name, value):
    env = InPython(gymnasium.make("CartPole-v1"))
    models = [made(cls), made(cls, env)]
    ends = []

    class Counts(Assigns):
        def _on_training_start(self):
            self.begun = env.resets

        def _on_step(self):
            ends.extend(self.locals["dones"])
            return True

    for model in models:
        ends.clear()
        counts = Counts(name, value)
        model.learn(300, callback=counts)
    # The steps of a native CartPole are those of Gymnasium's, so that only a lost episode could make a difference.
    assert weights(models[0]) == weights(models[1])
    assert env.resets == counts.begun + sum(ends)
