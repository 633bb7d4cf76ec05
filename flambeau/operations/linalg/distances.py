"""Distances between all pairs of rows.

The differences of many rows are made a block at a time, so that distances take the memory of their results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...core import tape
from ...core.base.tensor import TensorBase
from ...core.lib.products import matmul
from ...core.tape.contexts import enable_grad, unrecorded
from ..declare import checks
from ..declare.registry import library
from ..moving.joining import cat
from ..moving.shaping import broadcast_shapes
from ..rows.norms import vector_norm

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
BLOCK = 1 << 18  # differences that are held at a time
LARGE = 25  # rows from which on Euclidean distances come from a matrix product


def _norms(a: TensorBase, b: TensorBase, p: float) -> TensorBase:
    return vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


def _blocks(a: TensorBase, b: TensorBase) -> Iterator[tuple[slice, slice]]:
    """Which matrices, and which rows of them: several matrices where they are small, else some rows of one."""
    n, rows = a.shape[:2]
    each = max(b.shape[1] * b.shape[2], 1)
    if rows * each <= BLOCK:
        step = BLOCK // (rows * each)
        yield from ((slice(k, k + step), slice(None)) for k in range(0, n, step))
    else:
        step = max(BLOCK // each, 1)
        yield from ((slice(k, k + 1), slice(r, r + step)) for k in range(n) for r in range(0, rows, step))


def _distances(a: TensorBase, b: TensorBase, p: float) -> TensorBase:
    """The norms (N, P, R) of the differences of rows of (N, P, M) and (N, R, M)."""
    with unrecorded():
        found = a.new_empty((*a.shape[:2], b.shape[1]))
        for at, rows in _blocks(a, b):
            found[at, rows].copy_(_norms(a[at, rows], b[at], p))
    if tape.recording(a, b):
        tape.record("CdistBackward0", _back, (a, b), found, (a, b), (p,))
    return found


def _back(grad: TensorBase, a: TensorBase, b: TensorBase, p: float) -> tuple:
    if tape.recording(grad, a, b):  # to be differentiated again: through all differences at once
        a, b = (
            a.view_as(a),
            b.view_as(b),
        )  # which are two, also where a tensor's distances to itself are asked for
        with enable_grad():
            a, b = (x if tape.recording(x) else x.detach().requires_grad_() for x in (a, b))
            found = _norms(a, b, p)
        return tuple(tape.run_backward([found], [grad], True, True, [a, b], False))
    of_a, of_b = a.new_zeros(a.shape), b.new_zeros(b.shape)
    for at, rows in _blocks(a, b):
        part, beside = a[at, rows].detach().requires_grad_(), b[at].detach().requires_grad_()
        with enable_grad():
            found = _norms(part, beside, p)
        one, other = tape.run_backward([found], [grad[at, rows]], False, False, [part, beside], False)
        of_a[at, rows].copy_(one)
        of_b[at].add_(other)
    return of_a, of_b


@library("composite", "cdist", autocast="float32")
def cdist(x1: TensorBase, x2: TensorBase, p: float = 2.0, compute_mode: str = MODES[0]) -> TensorBase:
    """The p-norm of every row of x1 (…, P, M) less every row of x2 (…, R, M): (…, P, R).

    With many rows Euclidean distances come from a matrix product, √(|a|² + |b|² - 2 a·b), unless `compute_mode` says
    otherwise.  RuntimeError for tensors of less than two dimensions, of different widths, and for a negative p.

    >>> import flambeau
    >>> flambeau.cdist(flambeau.tensor([[0., 0.]]), flambeau.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    for k, x in enumerate((x1, x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist(): expected x{k + 1} to have at least 2 dimensions, got {x.ndim}D")
        if not x.is_floating_point():
            raise RuntimeError(f"cdist(): expected x{k + 1} to be of a floating-point dtype, got {x.dtype}")
    checks.same_dtype("cdist", x1=x1, x2=x2)
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist(): x1 and x2 must have the same number of columns, got {x1.shape[-1]} and {x2.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError(f"cdist(): expected a non-negative p, got {p}")
    if compute_mode not in MODES:
        raise ValueError(f"cdist(): {compute_mode} is not a valid value for compute_mode")
    batch = tuple(broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2])))
    a, b = x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])
    large = a.shape[-2] > LARGE or b.shape[-2] > LARGE
    if p == 2 and (compute_mode == MODES[1] or (compute_mode == MODES[0] and large)):
        squares = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2.0 * matmul(a, b.mT)
        zero = squares.detach() <= 0  # where the derivative is 0
        return squares.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
    count = math.prod(batch)
    if a.numel() * b.shape[-2] <= BLOCK:
        return _norms(a, b, p)
    found = _distances(a.reshape(count, *a.shape[-2:]), b.reshape(count, *b.shape[-2:]), p)
    return found.reshape(*batch, a.shape[-2], b.shape[-2])


@library("composite", "pdist", "nn.functional.pdist", autocast=("whole", "float32"))
def pdist(input: TensorBase, p: float = 2.0) -> TensorBase:
    """‖inputᵢ - inputⱼ‖ₚ for all i < j, the rows of a matrix, in the order of the upper triangle's
    elements.

    RuntimeError unless the input has two dimensions and p is not negative.

    >>> import flambeau
    >>> flambeau.nn.functional.pdist(flambeau.tensor([[0.], [1.], [3.]]))
    tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist(): only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist(): only supports floating-point dtypes, got {input.dtype}")
    if not p >= 0:
        raise RuntimeError(f"pdist(): only supports non-negative p values, got {p}")
    from ...core.make.create import triu_indices

    n = input.shape[0]
    if n > 1 and n * input.numel() > BLOCK:
        x = input.unsqueeze(0)
        return cat([_distances(x[:, k : k + 1], x[:, k + 1 :], p)[0, 0] for k in range(n - 1)])
    rows, columns = triu_indices(n, n, 1, device=input.device).unbind(0)
    return vector_norm(input.index_select(0, rows) - input.index_select(0, columns), p, -1)
