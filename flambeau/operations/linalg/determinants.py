"""Determinants, their logarithms, and their derivatives."""

from __future__ import annotations

from ...core.base.tensor import TensorBase
from ...core.lib import linalg as core
from ...core.lib.linalg import small
from ...core.lib.products.products import matmul
from ..declare.host import Result, holds
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, into, named_result
from ..on_device import matrices
from ..pointwise.complex_numbers import conj
from .decompositions import svd
from .lapack import checked, computed, fresh, identity, inv, real_dtype

slogdet_result = named_result("linalg_slogdet", "sign", "logabsdet")


# --- determinants ---------------------------------------------------------------------------------------------------------
@library(
    "lapack",
    "linalg.det",
    "det",
    "Tensor.det",
    reference="numpy.linalg.det",
    batching="leading",
    composite=True,
)
def det(A: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """Σ sign(π) Π A[k, π(k)]: the determinant of square matrices.

    Shape:
        A: (*, n, n); result: (*)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.det(flambeau.tensor([[2., 1.], [0., 4.]]))
    tensor(8.)
    """
    checked("linalg.det", A)
    return into(out, linalg_det(A), "linalg.det")


@leaf("lapack")
def linalg_det(A: TensorBase) -> TensorBase:
    """The determinant of checked matrices."""
    by = lambda a: matrices.determinant(a, False)[0]
    return computed(Result(A.shape[:-2], A.dtype), lambda a: _determinant(a, False)[0], A, on_device=by)


def _determinant(a: TensorBase, logarithm: bool) -> tuple:
    """The determinant and None, or sign and logarithm of its modulus."""
    if small.takes(a):
        result, pivots, _ = small.lu(a)
    else:
        result = fresh(a)
        pivots, _ = core.factors.lu(result)
    return core.factors.determinant(result, pivots, logarithm)


@linalg_det.derivative
def _det_gradient(grad: TensorBase, A: TensorBase, result: TensorBase) -> tuple:
    """grad · (matrix of cofactors)*: det · A⁻ᴴ, or U diag(∏ of the other singular values) Vᴴ where one is singular."""
    if not A.numel():
        return (A * 0.0,)
    if holds(result != 0):
        return ((grad * conj(result)).unsqueeze(-1).unsqueeze(-1) * inv(A).mH,)
    U, S, Vh = svd(A, full_matrices=False)
    n = A.shape[-1]
    rows = S.unsqueeze(-2).expand(*S.shape[:-1], n, n)
    others = rows.masked_fill(identity(n, S).bool(), 1.0).prod(-1)
    turn = conj(det(U) * det(Vh))
    return ((grad * turn).unsqueeze(-1).unsqueeze(-1) * matmul(U * others.unsqueeze(-2).to(A.dtype), Vh),)


@library("lapack", "linalg.slogdet", "slogdet", "Tensor.slogdet", composite=True, gives=slogdet_result)
@accepts_out
def slogdet(A: TensorBase) -> tuple:
    """det A / |det A| (or 0) and log |det A|, as a named tuple (sign, logabsdet).

    Shape:
        A: (*, n, n); results: (*) each

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.slogdet(flambeau.tensor([[0.0, 1.0], [1.0, 0.0]]))
    flambeau.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    checked("linalg.slogdet", A)
    return slogdet_result(*linalg_slogdet(A))


@leaf("lapack", results=("sign", "logabsdet"))
def linalg_slogdet(A: TensorBase) -> tuple[TensorBase, TensorBase]:
    """Sign and logarithm of checked matrices."""
    rules = [Result(A.shape[:-2], A.dtype), Result(A.shape[:-2], real_dtype(A))]
    by = lambda a: matrices.determinant(a, True)
    return computed(rules, lambda a: _determinant(a, True), A, on_device=by)


@linalg_slogdet.derivative
def _slogdet_gradient(grads: tuple, A: TensorBase, sign: TensorBase) -> tuple:
    """(∂ log|det| - i Im(∂sign* sign)) A⁻ᴴ."""
    to_sign, to_log = grads
    scale = to_log
    if A.is_complex():
        scale = 0.0 if to_log is None else to_log.to(A.dtype)
        if to_sign is not None:
            scale = scale - 1j * (to_sign.conj() * sign).imag.to(A.dtype)
    if scale is None:
        return (A.new_zeros(A.shape),)
    return (scale.unsqueeze(-1).unsqueeze(-1) * inv(A).mH,)


@library("lapack", "logdet", "Tensor.logdet", composite=True)
def logdet(A: TensorBase) -> TensorBase:
    """log(det A): NaN where the determinant is negative, -inf where it is 0.

    Shape:
        A: (*, n, n); result: (*)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.logdet(flambeau.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(1.7918)
    """
    checked("logdet", A)
    sign, logabs = slogdet(A)
    return logabs + sign.log()
