"""Records what Gymnasium's wrappers of single observations and actions do, beside those of `record_wrappers.py`.

    python record_more_wrappers.py [directory]

Needs gymnasium==1.4.0 and numpy==2.3.5. The rows are those of `record_wrappers.py`: what went into a wrapper and what came
out, floats as the hex digits of their bits. Bytes and integers are written as floats.
"""

import json
import pathlib
import struct
import sys
import tempfile
import types

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers.stateful_action import StickyAction
from gymnasium.wrappers import RecordVideo, TimeLimit
from gymnasium.wrappers.stateful_observation import MaxAndSkipObservation, TimeAwareObservation
from gymnasium.wrappers.transform_action import TransformAction
from gymnasium.wrappers.transform_observation import (
    DtypeObservation,
    FilterObservation,
    GrayscaleObservation,
    RescaleObservation,
    ReshapeObservation,
)

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")


def f64(values):
    return "".join(struct.pack(">d", v).hex() for v in values)


def f32(rows):
    return "".join(struct.pack(">f", v).hex() for row in rows for v in scalars(row))


def scalars(value):
    """The numbers of an observation or an action, parts in order of their names."""
    if isinstance(value, dict):
        return [x for name in sorted(value) for x in scalars(value[name])]
    if isinstance(value, tuple):
        return [x for part in value for x in scalars(part)]
    return [float(x) for x in np.ravel(value)]


class Arithmetic(gymnasium.Env):
    """Shows what its seed, its step and the sum of its actions say, and draws nothing."""

    def __init__(self, space, actions=spaces.Discrete(4)):
        self.observation_space, self.action_space = space, actions

    def numbers(self, space, offset):
        n = int(np.prod(space.shape))
        values = self.seed * 37 + self.t * 61 + self.moved * 11 + offset + np.arange(n) ** 2 * 29
        return (values % 256).astype(space.dtype).reshape(space.shape)

    def observation(self):
        if isinstance(self.observation_space, spaces.Dict):
            parts = enumerate(self.observation_space.items())
            return {name: self.numbers(part, 7 * i) for i, (name, part) in parts}
        if isinstance(self.observation_space, spaces.Tuple):
            return tuple(self.numbers(part, 7 * i) for i, part in enumerate(self.observation_space))
        return self.numbers(self.observation_space, 0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.t, self.moved = seed, 0, 0
        return self.observation(), {}

    def step(self, action):
        self.t += 1
        self.moved += int(action)
        return self.observation(), self.t % 3 - 0.5, self.t == 14 + self.seed, False, {}


class Recorder(gymnasium.Wrapper):
    """Remembers what the environment was given and gave."""

    def __init__(self, env):
        super().__init__(env)
        self.obs, self.rewards, self.actions = [], [], []

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        self.obs, self.rewards, self.actions = [obs], [], []
        return obs, info

    def step(self, action):
        self.actions.append(np.copy(action))
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.obs.append(obs)
        self.rewards.append(float(reward))
        return obs, reward, terminated, truncated, info


def episodes(wrapper, env, wrap, **more):
    """Three episodes of random play; their seeds are their numbers."""
    inner = Recorder(env)
    env = wrap(inner)
    rng = np.random.default_rng(7)
    row = {"wrapper": wrapper, **more, "episodes": []}
    for seed in range(3):
        outer, rewards, actions = [env.reset(seed=seed)[0]], [], []
        ended = False
        while not ended:
            space = env.action_space
            discrete = isinstance(space, spaces.Discrete)
            action = int(rng.integers(space.n)) if discrete else rng.uniform(-3, 3, space.shape).astype(np.float32)
            obs, reward, terminated, truncated, _ = env.step(action)
            outer.append(obs)
            rewards.append(float(reward))
            actions.append(action)
            ended = terminated or truncated
        row["episodes"].append(
            {
                "obs": f32(inner.obs),
                "rewards": f64(inner.rewards),
                "terminated": bool(terminated),
                "outer_obs": f32(outer),
                "outer_rewards": f64(rewards),
                "actions": f32(inner.actions),
                "outer_actions": f32(actions),
            }
        )
    return row


def wrapped():
    picture = spaces.Box(0, 255, (3, 4, 3), np.uint8)
    parts = spaces.Dict({name: spaces.Box(0, 255, (n,), np.float32) for name, n in [("a", 2), ("b", 1), ("c", 3)]})
    pendulum = lambda limit: gymnasium.make("Pendulum-v1", max_episode_steps=limit)
    for keep_dim in [False, True]:
        gray = lambda env: GrayscaleObservation(env, keep_dim)
        yield episodes("GrayscaleObservation", Arithmetic(picture), gray, keep_dim=keep_dim)
    yield episodes("ReshapeObservation", Arithmetic(picture), lambda env: ReshapeObservation(env, (4, 9)))
    yield episodes("RescaleObservation", pendulum(12), lambda env: RescaleObservation(env, -0.3, 1.7))
    yield episodes("DtypeObservation", Arithmetic(picture), lambda env: DtypeObservation(env, np.float32))
    cliff = gymnasium.make("CliffWalking-v1", max_episode_steps=12)
    yield episodes("DtypeObservation", cliff, lambda env: DtypeObservation(env, np.float32))
    yield episodes("FilterObservation", Arithmetic(parts), lambda env: FilterObservation(env, ["c", "a"]))
    yield episodes("TransformAction", pendulum(12), lambda env: TransformAction(env, lambda a: 0.5 * a, None))
    # The last step of the second skips one step less than the others.
    for limit in [12, 11]:
        yield episodes("MaxAndSkipObservation", pendulum(limit), lambda env: MaxAndSkipObservation(env, 3))
    number = spaces.Box(0, 255, (1,), np.float32)
    for probability, duration in [(0.25, 1), (0.5, (2, 4))]:
        sticky = lambda env: StickyAction(env, probability, duration)
        row = {"probability": probability, "duration": [duration] * 2 if isinstance(duration, int) else duration}
        yield episodes("StickyAction", Arithmetic(number), sticky, **row)


def time_aware():
    vectors = [spaces.Box(0, 255, (n,), np.float32) for n in [2, 1, 3]]
    parts = spaces.Dict(dict(zip("abc", vectors)))
    picture = spaces.Box(0, 255, (2, 2), np.uint8)
    limited = lambda space: TimeLimit(Arithmetic(space), 20)
    pendulum = lambda: gymnasium.make("Pendulum-v1", max_episode_steps=12)
    cliff = lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=12)
    for env, make, key in [
        ("pendulum", pendulum, "time"),
        ("cliff", cliff, "time"),
        ("picture", lambda: limited(picture), "time"),
        # In order of their names, this part is the third of four.
        ("dict", lambda: limited(parts), "bb"),
        ("tuple", lambda: limited(spaces.Tuple(vectors)), "time"),
    ]:
        for flatten in [True, False]:
            for normalize_time in [False, True]:
                arguments = {"flatten": flatten, "normalize_time": normalize_time, "dict_time_key": key}
                wrap = lambda env: TimeAwareObservation(env, **arguments)
                yield episodes("TimeAwareObservation", make(), wrap, around=env, arguments=arguments)


