"""The extension `fft` of the standard: today's transforms, whose axes are called `axis` and `axes` here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..core.base.dtypes import dtype
from ..operations.declare.registry import published

_fft = SimpleNamespace(**published("fft."))
# Those that no function here defines are today's transforms of the same names.
__all__ = (
    """fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn""".split()
)


def _transform(name: str, operation: Callable) -> Callable:
    def along_one(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return operation(x, n, axis, norm)

    def along_several(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        return operation(x, s, axes, norm)

    one = "n" in inspect.signature(operation).parameters
    function, where = (along_one, "one axis") if one else (along_several, "several axes, all for None")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of the array API standard: `flambeau.fft.{name}` along {where}."
    return function


def fftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Any:
    """The frequencies of `fft` of `n` samples at distance `d`, the positive ones first.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Any:
    """The frequencies of `rfft` of `n` samples at distance `d`.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Frequencies in ascending order: the zero moves to the middle of each axis.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().fft.fftshift(flambeau.tensor([0, 1, -2, -1]))
    tensor([-2, -1,  0,  1])
    """
    return _fft.fftshift(x, axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of `fftshift`.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().fft.ifftshift(flambeau.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return _fft.ifftshift(x, axes)


globals().update({name: _transform(name, getattr(_fft, name)) for name in __all__ if name not in globals()})
