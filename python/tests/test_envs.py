"""What Gymnasium's environments do not have, and what is refused."""

import gc
import os
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import pavlov_rl


def random_steps(env, steps, seed=0):
    """What the steps gave, as bytes."""
    env.action_space.seed(seed)
    seen = []
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append((np.asarray(obs).tobytes(), np.asarray(reward).tobytes(), terminated, truncated))
        if np.ndim(terminated) == 0 and (terminated or truncated):
            seen.append(np.asarray(env.reset()[0]).tobytes())
    return [tuple(np.asarray(part).tobytes() for part in each) for each in seen]


@pytest.mark.parametrize("id", ["CartPole-v1", "LunarLander-v3", "Taxi-v4", "PixelPong-v0", "BipedalWalker-v3"])
def test_a_saved_state_goes_on_as_the_original_did(id):
    env = gymnasium.make(f"pavlov/{id}").unwrapped
    env.reset(seed=0)
    random_steps(env, 60)
    state = env.save_state()
    expected = random_steps(env, 60, seed=1)
    assert isinstance(state, bytes)
    for other in (env, gymnasium.make(f"pavlov/{id}").unwrapped):
        other.load_state(state)
        assert random_steps(other, 60, seed=1) == expected


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_saved_vector_goes_on_as_the_original_did(mode):
    def make():
        return gymnasium.make_vec("pavlov/CartPole-v1", num_envs=6, autoreset_mode=mode)

    env = make()
    env.reset(seed=0)
    env.action_space.seed(0)
    while True:
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if (terminated | truncated).any():
            break
    # In the middle of ends: those copies have yet to be reset.
    state = env.save_state()
    others = [env, make()]
    futures = []
    for other in others:
        assert other.load_state(state).tobytes() == obs.tobytes()
        if mode == AutoresetMode.DISABLED:
            other.reset(options={"reset_mask": terminated | truncated})
            other.autoreset = False
            actions = np.zeros(6, np.int64)
            futures.append([other.step(actions)[0].tobytes()])
        else:
            futures.append(random_steps(other, 50))
    assert futures[0] == futures[1]


def test_states_of_something_else_and_damaged_ones_are_refused():
    pole = gymnasium.make("pavlov/CartPole-v1").unwrapped
    with pytest.raises(pavlov_rl.StateError, match="call `reset` first"):
        pole.save_state()
    pole.reset(seed=0)
    state = pole.save_state()
    with pytest.raises(pavlov_rl.StateError, match="of CartPole-v1 .* but this is LunarLander-v3"):
        gymnasium.make("pavlov/LunarLander-v3").unwrapped.load_state(state)
    for damaged in (b"", state[:-1], state + b"x", b"\xff" * 200, state[:40] + b"\xff" * 60 + state[100:]):
        with pytest.raises(pavlov_rl.StateError):
            pole.load_state(damaged)
    pole.reset(seed=0)
    pole.step(0)


def test_threads_change_no_bit():
    def play(threads):
        env = gymnasium.make_vec("pavlov/LunarLander-v3", num_envs=7, threads=threads)
        env.reset(seed=3)
        return random_steps(env, 200)

    assert play(1) == play(3)


def test_different_environments_step_in_different_threads_at_once():
    envs = [gymnasium.make_vec("pavlov/LunarLander-v3", num_envs=4) for _ in range(4)]
    seen = [None] * 4

    def play(i):
        envs[i].reset(seed=0)
        seen[i] = random_steps(envs[i], 100)

    threads = [threading.Thread(target=play, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == seen[0] for each in seen)


def test_a_fork_is_noticed_where_threads_are_gone():
    env = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=4, threads=2)
    env.reset(seed=0)
    child = os.fork()
    if child == 0:
        try:
            env.step(np.zeros(4, np.int64))
        except pavlov_rl.ConfigError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_arrays_without_a_copy_are_the_memory_that_outlives_the_environment():
    env = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=4, copy=False)
    obs, _ = env.reset(seed=0)
    first = obs.copy()
    again, *_ = env.step(np.zeros(4, np.int64))
    assert again is obs and not np.array_equal(obs, first)
    with pytest.raises(ValueError, match="read-only"):
        obs[0, 0] = 1.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        obs.flags.writeable = True
    del env
    gc.collect()
    assert np.isfinite(obs).all()


