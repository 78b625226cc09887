"""Steps of native vectors beside Gymnasium's own and EnvPool's, one line each.

    python benches/vector.py [SECONDS]

Random actions that were drawn before; steps of all copies per second of processor time of all threads, the best of three
rounds in turn. EnvPool has one thread, and is left out where it is not installed.
"""

import sys
import time
from collections.abc import Callable

import gymnasium
import numpy as np

import pavlov_rl  # noqa: F401 (it registers its ids)

try:
    import envpool
except ImportError:
    envpool = None

COPIES = {"CartPole-v1": (1, 8, 64, 1024), "Pendulum-v1": (64,), "FrozenLake-v1": (64,), "LunarLander-v3": (1, 8, 64)}
ROWS = 64


def vector(id, copies, **settings):
    env = gymnasium.make_vec(id, num_envs=copies, **settings)
    return env, env.single_action_space


def from_envpool(id, copies):
    env = envpool.make_gymnasium(id, num_envs=copies, num_threads=1, seed=0)
    return env, env.action_space


def contestant(make: Callable, copies: int) -> Callable[[float], float]:
    """Steps for so many seconds, and gives the rate."""
    env, space = make()
    rng = np.random.default_rng(0)
    if isinstance(space, gymnasium.spaces.Box):
        rows = rng.uniform(space.low, space.high, (ROWS, copies, *space.shape)).astype(np.float32)
    else:
        rows = rng.integers(0, space.n, (ROWS, copies), dtype=space.dtype)
    env.reset()

    def rate(seconds: float) -> float:
        start, steps = time.process_time(), 0
        while (elapsed := time.process_time() - start) < seconds:
            for row in rows:
                env.step(row)
            steps += ROWS * copies
        return steps / elapsed

    return rate


def single(id, seconds):
    """Steps of one `gymnasium.Env` per second of processor time."""
    env = gymnasium.make(id)
    env.action_space.seed(0)
    acts = [env.action_space.sample() for _ in range(1000)]
    env.reset(seed=0)
    start, steps = time.process_time(), 0
    while (elapsed := time.process_time() - start) < seconds:
        for act in acts:
            *_, terminated, truncated, _ = env.step(act)
            if terminated or truncated:
                env.reset()
        steps += len(acts)
    return steps / elapsed


def shown(rates: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {max(rate) / 1e3:,.0f}" for name, rate in rates.items())


def main(seconds: float) -> None:
    print("thousand steps per second of processor time")
    for id, numbers in COPIES.items():
        native = f"pavlov/{id}"
        for copies in numbers:
            makers = {
                "pavlov": lambda: vector(native, copies),
                "without a copy of the arrays": lambda: vector(native, copies, copy=False),
                "NEXT_STEP": lambda: vector(native, copies, autoreset_mode="NextStep"),
                "Gymnasium's SyncVectorEnv": lambda: vector(id, copies, vectorization_mode="sync"),
            }
            if gymnasium.spec(id).vector_entry_point:
                own = lambda: vector(id, copies, vectorization_mode="vector_entry_point")
                makers["Gymnasium's own vector"] = own
            if envpool is not None:
                makers["EnvPool"] = lambda: from_envpool(id, copies)
            contestants = {name: contestant(make, copies) for name, make in makers.items()}
            rates: dict[str, list[float]] = {name: [] for name in contestants}
            for _ in range(3):
                for name, rate in contestants.items():
                    rates[name].append(rate(seconds))
            print(f"{id}, {copies} copies: {shown(rates)}", flush=True)
    for id in COPIES:
        rates = {"pavlov": [], "Gymnasium": []}
        for _ in range(3):
            rates["pavlov"].append(single(f"pavlov/{id}", seconds))
            rates["Gymnasium"].append(single(id, seconds))
        print(f"{id}, one gymnasium.Env: {shown(rates)}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.3)
