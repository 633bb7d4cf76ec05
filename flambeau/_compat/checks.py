"""Checks that programs and libraries write with `torch._check` and its kin: an error of a given class where a condition is false."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .._symbols.numbers import SymBool
from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import by_name
from ..overrides import handle_torch_function, has_torch_function

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: bool, message: Message = None) -> None:
    """Raises `error_type` with the text of `message()` unless `cond`, a bool, is true.

    >>> from flambeau._compat.checks import _check_with
    >>> _check_with(KeyError, 2 > 1, lambda: "two")
    """
    if isinstance(cond, SymBool):
        cond.tracer.demanded(cond, None if message is None else str(message()))
        return
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use "
                f"{display.NAME}._check_tensor_all() to assert that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if not (isinstance(error_type, type) and issubclass(error_type, Exception)) or issubclass(
        error_type, Warning
    ):
        raise AssertionError(f"error_type must be a subclass of Exception but not Warning, got {error_type}")
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: bool, message: Message = None) -> None:
    """RuntimeError unless `cond`; `message` is a function of nothing that gives its text.

    >>> import flambeau
    >>> flambeau._check(1 + 1 == 2, lambda: "arithmetic is broken")
    """
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """RuntimeError unless 0 <= i (<= max); with a FutureWarning, as PyTorch will drop it."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release. Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message = None) -> None:
    """`error_type` unless all elements of `cond`, a tensor of bools, are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    wanted = by_name["bool"]
    if cond.dtype != wanted:
        raise TypeError(f"cond tensor must have dtype {wanted}, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """RuntimeError unless all elements of `cond`, a tensor of bools, are true.

    >>> import flambeau
    >>> flambeau._check_tensor_all(flambeau.tensor([1, 2]) > 0)
    """
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> Any:
    """AssertionError with `message` unless `condition` is true; classes of tensors and modes may answer.

    >>> import flambeau
    >>> flambeau._assert(2 > 1, "two is more")
    """
    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)
    return None


def _assert_async(condition: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError unless `condition`, a tensor of one element, is not 0; on devices PyTorch raises it later.

    >>> import flambeau
    >>> flambeau._assert_async(flambeau.tensor(True))
    """
    if not isinstance(condition, Tensor):
        raise TypeError(f"_assert_async(): argument 'input' must be Tensor, not {type(condition).__name__}")
    if condition.numel() != 1:
        kind = "no values" if condition.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    if not bool(condition):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")
