"""Attention with all scores made, in NumPy: what every way of computing it is held to."""

from __future__ import annotations

import numpy as np


def places(shape):
    """Batch, head, query and key of every score."""
    return np.ogrid[tuple(slice(n) for n in shape)]


def attention(query, key, value, score=None, mask=None, scale=None):
    """Output, log of the sums of exponentials and largest scores; `score(s, b, h, q, k)` and `mask(b, h, q, k)` see arrays."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat(groups, 1), value.repeat(groups, 1)
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    at = places(scores.shape)
    if score is not None:
        scores = np.broadcast_to(score(scores, *at), scores.shape)
    if mask is not None:
        scores = np.where(mask(*at), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(top == -np.inf, 0, top))[..., 0]
    return weights / np.where(total == 0, 1, total) @ value, lse, top[..., 0]