class Painter(gymnasium.Env):
    """Episodes of 3 to 6 steps, whose only pixel shows their seed and their step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(1)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.t = seed, 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return 0, 0.0, self.t == 3 + self.seed % 4, False, {}

    def render(self):
        return np.array([[[self.seed, self.t, 0]]], np.uint8)


def videos():
    """What RecordVideo gives to MoviePy, which need not be installed."""
    written = []

    class Clip:
        def __init__(self, frames, fps):
            self.frames, self.fps = frames, fps

        def write_videofile(self, path, logger):
            frames = [[int(x) for x in frame[0, 0, :2]] for frame in self.frames]
            written.append({"name": pathlib.Path(path).stem, "fps": self.fps, "frames": frames})

    modules = {name: types.ModuleType(name) for name in ["moviepy", "moviepy.video", "moviepy.video.io"]}
    sequence = types.ModuleType("moviepy.video.io.ImageSequenceClip")
    sequence.ImageSequenceClip = Clip
    sys.modules.update(modules, **{sequence.__name__: sequence})
    every = lambda n: (lambda number: number % n == 0) if n else None
    for episode_trigger, step_trigger, video_length, fps in [
        (None, None, 0, None),
        (3, None, 0, 25),
        (None, 20, 0, None),
        (None, 20, 7, None),
        (5, 9, 0, None),
        (None, None, 4, None),
    ]:
        written.clear()
        with tempfile.TemporaryDirectory() as folder:
            more = {"fps": fps} if fps else {}
            triggers = {"episode_trigger": every(episode_trigger), "step_trigger": every(step_trigger)}
            env = RecordVideo(Painter(), folder, video_length=video_length, **triggers, **more)
            for seed in range(30):
                env.reset(seed=seed)
                while not env.step(0)[2]:
                    pass
            env.close()
        arguments = {"episode_trigger": episode_trigger, "step_trigger": step_trigger}
        arguments |= {"video_length": video_length, "name_prefix": "rl-video", "fps": fps}
        yield {"wrapper": "RecordVideo", "arguments": arguments, "videos": list(written)}


with open(OUT / "more_wrappers.jsonl", "w") as file:
    for row in [{"gymnasium": gymnasium.__version__, "numpy": np.__version__}, *wrapped(), *time_aware(), *videos()]:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")
