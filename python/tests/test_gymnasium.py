"""Gymnasium's own checks, and steps beside Gymnasium's own environments."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import pavlov_rl
from pavlov_rl.settings import MUJOCO

IDS = [id for id in pavlov_rl.ids() if id not in MUJOCO]
# Gymnasium's registry has these; not those of MiniGrid, whose observations contain a text.
GYMNASIUMS = [id for id in IDS if id in gymnasium.registry and not id.startswith("MiniGrid")]


def bits(value):
    """Values as bytes, so that -0 is not 0 and NaN is NaN."""
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(bits(part) for part in value)
    array = np.asarray(value)
    return array.dtype.kind, array.shape, array.tobytes()


def same_info(found, expected, place):
    assert found.keys() == expected.keys(), place
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key], err_msg=f"{place}, {key}")


def beside(native, real, steps, seed=3):
    """Steps both with random actions; later episodes continue the random stream of the first."""
    assert native.observation_space == real.observation_space
    assert native.action_space == real.action_space
    real.action_space.seed(seed)
    (obs, info), (expected, expected_info) = native.reset(seed=seed), real.reset(seed=seed)
    assert bits(obs) == bits(expected)
    same_info(info, expected_info, "the first reset")
    for step in range(steps):
        action = real.action_space.sample()
        if isinstance(real.action_space, spaces.Box):
            # Beyond the bounds now and then.
            action = action * np.float32(1.3)
        obs, reward, *flags, info = native.step(action)
        expected, expected_reward, *expected_flags, expected_info = real.step(action)
        assert bits(obs) == bits(expected), f"step {step}: {obs} against {expected}"
        assert reward == np.float32(expected_reward), f"step {step}"
        assert flags == expected_flags, f"step {step}"
        same_info(info, expected_info, f"step {step}")
        if any(flags):
            (obs, info), (expected, expected_info) = native.reset(), real.reset()
            assert bits(obs) == bits(expected), f"the reset after step {step}"
            same_info(info, expected_info, f"the reset after step {step}")


@pytest.mark.parametrize("id", IDS)
def test_gymnasiums_checker_passes(id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What it says of these spaces it says of Gymnasium's own, too.
        warnings.filterwarnings("ignore", "(?s).*Box (observation|action) space.*")
        # For the ids of which a newer version exists.
        warnings.filterwarnings("ignore", "(?s).*out of date.*")
        check_env(gymnasium.make(f"pavlov/{id}").unwrapped)


def test_all_of_gymnasiums_native_ids_are_compared():
    assert len(GYMNASIUMS) >= 15, GYMNASIUMS


@pytest.mark.parametrize("id", GYMNASIUMS)
def test_steps_equal_gymnasiums_bit_for_bit(id):
    if id.startswith("BipedalWalker"):
        # Gymnasium keeps the world of the episodes before when it is reset with a seed; both are new here.
        beside(gymnasium.make(f"pavlov/{id}"), gymnasium.make(id), 400)
    else:
        beside(gymnasium.make(f"pavlov/{id}"), gymnasium.make(id), 1500)


@pytest.mark.parametrize(
    ("id", "config"),
    [
        ("FrozenLake-v1", {"is_slippery": False, "map_name": "8x8"}),
        ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}),
        ("LunarLander-v3", {"continuous": True, "enable_wind": True}),
        ("Blackjack-v1", {"natural": True}),
    ],
)
def test_settings_are_the_keyword_arguments_of_gymnasiums_classes(id, config):
    beside(gymnasium.make(f"pavlov/{id}", **config), gymnasium.make(id, **config), 500)


@pytest.mark.parametrize("id", ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-Dynamic-Obstacles-6x6-v0"])
def test_steps_equal_minigrids_but_for_the_mission(id):
    pytest.importorskip("minigrid")
    native, real = gymnasium.make(f"pavlov/{id}"), gymnasium.make(id)
    real.action_space.seed(0)
    found, expected = native.reset(seed=5)[0], real.reset(seed=5)[0]
    for step in range(400):
        for part in ("direction", "image"):
            assert np.array_equal(found[part], expected[part]), f"step {step}, {part}"
        assert found["image"].dtype == expected["image"].dtype
        action = real.action_space.sample()
        found, reward, *flags, _ = native.step(action)
        expected, expected_reward, *expected_flags, _ = real.step(action)
        assert reward == np.float32(expected_reward) and flags == expected_flags, f"step {step}"
        if any(flags):
            found, expected = native.reset()[0], real.reset()[0]


def sync(id, num_envs, mode):
    return SyncVectorEnv([lambda: gymnasium.make(id)] * num_envs, autoreset_mode=mode)


def same_infos(found, expected, place):
    """Numbers and masks; a key is in Gymnasium's dictionary when one copy has it."""
    for key, value in expected.items():
        if isinstance(value, dict):
            # Numbers of the last step of an episode are not told where it is reset in that step.
            value.pop("prob", None)
            value.pop("_prob", None)
            same_infos(found[key], value, f"{place}, {key}")
        elif key == "final_obs":
            for copy, (a, b) in enumerate(zip(found[key], value)):
                assert (a is None) == (b is None) and bits(a) == bits(b), f"{place}, final_obs of copy {copy}"
        else:
            # Gymnasium rounds `prob` to an integer where the first copy to tell it was just reset.
            if key == "prob" and value.dtype.kind == "i":
                continue
            np.testing.assert_array_equal(found[key], value, err_msg=f"{place}, {key}")
    assert found.keys() == expected.keys(), place


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("id", ["CartPole-v1", "Taxi-v4", "FrozenLake-v1", "Blackjack-v1", "LunarLander-v3"])
def test_vectors_equal_gymnasiums_in_every_autoreset_mode(id, mode):
    native = gymnasium.make_vec(f"pavlov/{id}", num_envs=5, autoreset_mode=mode)
    real = sync(id, 5, mode)
    assert native.metadata["autoreset_mode"] == mode
    assert native.observation_space == real.observation_space
    assert native.action_space == real.action_space
    real.action_space.seed(1)
    (obs, infos), (expected, expected_infos) = native.reset(seed=11), real.reset(seed=11)
    assert bits(obs) == bits(expected)
    same_infos(infos, expected_infos, "the first reset")
    ends = 0
    for step in range(400):
        actions = real.action_space.sample()
        obs, rewards, *flags, infos = native.step(actions)
        expected, expected_rewards, *expected_flags, expected_infos = real.step(actions)
        assert bits(obs) == bits(expected), f"step {step}"
        assert bits(rewards) == bits(expected_rewards.astype(np.float32)), f"step {step}"
        assert bits(tuple(flags)) == bits(tuple(expected_flags)), f"step {step}"
        same_infos(infos, expected_infos, f"step {step}")
        ended = flags[0] | flags[1]
        ends += ended.sum()
        if mode == AutoresetMode.DISABLED and ended.any():
            # Gymnasium's takes the mask out of the dictionary.
            seed = [int(step + copy) for copy in range(5)] if step % 2 else None
            obs, infos = native.reset(seed=seed, options={"reset_mask": ended})
            expected, expected_infos = real.reset(seed=seed, options={"reset_mask": ended})
            assert bits(obs) == bits(expected), f"the reset after step {step}"
            for key in infos.keys() & expected_infos.keys():
                if not key.startswith("_"):
                    np.testing.assert_array_equal(infos[key][ended], expected_infos[key][ended])
    assert ends > 5


