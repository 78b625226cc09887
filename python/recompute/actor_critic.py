"""Losses of PPO (Schulman et al. 2017), A2C as its special case, and IMPALA (Espeholt et al. 2018)."""

import jax.numpy as jnp
import numpy as np

from . import dists, nets


def heads(p, u, x, own=None):
    """Parameters of the action distributions, and the critic's values."""
    model = u.config["model"]
    activation = model["fcnet_activation"]
    seen = x if own is None else x[:, :own]
    features = nets.torso(p, "actor", seen, activation, u)
    shared = "critic.0.weight" not in p
    inputs = nets.linear(p, "actor.out", features)
    inputs = dists.masked(inputs, u.rows.get("action_mask"))
    if "actor.log_std" in p:
        inputs = jnp.concatenate([inputs, jnp.broadcast_to(p["actor.log_std"], inputs.shape)], -1)
    values = nets.linear(p, "critic.out", features if shared else nets.torso(p, "critic", x, activation, u))
    return inputs, values[:, 0]


def obs(u):
    return jnp.asarray(u.rows["obs"].reshape(len(u.rows["obs"]), -1).astype(np.float64))


def own_width(u, p):
    """Number of leading components of an observation that the actor sees, if the critic sees more."""
    width = u.rows["obs"].reshape(len(u.rows["obs"]), -1).shape[1]
    actor = p["actor.0.weight"].shape[1]
    return actor if actor < width else None


def encoded(u):
    """Observations as the network sees them: discrete ones as one-hot rows."""
    column = u.rows["obs"]
    width = max(u.before.weights[k].shape[1] for k in ("actor.0.weight", "critic.0.weight") if k in u.before.weights)
    if column.dtype.kind in "iu" and column.reshape(len(column), -1).shape[1] == 1 and width > 1:
        return jnp.asarray(np.eye(width)[column.reshape(-1)])
    return obs(u)


def explained(targets, values):
    return 1 - np.var(targets - values) / np.var(targets)


def ppo(u, p):
    """Equations 7 and 9 of the paper, with Ray's value clips and KL penalty. Returns loss function and groups."""
    c, values_now = u.config, u.info["values"]
    clip, entropy_coeff = values_now["clip_param"], values_now["entropy_coeff"]
    kl_coeff = u.before.values["kl_coeff"]
    x, own = encoded(u), own_width(u, p)
    actions, old_logp = u.rows["actions"], u.column("action_logp")
    advantages, targets = u.column("advantages"), u.column("value_targets")
    kind = c["normalize_advantages"]
    if kind == "minibatch":
        advantages = (advantages - advantages.mean()) / max(advantages.std(), 1e-4)
    elif kind == "minibatch_sample" and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)

    def loss(p):
        inputs, v = heads(p, u, x, own)
        pi = dists.of(actions, inputs.shape[1], None)
        log_ratio = pi.logp(inputs, actions) - old_logp
        ratio = jnp.exp(log_ratio)
        policy = -jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages).mean()
        bound, error = c["vf_clip_param"], (v - targets) ** 2
        if c["vf_clip"] == "squared_error":
            error = jnp.minimum(error, bound)
        elif c["vf_clip"] in ("around_old", "clipped"):
            old = u.column("vf_preds")
            near = (old + jnp.clip(v - old, -bound, bound) - targets) ** 2
            error = near if c["vf_clip"] == "clipped" else jnp.maximum(error, near)
        entropy = pi.entropy(inputs).mean()
        total = policy + c["vf_loss_coeff"] * error.mean() - entropy_coeff * entropy
        if c["kl_coeff"] > 0:
            kl = pi.kl(jnp.asarray(u.rows["action_dist_inputs"]), inputs).mean()
            total = total + kl_coeff * kl
        else:
            kl = (ratio - 1 - log_ratio).mean()
        stats = {
            "total_loss": total, "policy_loss": policy, "vf_loss": error.mean(), "entropy": entropy, "kl": kl,
            "clip_fraction": (abs(ratio - 1) > clip).mean(),
        }
        # Means of a minibatch of sequences divide by its share of the rows, so that a row's weight does not depend on the
        # lengths of the others.
        return total * len(advantages) / u.info["mean_rows"], stats

    return [{"all": loss}]


def impala(u, p):
    """Section 4.2 of the paper, summed over the batch, whose V-trace columns are recomputed by `vtrace`."""
    c = u.config
    entropy_coeff = u.info["values"]["entropy_coeff"]
    x, own = encoded(u), own_width(u, p)
    actions, advantages, targets = u.rows["actions"], u.column("advantages"), u.column("value_targets")

    def loss(p):
        inputs, v = heads(p, u, x, own)
        pi = dists.of(actions, inputs.shape[1], None)
        policy = -(pi.logp(inputs, actions) * advantages).sum()
        vf = 0.5 * ((v - targets) ** 2).sum()
        entropy = pi.entropy(inputs).sum()
        total = policy + c["vf_loss_coeff"] * vf - entropy_coeff * entropy
        rows = len(actions)
        stats = {"total_loss": total / rows, "policy_loss": policy / rows, "vf_loss": vf / rows,
                 "entropy": entropy / rows}
        return total, stats

    return [{"all": loss}]


def vtrace(u, p):
    """Advantages and value targets of V-trace (equations 1 to 4) by the weights `p`: largest relative differences."""
    if u.info["trajectories"] is None or u.sequences:
        return None
    x, own = encoded(u), own_width(u, p)
    inputs, v = heads(p, u, x, own)
    pi = dists.of(u.rows["actions"], inputs.shape[1], None)
    rho = np.exp(np.asarray(pi.logp(inputs, u.rows["actions"])) - u.column("action_logp"))
    v, rewards = np.asarray(v), u.column("rewards")
    clip, clip_pg = u.config["vtrace_clip_rho_threshold"], u.config["vtrace_clip_pg_rho_threshold"]
    gamma = u.config["gamma"]
    behind = []
    if u.behind:
        rows = dict(u.behind)
        other = type(u)(u.name, u.info, rows, {}, {}, u.before, u.after, u.config)
        behind = list(np.asarray(heads(p, other, encoded(other), own)[1]))
    vs, advantages, cut = np.zeros(len(v)), np.zeros(len(v)), 0
    for piece in u.info["trajectories"]:
        first, last = piece["start"], piece["start"] + piece["len"] - 1
        if piece["terminated"]:
            after = 0.0
        else:
            after, cut = behind[cut], cut + 1
        next_v, next_vs = after, after
        for t in range(last, first - 1, -1):
            delta = min(rho[t], clip) * (rewards[t] + gamma * next_v - v[t])
            vs[t] = v[t] + delta + gamma * min(rho[t], 1.0) * (next_vs - next_v)
            advantages[t] = min(rho[t], clip_pg) * (rewards[t] + gamma * next_vs - v[t])
            next_v, next_vs = v[t], vs[t]
    return {"advantages": advantages, "value_targets": vs}
