"""One contestant of `bridge.rs`: `python bridge.py KIND ENV_ID NUM_ENVS`. For every line read, plays that many vector
steps and prints seconds and CPU seconds (of this process and those it started)."""

import glob
import sys
import time

import numpy as np

kind, env_id, n = sys.argv[1], sys.argv[2], int(sys.argv[3])


def cpu_seconds(pids):
    """Of all threads alive, from the scheduler's own nanoseconds."""
    tasks = [path for pid in pids for path in glob.glob(f"/proc/{pid}/task/*/schedstat")]
    return sum(int(open(path).read().split()[0]) for path in tasks) / 1e9


pids = ["self"]
if kind == "envpool":
    import envpool

    name = "Pong-v5" if "Pong" in env_id else env_id
    env = envpool.make(name, env_type="gymnasium", num_envs=n, num_threads=2, seed=0)
    space = env.action_space
    actions = [np.array([space.sample() for _ in range(n)]) for _ in range(64)]
else:
    import gymnasium

    if "ALE" in env_id:
        import ale_py

        gymnasium.register_envs(ale_py)
    if kind == "ale":
        from ale_py.vector_env import AtariVectorEnv

        env = AtariVectorEnv("pong", num_envs=n, num_threads=2)
    else:

        def make():
            return gymnasium.make(env_id, disable_env_checker=True)

        vectors = {"sync": gymnasium.vector.SyncVectorEnv, "async": gymnasium.vector.AsyncVectorEnv}
        env = vectors[kind]([make] * n)
        if kind == "async":
            pids += [process.pid for process in env.processes]
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(64)]

if kind == "envpool":
    env.reset()
else:
    env.reset(seed=0)
print("ready", flush=True)
at = 0
for line in sys.stdin:
    cpu, start = cpu_seconds(pids), time.perf_counter()
    for _ in range(int(line)):
        env.step(actions[at % 64])
        at += 1
    print(time.perf_counter() - start, cpu_seconds(pids) - cpu, flush=True)
env.close()
