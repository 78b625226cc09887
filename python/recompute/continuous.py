"""Losses of SAC (Haarnoja 2018, Christodoulou 2019), TQC (Kuznetsov 2020), DDPG (Lillicrap 2016), TD3 (Fujimoto 2018)."""

import jax
import jax.numpy as jnp
import numpy as np

from . import dists, nets
from .q_learning import discount, huber, pick, seen, weights


def critics(p):
    """Names of the critics: those whose layers are in `p`."""
    return sorted({k.split(".")[0] for k in p if k.startswith("q")})


def quantile_huber(q, y):
    """Kuznetsov et al. 2020, section 3: the mean over all pairs of a quantile of `q` and a target `y`, by row."""
    taus = (jnp.arange(q.shape[1]) + 0.5) / q.shape[1]
    u = y[:, None, :] - q[:, :, None]
    return (abs(taus[:, None] - (u < 0)) * huber(u)).mean((1, 2))


def sac(u, p):
    c, target = u.config, {k: jnp.asarray(v) for k, v in u.before.target.items()}
    policy, q_model = c["policy_model_config"], c["q_model_config"]
    width = p["actor.0.weight"].shape[1]
    s, s2 = seen(u, "obs", width), seen(u, "new_obs", width)
    rewards, discounts, w = u.column("rewards"), discount(u), weights(u)
    discrete = u.rows["actions"].dtype.kind != "f"
    actions = u.rows["actions"].reshape(len(rewards), -1)
    mask, next_mask = u.rows.get("action_mask"), u.rows.get("new_action_mask")
    quantiles = c["n_quantiles"]
    dropped = c["top_quantiles_to_drop_per_net"]

    def actor(p, x):
        return nets.mlp(p, "actor", x, policy["fcnet_activation"])

    def q(p, name, x):
        return nets.mlp(p, name, x, q_model["fcnet_activation"])

    def all_q(p, x):
        return jnp.stack([q(p, name, x) for name in critics(p)])

    def act(p, x, noise):
        a, logp = dists.squashed(actor(p, x), u.rows[noise].reshape(actions.shape), low=c["log_std_min"])
        if c["log_prob_epsilon"]:
            exact = jnp.log(1 - a**2)
            logp = logp + (exact - jnp.log(1 - a**2 + c["log_prob_epsilon"])).sum(-1)
        return jnp.concatenate([x, a], 1), logp

    alpha = jnp.exp(p["log_alpha"][0])

    def target_value(now):
        if discrete:
            logp = jax.nn.log_softmax(dists.masked(actor(now, s2), next_mask))
            values = all_q(target, s2).min(0) - alpha * logp
            return rewards[:, None] + discounts[:, None] * (jnp.exp(logp) * values).sum(1, keepdims=True)
        sa2, logp = act(now, s2, "next_noise")
        out = all_q(target, sa2)
        if quantiles > 1:
            pool = jnp.sort(jnp.concatenate(list(out), 1), 1)[:, : len(out) * (quantiles - dropped)]
        else:
            pool = out.min(0)
        return rewards[:, None] + discounts[:, None] * (pool - alpha * logp[:, None])

    y = jax.lax.stop_gradient(target_value(p))

    def taken(p, name):
        if discrete:
            return pick(q(p, name, s), actions[:, 0])[:, None]
        return q(p, name, jnp.concatenate([s, actions], 1))

    def critic(p):
        total, errors = 0.0, []
        for name in critics(p):
            out = taken(p, name)
            if quantiles > 1:
                each = quantile_huber(out, y)
            else:
                each = (huber(out - y) if c["critic_loss"] == "huber" else 0.5 * (out - y) ** 2)[:, 0]
            total = total + c["critic_loss_scale"] * (each * w).mean()
            errors.append(abs(out.mean(1) - y.mean(1)))
        first = taken(p, critics(p)[0])
        return total, {"critic_loss": total, "alpha_value": alpha, "mean_q": first.mean(),
                       "td_errors": sum(errors) / len(errors)}

    def policy_terms(p, fixed):
        """Log-probabilities, the critics' values, and how to average over actions."""
        if discrete:
            logp = jax.nn.log_softmax(dists.masked(actor(p, s), mask))
            return logp, all_q(fixed, s).min(0), lambda x: (jnp.exp(logp) * x).sum(1)
        sa, logp = act(p, s, "noise")
        out = all_q(fixed, sa)
        worth = out.mean((0, 2)) if quantiles > 1 else out.min(0)[:, 0]
        return logp, worth, lambda x: x

    def make_others(fixed):
        def actor_loss(p):
            logp, worth, mean = policy_terms(p, fixed)
            loss = mean(alpha * logp - worth).mean()
            return loss, {"actor_loss": loss}

        def alpha_loss(p):
            logp, _, mean = policy_terms(fixed, fixed)
            if c["target_entropy"] is not None:
                goal = c["target_entropy"]
            elif discrete:
                options = logp.shape[1] if mask is None else mask.sum(1)
                goal = 0.98 * np.log(options)
            else:
                goal = -float(actions.shape[1])
            loss = -(p["log_alpha"][0] * (mean(logp) + goal)).mean()
            return loss, {"alpha_loss": loss}

        return {"actor": actor_loss, "alpha": alpha_loss}

    names = {name: critic for name in critics(p)}
    if c["update_order"] == "critics_first":
        return [names, make_others]
    return [{**names, **make_others(p)}]


