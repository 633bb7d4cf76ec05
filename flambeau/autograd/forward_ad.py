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

from typing import Any, NamedTuple

from ..core import tape as _tape
from ..core.base.provided import provided
from ..core.base.tensor import TensorBase
from ..core.call.watching import is_watched

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_level = -1


class UnpackedDualTensor(NamedTuple):
    """A dual tensor's parts; `tangent` is None for a tensor that is not dual."""

    primal: TensorBase
    tangent: TensorBase | None


def enter_dual_level() -> int:
    """Open a level, in which dual tensors exist; RuntimeError where one is open: levels do not nest."""
    global _level
    _tape.open_forward_level()
    _level = 0
    return _level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: tangents are dropped, dual tensors stay as plain ones."""
    global _level
    if _level < 0 or (level is not None and level != _level):
        raise RuntimeError(
            "exit_dual_level(): Trying to exit a forward AD level that was not the last one that was created. This is not "
            "supported."
        )
    _tape.close_forward_level()
    _level = -1


class dual_level:
    """The block in which dual tensors exist."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> TensorBase:
    """A view of `tensor` that carries `tangent`.

    RuntimeError outside of a level and for another shape, ValueError for dtypes that have no derivative,
    TypeError for a tangent of another dtype.
    """
    if _level < 0 if level is None else level < 0:
        raise RuntimeError(
            "make_dual(): Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    if is_watched() and (tensor._in_slices or tangent._in_slices):
        return provided["dual tensor of slices"](tensor, tangent)
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(
                f"make_dual(): Expected {name} to be floating point or complex, but got: {t.dtype}"
            )
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            f"make_dual(): Expected tangent to have the shape of the primal, {tuple(tensor.shape)}, but got "
            f"{tuple(tangent.shape)}"
        )
    if tensor.dtype != tangent.dtype:
        raise TypeError(
            f"make_dual(): Expected tangent to have the dtype of the primal, {tensor.dtype}, but got {tangent.dtype}"
        )
    return _tape.make_dual(tensor, tangent)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """A dual tensor's primal and tangent; the tensor itself and None for any other."""
    if _level < 0 if level is None else level < 0:
        return UnpackedDualTensor(tensor, None)
    if is_watched() and tensor._in_slices:
        return UnpackedDualTensor(*provided["parts of a dual tensor of slices"](tensor))
    return UnpackedDualTensor(*_tape.unpack_dual(tensor))