def test_copied_arrays_are_the_callers():
    env = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=4)
    obs, _ = env.reset(seed=0)
    kept = obs.copy()
    env.step(np.zeros(4, np.int64))
    assert np.array_equal(obs, kept)
    obs[...] = 0


def test_composite_observations_are_batched_part_by_part():
    env = gymnasium.make_vec("pavlov/MiniGrid-DoorKey-5x5-v0", num_envs=3)
    obs, _ = env.reset(seed=0)
    assert obs["image"].shape == (3, 7, 7, 3) and obs["image"].dtype == np.uint8
    assert obs in env.observation_space
    env.action_space.seed(0)
    for _ in range(300):
        obs, *_, infos = env.step(env.action_space.sample())
        assert obs in env.observation_space
        if "final_obs" in infos:
            copy = int(np.flatnonzero(infos["_final_obs"])[0])
            assert infos["final_obs"][copy] in env.single_observation_space
            break
    else:
        pytest.fail("no episode ended")


def test_masks_are_where_maskable_policies_look_for_them():
    env = gymnasium.make("pavlov/Taxi-v4").unwrapped
    with pytest.raises(pavlov_rl.ResetNeededError, match="call `reset` first"):
        env.action_masks()
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    assert np.array_equal(env.action_masks(), info["action_mask"].astype(bool))
    envs = gymnasium.make_vec("pavlov/Taxi-v4", num_envs=3)
    _, infos = envs.reset(seed=0)
    assert np.array_equal(envs.action_masks(), infos["action_mask"]) and infos["action_mask"].shape == (3, 6)


def test_the_last_picture_of_an_episode_shows_its_end():
    env = gymnasium.make("pavlov/CartPole-v1", render_mode="rgb_array")
    real = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=0)
    real.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = env.step(1)
        real.step(1)
        ended = terminated or truncated
    ours, theirs = env.render().astype(int), real.render().astype(int)
    # Edges are drawn by another library; a pole that stands upright again would differ in far more pixels.
    assert ours.shape == theirs.shape and (np.abs(ours - theirs).max(axis=2) > 60).mean() < 0.002


def test_texts_equal_gymnasiums():
    for id in ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1"):
        ours, theirs = (gymnasium.make(name, render_mode="ansi") for name in (f"pavlov/{id}", id))
        ours.reset(seed=1)
        theirs.reset(seed=1)
        for action in (0, 1, 1, 2, 0, 3):
            ended = ours.step(action)[2]
            theirs.step(action)
            assert ours.render() == theirs.render(), id
            if ended:
                ours.reset()
                theirs.reset()


def test_vectors_draw_every_copy():
    env = gymnasium.make_vec("pavlov/MountainCar-v0", num_envs=2, render_mode="rgb_array")
    env.reset(seed=0)
    pictures = env.render()
    assert len(pictures) == 2 and pictures[0].dtype == np.uint8 and pictures[0].shape[2] == 3


