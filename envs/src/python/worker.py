"""The Python half of `PyVec`: hosts some rows of a bridged environment. The protocol is on the page of `py.rs`."""

import sys

# `python -c` would look for every module in the current directory first: a `json.py` there is not to be imported.
sys.path[:] = [place for place in sys.path if place]

import faulthandler
import fcntl
import hashlib
import importlib
import json
import math
import mmap
import os
import re
import resource
import select
import signal
import time
import traceback
import warnings

DTYPES = {"u8": "u1", "i64": "i8", "f32": "f4", "f64": "f8"}
NO_ROW = -1


def main():
    inbox, outbox = os.dup(0), os.dup(1)
    # What the environment prints goes to stderr; what it reads is empty.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.write(outbox, b"\0%d\n" % os.getpid())
    first_message = json.loads(read_line(inbox))
    die_with_parent()
    start_guard(first_message["parent"], (inbox, outbox))
    faulthandler.enable(open_of_parent(first_message["parent"], first_message["log"]))
    warn_once(open_of_parent(first_message["parent"], first_message["warned"]))
    # A hung worker is aborted for the sake of its traceback; its core file is of no use.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    worker = Worker(first_message, inbox)
    while True:
        command = os.read(inbox, 1)
        if not command:
            break
        try:
            caller, core, num_cores = worker.caller
            if caller:
                set_cores(0, range(num_cores))
            answer = worker.answer(command)
            if caller:
                set_cores(caller, (core,))
        except BaseException as error:  # Also SystemExit: whatever it is, the parent is told.
            # Not every str is Unicode: json would write what no other reader takes.
            text = traceback.format_exc().encode(errors="backslashreplace").decode()
            answer = json.dumps({"error": text, "hint": hint(error)}) + "\n"
            write_all(outbox, answer.encode())
            os._exit(1)
        if answer is None:
            os.write(outbox, b".")
        else:
            write_all(outbox, answer)
    worker.close()
    os._exit(0)


def die_with_parent():
    """Ends this process with its parent, also while the environment hangs."""
    try:
        import ctypes

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def start_guard(parent, pipes):
    """Starts a process that kills this process group once the parent is gone, however it went: the processes that the
    environment started, and this one where a script that started the interpreter stands between."""
    try:
        handle = os.pidfd_open(parent)
    except ProcessLookupError:
        os.killpg(0, signal.SIGKILL)
    except (AttributeError, OSError):
        return  # An old Python or kernel: then only the end of the pipe tells, and only this process.
    child = os.fork()
    if child != 0:
        os.close(handle)
        os.waitpid(child, 0)
        return
    # The guard is a grandchild, so that an environment which waits for all its children does not wait for it.
    if os.fork() != 0:
        os._exit(0)
    try:
        for pipe in pipes:
            os.close(pipe)
        os.dup2(0, 1)
        os.dup2(0, 2)
        select.select([handle], [], [])
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(1)


def warn_once(said):
    """Shows a warning only if no worker of this program has shown it before: `said` is a file that they share."""

    def show(message, category, filename, lineno, file=None, line=None):
        text = warnings.formatwarning(message, category, filename, lineno, line)
        if first_to_say(said, text):
            sys.stderr.write(text)

    warnings.showwarning = show


def first_to_say(said, text):
    """Whether no worker of this program has said this before; from now on one has."""
    mark = hashlib.sha256(text.encode(errors="replace")).digest()
    fcntl.flock(said, fcntl.LOCK_EX)
    try:
        size = os.fstat(said).st_size
        known = os.pread(said, size, 0)
        if any(known[at : at + len(mark)] == mark for at in range(0, size, len(mark))):
            return False
        os.pwrite(said, mark, size)
        return True
    finally:
        fcntl.flock(said, fcntl.LOCK_UN)


def open_of_parent(parent, fd):
    return os.open(f"/proc/{parent}/fd/{fd}", os.O_RDWR)


def hint(error):
    if getattr(error, "way_out", None):
        return error.way_out
    if isinstance(error, ImportError) and error.name:
        package = error.name.split(".")[0]
        # Environments of the old gym run through shimmy.
        packages = "gym shimmy" if package == "gym" else package
        return (
            f"if {package} is a package, install it: {sys.executable} -m pip install {packages}; "
            "or name another interpreter by `python` in the env_config or by PAVLOV_PYTHON"
        )
    if isinstance(error, ValueError) and "between 0 and 2**32 - 1" in str(error):
        return (
            "seeds have up to 64 bits here: let the environment draw from `self.np_random` after "
            "`super().reset(seed=seed)`, or take `seed % 2**32`"
        )
    if type(error).__name__ in ("NameNotFound", "NamespaceNotFound"):
        return (
            "`py:ID` is an id of Gymnasium's registry, and `py:module:NAME` is an id that the module registers, when it is "
            "imported or by its register_envs(), or else a class of that name in the module"
        )
    return None


