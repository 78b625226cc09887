"""Compares every logged learning step of a run with its recomputation: loss, gradient norm, weights, targets."""

import sys
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from . import actor_critic, continuous, optimizers, q_learning
from .rows import updates

ALGORITHMS = {
    "PPO": actor_critic.ppo,
    "IMPALA": actor_critic.impala,
    "DQN": q_learning.dqn,
    "QMIX": q_learning.qmix,
    "SAC": continuous.sac,
    "DDPG": continuous.ddpg,
    "TD3": continuous.ddpg,
}

#: Largest relative difference of loss, gradient norm, targets and weights that counts as agreement.
TOLERANCE = 1e-5

#: Roundings of single precision that a gradient may collect on its way, relative to the largest gradient of its
#: parameter: 64 units in the last place. Adam turns them into steps of any size where a gradient is near 0, so the
#: steps of the gradient a little larger and a little smaller bound what rounding alone can do to a weight.
ROUNDING = 64 * 2.0**-24


@dataclass
class Result:
    """Differences of one learning step, and what was not recomputed."""

    name: str
    differences: dict = field(default_factory=dict)
    left_out: list = field(default_factory=list)

    @property
    def agrees(self):
        return bool(self.differences) and all(d <= TOLERANCE for d in self.differences.values())


def not_recomputed(u):
    """Why a learning step cannot be recomputed; an empty list if it can."""
    why = []
    if u.info["algorithm"] not in ALGORITHMS:
        why.append(f"the algorithm {u.info['algorithm']}")
    names = u.before.weights
    if any("sigma_weight" in k for k in names):
        why.append("noisy layers")
    if any(".conv" in k for k in names):
        why.append("convolutions")
    for key in ("policy_model_config", "q_model_config"):
        settings = u.config.get(key) or {}
        if settings.get("layer_norm") or settings.get("architecture", "mlp") != "mlp":
            why.append(f"{key} with layer norm or residual blocks")
    if (u.config.get("model") or {}).get("post_fcnet_hiddens"):
        why.append("post_fcnet_hiddens")
    return why


def relative(mine, theirs, floor):
    return float(abs(mine - theirs) / max(abs(theirs), floor))


