"""NumPy in a captured function: it computes with arrays that the call makes; those from outside are guarded by their elements."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..sources import Computed, Equals, Source
from .code import NULL

if TYPE_CHECKING:
    from .calls import Calls
    from .reads import Reads

LARGEST = 4096  # bytes of an array that is compared at each call
# Functions that call what they are given, depend on more than their arguments, or have other effects than on these.
_OTHERS = frozenset(
    "frompyfunc vectorize apply_along_axis apply_over_axes piecewise fromfunction load loadtxt genfromtxt fromregex save savez "
    "savez_compressed savetxt fromfile memmap show_config show_runtime info test printoptions get_printoptions set_printoptions errstate "
    "seterr geterr seterrcall geterrcall setbufsize getbufsize may_share_memory shares_memory from_dlpack frombuffer nditer nested_iters "
    "ndenumerate array2string array_repr array_str datetime_as_string busday_count block_info".split()
)
_WRITING = frozenset(
    "copyto put place putmask put_along_axis fill_diagonal".split()
)  # to their first argument
_OTHER_METHODS = frozenset(
    "dump dumps tofile __setstate__ __reduce__ __reduce_ex__ __array_wrap__ __array_finalize__".split()
)
_CLASSES = frozenset((bool, int, float, complex, str, bytes))  # that stand for dtypes
_CHANGING = frozenset("fill sort put resize partition itemset setfield setflags byteswap".split())


def is_array(value: Any) -> bool:
    """Whether a value is an array or a scalar of NumPy's own classes, which hold no objects of Python."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    kind = type(value)
    return (kind is numpy.ndarray and not value.dtype.hasobject) or (
        issubclass(kind, numpy.generic)
        and kind.__module__ == "numpy"
        and kind not in (numpy.void, numpy.object_)
    )


def elements(value: Any) -> Any:
    """What tells an array from others: class, dtype, shape, strides and elements; None for another object."""
    if not is_array(value):
        return None
    return (type(value), value.dtype.str, value.shape, value.strides, value.tobytes())


def guarded(source: Source, value: Any) -> Equals | None:
    """The guard of an array from outside; None where it is too large to be compared at each call."""
    if value.nbytes > LARGEST:
        return None
    return Equals(Computed(elements, (source,)), elements(value))


def is_function(function: Any) -> bool:
    """Whether a function of NumPy, or a class of its scalars, depends on its arguments alone."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    if isinstance(function, type):
        return issubclass(function, (numpy.generic, numpy.dtype)) and function.__module__.startswith("numpy")
    name = getattr(function, "__name__", None)
    if isinstance(function, types.FunctionType) or not isinstance(name, str) or name in _OTHERS:
        return False
    return any(getattr(module, name, None) is function for module in (numpy, numpy.linalg))


def called(m: Calls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function or method of NumPy makes of numbers, strings, containers of them and arrays; NULL where it is given anything else,
    or writes to an array from outside.
    """
    given = list(_items((args, kwargs)))
    arrays = [value for value in given if is_array(value)]
    for value in given:
        known = m.reads.constant(value) or is_array(value) or is_dtype(value)
        if not known and not (isinstance(value, type) and (value in _CLASSES or is_function(value))):
            return NULL
    writes = function.__name__ in _WRITING or function.__name__ in _CHANGING or "out" in kwargs
    if writes or len(args) > getattr(function, "nin", len(args)):
        if any(m.reads.is_outside(value) for value in arrays):
            return NULL
    m.reads.fix((args, kwargs))
    for value in (*args, *kwargs.values()):
        m.reads.open(value, True)
    for value in arrays:
        m.transparent(value, "reads")
    return seen_through(m.reads, function(*args, **kwargs), arrays)


def seen_through(reads: Reads, made: Any, arrays: Iterable[Any]) -> Any:
    """What was made of these arrays; a view of one from outside, writes to which are writes to that, is noted as such."""
    outside = [a for a in arrays if is_array(a) and reads.is_outside(a)]
    if outside and is_array(made) and any(sys.modules["numpy"].may_share_memory(made, a) for a in outside):
        reads.aliases[id(made)] = made
    return made


def _items(value: Any, depth: int = 0) -> Iterator[Any]:
    """A value that is no list, tuple or dict, or those in it."""
    if type(value) in (list, tuple, dict) and depth < 8:
        for item in value.values() if type(value) is dict else value:
            yield from _items(item, depth + 1)
    elif type(value) is not slice:
        yield value


def is_dtype(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.dtype)


def has_method(of: Any, name: str) -> bool:
    """Whether a method of an array or scalar depends on it and its arguments alone."""
    return is_array(of) and name not in _OTHER_METHODS
