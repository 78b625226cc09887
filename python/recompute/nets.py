"""Networks as functions of a dictionary of parameters, with the names of PyTorch's layers."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "linear": lambda x: x, "elu": jax.nn.elu,
               "swish": jax.nn.silu, "silu": jax.nn.silu}


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def depth(p, name):
    """Number of layers `name.0`, `name.1`, ..."""
    count = 0
    while f"{name}.{count}.weight" in p:
        count += 1
    return count


def hidden(p, name, x, activation):
    """The hidden layers `name.0`, `name.1`, ..."""
    for i in range(depth(p, name)):
        x = ACTIVATIONS[activation](linear(p, f"{name}.{i}", x))
    return x


def mlp(p, name, x, activation):
    """Hidden layers and the linear output `name.out`."""
    return linear(p, f"{name}.out", hidden(p, name, x, activation))


def lstm_step(p, name, x, state):
    """Hochreiter and Schmidhuber's cell with forget gates: gates i, f, g, o from one product each."""
    h, c = jnp.split(state, 2)
    gates = (p[f"{name}.weight_ih"] @ x + p[f"{name}.bias_ih"]
             + p[f"{name}.weight_hh"] @ h + p[f"{name}.bias_hh"])
    i, f, g, o = jnp.split(gates, 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return h, jnp.concatenate([h, c])


def gru_step(p, name, x, h):
    """Cho et al.'s cell; the reset gate acts on the product with the old state, bias included."""
    from_x = p[f"{name}.weight_ih"] @ x + p[f"{name}.bias_ih"]
    from_h = p[f"{name}.weight_hh"] @ h + p[f"{name}.bias_hh"]
    xr, xz, xn = jnp.split(from_x, 3)
    hr, hz, hn = jnp.split(from_h, 3)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
    return h, h


def recurrent(p, name, x, resets, lengths, states):
    """The outputs of `name.lstm` or `name.gru` over sequences of these lengths; a reset starts from zeros."""
    cell, step = (f"{name}.lstm", lstm_step) if f"{name}.lstm.weight_ih" in p else (f"{name}.gru", gru_step)
    out, at = [], 0

    for length, state in zip(lengths, states):
        state = jnp.asarray(state)
        for row in range(at, at + length):
            h, state = step(p, cell, x[row], jnp.zeros_like(state) if resets[row] > 0 else state)
            out.append(h)
        at += length
    return jnp.stack(out)


def torso(p, name, x, activation, u):
    """Hidden layers, and the recurrent layer behind them if there is one."""
    x = hidden(p, name, x, activation)
    if any(k.startswith((f"{name}.lstm.", f"{name}.gru.")) for k in p):
        x = recurrent(p, name, x, u.column("resets"), u.sequences["length"], u.sequences["state_in"])
    return x
