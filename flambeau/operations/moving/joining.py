"""Joining tensors: `cat` and `stack` (core/places/join.pyx), and the functions that are one of them after a change of shape."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.base.tensor import TensorBase
from ...core.places import join
from ..declare.registry import library, register
from .creation import empty
from .viewing import atleast_1d, atleast_2d, atleast_3d

Tensors = Sequence[TensorBase]

cat = register(
    "cat",
    "join",
    join.cat,
    places=("cat", "concat", "concatenate"),
    reference="numpy.concatenate",
    along=lambda tensors, dim=0, *, out=None: (tensors, dim, False),
    autocast=("promote", "fallthrough"),
)
stack = register(
    "stack",
    "join",
    join.stack,
    places=("stack",),
    reference="numpy.stack",
    along=lambda tensors, dim=0, *, out=None: (tensors, dim, True),  # which is new
    autocast=("promote", "fallthrough"),
)


def _checked(who: str, tensors: Tensors) -> Tensors:
    if isinstance(tensors, TensorBase) or not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{who}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError(f"{who} expects a non-empty TensorList")
    return tensors


@library("composite", "hstack", autocast="composite", moves=True)
def hstack(tensors: Tensors, *, out: TensorBase | None = None) -> TensorBase:
    """[A B …]: the tensors side by side, along the second dimension, 1-dim ones along the first.

    >>> import flambeau
    >>> flambeau.hstack([flambeau.tensor([1, 2]), flambeau.tensor([3])])
    tensor([1, 2, 3])
    """
    parts = [atleast_1d(t) for t in _checked("hstack", tensors)]
    return cat(parts, 0 if parts[0].ndim == 1 else 1, out=out)


@library("composite", "vstack", "row_stack", autocast="composite", moves=True)
def vstack(tensors: Tensors, *, out: TensorBase | None = None) -> TensorBase:
    """The tensors one above another: along the first dimension, where a 1-dim tensor counts as a row.

    cat(tensors, 0), in which (n,) is (1, n).

    >>> import flambeau
    >>> flambeau.vstack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat([atleast_2d(t) for t in _checked("vstack", tensors)], 0, out=out)


@library("composite", "dstack", autocast="composite", moves=True)
def dstack(tensors: Tensors, *, out: TensorBase | None = None) -> TensorBase:
    """The tensors one behind another: along the third dimension, which is added where it is missing.

    cat(tensors, 2) of those.

    Shape:
        tensors: (*) of at most two dimensions become (1, n, 1) and (m, n, 1); all sizes but the third must
            agree

    Raises:
        RuntimeError: the other sizes differ

    >>> import flambeau
    >>> flambeau.dstack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat([atleast_3d(t) for t in _checked("dstack", tensors)], 2, out=out)


@library("composite", "column_stack", autocast="composite", moves=True)
def column_stack(tensors: Tensors, *, out: TensorBase | None = None) -> TensorBase:
    """[a b …]: the tensors side by side as columns; 0-dim and 1-dim ones become matrices of one column
    first.

    >>> import flambeau
    >>> flambeau.column_stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    parts = [t if t.ndim > 1 else t.reshape(t.numel(), 1) for t in _checked("column_stack", tensors)]
    return hstack(parts, out=out)


@library("composite", "block_diag", autocast="composite")
def block_diag(*tensors: TensorBase) -> TensorBase:
    """A matrix with the given ones (or rows, or numbers) along its diagonal and zeros elsewhere: [[A, 0], [0, B]] for A and B.

    >>> import flambeau
    >>> flambeau.block_diag(flambeau.tensor([[1, 2]]), flambeau.tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if not tensors:
        return empty(1, 0)
    for k, t in enumerate(tensors):
        if not isinstance(t, TensorBase):
            raise TypeError(f"block_diag(): argument {k} must be Tensor, not {type(t).__name__}")
        if t.ndim > 2:
            raise RuntimeError(
                f"block_diag(): Input tensors must have 2 or fewer dimensions. Input {k} has {t.ndim} dimensions"
            )
    blocks = [atleast_2d(t) for t in tensors]
    width, rows, start = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        height, own = b.shape
        rows.append(cat([b.new_zeros((height, start)), b, b.new_zeros((height, width - start - own))], 1))
        start += own
    return cat(rows, 0)
