"""The extension `linalg` of the standard; `matmul`, `matrix_transpose`, `tensordot` and `vecdot` stand in the namespace, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from ..core.base.dtypes import dtype
from ..operations.declare.registry import published
from ._axes import axes_of
from ._dtypes import NAMES, accumulating, common, flat

_linalg = SimpleNamespace(**published("linalg."))

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eigh(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


class QR(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


class Slogdet(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


class SVD(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


def matmul(x1: Any, x2: Any, /) -> Any:
    """Products of matrices, of vectors, or of stacks of them; of their common dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.matmul(xp.eye(2), xp.asarray([3.0, 4.0]))
    tensor([3., 4.])
    """
    return flat.matmul(*common("matmul", x1, x2))


def matrix_transpose(x: Any, /) -> Any:
    """A view with the last two axes exchanged.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().matrix_transpose(flambeau.ones(4, 2, 3)).shape
    flambeau.Size([4, 3, 2])
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): an array of at least 2 dimensions expected, got {x.ndim}")
    return x.transpose(-2, -1)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over the last `axes` axes of `x1` and the first of `x2`, or over those in a pair of sequences.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.tensordot(xp.ones((2, 3)), xp.ones((3, 4)), axes=1).shape
    flambeau.Size([2, 4])
    """
    first, second = common("tensordot", x1, x2)
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError(f"tensordot(): the number of axes must not be negative, got {axes}")
        pairs = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        pairs = axes_of("tensordot", tuple(axes[0]), x1.ndim), axes_of("tensordot", tuple(axes[1]), x2.ndim)
    if [x1.shape[a] for a in pairs[0]] != [x2.shape[a] for a in pairs[1]]:
        raise ValueError(f"tensordot(): shapes {tuple(x1.shape)} and {tuple(x2.shape)} differ along {pairs}")
    return flat.tensordot(first, second, [list(pairs[0]), list(pairs[1])])


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Sums of products of `x1`, conjugated, and `x2` along an axis, which is counted from the end.

    ValueError where the two differ in size along it.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.vecdot(xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0]))
    tensor(11.)
    """
    for x in (x1, x2):
        if not -x.ndim <= axis < 0:
            raise ValueError(f"vecdot(): axis {axis} is none of those from -{x.ndim} to -1")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): sizes {x1.shape[axis]} and {x2.shape[axis]} along axis {axis} differ")
    first, second = common("vecdot", x1, x2)
    if first.dtype in NAMES["integral"]:  # PyTorch's sums them in int64
        return flat.sum(first * second, axis, dtype=first.dtype)
    return _linalg.vecdot(first, second, dim=axis)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower (or upper) triangular factors of symmetric positive-definite matrices.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.linalg.cholesky(xp.asarray([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _linalg.cholesky(x, upper=upper)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of 3 elements along an axis.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
    tensor([0, 0, 1])
    """
    first, second = common("cross", x1, x2)
    for x in (first, second):
        if not -x.ndim <= axis < x.ndim or x.shape[axis] != 3:
            raise ValueError(f"cross(): 3 elements along axis {axis} expected, got shape {tuple(x.shape)}")
    return _linalg.cross(*flat.broadcast_tensors(first, second), dim=axis)


def det(x: Any, /) -> Any:
    """The determinants of square matrices.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.det(flambeau.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    return _linalg.det(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices, `offset` above the main one (below it, if negative).

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.diagonal(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return flat.diagonal(x, offset, -2, -1)


def eigh(x: Any, /) -> Eigh:
    """The eigenvalues, ascending, and eigenvectors of symmetric matrices.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.eigh(flambeau.eye(2)).eigenvalues
    tensor([1., 1.])
    """
    return Eigh(*_linalg.eigh(x))


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of symmetric matrices, ascending.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.eigvalsh(flambeau.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return _linalg.eigvalsh(x)


def inv(x: Any, /) -> Any:
    """The inverses of square matrices.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.inv(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return _linalg.inv(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices: "fro", "nuc", and ±1, ±2, ±inf.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.matrix_norm(flambeau.ones(2, 2))
    tensor(2.)
    """
    return _linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """The `n`th powers of square matrices; those of their inverses, if it is negative.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.matrix_power(flambeau.ones(2, 2), 2)
    tensor([[2., 2.],
            [2., 2.]])
    """
    return _linalg.matrix_power(x, n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are larger than `rtol` times the largest.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.matrix_rank(flambeau.ones(2, 2))
    tensor(1)
    """
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of each element of one vector with each of another.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.outer(flambeau.arange(2), flambeau.arange(3))
    tensor([[0, 0, 0],
            [0, 1, 2]])
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer(): two vectors expected, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")
    first, second = common("outer", x1, x2)
    return first[:, None] * second


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverses of matrices; singular values below `rtol` times the largest count as zero.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.pinv(flambeau.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return _linalg.pinv(x, rtol=rtol)


def qr(x: Any, /, *, mode: str = "reduced") -> QR:
    """Matrices as products of orthonormal and upper triangular ones; the first square, if the mode is "complete".

    >>> import flambeau
    >>> Q, R = flambeau.ones(1).__array_namespace__().linalg.qr(flambeau.ones(3, 2))
    >>> Q.shape, R.shape
    (flambeau.Size([3, 2]), flambeau.Size([2, 2]))
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f'qr(): mode must be "reduced" or "complete", got {mode!r}')
    return QR(*_linalg.qr(x, mode))


def slogdet(x: Any, /) -> Slogdet:
    """The signs of determinants, and the logarithms of their magnitudes.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.slogdet(-flambeau.eye(3)).sign
    tensor(-1.)
    """
    return Slogdet(*_linalg.slogdet(x))


def solve(x1: Any, x2: Any, /) -> Any:
    """What `x1`, stacks of square matrices, must be multiplied with to give `x2`: a vector, if it has one dimension, or stacks
    of matrices.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.linalg.solve(xp.asarray([[2.0, 0.0], [0.0, 4.0]]), xp.asarray([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    first, second = common("solve", x1, x2)
    if x2.ndim == 1:
        second = second[:, None]
    batch = flat.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    second = flat.broadcast_to(second, (*batch, *second.shape[-2:]))
    result = _linalg.solve(flat.broadcast_to(first, (*batch, *first.shape[-2:])), second)
    return result[..., 0] if x2.ndim == 1 else result


def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """Matrices as products of orthonormal ones and singular values, descending: `U`, `S`, `Vh`.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.svd(flambeau.ones(3, 2), full_matrices=False).U.shape
    flambeau.Size([3, 2])
    """
    return SVD(*_linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, descending.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.svdvals(flambeau.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    return _linalg.svdvals(x)


def trace(x: Any, /, *, offset: int = 0, dtype: dtype | None = None) -> Any:
    """Sums of diagonals of matrices; integers in int64 or uint64, unless a dtype is given.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.trace(flambeau.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    dtype = accumulating(x.dtype) if dtype is None else dtype
    return flat.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Norms over axes of arrays taken as vectors: any number, ±inf, and 0, which counts elements that are not zero.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().linalg.vector_norm(flambeau.tensor([3.0, 4.0]))
    tensor(5.)
    """
    axes = axes_of("vector_norm", axis, x.ndim)
    if not axes:
        return _linalg.vector_norm(x.unsqueeze(-1), ord, dim=-1)
    return _linalg.vector_norm(x, ord, dim=axes, keepdim=keepdims)
