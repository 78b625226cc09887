"""Models on PettingZoo's environments: one policy acts for all agents."""

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium import spaces

from pavlov_rl import PPO, parallel_env

SMALL = {"n_steps": 50, "batch_size": 50, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}, "seed": 0}


class Walkers(pettingzoo.ParallelEnv):
    """Each of two agents walks right along its own five fields. `leaves` is the step in which the second goes away."""

    metadata = {"name": "walkers"}

    def __init__(self, leaves=None, widths=(1, 1), info=None):
        self.possible_agents = ["left", "right"]
        self.widths = dict(zip(self.possible_agents, widths))
        self.leaves, self.info = leaves, info or {}
        self.seeds = []

    def observation_space(self, agent):
        return spaces.Box(0.0, 20.0, (self.widths[agent],), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.agents = list(self.possible_agents)
        self.at = dict.fromkeys(self.agents, 0)
        self.length = 0
        return self.seen(), {agent: dict(self.info) for agent in self.agents}

    def seen(self):
        return {agent: np.full(self.widths[agent], self.at[agent], np.float32) for agent in self.possible_agents}

    def step(self, actions):
        self.length += 1
        for agent, action in actions.items():
            self.at[agent] = min(max(self.at[agent] + 2 * int(action) - 1, 0), 5)
        rewards = {agent: float(self.at[agent] == 5) for agent in self.agents}
        over = {agent: self.length == 20 or (agent == "right" and self.length == self.leaves) for agent in self.agents}
        none = dict.fromkeys(self.agents, False)
        self.agents = [agent for agent in self.agents if not over[agent]]
        return self.seen(), rewards, none, over, {agent: {} for agent in over}


def test_one_policy_learns_for_all_agents():
    model = PPO("MlpPolicy", Walkers(), n_steps=100, learning_rate=3e-3, seed=0).learn(10_000)
    assert model.n_envs == 2
    env = Walkers()
    obs, _ = env.reset(seed=0)
    total = 0.0
    while env.agents:
        actions = {agent: model.predict(obs[agent], deterministic=True)[0] for agent in env.agents}
        obs, rewards, *_ = env.step(actions)
        total += sum(rewards.values())
    # Five steps to the end of the corridor; from the fifth of twenty on, each agent gets 1.
    assert total == 32.0


def test_equal_seeds_give_equal_weights_and_episodes_begin_with_seeds():
    first, second = Walkers(), Walkers()
    weights = [PPO("MlpPolicy", env, **SMALL).learn(400).get_parameters()["policy"] for env in (first, second)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    assert first.seeds == second.seeds and None not in first.seeds


def test_native_environments_with_several_agents_are_learned_on():
    model = PPO("MlpPolicy", parallel_env("simple_spread_v3"), **SMALL).learn(150)
    assert model.n_envs == 3 and model.num_timesteps == 150


def test_the_environment_of_a_model_is_a_vector_of_its_agents():
    model = PPO("MlpPolicy", Walkers(), **SMALL)
    env = model.get_env()
    obs = env.reset()
    assert obs.shape == (2, 1)
    for _ in range(20):
        obs, rewards, dones, infos = env.step(np.array([1, 0]))
    assert dones.all() and obs.tolist() == [[0.0], [0.0]]
    assert [info["terminal_observation"].tolist() for info in infos] == [[5.0], [0.0]]
    assert [info["episode"]["r"] for info in infos] == [16.0, 0.0]
    assert infos[0]["TimeLimit.truncated"]


@pytest.mark.parametrize(
    ("env", "error", "words"),
    [
        (Walkers(leaves=3), ValueError, "right left the episode before the other agents did"),
        (Walkers(widths=(1, 2)), ValueError, "different observation spaces"),
        (Walkers(info={"active_agent": "left"}), ValueError, "a game in turns"),
    ],
)
def test_what_one_policy_cannot_act_for_is_refused_with_the_way_out(env, error, words):
    with pytest.raises(error, match=words):
        PPO("MlpPolicy", env, **SMALL).learn(100)


def test_an_environment_in_turns_is_refused_by_its_kind():
    from pettingzoo.classic import tictactoe_v3

    with pytest.raises(TypeError, match="aec_to_parallel"):
        PPO("MlpPolicy", tictactoe_v3.env(), **SMALL)


def test_gymnasiums_default_vectors_are_learned_on():
    plain = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("MountainCar-v0", max_episode_steps=20)] * 2)
    same = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("MountainCar-v0", max_episode_steps=20)] * 2,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    assert plain.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    models = [PPO("MlpPolicy", env, **SMALL).learn(200) for env in (plain, same)]
    assert models[0].num_timesteps == 200
    assert models[0].get_env().reset().shape == (2, 2)
