"""Products of reflections 1 - τₖ vₖ vₖᴴ, as a QR decomposition leaves them.

They are 1 - V T Vᴴ with T = (D⁻¹ + S)⁻¹ = (1 + D S)⁻¹ D, D = diag(τ) and S the strict upper triangle of Vᴴ V (T. Joffrain et
al., "Accumulating Householder transformations, revisited", 2006).
"""

from __future__ import annotations

from ...core.base.tensor import TensorBase
from ...core.lib.products.products import matmul
from ..declare import checks
from ..declare.dtype_groups import COMPLEX, WIDE
from ..declare.registry import library
from ..declare.results import into
from ..moving.joining import cat
from .lapack import checked, identity
from .matrices import solve_triangular


def _check(who: str, input: TensorBase, tau: TensorBase) -> None:
    checked(who, input, "input", square=False)
    if tau.ndim == 0:
        raise IndexError(f"{who}(): expected tau to have at least 1 dimension, got 0")
    checks.same_dtype(who, input=input, tau=tau)
    n = input.shape[-1]
    if n < tau.shape[-1]:
        raise RuntimeError(
            f"{who}(): input.shape[-1] must be greater than or equal to tau.shape[-1], got "
            f"{n} and {tau.shape[-1]}"
        )
    if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"{who}(): expected tau of the input's batch, {list(input.shape[:-2])}, got {list(tau.shape[:-1])}"
        )


def _vectors(input: TensorBase, tau: TensorBase) -> TensorBase:
    """V, whose columns stand below the diagonal of `input`, with a 1 on it and zeros above."""
    m, k = input.shape[-2], tau.shape[-1]
    return input.narrow(-1, 0, k).tril(-1) + _unit_columns(m, k, input)


def _unit_columns(m: int, n: int, like: TensorBase) -> TensorBase:
    """The first n columns of the m by m identity matrix."""
    return cat([identity(n, like), like.new_zeros((m - n, n))], -2)


def _turned(V: TensorBase, tau: TensorBase, other: TensorBase) -> TensorBase:
    """V T Vᴴ times another matrix, of which Vᴴ · it is given as `other`."""
    scales = tau.unsqueeze(-1)
    inner = solve_triangular(scales * matmul(V.mH, V), scales * other, upper=True, unitriangular=True)
    return matmul(V, inner)


@library(
    "composite",
    "linalg.householder_product",
    "orgqr",
    "Tensor.orgqr",
    name="householder_product",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def householder_product(input: TensorBase, tau: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """The first n columns of the product of the reflections 1 - τₖ vₖ vₖᴴ.
    The vₖ stand below the diagonal of the m by n `input` (with a 1 on it and zeros above).

    Shape:
        input: (*, m, n) with m ≥ n; tau: (*, k) with k ≤ n; result: (*, m, n)

    Raises:
        RuntimeError: there are more columns than rows, or more reflections than columns

    >>> import flambeau
    >>> flambeau.linalg.householder_product(flambeau.eye(2), flambeau.tensor([2.0, 0.0]))
    tensor([[-1.,  0.],
            [ 0.,  1.]])
    """
    _check("linalg.householder_product", input, tau)
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(
            "linalg.householder_product(): input.shape[-2] must be greater than or equal to input.shape[-1], "
            f"got {m} and {n}"
        )
    V = _vectors(input, tau)
    Q = _unit_columns(m, n, input) - _turned(V, tau, V.narrow(-2, 0, n).mH)
    return into(out, Q.contiguous(), "linalg.householder_product")


@library("composite", "ormqr", "Tensor.ormqr", dtypes=WIDE | COMPLEX)
def ormqr(
    input: TensorBase,
    tau: TensorBase,
    other: TensorBase,
    left: bool = True,
    transpose: bool = False,
    *,
    out: TensorBase | None = None,
) -> TensorBase:
    """Q · other, or other · Q unless `left`, for the square Q of the reflections in `input` and `tau`, as `geqrf` gives them.

    `input` is (*, m, k), `tau` (*, k); `transpose` takes Qᴴ. Q itself is never formed. RuntimeError for shapes that do not fit.

    >>> import flambeau
    >>> A = flambeau.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = flambeau.geqrf(A)
    >>> flambeau.ormqr(a, tau, A, transpose=True).triu().allclose(a.triu(), atol=1e-6)
    True
    """
    _check("ormqr", input, tau)
    if other.ndim != input.ndim or tuple(other.shape[:-2]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"ormqr(): batch dimensions of tensor other, {list(other.shape)}, must be those of input, {list(input.shape)}"
        )
    checks.same_dtype("ormqr", input=input, other=other)
    m = input.shape[-2]
    if other.shape[-2 if left else -1] != m:
        raise RuntimeError(
            f"ormqr(): other.shape[{-2 if left else -1}] must be equal to input.shape[-2], {m}, got {list(other.shape)}"
        )
    if tau.shape[-1] != min(m, input.shape[-1]):
        raise RuntimeError(
            f"ormqr(): tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], input.shape[-1]), "
            f"{min(m, input.shape[-1])}, got {tau.shape[-1]}"
        )
    V = _vectors(input, tau)
    if left != transpose:  # Q C, and C Qᴴ = (Q Cᴴ)ᴴ
        C = other if left else other.mH
        result = C - _turned(V, tau, matmul(V.mH, C))
    else:  # Qᴴ C = (1 - V Tᴴ Vᴴ) C, and C Q = (Qᴴ Cᴴ)ᴴ
        C = other if left else other.mH
        scales = tau.unsqueeze(-1)
        # T = (1 + D S)⁻¹ D, so Tᴴ = Dᴴ (1 + D S)⁻ᴴ
        inner = solve_triangular(
            (scales * matmul(V.mH, V)).mH, matmul(V.mH, C), upper=False, unitriangular=True
        )
        result = C - matmul(V, scales.conj() * inner)
    return into(out, (result if left else result.mH).contiguous(), "ormqr")
