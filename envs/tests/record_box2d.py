"""Plays Gymnasium's environments on Box2D and writes each row: for `box2d.rs`, live and as its fixtures.

    python record_box2d.py fixtures [directory]
    python record_box2d.py rows ID SETTINGS SEED STEPS

Needs gymnasium and box2d. A heuristic and random actions take turns, by episodes, and later episodes continue the
random stream of the first. Rows are

    ["env", id, settings, lowest observation, highest observation]
    ["frame", seed, means of square blocks of the first picture, rows from the top, red, green and blue in turn]
    ["reset", seed, observation, bodies]
    ["step", action, observation, reward, terminated, truncated, bodies]

and floats are the hex digits of their bits. Bodies are those that move: position, angle, velocity and angular velocity
of each.
"""

import json
import pathlib
import platform
import struct
import sys
import warnings

import Box2D
import gymnasium
import numpy as np
from gymnasium.envs.box2d import bipedal_walker, lunar_lander

BLOCK = 40
FIXTURES = [
    ("LunarLander-v3", {}, 1, 100),
    ("LunarLander-v3", {"continuous": True, "enable_wind": True}, 7, 80),
    ("BipedalWalker-v3", {}, 3, 50),
    ("BipedalWalkerHardcore-v3", {}, 4, 30),
]


def f64(values):
    return "".join(struct.pack(">d", v).hex() for v in np.ravel(values))


def f32(values):
    return "".join(struct.pack(">f", v).hex() for v in np.ravel(values))


def header():
    angles = [0.05, 0.1, 0.15, 0.2, 0.7, 1.3, 2.0, 2.9, 3.7, 5.1, -0.17, -1.9]
    return {
        "gymnasium": gymnasium.__version__,
        "box2d": Box2D.__version__,
        "machine": f"{platform.machine()} {'-'.join(platform.libc_ver())}",
        "angles": angles,
        "sin": f64([np.sin(np.float64(a)) for a in angles]),
        "cos": f64([np.cos(np.float64(a)) for a in angles]),
    }


def bodies(env):
    parts = [env.lander] if hasattr(env, "lander") else [env.hull]
    return f32([
        value
        for body in parts + list(env.legs)
        for value in (*body.position, body.angle, *body.linearVelocity, body.angularVelocity)
    ])


class Player:
    """Random actions, beyond the bounds now and then, in turn with a heuristic; an odd seed begins with the first."""

    def __init__(self, env, seed):
        self.env = env
        self.episode = -1
        self.seed = seed
        env.action_space.seed(seed)

    def begin(self):
        self.episode += 1
        self.walker = bipedal_walker.BipedalWalkerHeuristics()

    def act(self, obs):
        space = self.env.action_space
        if (self.episode + self.seed) % 2:
            action = space.sample()
            return action * np.float32(1.3) if isinstance(space, gymnasium.spaces.Box) else action
        if hasattr(self.env.unwrapped, "lander"):
            action = lunar_lander.heuristic(self.env, obs)
        else:
            action = self.walker.step_heuristic(obs)
        return action.astype(np.float32) if isinstance(space, gymnasium.spaces.Box) else action


def rows(env_id, config, seed, steps):
    env = gymnasium.make(env_id, disable_env_checker=True, **config)
    player = Player(env, seed)
    ended = True
    for _ in range(steps):
        if ended:
            player.begin()
            given = seed if player.episode == 0 else None
            obs, _ = env.reset(seed=given)
            yield ["reset", given, f32(obs), bodies(env.unwrapped)]
        action = player.act(obs)
        written = f32(action) if isinstance(action, np.ndarray) else int(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
        yield ["step", written, f32(obs), f64(reward), terminated, truncated, bodies(env.unwrapped)]
    env.close()


def main():
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    if sys.argv[1] == "fixtures":
        folder = pathlib.Path(__file__).parent / "fixtures"
        with open(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else folder) / "box2d.jsonl", "w") as file:
            write = lambda row: file.write(json.dumps(row, separators=(",", ":")) + "\n")
            write(header())
            for env_id, config, seed, steps in FIXTURES:
                env = gymnasium.make(env_id, render_mode="rgb_array", **config)
                write(["env", env_id, config, f32(env.observation_space.low), f32(env.observation_space.high)])
                env.reset(seed=seed)
                means = env.render().reshape(400 // BLOCK, BLOCK, 600 // BLOCK, BLOCK, 3).mean(axis=(1, 3))
                write(["frame", seed, np.rint(means).astype(int).ravel().tolist()])
                for row in rows(env_id, config, seed, steps):
                    write(row)
        return
    env_id, config, seed, steps = sys.argv[2:]
    for row in rows(env_id, json.loads(config), int(seed), int(steps)):
        print(json.dumps(row, separators=(",", ":")))


main()
