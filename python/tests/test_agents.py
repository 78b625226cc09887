"""PettingZoo's own tests, and steps beside mpe2 and PettingZoo."""

import importlib
import warnings

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import pavlov_rl

IDS = pavlov_rl.multi_agent_ids()
GAMES = ["connect_four_v3", "go_v5", "tictactoe_v3"]


def same(found, expected, place):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key in expected:
            same(found[key], expected[key], f"{place}, {key}")
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), f"{place}: {found} and {expected}"


@pytest.mark.parametrize("id", IDS)
def test_pettingzoos_own_tests_pass(id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(pavlov_rl.parallel_env(id), num_cycles=100)
        parallel_seed_test(lambda: pavlov_rl.parallel_env(id), num_cycles=20)


@pytest.mark.parametrize("id", [id for id in IDS if id.startswith("simple")])
@pytest.mark.parametrize("config", [{}, {"continuous_actions": True, "max_cycles": 40}])
def test_particles_equal_mpe2s_bit_for_bit(id, config):
    native = pavlov_rl.parallel_env(id, **config)
    real = importlib.import_module(f"mpe2.{id}").parallel_env(**config)
    assert native.possible_agents == real.possible_agents
    for agent in real.possible_agents:
        assert native.observation_space(agent) == real.observation_space(agent)
        assert native.action_space(agent) == real.action_space(agent)
        real.action_space(agent).seed(1)
    # The last episode continues the random stream.
    for seed in (0, 7, None):
        same(native.reset(seed=seed)[0], real.reset(seed=seed)[0], f"seed {seed}")
        while real.agents:
            actions = {agent: real.action_space(agent).sample() for agent in real.agents}
            found, expected = native.step(actions), real.step(actions)
            for i, what in enumerate(["observations", "rewards", "terminations", "truncations"]):
                same(found[i], expected[i], f"seed {seed}, {what}")
            assert native.agents == real.agents


@pytest.mark.parametrize("id", GAMES)
def test_games_equal_pettingzoos(id):
    config = {"board_size": 5} if id == "go_v5" else {}
    native = pavlov_rl.parallel_env(id, **config)
    real = importlib.import_module(f"pettingzoo.classic.{id}").env(**config)
    for agent in real.possible_agents:
        assert native.observation_space(agent) == real.observation_space(agent)
        assert native.action_space(agent) == real.action_space(agent)
    rng = np.random.default_rng(0)
    for game in range(5):
        obs, infos = native.reset()
        real.reset()
        while native.agents:
            active = infos[native.agents[0]]["active_agent"]
            assert active == real.agent_selection
            same(obs, {agent: real.observe(agent) for agent in real.possible_agents}, f"game {game}")
            assert np.array_equal(infos[active]["action_mask"], obs[active]["action_mask"])
            action = int(rng.choice(np.flatnonzero(obs[active]["action_mask"])))
            # The other's action is not read.
            obs, rewards, terminated, _, infos = native.step({agent: action for agent in native.agents})
            real.step(action)
            assert rewards == real.rewards and terminated == real.terminations, f"game {game}"


def test_an_id_without_a_version_is_the_newest():
    assert pavlov_rl.parallel_env("simple_spread").metadata["name"] == "simple_spread_v3"


def test_a_saved_state_goes_on_as_the_original_did():
    def play(env):
        seen = []
        for step in range(20):
            actions = {agent: step % 5 for agent in env.agents}
            obs, rewards, *_ = env.step(actions)
            seen.append(([obs[agent].tobytes() for agent in obs], rewards))
        return seen

    env = pavlov_rl.parallel_env("simple_tag_v3", max_cycles=100)
    env.reset(seed=0)
    play(env)
    state = env.save_state()
    expected = play(env)
    other = pavlov_rl.parallel_env("simple_tag_v3", max_cycles=100)
    other.load_state(state)
    assert other.agents == other.possible_agents and play(other) == expected
    with pytest.raises(pavlov_rl.StateError):
        pavlov_rl.parallel_env("simple_v3").load_state(state)


def test_pictures():
    env = pavlov_rl.parallel_env("simple_spread_v3", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().dtype == np.uint8 and env.render().ndim == 3


def test_errors_say_what_is_wrong_and_what_to_do():
    with pytest.raises(KeyError, match='nearest: "simple_spread_v3"'):
        pavlov_rl.parallel_env("simple_sprea_v3")
    with pytest.raises(ValueError, match=r'one agent; make it with `gymnasium.make\("pavlov/CartPole-v1"\)`'):
        pavlov_rl.parallel_env("CartPole-v1")
    env = pavlov_rl.parallel_env("simple_spread_v3")
    with pytest.raises(pavlov_rl.ResetNeededError, match="call `reset` first"):
        env.step({agent: 0 for agent in env.possible_agents})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="none for agent_1, who acts now"):
        env.step({"agent_0": 0})
    with pytest.raises(ValueError, match="the action of agent_0 is 1.5, but it must be an integer"):
        env.step({agent: 1.5 for agent in env.agents})
    with pytest.raises(ValueError, match="action 9 is not in"):
        env.step({agent: 9 for agent in env.agents})
