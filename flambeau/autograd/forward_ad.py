"""Forward mode: tangents travel with the values.

>>> import flambeau
>>> import flambeau.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     x = fwAD.make_dual(flambeau.tensor([1., 2.]), flambeau.tensor([1., 10.]))
...     fwAD.unpack_dual(x * x).tangent
tensor([ 2., 40.])

Every operation that has a derivative has a tangent: pointwise operations by a kernel of their own, made from the same
declaration as their gradient, the others by the adjoint of their gradient, which is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core import tape as _tape
from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import has_interceptors

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A dual tensor's parts; `tangent` is None for a tensor that is not dual."""

    primal: TensorBase
    tangent: TensorBase | None


_entered: list = []  # the level that `enter_dual_level` opened


def enter_dual_level() -> int:
    """Open a level, in which dual tensors exist; RuntimeError where one is open: levels that are entered do not nest, transforms
    of `func` do.

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> x = forward_ad.make_dual(flambeau.tensor([3.0]), flambeau.tensor([1.0]))
    >>> forward_ad.unpack_dual(2 * x).tangent
    tensor([2.])
    >>> forward_ad.exit_dual_level(level=level)
    """
    if _entered:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _entered.append(_tape.open_forward_level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: tangents are dropped, dual tensors stay as plain ones.

    Raises:
        RuntimeError: no level is open, or `level` is not the open one

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> x = forward_ad.make_dual(flambeau.tensor([3.0]), flambeau.tensor([1.0]))
    >>> forward_ad.exit_dual_level(level=level)
    >>> forward_ad.unpack_dual(x).tangent is None
    True
    """
    if not _entered or level not in (None, 0):
        raise RuntimeError(
            "exit_dual_level(): Trying to exit a forward AD level that was not the last one that was created. This is not "
            "supported."
        )
    _tape.close_forward_level(_entered.pop())


@contextmanager
def inner_level() -> Iterator[Any]:
    """A level inside of those that are open."""
    level = _tape.open_forward_level()
    try:
        yield level
    finally:
        _tape.close_forward_level(level)


class dual_level:
    """The block in which dual tensors exist.

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(flambeau.tensor([3.0]), flambeau.tensor([1.0]))
    ...     tangent = forward_ad.unpack_dual(x * x).tangent
    >>> tangent
    tensor([6.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> TensorBase:
    """A view of `tensor` that carries `tangent`.

    RuntimeError outside of a level, for a tensor that has a tangent there and for another shape, ValueError for dtypes
    that have no derivative, TypeError for a tangent of another dtype.

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(flambeau.tensor([3.0]), flambeau.tensor([1.0]))
    ...     tangent = forward_ad.unpack_dual(x**2).tangent
    >>> tangent
    tensor([6.])
    """
    levels = _tape.open_levels()
    if not levels or (level is not None and level < 0):
        raise RuntimeError(
            "make_dual(): Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    if parts(tensor, levels[-1])[1] is not None:
        raise RuntimeError(
            "make_dual(): Making a dual Tensor based on a Tensor that already has a forward gradient at the same level is not "
            "supported."
        )
    return dual(tensor, tangent, levels[-1])


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """A dual tensor's primal and tangent; the tensor itself and None for any other.

    Shape:
        tensor: any; primal and tangent have the same

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(flambeau.tensor([3.0]), flambeau.tensor([1.0]))
    ...     primal, tangent = forward_ad.unpack_dual(x.exp().log())
    >>> primal, tangent
    (tensor([3.]), tensor([1.]))
    """
    levels = _tape.open_levels()
    if not levels or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*parts(tensor, levels[-1]))


# --- in a level of those that are open ------------------------------
def dual(tensor: TensorBase, tangent: TensorBase, level: Any) -> TensorBase:
    """A view of `tensor` with that tangent."""
    if has_interceptors() and (tensor._is_batched or tangent._is_batched):
        return callbacks["dual tensor of slices"](tensor, tangent, level)
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(
                f"make_dual(): Expected {name} to be floating point or complex, but got: {t.dtype}"
            )
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "make_dual(): Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}."
        )
    if tensor.dtype != tangent.dtype:
        raise TypeError(
            f"make_dual(): Expected tangent to have the dtype of the primal, {tensor.dtype}, but got {tangent.dtype}"
        )
    return _tape.make_dual(tensor, tangent, level)


def parts(tensor: TensorBase, level: Any) -> tuple[TensorBase, TensorBase | None]:
    """The tensor without its tangent, and the tangent."""
    if has_interceptors() and tensor._is_batched:
        return callbacks["parts of a dual tensor of slices"](tensor, level)
    return _tape.unpack_dual(tensor, level)


def renewed(
    x: TensorBase, change: Callable, of_tangent: Callable = lambda t: t, levels: list | None = None
) -> TensorBase:
    """`change` of a tensor that has no tangents any more, with x's tangents, or what `of_tangent` makes of them."""
    levels = _tape.open_levels() if levels is None else levels
    for n in reversed(range(len(levels))):
        primal, tangent = parts(x, levels[n])
        if tangent is not None:
            return dual(renewed(primal, change, of_tangent, levels[:n]), of_tangent(tangent), levels[n])
    return change(x)


def leaf_under(x: TensorBase) -> TensorBase:
    """A leaf with x's elements that requires grad, with x's tangents."""
    return renewed(x, lambda primal: primal.detach().requires_grad_())


for _function in (dual, parts):
    vars(_function)["_captured_as_it_is"] = True
