"""Native environments wherever Gymnasium's own can be put: under wrappers, in vectors, pickled and copied."""

import copy
import pickle

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as w
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as v

import pavlov_rl
from pavlov_rl import PPO, MaskablePPO
from pavlov_rl.common.action_masks import is_masking_supported
from pavlov_rl.common.env_util import make_vec_env
from pavlov_rl.common.monitor import Monitor
from pavlov_rl.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize
from pavlov_rl.settings import MUJOCO

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}
IDS = [id for id in pavlov_rl.ids() if id not in MUJOCO]


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


def lengths(env):
    """The lengths of the episodes that a model learns from."""
    told = []
    PPO("MlpPolicy", env, **SMALL).learn(64, callback=lambda local, _: told.extend(local["infos"]) or True)
    return {info["episode"]["l"] for info in told if "episode" in info}


def state_of(env):
    """The environment's state beside its picture, and then the state alone."""
    return w.FilterObservation(w.AddRenderObservation(env, render_only=False), ["state"])


# Wrapper, id, and what is made of the environment.
WRAPPERS = [
    (w.TimeLimit, "CartPole-v1", lambda env: w.TimeLimit(env, 20)),
    (w.Autoreset, "CartPole-v1", w.Autoreset),
    (w.PassiveEnvChecker, "CartPole-v1", w.PassiveEnvChecker),
    (w.OrderEnforcing, "CartPole-v1", w.OrderEnforcing),
    (w.RecordEpisodeStatistics, "CartPole-v1", w.RecordEpisodeStatistics),
    (w.DelayObservation, "CartPole-v1", lambda env: w.DelayObservation(env, 2)),
    (w.DtypeObservation, "CartPole-v1", lambda env: w.DtypeObservation(env, np.float64)),
    (w.DiscretizeObservation, "MountainCar-v0", lambda env: w.DiscretizeObservation(env, 5)),
    (w.FilterObservation, "CartPole-v1", state_of),
    (w.AddRenderObservation, "CartPole-v1", state_of),
    (w.FlattenObservation, "Taxi-v4", w.FlattenObservation),
    (w.FrameStackObservation, "CartPole-v1", lambda env: w.FrameStackObservation(env, 3)),
    (w.TransformObservation, "CartPole-v1", lambda env: w.TransformObservation(env, lambda obs: obs * 2, None)),
    (w.MaxAndSkipObservation, "CartPole-v1", lambda env: w.MaxAndSkipObservation(env, 2)),
    (w.NormalizeObservation, "CartPole-v1", w.NormalizeObservation),
    (w.ReshapeObservation, "CartPole-v1", lambda env: w.ReshapeObservation(env, (2, 2))),
    (w.RescaleObservation, "MountainCar-v0", lambda env: w.RescaleObservation(env, np.float32(-1), np.float32(1))),
    (w.TimeAwareObservation, "CartPole-v1", w.TimeAwareObservation),
    (w.ClipAction, "Pendulum-v1", w.ClipAction),
    (w.RescaleAction, "Pendulum-v1", lambda env: w.RescaleAction(env, np.float32(-1), np.float32(1))),
    (w.DiscretizeAction, "Pendulum-v1", lambda env: w.DiscretizeAction(env, 3)),
    (w.TransformAction, "CartPole-v1", lambda env: w.TransformAction(env, lambda action: 1 - action, env.action_space)),
    (w.StickyAction, "CartPole-v1", lambda env: w.StickyAction(env, 0.5)),
    (w.RepeatAction, "CartPole-v1", lambda env: w.RepeatAction(env, 2)),
    (w.ClipReward, "Pendulum-v1", lambda env: w.ClipReward(env, -1.0, 0.0)),
    (w.TransformReward, "CartPole-v1", lambda env: w.TransformReward(env, lambda reward: reward / 4)),
    (w.NormalizeReward, "CartPole-v1", w.NormalizeReward),
    (w.AddWhiteNoise, "CartPole-v1", lambda env: w.AddWhiteNoise(env, 0.5)),
    (w.ObstructView, "CartPole-v1", lambda env: w.ObstructView(env, 0.5, 20)),
    (w.RenderCollection, "CartPole-v1", w.RenderCollection),
    (Monitor, "CartPole-v1", Monitor),
]
# They need pictures as observations, packages that are not here, a screen, or Atari.
NOT_COMPARED = {
    "ArrayConversion",
    "AtariPreprocessing",
    "GrayscaleObservation",
    "HumanRendering",
    "JaxToNumpy",
    "JaxToTorch",
    "NumpyToTorch",
    "RecordVideo",
    "ResizeObservation",
}