def test_random_streams_go_on_without_a_seed_and_start_anew_with_one():
    env = gymnasium.make("pavlov/CartPole-v1")
    first, _ = env.reset(seed=4)
    second, _ = env.reset()
    third, _ = env.reset(seed=4)
    assert bits(first) == bits(third) != bits(second)
    other = gymnasium.make("pavlov/CartPole-v1")
    assert bits(other.reset()[0]) != bits(gymnasium.make("pavlov/CartPole-v1").reset()[0])


def test_a_module_before_the_id_imports_it():
    assert gymnasium.make("pavlov_rl:pavlov/CartPole-v1").spec.id == "pavlov/CartPole-v1"


def test_specs_have_gymnasiums_limits_and_thresholds():
    for id in GYMNASIUMS:
        native, real = gymnasium.spec(f"pavlov/{id}"), gymnasium.spec(id)
        assert native.max_episode_steps == real.max_episode_steps, id
        assert native.reward_threshold == real.reward_threshold, id


def test_mujoco_equals_gymnasiums():
    pytest.importorskip("mujoco")
    for id in ("Hopper-v5", "Reacher-v5"):
        native, real = gymnasium.make(f"pavlov/{id}"), gymnasium.make(id)
        real.action_space.seed(0)
        assert bits(native.reset(seed=1)[0]) == bits(real.reset(seed=1)[0])
        for step in range(200):
            action = real.action_space.sample()
            obs, reward, *flags, info = native.step(action)
            expected, expected_reward, *expected_flags, expected_info = real.step(action)
            assert bits(obs) == bits(expected), f"{id}, step {step}"
            assert (reward, flags) == (np.float32(expected_reward), expected_flags), f"{id}, step {step}"
            same_info(info, expected_info, f"{id}, step {step}")
            if any(flags):
                assert bits(native.reset()[0]) == bits(real.reset()[0]), f"{id}, after step {step}"
