"""Records what mpe2 and PettingZoo do, for the tests of this crate.

    python record_pettingzoo.py [directory]

Needs pettingzoo==1.27.0, mpe2==1.1.1, gymnasium==1.4.0, numpy==2.3.5 and pygame-ce==2.5.8. Floats are
written as the hex digits of their bits, bytes of boards as one digit each. Each file starts with the
versions and with sines and cosines of the machine, which differ between C libraries.
"""

import importlib
import json
import os
import pathlib
import platform
import struct
import sys
from importlib.metadata import version

# On processors with AVX-512 numpy has an exponential function of its own, whose last bit differs from the C library's.
os.environ["NPY_DISABLE_CPU_FEATURES"] = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"

import numpy as np
from mpe2 import simple_spread_v3
from pettingzoo.classic import connect_four_v3, go_v5, tictactoe_v3

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")


def f64(values):
    return "".join(struct.pack(">d", v).hex() for v in np.ravel(values))


def f32(values):
    return "".join(struct.pack(">f", v).hex() for v in np.ravel(values))


def header():
    angles = [0.05, 0.1, 0.15, 0.2, 0.7, 1.3, 2.0, 2.9, 3.7, 5.1, -0.17, -1.9]
    return {
        **{name: version(name) for name in ["pettingzoo", "mpe2", "gymnasium", "numpy", "pygame-ce"]},
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {'-'.join(platform.libc_ver())}",
        "angles": angles,
        "sin": f64([np.sin(np.float64(a)) for a in angles]),
        "cos": f64([np.cos(np.float64(a)) for a in angles]),
    }


