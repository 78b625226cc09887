"""Errors name the argument that the user wrote, its value, the rule and the way out."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import pavlov_rl
from pavlov_rl import A2C, DQN, IMPALA, PPO, SAC, TD3, TQC, PavlovError, RecurrentPPO
from pavlov_rl.common.callbacks import ProgressBarCallback
from pavlov_rl.common.evaluation import evaluate_policy
from pavlov_rl.common.noise import NormalActionNoise
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize


@pytest.mark.parametrize(
    ("cls", "arguments", "told"),
    [
        (PPO, {"learning_rate": -1}, "`learning_rate` is -1, but it must be above 0"),
        (PPO, {"learning_rate": "a"}, "`learning_rate` of PPO is 'a', but it must be a number or a function of the progress"),
        (PPO, {"learning_rate": None}, "`learning_rate` of PPO is None"),
        (PPO, {"learning_rate": float("nan")}, "`learning_rate` of PPO is nan"),
        (PPO, {"n_steps": 0}, "`n_steps` of PPO is 0, but it must be a whole number, 1 or more"),
        (PPO, {"n_steps": 1.5}, "`n_steps` of PPO is 1.5"),
        (PPO, {"batch_size": 0}, "`batch_size` of PPO is 0"),
        (PPO, {"n_epochs": -1}, "`n_epochs` of PPO is -1"),
        (PPO, {"gamma": 2}, "`gamma` is 2, but it must be in 0..=1"),
        (PPO, {"gae_lambda": 2}, "`gae_lambda` is 2, but it must be in 0..=1"),
        (PPO, {"clip_range": -1}, "`clip_range` is -1, but it must be above 0"),
        (PPO, {"clip_range_vf": -1}, "`clip_range_vf` is -1, but it must be above 0"),
        (PPO, {"ent_coef": -1}, "`ent_coef` is -1, but it must not be negative"),
        (PPO, {"ent_coef": "auto"}, "`ent_coef` of PPO is 'auto', but it must be a number"),
        (PPO, {"vf_coef": -1}, "`vf_coef` is -1"),
        (PPO, {"max_grad_norm": 0}, "`max_grad_norm` is 0, but it must be above 0, or None"),
        (PPO, {"stats_window_size": -1}, "`stats_window_size` of PPO is -1"),
        (PPO, {"policy_kwargs": 3}, "`policy_kwargs` of PPO is 3, but it must be a dictionary"),
        (PPO, {"policy_kwargs": {"net_arch": [0]}}, r"`net_arch` is \[0\], but every layer needs"),
        (PPO, {"seed": "a"}, "`seed` of PPO is 'a'"),
        (PPO, {"tensorboard_log": 3}, "`tensorboard_log` of PPO is 3"),
        (A2C, {"rms_prop_eps": -1}, "`rms_prop_eps` of A2C is -1, but it must be at least 0"),
        (A2C, {"ent_coef": -1}, "`ent_coef` is -1"),
        (IMPALA, {"max_grad_norm": 0}, "`max_grad_norm` is 0"),
        (DQN, {"train_freq": 0}, "`train_freq` of DQN is 0, but it must be a whole number, 1 or more"),
        (DQN, {"train_freq": (0, "step")}, "`train_freq` of DQN is 0"),
        (DQN, {"buffer_size": 0}, "`buffer_size` of DQN is 0"),
        (DQN, {"exploration_fraction": -1}, "`exploration_fraction` of DQN is -1, but it must be at least 0"),
        (DQN, {"exploration_initial_eps": 2}, r"`exploration_initial_eps` of DQN is 2, but it must be in 0\.\.=1"),
        (DQN, {"exploration_final_eps": -1}, "`exploration_final_eps` of DQN is -1"),
        (SAC, {"learning_rate": -1}, "^`learning_rate` is -1, but it must be above 0$"),
        (SAC, {"ent_coef": -1}, "`ent_coef` is -1, but it must be above 0"),
        (SAC, {"ent_coef": "auto_0"}, "`ent_coef` of SAC is 'auto_0', but it must be a number, 'auto', or 'auto_0.1'"),
        (SAC, {"ent_coef": "auto_x"}, "`ent_coef` of SAC is 'auto_x'"),
        (TD3, {"target_policy_noise": -1}, "`target_policy_noise` is -1, but it must not be negative"),
        (TQC, {"top_quantiles_to_drop_per_net": -1}, "`top_quantiles_to_drop_per_net` of TQC is -1"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_an_argument_that_does_not_fit_is_named(cls, arguments, told):
    env = "CartPole-v1" if cls in (PPO, A2C, DQN, IMPALA) else "Pendulum-v1"
    with pytest.raises(ValueError, match=told) as caught:
        cls("MlpPolicy", env, **arguments)
    assert isinstance(caught.value, PavlovError)


def test_several_arguments_are_told_together_and_a_setting_keeps_its_name():
    with pytest.raises(ValueError, match="^2 arguments are refused:\n  `clip_range` is -1, .*above 0\n  `gae_lambda` is 2, .*1$"):
        PPO("MlpPolicy", "CartPole-v1", clip_range=-1, gae_lambda=2)
    with pytest.raises(ValueError, match="`clip_param` is -2"):
        PPO("MlpPolicy", "CartPole-v1", settings={"clip_param": -2})


def test_whole_numbers_may_be_written_as_others():
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=1e3, learning_starts=np.int64(50), train_freq=np.float32(4)).learn(60)
    assert model.num_timesteps == 60


class Parts(gymnasium.Env):
    observation_space = spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "what": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 8, False, {}


class Pair(Parts):
    observation_space = spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(3)])


@pytest.mark.parametrize("env", [Parts, Pair])
def test_a_policy_for_other_observations_names_the_one_to_take(env):
    for policy, other in (("MlpPolicy", "MultiInputPolicy"), ("CnnPolicy", "MultiInputPolicy")):
        with pytest.raises(ValueError, match=rf"{policy} sees one array, but the observations are .*; take {other}"):
            PPO(policy, env())
    with pytest.raises(ValueError, match="MlpLstmPolicy sees one array, .*; take MultiInputLstmPolicy"):
        RecurrentPPO("MlpLstmPolicy", env())
    model = PPO("MultiInputPolicy", env(), n_steps=32, batch_size=32, n_epochs=1, seed=0).learn(64)
    one, two = env().reset()[0], env().reset()[0]
    several = {key: np.array([one[key], two[key]]) for key in one} if env is Parts else tuple(map(np.array, zip(one, two)))
    actions = model.predict(several, deterministic=True)[0]
    assert actions.tolist() == [int(model.predict(obs, deterministic=True)[0]) for obs in (one, two)]


def test_several_inputs_are_refused_where_there_is_one():
    with pytest.raises(ValueError, match="MultiInputPolicy sees several parts, but the observations are Box.*; take MlpPolicy"):
        PPO("MultiInputPolicy", "CartPole-v1")
    with pytest.raises(ValueError, match="take CnnPolicy"):
        PPO("MultiInputPolicy", "PixelPong-v0")


def test_a_class_in_place_of_an_object_says_what_to_add():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32)
    for call, told in (
        (lambda: PPO("MultiInputPolicy", Parts), r"`env` is the class Parts, but it must be an object; add \(\): Parts\(\)"),
        (lambda: evaluate_policy(model, Parts), r"add \(\): Parts\(\)"),
        (lambda: model.learn(32, callback=ProgressBarCallback), r"`callback` is the class ProgressBarCallback"),
        (lambda: model.learn(32, callback=[ProgressBarCallback]), r"add \(\): ProgressBarCallback\(\)"),
        (lambda: TD3("MlpPolicy", "Pendulum-v1", action_noise=NormalActionNoise), r"`action_noise` is the class"),
        (lambda: VecNormalize(DummyVecEnv), r"`venv` is the class DummyVecEnv"),
    ):
        with pytest.raises(TypeError, match=told):
            call()


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_vectors_want_functions(vector):
    with pytest.raises(TypeError, match=r"`env_fns\[0\]` is <.*Parts.*, but it must be a function .*put `lambda:` before it"):
        vector([Parts()])
    with pytest.raises(TypeError, match=r"must be a list of functions; put it into \[ \]"):
        vector(Parts)
    with pytest.raises(ValueError, match="`env_fns` is empty"):
        vector([])


def test_wrappers_of_vectors_want_vectors():
    with pytest.raises(TypeError, match=r"`venv` is <.*CartPole.*`DummyVecEnv\(\[lambda: env\]\)` makes one"):
        VecNormalize(gymnasium.make("CartPole-v1"))


def test_unknown_keywords_of_environments_are_type_errors_in_pythons_words():
    makes = (
        lambda: gymnasium.make("pavlov/CartPole-v1", frameskip=4),
        lambda: gymnasium.make_vec("pavlov/CartPole-v1", num_envs=2, frameskip=4),
        lambda: pavlov_rl.Env("CartPole-v1", frameskip=4),
        lambda: pavlov_rl.VectorEnv("CartPole-v1", 2, frameskip=4),
    )
    for make in makes:
        # TorchRL's `GymEnv` looks for these words and makes the environment without the argument.
        with pytest.raises(TypeError, match="unexpected keyword argument 'frameskip'; it has sutton_barto_reward"):
            make()
    with pytest.raises(pavlov_rl.UnknownArgumentError, match="unexpected keyword argument 'is_slipery'; nearest: `is_slippery`"):
        pavlov_rl.Env("FrozenLake-v1", is_slipery=True)
    with pytest.raises(ValueError, match="unexpected keyword argument 'is_slipery'; nearest: `is_slippery`"):
        PPO("MlpPolicy", "FrozenLake-v1", settings={"env_config": {"is_slipery": True}})