class Worker:
    def __init__(self, first_message, inbox):
        self.first_message, self.inbox, self.host = first_message, inbox, None
        # The copy that was looked at, until it is hosted.
        self.made = None
        self.admission = Admission(self.say, "`strict_env_checking = true` makes this an error")
        self.admission.several_rewards = "`reward_weights` in the env_config makes one number of them, such as [0.5, 0.5]"
        if first_message["reward_weights"] is not None:
            self.admission.weigh(first_message["reward_weights"])
        # See `turns.rs`: the thread that takes turns with this one, its core, and how many there are.
        self.caller = (0, 0, 0)

    def answer(self, command):
        if command == b"s":
            self.host.step(self.host.seeds.tolist())
        elif command == b"S":
            self.host.step(None)
        elif command == b"r":
            self.host.reset(self.host.seeds.tolist())
        elif command == b"R":
            self.host.reset(None)
        else:
            request = json.loads(command + read_line(self.inbox))
            return getattr(self, request.pop("do"))(**request)

    def spec(self):
        spec = entry_of(self.first_message["id"])
        return line(max_episode_steps=spec.max_episode_steps, reward_threshold=spec.reward_threshold)

    def describe(self, measure):
        """Looks at a copy: its spaces, whether it has masks, and what a step takes. It becomes the first one that is hosted here,
        because a simulator with a licence or a port can be made once only."""
        env = self.make(1)
        hosted = self.first_message["vectorization"] != "loop"
        prefix = "single_" if hosted else ""
        observation_space, action_space = (space_of(env, prefix + name) for name in ("observation_space", "action_space"))
        spaces = {"observation": space_json(observation_space), "action": action_json(action_space)}
        if any("unsupported" in str(space) for space in spaces.values()):
            # It is refused by its space, before a step of it can fail for that reason.
            self.close_of(env)
            return line(**spaces)
        self.look_for_agents(observation_space, action_space)
        if hosted:
            info = env.reset(seed=None)[1]
            step_us = None
        else:
            info = env.reset(seed=0)[1]
            step_us = step_time(env, info) if measure else None
        if hosted:
            self.close_of(env)
        else:
            self.made = env
        spec = getattr(env, "spec", None)
        return line(
            **spaces,
            has_mask=takes_mask(action_space) and mask_now(mask_method(env), info) is not None,
            max_episode_steps=getattr(spec, "max_episode_steps", None),
            render_fps=frame_rate(env),
            step_us=step_us,
        )

    def look_for_agents(self, observation_space, action_space):
        """Says how an environment is trained that may be one of several agents."""
        parts = [parts_of(space) if is_tuple(space) else None for space in (observation_space, action_space)]
        if None in parts or len(parts[0]) != len(parts[1]):
            return
        as_agents = f"`ma:{self.first_message['id']}` has {len(parts[0])} agents, each with an observation, an action and a reward"
        self.say(f"the observations and the actions are Tuples of {len(parts[0])}: as `py:` it is one agent, and {as_agents}")
        self.admission.several_rewards += f"; or, if there is one for each agent, {as_agents}"

    def describe_agents(self):
        """Looks at a parallel environment: its agents, their spaces, and whether it has masks. It is the one that is hosted."""
        env = self.make(1)
        agents, observation_space, action_space = joint_spaces(env)
        infos = env.reset()[1]
        self.made = env
        in_info = any("action_mask" in info for info in infos.values())
        return line(
            agents=[str(agent) for agent in agents],
            observation=space_json(observation_space),
            action=action_json(action_space),
            has_masks=in_info or any(shows_mask(space) for space in observation_space),
            render_fps=frame_rate(env),
        )

    def start(self, slabs):
        memory = mmap.mmap(open_of_parent(self.first_message["parent"], slabs["memory"]), slabs["size"])
        self.host = HOSTS[self.first_message["vectorization"]](
            self.make, memory, slabs, self.first_message["info_keys"], self.admission
        )
        self.caller = self.host.caller
        return line(
            observation=space_json(self.host.observation_space), action=action_json(self.host.action_space)
        )

    def limit(self, steps):
        """Truncates episodes after so many steps, besides what Gymnasium's own limit does."""
        self.host.limit = min(self.host.limit, steps)

    def task(self, task):
        """Hands a task to the copies, as RLlib's TaskSettableEnv takes it."""
        self.host.set_task(task)

    def reset_options(self, options):
        """Hands options to all later resets."""
        self.host.set_reset_options(options)

    def replay(self, episodes, size):
        """Brings copies back to the middle of their episodes: `[row, seed, steps, options]` each, then the actions. Answers
        with the reason of the first one that did not come back, which the next reset begins anew."""
        data = read_exactly(self.inbox, size)
        at, reason = 0, None
        for row, seed, steps, options in episodes:
            try:
                self.host.replay(row, seed, steps, options, data, at)
            except Exception as error:
                reason = reason or str(error) or type(error).__name__
            at += steps * self.host.actions.shape[1] * self.host.actions.dtype.itemsize
        return line(failed=reason)

    def compute_rewards(self, rows, size):
        """The rewards of transitions by the goals that they achieved and those that were desired, in float64 each."""
        import numpy as np

        goals = np.frombuffer(read_exactly(self.inbox, size), "f8").reshape(2, -1)
        rewards = rewards_of(self.host, goals, rows)
        return line(has_goals=False) if rewards is None else line(has_goals=True) + rewards.tobytes()

    def info(self, row, key):
        """A value of the last `info` of a row: arrays become lists, and what JSON does not know becomes a text."""
        text = json.dumps(self.host.info_value(row, key.split("/")), default=as_json, skipkeys=True)
        # Python writes `NaN`, which is no JSON.
        return line(value=json.loads(text, parse_constant=lambda _: None))

    def render(self, row):
        frame = self.host.render(row, "rgb_array")
        if frame is None:
            return line(frame=None, modes=self.render_modes(row))
        import numpy as np

        frame = np.ascontiguousarray(frame)
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise TypeError(
                f"render() gave {frame.dtype} of shape {frame.shape}, but it must be uint8 of shape (height, width, 3)"
            )
        return line(frame=frame.shape[:2]) + frame.tobytes()

    def render_ansi(self, row):
        text = self.host.render(row, "ansi")
        if text is None:
            return line(text=None, modes=self.render_modes(row))
        # Some environments write into a buffer of text.
        return line(text=str(text.getvalue() if hasattr(text, "getvalue") else text))

    def render_modes(self, row):
        return list(self.host.env_of(row).metadata.get("render_modes", []))

    def remarks(self):
        """What was said of observations, rewards and flags so far."""
        return line(remarks=self.admission.remarks)

    def say(self, text):
        """Says something, unless a worker of this program has said it before."""
        said = open_of_parent(self.first_message["parent"], self.first_message["warned"])
        if first_to_say(said, text):
            print(f"pavlov: {text}", file=sys.stderr)
        os.close(said)

    def close(self):
        for env in (self.made, self.host):
            if env is not None:
                self.close_of(env)

    def close_of(self, env):
        """Closes what is not needed any more. What `close` raises is told once, and ends nothing."""
        try:
            env.close()
        except Exception:
            text = f"pavlov: the environment's close() raised, and training goes on:\n{traceback.format_exc()}"
            said = open_of_parent(self.first_message["parent"], self.first_message["warned"])
            if first_to_say(said, text):
                sys.stderr.write(text)
            os.close(said)

    def make(self, num_envs, seed=0):
        if self.made is not None:
            made, self.made = self.made, None
            return made
        said = open_of_parent(self.first_message["parent"], self.first_message["warned"])
        try:
            return made_as(self.first_message, num_envs, seed, said)
        finally:
            os.close(said)


