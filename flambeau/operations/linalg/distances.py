"""Distances between all pairs of rows.

The differences of many rows are made a block at a time, so that distances take the memory of their results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...core.base.tensor import TensorBase
from ...core.lib.products.products import matmul
from ..declare import checks
from ..declare.dtype_groups import FLOATING
from ..declare.registry import leaf, library
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
    if rows == 0:
        return
    each = max(b.shape[1] * b.shape[2], 1)
    if rows * each <= BLOCK:
        step = BLOCK // (rows * each)
        yield from ((slice(k, k + step), slice(None)) for k in range(0, n, step))
    else:
        step = max(BLOCK // each, 1)
        yield from ((slice(k, k + 1), slice(r, r + step)) for k in range(n) for r in range(0, rows, step))


@leaf("library", label="CdistBackward0")
def cdist_forward(a: TensorBase, b: TensorBase, p: float) -> TensorBase:
    """The norms (N, P, R) of the differences of rows of (N, P, M) and (N, R, M)."""
    result = a.new_empty((*a.shape[:2], b.shape[1]))
    for at, rows in _blocks(a, b):
        result[at, rows].copy_(_norms(a[at, rows], b[at], p))
    return result


@cdist_forward.derivative
def _distances_gradient(grad: TensorBase, a: TensorBase, b: TensorBase, p: float) -> tuple:
    """Sums of the gradients of differences, a block at a time."""
    of_a: list[TensorBase] = []
    of_b: dict[int, TensorBase] = {}  # by the first matrix
    for at, rows in _blocks(a, b):
        difference = a[at, rows].unsqueeze(-2) - b[at].unsqueeze(-3)
        to_each = _norm_gradient(grad[at, rows].unsqueeze(-1), difference, p)
        of_a.append(to_each.sum(-2))
        less = to_each.sum(-3)
        of_b[at.start] = of_b[at.start] + less if at.start in of_b else less
    if not of_a:
        return a.new_zeros(a.shape), b.new_zeros(b.shape)
    return cat([x.flatten(0, 1) for x in of_a]).reshape(a.shape), -cat(list(of_b.values()))


def _norm_gradient(grad: TensorBase, x: TensorBase, p: float) -> TensorBase:
    """That of the p-norms of rows; 0 where an element (or all of them) is 0."""
    if p == 0:
        return x.new_zeros(x.shape)
    if p == 1:
        return x.sgn() * grad
    norm = vector_norm(x, p, -1, True)
    if p == math.inf:
        return x.sgn() * grad.where(x.abs() == norm, 0.0)  # each of those that are largest gets the whole
    zero = norm == 0
    scaled = grad / norm.masked_fill(zero, math.inf)
    if p == 2:
        return x * scaled
    none = x == 0
    ratio = (x.abs() / norm.masked_fill(zero, 1.0)).masked_fill(none, 1.0)
    return (x.sgn() * grad * ratio ** (p - 1)).masked_fill(none, 0.0)


@library("composite", "cdist", autocast="float32", dtypes=FLOATING)
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
    if a.shape[-1] == 0:
        return a.sum(-1).unsqueeze(-1) + b.sum(-1).unsqueeze(-2)  # zeros
    large = a.shape[-2] > LARGE or b.shape[-2] > LARGE
    if p == 2 and (compute_mode == MODES[1] or (compute_mode == MODES[0] and large)):
        squares = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2.0 * matmul(a, b.mT)
        zero = squares.detach() <= 0  # where the derivative is 0
        return squares.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
    count = math.prod(batch)
    if a.numel() * b.shape[-2] <= BLOCK and p != math.inf:  # whose gradient is another than that of the norm
        return _norms(a, b, p)
    result = cdist_forward(a.reshape(count, *a.shape[-2:]), b.reshape(count, *b.shape[-2:]), p)
    return result.reshape(*batch, a.shape[-2], b.shape[-2])


@library("composite", "pdist", "nn.functional.pdist", autocast=("fallthrough", "float32"), dtypes=FLOATING)
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
    if input.shape[1] == 0:
        return input.new_zeros(n * (n - 1) // 2) + input.sum()
    if n > 1 and n * input.numel() > BLOCK:
        x = input.unsqueeze(0)
        return cat([cdist_forward(x[:, k : k + 1], x[:, k + 1 :], p)[0, 0] for k in range(n - 1)])
    rows, columns = (input.index_select(0, i) for i in triu_indices(n, n, 1, device=input.device).unbind(0))
    if p == math.inf:
        return cdist_forward(rows.unsqueeze(1), columns.unsqueeze(1), p).flatten()
    return vector_norm(rows - columns, p, -1)