def test_every_wrapper_of_gymnasiums_is_in_the_table():
    assert {wrapper.__name__ for wrapper, *_ in WRAPPERS} - {"Monitor"} == set(w.__all__) - NOT_COMPARED - {"vector"}


@pytest.mark.parametrize(("wrapper", "id", "wrapped"), WRAPPERS, ids=[wrapper.__name__ for wrapper, *_ in WRAPPERS])
def test_learning_under_a_wrapper_equals_learning_in_gymnasiums_environment(wrapper, id, wrapped):
    models = []
    # It draws from the environment's `np_random`, of which the native one's random stream is none.
    other = f"pavlov/{id}" if wrapper is w.StickyAction else id
    for name in (f"pavlov/{id}", other):
        env = wrapped(gymnasium.make(name, render_mode="rgb_array"))
        models.append(PPO("MultiInputPolicy" if "state" in str(env.observation_space) else "MlpPolicy", env, **SMALL))
        assert models[-1]._env.stepper is not None or wrapper in (w.PassiveEnvChecker, w.OrderEnforcing, Monitor)
        models[-1].learn(64)
    assert weights(models[0]) == weights(models[1])


def test_shorter_episodes_and_pictures_are_learned_from():
    assert lengths(gymnasium.make("pavlov/CartPole-v1", max_episode_steps=5)) == {5}
    gray = w.GrayscaleObservation(w.AddRenderObservation(gymnasium.make("pavlov/CartPole-v1", render_mode="rgb_array")))
    assert PPO("MlpPolicy", gray, **SMALL).learn(32).num_timesteps == 32
    env = gymnasium.make("pavlov/CartPole-v1", render_mode="rgb_array_list")
    PPO("MlpPolicy", env, **SMALL).learn(32)
    assert len(env.render()) > 1


def test_videos_are_recorded_while_a_model_learns(tmp_path):
    pytest.importorskip("moviepy")
    env = w.RecordVideo(gymnasium.make("pavlov/CartPole-v1", render_mode="rgb_array"), str(tmp_path))
    PPO("MlpPolicy", env, **SMALL).learn(32)
    assert list(tmp_path.glob("*.mp4"))


VECTOR_WRAPPERS = [
    (v.RecordEpisodeStatistics, v.RecordEpisodeStatistics),
    (v.NormalizeObservation, v.NormalizeObservation),
    (v.NormalizeReward, v.NormalizeReward),
    (v.ClipReward, lambda envs: v.ClipReward(envs, -1.0, 0.0)),
    (v.TransformReward, lambda envs: v.TransformReward(envs, lambda reward: reward / 4)),
    (v.TransformObservation, lambda envs: v.TransformObservation(envs, lambda obs: obs * 2)),
    (v.DtypeObservation, lambda envs: v.DtypeObservation(envs, np.float64)),
    (v.FlattenObservation, v.FlattenObservation),
    (v.ReshapeObservation, lambda envs: v.ReshapeObservation(envs, (2, 2))),
    (v.ClipAction, v.ClipAction),
    (v.RescaleAction, lambda envs: v.RescaleAction(envs, np.float32(-1), np.float32(1))),
    (v.TransformAction, lambda envs: v.TransformAction(envs, np.negative)),
    (v.DictInfoToList, v.DictInfoToList),
]


