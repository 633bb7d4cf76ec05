"""Transforms: maps of tensors with an inverse and a Jacobian, of which `TransformedDistribution` makes distributions.

>>> import flambeau
>>> from flambeau.distributions.transforms import SigmoidTransform
>>> t = SigmoidTransform()
>>> x = flambeau.zeros(2)
>>> t(x), t.log_abs_det_jacobian(x, t(x))
(tensor([0.5000, 0.5000]), tensor([-1.3863, -1.3863]))
"""

from __future__ import annotations

import math
from typing import Any

from ..core.base.typeinfo import finfo
from ..core.make.create import arange, eye, full_like
from ..operations.linalg.lapack import cholesky
from ..operations.moving.padding import pad
from ..operations.moving.shaping import broadcast_shapes
from ..operations.rows.softmax import softmax
from . import constraints
from ._fused import fn, fused
from ._transforms_base import (
    CatTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    _InverseTransform,  # noqa: F401  (pickles find it here)
    identity_transform,
    too_few_dimensions,
)
from .utils import broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


# --- numbers -----------------------------------------------------------------------------------------------------------
def _soft(x: Any) -> Any:
    """log(1 + exp(x)), which neither overflows nor loses digits."""
    return fn.maximum(x, 0.0) + fn.log1p(fn.exp(-fn.absolute(x)))


@fused
def _softplus(x):
    return _soft(x)


@fused
def _minus_softplus_of_minus(x):
    return -_soft(-x)


@fused
def _softplus_inverse(y):
    return y + fn.log(-fn.expm1(-y))


@fused
def _sigmoid_within(x, *, low, high):
    return fn.minimum(fn.maximum(fn.sigmoid(x), low), high)


@fused
def _broken_off(x, left, *, low, high):
    return fn.minimum(fn.maximum(fn.sigmoid(x - left), low), high)


@fused
def _logit_within(y, *, low, high):
    y = fn.minimum(fn.maximum(y, low), high)
    return fn.log(y) - fn.log1p(-y)


@fused
def _sigmoid_jacobian(x):
    return -_soft(-x) - _soft(x)


@fused
def _tanh_jacobian(x):
    return 2.0 * (math.log(2.0) - x - _soft(-2.0 * x))


@fused
def _affine(x, loc, scale):
    return loc + scale * x


@fused
def _affine_inverse(y, loc, scale):
    return (y - loc) / scale


@fused
def _power_jacobian(x, y, exponent):
    return fn.log(fn.absolute(exponent * y / x))


def _bounds(dtype: Any) -> tuple[float, float]:
    """The smallest normal number of a dtype and its last before 1, as PyTorch has them."""
    result = finfo(dtype)
    return result.tiny, 1.0 - result.eps


def _clipped_sigmoid(x: Any) -> Any:
    low, high = _bounds(x.dtype)
    return _sigmoid_within(x, low, high)


