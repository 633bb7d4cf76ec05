"""The exponential of matrices by Taylor polynomials of few products, scaling and squaring.

The polynomials are those of P. Bader, S. Blanes and F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial
approximation" (Mathematics 7, 2019): degree 4 by two products, 8 by three (equation 13), 18 by five (table 3).  A matrix of
norm θ or less is approximated as if it had been rounded; one of a larger norm is halved until it is smaller, and its exponential
squared as often.
"""

from __future__ import annotations

import math

from ...core.base.tensor import TensorBase
from ...core.lib.products.products import matmul
from ..declare.dtype_groups import COMPLEX, FLOATING
from ..declare.host import Result
from ..declare.pointwise import pointwise
from ..declare.registry import leaf
from ..moving.joining import cat
from .lapack import DTYPES, checked, computed, diagonal

# The largest 1-norms for the degrees 4, 8 and 18, by the dtype of the real parts (table 1 of the paper).
NORMS = {
    "float32": (5.116619363445086e-02, 5.800524627688768e-01, 3.010066362817634e00),
    "float64": (3.397168839976962e-04, 4.991228871115323e-02, 1.090863719290036e00),
}
_ROOT = math.sqrt(177.0)
_KINDS = frozenset(DTYPES)
MATRICES_AT_ONCE = 1 << 22  # elements: some ten matrices as large as what is computed are held


@pointwise(places=("_taylor4",), dtypes=_KINDS, in_place=False, differentiable=False)
def _taylor4(a, a2):
    """A² / 24 + A / 6."""
    return a2 * (1.0 / 24.0) + a * (1.0 / 6.0)


@pointwise(places=("_taylor8_first",), dtypes=_KINDS, in_place=False, differentiable=False)
def _taylor8_first(a, a2):
    """x₁ A + x₂ A²."""
    return a * ((1.0 + _ROOT) / 132.0) + a2 * ((1.0 + _ROOT) / 528.0)


@pointwise(places=("_taylor8_second",), results=2, dtypes=_KINDS, in_place=False, differentiable=False)
def _taylor8_second(a, a2, a4):
    """x₃ A² + A₄, and x₅ A + x₆ A² + x₇ A₄."""
    return (
        a2 * (2.0 / 3.0) + a4,
        a * ((11.0 * _ROOT - 11.0) / 840.0)
        + a2 * ((11.0 * _ROOT - 99.0) / 3360.0)
        + a4 * ((89.0 - _ROOT) / 2240.0),
    )


@pointwise(places=("_taylor18",), results=5, dtypes=_KINDS, in_place=False, differentiable=False)
def _taylor18(a, a2, a3, a6):
    """B₁ to B₅, but for the multiples of the identity."""
    return (
        a * -1.00365581030144618291e-01 + a2 * -8.02924648241156932449e-03 + a3 * -8.92138498045729985177e-04,
        a * 3.97849749499645077844e-01
        + a2 * 1.36783778460411720168
        + a3 * 4.98289622525382669416e-01
        + a6 * -6.37898194594723280150e-04,
        a * 1.68015813878906206114
        + a2 * 5.71779846478865511061e-02
        + a3 * -6.98210122488052056106e-03
        + a6 * 3.34975017086070470649e-05,
        a * -6.76404519071381882256e-02
        + a2 * 6.75961301770459654925e-02
        + a3 * 2.95552570429315521194e-02
        + a6 * -1.39180257516060693404e-05,
        a2 * -9.23364619367118555360e-02
        + a3 * -1.69364939002081722752e-02
        + a6 * -1.40086798182036094347e-05,
    )


def _shifted(x: TensorBase, by: float) -> TensorBase:
    """x + `by` I, in place."""
    diagonal(x).add_(by)
    return x


def _degree4(a: TensorBase) -> TensorBase:
    """I + A + A² (I / 2 + A / 6 + A² / 24)."""
    a2 = matmul(a, a)
    return _shifted(matmul(a2, _shifted(_taylor4(a, a2), 0.5)).add_(a), 1.0)