class Referee:
    """Recomputes the learning steps of one policy in order; it keeps the moments of optimizers itself."""

    def __init__(self):
        self.moments = {}
        self.next_step = 0
        self.last = None

    def check(self, u):
        result = Result(u.name, left_out=not_recomputed(u))
        if result.left_out:
            return result
        if u.learning_step != self.next_step:
            result.left_out.append("weights: the optimizer's steps before the first logged one are not known")
        self.check_target(u, result)
        self.check_columns(u, result)
        p = {k: jnp.asarray(v) for k, v in u.before.weights.items()}
        start = p
        norms, stats, floors = {}, {}, {}
        stages = ALGORITHMS[u.info["algorithm"]](u, p)
        for stage in stages:
            losses = stage(p) if callable(stage) else stage
            moved = dict(p)
            for group, loss in losses.items():
                (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(p)
                stats |= {k: np.asarray(v) for k, v in found.items()}
                own = {k: np.asarray(g) for k, g in gradient.items() if group == "all" or belongs(k, group)}
                norms[group] = optimizers.norm(own)
                if not u.info["stop"]:
                    after, floor = self.step(u, group, {k: np.asarray(p[k]) for k in own}, own)
                    moved |= {k: jnp.asarray(v) for k, v in after.items()}
                    floors |= floor
            p = moved
        self.next_step = u.after.values["learning_steps"]
        self.last = u
        self.compare(u, result, stats, norms)
        if not any(w.startswith("weights") for w in result.left_out):
            result.differences["weights"] = weights_differ(u, start, p, floors)
        return result

    def step(self, u, group, p, gradient):
        """The parameters of a group after its optimizer's step, and what rounding alone may change of them."""
        c, values = u.config, u.info["values"]
        limit = c.get("grad_clip")
        lr = values.get("cur_lr", values.get(f"{group}_lr"))
        saved = u.before.values["optimizer"]
        rule = (saved if "config" in saved else saved[group])["config"]
        clipped = optimizers.clipped(gradient, limit)
        rounding = {k: ROUNDING * abs(g).max() * (g != 0) for k, g in clipped.items()}
        versions = []
        for sign in (0, 1, -1):
            moved, moments = {}, self.moments.setdefault((group, sign), {})
            for k, g in clipped.items():
                moved[k], moments[k] = apply(rule, p[k], g + sign * rounding[k], moments.get(k), lr)
            versions.append(moved)
        exact, above, below = versions
        floor = {k: abs(above[k] - below[k]) + 2.0**-23 * abs(exact[k]) for k in exact}
        return exact, floor

    def compare(self, u, result, stats, norms):
        theirs = u.info["statistics"]
        td = stats.pop("td_errors", None)
        if td is not None and "td_errors" in u.after.arrays:
            saved = u.after.arrays["td_errors"].astype(np.float64).reshape(-1)
            scale = max(abs(saved).max(), 1.0)
            result.differences["td errors"] = float(abs(td - saved).max() / scale)
        # Losses are means of terms of about 1 that may cancel out: single precision has 1e-7 of a term.
        pairs = [(float(m), theirs[k]) for k, m in stats.items() if theirs.get(k) is not None]
        result.differences["loss"] = max((relative(m, t, 0.1) for m, t in pairs), default=float("nan"))
        reported = {"all": "grad_gnorm", **{g: f"{g}_grad_gnorm" for g in norms if g != "all"}}
        pairs = [(n, theirs[reported[g]]) for g, n in norms.items() if theirs.get(reported[g]) is not None]
        if pairs:
            result.differences["gradient norm"] = max(relative(n, t, 1e-3) for n, t in pairs)

    def check_target(self, u, result):
        """Between two learning steps the target copy stays, or moves towards the weights after the first."""
        if self.last is None or not u.before.target:
            return
        old, new, online = self.last.after.target, u.before.target, self.last.after.weights
        tau = u.config.get("tau", 1.0)
        stays = max(abs(new[k] - old[k]).max() for k in new)
        moves = max((abs(new[k] - (old[k] + tau * (online[k] - old[k]))).max() / max(abs(online[k]).max(), 1e-3))
                    for k in new)
        result.differences["target copy"] = float(0.0 if stays == 0 else moves)

    def check_columns(self, u, result):
        """V-trace from the rows, while the weights are those that the columns were computed with."""
        if u.info["algorithm"] != "IMPALA":
            return
        if u.config["num_sgd_iter"] > 1 or u.config["minibatch_buffer_size"] > 1:
            result.left_out.append("V-trace of a batch that is used several times")
            return
        mine = actor_critic.vtrace(u, {k: jnp.asarray(v) for k, v in u.before.weights.items()})
        if mine is None:
            result.left_out.append("V-trace of recurrent policies")
            return
        result.differences["targets"] = max(
            float(abs(column - u.column(name)).max() / max(abs(u.column(name)).max(), 1.0))
            for name, column in mine.items())


def belongs(name, group):
    return name == "log_alpha" if group == "alpha" else name.split(".")[0] == group


def apply(rule, p, g, moments, lr):
    """One step of the optimizer `rule` (its saved settings) and its new moments `(steps, first, second, buffer)`."""
    steps, first, second, buffer = moments or (0, np.zeros_like(p), np.zeros_like(p), np.zeros_like(p))
    if rule["type"] == "rmsprop":
        alpha, eps, momentum = rule["alpha"], rule["eps"], rule["momentum"]
        new = optimizers.rmsprop(p, g, second, lr, eps, alpha, momentum, buffer)
        second = alpha * second + (1 - alpha) * g**2
        buffer = momentum * buffer + g / (np.sqrt(second) + eps)
        return new, (steps + 1, first, second, buffer)
    b1, b2 = rule["beta1"], rule["beta2"]
    decay = rule.get("weight_decay", 0.0)
    new = optimizers.adam(p, g, first, second, steps + 1, lr, rule["eps"], b1, b2, decay)
    return new, (steps + 1, b1 * first + (1 - b1) * g, b2 * second + (1 - b2) * g**2, buffer)


def weights_differ(u, start, mine, floors):
    """Largest difference of a weight's change beyond rounding, relative to the largest change of its parameter."""
    worst = 0.0
    for k, after in u.after.weights.items():
        change = abs(np.asarray(mine[k]) - np.asarray(start[k])).max()
        beyond = np.maximum(abs(after - np.asarray(mine[k])) - floors.get(k, 0.0), 0.0).max()
        worst = max(worst, beyond / change if change > 0 else float(beyond > 0))
    return float(worst)


def check(run):
    """Results of all logged learning steps of a run, in order."""
    referees, results = {}, []
    for u in updates(run):
        results.append(referees.setdefault(u.info["policy"], Referee()).check(u))
    return results


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m recompute RUN ...: folders of runs that were trained with log_batches = N")
    wrong = 0
    for run in sys.argv[1:]:
        results = check(run)
        if not results:
            sys.exit(f"{run} has no logged batches: train it with `--set log_batches=20`")
        for r in results:
            text = "  ".join(f"{k} {d:.1e}" for k, d in r.differences.items())
            left = f"  not recomputed: {', '.join(r.left_out)}" if r.left_out else ""
            wrong += bool(r.differences) and not r.agrees
            print(f"{r.name}  {text}{'' if r.agrees or not r.differences else '  DIFFERS'}{left}")
    sys.exit(1 if wrong else 0)