class _Alike(Transform):
    """A transform without parameters: two of its class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class ExpTransform(_Alike):
    """y = exp(x), of real to positive numbers.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import ExpTransform
    >>> ExpTransform()(flambeau.zeros(2))
    tensor([1., 1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers; a number or a tensor, which broadcasts.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1; `exponent` is neither a number nor a tensor

    >>> import flambeau
    >>> from flambeau.distributions.transforms import PowerTransform
    >>> PowerTransform(2.0)(flambeau.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return (
            self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)
        )

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _power_jacobian(x, y, self.exponent)

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(_Alike):
    """y = 1 / (1 + exp(-x)), kept inside of (0, 1) by one step of the dtype; the inverse is logit(y).

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import SigmoidTransform
    >>> SigmoidTransform()(flambeau.tensor([0.0, 200.0]))
    tensor([0.5000, 1.0000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        low, high = _bounds(y.dtype)
        return _logit_within(y, low, high)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _sigmoid_jacobian(x)


class SoftplusTransform(_Alike):
    """y = log(1 + exp(x)), of real to positive numbers.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import SoftplusTransform
    >>> SoftplusTransform()(flambeau.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return _softplus(x)

    def _inverse(self, y: Any) -> Any:
        return _softplus_inverse(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _minus_softplus_of_minus(x)


class TanhTransform(_Alike):
    """y = tanh(x).  The inverse of what was rounded to 1 is infinite: use `cache_size=1` where that may happen.

    The Jacobian is 2 (log 2 - x - softplus(-2x)), which is stable for all x.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import TanhTransform
    >>> TanhTransform()(flambeau.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _tanh_jacobian(x)


class AbsTransform(_Alike):
    """y = |x|, which is no bijection; the inverse is the positive branch.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1
        NotImplementedError: the logarithm of the Jacobian is wanted

    >>> import flambeau
    >>> from flambeau.distributions.transforms import AbsTransform
    >>> AbsTransform()(flambeau.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale · x, for numbers or tensors, which broadcast; the last `event_dim` dimensions are one event.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import AffineTransform
    >>> t = AffineTransform(1.0, flambeau.tensor([2.0, -2.0]))
    >>> t(flambeau.ones(2)), t.sign
    (tensor([ 3., -1.]), tensor([ 1., -1.]))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        """Where the arguments lie."""
        return (
            constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real
        )

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        """Where the results lie."""
        return (
            constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real
        )

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _all_equal(self.loc, other.loc) and _all_equal(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, (int, float)):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return _affine(x, self.loc, self.scale)

    def _inverse(self, y: Any) -> Any:
        return _affine_inverse(y, self.loc, self.scale)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shape, scale = x.shape, self.scale
        if isinstance(scale, (int, float)):
            result = full_like(x, math.log(abs(scale)))
        else:
            result = scale.abs().log()
        if self.event_dim:
            result = result.view((*result.shape[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _all_equal(a: Any, b: Any) -> bool:
    equal = a == b
    return equal if isinstance(equal, bool) else bool(equal.all())


# --- vectors -----------------------------------------------------------------------------------------------------------
class SoftmaxTransform(_Alike):
    """y = softmax(x) over the last dimension: real vectors to the simplex.  No bijection; the inverse is log(y).

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import SoftmaxTransform
    >>> SoftmaxTransform()(flambeau.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise too_few_dimensions()
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Alike):
    """Real vectors of n numbers to the simplex of n + 1: each number says which part of what is left is broken off.

    zᵢ = sigmoid(xᵢ - log(n - i)), yᵢ = zᵢ Π_{j<i} (1 - zⱼ), and what is left is the last (Stan Reference Manual, "Unit
    simplexes").  A bijection, so that x = 0 gives equal parts.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import StickBreakingTransform
    >>> StickBreakingTransform()(flambeau.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _left(x: Any, n: int) -> Any:
        """log n, …, log 1."""
        return arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        z = _broken_off(x, self._left(x, x.shape[-1]), *_bounds(x.dtype))
        return pad(z, [0, 1], value=1) * pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        broken = y[..., :-1]
        left = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)  # rounding may leave nothing
        return broken.log() - left.log() + self._left(y, y.shape[-1] - 1)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._left(x, x.shape[-1])
        return (_minus_softplus_of_minus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise too_few_dimensions()
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise too_few_dimensions()
        return shape[:-1] + (shape[-1] - 1,)


# --- matrices ----------------------------------------------------------------------------------------------------------
class CorrCholeskyTransform(Transform):
    """Real vectors of d(d-1)/2 numbers to Cholesky factors of d × d correlation matrices.

    The numbers fill the part below the diagonal row by row; with z = tanh(x), yᵢⱼ = zᵢⱼ Π_{k<j} √(1 - zᵢₖ²), and the diagonal
    is what makes each row's norm 1 (Stan Reference Manual, "Cholesky factors of correlation matrices").  The Jacobian is that
    of the part below the diagonal.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import CorrCholeskyTransform
    >>> CorrCholeskyTransform()(flambeau.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return t.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        return 0.5 * left.log().sum(-1) + _tanh_jacobian(x).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise too_few_dimensions()
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise too_few_dimensions()
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        d = shape[-1]
        return shape[:-2] + (d * (d - 1) // 2,)


class LowerCholeskyTransform(_Alike):
    """Square matrices to lower-triangular ones with positive diagonals: what is above is dropped, the diagonal's exp taken.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import LowerCholeskyTransform
    >>> LowerCholeskyTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Alike):
    """Square matrices to positive-definite ones: L Lᵀ of the factor that `LowerCholeskyTransform` makes.

    Raises:
        ValueError: `cache_size` is neither 0 nor 1

    >>> import flambeau
    >>> from flambeau.distributions.transforms import PositiveDefiniteTransform
    >>> PositiveDefiniteTransform()(flambeau.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))
