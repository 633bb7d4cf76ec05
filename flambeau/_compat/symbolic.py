"""Numbers that may stand for sizes: `sym_int` and its kin on Python's own numbers.

Sizes are always numbers here, so nothing is an instance of `SymInt`, `SymFloat` or `SymBool`; they are there for the
`isinstance` of programs that also run under PyTorch's compiler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class _Symbol:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}: there are no symbolic sizes; a size is a Python number")


class SymInt(_Symbol):
    """PyTorch's symbolic integer: nothing here is one.

    Raises:
        NotImplementedError: one is made

    >>> isinstance(3, SymInt)
    False
    """


class SymFloat(_Symbol):
    """PyTorch's symbolic real number: nothing here is one.

    Raises:
        NotImplementedError: one is made

    >>> isinstance(3.0, SymFloat)
    False
    """


class SymBool(_Symbol):
    """PyTorch's symbolic truth value: nothing here is one.

    Raises:
        NotImplementedError: one is made

    >>> isinstance(True, SymBool)
    False
    """


def sym_int(a: Any) -> int:
    """`int(a)`.

    Raises:
        ValueError: the argument is NaN, or a text that is no integer
        TypeError: it is no number
        OverflowError: it is infinite

    >>> sym_int(2.7)
    2
    """
    return int(a)


def sym_float(a: Any) -> float:
    """`float(a)`.

    Raises:
        ValueError: the argument is a text that is no number
        TypeError: it is no number

    >>> sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """`not a`.

    Raises:
        RuntimeError: the argument is a tensor of several elements

    >>> sym_not(False)
    True
    """
    return not a


def _numbers(name: str, *given: Any) -> bool:
    """Whether one of them is a float; TypeError unless all are numbers."""
    for a in given:
        if not isinstance(a, (int, float)):
            raise TypeError(f"{name}(): expected int or float, got {type(a).__name__}")
    return any(isinstance(a, float) for a in given)


def sym_max(a: float, b: float) -> float:
    """The larger of two numbers; a float if one of them is, whichever is larger.

    Raises:
        TypeError: an argument is neither int nor float

    >>> sym_max(3, 2.0)
    3.0
    """
    return float(max(a, b)) if _numbers("sym_max", a, b) else max(a, b)


def sym_min(a: float, b: float) -> float:
    """The smaller of two numbers; a float if one of them is, whichever is smaller.

    Raises:
        TypeError: an argument is neither int nor float

    >>> sym_min(2, 3.0)
    2.0
    """
    return float(min(a, b)) if _numbers("sym_min", a, b) else min(a, b)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b` else `f`, which must be of one type; TypeError otherwise.

    >>> sym_ite(True, 1, 2)
    1
    """
    if not isinstance(b, bool) or type(t) is not type(f):
        raise TypeError(
            f"sym_ite(): expected a bool and two values of one type, got {type(b).__name__}, {type(t).__name__}, {type(f).__name__}"
        )
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given apart or as one sequence.

    Raises:
        TypeError: an argument cannot be added to a number

    >>> sym_sum(1, 2, 3), sym_sum([1, 2, 3])
    (6, 6)
    """
    if len(args) == 1 and isinstance(args[0], Sequence):
        return sum(args[0])
    return sum(args)


def sym_sqrt(a: float) -> float:
    """The square root of a number.

    Raises:
        ValueError: the number is negative
        TypeError: the argument is no number

    >>> sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)
