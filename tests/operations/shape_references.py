"""What convolutions, pools and attention compute, in NumPy and float64, with their gradients: sums over tables of taps.

A table of a dimension is (out, kernel, size): 1 where tap k of output o reads element i.  Everything linear is a contraction with
tables, and its gradient the contraction the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Sizes = Sequence[int]


def table(out: int, kernel: int, size: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    o, k, i = np.ogrid[:out, :kernel, :size]
    return (o * stride - padding + k * dilation == i).astype(np.float64)


def cut(x: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """(N, C, *sizes) to (N, C, *out, *kernel)."""
    n = len(tables)
    for t in tables:  # takes the first of the sizes that are left, and adds (out, kernel) behind
        x = np.tensordot(x, t, axes=([2], [2]))
    return x.transpose(0, 1, *range(2, 2 + 2 * n, 2), *range(3, 3 + 2 * n, 2))


def join(windows: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """The adjoint of `cut`: (N, C, *out, *kernel) to (N, C, *sizes)."""
    n = len(tables)
    for d, t in enumerate(tables):
        windows = np.tensordot(windows, t, axes=([2, 2 + n - d], [0, 1]))
    return windows


def _grouped(x: np.ndarray, w: np.ndarray, groups: int, places: int):
    """Windows (N, G, C, places, taps) and a weight (G, O, C, taps)."""
    taps = math.prod(w.shape[2:])
    return (
        x.reshape(x.shape[0], groups, w.shape[1], places, taps),
        w.reshape(groups, w.shape[0] // groups, w.shape[1], taps),
    )


def _tables(sizes: Sizes, kernel: Sizes, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes):
    return [
        table(o, k, i, s, p, d) for i, k, o, s, p, d in zip(sizes, kernel, out, stride, padding, dilation)
    ]


def convolution(x, w, bias, grad, stride, padding, dilation, groups):
    """The result and the gradients in x, w and bias, for a gradient of the result; `padding` is what lies in front."""
    out = grad.shape[2:]
    tables = _tables(x.shape[2:], w.shape[2:], out, stride, padding, dilation)
    windows, weight = _grouped(cut(x, tables), w, groups, math.prod(out))
    found = np.einsum("ngcpt,goct->ngop", windows, weight, optimize=True).reshape(grad.shape)
    if bias is not None:
        found = found + bias.reshape(-1, *[1] * len(out))
    sent = grad.reshape(*windows.shape[:2], weight.shape[1], math.prod(out))
    into_x = np.einsum("ngop,goct->ngcpt", sent, weight.conj(), optimize=True)
    into_x = join(into_x.reshape(*x.shape[:2], *out, *w.shape[2:]), tables)
    into_w = np.einsum("ngop,ngcpt->goct", sent, windows.conj(), optimize=True).reshape(w.shape)
    into_bias = grad.sum(axis=(0, *range(2, grad.ndim)))
    return found, [into_x, into_w] + ([] if bias is None else [into_bias])


def transposed(x, w, bias, grad, stride, padding, dilation, groups):
    """As `convolution`, of which it is the adjoint: x is laid where its result would stand, and the result where its input."""
    out, sizes = x.shape[2:], grad.shape[2:]
    tables = _tables(sizes, w.shape[2:], out, stride, padding, dilation)
    sent, weight = _grouped(cut(grad, tables), w, groups, math.prod(out))
    given = x.reshape(x.shape[0], groups, weight.shape[1], math.prod(out))
    windows = np.einsum("ngop,goct->ngcpt", given, weight, optimize=True)
    found = join(windows.reshape(*grad.shape[:2], *out, *w.shape[2:]), tables)
    if bias is not None:
        found = found + bias.reshape(-1, *[1] * len(out))
    into_x = np.einsum("ngcpt,goct->ngop", sent, weight.conj(), optimize=True).reshape(x.shape)
    into_w = np.einsum("ngop,ngcpt->goct", given.conj(), sent, optimize=True).reshape(w.shape)
    into_bias = grad.sum(axis=(0, *range(2, grad.ndim)))
    return found, [into_x, into_w] + ([] if bias is None else [into_bias])


def pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows a dimension has: those that begin in the input or in the padding before it."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - ((count - 1) * stride >= size + padding)


def largest(x, tables, grad=None):
    """Maxima, their places in a plane, and the gradient in x, which goes to the first of equal ones."""
    n, sizes = len(tables), x.shape[2:]
    places = np.arange(math.prod(sizes), dtype=np.float64).reshape(1, 1, *sizes)
    inside = cut(np.ones((1, 1, *sizes)), tables) > 0
    flat = (*x.shape[:2], *(t.shape[0] for t in tables), math.prod(t.shape[1] for t in tables))
    windows = np.where(inside, cut(x, tables), -np.inf).reshape(flat)
    where = np.broadcast_to(cut(places, tables).reshape(1, 1, *flat[2:]), windows.shape)
    which = windows.argmax(-1)[..., None]
    at = np.take_along_axis(where, which, -1)[..., 0].astype(np.int64)
    found = np.take_along_axis(windows, which, -1)[..., 0]
    if grad is None:
        return found, at, None
    into = np.zeros((*x.shape[:2], math.prod(sizes)))
    lead = np.ogrid[tuple(slice(s) for s in x.shape[:2])]
    np.add.at(into, (*(i[..., *[None] * n] for i in lead), at), grad)
    return found, at, into.reshape(x.shape)


def mean(x, tables, counts, grad):
    """Sums of windows over `counts`, (*out), and the gradient in x."""
    n = len(tables)
    summed = [t.sum(1, keepdims=True) for t in tables]
    found = cut(x, summed).reshape(grad.shape) / counts
    share = (grad / counts).reshape(*grad.shape, *[1] * n)
    return found, join(share, summed)


def parts(size: int, count: int) -> np.ndarray:
    """The table of an adaptive pool: part o holds what lies between ⌊o·size/count⌋ and ⌈(o+1)·size/count⌉."""
    first = [o * size // count for o in range(count)]
    last = [-(-(o + 1) * size // count) for o in range(count)]
    longest = max((b - a for a, b in zip(first, last)), default=0)
    found = np.zeros((count, max(longest, 1), size))
    for o, (a, b) in enumerate(zip(first, last)):
        found[o, range(b - a), range(a, b)] = 1
    return found


def product(pattern: str, a, b, grad):
    """einsum of two operands and the gradients in both; each letter of an operand stands in the other or in the result."""
    (first, second), result = pattern.split("->")[0].split(","), pattern.split("->")[1]
    found = np.einsum(pattern, a, b, optimize=True)
    into_a = np.einsum(f"{result},{second}->{first}", grad, np.conj(b), optimize=True)
    into_b = np.einsum(f"{first},{result}->{second}", np.conj(a), grad, optimize=True)
    return found, [into_a, into_b]


def attention(q, k, v, mask, scale, grad):
    """softmax(q kᵀ scale + mask) v of arrays with equal heads, and the gradients in q, k and v; rows without a key are 0."""
    scores = np.einsum("...le,...se->...ls", q, k) * scale + mask
    alone = (
        (scores == -np.inf).all(-1, keepdims=True)
        if scores.shape[-1]
        else np.ones((*scores.shape[:-1], 1), bool)
    )
    top = np.where(alone, 0, scores.max(-1, keepdims=True, initial=-np.inf))
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    weights = np.where(alone, 0, weights / np.where(total == 0, 1, total))
    found = weights @ v
    sent = np.einsum("...lv,...sv->...ls", grad, v)
    into = weights * (sent - (sent * weights).sum(-1, keepdims=True))
    return found, [
        np.einsum("...ls,...se->...le", into, k) * scale,
        np.einsum("...ls,...le->...se", into, q) * scale,
        np.einsum("...ls,...lv->...sv", weights, grad),
    ]


def unbroadcast(grad: np.ndarray, shape: Sizes) -> np.ndarray:
    """The sum over what broadcasting repeated."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    repeated = tuple(d for d, n in enumerate(shape) if n == 1 and grad.shape[d] != 1)
    return grad.sum(axis=repeated, keepdims=True)
