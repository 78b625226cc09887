"""Optimizers and gradient clipping from their papers, on dictionaries of parameters."""

import numpy as np


def norm(gradient):
    return float(np.sqrt(sum((g**2).sum() for g in gradient.values())))


def clipped(gradient, limit):
    """Scales the gradient to the norm `limit` if it is larger."""
    scale = 1.0 if limit is None else min(1.0, limit / (norm(gradient) + 1e-6))
    return {k: g * scale for k, g in gradient.items()}


def adam(p, g, m, v, steps, lr, eps, beta1=0.9, beta2=0.999, decay=0.0):
    """Kingma and Ba 2015, algorithm 1; with `decay` AdamW (Loshchilov and Hutter 2019). `steps` counts from 1."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    step = (m / (1 - beta1**steps)) / (np.sqrt(v / (1 - beta2**steps)) + eps)
    return p - lr * decay * p - lr * step


def rmsprop(p, g, v, lr, eps, alpha, momentum=0.0, buffer=0.0):
    """Hinton's RMSprop with PyTorch's place of epsilon, outside of the root."""
    v = alpha * v + (1 - alpha) * g**2
    step = g / (np.sqrt(v) + eps)
    step = momentum * buffer + step
    return p - lr * step
