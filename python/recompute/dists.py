"""Distributions of actions: log-probability, entropy and KL divergence of rows."""

import jax
import jax.numpy as jnp
import numpy as np

#: Stands for the logit of an action that is not legal.
NEVER = -1e9


class Categoricals:
    """Independent categorical distributions, one for each component of the action."""

    def __init__(self, sizes):
        self.cuts = np.cumsum(sizes)[:-1]

    def logs(self, inputs):
        return [jax.nn.log_softmax(part) for part in jnp.split(inputs, self.cuts, -1)]

    def logp(self, inputs, actions):
        actions = actions.reshape(len(actions), -1).astype(int)
        return sum(jnp.take_along_axis(log, actions[:, i:i + 1], -1)[:, 0] for i, log in enumerate(self.logs(inputs)))

    def entropy(self, inputs):
        return sum(-(jnp.exp(log) * log).sum(-1) for log in self.logs(inputs))

    def kl(self, old, new):
        """KL(old || new)."""
        pairs = zip(self.logs(old), self.logs(new))
        return sum((jnp.exp(p) * (p - q)).sum(-1) for p, q in pairs)


class Gaussian:
    """Independent normal distributions; inputs are the means, then the logarithms of the deviations."""

    def logp(self, inputs, actions):
        mean, log_std = jnp.split(inputs, 2, -1)
        z = (actions.reshape(mean.shape) - mean) / jnp.exp(log_std)
        return (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(-1)

    def entropy(self, inputs):
        _, log_std = jnp.split(inputs, 2, -1)
        return (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(-1)

    def kl(self, old, new):
        """KL(old || new)."""
        (m0, l0), (m1, l1) = jnp.split(old, 2, -1), jnp.split(new, 2, -1)
        return (l1 - l0 + (jnp.exp(2 * l0) + (m0 - m1) ** 2) / (2 * jnp.exp(2 * l1)) - 0.5).sum(-1)


def of(actions, inputs, mask):
    """The distribution of a column of actions, whose parameters are `inputs` columns wide."""
    if actions.dtype.kind == "f":
        return Gaussian()
    wide = actions.reshape(len(actions), -1)
    if wide.shape[1] == 1:
        return Categoricals([inputs])
    sizes = {2: [2, 3], 3: [2, 3, 4]}.get(wide.shape[1])
    return Categoricals(sizes if sizes and sum(sizes) == inputs else [inputs // wide.shape[1]] * wide.shape[1])


def masked(inputs, mask):
    return inputs if mask is None else jnp.where(mask.astype(bool), inputs, NEVER)


def squashed(inputs, noise, low=-20.0, high=2.0):
    """Haarnoja et al. 2018, appendix C: `a = tanh(u)`, `u` normal; returns actions and log-probabilities."""
    mean, log_std = jnp.split(inputs, 2, -1)
    log_std = jnp.clip(log_std, low, high)
    u = mean + jnp.exp(log_std) * noise
    log_det = 2 * (np.log(2) - u - jax.nn.softplus(-2 * u))
    logp = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - log_det
    return jnp.tanh(u), logp.sum(-1)