@pytest.mark.parametrize(
    ("wrapper", "wrapped"), VECTOR_WRAPPERS, ids=[wrapper.__name__ for wrapper, _ in VECTOR_WRAPPERS]
)
def test_vectors_under_a_wrapper_step_as_gymnasiums_vectors_do(wrapper, wrapped):
    id = "LunarLanderContinuous-v3" if "Reshape" not in wrapper.__name__ else "CartPole-v1"
    config = {}
    if id.startswith("Lunar"):
        id, config = "LunarLander-v3", {"continuous": True}
    ours = wrapped(gymnasium.make_vec(f"pavlov/{id}", num_envs=3, autoreset_mode=AutoresetMode.NEXT_STEP, **config))
    theirs = wrapped(SyncVectorEnv([lambda: gymnasium.make(id, **config)] * 3))
    theirs.action_space.seed(0)
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for step in range(150):
        actions = theirs.action_space.sample()
        (obs, rewards, *ends, _), (expected, expected_rewards, *expected_ends, _) = ours.step(actions), theirs.step(actions)
        # Gymnasium's rewards are in double precision.
        np.testing.assert_allclose(obs, expected, rtol=1e-6, err_msg=f"step {step}")
        np.testing.assert_allclose(rewards, expected_rewards, rtol=1e-5, err_msg=f"step {step}")
        assert np.array_equal(ends, expected_ends), f"step {step}"


@pytest.mark.parametrize(
    "vector",
    [
        lambda make: DummyVecEnv([make] * 2),
        lambda make: SubprocVecEnv([make] * 2),
        lambda make: VecMonitor(DummyVecEnv([make] * 2)),
        lambda make: SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
        lambda make: AsyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
        lambda make: AsyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP, context="spawn"),
    ],
    ids=["Dummy", "Subproc", "VecMonitor", "Sync", "Async", "Async spawned"],
)
def test_learning_in_a_vector_equals_learning_in_a_vector_of_gymnasiums_environments(vector):
    found = []
    # A process that is not forked imports the module before the colon.
    for id in ("pavlov_rl:pavlov/CartPole-v1", "CartPole-v1"):
        # With a wrapper, so that none of the two is stepped in Rust.
        envs = vector(lambda id=id: w.TransformReward(gymnasium.make(id), lambda reward: reward / 4))
        found.append(weights(PPO("MlpPolicy", envs, **SMALL).learn(64)))
        envs.close()
    assert found[0] == found[1]


def test_normalised_native_environments_are_learned_in():
    envs = VecNormalize(DummyVecEnv([lambda: gymnasium.make("pavlov/CartPole-v1")]))
    assert PPO("MlpPolicy", envs, **SMALL).learn(64).num_timesteps == 64
    assert envs.obs_rms.count > 64
    assert lengths(make_vec_env("pavlov/CartPole-v1", n_envs=2, env_kwargs={"max_episode_steps": 4})) == {4}
    assert lengths(VecNormalize(make_vec_env("pavlov/CartPole-v1", env_kwargs={"max_episode_steps": 3}))) == {3}


def test_masks_are_where_the_environment_has_them_and_nowhere_else():
    for id in IDS:
        env = gymnasium.make(f"pavlov/{id}")
        assert env.has_wrapper_attr("action_masks") == is_masking_supported(env) == id.startswith("Taxi"), id
    with pytest.raises(AttributeError, match="CartPole-v1 has no action masks"):
        gymnasium.make("pavlov/CartPole-v1").unwrapped.action_masks
    for make in (lambda: w.TimeLimit(gymnasium.make("pavlov/Taxi-v4"), 30), lambda: gymnasium.make("pavlov/Taxi-v4")):
        for envs in (make(), DummyVecEnv([make] * 2), SubprocVecEnv([make] * 2)):
            assert is_masking_supported(envs)
            MaskablePPO("MlpPolicy", envs, **SMALL).learn(64)
            envs.close()


