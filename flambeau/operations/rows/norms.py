"""Norms of vectors, and what is made of them: distances, unit vectors, cosines."""

from __future__ import annotations

import math
from typing import Any

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...core.base.tensor import TensorBase
from ...core.tape import tracked
from ..declare.half_types import in_float32
from ..declare.pointwise import COMPLEX, FLOATING
from ..declare.registry import library, register
from ..declare.results import into, overwrite
from ..declare.rows import reduction
from ..moving.shaping import broadcast_tensors
from ..pointwise.arithmetic import is_counted, mul
from .reductions import max_of_all, min_of_all, restore, sum_


def squared_length(x):
    """|x|²."""
    return fn.real(x) * fn.real(x) + fn.imag(x) * fn.imag(x) if fn.is_complex(x.dtype) else x * x


@reduction(places=("_norm2",), dtypes=FLOATING | COMPLEX, name="norm2", partial="norm 2")
def norm2(input):
    """Root of the sum of squares."""
    return fn.sqrt(kn.sum(squared_length(input)))


@norm2.derivative
def _(grad, input, out, sizes, dims, keepdim):
    length, g = restore(out, sizes, dims, keepdim), restore(grad, sizes, dims, keepdim)
    return (input * (g / length.masked_fill(length == 0, math.inf)),)  # 0 where the length is, in every mode


def check_norm(who: str, x: TensorBase, ord: Any, dtype: Any) -> None:
    """RuntimeError for numbers that have no norm, a complex order, and a dtype that would take something from the numbers."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(f"{who}(): Expected a floating point or complex tensor as input. Got {x.dtype}")
    if isinstance(ord, complex):
        raise RuntimeError(
            f"{who}(): Expected a non-complex number as argument 'ord', the order of the norm, got {ord}"
        )
    if dtype is None:
        return
    if not (dtype.is_floating_point or dtype.is_complex) or dtype.is_complex != x.is_complex():
        kind = "complex for complex inputs" if x.is_complex() else "real floating point for real inputs"
        raise RuntimeError(f"{who}(): argument 'dtype' should be {kind}, but got {dtype}")
    if dtype.itemsize < x.dtype.itemsize:
        raise RuntimeError(
            f"{who}(): the dtype of the input, {x.dtype}, should be convertible without narrowing to the argument 'dtype', {dtype}"
        )


def vector_norm(x, ord=2, dim=None, keepdim: bool = False, *, dtype=None, out=None) -> TensorBase:
    """(Σ |x|^ord)^(1/ord) over `dim` (all dimensions flattened by default).
    Its derivative is 0 where an element (or all of them) is 0.

    Shape:
        x: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range
        RuntimeError: the dtype is neither floating-point nor complex, or a negative or infinite norm runs over no elements

    >>> import flambeau
    >>> flambeau.linalg.vector_norm(flambeau.tensor([3.0, 4.0]))
    tensor(5.)
    """
    check_norm("linalg.vector_norm", x, ord, dtype)
    if (ord < 0 or ord == math.inf) and not x.numel():
        _check_not_empty(x, ord, dim)
    if dtype is not None:
        x = x.to(dtype)
    if x.is_complex() and ord != 2:  # the length's second derivative would be lost where an element is 0
        x = x.abs()
    if ord == 2:
        result = norm2.over((x,), dim, keepdim)
    elif ord == math.inf:
        result = max_of_all(x.abs(), dim, keepdim)
    elif ord == -math.inf:
        result = min_of_all(x.abs(), dim, keepdim)
    elif ord == 0:
        result = sum_(is_counted(x), dim, keepdim)
    elif ord == 1:
        result = sum_(x.abs(), dim, keepdim)
    else:
        result = _power_sum(x, float(ord), dim, keepdim)
    return into(out, result, "linalg.vector_norm")


def _check_not_empty(x: TensorBase, ord, dim) -> None:
    """RuntimeError where a dimension that a norm without an identity runs over has no elements."""
    given = (dim,) if isinstance(dim, int) else tuple(dim or ())
    for k in given or range(x.ndim):
        if -x.ndim <= k < x.ndim and x.shape[k] == 0:
            raise RuntimeError(
                f"linalg.vector_norm(): cannot compute the {ord} norm on dimension {k} of shape {list(x.shape)}: it is empty, "
                "and the operation does not have an identity"
            )


@in_float32()
def _power_sum(x, p: float, dim, keepdim):
    """(Σ |x|^p)^(1/p), whose derivative leaves out zeros: that of a power below 1 is infinite there."""
    zero = x.detach() == 0
    powers = (x.abs().masked_fill(zero, 1.0) ** p).masked_fill(zero, 0.0 if p > 0 else math.inf)
    total = sum_(powers, dim, keepdim)
    none = total.detach() == 0
    return (total.masked_fill(none, 1.0) ** (1.0 / p)).masked_fill(none, 0.0 if p > 0 else math.inf)


vector_norm = register(
    "vector_norm",
    "composite",
    vector_norm,
    places=("linalg.vector_norm",),
    forwards=True,
    autocast=("fallthrough", "float32 unless dtype"),
    dtypes=FLOATING | COMPLEX,
)


@library("composite", autocast=("fallthrough", "float32"), dtypes=FLOATING | COMPLEX)
def dist(input, other, p=2) -> TensorBase:
    """(Σ |input - other|^p)^(1/p): the p-norm of the difference.

    Shape:
        input, other: any shapes that broadcast; result: ()

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.dist(flambeau.tensor([1.0, 2.0]), flambeau.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return vector_norm(input - other, float(p))


@library("composite", autocast=("fallthrough", "float32"), dtypes=FLOATING | COMPLEX)
@in_float32()
def renorm(input, p, dim, maxnorm, *, out=None) -> TensorBase:
    """input · min(1, maxnorm / ‖slice‖ₚ): slices along `dim` whose p-norm is above maxnorm, cut to it.

    RuntimeError for a tensor of less than two dimensions, a p not above 0 and a negative maxnorm.

    Shape:
        input: any of two dimensions or more; the result has the same

    Raises:
        RuntimeError: there are fewer than two dimensions
        RuntimeError: `p` is not above 0
        RuntimeError: `maxnorm` is negative

    >>> import flambeau
    >>> flambeau.renorm(flambeau.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    return mul(input, _shrinking(input, p, dim, maxnorm), out=out)


def _shrinking(input: TensorBase, p: Any, dim: int, maxnorm: Any) -> TensorBase:
    """min(1, maxnorm / ‖slice‖ₚ) for each slice along `dim`."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm(): input needs at least 2 dimensions, got {input.ndim} dimensions")
    if isinstance(p, complex) or not p > 0 or not maxnorm >= 0:
        raise RuntimeError(
            f"renorm(): expected p, a real number, to be > 0 and maxnorm to be >= 0, got {p} and {maxnorm}"
        )
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"renorm(): Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    others = tuple(d for d in range(input.ndim) if d != dim % input.ndim)
    lengths = vector_norm(input, p, others, True)
    above = lengths > maxnorm
    factor = (maxnorm / (lengths.masked_fill(~above, 1.0) + 1e-7)).masked_fill(~above, 1.0)
    return factor.to(input.dtype)


