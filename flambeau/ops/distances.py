"""Distances between all pairs of rows."""

from __future__ import annotations

from ..core.products import matmul
from ..core.tensor import TensorBase
from .reduced import vector_norm
from .registry import library
from .shaping import broadcast_shapes

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
LARGE = 25  # rows from which on Euclidean distances come from a matrix product


@library("composite", "cdist")
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
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{k + 1} got: {x.ndim}D")
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{k + 1} got: {x.dtype}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    batch = tuple(broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2])))
    a, b = x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])
    large = a.shape[-2] > LARGE or b.shape[-2] > LARGE
    if p == 2 and (compute_mode == MODES[1] or (compute_mode == MODES[0] and large)):
        squares = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2.0 * matmul(a, b.mT)
        zero = squares.detach() <= 0  # where the derivative is 0
        return squares.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
    return vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


@library("composite", "pdist", "nn.functional.pdist")
def pdist(input: TensorBase, p: float = 2.0) -> TensorBase:
    """The p-norm of the differences of all pairs of rows of a matrix, in the order of the upper triangle's elements.

    RuntimeError unless the input has two dimensions and p is not negative.

    >>> import flambeau
    >>> flambeau.nn.functional.pdist(flambeau.tensor([[0.], [1.], [3.]]))
    tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    from ..core.create import triu_indices

    n = input.shape[0]
    rows, columns = triu_indices(n, n, 1).unbind(0)
    return vector_norm(input.index_select(0, rows) - input.index_select(0, columns), p, -1)