def test_errors_say_what_is_wrong_and_what_to_do():
    def fails(kind, match, work):
        with pytest.raises(kind, match=match) as caught:
            work()
        assert isinstance(caught.value, pavlov_rl.PavlovError)

    vector = lambda id, **settings: pavlov_rl.VectorEnv(id, 2, **settings)
    fails(KeyError, 'no native environment "CartPol-v1"; nearest: "CartPole-v1"', lambda: vector("CartPol-v1"))
    fails(KeyError, "no native environment", lambda: vector("py:CartPole-v1"))
    fails(ValueError, "several agents.*parallel_env", lambda: vector("simple_spread_v3"))
    fails(TypeError, "unexpected keyword argument .is_slipery.; nearest: `is_slippery`", lambda: vector("FrozenLake-v1", is_slipery=1))
    fails(ValueError, "of type object; settings are numbers", lambda: vector("FrozenLake-v1", desc=object()))
    fails(ValueError, "`num_envs` is 0", lambda: pavlov_rl.VectorEnv("CartPole-v1", 0))
    fails(ValueError, "`num_envs` is 100000000000", lambda: pavlov_rl.VectorEnv("CartPole-v1", 10**11))
    fails(ValueError, "`threads` is 3, but it must be in 1..=2", lambda: vector("CartPole-v1", threads=3))
    fails(ValueError, "`max_episode_steps` is 501", lambda: vector("CartPole-v1", max_episode_steps=501))
    fails(ValueError, "`autoreset_mode` is 'never'", lambda: vector("CartPole-v1", autoreset_mode="never"))
    fails(ValueError, "`render_mode` is 'ansi', but CartPole-v1 has 'rgb_array'", lambda: vector("CartPole-v1", render_mode="ansi"))
    env = vector("CartPole-v1")
    fails(gymnasium.error.ResetNeeded, "call `reset` first", lambda: env.step([0, 1]))
    fails(ValueError, "`seed` has 1 entries for 2 copies", lambda: env.reset(seed=[1]))
    fails(ValueError, "`seed` is None for some copies", lambda: env.reset(seed=[1, None]))
    fails(ValueError, "reset_mask.*copies are reset together", lambda: env.reset(options={"reset_mask": np.array([True, False])}))
    fails(ValueError, '"lo", but it must be one of CartPole: low, high', lambda: env.reset(options={"lo": 0.0}))
    assert (env.reset(options={"low": 0.25, "high": 0.25})[0] == 0.25).all()
    assert (abs(env.reset()[0]) <= 0.05).all()
    env.reset(seed=0)
    fails(ValueError, "action 7 is not in Discrete", lambda: env.step(np.array([0, 7])))
    fails(ValueError, r"`actions` has shape \(3,\), but it must be \(2,\)", lambda: env.step([0, 1, 1]))
    fails(ValueError, "`actions` is of float64, but it must be of int64", lambda: env.step([0.0, 1.0]))
    env.step([0, 1])
    one = gymnasium.make("pavlov/CartPole-v1").unwrapped
    fails(gymnasium.error.ResetNeeded, "call `reset` first", lambda: one.step(0))
    one.reset(seed=0)
    fails(ValueError, "the action is 0.5, but it must be an integer in Discrete", lambda: one.step(0.5))
    fails(ValueError, "action 2 is not in Discrete", lambda: one.step(2))
    while not one.step(0)[2]:
        pass
    fails(gymnasium.error.ResetNeeded, "the episode has ended; call `reset`", lambda: one.step(0))
    swing = gymnasium.make("pavlov/Pendulum-v1").unwrapped
    swing.reset(seed=0)
    fails(ValueError, r"shape \(2,\), but it must be \(1,\)", lambda: swing.step([0.0, 0.0]))
    fails(ValueError, "NaN", lambda: swing.step([float("nan")]))


def test_episodes_can_be_cut_sooner():
    env = gymnasium.make_vec("pavlov/MountainCar-v0", num_envs=2, max_episode_steps=5)
    env.reset(seed=0)
    assert [bool(env.step([1, 1])[3][0]) for _ in range(6)] == [False] * 4 + [True, False]
    one = gymnasium.make("pavlov/MountainCar-v0", max_episode_steps=5)
    one.reset(seed=0)
    assert [one.step(1)[3] for _ in range(5)] == [False] * 4 + [True]


def test_gymnasiums_wrappers_stand_around_a_vector():
    env = gymnasium.make_vec("pavlov/CartPole-v1", num_envs=8, autoreset_mode=AutoresetMode.NEXT_STEP)
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    env = gymnasium.wrappers.vector.NormalizeObservation(env)
    env.reset(seed=0)
    lengths = []
    for _ in range(200):
        infos = env.step(env.action_space.sample())[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert len(lengths) > 20 and all(length >= 8 for length in lengths)


def test_the_package_needs_neither_pettingzoo_nor_anything_beyond_gymnasium_and_numpy():
    code = """
import sys
for name in ("pettingzoo", "pygame", "mujoco", "minigrid"):
    sys.modules[name] = None
import pavlov_rl, gymnasium
env = gymnasium.make("pavlov/LunarLander-v3", render_mode="rgb_array")
env.reset(seed=0); env.step(0); env.render()
try:
    pavlov_rl.parallel_env("simple_spread")
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == '`parallel_env` needs PettingZoo: pip install "pavlov-rl[pettingzoo]"'
