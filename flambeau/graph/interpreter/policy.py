"""What an interpreter has to know of functions in C and of classes that are not Python's own."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import os
import re
import types
from collections.abc import Callable
from typing import Any

from ..sources import Guard, Source

# Classes whose instances do nothing but hold values; their methods change nothing but the instance.
CONTAINERS: tuple[Any, ...] = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    collections.OrderedDict,
    collections.deque,
    collections.defaultdict,
    types.MappingProxyType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
VALUES: tuple[Any, ...] = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    bytearray,
    type(None),
    range,
    slice,
    object,
    types.SimpleNamespace,
    types.GeneratorType,
    BaseException,
    re.Pattern,
    re.Match,
    *CONTAINERS,
)
_EMPTY: tuple[Any, ...] = ([], (), {}, {}.keys(), {}.values(), {}.items(), set(), "", b"", range(0))
ITERATORS: tuple[Any, ...] = (
    zip,
    enumerate,
    reversed,
    map,
    filter,
    *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
    *(type(iter(x)) for x in _EMPTY),
    type(reversed([])),
    type(reversed({})),
)
GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
CONSTRUCTED = frozenset((*VALUES, *ITERATORS, functools.partial, *GETTERS)) - {
    map,
    filter,
    types.GeneratorType,
    BaseException,
    re.Pattern,
    re.Match,
}

# Methods that change the object that they are called on.
WRITES = {
    list: "append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__ __init__",
    dict: "pop popitem clear update setdefault __setitem__ __delitem__ __ior__ __init__ move_to_end",
    set: "add discard remove pop clear update intersection_update difference_update symmetric_difference_update "
    "__ior__ __iand__ __isub__ __ixor__ __init__",
    collections.deque: "append appendleft extend extendleft insert pop popleft remove rotate clear reverse "
    "__setitem__ __delitem__ __iadd__ __imul__ __init__",
    bytearray: "append extend insert pop remove clear reverse __setitem__ __delitem__ __iadd__ __imul__ __init__",
    property: "__init__ __set_name__",
    object: "__setattr__ __delattr__ send throw close __next__",
}
WRITING = {kind: frozenset(names.split()) for kind, names in WRITES.items()}

# Methods of items that containers call.
CALLED_BY_CONTAINERS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")

# Functions of which neither result nor side effect depends on more than their arguments, which they read whole.
PURE = frozenset(
    (
        *(f for m in (math, operator) for f in vars(m).values() if isinstance(f, types.BuiltinFunctionType)),
        abs, all, any, ascii, bin, bool, chr, divmod, format, hash, hex, max, min, oct, ord, pow, repr, round, sorted, sum, os.fspath,
        functools.cmp_to_key,
    )
)  # fmt: skip


def writes(kind: type, name: str) -> bool:
    """Whether a method in C changes the object that it is called on."""
    return any(name in names for base, names in WRITING.items() if issubclass(kind, base))


class Policy:
    """What is known beside Python's own classes and functions; this one knows nothing.

    Raises nothing.

    >>> from flambeau.graph.interpreter import Machine, Policy
    >>> class Silent(Policy):
    ...     def is_native(self, value):
    ...         return value is print
    >>> machine = Machine(Silent())
    >>> machine.call(lambda: print("seen"), (), {})
    seen
    >>> machine.refusal is None
    True
    """

    def is_constant(self, value: Any) -> bool:
        """Whether equality is all that a program can tell of values of this class, which never change."""
        return False

    def is_pinned(self, value: Any) -> bool:
        """Whether a value is guarded by its identity, as functions and classes are."""
        return False

    def is_input(self, value: Any) -> bool:
        """Whether `input` guards the class and all that can be read of a value in C."""
        return False

    def input(self, value: Any, source: Source) -> Guard | None:
        """The guard of an object from outside that the program meets for the first time; None for ordinary ones."""
        return None

    def is_native(self, value: Any) -> bool:
        """Whether a function or a class is called as it is: it has no side effects, and reads its arguments and what `input` guards."""
        return False

    def is_native_object(self, value: Any) -> bool:
        """Whether attributes and operators of a value are computed in C and depend on nothing else."""
        return False

    def is_variable(self, result: Any) -> bool:
        """Whether a descriptor of a native object reads what `input` does not guard."""
        return False

    def members(self, value: Any) -> tuple[str, ...]:
        """Dicts in an object's `__dict__` that are searched for attributes after its class."""
        return ()

    def may_write(self, value: Any, name: str) -> bool:
        """Whether an attribute of a native object may be written to, which `is_variable` does not tell of."""
        return False

    def replaced(self, function: Any) -> Any:
        """What is interpreted in place of a function in C: a function in Python, or None."""
        return None

    def call_with_numbers(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: list[float]
    ) -> tuple[Any, bool]:
        """What a function in C returns, and whether these numbers among its arguments may be others when it is called again."""
        return function(*args, **kwargs), False

    def is_exact(self, function: Any, args: tuple[float, ...]) -> bool:
        """Whether a function of numbers may be called within a run, with the numbers that are found there."""
        return False

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A native call; what it writes to objects that were there before is noted in `Reads.written`."""
        return function(*args, **kwargs)

    def unseen(self, call: Callable[[], Any]) -> tuple[Any, bool]:
        """What a function gives that is not interpreted, and whether nothing was recorded meanwhile."""
        return call(), True

    def refuses(self, function: Any, args: tuple[Any, ...]) -> str | None:
        """Why a call, which is native otherwise, cannot be captured."""
        return None