def ddpg(u, p):
    c, target = u.config, {k: jnp.asarray(v) for k, v in u.before.target.items()}
    width = p["actor.0.weight"].shape[1]
    s, s2 = seen(u, "obs", width), seen(u, "new_obs", width)
    rewards, discounts, w = u.column("rewards"), discount(u), weights(u)
    actions = u.rows["actions"].reshape(len(rewards), -1)

    def mu(p, x):
        return jnp.tanh(nets.mlp(p, "actor", x, c["actor_hidden_activation"]))

    def q(p, name, x, a):
        return nets.mlp(p, name, jnp.concatenate([x, a], 1), c["critic_hidden_activation"])[:, 0]

    def size(error):
        k = c["huber_threshold"]
        if c["use_huber"]:
            error = jnp.where(abs(error) <= k, 0.5 * error**2, k * (abs(error) - 0.5 * k))
        else:
            error = 0.5 * error**2
        return error * c["critic_loss_scale"]

    a2 = mu(target, s2)
    if c["smooth_target_policy"]:
        noise = u.rows["noise"].reshape(a2.shape) * c["target_noise"]
        a2 = jnp.clip(a2 + jnp.clip(noise, -c["target_noise_clip"], c["target_noise_clip"]), -1, 1)
    y = rewards + discounts * jnp.stack([q(target, name, s2, a2) for name in critics(target)]).min(0)

    def l2(p, prefix):
        return 0.5 * c["l2_reg"] * sum((v**2).sum() for k, v in p.items()
                                       if k.startswith(prefix) and k.endswith("weight"))

    def critic(p):
        total = sum((size(q(p, name, s, actions) - y) * w).mean() for name in critics(p))
        first = q(p, critics(p)[0], s, actions)
        return total + l2(p, "q"), {"critic_loss": total, "mean_q": first.mean(), "min_q": first.min(),
                                    "max_q": first.max(), "td_errors": first - y}

    def make_actor(fixed):
        def actor(p):
            loss = -q(fixed, critics(fixed)[0], s, mu(p, s)).mean()
            return loss + l2(p, "actor"), {"actor_loss": loss}

        return {"actor": actor}

    delay, step = c["policy_delay"], u.learning_step
    apart = c["update_order"] == "critics_first"
    acts = (step + (1 if apart else 0)) % delay == 0
    names = {name: critic for name in critics(p)}
    if not acts:
        return [names]
    return [names, make_actor] if apart else [{**names, **make_actor(p)}]
