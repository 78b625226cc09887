"""Losses of DQN with its extensions (Mnih 2015, van Hasselt 2016, Wang 2016, Bellemare 2017) and of QMIX and VDN."""

import jax
import jax.numpy as jnp
import numpy as np

from . import dists, nets


def weights(u):
    return u.column("weights") if "weights" in u.rows else np.ones(u.info["rows"])


def discount(u):
    """The factor of the next value: gamma to the power of the steps until then, 0 after the end of the task."""
    return u.column("discounts") * (1 - u.column("terminated"))


def seen(u, name, width):
    """Observations as the network sees them: discrete ones as one-hot rows."""
    column = u.rows[name]
    flat = column.reshape(len(column), -1)
    if column.dtype.kind in "iu" and flat.shape[1] == 1 and width > 1:
        return jnp.asarray(np.eye(width)[flat[:, 0]])
    return jnp.asarray(flat.astype(np.float64))


def huber(x):
    return jnp.where(abs(x) <= 1, 0.5 * x**2, abs(x) - 0.5)


def pick(table, index):
    return jnp.take_along_axis(table, index.reshape(-1, 1).astype(int), 1)[:, 0]


def dqn(u, p):
    """Double, dueling and distributional Q-learning; n steps are in the rows' rewards and discounts."""
    c, target = u.config, {k: jnp.asarray(v) for k, v in u.before.target.items()}
    width = p["model.0.weight"].shape[1] if "model.0.weight" in p else None
    s, s2 = seen(u, "obs", width or 2), seen(u, "new_obs", width or 2)
    rewards, discounts, w = u.column("rewards"), discount(u), weights(u)
    actions = u.column("actions").astype(int)
    atoms = c["num_atoms"]
    legal = u.rows.get("new_action_mask")

    def head(p, name, x):
        layers = nets.depth(p, name)
        for i in range(layers):
            x = nets.linear(p, f"{name}.{i}", x)
            x = jax.nn.relu(x) if i + 1 < layers else x
        return x

    def logits(p, x):
        """Logits of all atoms, `[rows, actions, atoms]`; values with one atom."""
        f = nets.torso(p, "model", x, c["model"]["fcnet_activation"], u)
        a = head(p, "advantage", f)
        a = a.reshape(len(a), -1, atoms)
        if not c["dueling"]:
            return a
        return head(p, "value", f)[:, None, :] + a - a.mean(1, keepdims=True)

    support = jnp.linspace(c["v_min"], c["v_max"], atoms) if atoms > 1 else jnp.ones(1)

    def q(out):
        return out[..., 0] if atoms == 1 else (jax.nn.softmax(out) * support).sum(-1)

    def loss(p):
        out, next_target = logits(p, s), logits(target, s2)
        chooser = q(logits(frozen, s2)) if c["double_q"] else q(next_target)
        best = jnp.argmax(dists.masked(chooser, legal), 1)
        taken = q(out)[jnp.arange(len(actions)), actions]
        if atoms == 1:
            y = rewards + discounts * pick(q(next_target), best)
            error = taken - y
            each = huber(error)
        else:
            probabilities = jax.nn.softmax(next_target[jnp.arange(len(actions)), best])
            moved = jnp.clip(rewards[:, None] + discounts[:, None] * support, c["v_min"], c["v_max"])
            place = (moved - c["v_min"]) / (support[1] - support[0])
            share = jnp.clip(1 - abs(place[:, :, None] - jnp.arange(atoms)), 0, 1)
            m = (share * probabilities[:, :, None]).sum(1)
            each = -(m * jax.nn.log_softmax(out[jnp.arange(len(actions)), actions])).sum(-1)
            error = each
        total = (each * w).mean()
        return total, {"loss": total, "mean_q": taken.mean(), "min_q": taken.min(), "max_q": taken.max(),
                       "td_errors": error}

    frozen = {k: jax.lax.stop_gradient(v) for k, v in p.items()}
    return [{"all": loss}]


def qmix(u, p):
    """Rashid et al. 2018, equation 6, with figure 2's mixing network; VDN adds the members' values."""
    c, target = u.config, {k: jnp.asarray(v) for k, v in u.before.target.items()}
    s, s2 = seen(u, "obs", 1), seen(u, "new_obs", 1)
    rewards, discounts, w = u.column("rewards"), discount(u), weights(u)
    actions = u.rows["actions"].reshape(len(rewards), -1).astype(int)
    members = actions.shape[1]
    legal = u.rows.get("new_action_mask")
    activation = c["model"]["fcnet_activation"]

    def agents(p, x):
        """Values of every member's actions, `[rows, members, actions]`."""
        x = x.reshape(len(x), members, -1)
        layers = nets.depth(p, "agent")
        for i in range(layers):
            x = nets.linear(p, f"agent.{i}", x)
            x = nets.ACTIVATIONS[activation](x) if i + 1 < layers else x
        return x

    def mixed(p, x, q):
        if c["mixer"] is None:
            return q
        if c["mixer"] == "vdn":
            return q.sum(1, keepdims=True)
        w1 = abs(nets.linear(p, "mixer.w1", x)).reshape(len(x), members, -1)
        hidden = jax.nn.elu((w1 * q[:, :, None]).sum(1) + nets.linear(p, "mixer.b1", x))
        b2 = nets.linear(p, "mixer.b2.1", jax.nn.relu(nets.linear(p, "mixer.b2.0", x)))
        return (hidden * abs(nets.linear(p, "mixer.w2", x))).sum(1, keepdims=True) + b2

    def loss(p):
        next_q = agents(target, s2)
        chooser = agents(frozen, s2) if c["double_q"] else next_q
        if legal is not None:
            chooser = dists.masked(chooser, legal.reshape(chooser.shape))
        best = jnp.argmax(chooser, -1)
        y = mixed(target, s2, jnp.take_along_axis(next_q, best[..., None], -1)[..., 0])
        q = mixed(p, s, jnp.take_along_axis(agents(p, s), actions[..., None], -1)[..., 0])
        error = q - (rewards[:, None] + discounts[:, None] * y)
        total = ((error**2).mean(1) * w).mean()
        taken = q.mean(1)
        return total, {"loss": total, "mean_q": taken.mean(), "min_q": taken.min(), "max_q": taken.max(),
                       "td_errors": error.mean(1)}

    frozen = {k: jax.lax.stop_gradient(v) for k, v in p.items()}
    return [{"all": loss}]
