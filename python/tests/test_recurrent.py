"""The state of recurrent policies, which the caller keeps."""

import numpy as np
import pytest

import pavlov_rl
from pavlov_rl import PPO, RecurrentPPO

SMALL = {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "seed": 0}
UNITS = {"net_arch": [8], "lstm_hidden_size": 16}


def made(env="CartPole-v1"):
    return RecurrentPPO("MlpLstmPolicy", env, policy_kwargs=UNITS, **SMALL)


def episode(seed, steps=12):
    return np.random.default_rng(seed).normal(size=(steps, 4)).astype(np.float32)


def played(policy, episode):
    """What a policy answers in an episode by itself."""
    state, told = None, []
    for obs in episode:
        action, state = policy.predict(obs, state, deterministic=True)
        told.append((int(action), *(part.tobytes() for part in state)))
    return told


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_state_has_the_shapes_of_sb3_contrib_and_the_numbers_of_pytorch():
    model = made().learn(64)
    obs = episode(0)[:3]
    _, state = model.predict(obs, deterministic=True)
    # RecurrentPPO of sb3-contrib 2.9.2: (n_lstm_layers, n_envs, lstm_hidden_size) for the output and for the cell.
    assert [part.shape for part in state] == [(1, 3, 16)] * 2 and all(part.dtype == np.float32 for part in state)
    assert [part.shape for part in model.predict(obs[0])[1]] == [(1, 1, 16)] * 2
    # The formulas of torch.nn.LSTM: input, forget, cell and output gate.
    found = {name.removeprefix("default_policy.actor."): array for name, array in model.get_parameters()["policy"].items()}
    given = (np.full((1, 3, 16), 0.1, np.float32), np.full((1, 3, 16), -0.2, np.float32))
    _, state = model.predict(obs, given, deterministic=True)
    x = np.tanh(obs @ found["0.weight"].T + found["0.bias"])
    gates = x @ found["lstm.weight_ih"].T + found["lstm.bias_ih"] + given[0][0] @ found["lstm.weight_hh"].T
    i, f, g, o = np.split(gates + found["lstm.bias_hh"], 4, axis=1)
    cell = sigmoid(f) * given[1][0] + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(state[1][0], cell, atol=1e-6)
    np.testing.assert_allclose(state[0][0], sigmoid(o) * np.tanh(cell), atol=1e-6)


def test_two_episodes_that_share_a_model_do_not_mix():
    model = made().learn(64)
    episodes = [episode(seed) for seed in (1, 2)]
    alone = [played(model, each) for each in episodes]
    states, told = [None, None], [[], []]
    for step in range(len(episodes[0])):
        for at in (0, 1):
            action, states[at] = model.predict(episodes[at][step], states[at], deterministic=True)
            told[at].append((int(action), *(part.tobytes() for part in states[at])))
    assert told == alone and alone[0] != alone[1]
    # Rows of one call are episodes of their own, too.
    state = None
    for step in range(len(episodes[0])):
        actions, state = model.predict(np.stack([each[step] for each in episodes]), state, deterministic=True)
        for at in (0, 1):
            assert (int(actions[at]), *(part[:, at : at + 1].tobytes() for part in state)) == alone[at][step]


def test_an_episode_begins_without_a_state_and_where_episode_start_says_so():
    model = made().learn(64)
    obs = episode(3)[:2]
    _, first = model.predict(obs, deterministic=True)
    _, then = model.predict(obs, first, deterministic=True)
    _, again = model.predict(obs, first, np.array([False, False]), deterministic=True)
    _, begun = model.predict(obs, first, np.array([True, False]), deterministic=True)
    assert (then[0] != first[0]).any() and (again[0] == then[0]).all()
    assert (begun[0][0, 0] == first[0][0, 0]).all() and (begun[0][0, 1] == then[0][0, 1]).all()
    zeros = tuple(np.zeros_like(part) for part in first)
    assert (model.predict(obs, zeros, deterministic=True)[1][0] == first[0]).all()


def test_a_saved_policy_takes_and_gives_the_states_of_its_model(tmp_path):
    model = made()
    model.learn(64, out=tmp_path / "run")
    wanted = played(model, episode(4))
    assert played(pavlov_rl.load_policy(tmp_path / "run"), episode(4)) == wanted
    model.save(tmp_path / "model")
    assert played(RecurrentPPO.load(tmp_path / "model"), episode(4)) == wanted


def test_a_state_that_does_not_fit_is_refused():
    model = made()
    obs = episode(0)
    _, state = model.predict(obs[:2])
    for wrong in (state[0], state[:1]):
        with pytest.raises(ValueError, match=r"`state`.*2 of the shape \(1, 2, 16\)"):
            model.predict(obs[:2], wrong)
    with pytest.raises(ValueError, match=r"\(1, 2, 16\), \(1, 2, 16\), but it must have 2 of the shape \(1, 3, 16\)"):
        model.predict(obs[:3], state)
    with pytest.raises(ValueError, match="`episode_start` has 3 entries, but there are 2 rows"):
        model.predict(obs[:2], state, [True, False, True])


def test_the_state_of_a_gated_unit_is_one_array_and_a_policy_without_memory_gives_back_what_it_gets():
    gated = PPO("MlpPolicy", "CartPole-v1", settings={"model": {"use_gru": True, "lstm_cell_size": 12}}, **SMALL)
    _, state = gated.predict(episode(0)[:3])
    assert [part.shape for part in state] == [(1, 3, 12)]
    _, then = gated.predict(episode(0)[:3], state)
    assert (then[0] != state[0]).any()
    plain = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    assert plain.predict(episode(0)[0])[1] is None and plain.predict(episode(0)[0], "mine")[1] == "mine"