def _degree8(a: TensorBase) -> TensorBase:
    """I + A + y₂ A² + (x₃ A² + A₄) (x₄ I + x₅ A + x₆ A² + x₇ A₄), where A₄ = A² (x₁ A + x₂ A²)."""
    a2 = matmul(a, a)
    left, right = _taylor8_second(a, a2, matmul(a2, _taylor8_first(a, a2)))
    result = matmul(left, _shifted(right, (29.0 * _ROOT - 271.0) / 210.0))
    return _shifted(result.add_(a).add_(a2, alpha=(857.0 - 58.0 * _ROOT) / 630.0), 1.0)


def _degree18(a: TensorBase) -> TensorBase:
    """B₂ + (B₃ + A₉) A₉, where A₉ = B₁ B₅ + B₄."""
    a2 = matmul(a, a)
    a3 = matmul(a2, a)
    b1, b2, b3, b4, b5 = _taylor18(a, a2, a3, matmul(a3, a3))
    a9 = matmul(b1, b5).add_(_shifted(b4, -9.04316832390810593223e-02))
    return matmul(_shifted(b3, -1.09676396052962061844e01).add_(a9), a9).add_(b2)


def _planned(norm: float, norms: tuple) -> tuple[int, int]:
    """Which polynomial, and how often the matrix is halved; none where the norm is no number: the result is not, either."""
    for k, most in enumerate(norms):
        if norm <= most:
            return k, 0
    if not math.isfinite(norm):
        return 2, 0
    halved = max(0, math.ceil(math.log2(norm / norms[2])))
    return 2, halved


def _exponential(a: TensorBase) -> TensorBase:
    if not a.numel():
        return a.clone()
    n = a.shape[-1]
    flat = a.reshape(-1, n, n)
    norms = NORMS[a.dtype.to_real().name]
    plans: dict[tuple[int, int], list[int]] = {}
    sizes = flat.abs().sum(-2).amax(-1)
    if not a.is_cpu:  # one number, which decides how all of them go, is what the host looks at
        return _one_plan(flat, *_planned(float(sizes.amax()), norms)).reshape(a.shape)
    for place, norm in enumerate(sizes.tolist()):
        plans.setdefault(_planned(norm, norms), []).append(place)
    if len(plans) == 1:
        return _one_plan(flat, *next(iter(plans))).reshape(a.shape)
    result = flat.new_empty(flat.shape)
    for plan, places in plans.items():
        at = result.new_empty(0).long().new_tensor(places)
        result[at] = _one_plan(flat[at], *plan)
    return result.reshape(a.shape)


def _one_plan(a: TensorBase, polynomial: int, halved: int) -> TensorBase:
    """Matrices of which all go one way, so many at once that what is computed stays near the processor."""
    together = max(1, MATRICES_AT_ONCE // (a.shape[-1] * a.shape[-1]))
    if a.shape[0] > together:
        parts = [_one_plan(p, polynomial, halved) for p in a.split(together)]
        return cat(parts)
    result = (_degree4, _degree8, _degree18)[polynomial](a * 0.5**halved if halved else a)
    for _ in range(halved):
        result = matmul(result, result)
    return result


@leaf(
    "lapack",
    "linalg.matrix_exp",
    "matrix_exp",
    "Tensor.matrix_exp",
    name="matrix_exp",
    label="LinalgMatrixExpBackward0",
    dtypes=FLOATING | COMPLEX,
)
def matrix_exp(A: TensorBase) -> TensorBase:
    """The exponential of square matrices, Σ Aᵏ / k!, by scaling, squaring and Taylor polynomials (Bader, Blanes, Casas 2019).

    The gradient is a block of the exponential of a matrix twice as large: N. J. Higham, "Functions of Matrices" (2008),
    equation 3.16.

    Shape:
        A: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.matrix_exp(flambeau.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    if isinstance(A, TensorBase) and A.dtype.name in ("float16", "bfloat16"):
        return matrix_exp(A.float()).to(A.dtype)
    checked("linalg.matrix_exp", A)
    return computed(Result(A.shape, A.dtype), _exponential, A)


@matrix_exp.derivative
def _matrix_exp_gradient(grad: TensorBase, A: TensorBase) -> tuple:
    n = A.shape[-1]
    below = cat([A.new_zeros(A.shape), A.mH], -1)
    whole = cat([cat([A.mH, grad], -1), below], -2)
    return (matrix_exp(whole).narrow(-2, 0, n).narrow(-1, n, n),)
