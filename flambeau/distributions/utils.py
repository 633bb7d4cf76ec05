"""What distributions share: parameters of one shape, probabilities and logits, properties computed once, triangular matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..core.base.device import get_default_device
from ..core.base.dtypes import get_default_dtype
from ..core.base.tensor import TensorBase
from ..core.base.typeinfo import finfo
from ..core.make.create import arange, empty, tensor
from ..operations.moving.shaping import broadcast_shapes
from ..operations.rows.softmax import softmax

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, TensorBase) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape, as a tuple.

    Numbers (int, float, complex, bool) become tensors of the dtype and device of the first tensor; where there is none,
    scalars of the default dtype.  Tensors keep their dtypes.  ValueError for anything else, RuntimeError where shapes do not
    broadcast.

    >>> import flambeau
    >>> from flambeau.distributions.utils import broadcast_all
    >>> broadcast_all(flambeau.zeros(2), 1.0)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    first = None
    numbers = False
    for value in values:
        if isinstance(value, TensorBase):
            if first is None:
                first = value
        elif isinstance(value, (int, float, complex)):
            numbers = True
        elif not _is_tensor_like(value):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing"
                f" __torch_function__, but got {type(value).__name__}."
            )
    if numbers:
        dtype, device = (
            (first.dtype, first.device) if first is not None else (get_default_dtype(), get_default_device())
        )
        values = tuple(
            tensor(v, dtype=dtype, device=device) if isinstance(v, (int, float, complex)) else v
            for v in values
        )
    shape = values[0].shape
    for value in values:
        if value.shape != shape:
            shape = broadcast_shapes(*[v.shape for v in values])
            return tuple([v if v.shape == shape else v.expand(shape) for v in values])
    return values


def _as_tensor(value: Any, like: Any) -> Any:
    """A tensor as it is; a number as a scalar of that tensor's dtype and device."""
    return value if isinstance(value, TensorBase) else tensor(value, dtype=like.dtype, device=like.device)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Unrecorded samples of the standard normal distribution."""
    return empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of logits, of the same shape: log odds where `is_binary`, else log weights along the last dimension.

    Raises:
        IndexError: the tensor has no dimensions, but with `is_binary`

    >>> import flambeau
    >>> from flambeau.distributions.utils import logits_to_probs
    >>> logits_to_probs(flambeau.zeros(2)), logits_to_probs(flambeau.tensor(0.0), is_binary=True)
    (tensor([0.5000, 0.5000]), tensor(0.5000))
    """
    return logits.sigmoid() if is_binary else softmax(logits, -1)


def clamp_probs(probs: Any) -> Any:
    """The probabilities brought into [eps, 1 - eps], eps of their dtype, so that logarithms are finite.

    Raises:
        TypeError: the argument is no tensor of floats

    >>> import flambeau
    >>> from flambeau.distributions.utils import clamp_probs
    >>> clamp_probs(flambeau.tensor([0.0, 0.5, 1.0], dtype=flambeau.float64))
    tensor([2.2204e-16, 5.0000e-01, 1.0000e+00], dtype=flambeau.float64)
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Logits of probabilities, of the same shape and finite: log odds where `is_binary`, else logarithms.

    Raises:
        TypeError: the argument is no tensor of floats

    >>> import flambeau
    >>> from flambeau.distributions.utils import probs_to_logits
    >>> probs_to_logits(flambeau.tensor([0.5, 1.0]), is_binary=True)
    tensor([ 0.0000, 15.9424])
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A method as an attribute that is computed, on the tape, when first requested, and kept on the object.

    Raises nothing.

    >>> from flambeau.distributions.utils import lazy_property
    >>> class Square:
    ...     @lazy_property
    ...     def area(self):
    ...         print("computed")
    ...         return 4
    >>> square = Square()
    >>> square.area + square.area
    computed
    8
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class settled_property(lazy_property):
    """A lazy property that is kept past `__setattr__`: elsewhere it is an attribute that `__init__` sets, so classes that look at
    writes (`hasattr` before each, say) may take it for one."""

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = instance.__dict__[self.wrapped.__name__] = self.wrapped(instance)
        return value


class _lazy_property_and_property(lazy_property, property):  # type: ignore[misc]
    """What the class shows: a property to those who document it, a lazy property to those who look for one."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements on and below diagonal `diag` of matrices (*, n, n), row by row: (*, elements).

    ValueError where `diag` is outside [-n, n - 1].

    >>> import flambeau
    >>> from flambeau.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(flambeau.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows = arange(n, device=mat.device)
    return mat[..., rows < rows.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices (*, n, n) whose elements on and below diagonal `diag` are those of vectors (*, elements), row by row.

    ValueError where no n has so many elements.

    >>> import flambeau
    >>> from flambeau.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(flambeau.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count = vec.shape[-1]
    # the positive root of n² + (1 + 2 diag) n - |diag| (diag + 1) - 2 count = 0
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > 1e-9:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    n = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    rows = arange(n, device=vec.device)
    mat[..., rows < rows.view(-1, 1) + (diag + 1)] = vec
    return mat


def lacking(thing: Any, name: str) -> NotImplementedError:
    """The error for what a distribution or transform has no formula of."""
    return NotImplementedError(f"{type(thing).__name__}.{name} is not implemented")