def write(name, rows):
    with open(OUT / name, "w") as file:
        for row in [header(), *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def towards_the_middle(rng, obs, continuous):
    """Into the others' arms, with some random moves."""
    x, y = obs[2:4]
    along_x = abs(x) > abs(y)
    action = (1 if x > 0 else 2) if along_x else (3 if y > 0 else 4)
    if rng.random() < 0.3:
        action = int(rng.integers(5))
    if not continuous:
        return action
    # A little outside of 0..=1, where mpe2's wrapper cuts.
    push = rng.uniform(-0.2, 0.6, 5).astype(np.float32)
    push[action] = np.float32(rng.uniform(0.6, 1.2))
    return push


def spread_episode(seed, **config):
    env = simple_spread_v3.parallel_env(**config)
    rng = np.random.default_rng(seed)
    row = {"config": config, "seed": seed, "actions": [], "obs": [], "rewards": []}
    stack = lambda by_agent: np.concatenate([np.ravel(by_agent[agent]) for agent in env.possible_agents])
    obs, _ = env.reset(seed=seed)
    row["obs"].append(f32(stack(obs)))
    while env.agents:
        continuous = config.get("continuous_actions", False)
        actions = {agent: towards_the_middle(rng, obs[agent], continuous) for agent in env.agents}
        obs, rewards, terminated, truncated, _ = env.step(actions)
        row["actions"].append(f32(stack(actions)) if continuous else stack(actions).tolist())
        row["obs"].append(f32(stack(obs)))
        row["rewards"].append(f64(stack(rewards)))
        assert not any(terminated.values()) and all(truncated.values()) == (not env.agents)
    obs, _ = env.reset()
    row["continued"] = f32(stack(obs))
    return row


def spread():
    yield spread_episode(0)
    yield spread_episode(1, continuous_actions=True)
    yield spread_episode(7, N=4, local_ratio=0.2, max_cycles=15)
    yield spread_episode(3, N=1, local_ratio=1.0, max_cycles=5)
    yield spread_episode(4, N=4, num_agent_neighbors=2, num_landmark_neighbors=5, max_cycles=10)
    yield spread_episode(0, curriculum=True, max_cycles=15)


def particles_episode(env_id, seed, stage=None, hunt=False, **config):
    """Actions are kept for some steps, so that agents come far; in a hunt, adversaries go to the prey, which goes right."""
    env = importlib.import_module(f"mpe2.{env_id}").parallel_env(**config)
    if stage is not None:
        # In mpe2 1.1.1 `set_curriculum_stage` does nothing, because `BaseScenario` has a property of this name.
        type(env.unwrapped.scenario).curriculum_stage = 0
        env.unwrapped.set_curriculum_stage(stage)
    rng = np.random.default_rng(seed)
    continuous = config.get("continuous_actions", False)
    row = {"id": env_id, "config": config, "seed": seed, "stage": stage, "actions": [], "obs": [], "rewards": []}
    stack = lambda by_agent: np.concatenate([np.ravel(by_agent[agent]) for agent in env.possible_agents])
    obs, _ = env.reset(seed=seed)
    row["obs"].append(f32(stack(obs)))
    actions = {}
    while env.agents:
        for agent in env.agents:
            space = env.action_space(agent)
            if hunt:
                bodies = {body.name: body.state.p_pos for body in env.unwrapped.world.agents}
                x, y = bodies["agent_0"] - bodies[agent]
                actions[agent] = 2 if x == 0 else (1 + int(x > 0) if abs(x) > abs(y) else 3 + int(y > 0))
            elif agent not in actions or rng.random() < 0.2:
                # A little outside of 0..=1, where mpe2's wrapper cuts.
                actions[agent] = (
                    rng.uniform(-0.2, 1.2, space.shape).astype(np.float32) if continuous else int(rng.integers(space.n))
                )
        obs, rewards, terminated, truncated, _ = env.step(actions)
        row["actions"].append(f32(stack(actions)) if continuous else stack(actions).tolist())
        row["obs"].append(f32(stack(obs)))
        row["rewards"].append(f64(stack(rewards)))
    row["terminated"] = all(terminated.values())
    assert all(truncated.values()) != row["terminated"]
    return row


def particles():
    for env_id, steps in [
        ("simple_v3", 10),
        ("simple_adversary_v3", 10),
        ("simple_crypto_v3", 10),
        ("simple_push_v3", 9),
        ("simple_reference_v3", 7),
        ("simple_speaker_listener_v4", 10),
        ("simple_world_comm_v3", 3),
    ]:
        for seed, continuous in [(0, False), (1, True)]:
            yield particles_episode(env_id, seed, max_cycles=steps, continuous_actions=continuous)
    yield particles_episode("simple_adversary_v3", 2, N=4, num_agent_neighbors=2, num_landmark_neighbors=5, max_cycles=6)
    yield particles_episode("simple_world_comm_v3", 2, num_good=3, num_forests=1, num_obstacles=2, num_food=1, max_cycles=5)
    yield particles_episode("simple_tag_v3", 1, max_cycles=8, continuous_actions=True)
    yield particles_episode("simple_tag_v3", 2, max_cycles=6, num_good=2, num_agent_neighbors=2, num_landmark_neighbors=3)
    # The prey leaves, and is slow at the first stages of the curriculum.
    for stage in range(3):
        yield particles_episode("simple_tag_v3", 3, stage, hunt=True, num_adversaries=1, curriculum=True, max_cycles=18)
    yield particles_episode("simple_tag_v3", 4, 0, hunt=True, curriculum=True, terminate_on_success=True)


def go_game(seed, komi, illegal_at=None):
    env = go_v5.env(board_size=5, komi=komi)
    env.reset()
    rng = np.random.default_rng(seed)
    row = {"komi": komi, "actions": [], "obs": [], "rewards": [], "kos": 0}

    def watch():
        views = [env.observe(agent) for agent in env.possible_agents]
        row["obs"].append([np.packbits(np.concatenate([np.ravel(v[k]) for k in sorted(v)])).tobytes().hex() for v in views])
        row["kos"] += env.unwrapped._go.ko is not None

    watch()
    while not any(env.terminations.values()):
        mask = env.observe(env.agent_selection)["action_mask"]
        if len(row["actions"]) == illegal_at:
            action = int(np.flatnonzero(mask == 0)[0])
        else:
            action = 25 if rng.random() < 0.08 else int(rng.choice(np.flatnonzero(mask)))
        env.step(action)
        row["actions"].append(action)
        row["rewards"].append([float(env.rewards[agent]) for agent in env.possible_agents])
        watch()
    row["illegal"] = bool(any(env.truncations.values()))
    row["captured"] = list(env.unwrapped._go.caps)
    row["drawn"] = bool(env.unwrapped._go.score() == 0)
    return row


def go():
    """A won and a lost game, a game with as many points for both, with a ko, and two with an illegal move."""
    games = [go_game(seed, komi) for seed in range(40) for komi in [0.5, 0]]
    winner = lambda row: row["rewards"][-1].index(1.0)
    for wanted in [
        lambda row: winner(row) == 0 and row["captured"][0] > 3,
        lambda row: winner(row) == 1 and row["captured"][1] > 3 and row["kos"] == 0,
        lambda row: row["drawn"] and len(row["actions"]) > 2,
        lambda row: row["kos"] > 0,
    ]:
        yield min(filter(wanted, games), key=lambda row: len(row["actions"]))
    yield go_game(4, 7.5, illegal_at=7)
    yield go_game(5, 7.5, illegal_at=10)


def digits(obs):
    return "".join(str(int(x)) for part in sorted(obs) for x in np.ravel(obs[part]))


def game(module, choose):
    """One game; `choose` gives the next action from the mask, or None for random ones."""
    env = module.env()
    env.reset(seed=0)
    row = {"actions": [], "obs": [], "rewards": [], "flags": []}

    def watch():
        row["obs"].append([digits(env.observe(agent)) for agent in env.possible_agents])

    watch()
    while not any(env.terminations.values()):
        agent = env.agent_selection
        assert env.possible_agents.index(agent) == len(row["actions"]) % 2
        action = int(choose(env.observe(agent)["action_mask"]))
        env.step(action)
        row["actions"].append(action)
        row["rewards"].append([float(env.rewards[agent]) for agent in env.possible_agents])
        row["flags"].append([env.terminations[agent] for agent in env.possible_agents])
        watch()
    row["illegal"] = bool(any(env.truncations.values()))
    return row


def random_game(module, seed, illegal_from=None):
    rng = np.random.default_rng(seed)
    moves = iter(range(1000))

    def choose(mask):
        illegal = np.flatnonzero(mask == 0)
        if illegal_from is not None and next(moves) >= illegal_from and len(illegal):
            return rng.choice(illegal)
        return rng.choice(np.flatnonzero(mask))

    return game(module, choose)


def is_draw(row):
    return not row["illegal"] and row["rewards"][-1] == [0.0, 0.0]


def games(module, random_games, seeds_of_draws):
    for seed in range(random_games):
        yield random_game(module, seed)
    draw = next(row for row in (random_game(module, seed) for seed in seeds_of_draws) if is_draw(row))
    yield draw
    yield random_game(module, 100, illegal_from=1)
    yield random_game(module, 101, illegal_from=2)
    yield random_game(module, 102, illegal_from=5)


def frames():
    """Means of square blocks, red, green and blue in turn, rows from the top."""
    block = 35
    env = simple_spread_v3.parallel_env(render_mode="rgb_array")
    env.reset(seed=5)
    for steps in [0, 4]:
        for _ in range(steps):
            env.step(dict.fromkeys(env.agents, 2))
        frame = env.render()
        height, width, _ = frame.shape
        means = frame.reshape(height // block, block, width // block, block, 3).mean(axis=(1, 3))
        yield {
            "seed": 5,
            "steps": steps,
            "width": width,
            "height": height,
            "block": block,
            "means": np.rint(means).astype(int).ravel().tolist(),
        }


write("simple_spread.jsonl", spread())
write("simple_spread_frames.jsonl", frames())
write("particles.jsonl", particles())
write("go.jsonl", go())
write("tictactoe.jsonl", games(tictactoe_v3, 8, range(50)))
write("connect_four.jsonl", games(connect_four_v3, 4, range(400, 3000)))