@library("composite", "Tensor.renorm_", name="renorm_in_place", writes=True, dtypes=FLOATING | COMPLEX)
def renorm_(self, p, dim, maxnorm) -> TensorBase:
    """`renorm` in place: input · min(1, maxnorm / ‖slice‖ₚ).

    Shape:
        self: any of two dimensions or more

    Raises:
        RuntimeError: as in `renorm`

    >>> import flambeau
    >>> flambeau.tensor([[3.0, 4.0], [0.3, 0.4]]).renorm_(2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if tracked(self):
        return overwrite(self, renorm, p, dim, maxnorm)
    return self.mul_(_shrinking(self, p, dim, maxnorm))


@library(
    "composite", "nn.functional.normalize", autocast=("fallthrough", "float32"), dtypes=FLOATING | COMPLEX
)
@in_float32()
def normalize(input: TensorBase, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out=None) -> TensorBase:
    """input / max(‖input‖ₚ, eps) along `dim`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.functional.normalize(flambeau.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    result = input / vector_norm(input, p, dim, True).clamp_min(eps)
    return into(out, result, "normalize")


@library(
    "composite",
    "nn.functional.cosine_similarity",
    "cosine_similarity",
    autocast=("fallthrough", "float32"),
    dtypes=FLOATING,
)
@in_float32()
def cosine_similarity(x1: TensorBase, x2: TensorBase, dim: int = 1, eps: float = 1e-8) -> TensorBase:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`.

    Shape:
        x1, x2: shapes that broadcast; result: the shape they broadcast to, without `dim`

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.nn.functional.cosine_similarity(flambeau.tensor([[1.0, 0.0]]), flambeau.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    for name, x in (("x1", x1), ("x2", x2)):
        if not x.is_floating_point() and (
            x.is_complex() or not (x1.is_floating_point() or x2.is_floating_point())
        ):
            raise RuntimeError(
                f"cosine_similarity(): expected common dtype to be floating point, got {x.dtype} for argument '{name}'"
            )
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity(): eps must be non-negative, got {eps}")
    x1, x2 = broadcast_tensors(x1, x2)
    first = vector_norm(x1, 2, dim, True).clamp_min(eps)
    second = vector_norm(x2, 2, dim, True).clamp_min(eps)
    return ((x1 / first) * (x2 / second)).sum(dim)


@library("composite", "frobenius_norm", autocast=("fallthrough", "float32"), dtypes=FLOATING | COMPLEX)
def frobenius_norm(input: TensorBase, dim: int | tuple[int, ...], keepdim: bool = False) -> TensorBase:
    """√(Σ |input|²) over `dim`.

    Shape:
        input: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.frobenius_norm(flambeau.tensor([[3.0, 4.0]]), 1)
    tensor([5.])
    """
    return vector_norm(input, 2, dim, keepdim)