def space_of(env, name):
    """The environment's space of this name, of which nothing can be trained if it is none."""
    import gymnasium

    space = getattr(env, name, None)
    if not isinstance(space, gymnasium.spaces.Space):
        raise TypeError(f"self.{name} of {env} is {space!r}, but it must be a space of gymnasium.spaces; set it in __init__")
    return space


def frame_rate(env):
    """Pictures per second, if the environment says how many."""
    try:
        return float(env.metadata["render_fps"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def step_time(env, info):
    """Microseconds of a step: the median of as many as fit into a twentieth of a second."""
    env.action_space.seed(0)
    times, start, mask_of = [], time.perf_counter(), mask_method(env)
    while len(times) < 3 or time.perf_counter() - start < 0.05:
        action = legal_action(env.action_space, mask_now(mask_of, info))
        before = time.perf_counter()
        _, _, terminated, truncated, info = env.step(action)
        times.append(time.perf_counter() - before)
        if terminated or truncated:
            _, info = env.reset()
    return sorted(times)[len(times) // 2] * 1e6


def legal_action(space, mask):
    import gymnasium
    import numpy as np

    if mask is None or not takes_mask(space):
        return space.sample()
    mask = np.asarray(mask, np.int8)
    if isinstance(space, gymnasium.spaces.Discrete):
        return space.sample(mask)
    return space.sample(tuple(np.split(mask, np.cumsum(np.ravel(space.nvec))[:-1])))


def set_cores(thread, cores):
    try:
        os.sched_setaffinity(thread, cores)
    except OSError:
        pass  # The core is not allowed any more: only speed depends on it.


def read_exactly(fd, size):
    parts = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_line(fd):
    text = b""
    while not text.endswith(b"\n"):
        text += read_exactly(fd, 1)
    return text


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def as_json(value):
    """An array or a numpy number as Python's own; anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def line(**fields):
    return (json.dumps(fields) + "\n").encode()