def walk(env, steps, seed=0):
    """What random steps gave, as bytes."""
    env.action_space.seed(seed)
    seen = []
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        seen.append((gymnasium.spaces.flatten(env.observation_space, obs).tobytes(), reward, terminated, truncated, str(info)))
        if terminated or truncated:
            seen.append(str(env.reset()))
    return seen


@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copied", "pickled"])
@pytest.mark.parametrize("id", IDS)
def test_a_copy_goes_on_as_the_original_does(id, again):
    env = w.TransformReward(gymnasium.make(f"pavlov/{id}", render_mode="rgb_array"), float)
    fresh = again(env)
    assert fresh.spec == env.spec and fresh.unwrapped.render_mode == "rgb_array"
    assert str(env.reset(seed=1)) == str(fresh.reset(seed=1))
    walk(env, 30)
    env.unwrapped.note = "the user's own"
    other = again(env)
    assert other.unwrapped.note == "the user's own" and other.observation_space == env.observation_space
    assert np.array_equal(other.render(), env.render())
    expected = walk(env, 60)
    assert walk(other, 60) == expected


def test_a_copy_after_the_end_of_an_episode_waits_for_a_reset():
    env = gymnasium.make("pavlov/CartPole-v1")
    env.reset(seed=0)
    while not env.step(0)[2]:
        pass
    other = copy.deepcopy(env)
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode has ended"):
        other.step(0)
    assert np.array_equal(other.reset()[0], env.reset()[0])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_pickled_vector_goes_on_as_the_original_does(mode):
    env = gymnasium.make_vec("pavlov/Taxi-v4", num_envs=3, autoreset_mode=mode, threads=2, max_episode_steps=9)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    other = pickle.loads(pickle.dumps(env))
    for step in range(30):
        actions = np.full(3, step % 6)
        for one, two in zip(env.step(actions), other.step(actions)):
            assert str(one) == str(two)
        if mode == AutoresetMode.DISABLED and step == 7:
            break


@pytest.mark.parametrize("id", pavlov_rl.multi_agent_ids())
def test_a_copy_of_several_agents_goes_on_as_the_original_does(id):
    env = pavlov_rl.parallel_env(id)
    env.reset(seed=0)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other.agents == env.agents and other.possible_agents == env.possible_agents
        found = [_round(each) for each in (copy.deepcopy(env), other)]
        assert found[0] == found[1]
    assert str(pickle.loads(pickle.dumps(pavlov_rl.parallel_env(id))).reset(seed=0)) == str(env.reset(seed=0))


def _round(env):
    """A step in which each agent takes its first legal action."""
    seen = []
    for _ in range(5):
        masks = {agent: info.get("action_mask") for agent, info in env._infos(env.agents).items()}
        actions = {
            agent: env.action_space(agent).sample(mask) if mask is not None and mask.any() else env.action_space(agent).sample()
            for agent, mask in masks.items()
            if env.action_space(agent).seed(0) is not None
        }
        seen.append(str(env.step(actions)))
        if not env.agents:
            break
    return seen


def test_processes_get_the_environment_that_a_function_holds():
    env = gymnasium.make("pavlov/CartPole-v1")
    env.reset(seed=0)
    envs = SubprocVecEnv([lambda: env, lambda: env])
    assert PPO("MlpPolicy", envs, **SMALL).learn(64).num_timesteps == 64
    envs.close()
    assert cloudpickle.loads(cloudpickle.dumps(lambda: env))().spec == env.spec


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_make_vec_makes_every_kind_of_vector(mode):
    envs = gymnasium.make_vec("pavlov/FrozenLake-v1", num_envs=2, vectorization_mode=mode, is_slippery=False)
    real = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", is_slippery=False)
    assert np.array_equal(envs.reset(seed=0)[0], real.reset(seed=0)[0])
    assert np.array_equal(envs.step(np.array([1, 2]))[0], real.step(np.array([1, 2]))[0])
    envs.close()
